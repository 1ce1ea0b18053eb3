//! Stream events → the assistant message that grows, and what to tell clients of each step.
//!
//! Pure. The provider says what came; the assembler keeps the whole message, so that a snapshot, the crash journal
//! and the stored entry all come from one place. Providers are not trusted to keep their own order: an event for a
//! block that does not exist, or is closed, changes nothing.

use std::sync::Arc;

use agentd_protocol::ToolCallId;
use agentd_protocol::message::{AssistantMessage, ContentBlock, StopReason, ToolCall, Usage};
use serde_json::Value;

use crate::agent::event::{AssistantUpdate, BlockKind, DeltaKind};
use crate::agent::machine::ModelFacts;
use crate::provider::args;
use crate::provider::stream::StreamEvent;

#[cfg(test)]
mod tests;

/// Builds one assistant message.
#[derive(Clone, Debug)]
pub struct Assembler {
    facts: ModelFacts,
    started_at: i64,
    blocks: Vec<Block>,
    usage: Usage,
    /// What the last update that carried usage said.
    told_usage: Usage,
    response_id: Option<String>,
    response_model: Option<String>,
    stop: Option<(StopReason, Option<String>)>,
}

#[derive(Clone, Debug)]
struct Block {
    kind: BlockKind,
    text: String,
    signature: Option<String>,
    redacted: bool,
    is_open: bool,
}

/// What one step adds for the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Usage so far, when it changed.
    pub usage: Option<Usage>,
    /// What was added.
    pub update: AssistantUpdate,
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The provider said that it is complete.
    Complete,
    /// It failed; the text is for people.
    Failed(String),
    /// A person or the daemon stopped it; the text is for people.
    Aborted(String),
}

impl Assembler {
    /// Begins the response of a model; `now` in milliseconds since the epoch.
    pub fn new(facts: ModelFacts, now: i64) -> Self {
        Self {
            facts,
            started_at: now,
            blocks: Vec::new(),
            usage: Usage::default(),
            told_usage: Usage::default(),
            response_id: None,
            response_model: None,
            stop: None,
        }
    }

    /// Returns the message as it begins: no content, stop reason `pending`.
    pub fn skeleton(&self) -> AssistantMessage {
        AssistantMessage {
            content: Vec::new(),
            api: self.facts.api.clone(),
            provider: self.facts.provider.clone(),
            model: self.facts.model.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Pending,
            timestamp: self.started_at,
            response_id: None,
            raw_stop_reason: None,
            response_model: None,
            error_message: None,
            duration_ms: None,
            thinking_level: None,
        }
    }

    /// Takes one event; returns what to tell of it.
    pub fn push(&mut self, event: StreamEvent) -> Option<Update> {
        match event {
            StreamEvent::Started => None,
            StreamEvent::Meta { response_id, response_model } => {
                self.response_id = response_id.or(self.response_id.take());
                self.response_model = response_model.or(self.response_model.take());
                None
            }
            StreamEvent::BlockStart { index, kind } => self.start_block(index, kind),
            StreamEvent::Delta { index, kind, delta } => self.extend_block(index, kind, delta),
            StreamEvent::Signature { index, signature } => {
                if let Some(block) = self.blocks.get_mut(index) {
                    block.signature = Some(signature);
                }
                None
            }
            StreamEvent::Redacted { index } => {
                if let Some(block) = self.blocks.get_mut(index) {
                    block.redacted = true;
                }
                None
            }
            StreamEvent::ToolCallName { index, id, name } => {
                if let Some(Block { kind: kind @ BlockKind::ToolCall { .. }, .. }) = self.blocks.get_mut(index) {
                    *kind = BlockKind::ToolCall { id, name };
                }
                None
            }
            StreamEvent::BlockEnd { index } => self.end_block(index),
            StreamEvent::Usage(usage) => {
                self.usage = usage;
                None
            }
            StreamEvent::Stop { reason, raw } => {
                self.stop = Some((reason, raw));
                None
            }
        }
    }

    fn start_block(&mut self, index: usize, kind: BlockKind) -> Option<Update> {
        if index != self.blocks.len() {
            return None;
        }
        let text = String::new();
        self.blocks.push(Block { kind: kind.clone(), text, signature: None, redacted: false, is_open: true });
        Some(self.update(AssistantUpdate::Start { index, block: kind }))
    }

    fn extend_block(&mut self, index: usize, kind: DeltaKind, delta: Arc<str>) -> Option<Update> {
        let block = self.blocks.get_mut(index).filter(|block| block.is_open && delta_kind(&block.kind) == kind)?;
        block.text.push_str(&delta);
        Some(self.update(AssistantUpdate::Delta { index, kind, delta }))
    }

    fn end_block(&mut self, index: usize) -> Option<Update> {
        let block = self.blocks.get_mut(index).filter(|block| block.is_open)?;
        block.is_open = false;
        let kind = delta_kind(&block.kind);
        Some(self.update(AssistantUpdate::End { index, kind }))
    }

    fn update(&mut self, update: AssistantUpdate) -> Update {
        let is_new = self.usage != self.told_usage;
        self.told_usage = self.usage;
        Update { usage: is_new.then_some(self.usage), update }
    }

    /// Returns the ends of all blocks still open, in block order.
    pub fn close_blocks(&mut self) -> Vec<Update> {
        (0..self.blocks.len()).filter_map(|index| self.end_block(index)).collect()
    }

    /// Returns the message as far as its updates have told it, for a snapshot: a tool call whose arguments are not
    /// complete carries `argumentsText`.
    pub fn so_far(&self) -> AssistantMessage {
        let mut message = self.skeleton();
        message.content = self.blocks.iter().map(Block::so_far).collect();
        message.usage = self.told_usage;
        message.response_id.clone_from(&self.response_id);
        message
    }

    /// Returns the message as it is stored; `now` in milliseconds since the epoch.
    pub fn finish(self, end: &End, now: i64) -> AssistantMessage {
        let mut message = self.skeleton();
        let (stop_reason, raw) = self.stop.unwrap_or((StopReason::Stop, None));
        (message.stop_reason, message.error_message) = match end {
            End::Complete => (stop_reason, None),
            End::Failed(error) => (StopReason::Error, Some(error.clone())),
            End::Aborted(why) => (StopReason::Aborted, Some(why.clone())),
        };
        message.content = self.blocks.into_iter().map(Block::finish).collect();
        message.usage = self.usage;
        message.response_id = self.response_id;
        message.response_model = self.response_model;
        message.raw_stop_reason = raw;
        message.duration_ms = Some(u64::try_from(now - self.started_at).unwrap_or(0));
        message.thinking_level = Some(self.facts.thinking_level);
        message
    }
}

impl Block {
    fn so_far(&self) -> ContentBlock {
        match &self.kind {
            // Arguments that cannot be read stay the text that the updates have told.
            BlockKind::ToolCall { id, name } if self.is_open || args::parse(&self.text).is_err() => {
                ContentBlock::ToolCall(ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: Value::Null,
                    arguments_error: None,
                    thought_signature: None,
                    arguments_text: Some(self.text.clone()),
                })
            }
            BlockKind::ToolCall { .. } => self.clone().finish(),
            BlockKind::Text => ContentBlock::Text { text: self.text.clone(), text_signature: self.signature.clone() },
            BlockKind::Thinking => ContentBlock::Thinking {
                thinking: self.text.clone(),
                thinking_signature: self.signature.clone(),
                redacted: self.redacted,
            },
        }
    }

    fn finish(self) -> ContentBlock {
        match self.kind {
            BlockKind::ToolCall { id, name } => {
                let mut call = tool_call(id, name, &self.text, self.signature);
                if self.is_open {
                    // Its response broke off: nobody can say what is wrong with arguments that have not come.
                    call.arguments_error = None;
                }
                ContentBlock::ToolCall(call)
            }
            BlockKind::Text => ContentBlock::Text { text: self.text, text_signature: self.signature },
            BlockKind::Thinking => ContentBlock::Thinking {
                thinking: self.text,
                thinking_signature: self.signature,
                redacted: self.redacted,
            },
        }
    }
}

fn tool_call(id: ToolCallId, name: String, text: &str, signature: Option<String>) -> ToolCall {
    let (arguments, arguments_error) = match args::parse(text) {
        Ok(arguments) => (arguments, None),
        // The raw text goes along, as in pi: the model is shown what it wrote.
        Err(error) => {
            let explained = format!("{error}\n\nReceived arguments:\n{text}");
            (Value::Object(serde_json::Map::new()), Some(explained))
        }
    };
    ToolCall { id, name, arguments, arguments_error, thought_signature: signature, arguments_text: None }
}

fn delta_kind(kind: &BlockKind) -> DeltaKind {
    match kind {
        BlockKind::Text => DeltaKind::Text,
        BlockKind::Thinking => DeltaKind::Thinking,
        BlockKind::ToolCall { .. } => DeltaKind::ToolCall,
    }
}
