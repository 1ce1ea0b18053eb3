//! Questions to people, and their answers.

use super::*;
use crate::ids::ApprovalId;

/// A question of a session that waits for an answer. Any client may answer it, whether attached or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The question, unique in the daemon. Opaque; people may name it by its end (see `agentctl approvals`).
    pub approval_id: ApprovalId,
    /// What it is about.
    pub kind: QuestionKind,
    /// What is asked, in a sentence.
    pub text: String,
    /// The answers that it takes; a client passes over those that it does not know.
    #[serde(deserialize_with = "known_decisions")]
    pub options: Vec<Decision>,
    /// When it was asked, in milliseconds since the epoch.
    pub asked_at: i64,
    /// Until when it waits, in milliseconds since the epoch; absent when it waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<i64>,
    /// For `maxTurns`: the turns that the run has taken since it began or last went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// For `tool`: the call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<AskedCall>>,
}

/// A tool call that waits for consent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskedCall {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: String,
    /// The entry that its result will be.
    pub entry_id: EntryId,
    /// Why it is asked about.
    pub reason: String,
    /// Working directory of the session.
    pub cwd: String,
    /// What it will do.
    pub shown: Shown,
    /// The rules that `always` saves for every session, and `session` grants for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always: Vec<Value>,
    /// SHA-256 of what was asked about, in hexadecimal: the tool, its arguments, the working directory, and for a change
    /// of a file the whole change. If it is another one when the answer is there, the call fails instead of running.
    pub digest: String,
}

/// What a tool call will do, in a text that is safe to show: control characters, characters that hide or reorder text,
/// and long runs of blanks are written out (`\u{202e}`, `\u{20}×5000`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// What the text is.
    pub kind: ShownKind,
    /// The text.
    pub text: String,
    /// Whether it is all there is; a text of more than 64 KiB is cut.
    pub is_complete: bool,
    /// Whether it is what runs, letter for letter: nothing had to be written out.
    pub is_exact: bool,
}

/// What the text of [`Shown`] is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShownKind {
    /// The command line.
    Command,
    /// The change of a file: its path in the first line, then lines with their numbers, `-` before those that go and `+`
    /// before those that come.
    Diff,
    /// The arguments as JSON.
    Arguments,
    /// A kind of a later version.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

fn known_decisions<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Decision>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QuestionKind {
    /// The run has taken the most turns of one run (`maxTurns`): whether it goes on.
    MaxTurns,
    /// A tool call needs consent: whether it runs.
    Tool,
    /// A kind of a later version.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Yes, this once. For `maxTurns`: the run goes on for another `maxTurns` turns. For `tool`: the call runs.
    Once,
    /// Yes, and in this session it is not asked again. For `maxTurns`: the session's limit is lifted (to 1000000).
    /// For `tool`: what `always` of the question holds is granted for this session.
    Session,
    /// Yes, in every session. For `tool`: what `always` of the question holds is saved as rules.
    Always,
    /// No. For `maxTurns`: the run ends with the reason `maxTurns`. For `tool`: the call does not run, and the model is told,
    /// with the `message` if there is one.
    Deny,
}

impl Decision {
    /// Returns the word of the wire.
    pub fn as_str(self) -> &'static str {
        Resolution::from(self).as_str()
    }
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Resolution {
    /// Yes, this once.
    Once,
    /// Yes, and in this session it is not asked again.
    Session,
    /// Yes, in every session.
    Always,
    /// No.
    Deny,
    /// Nobody answered: what it was about has ended, because the run was aborted.
    Cancelled,
    /// Nobody answered before its deadline: taken for a no.
    Expired,
    /// Nobody was there to answer: taken for a no at once.
    Unattended,
    /// A word of a later version.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

impl Resolution {
    /// Returns the word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Deny => "deny",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Unattended => "unattended",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Decision> for Resolution {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Once => Self::Once,
            Decision::Session => Self::Session,
            Decision::Always => Self::Always,
            Decision::Deny => Self::Deny,
        }
    }
}

/// Parameters of [`ListApprovals`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListApprovalsParams {
    /// Only questions of this session (its id or a unique tail of it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Result of [`ListApprovals`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListApprovalsResult {
    /// Questions that wait for an answer, oldest first.
    pub approvals: Vec<Approval>,
}

/// A question and its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The session.
    pub session_id: SessionId,
    /// The question.
    #[serde(flatten)]
    pub question: Question,
}

/// Parameters of [`RespondApproval`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RespondApprovalParams {
    /// The question.
    pub approval_id: ApprovalId,
    /// The answer, one of the question's `options`.
    pub decision: Decision,
    /// A remark that is kept with the answer and shown to the other clients; with `deny`, the model is told it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::ListEvent;

    /// A client that is older than the daemon reads the rest all the same.
    #[test]
    fn words_of_a_later_version_are_read() {
        let resolution: Resolution = serde_json::from_value(json!("forwarded")).expect("it is read");
        assert_eq!(resolution, Resolution::Unknown);
        let event = json!({"type": "session_status", "sessionId": "s", "status": "dreaming"});
        let event: ListEvent = serde_json::from_value(event).expect("it is read");
        assert!(matches!(event, ListEvent::SessionStatus { status: SessionStatus::Unknown, .. }), "{event:?}");
    }
}
