//! A failed write: what it takes with it, and how the run ends.

use agentd_protocol::methods::RunEnd;

use super::core::{Machine, Moment, Next, Phase};
use super::effect::{Cut, Effect, Outcome};
use super::queue::{QueuedMessage, Queues};
use crate::agent::event::Event;
use crate::permissions::questions::QuestionBook;

/// What clients were not told because a write failed before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// That the run, or its next attempt, has begun.
    pub agent_start: bool,
    /// What the queues hold.
    pub queues: bool,
}

impl Untold {
    /// Tells whether an effect that waits behind a failed write must not be performed, and takes note of it.
    ///
    /// What tells of the end of a run or an attempt stays: the machine says it once, and clients wait for it. So do
    /// answers that promise nothing which that write was to keep.
    pub fn takes(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Emit(Event::AgentStart) => self.agent_start = true,
            Effect::Emit(Event::QueueUpdate { .. }) => self.queues = true,
            Effect::Emit(
                Event::AgentEnd { .. }
                | Event::AgentSettled { .. }
                | Event::AutoRetryStart { .. }
                | Event::AutoRetryEnd { .. }
                | Event::Notice { .. },
            )
            | Effect::Reply(_, Outcome::Done | Outcome::Wait(_) | Outcome::Refused(_))
            | Effect::Prepare
            | Effect::CancelRequest(..)
            | Effect::CancelTool(_)
            | Effect::CancelRetry(_)
            | Effect::Settled { .. } => return false,
            Effect::Append { .. }
            | Effect::SaveQueue(_)
            | Effect::SaveQuestions(_)
            | Effect::Emit(_)
            | Effect::EmitEntry(_)
            | Effect::StartRequest { .. }
            | Effect::ValidateTool(_)
            | Effect::DescribeTool(_)
            | Effect::StartTool { .. }
            | Effect::ArmRetry { .. }
            | Effect::Reply(..)
            | Effect::Step => {}
        }
        true
    }
}

impl Machine {
    /// A write failed: whatever is going on ends, without a further write.
    ///
    /// Clients are not told that a question has ended, for it has not: the crash journal keeps it, and it is asked again
    /// under the same id when the session is loaded anew.
    pub(super) fn on_append_failed(&mut self, moment: Moment<'_>, message: String, untold: Untold, saved: Queues) {
        self.emit(Event::Notice { kind: "write_failed", message: message.clone() });
        self.restore_queues(moment, saved, untold.queues);
        self.questions = QuestionBook::default();
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => return,
            Phase::Starting(starting) => {
                // Nothing of this run was written yet; what failed belongs to something else.
                self.phase = Phase::Starting(starting);
                return;
            }
            Phase::Streaming(streaming) => self.effects.push(Effect::CancelRequest(streaming.request, Cut::Stopped)),
            Phase::Tools(batch) => {
                let running = batch.running();
                self.effects.extend(running.into_iter().map(Effect::CancelTool));
            }
            // The end of the attempt was told before.
            Phase::RetryWait(pause) => {
                self.effects.push(Effect::CancelRetry(pause.id));
                return self.end_failed(message);
            }
            Phase::Between(Next::Settle(_)) => return self.end_failed(message),
            Phase::Between(_) | Phase::Asking { .. } => {}
        }
        if !untold.agent_start {
            let mut messages = std::mem::take(&mut self.run_mut().messages);
            messages.retain(|entry| moment.tree.get(&entry.id).is_some());
            self.emit(Event::AgentEnd { messages, will_retry: false });
            self.end_failed(message);
        } else if self.run_mut().is_announced {
            // Of this attempt clients know nothing, but of the one before.
            self.end_failed(message);
        } else {
            self.settle_unannounced();
        }
    }

    fn end_failed(&mut self, message: String) {
        self.run_mut().error = Some(message);
        self.cancel_retries();
        self.settle(RunEnd::Storage);
    }

    /// Goes back to the queues as they were last saved, without what has become an entry since.
    fn restore_queues(&mut self, moment: Moment<'_>, mut saved: Queues, is_untold: bool) {
        let is_waiting = |queued: &QueuedMessage| moment.tree.get(&queued.entry_id).is_none();
        saved.steering.retain(is_waiting);
        saved.follow_up.retain(is_waiting);
        if is_untold || saved != self.queues {
            self.queues = saved;
            self.urgent = 0;
            let event = self.queues.event();
            self.emit(event);
        }
    }
}
