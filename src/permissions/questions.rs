//! The questions of a session to people, and their ends.
//!
//! Pure. A question is in this book from when it is asked until its end is on disk. Open ones are kept in the session's
//! crash journal, so that a kill takes none; one that has ended is a `custom` entry of the session file
//! ([`APPROVAL_ENTRY`]), whose id is part of the question's id. So the file says for good who decided what, and a late
//! answer can be told so, also after a restart.

use agentd_protocol::methods::{Decision, Question, Resolution, Shown};
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
    /// Its process, where the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// What the client remarked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Answer {
    /// Returns the end of a question that nobody answers.
    pub fn by_nobody(decision: Resolution) -> Self {
        Self { decision, by: None, pid: None, message: None }
    }
}

/// What a person is shown of a tool call before it runs, and what binds the one to the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// What it will do.
    pub shown: Shown,
    /// Working directory.
    pub cwd: String,
    /// See `AskedCall::digest`.
    pub digest: String,
}

/// Who answers a question.
#[derive(Clone, Debug, Default)]
pub struct Answerer {
    /// Name of the client; `None` for one without a name.
    pub by: Option<String>,
    /// Its process, where the system tells it.
    pub pid: Option<i32>,
    /// What it remarks.
    pub message: Option<String>,
}

/// A question that has just ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The question.
    pub question: Question,
    /// How it ended.
    pub answer: Answer,
    /// The entry that keeps both.
    pub entry_id: EntryId,
    /// What that entry holds.
    pub body: EntryBody,
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

    /// Returns when the first of them is no longer waited for, in milliseconds since the epoch.
    pub fn deadline(&self) -> Option<i64> {
        self.0.iter().filter(|page| page.answer.is_none()).filter_map(|page| page.question.deadline).min()
    }

    /// Takes the first answer that a question gets. The question stays in the book until [`QuestionBook::close`].
    ///
    /// # Errors
    /// The answer does not count.
    pub fn answer(
        &mut self,
        tree: &SessionTree,
        id: &ApprovalId,
        decision: Decision,
        from: Answerer,
        now_ms: i64,
    ) -> Result<Ended, Unanswerable> {
        let Some(page) = self.0.iter_mut().find(|page| page.question.approval_id == *id) else {
            return Err(ended(tree, id).map_or_else(|| Unanswerable::Unknown(id.clone()), Unanswerable::Ended));
        };
        if let Some(answer) = &page.answer {
            return Err(Unanswerable::Ended(answer.clone()));
        }
        if !page.question.options.contains(&decision) {
            return Err(Unanswerable::NoOption { decision, options: page.question.options.clone() });
        }
        let Answerer { by, pid, message } = from;
        Ok(page.end(Answer { decision: decision.into(), by, pid, message }, now_ms))
    }

    /// Ends the questions that wait and are among those meant, without an answer.
    pub fn end(&mut self, is_meant: impl Fn(&Question) -> bool, how: Resolution, now_ms: i64) -> Vec<Ended> {
        let open = self.0.iter_mut().filter(|page| page.answer.is_none() && is_meant(&page.question));
        open.map(|page| page.end(Answer::by_nobody(how), now_ms)).collect()
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

    fn end(&mut self, answer: Answer, now_ms: i64) -> Ended {
        self.answer = Some(answer.clone());
        let (question, entry_id) = (self.question.clone(), self.entry.clone());
        Ended { body: entry_body(&question, &answer, now_ms), question, answer, entry_id }
    }
}

/// Makes the entry that keeps a question and its end.
pub fn entry_body(question: &Question, answer: &Answer, now_ms: i64) -> EntryBody {
    let record = Record { question: question.clone(), answer: answer.clone(), answered_at: now_ms };
    // Names, numbers and words: nothing that JSON cannot hold.
    let data = serde_json::to_value(record).unwrap_or(Value::Null);
    EntryBody::Custom { custom_type: APPROVAL_ENTRY.to_owned(), data }
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
            deadline: None,
            turns: Some(2),
            tool: None,
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
        let from = Answerer { by: Some(by.to_owned()), pid: Some(3), message: None };
        book.answer(tree, &id, decision, from, 9).map(|ended| ended.body)
    }

    #[test]
    fn the_first_answer_counts_and_later_ones_are_told_of_it() {
        let (mut book, mut tree) = (QuestionBook::new(vec![question("e1")]), tree());
        let refused = Unanswerable::NoOption { decision: Decision::Always, options: question("e1").options };
        assert_eq!(answer(&mut book, &tree, Decision::Always, "x"), Err(refused));
        let body = answer(&mut book, &tree, Decision::Deny, "first").unwrap();
        let EntryBody::Custom { custom_type, data } = &body else { panic!("{body:?}") };
        let expected = json!({"approvalId": "a.b.e1", "kind": "maxTurns", "text": "go on?", "options": ["once", "deny"],
            "askedAt": 5, "turns": 2, "decision": "deny", "by": "first", "pid": 3, "answeredAt": 9});
        assert_eq!((custom_type.as_str(), data), ("agentd.approval", &expected));
        let first = Answer { decision: Resolution::Deny, by: Some("first".into()), pid: Some(3), message: None };
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
        let [end] = book.end(|_| true, Resolution::Cancelled, 0).try_into().unwrap();
        assert_eq!((book.open(), &end.question), (Vec::new(), &question("e2")));
        tree.push(record::encode_entry(&end.entry_id, None, 0, &end.body).unwrap());
        assert_eq!(ended(&tree, &question("e2").approval_id), Some(Answer::by_nobody(Resolution::Cancelled)));
    }

    #[test]
    fn the_nearest_deadline_is_that_of_an_open_question() {
        let with = |entry: &str, deadline| Question { deadline, ..question(entry) };
        let mut book = QuestionBook::new(vec![with("e1", Some(7)), with("e2", None), with("e3", Some(9))]);
        assert_eq!(book.deadline(), Some(7));
        answer(&mut book, &tree(), Decision::Once, "x").unwrap();
        assert_eq!(book.deadline(), Some(9));
    }

    #[test]
    fn ids_name_their_session() {
        let id = question("e1").approval_id;
        assert_eq!((session_of(&id), entry_of(&id)), (Some("a.b".into()), Some("e1".into())));
        assert_eq!(session_of(&"e1".into()), None);
    }
}
