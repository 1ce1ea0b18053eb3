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
    /// For `maxTurns`: the turns that the run has taken since it began or last went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
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
    /// A kind of a later version.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Yes, this once. For `maxTurns`: the run goes on for another `maxTurns` turns.
    Once,
    /// Yes, and in this session it is not asked again. For `maxTurns`: the session's limit is lifted (to 1000000).
    Session,
    /// Yes, in every session. No kind of question takes it yet.
    Always,
    /// No. For `maxTurns`: the run ends with the reason `maxTurns`.
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
    /// A remark that is kept with the answer and shown to the other clients.
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
