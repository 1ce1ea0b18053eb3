//! Runs and queues.

use super::*;

/// Texts of the messages waiting to be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Queue {
    /// To be injected after the current turn.
    pub steering: Vec<String>,
    /// To be sent when the run would end.
    pub follow_up: Vec<String>,
}

impl Queue {
    /// Returns how many messages wait.
    pub fn len(&self) -> usize {
        self.steering.len() + self.follow_up.len()
    }

    /// Tells whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What to do with a prompt while a run is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IfBusy {
    /// Answer `busy`.
    #[default]
    Reject,
    /// Queue it as steering.
    Steer,
    /// Queue it as a follow-up.
    FollowUp,
}

/// Parameters of [`Prompt`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The text; blank only beside images.
    pub message: String,
    /// Image blocks (`{type: "image", data, mimeType}`) that go with it, at most 100. The type is taken from their
    /// content, and what is over the limits for images (tools page) is made smaller before it is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContentBlock>,
    /// What to do while a run is going on; `reject` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<IfBusy>,
    /// pi's name for `ifBusy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming_behavior: Option<IfBusy>,
    /// The client's own id of the message; a repeat is answered like the first and runs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
}

/// When a steering message goes to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SteerWhen {
    /// After the current turn: once the model has said what it says and its tools have run.
    #[default]
    AfterTools,
    /// At once: the model is cut short, what it had said is kept in the session and left out of further requests, and
    /// the message goes to it in the same run. Tools that run are not stopped; it goes with their results. A pause
    /// before a retry is not shortened; it goes with the retry.
    Now,
}

/// Parameters of [`Steer`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteerParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The text; blank only beside images.
    pub message: String,
    /// Image blocks that go with it, as for `prompt`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContentBlock>,
    /// When it goes to the model; `afterTools` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<SteerWhen>,
    /// The client's own id of the message; a repeat is answered like the first and queues nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
}

/// Parameters of [`FollowUp`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The text; blank only beside images.
    pub message: String,
    /// Image blocks that go with it, as for `prompt`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContentBlock>,
    /// The client's own id of the message; a repeat is answered like the first and queues nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// A run has started with it.
    Started,
    /// It waits in a queue.
    Queued,
    /// It was dealt with without a run. Nothing is yet: only messages that are commands will be.
    Handled,
}

/// Result of [`Prompt`], [`Steer`], [`FollowUp`] and [`Continue`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptResult {
    /// What became of the message.
    pub disposition: Disposition,
    /// Entry of the user message, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
}

/// Result of [`ClearQueue`].
pub type ClearQueueResult = Queue;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunEnd {
    /// The model had said all.
    Done,
    /// A person stopped it.
    Aborted,
    /// A request failed for good.
    Error,
    /// The most turns of one run were taken.
    MaxTurns,
    /// The output limit cut the last answer short.
    Length,
    /// The session file could not be written.
    Storage,
    /// The daemon was stopped or killed during the run; `continue` goes on with it.
    Interrupted,
}

/// Result of [`Wait`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// How the last run since the session was loaded ended; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RunEnd>,
    /// What went wrong, for the reasons `error`, `storage` and `length` where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// How queued messages are taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QueueMode {
    /// One each time.
    #[default]
    #[serde(rename = "one-at-a-time")]
    OneAtATime,
    /// All of them.
    #[serde(rename = "all")]
    All,
}
