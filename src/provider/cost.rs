//! What tokens cost.
//!
//! Pure. Sums are made in the order in which pi makes them, so that stored figures agree to the last digit.

use agentd_protocol::message::{Cost, Usage};
use agentd_protocol::model::ModelCost;

use super::spec::{CostTier, ModelSpec};

/// Prices are per this many tokens.
const TOKENS_PER_PRICE: f64 = 1_000_000.0;

/// Returns `usage` with its total and its cost. `reported` is a total that the provider itself named.
pub(super) fn priced(mut usage: Usage, spec: &ModelSpec, reported: Option<f64>) -> Usage {
    usage.total_tokens =
        usage.input.saturating_add(usage.output).saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let prices = prices(spec, &usage);
    let mut cost = Cost {
        input: part(prices.input, usage.input),
        output: part(prices.output, usage.output),
        cache_read: part(prices.cache_read, usage.cache_read),
        cache_write: cache_write(&prices, &usage),
        total: 0.0,
        total_from_provider: Some(reported.is_some()),
    };
    cost.total = reported.unwrap_or(cost.input + cost.output + cost.cache_read + cost.cache_write);
    usage.cost = cost;
    usage
}

/// What is kept for an hour costs twice the uncached input, whatever the price of the usual five minutes (Anthropic's
/// page on prompt caching).
fn cache_write(prices: &ModelCost, usage: &Usage) -> f64 {
    let one_hour = usage.cache_write_1h.unwrap_or(0).min(usage.cache_write);
    let usual = part(prices.cache_write, usage.cache_write - one_hour);
    if one_hour == 0 { usual } else { usual + part(prices.input * 2.0, one_hour) }
}

/// Chooses the prices for the size of the prompt.
fn prices(spec: &ModelSpec, usage: &Usage) -> ModelCost {
    let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let reached = |tier: &&CostTier| prompt > tier.input_tokens_above;
    spec.tiers.iter().rev().find(reached).map_or(spec.model.cost, |tier| tier.cost)
}

/// A price below zero is a placeholder for "unknown" in some catalogues; nothing ever costs less than nothing.
fn part(price: f64, tokens: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^53")]
    let tokens = tokens as f64;
    if price > 0.0 { price / TOKENS_PER_PRICE * tokens } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::provider::demo;

    fn spec(cost: ModelCost, tiers: Vec<CostTier>) -> ModelSpec {
        let mut spec = demo::spec();
        spec.model.cost = cost;
        spec.tiers = tiers;
        spec
    }

    const FAKE: ModelCost = ModelCost { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.25 };

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
        Usage { input, output, cache_read, cache_write, ..Usage::default() }
    }

    #[test]
    fn recorded_figures() {
        let usage = priced(usage(900, 60, 0, 0), &spec(FAKE, vec![]), None);
        assert_eq!(usage.total_tokens, 960);
        let json = serde_json::to_string(&usage.cost).unwrap();
        assert_eq!(
            json,
            r#"{"input":0.0009,"output":0.00011999999999999999,"cacheRead":0,"cacheWrite":0,"total":0.00102,"totalFromProvider":false}"#
        );
    }

    #[test]
    fn negative_prices_cost_nothing() {
        let unknown = ModelCost { input: -1.0, output: -1.0, cache_read: -1.0, cache_write: -1.0 };
        let usage = priced(usage(900, 60, 5, 5), &spec(unknown, vec![]), None);
        assert_eq!((usage.cost.input, usage.cost.total), (0.0, 0.0));
    }

    #[test]
    fn large_prompts_have_their_own_prices() {
        let tier = |above, input| CostTier { input_tokens_above: above, cost: ModelCost { input, ..FAKE } };
        let spec = spec(FAKE, vec![tier(100, 10.0), tier(200, 20.0)]);
        for (input, cache_read, price) in [(100, 0, 1.0), (101, 0, 10.0), (50, 51, 10.0), (201, 0, 20.0)] {
            let cost = priced(usage(input, 0, cache_read, 0), &spec, None).cost.input;
            assert!((cost - price * f64::from(u32::try_from(input).unwrap()) / 1e6).abs() < 1e-12, "{input}");
        }
    }

    #[test]
    fn a_prompt_kept_for_an_hour_costs_twice_its_input() {
        let usage = Usage { cache_write_1h: Some(400), ..usage(0, 0, 0, 1000) };
        let cost = priced(usage, &spec(FAKE, vec![]), None).cost;
        assert!((cost.cache_write - (600.0 * 1.25 + 400.0 * 2.0) / 1e6).abs() < 1e-12, "{}", cost.cache_write);
        assert!((cost.total - cost.cache_write).abs() < 1e-12);
    }

    #[test]
    fn a_total_named_by_the_provider_wins() {
        let cost = priced(usage(900, 60, 0, 0), &spec(FAKE, vec![]), Some(0.5)).cost;
        assert_eq!((cost.total, cost.total_from_provider), (0.5, Some(true)));
        assert_eq!(cost.input, 0.0009);
    }
}
