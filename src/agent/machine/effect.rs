//! What the machine wants done.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::EntryId;
use agentd_protocol::methods::{PromptResult, Question, Queue, WaitResult};

use super::input::{Refusal, ReplyId, RequestId, RetryId};
use crate::agent::event::{Event, ToolStart};
use crate::session::entry::EntryBody;

/// One effect. They are performed in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Find the model, the system prompt and the working directory of a run; answer with `Input::Prepared`.
    Prepare,
    /// Write entries, the first below the leaf, each further one below the one before. A barrier.
    Append {
        /// The entries.
        entries: Vec<NewEntry>,
        /// Whether they must survive a power cut (in the default durability) before anything follows.
        sync: bool,
    },
    /// Write the queues to the crash journal as they were when the effect was made. A barrier.
    SaveQueue(super::queue::Queues),
    /// Write the open questions to the crash journal. A barrier.
    SaveQuestions(Vec<Question>),
    /// Tell the clients.
    Emit(Event),
    /// Tell the clients of an entry that is no message, in the bytes in which it was written.
    EmitEntry(EntryId),
    /// Ask the model, with the context of the leaf.
    StartRequest {
        /// Number of the request.
        request: RequestId,
        /// Id that the entry of the response will have.
        entry_id: EntryId,
    },
    /// Stop asking; `Input::StreamFinished` follows with what there is.
    CancelRequest(RequestId, Cut),
    /// Check a tool call; `Input::ToolValidated` follows.
    ValidateTool(Arc<ToolStart>),
    /// Find out what a person is shown of a tool call; `Input::ToolDescribed` follows.
    DescribeTool(Arc<ToolStart>),
    /// Run a tool call; `Input::ToolFinished` follows.
    StartTool {
        /// The call.
        call: Arc<ToolStart>,
        /// Digest of what was consented to: the call must still be that. `None` when nobody had to be asked.
        approved: Option<String>,
    },
    /// Stop the tool call with this result entry; `Input::ToolFinished` follows.
    CancelTool(EntryId),
    /// Send `Input::RetryDue` after a pause.
    ArmRetry {
        /// Number of the pause.
        retry: RetryId,
        /// Its length.
        delay: Duration,
    },
    /// Forget the pause.
    CancelRetry(RetryId),
    /// Answer a request.
    Reply(ReplyId, Outcome),
    /// Send `Input::Step` when everything before is done.
    Step,
    /// The session is idle.
    Settled {
        /// Whether all of the run is in the session file, so that its crash journal can go. If not, the journal is the
        /// only copy, and the session's next load brings it into the file.
        is_whole: bool,
    },
}

/// Why a response is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The run is stopped.
    Stopped,
    /// A steering message goes to the model at once.
    Steered,
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Its id.
    pub id: EntryId,
    /// What it holds.
    pub body: EntryBody,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Done, nothing to tell.
    Done,
    /// The answer to a question is kept.
    Answered,
    /// What became of a message.
    Prompt(PromptResult),
    /// What was in the queues.
    Queue(Queue),
    /// How the last run ended.
    Wait(WaitResult),
    /// It is refused.
    Refused(Refusal),
}
