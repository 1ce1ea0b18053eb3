//! The crash journal of a session: what a kill must not take, and is not in the session file yet. That is the
//! queues, the open questions, the response that streams, and tool results whose batch is not complete.
//!
//! It lies in the daemon's state directory and exists only while there is something in it. Records are appended where
//! the actor runs, each time with one write that the system takes into its memory. What may have to wait for a disk is
//! done off the async threads, as a write that other jobs wait for: saving queued messages, which were promised to be
//! kept, rewriting a journal that has grown long, and replacing or removing it at the end of a run.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::AssistantMessage;
use agentd_protocol::methods::Question;
use tokio::time::Instant;

use crate::agent::event::{Event, ToolStart};
use crate::agent::machine::{Left, QueuedMessage, Queues, ToolEnd, result_message};
use crate::clock;
use crate::constants::JOURNAL_INTERVAL;
use crate::provider::stream::StreamEvent;
use crate::store::crash_journal::{CrashJournal, JournalRecord, JournalUpdate};
use crate::store::error::StoreError;
use crate::store::session_file::SyncMode;

/// The journal as the actor keeps it.
pub(crate) struct Journal {
    path: PathBuf,
    /// `None` while a write has it.
    file: Option<CrashJournal>,
    session_file: PathBuf,
    /// Records that wait to be written.
    pending: Vec<JournalRecord>,
    flush_at: Option<Instant>,
    saved_queues: Queues,
    /// Whether anything was noted since the session was last idle.
    is_dirty: bool,
}

/// A write of the journal that other jobs wait for.
pub(super) struct JournalWrite {
    file: CrashJournal,
    records: Vec<JournalRecord>,
    kind: WriteKind,
}

enum WriteKind {
    /// Appends the records, which lead to these queues.
    SaveQueues(Queues),
    /// Appends the records, the open questions among them.
    SaveQuestions,
    /// Appends the records, then leaves out what is no longer needed.
    Shorten,
    /// Puts the records, which hold these queues, in the place of all others.
    Settle(Queues),
}

/// What there is to do to save the queues.
pub(super) enum QueueSave {
    /// Write them.
    Write(JournalWrite),
    /// Nothing: they are saved as they are.
    AsSaved,
    /// It cannot be done: a write that failed for good took the journal with it.
    Lost,
}

impl Journal {
    /// Returns the journal at `path` of the session in `session_file`; `queues` are saved in it already, and with
    /// `has_run` a run that waits for an answer.
    pub(crate) fn new(path: &Path, session_file: PathBuf, queues: Queues, has_run: bool) -> Self {
        Self {
            path: path.to_owned(),
            file: Some(CrashJournal::open(path)),
            session_file,
            pending: Vec::new(),
            flush_at: None,
            saved_queues: queues,
            is_dirty: has_run,
        }
    }

    /// Returns the journal's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the queues as they were last saved.
    pub(super) fn saved_queues(&self) -> &Queues {
        &self.saved_queues
    }

    /// Returns when waiting records are due.
    pub(super) fn flush_at(&self) -> Option<Instant> {
        self.flush_at.filter(|_| self.file.is_some())
    }

    pub(super) fn flush_due(&mut self, now: Instant) {
        if self.flush_at().is_some_and(|at| at <= now) {
            self.flush();
        }
    }

    fn add(&mut self, record: JournalRecord) {
        self.pending.push(record);
        self.is_dirty = true;
        self.flush_at.get_or_insert_with(|| Instant::now() + JOURNAL_INTERVAL);
    }

    /// Writes what waits. A failure costs no more than the journal is for: it is logged, and the run goes on.
    fn flush(&mut self) {
        let Some(file) = self.file.as_mut().filter(|_| !self.pending.is_empty()) else { return };
        self.flush_at = None;
        let records = std::mem::take(&mut self.pending);
        if let Err(error) = file.append(&records, SyncMode::Flush) {
            tracing::warn!(error = %error.report(), "cannot write the crash journal");
        }
    }

    pub(super) fn note_message_start(
        &mut self,
        entry_id: &EntryId,
        parent_id: Option<EntryId>,
        message: &AssistantMessage,
    ) {
        self.add(JournalRecord::MessageStart {
            entry_id: entry_id.clone(),
            parent_id,
            message: Box::new(message.clone()),
        });
    }

    /// Keeps a step of the response that streams.
    pub(super) fn note_stream(&mut self, event: &StreamEvent) {
        let update = match event {
            StreamEvent::BlockStart { index, kind } => JournalUpdate::Start(*index, kind.into()),
            StreamEvent::Delta { index, delta, .. } => JournalUpdate::Delta(*index, Arc::clone(delta)),
            StreamEvent::Signature { index, signature } => JournalUpdate::Signature(*index, signature.clone()),
            StreamEvent::Redacted { index } => JournalUpdate::Redacted(*index),
            StreamEvent::ToolCallName { index, id, name } => JournalUpdate::Name(*index, id.clone(), name.clone()),
            StreamEvent::BlockEnd { index } => JournalUpdate::End(*index),
            StreamEvent::Usage(usage) => return self.add(JournalRecord::Usage(*usage)),
            StreamEvent::Started | StreamEvent::Meta { .. } | StreamEvent::Stop { .. } => return,
        };
        self.add(JournalRecord::Update(update));
    }

    pub(super) fn note_tool_started(&mut self, call: &ToolStart) {
        self.add(JournalRecord::ToolStarted {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            entry_id: call.entry_id.clone(),
        });
        self.flush();
    }

    /// Keeps what an event tells of before it is told: that a run begins, and the result of a tool.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::AgentStart => {
                self.add(JournalRecord::Run { session_file: self.session_file.clone(), started: clock::now_ms() })
            }
            Event::ToolExecutionEnd { call, result, is_error, duration_ms } => {
                let end = ToolEnd { result: Arc::clone(result), is_error: *is_error, duration_ms: *duration_ms };
                let message = Box::new(result_message(call, &end, clock::now_ms()));
                self.add(JournalRecord::ToolFinished { entry_id: call.entry_id.clone(), message });
            }
            _ => return,
        }
        self.flush();
    }

    /// An entry is in the session file.
    pub(super) fn note_written(&mut self, entry_id: &EntryId) {
        if self.is_dirty {
            self.add(JournalRecord::MessageWritten { entry_id: entry_id.clone() });
        }
    }

    /// Begins to write the queues.
    pub(super) fn begin_queue_write(&mut self, queues: Queues) -> QueueSave {
        if queues == self.saved_queues {
            return QueueSave::AsSaved;
        }
        let Some(mut file) = self.file.take() else { return QueueSave::Lost };
        file.note_dead(self.saved_queues.bytes().saturating_sub(queues.bytes()) as u64);
        let mut records = std::mem::take(&mut self.pending);
        self.flush_at = None;
        records.extend(queue_change(&self.saved_queues, &queues));
        QueueSave::Write(JournalWrite { file, records, kind: WriteKind::SaveQueues(queues) })
    }

    /// Begins to write the questions that are open below `leaf`; `None` when a write that failed for good took the
    /// journal with it.
    pub(super) fn begin_question_write(
        &mut self,
        questions: Vec<Question>,
        leaf_id: Option<EntryId>,
    ) -> Option<JournalWrite> {
        let file = self.file.take()?;
        let mut records = std::mem::take(&mut self.pending);
        self.flush_at = None;
        self.is_dirty = true;
        records.push(JournalRecord::Questions { leaf_id, questions });
        Some(JournalWrite { file, records, kind: WriteKind::SaveQuestions })
    }

    /// Begins to rewrite a journal that has grown long; `None` when it has not.
    pub(super) fn begin_shorten(&mut self) -> Option<JournalWrite> {
        let file = self.file.take_if(|file| file.is_long())?;
        self.flush_at = None;
        Some(JournalWrite { file, records: std::mem::take(&mut self.pending), kind: WriteKind::Shorten })
    }

    pub(super) fn end_write(&mut self, write: JournalWrite, is_written: bool) {
        self.file = Some(write.file);
        match write.kind {
            WriteKind::SaveQueues(queues) | WriteKind::Settle(queues) if is_written => self.saved_queues = queues,
            _ => {}
        }
    }

    /// The run is over and everything of it is in the session file: only the queues are still needed. `None` when
    /// nothing else is there.
    pub(super) fn begin_settle(&mut self, queues: &Queues) -> Option<JournalWrite> {
        self.pending.clear();
        self.flush_at = None;
        if !self.is_dirty && *queues == self.saved_queues {
            return None;
        }
        let file = self.file.take()?;
        self.is_dirty = false;
        let records = if queues.is_empty() { Vec::new() } else { vec![queue_record(queues)] };
        Some(JournalWrite { file, records, kind: WriteKind::Settle(queues.clone()) })
    }

    /// Writes what waits when the actor ends.
    pub(super) fn close(&mut self) {
        self.flush();
    }
}

impl JournalWrite {
    /// Tells whether something was promised that is not so if this fails.
    pub(super) fn is_promise(&self) -> bool {
        matches!(self.kind, WriteKind::SaveQueues(_) | WriteKind::SaveQuestions)
    }

    /// Writes; blocks.
    pub(super) fn perform(&mut self, sync: SyncMode) -> Result<(), StoreError> {
        match self.kind {
            WriteKind::SaveQueues(_) | WriteKind::SaveQuestions => {
                self.file.append(&self.records, sync)?;
                if self.file.is_long()
                    && let Err(error) = self.file.shorten(sync)
                {
                    // What was promised is in the long one.
                    tracing::warn!(error = %error.report(), "cannot shorten the crash journal");
                }
                Ok(())
            }
            WriteKind::Shorten => {
                self.file.append(&self.records, SyncMode::Flush)?;
                self.file.shorten(SyncMode::Flush)
            }
            WriteKind::Settle(_) => self.file.reset(&self.records, SyncMode::Flush),
        }
    }
}

/// Returns the records that lead from queues that are saved to others: what has left and what has come. A queue is
/// not written whole with each message.
fn queue_change(saved: &Queues, now: &Queues) -> Vec<JournalRecord> {
    if now.is_empty() {
        return vec![queue_record(now)];
    }
    let waits = |queued: &&QueuedMessage| now.iter().any(|other| other.entry_id == queued.entry_id);
    let entry_ids: Vec<EntryId> =
        saved.iter().filter(|queued| !waits(queued)).map(|queued| queued.entry_id.clone()).collect();
    let (steering, follow_up) = match (
        come_to_the_end(saved.steering.iter().filter(waits), &now.steering),
        come_to_the_end(saved.follow_up.iter().filter(waits), &now.follow_up),
    ) {
        (Some(steering), Some(follow_up)) => (steering, follow_up),
        // Something came elsewhere: only the whole tells that.
        _ => return vec![queue_record(now)],
    };
    let mut records = Vec::new();
    if !entry_ids.is_empty() {
        records.push(JournalRecord::Unqueued { entry_ids });
    }
    if !steering.is_empty() || !follow_up.is_empty() {
        records.push(JournalRecord::Queued { steering, follow_up });
    }
    records
}

/// Returns what a queue has behind the messages that stayed in it; `None` if these are not its beginning.
fn come_to_the_end<'a>(
    stayed: impl Iterator<Item = &'a QueuedMessage>,
    now: &VecDeque<QueuedMessage>,
) -> Option<Vec<QueuedMessage>> {
    let mut rest = now.iter();
    for queued in stayed {
        if rest.next() != Some(queued) {
            return None;
        }
    }
    Some(rest.cloned().collect())
}

/// Returns what a journal holds once its session is loaded: what waits to be sent, and the run that waits for answers
/// to questions, which are open below `leaf_id`, with the results of the other calls.
pub(crate) fn left_records(left: &Left, leaf_id: Option<EntryId>, session_file: &Path) -> Vec<JournalRecord> {
    let Left { queues, questions, batch, .. } = left;
    let mut records = Vec::new();
    if !questions.is_empty() {
        let now = clock::now_ms();
        records.push(JournalRecord::Run { session_file: session_file.to_owned(), started: now });
        let calls = batch.iter().flat_map(|batch| &batch.calls);
        let ended = calls.filter_map(|(call, end)| Some((call, end.as_ref()?)));
        records.extend(ended.map(|(call, end)| JournalRecord::ToolFinished {
            entry_id: call.entry_id.clone(),
            message: Box::new(result_message(call, end, now)),
        }));
        records.push(JournalRecord::Questions { leaf_id, questions: questions.clone() });
    }
    if !queues.is_empty() {
        records.push(queue_record(queues));
    }
    records
}

/// Returns the record of the queues.
fn queue_record(queues: &Queues) -> JournalRecord {
    JournalRecord::Queue {
        steering: queues.steering.iter().cloned().collect(),
        follow_up: queues.follow_up.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use agentd_protocol::message::UserMessage;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::store::crash_journal::JournalQueues;

    fn queue(ids: &str) -> VecDeque<QueuedMessage> {
        let message = || UserMessage { content: Vec::new(), timestamp: 0, client_message_id: None };
        ids.chars().map(|id| QueuedMessage { entry_id: id.to_string().into(), message: message() }).collect()
    }

    /// Whatever became of the queues, the records lead there, and hold no message that was saved before unless the
    /// order changed.
    #[test]
    fn a_change_of_the_queues_is_written_as_what_came_and_went() {
        for (saved, now, written) in [
            (("", ""), ("a", ""), 1),
            (("a", "f"), ("ab", "fg"), 2),
            (("abc", "f"), ("cd", "f"), 1),
            (("ab", "fg"), ("b", "g"), 0),
            (("ab", ""), ("ba", ""), 2),
            (("b", ""), ("ab", ""), 2),
            (("ab", "f"), ("", ""), 0),
        ] {
            let of = |(steering, follow_up)| Queues { steering: queue(steering), follow_up: queue(follow_up) };
            let (saved, now) = (of(saved), of(now));
            let records = [vec![queue_record(&saved)], queue_change(&saved, &now)].concat();
            let mut found = JournalQueues::default();
            records.iter().for_each(|record| assert!(found.take(record)));
            assert_eq!(found.steering, now.steering.iter().collect::<Vec<_>>());
            assert_eq!(found.follow_up, now.follow_up.iter().collect::<Vec<_>>());
            let count: usize = records[1..]
                .iter()
                .map(|record| match record {
                    JournalRecord::Queue { steering, follow_up } | JournalRecord::Queued { steering, follow_up } => {
                        steering.len() + follow_up.len()
                    }
                    _ => 0,
                })
                .sum();
            assert_eq!(count, written, "{now:?}");
        }
    }
}
