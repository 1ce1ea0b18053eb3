//! Questions of sessions, and their ends, as people see them.

use agentd_protocol::ApprovalId;
use agentd_protocol::methods::{Question, Resolution};

use super::clean::one_line;
use super::transcript::{Piece, Tone};

/// Returns what people call a question: the end of its id. The whole id where that is no such text.
pub(crate) fn short_approval(id: &ApprovalId) -> &str {
    id.as_str().rsplit_once('.').map_or(id.as_str(), |(_, end)| end)
}

/// Shows a question that waits, with its name.
pub(crate) fn asked(question: &Question) -> Piece {
    let id = one_line(short_approval(&question.approval_id));
    Piece::Line(Tone::Waiting, format!("? {} (question {id})", one_line(&question.text)))
}

/// Shows how a question ended.
pub(crate) fn resolved(decision: Resolution, by: Option<&str>, message: Option<&str>) -> Piece {
    let by = by.map(|by| format!(" by {}", one_line(by))).unwrap_or_default();
    let remark = message.map(|text| format!(": {}", one_line(text))).unwrap_or_default();
    let text = match decision {
        Resolution::Cancelled => "the question has lapsed".to_owned(),
        decision => format!("answered {}{by}{remark}", decision.as_str()),
    };
    Piece::Line(Tone::Note, text)
}
