//! Messages and their content blocks, in the shapes that pi 1.6.0 writes to session files and sends to clients
//! (field order included).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::ToolCallId;

mod read;
#[cfg(test)]
mod tests;

pub use read::RoleFirst;

/// One message of a conversation. A role that this build does not know is kept as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// The system prompt in sections, and the tools it adds.
    System(SystemMessage),
    /// What a person (or a program on their behalf) said.
    User(UserMessage),
    /// One model response.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    ToolResult(ToolResultMessage),
    /// A shell command that a person ran inside the session.
    BashExecution(BashExecutionMessage),
    /// The summary that stands for the older part of a compacted branch. Only in the context, never in the file.
    CompactionSummary(CompactionSummaryMessage),
    /// The summary of a branch that was left. Only in the context, never in the file.
    BranchSummary(BranchSummaryMessage),
    /// A message that an extension put into the context; the model sees it as the user's.
    Custom(CustomMessage),
    /// Any other role, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// The system prompt, kept in named sections so that only differences are stored later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemMessage {
    /// Free text besides the sections; empty in messages of agentd and pi.
    pub content: String,
    /// Section name to text, in the order in which they are sent.
    pub sections: Map<String, Value>,
    /// Milliseconds since the epoch.
    #[serde(deserialize_with = "read::time")]
    pub timestamp: i64,
    /// Tools available from here on.
    // Shared, because all sessions have the same few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools_added: Vec<Arc<ToolDefinition>>,
    /// Names of tools no longer available from here on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools_removed: Vec<String>,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// Name by which the model calls it.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
    /// Whether and how the provider may constrain sampling to the schema; pi's field, passed through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constrained_sampling: Option<Value>,
}

/// A user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Text and images. A bare string in old files reads as one text block.
    #[serde(deserialize_with = "read::blocks_or_text")]
    pub content: Vec<ContentBlock>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
    /// The client's own id of the message, if it gave one: a repeat is answered like the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
}

/// One model response, whole or cut short (`stop_reason` says which).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Thinking, text and tool calls in the order in which they came.
    #[serde(default, deserialize_with = "read::blocks")]
    pub content: Vec<ContentBlock>,
    /// Dialect spoken with the provider, such as `openai-completions`.
    #[serde(default)]
    pub api: String,
    /// Provider id.
    #[serde(default)]
    pub provider: String,
    /// Model id as configured.
    #[serde(default)]
    pub model: String,
    /// Tokens and cost.
    #[serde(default)]
    pub usage: Usage,
    /// Why the response ended; [`StopReason::Pending`] while it streams.
    pub stop_reason: StopReason,
    /// Milliseconds since the epoch at which the response began.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The provider's own word for the stop reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<String>,
    /// The model that answered, when it is another one than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// What went wrong, for stop reasons `error` and `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Milliseconds from the request to the end.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read::optional_count")]
    pub duration_ms: Option<u64>,
    /// Thinking level of the request.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read::thinking_level")]
    pub thinking_level: Option<ThinkingLevel>,
}

/// The result of one tool call, for the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The call it answers.
    pub tool_call_id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub tool_name: String,
    /// Text and images.
    #[serde(default, deserialize_with = "read::blocks")]
    pub content: Vec<ContentBlock>,
    /// Facts for programs (a diff, a truncation), never sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// Milliseconds the tool ran; absent when it never started.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read::optional_count")]
    pub duration_ms: Option<u64>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
}

/// A shell command run by a person inside the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BashExecutionMessage {
    /// The command line.
    pub command: String,
    /// Its output, possibly only the tail.
    #[serde(default)]
    pub output: String,
    /// Exit code; absent when cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether it was cancelled.
    #[serde(default)]
    pub cancelled: bool,
    /// Whether `output` lacks a part.
    #[serde(default)]
    pub truncated: bool,
    /// File with the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
    /// Left out of what the model sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
}

/// The summary of what a compaction took out of the context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummaryMessage {
    /// The summary, without the tags in which the model is given it.
    pub summary: String,
    /// Tokens in the context before the compaction.
    #[serde(default)]
    pub tokens_before: u64,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
}

/// The summary of a branch that was left for another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummaryMessage {
    /// The summary, without the tags in which the model is given it.
    pub summary: String,
    /// The entry at which the branch was left.
    #[serde(default)]
    pub from_id: String,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
}

/// A message of an extension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    /// Whose and what.
    #[serde(default)]
    pub custom_type: String,
    /// Text and images. A bare string reads as one text block.
    #[serde(deserialize_with = "read::blocks_or_text")]
    pub content: Vec<ContentBlock>,
    /// Whether it is shown to people.
    #[serde(default)]
    pub display: bool,
    /// Facts for programs, never sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "read::time")]
    pub timestamp: i64,
}

/// A piece of a message. A type that this build does not know is kept as it came.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// The provider's signature, replayed to it unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text_signature: Option<String>,
    },
    /// Reasoning shown by the model.
    Thinking {
        /// The text.
        thinking: String,
        /// Signature, or for OpenAI-compatible servers the name of the field it came in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_signature: Option<String>,
        /// The provider withheld the text; the signature is what it sent in its place, for replay.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    /// An image.
    Image {
        /// Base64 of the file.
        data: String,
        /// Its media type, such as `image/png`.
        mime_type: String,
    },
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// Any other block, unchanged.
    #[serde(untagged)]
    Other(Value),
}

impl ContentBlock {
    /// Returns a text block without a signature.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), text_signature: None }
    }

    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// A request of the model to run a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The model's id of the call.
    pub id: ToolCallId,
    /// Tool name.
    pub name: String,
    /// Parsed arguments; `{}` when they could not be parsed.
    #[serde(default)]
    pub arguments: Value,
    /// Why the arguments could not be parsed, with the raw text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_error: Option<String>,
    /// Google's thought signature, replayed unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
    /// In snapshots only, while the call still streams: the text of the arguments so far. Never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_text: Option<String>,
}

/// Why a model response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// Still streaming; never stored.
    Pending,
    /// The model had said all.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model waits for tool results.
    ToolUse,
    /// The request failed.
    Error,
    /// A person stopped it.
    Aborted,
}

/// Tokens of one response and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    #[serde(deserialize_with = "read::count")]
    pub input: u64,
    /// Generated tokens, reasoning included.
    #[serde(deserialize_with = "read::count")]
    pub output: u64,
    /// Prompt tokens read from a cache.
    #[serde(deserialize_with = "read::count")]
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    #[serde(deserialize_with = "read::count")]
    pub cache_write: u64,
    /// The part of `output` that was reasoning; absent until a provider has reported usage.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read::optional_count")]
    pub reasoning: Option<u64>,
    /// `input + output + cacheRead + cacheWrite`.
    #[serde(deserialize_with = "read::count")]
    pub total_tokens: u64,
    /// Cost in the currency of the model's prices (dollars).
    pub cost: Cost,
    /// The part of `cache_write` that is kept for an hour (Anthropic).
    #[serde(
        rename = "cacheWrite1h",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read::optional_count"
    )]
    pub cache_write_1h: Option<u64>,
}

/// What a response cost, per kind of token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// For `Usage::input`.
    #[serde(deserialize_with = "read::amount", serialize_with = "write_amount")]
    pub input: f64,
    /// For `Usage::output`.
    #[serde(deserialize_with = "read::amount", serialize_with = "write_amount")]
    pub output: f64,
    /// For `Usage::cache_read`.
    #[serde(deserialize_with = "read::amount", serialize_with = "write_amount")]
    pub cache_read: f64,
    /// For `Usage::cache_write`.
    #[serde(deserialize_with = "read::amount", serialize_with = "write_amount")]
    pub cache_write: f64,
    /// The sum.
    #[serde(deserialize_with = "read::amount", serialize_with = "write_amount")]
    pub total: f64,
    /// Whether the provider itself named the total; absent until usage was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_from_provider: Option<bool>,
}

/// How much a reasoning model is asked to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// The least the provider offers.
    Minimal,
    /// Little.
    Low,
    /// The usual amount.
    Medium,
    /// Much.
    High,
    /// More than `high`, where a model offers it.
    Xhigh,
    /// All that a model has, where it offers that.
    Max,
}

impl ThinkingLevel {
    /// All levels, least first.
    pub const ALL: [Self; 7] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// Returns the level's word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Returns the level that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// What a tool gave back, as `tool_execution_end` carries it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolResult {
    /// Text and images for the model.
    pub content: Vec<ContentBlock>,
    /// Facts for programs; `{}` for failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// A machine-readable form of the result; travels in this event only and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
}

/// A shared message: events, context and snapshots hold the same one.
pub type SharedMessage = Arc<Message>;

/// Writes whole amounts without a fraction (`0`, not `0.0`), as pi's JavaScript does.
pub(crate) fn write_amount<S: serde::Serializer>(amount: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// Beyond this, JavaScript's whole numbers are no longer exact either.
    const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
    if amount.fract() == 0.0 && amount.abs() <= MAX_SAFE_INTEGER {
        serializer.serialize_i64(*amount as i64)
    } else {
        serializer.serialize_f64(*amount)
    }
}
