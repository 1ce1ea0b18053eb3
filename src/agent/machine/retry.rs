//! Retry wait: a failed request, the pause, and the next attempt.

use std::time::Duration;

use agentd_protocol::methods::{RetryState, RunEnd};

use super::core::{Machine, Moment, Pause, Phase};
use super::effect::{Effect, Outcome};
use super::input::{Failure, ReplyId, RetryId};
use super::queue::Line;
use crate::agent::backoff::{self, Decision};
use crate::agent::event::Event;
use crate::provider::error::ErrorClass;

/// `finalError` when a person ends the pause (pi's word).
const CANCELLED: &str = "Retry cancelled";

/// What is said of a conversation that has outgrown its model. Sending it again would only cost time.
const OVERFLOW: &str = "the conversation does not fit into the model's context window; go on in a new session, or \
                        choose a model with a larger one";

impl Machine {
    /// Tries again after a pause, or ends the run.
    pub(super) fn after_failure(&mut self, moment: Moment<'_>, failure: Failure, error: String) {
        let jitter = self.next_random();
        let retries = self.run_mut().retries;
        if failure.class == ErrorClass::Image && self.leave_images_out(moment) {
            // Another request than the one that failed, so that there is nothing to wait for. Each time fewer
            // messages have images: this ends.
            return match self.settings.retry.enabled {
                true => self.wait_for_retry(moment, retries + 1, Duration::ZERO, error),
                false => self.give_up(error),
            };
        }
        match backoff::decide(&self.settings.retry, failure.class, failure.retry_after, retries, jitter) {
            Decision::Retry { attempt, delay } => self.wait_for_retry(moment, attempt, delay, error),
            Decision::GiveUp if failure.class == ErrorClass::Overflow => {
                self.give_up(format!("{error} ({OVERFLOW})"));
            }
            Decision::GiveUp => self.give_up(error),
            Decision::WaitTooLong(asked) => {
                let seconds = asked.as_secs();
                self.give_up(format!("{error} (the provider asks to wait {seconds} s; prompt again after that)"));
            }
        }
    }

    fn wait_for_retry(&mut self, moment: Moment<'_>, attempt: u32, delay: Duration, error: String) {
        let max_attempts = self.settings.retry.max_retries;
        let run = self.run_mut();
        run.retries = attempt;
        let messages = std::mem::take(&mut run.messages);
        let failed = messages.last().map(|message| message.id.clone());
        self.emit(Event::AgentEnd { messages, will_retry: true });
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.emit(Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message: error.clone() });
        if let Some(failed) = failed {
            // The failed response must not be in the context of any later request; the file keeps it.
            self.hide(moment, failed);
        }
        let id = RetryId(self.next_number());
        self.effects.push(Effect::ArmRetry { retry: id, delay });
        let state = RetryState { attempt, max_attempts, delay_ms, error_message: error };
        self.phase = Phase::RetryWait(Pause { id, state });
    }

    fn give_up(&mut self, error: String) {
        let run = self.run_mut();
        run.error = Some(error.clone());
        let retries = run.retries;
        let messages = std::mem::take(&mut run.messages);
        self.emit(Event::AgentEnd { messages, will_retry: false });
        if retries > 0 {
            self.emit(Event::AutoRetryEnd { success: false, attempt: retries, final_error: Some(error) });
        }
        self.settle(RunEnd::Error);
    }

    pub(super) fn on_retry_due(&mut self, moment: Moment<'_>, retry: RetryId) {
        if !matches!(&self.phase, Phase::RetryWait(pause) if pause.id == retry) {
            return;
        }
        self.emit(Event::AgentStart);
        self.emit(Event::TurnStart);
        if self.urgent > 0 {
            self.inject(Line::Steering);
        }
        self.request(moment);
    }

    /// A request succeeded: the next one that fails starts counting anew.
    pub(super) fn end_retries(&mut self) {
        let attempt = std::mem::take(&mut self.run_mut().retries);
        if attempt > 0 {
            self.emit(Event::AutoRetryEnd { success: true, attempt, final_error: None });
        }
    }

    /// A person does not want to wait: the run ends with the failure that the retry was to mend.
    pub(super) fn on_abort_retry(&mut self, reply: ReplyId) {
        if let Phase::RetryWait(pause) = &self.phase {
            let retry = pause.id;
            self.effects.push(Effect::CancelRetry(retry));
            self.cancel_retries();
            self.settle(RunEnd::Error);
        }
        self.reply(reply, Outcome::Done);
    }

    /// A person ended the run during the pause.
    pub(super) fn end_retry_wait(&mut self) {
        self.cancel_retries();
        self.settle(RunEnd::Aborted);
    }

    /// A person ended the attempt or the pause before it.
    pub(super) fn cancel_retries(&mut self) {
        let attempt = std::mem::take(&mut self.run_mut().retries);
        if attempt > 0 {
            self.emit(Event::AutoRetryEnd { success: false, attempt, final_error: Some(CANCELLED.to_owned()) });
        }
    }
}
