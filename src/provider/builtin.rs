//! What is known without any file: a few models, and the variables in which people keep their keys.
//!
//! Pure.

use super::models_json::{self, ProviderDef};

/// Environment variables that hold keys, with the provider they belong to (pi 1.6.0 reads the same).
///
/// Providers without built-in models are listed too: a `models.json` may describe them, and no tool should see their
/// keys.
pub(super) const KEY_VARIABLES: &[(&str, &str)] = &[
    ("openai", "OPENAI_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
    ("groq", "GROQ_API_KEY"),
    ("deepseek", "DEEPSEEK_API_KEY"),
    ("mistral", "MISTRAL_API_KEY"),
    ("xai", "XAI_API_KEY"),
    ("cerebras", "CEREBRAS_API_KEY"),
    ("moonshotai", "MOONSHOT_API_KEY"),
    ("zai", "ZAI_API_KEY"),
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("anthropic", "ANTHROPIC_AUTH_TOKEN"),
    ("anthropic", "ANTHROPIC_OAUTH_TOKEN"),
    ("azure", "AZURE_OPENAI_API_KEY"),
    ("google", "GEMINI_API_KEY"),
    ("google-vertex", "GOOGLE_CLOUD_API_KEY"),
    ("nvidia", "NVIDIA_API_KEY"),
    ("vercel-ai-gateway", "AI_GATEWAY_API_KEY"),
    ("minimax", "MINIMAX_API_KEY"),
    ("huggingface", "HF_TOKEN"),
    ("fireworks", "FIREWORKS_API_KEY"),
    ("together", "TOGETHER_API_KEY"),
    ("baseten", "BASETEN_API_KEY"),
    ("opencode", "OPENCODE_API_KEY"),
    ("kimi-coding", "KIMI_API_KEY"),
    ("meta", "META_API_KEY"),
    ("cloudflare-workers-ai", "CLOUDFLARE_API_KEY"),
    ("xiaomi", "XIAOMI_API_KEY"),
];

/// Returns the variables that hold keys of a provider.
pub(super) fn key_variables(provider: &str) -> impl Iterator<Item = &'static str> {
    KEY_VARIABLES.iter().filter(move |(id, _)| *id == provider).map(|(_, variable)| *variable)
}

/// Returns the built-in providers and their models, in the order in which they are preferred.
pub(super) fn providers() -> Vec<ProviderDef> {
    let (providers, faults) = models_json::parse(include_str!("builtin_models.json"));
    debug_assert!(faults.is_empty(), "{faults:?}");
    providers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let (providers, faults) = models_json::parse(include_str!("builtin_models.json"));
        assert_eq!(faults, []);
        for provider in &providers {
            assert!(key_variables(&provider.id).next().is_some(), "{}", provider.id);
            assert!(!provider.models.is_empty() && provider.base_url.is_some(), "{}", provider.id);
            for model in &provider.models {
                let (window, most) = (model.context_window.unwrap(), model.max_tokens.unwrap());
                assert!(most <= window, "{}", model.id);
                let cost = model.cost.as_ref().unwrap();
                assert!(cost.input.unwrap() > 0.0 && cost.output.unwrap() > 0.0, "{}", model.id);
            }
        }
        assert_eq!(providers[0].id, "anthropic");
    }
}
