//! The questions of a session to people, and their ends.
//!
//! Pure. A question is in this book from when it is asked until its end is on disk. Open ones are kept in the session's
//! crash journal, so that a kill takes none; one that has ended is a `custom` entry of the session file
//! ([`APPROVAL_ENTRY`]), whose id is part of the question's id. So the file says for good who decided what, and a late
//! answer can be told so, also after a restart.

use agentd_protocol::methods::{Decision, Question, Resolution};
use agentd_protocol::{ApprovalId, EntryId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::constants::APPROVAL_ENTRY;
use crate::session::entry::EntryBody;
use crate::session::tree::SessionTree;

/// How a question ended, and who ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What was decided.
    pub decision: Resolution,
    /// Name of the client that answered; `None` when nobody did, or a client without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What the client remarked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Answer {
    /// Returns the end of a question that nobody answers any more.
    pub fn cancelled() -> Self {
        Self { decision: Resolution::Cancelled, by: None, message: None }
    }
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswerable {
    /// There is no such question.
    Unknown(ApprovalId),
    /// It has ended.
    Ended(Answer),
    /// The question does not take it.
    NoOption {
        /// The answer that was given.
        decision: Decision,
        /// The answers that it takes.
        options: Vec<Decision>,
    },
}

/// What the entry of a question that has ended holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(flatten)]
    question: Question,
    #[serde(flatten)]
    answer: Answer,
    /// Milliseconds since the epoch.
    answered_at: i64,
}

/// A question that has not ended, or whose end is not on disk yet.
#[derive(Clone, Debug)]
struct Page {
    question: Question,
    /// The entry that it becomes.
    entry: EntryId,
    answer: Option<Answer>,
}

/// The questions of one session.
#[derive(Clone, Debug, Default)]
pub struct QuestionBook(Vec<Page>);

impl QuestionBook {
    /// Returns a book with questions that were asked before.
    pub fn new(open: Vec<Question>) -> Self {
        Self(open.into_iter().filter_map(Page::new).collect())
    }

    /// Tells whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn open(&self) -> Vec<Question> {
        self.0.iter().filter(|page| page.answer.is_none()).map(|page| page.question.clone()).collect()
    }

    /// Asks. The question's id is made by [`approval_id`].
    pub fn ask(&mut self, question: Question) {
        self.0.extend(Page::new(question));
    }

    /// Takes the first answer that a question gets and returns the entry that keeps both. The question stays in the
    /// book until [`QuestionBook::close`].
    ///
    /// # Errors
    /// The answer does not count.
    pub fn answer(
        &mut self,
        tree: &SessionTree,
        id: &ApprovalId,
        decision: Decision,
        (by, message): (Option<String>, Option<String>),
        now_ms: i64,
    ) -> Result<(EntryId, EntryBody), Unanswerable> {
        let Some(page) = self.0.iter_mut().find(|page| page.question.approval_id == *id) else {
            return Err(ended(tree, id).map_or_else(|| Unanswerable::Unknown(id.clone()), Unanswerable::Ended));
        };
        if let Some(answer) = &page.answer {
            return Err(Unanswerable::Ended(answer.clone()));
        }
        if !page.question.options.contains(&decision) {
            return Err(Unanswerable::NoOption { decision, options: page.question.options.clone() });
        }
        Ok(page.end(Answer { decision: decision.into(), by, message }, now_ms))
    }

    /// Ends every question that waits without an answer; returns their ids and the entries that keep them.
    pub fn cancel_all(&mut self, now_ms: i64) -> Vec<(ApprovalId, EntryId, EntryBody)> {
        let open = self.0.iter_mut().filter(|page| page.answer.is_none());
        let ended = open.map(|page| {
            let (entry_id, body) = page.end(Answer::cancelled(), now_ms);
            (page.question.approval_id.clone(), entry_id, body)
        });
        ended.collect()
    }

    /// Takes out the questions whose ends are on disk.
    pub fn close(&mut self) {
        self.0.retain(|page| page.answer.is_none());
    }
}

impl Page {
    fn new(question: Question) -> Option<Self> {
        entry_of(&question.approval_id).map(|entry| Self { question, entry, answer: None })
    }

    fn end(&mut self, answer: Answer, now_ms: i64) -> (EntryId, EntryBody) {
        self.answer = Some(answer.clone());
        let record = Record { question: self.question.clone(), answer, answered_at: now_ms };
        // Names, numbers and words: nothing that JSON cannot hold.
        let data = serde_json::to_value(record).unwrap_or(Value::Null);
        (self.entry.clone(), EntryBody::Custom { custom_type: APPROVAL_ENTRY.to_owned(), data })
    }
}

/// Makes the id of a question: it names the session, which may have to be loaded for the answer, and the entry that
/// the question becomes when it ends.
pub fn approval_id(session: &SessionId, entry: &EntryId) -> ApprovalId {
    ApprovalId::new(format!("{session}.{entry}"))
}

/// Returns the session of a question; `None` for a text that is no id of one.
pub fn session_of(id: &ApprovalId) -> Option<SessionId> {
    id.as_str().rsplit_once('.').map(|(session, _)| SessionId::new(session))
}

/// Returns the entry that a question becomes when it ends; `None` for a text that is no id of one.
pub fn entry_of(id: &ApprovalId) -> Option<EntryId> {
    id.as_str().rsplit_once('.').map(|(_, entry)| EntryId::new(entry))
}

/// Returns how a question ended, if the session file says so.
pub fn ended(tree: &SessionTree, id: &ApprovalId) -> Option<Answer> {
    match &tree.get(&entry_of(id)?)?.body {
        EntryBody::Custom { custom_type, data } if custom_type == APPROVAL_ENTRY => {
            let record: Record = serde_json::from_value(data.clone()).ok()?;
            (record.question.approval_id == *id).then_some(record.answer)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use agentd_protocol::methods::QuestionKind;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::session::entry::Header;
    use crate::store::record;

    fn question(entry: &str) -> Question {
        Question {
            approval_id: approval_id(&"a.b".into(), &entry.into()),
            kind: QuestionKind::MaxTurns,
            text: "go on?".into(),
            options: vec![Decision::Once, Decision::Deny],
            asked_at: 5,
            turns: Some(2),
        }
    }

    fn tree() -> SessionTree {
        SessionTree::new(Header { version: 3, id: "a.b".into(), timestamp: 0, cwd: "/".into(), parent_session: None })
    }

    fn answer(
        book: &mut QuestionBook,
        tree: &SessionTree,
        decision: Decision,
        by: &str,
    ) -> Result<EntryBody, Unanswerable> {
        let id = question("e1").approval_id;
        book.answer(tree, &id, decision, (Some(by.to_owned()), None), 9).map(|(_, body)| body)
    }

    #[test]
    fn the_first_answer_counts_and_later_ones_are_told_of_it() {
        let (mut book, mut tree) = (QuestionBook::new(vec![question("e1")]), tree());
        let refused = Unanswerable::NoOption { decision: Decision::Always, options: question("e1").options };
        assert_eq!(answer(&mut book, &tree, Decision::Always, "x"), Err(refused));
        let body = answer(&mut book, &tree, Decision::Deny, "first").unwrap();
        let EntryBody::Custom { custom_type, data } = &body else { panic!("{body:?}") };
        let expected = json!({"approvalId": "a.b.e1", "kind": "maxTurns", "text": "go on?", "options": ["once", "deny"],
            "askedAt": 5, "turns": 2, "decision": "deny", "by": "first", "answeredAt": 9});
        assert_eq!((custom_type.as_str(), data), ("agentd.approval", &expected));
        let first = Answer { decision: Resolution::Deny, by: Some("first".into()), message: None };
        // While the answer is being written, after it, and when the session has been loaded anew.
        assert_eq!(answer(&mut book, &tree, Decision::Once, "late"), Err(Unanswerable::Ended(first.clone())));
        tree.push(record::encode_entry(&"e1".into(), None, 0, &body).unwrap());
        book.close();
        assert!(book.is_empty());
        for mut book in [book, QuestionBook::default()] {
            assert_eq!(answer(&mut book, &tree, Decision::Once, "late"), Err(Unanswerable::Ended(first.clone())));
        }
    }

    #[test]
    fn a_question_that_was_never_asked_is_unknown() {
        let mut book = QuestionBook::new(vec![question("e2")]);
        let unknown = Unanswerable::Unknown(question("e1").approval_id);
        assert_eq!(answer(&mut book, &tree(), Decision::Once, "x"), Err(unknown));
    }

    #[test]
    fn what_ends_with_its_run_is_kept_as_cancelled() {
        let (mut book, mut tree) = (QuestionBook::default(), tree());
        book.ask(question("e1"));
        book.ask(question("e2"));
        assert_eq!(book.open(), [question("e1"), question("e2")]);
        answer(&mut book, &tree, Decision::Once, "x").unwrap();
        let [(id, entry, body)] = book.cancel_all(0).try_into().unwrap();
        assert_eq!((book.open(), &id), (Vec::new(), &question("e2").approval_id));
        tree.push(record::encode_entry(&entry, None, 0, &body).unwrap());
        assert_eq!(ended(&tree, &id), Some(Answer::cancelled()));
    }

    #[test]
    fn ids_name_their_session() {
        let id = question("e1").approval_id;
        assert_eq!((session_of(&id), entry_of(&id)), (Some("a.b".into()), Some("e1".into())));
        assert_eq!(session_of(&"e1".into()), None);
    }
}
