//! Which thinking levels a model knows, and the provider's words for them.
//!
//! Pure. The rules are pi's: a model's `thinkingLevelMap` names the provider's word for a level, `null` marks a level
//! as unsupported, and `xhigh` and `max` exist only where the map names them.

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::model::Model;
use serde_json::Value;

/// Returns the levels that a model supports, least first; never empty.
pub fn supported_levels(model: &Model) -> Vec<ThinkingLevel> {
    if !model.reasoning {
        return vec![ThinkingLevel::Off];
    }
    let levels: Vec<_> = ThinkingLevel::ALL.into_iter().filter(|level| supports(model, *level)).collect();
    if levels.is_empty() { vec![ThinkingLevel::Off] } else { levels }
}

/// Returns the supported level after `level`, the first after the last; `None` when there is no other.
pub fn next_level(model: &Model, level: ThinkingLevel) -> Option<ThinkingLevel> {
    let supported = supported_levels(model);
    let place = supported.iter().position(|candidate| *candidate == level);
    let next = supported[place.map_or(0, |place| (place + 1) % supported.len())];
    (next != level).then_some(next)
}

/// Returns the supported level nearest to the one asked for: the next one up, else the next one down.
pub fn clamp_level(model: &Model, level: ThinkingLevel) -> ThinkingLevel {
    let supported = supported_levels(model);
    let up = supported.iter().find(|candidate| **candidate >= level);
    up.or(supported.last()).copied().unwrap_or(ThinkingLevel::Off)
}

/// Returns the provider's word for a level. `off` has one only where the model's map names it.
pub fn effort_word(model: &Model, level: ThinkingLevel) -> Option<&str> {
    match mapped(model, level) {
        Some(Value::String(word)) => Some(word),
        Some(_) => None,
        None if level == ThinkingLevel::Off => None,
        None => Some(level.as_str()),
    }
}

fn supports(model: &Model, level: ThinkingLevel) -> bool {
    match mapped(model, level) {
        Some(Value::Null) => false,
        Some(_) => true,
        None => level < ThinkingLevel::Xhigh,
    }
}

fn mapped(model: &Model, level: ThinkingLevel) -> Option<&Value> {
    model.thinking_level_map.as_ref()?.get(level.as_str())
}

#[cfg(test)]
mod tests {
    use agentd_protocol::message::ThinkingLevel::{High, Low, Max, Medium, Minimal, Off, Xhigh};
    use agentd_protocol::model::ModelCost;
    use serde_json::json;

    use super::*;

    fn model(reasoning: bool, map: Option<Value>) -> Model {
        Model {
            id: "m".into(),
            name: "m".into(),
            api: "openai-completions".into(),
            provider: "p".into(),
            base_url: String::new(),
            reasoning,
            input: vec!["text".into()],
            cost: ModelCost::default(),
            context_window: 128_000,
            max_tokens: 16_384,
            thinking_level_map: map,
            prompt_cache: None,
            compat: None,
        }
    }

    #[test]
    fn levels_of_a_model() {
        let some = Some(json!({"minimal": null, "xhigh": "max", "off": "none"}));
        for (name, reasoning, map, expected) in [
            ("no reasoning", false, None, vec![Off]),
            ("no reasoning, map ignored", false, some.clone(), vec![Off]),
            ("no map", true, None, vec![Off, Minimal, Low, Medium, High]),
            ("map", true, some, vec![Off, Low, Medium, High, Xhigh]),
            ("max", true, Some(json!({"max": "max"})), vec![Off, Minimal, Low, Medium, High, Max]),
            ("always thinks", true, Some(json!({"off": null, "minimal": null, "low": null})), vec![Medium, High]),
        ] {
            assert_eq!(supported_levels(&model(reasoning, map)), expected, "{name}");
        }
    }

    #[test]
    fn a_level_is_clamped_up_then_down() {
        let holes = Some(json!({"off": null, "minimal": null, "medium": null}));
        for (name, map, asked, expected) in [
            ("xhigh is not there", None, Xhigh, High),
            ("supported", None, Low, Low),
            ("off is not there", holes.clone(), Off, Low),
            ("hole", holes, Medium, High),
            ("max beyond a hole", Some(json!({"max": "max"})), Xhigh, Max),
        ] {
            assert_eq!(clamp_level(&model(true, map), asked), expected, "{name}");
        }
        assert_eq!(clamp_level(&model(false, None), High), Off);
    }

    #[test]
    fn levels_are_gone_through_in_a_circle() {
        let holes = Some(json!({"minimal": null, "medium": null}));
        for (name, reasoning, map, level, expected) in [
            ("up", true, None, Off, Some(Minimal)),
            ("around", true, None, High, Some(Off)),
            ("over a hole", true, holes.clone(), Low, Some(High)),
            ("from a level that is not there", true, holes, Medium, Some(Off)),
            ("only one", false, None, Off, None),
        ] {
            assert_eq!(next_level(&model(reasoning, map), level), expected, "{name}");
        }
    }

    #[test]
    fn words_of_the_provider() {
        let plain = model(true, None);
        assert_eq!(effort_word(&plain, Medium), Some("medium"));
        assert_eq!(effort_word(&plain, Off), None);
        let mapped = model(true, Some(json!({"off": "none", "xhigh": "max", "low": null})));
        assert_eq!(effort_word(&mapped, Off), Some("none"));
        assert_eq!(effort_word(&mapped, Xhigh), Some("max"));
        assert_eq!(effort_word(&mapped, Low), None);
    }
}
