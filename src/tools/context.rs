//! What a tool call is given and what it gives back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::ToolCallId;
use agentd_protocol::message::{ContentBlock, ToolResult};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::known_files::KnownFiles;
use super::locks::FileLocks;
use crate::exec::Spawner;
pub use crate::permissions::policy::EffectClass;
use crate::redact::Keys;

/// Where and with what a tool call runs.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The session's working directory; relative paths start here.
    pub cwd: PathBuf,
    /// The whole environment of child processes, provider keys already taken out.
    pub env: Vec<(String, String)>,
    /// Folder for outputs that are too long for a result; made when first needed.
    pub outputs_dir: PathBuf,
    /// Folder for records of files that are being overwritten in place; made when first needed.
    pub overwrites_dir: PathBuf,
    /// Cancelled when the run is aborted.
    pub cancel: CancellationToken,
    /// Where output goes while the tool runs. When it is full the tool waits; when its reader is gone nothing is sent.
    pub progress: mpsc::Sender<Progress>,
    /// Starts child processes.
    pub spawner: Spawner,
    /// Keeps two edits of one file apart, over all sessions.
    pub locks: FileLocks,
    /// What the session knows of files; `None` lets it change a file that it has seen otherwise.
    pub known_files: Option<KnownFiles>,
    /// The call.
    pub call_id: ToolCallId,
    /// Longest time of a command that names no timeout itself; `None` while somebody is there to abort it.
    pub command_limit: Option<Duration>,
    /// Whether images over the limits are made smaller.
    pub resizes_images: bool,
    /// The model, when it takes no images.
    pub text_only_model: Option<String>,
    /// Keys that must not be in any output.
    pub keys: Arc<Keys>,
}

/// What a running tool tells meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs. Sent by tools that stream output, before any of it.
    Started,
    /// New output, after what was sent before.
    Output(String),
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// What the model and programs get.
    pub result: ToolResult,
    /// Whether it failed.
    pub is_error: bool,
}

impl ToolOutput {
    /// Returns a success of one text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let result = ToolResult { content: vec![ContentBlock::text(text)], ..ToolResult::default() };
        Self { result, is_error: false }
    }

    /// Returns a success of one text that is also its machine-readable form.
    pub(crate) fn structured_text(text: String) -> Self {
        let mut output = Self::text(text.clone());
        output.result.structured_content = Some(Value::from(text));
        output
    }

    /// Adds facts for programs.
    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.result.details = Some(details);
        self
    }

    /// Returns a failure. Its details are `{}`, as in pi.
    pub(crate) fn error(text: impl Into<String>) -> Self {
        let output = Self::text(text).with_details(Value::Object(Map::new()));
        Self { is_error: true, ..output }
    }
}
