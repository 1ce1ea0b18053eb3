//! Quirks of servers that speak Chat Completions: the `compat` object of pi's `models.json`.
//!
//! Fields that are left out get the value known for the server, by provider id and base URL (the same rules as pi
//! 1.6.0); an unknown server gets the plain dialect.

use serde::Deserialize;
use serde_json::{Map, Value};

/// How a server differs from the plain dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Compat {
    /// Knows `store`; `false` is sent then, so that nothing is kept.
    pub supports_store: bool,
    /// Takes the system prompt under the role `developer` from reasoning models.
    pub supports_developer_role: bool,
    /// Knows `reasoning_effort`.
    pub supports_reasoning_effort: bool,
    /// Knows `stream_options.include_usage`.
    pub supports_usage_in_streaming: bool,
    /// Says why a response ended. Where it never does, the end of the stream is enough.
    pub supports_finish_reason: bool,
    /// Takes system messages in the middle of the conversation; else they are folded into the first.
    pub supports_mid_convo_system_messages: bool,
    /// Name of the field that bounds the response.
    pub max_tokens_field: MaxTokensField,
    /// Wants the tool's name with each result.
    pub requires_tool_result_name: bool,
    /// Wants an assistant message between tool results and the next user message.
    pub requires_assistant_after_tool_result: bool,
    /// Refuses `content: null`.
    pub requires_non_null_assistant_content: bool,
    /// Wants `tools` whenever the conversation holds tool calls.
    pub requires_tools_with_tool_history: bool,
    /// Takes only tool call ids of nine letters and digits.
    pub requires_mistral_tool_ids: bool,
    /// Takes replayed thinking only as text.
    pub requires_thinking_as_text: bool,
    /// Wants `reasoning_content` on every replayed assistant message while reasoning is on.
    pub requires_reasoning_content: bool,
    /// Bills each response: `usage.cost` is what it cost.
    pub reports_cost: bool,
    /// How thinking is asked for.
    pub thinking_format: ThinkingFormat,
    /// Settings of the chat template for [`ThinkingFormat::ChatTemplate`]; a `{"$var": …}` is filled in.
    pub chat_template_kwargs: Map<String, Value>,
    /// The same for [`ThinkingFormat::Baseten`].
    pub chat_template_args: Map<String, Value>,
    /// Name of the field that bounds thinking, where the server has one.
    pub thinking_budget_field: Option<ThinkingBudgetField>,
    /// Wants to be asked for the arguments of calls while they are made (`tool_stream`).
    pub zai_tool_stream: bool,
    /// Caches prompts only up to marks in Anthropic's notation (`cache_control`).
    pub marks_cache: bool,
    /// Refuses calls of its own without the signature of the thought behind them (Gemini from version 3 on). agentd's own
    /// flag, `requiresThoughtSignature`: pi does not ask Gemini over this dialect.
    pub requires_thought_signature: bool,
    /// Urgency of the requests among those of the server, sent as `priority`.
    pub vllm_priority: Option<Value>,
    /// OpenRouter's routing wishes, sent as `provider`.
    pub open_router_routing: Option<Value>,
    /// Vercel's routing wishes, sent as `providerOptions.gateway`.
    pub vercel_gateway_routing: Option<Value>,
}

/// Name of the field that bounds the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The current name.
    MaxCompletionTokens,
    /// The old name, which many servers still want.
    MaxTokens,
}

impl MaxTokensField {
    /// Returns the field's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// Name of the field that bounds thinking, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingBudgetField {
    /// vLLM's.
    ThinkingTokenBudget,
    /// That of Qwen, DashScope and SGLang.
    ThinkingBudget,
    /// llama.cpp's.
    ThinkingBudgetTokens,
}

impl ThinkingBudgetField {
    /// Returns the field's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ThinkingTokenBudget => "thinking_token_budget",
            Self::ThinkingBudget => "thinking_budget",
            Self::ThinkingBudgetTokens => "thinking_budget_tokens",
        }
    }
}

/// How thinking is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkingFormat {
    /// `reasoning_effort`.
    Openai,
    /// `reasoning: {effort}`.
    Openrouter,
    /// `thinking: {type}` and `reasoning_effort`.
    Deepseek,
    /// `thinking: {type, clear_thinking}` and `reasoning_effort`.
    Zai,
    /// `reasoning: {enabled}` and `reasoning_effort`.
    Together,
    /// `enable_thinking` and `reasoning_effort`.
    Qwen,
    /// `chat_template_kwargs: {enable_thinking, preserve_thinking}`.
    QwenChatTemplate,
    /// `thinking` as the level's word.
    StringThinking,
    /// `chat_template_kwargs` as configured.
    ChatTemplate,
    /// `chat_template_args` as configured, and `reasoning_effort`.
    Baseten,
    /// `reasoning: {effort}`, only for levels that the model's map names.
    AntLing,
}

/// The `compat` object as configured. A value that is not understood counts as left out: files written for newer
/// versions of pi stay usable.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configured {
    supports_store: Option<bool>,
    supports_developer_role: Option<bool>,
    supports_reasoning_effort: Option<bool>,
    supports_usage_in_streaming: Option<bool>,
    supports_finish_reason: Option<bool>,
    supports_mid_convo_system_messages: Option<bool>,
    requires_tool_result_name: Option<bool>,
    requires_assistant_after_tool_result: Option<bool>,
    requires_non_null_assistant_content: Option<bool>,
    requires_tools_with_tool_history: Option<bool>,
    requires_mistral_tool_ids: Option<bool>,
    requires_thinking_as_text: Option<bool>,
    requires_reasoning_content_on_assistant_messages: Option<bool>,
    zai_tool_stream: Option<bool>,
    requires_thought_signature: Option<bool>,
    supports_thinking_token_budget: Option<bool>,
}

/// Servers that are known by a provider id or a piece of their URL.
struct Known<'a> {
    provider: &'a str,
    base_url: &'a str,
}

impl Known<'_> {
    fn is(&self, ids: &[&str], hosts: &[&str]) -> bool {
        ids.contains(&self.provider) || hosts.iter().any(|host| self.base_url.contains(host))
    }
}

impl Compat {
    /// Returns the quirks of a server, with what `configured` (a `compat` object) says.
    pub fn resolve(provider: &str, base_url: &str, configured: Option<&Value>) -> Self {
        let mut compat = Self::detect(provider, &base_url.to_ascii_lowercase());
        if let Some(value) = configured {
            compat.configure(value);
        }
        compat
    }

    /// Adds what is known of a model behind a provider that serves models of many makers.
    pub fn of_model(mut self, provider: &str, id: &str) -> Self {
        // Claude caches only what is marked, whoever passes the request on.
        self.marks_cache |= provider == "openrouter" && id.starts_with("anthropic/");
        self
    }

    fn detect(provider: &str, base_url: &str) -> Self {
        let known = Known { provider, base_url };
        let is_openai = known.is(&["openai"], &["api.openai.com"]);
        let is_deepseek = known.is(&["deepseek"], &["deepseek.com"]);
        let is_zai = known.is(&["zai", "zai-coding-cn"], &["api.z.ai", "open.bigmodel.cn"]);
        let is_together = known.is(&["together"], &["api.together.ai", "api.together.xyz"]);
        let is_moonshot = known.is(&["moonshotai", "moonshotai-cn"], &["api.moonshot."]);
        let is_nvidia = known.is(&["nvidia"], &["integrate.api.nvidia.com"]);
        let is_xai = known.is(&["xai"], &["api.x.ai"]);
        let is_openrouter = known.is(&["openrouter"], &["openrouter.ai"]);
        let is_chutes = known.is(&[], &["chutes.ai"]);
        let is_ant_ling = known.is(&["ant-ling"], &["api.ant-ling.com"]);
        let is_cloudflare = known.is(
            &["cloudflare-workers-ai", "cloudflare-ai-gateway"],
            &["api.cloudflare.com", "gateway.ai.cloudflare.com"],
        );
        let is_cloudflare_gateway = known.is(&["cloudflare-ai-gateway"], &["gateway.ai.cloudflare.com"]);
        let is_cerebras = known.is(&["cerebras"], &["cerebras.ai"]);
        // Mistral's own API answers 422 to fields that it does not know.
        let is_mistral = known.is(&["mistral"], &["api.mistral.ai"]);
        let wants_old_field = is_chutes
            || is_deepseek
            || is_moonshot
            || is_together
            || is_nvidia
            || is_zai
            || is_mistral
            || is_ant_ling
            || is_cloudflare_gateway;
        let lacks_effort =
            is_xai || is_zai || is_moonshot || is_together || is_nvidia || is_ant_ling || is_cloudflare_gateway;
        Self {
            supports_store: !(wants_old_field
                || is_cerebras
                || is_xai
                || is_cloudflare
                || known.is(&["opencode"], &["opencode.ai"])),
            supports_developer_role: is_openai,
            supports_reasoning_effort: !lacks_effort,
            supports_usage_in_streaming: !is_mistral,
            supports_finish_reason: true,
            supports_mid_convo_system_messages: true,
            max_tokens_field: if wants_old_field {
                MaxTokensField::MaxTokens
            } else {
                MaxTokensField::MaxCompletionTokens
            },
            requires_tool_result_name: false,
            requires_assistant_after_tool_result: false,
            requires_non_null_assistant_content: false,
            requires_tools_with_tool_history: false,
            requires_mistral_tool_ids: is_mistral,
            requires_thinking_as_text: false,
            requires_reasoning_content: is_deepseek,
            reports_cost: is_openrouter,
            thinking_format: match () {
                () if is_deepseek => ThinkingFormat::Deepseek,
                () if is_zai => ThinkingFormat::Zai,
                () if is_together => ThinkingFormat::Together,
                () if is_openrouter => ThinkingFormat::Openrouter,
                () if is_ant_ling => ThinkingFormat::AntLing,
                () => ThinkingFormat::Openai,
            },
            chat_template_kwargs: Map::new(),
            chat_template_args: Map::new(),
            thinking_budget_field: None,
            zai_tool_stream: false,
            marks_cache: false,
            requires_thought_signature: false,
            vllm_priority: None,
            open_router_routing: None,
            vercel_gateway_routing: None,
        }
    }

    fn configure(&mut self, value: &Value) {
        let set = Configured::read(value);
        let overrides = [
            (&mut self.supports_store, set.supports_store),
            (&mut self.supports_developer_role, set.supports_developer_role),
            (&mut self.supports_reasoning_effort, set.supports_reasoning_effort),
            (&mut self.supports_usage_in_streaming, set.supports_usage_in_streaming),
            (&mut self.supports_finish_reason, set.supports_finish_reason),
            (&mut self.supports_mid_convo_system_messages, set.supports_mid_convo_system_messages),
            (&mut self.requires_tool_result_name, set.requires_tool_result_name),
            (&mut self.requires_assistant_after_tool_result, set.requires_assistant_after_tool_result),
            (&mut self.requires_non_null_assistant_content, set.requires_non_null_assistant_content),
            (&mut self.requires_tools_with_tool_history, set.requires_tools_with_tool_history),
            (&mut self.requires_mistral_tool_ids, set.requires_mistral_tool_ids),
            (&mut self.requires_thinking_as_text, set.requires_thinking_as_text),
            (&mut self.requires_reasoning_content, set.requires_reasoning_content_on_assistant_messages),
            (&mut self.zai_tool_stream, set.zai_tool_stream),
            (&mut self.requires_thought_signature, set.requires_thought_signature),
        ];
        for (field, configured) in overrides {
            *field = configured.unwrap_or(*field);
        }
        let known = |name: &str| value.get(name).filter(|value| !value.is_null()).cloned();
        if let Some(field) = known("maxTokensField").and_then(|value| serde_json::from_value(value).ok()) {
            self.max_tokens_field = field;
        }
        if let Some(format) = known("thinkingFormat").and_then(|value| serde_json::from_value(value).ok()) {
            self.thinking_format = format;
        }
        // The older name of one of the fields.
        if set.supports_thinking_token_budget == Some(true) {
            self.thinking_budget_field = Some(ThinkingBudgetField::ThinkingTokenBudget);
        }
        if let Some(field) = known("thinkingTokenBudgetField").and_then(|value| serde_json::from_value(value).ok()) {
            self.thinking_budget_field = Some(field);
        }
        let object = |name: &str| known(name).and_then(|value| value.as_object().cloned()).unwrap_or_default();
        self.chat_template_kwargs = object("chatTemplateKwargs");
        self.chat_template_args = object("chatTemplateArgs");
        self.marks_cache = known("cacheControlFormat").is_some_and(|format| format == "anthropic");
        self.vllm_priority = known("vllmPriority").filter(Value::is_number);
        self.open_router_routing = known("openRouterRouting").filter(is_filled);
        self.vercel_gateway_routing = known("vercelGatewayRouting").filter(is_filled);
    }
}

impl Configured {
    /// Reads the flags one by one, so that one of a wrong type does not lose the others.
    fn read(value: &Value) -> Self {
        let Value::Object(map) = value else { return Self::default() };
        let flags = map.iter().filter(|(_, value)| value.is_boolean()).map(|(k, v)| (k.clone(), v.clone())).collect();
        serde_json::from_value(Value::Object(flags)).unwrap_or_default()
    }
}

fn is_filled(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_server_gets_the_plain_dialect() {
        let compat = Compat::resolve("fake", "http://127.0.0.1:1/v1", None);
        assert!(compat.supports_store && compat.supports_usage_in_streaming && compat.supports_reasoning_effort);
        assert!(!compat.supports_developer_role && !compat.requires_tool_result_name);
        assert_eq!(compat.max_tokens_field.as_str(), "max_completion_tokens");
        assert_eq!(compat.thinking_format, ThinkingFormat::Openai);
    }

    #[test]
    fn known_servers() {
        assert!(Compat::resolve("openai", "https://api.openai.com/v1", None).supports_developer_role);
        let deepseek = Compat::resolve("mine", "https://api.DeepSeek.com", None);
        assert_eq!(deepseek.max_tokens_field, MaxTokensField::MaxTokens);
        assert_eq!(deepseek.thinking_format, ThinkingFormat::Deepseek);
        assert!(!deepseek.supports_store && deepseek.requires_reasoning_content);
        assert_eq!(Compat::resolve("openrouter", "x", None).thinking_format, ThinkingFormat::Openrouter);
    }

    #[test]
    fn configuration_wins_field_by_field() {
        let configured = json!({
            "supportsStore": false,
            "supportsDeveloperRole": "yes",
            "maxTokensField": "max_tokens",
            "thinkingFormat": "a-later-one",
            "openRouterRouting": {"only": ["x"]},
            "vercelGatewayRouting": {},
            "somethingNew": 1,
        });
        let compat = Compat::resolve("fake", "http://x/v1", Some(&configured));
        let mut expected = Compat::resolve("fake", "http://x/v1", None);
        expected.supports_store = false;
        expected.max_tokens_field = MaxTokensField::MaxTokens;
        expected.open_router_routing = Some(json!({"only": ["x"]}));
        assert_eq!(compat, expected);
    }
}
