//! The job queue: effects and answers, performed in order, with writes as barriers.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_protocol::methods::{Decision, Empty, PromptResult, Queue, WaitResult};
use tokio::time::Instant;

use super::SessionActor;
use crate::agent::event::Event;
use crate::agent::handle::{Answer, Reply, SessionError};
use crate::agent::machine::{Effect, Input, Outcome, Refusal, ReplyId, Untold};
use crate::constants::COALESCE_WINDOW;
use crate::permissions::questions::Unanswerable;

/// Answers a request once what it waited for is written, or has failed.
type AnswerWritten = dyn FnOnce(&mut SessionActor, Result<(), SessionError>) + Send;

/// One thing to be done in its turn.
pub(super) enum Job {
    /// What the machine wants.
    Effect(Effect),
    /// An answer that depends on the writes before it: it gets their error when one fails.
    Answer(Box<AnswerWritten>),
    /// An answer that depends on nothing.
    Read(Box<dyn FnOnce(&mut SessionActor) + Send>),
}

/// Where the machine's answers go.
#[derive(Default)]
pub(super) struct Replies {
    last: u64,
    senders: HashMap<ReplyId, Sender>,
}

pub(super) enum Sender {
    Prompt(Reply<PromptResult>),
    Empty(Reply<Empty>),
    Queue(Reply<Queue>),
    Wait(Reply<WaitResult>),
}

impl Replies {
    pub(super) fn keep(&mut self, sender: Sender) -> ReplyId {
        self.last += 1;
        let id = ReplyId(self.last);
        self.senders.insert(id, sender);
        id
    }
}

impl SessionActor {
    /// Tells whether something has the file or the journal, for which every job has to wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.write.is_some() || self.prepare.is_some()
    }

    /// Performs jobs until one has to wait.
    pub(super) fn advance(&mut self) {
        while !self.is_waiting() {
            let Some(job) = self.jobs.pop_front() else { break };
            match job {
                Job::Effect(effect) => self.perform(effect),
                Job::Answer(answer) => answer(self, Ok(())),
                Job::Read(read) => read(self),
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Prepare => self.start_prepare(),
            Effect::Append { entries, sync } => self.start_append(entries, sync),
            Effect::SaveQueue(queues) => self.start_save_queue(queues),
            Effect::SaveQuestions(questions) => self.start_save_questions(questions),
            Effect::Emit(event) => self.publish(event),
            Effect::EmitEntry(id) => {
                if let Some(raw) = self.tree.get(&id).map(|entry| Arc::clone(&entry.raw)) {
                    self.publish(Event::EntryAppended(raw));
                }
            }
            Effect::StartRequest { request, entry_id } => self.start_request(request, entry_id),
            Effect::CancelRequest(request, why) => self.cancel_request(request, why),
            Effect::ValidateTool(call) => self.validate_tool(&call),
            Effect::DescribeTool(call) => self.describe_tool(&call),
            Effect::StartTool { call, approved } => self.start_tool(call, approved),
            Effect::CancelTool(call) => self.cancel_tool(&call),
            Effect::ArmRetry { retry, delay } => {
                self.retry = Some((retry, Instant::now() + delay));
                let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
                self.retry_at = Some(crate::clock::now_ms().saturating_add(delay_ms));
            }
            Effect::CancelRetry(retry) => {
                if self.retry.is_some_and(|(armed, _)| armed == retry) {
                    self.retry = None;
                    self.retry_at = None;
                }
            }
            Effect::Reply(to, outcome) => self.send_reply(to, outcome),
            Effect::Step => self.feed(Input::Step),
            Effect::Settled { is_whole } => self.on_settled(is_whole),
        }
    }

    fn on_settled(&mut self, is_whole: bool) {
        // A run that was given up may have left tools that do not end; what they print is nobody's any more.
        self.tools.clear();
        self.ring.settle();
        self.delta_drop = self.ring.next_drop();
        if !is_whole {
            self.closing = true;
        } else if let Some(write) = self.journal.begin_settle(self.machine.queues()) {
            self.start_journal_write(write);
        }
    }

    /// Publishes one event.
    pub(super) fn publish(&mut self, mut event: Event) {
        self.senders.sign(&mut event);
        self.journal.note(&event);
        self.published.note(&event);
        if matches!(event, Event::ApprovalRequested(_) | Event::ApprovalResolved { .. }) {
            self.facts.set_questions(self.published.questions.clone());
        }
        self.publish_all([event]);
    }

    /// Publishes events in one go.
    pub(super) fn publish_all(&mut self, events: impl IntoIterator<Item = Event>) {
        self.ring.push(events);
        if self.merge_flush.is_none() && self.ring.has_open_merge() {
            self.merge_flush = Some(Instant::now() + COALESCE_WINDOW);
        }
    }

    /// Lets readers of merged deltas have what was gathered so far.
    pub(super) fn end_merge(&mut self) {
        self.ring.flush_merge();
        self.merge_flush = None;
    }

    pub(super) fn send_reply(&mut self, to: ReplyId, outcome: Outcome) {
        let Some(sender) = self.replies.senders.remove(&to) else { return };
        let seq = self.ring.last_seq();
        // A client that is gone does not want its answer: a failed send is nothing.
        match (sender, outcome) {
            (Sender::Prompt(reply), Outcome::Prompt(value)) => drop(reply.send(Ok(Answer { value, seq }))),
            (Sender::Empty(reply), Outcome::Done | Outcome::Answered) => {
                drop(reply.send(Ok(Answer { value: Empty {}, seq })))
            }
            (Sender::Queue(reply), Outcome::Queue(value)) => drop(reply.send(Ok(Answer { value, seq }))),
            (Sender::Wait(reply), Outcome::Wait(value)) => drop(reply.send(Ok(Answer { value, seq }))),
            (sender, Outcome::Refused(refusal)) => sender.refuse(refusal.into()),
            (sender, _) => sender.refuse(SessionError::Failed),
        }
    }

    /// A barrier failed: what waited behind it and depends on it must not happen.
    pub(super) fn fail_jobs(&mut self, error: &SessionError) {
        let mut untold = Untold::default();
        for job in std::mem::take(&mut self.jobs) {
            match job {
                Job::Answer(answer) => answer(self, Err(error.clone())),
                Job::Effect(effect) if untold.takes(&effect) => {
                    if let Effect::Reply(to, _) = effect
                        && let Some(sender) = self.replies.senders.remove(&to)
                    {
                        sender.refuse(error.clone());
                    }
                }
                kept @ (Job::Read(_) | Job::Effect(_)) => self.jobs.push_back(kept),
            }
        }
        let saved = self.journal.saved_queues().clone();
        self.feed(Input::AppendFailed { message: error.to_string(), untold, saved });
    }
}

impl Sender {
    fn refuse(self, error: SessionError) {
        match self {
            Self::Prompt(reply) => drop(reply.send(Err(error))),
            Self::Empty(reply) => drop(reply.send(Err(error))),
            Self::Queue(reply) => drop(reply.send(Err(error))),
            Self::Wait(reply) => drop(reply.send(Err(error))),
        }
    }
}

fn no_option(decision: Decision, options: &[Decision]) -> SessionError {
    let taken: Vec<&str> = options.iter().map(|option| option.as_str()).collect();
    let message = format!("{:?} is no answer to this question; it takes {}", decision.as_str(), taken.join(", "));
    SessionError::InvalidParam { param: "decision", message }
}

impl From<Refusal> for SessionError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Busy => Self::Busy,
            Refusal::WrongState(why) => Self::WrongState(why),
            Refusal::NoModel(text) => Self::NoModel(text),
            Refusal::UnknownModel(name) => Self::UnknownModel(name),
            Refusal::Unanswerable(Unanswerable::Unknown(id)) => Self::UnknownApproval(id),
            Refusal::Unanswerable(Unanswerable::Ended(answer)) => Self::AlreadyResolved(answer),
            Refusal::Unanswerable(Unanswerable::NoOption { decision, options }) => no_option(decision, &options),
            Refusal::WorkingDirectory { path, message } => Self::WorkingDirectory { path, message },
            Refusal::Storage(message) => Self::Storage(message),
            Refusal::Locked { path, owner } => Self::Locked { path, owner },
        }
    }
}
