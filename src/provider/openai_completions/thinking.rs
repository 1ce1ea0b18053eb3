//! How a model is asked to think, or not to, in the words of its server.

use agentd_protocol::message::ThinkingLevel;
use serde_json::{Map, Value, json};

use super::compat::ThinkingFormat;
use crate::provider::levels::{clamp_level, effort_word};
use crate::provider::spec::ModelSpec;

/// Tokens that a thinking budget leaves for the answer (pi: the same).
const MIN_ANSWER_TOKENS: u64 = 1024;

/// Returns the members that ask for thinking, or for none. `max_tokens` bounds thinking and answer together.
pub(super) fn thinking_fields(spec: &ModelSpec, level: ThinkingLevel, max_tokens: u64) -> Vec<(&'static str, Value)> {
    if !spec.model.reasoning {
        return Vec::new();
    }
    let wish = Wish::new(spec, level, max_tokens);
    let mut fields = wish.fields();
    if let (Some(field), Some(tokens)) = (spec.compat.thinking_budget_field, wish.budget) {
        fields.push((field.as_str(), json!(tokens)));
    }
    fields
}

/// What is wished of a model.
struct Wish<'a> {
    spec: &'a ModelSpec,
    is_on: bool,
    /// The provider's word for the level.
    word: Option<&'a str>,
    /// Whether the model may be told not to think: its map does not say that it cannot be off.
    can_be_off: bool,
    /// Tokens that it may think for; `None` when it is off, or has no room.
    budget: Option<u64>,
}

impl<'a> Wish<'a> {
    fn new(spec: &'a ModelSpec, level: ThinkingLevel, max_tokens: u64) -> Self {
        let is_on = level != ThinkingLevel::Off;
        let room = max_tokens.saturating_sub(MIN_ANSWER_TOKENS);
        Self {
            spec,
            is_on,
            word: effort_word(&spec.model, level),
            can_be_off: is_on || clamp_level(&spec.model, ThinkingLevel::Off) == ThinkingLevel::Off,
            budget: Some(budget(level).min(room)).filter(|tokens| *tokens > 0),
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let compat = &self.spec.compat;
        let effort = self.word.filter(|_| self.is_on && compat.supports_reasoning_effort);
        let effort = effort.map(|word| ("reasoning_effort", json!(word)));
        let word_or_none = self.word.or((!self.is_on && self.can_be_off).then_some("none"));
        let switch = match compat.thinking_format {
            ThinkingFormat::Openai => return self.effort_or_off(),
            ThinkingFormat::Openrouter => {
                return word_or_none.map(|word| ("reasoning", json!({"effort": word}))).into_iter().collect();
            }
            ThinkingFormat::StringThinking => {
                return word_or_none.map(|word| ("thinking", json!(word))).into_iter().collect();
            }
            ThinkingFormat::AntLing => {
                let word = self.word.filter(|_| self.is_on && self.is_mapped());
                return word.map(|word| ("reasoning", json!({"effort": word}))).into_iter().collect();
            }
            ThinkingFormat::QwenChatTemplate => {
                let settings = json!({"enable_thinking": self.is_on, "preserve_thinking": true});
                return vec![("chat_template_kwargs", settings)];
            }
            ThinkingFormat::ChatTemplate => {
                let settings = self.template(&compat.chat_template_kwargs);
                return settings.map(|settings| ("chat_template_kwargs", settings)).into_iter().collect();
            }
            ThinkingFormat::Baseten => {
                let settings = self.template(&compat.chat_template_args);
                let settings = settings.map(|settings| ("chat_template_args", settings));
                return settings.into_iter().chain(self.effort_or_off()).collect();
            }
            ThinkingFormat::Zai if self.is_on => {
                Some(("thinking", json!({"type": "enabled", "clear_thinking": false})))
            }
            ThinkingFormat::Deepseek if self.is_on => Some(("thinking", json!({"type": "enabled"}))),
            ThinkingFormat::Zai | ThinkingFormat::Deepseek => {
                self.can_be_off.then(|| ("thinking", json!({"type": "disabled"})))
            }
            ThinkingFormat::Qwen => Some(("enable_thinking", json!(self.is_on))),
            ThinkingFormat::Together => Some(("reasoning", json!({"enabled": self.is_on}))),
        };
        switch.into_iter().chain(effort).collect()
    }

    /// The word of the level; for `off` only where the model's map has one.
    fn effort_or_off(&self) -> Vec<(&'static str, Value)> {
        let word = self.word.filter(|_| self.spec.compat.supports_reasoning_effort);
        word.map(|word| ("reasoning_effort", json!(word))).into_iter().collect()
    }

    fn is_mapped(&self) -> bool {
        let words = self.spec.model.thinking_level_map.as_ref().and_then(Value::as_object);
        words.is_some_and(|words| words.values().any(|word| word.as_str() == self.word))
    }

    /// Fills what the configuration leaves open of the settings of a chat template. `None` when nothing is left.
    fn template(&self, settings: &Map<String, Value>) -> Option<Value> {
        let filled = settings.iter().filter_map(|(name, value)| Some((name.clone(), self.filled(value)?)));
        let filled: Map<String, Value> = filled.collect();
        (!filled.is_empty()).then_some(Value::Object(filled))
    }

    fn filled(&self, value: &Value) -> Option<Value> {
        let Some(variable) = value.get("$var").and_then(Value::as_str) else { return Some(value.clone()) };
        if !self.is_on && value["omitWhenOff"] == true {
            return None;
        }
        match variable {
            "thinking.enabled" => Some(json!(self.is_on)),
            "thinking.effort" => self.word.map(|word| json!(word)),
            "thinking.budget" => self.budget.map(|tokens| json!(tokens)),
            _ => None,
        }
    }
}

/// Returns the tokens that a level may think for (pi: the same).
fn budget(level: ThinkingLevel) -> u64 {
    match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => 16_384,
    }
}
