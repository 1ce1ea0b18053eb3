//! What a provider tells of a response while it streams.
//!
//! Pure. Every dialect decodes into these; `agent::assembler` turns them into content blocks and messages.

use std::sync::Arc;

use agentd_protocol::ToolCallId;
use agentd_protocol::message::{StopReason, Usage};

use crate::agent::event::{BlockKind, DeltaKind};

/// One step of a streaming response. An `index` is a block's place in the message's content.
///
/// Order: [`StreamEvent::Started`] once; each block starts before its deltas and ends at most once. Blocks may be
/// open side by side (OpenAI closes all of them at the end of the stream, in block order). A response that is cut
/// leaves its open blocks without an end. [`StreamEvent::Stop`] comes once, last, and only from a complete response.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The provider accepted the request: its headers came, with a status of success.
    Started,
    /// Facts about the response, as soon as they are known. A `None` changes nothing.
    Meta {
        /// The provider's id of the response.
        response_id: Option<String>,
        /// The model that answers, when it is another one than was asked for.
        response_model: Option<String>,
    },
    /// A block begins.
    BlockStart {
        /// Its place.
        index: usize,
        /// Its kind.
        kind: BlockKind,
    },
    /// Text was added to a block. For tool calls it is text of the arguments, and may be empty.
    Delta {
        /// The block's place.
        index: usize,
        /// The block's kind.
        kind: DeltaKind,
        /// The text.
        delta: Arc<str>,
    },
    /// The signature of a thinking block, or of the thought behind a call; replaces an earlier one.
    Signature {
        /// The block's place.
        index: usize,
        /// The signature, or the name of the field that carried the thinking.
        signature: String,
    },
    /// The provider withheld the text of a thinking block; its signature stands for it.
    Redacted {
        /// The block's place.
        index: usize,
    },
    /// A tool call's id or name came late or was corrected; replaces those of its start.
    ToolCallName {
        /// The block's place.
        index: usize,
        /// The call's id.
        id: ToolCallId,
        /// The tool's name.
        name: String,
    },
    /// A block is complete.
    BlockEnd {
        /// Its place.
        index: usize,
    },
    /// Tokens so far, cost included; replaces earlier ones.
    Usage(Usage),
    /// The response is complete. With [`StopReason::Error`] the stream's error follows as its result.
    Stop {
        /// Why it ended.
        reason: StopReason,
        /// The provider's own word for it.
        raw: Option<String>,
    },
}
