//! Consent: a tool call that the gate has asked about waits for its own answer, while the others of its response go on.

use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::methods::{AskedCall, Decision, Question, QuestionKind, Resolution, RunEnd};
use serde_json::Value;

use super::core::{Machine, Moment, Phase};
use super::effect::Effect;
use super::input::ToolEnd;
use super::tools::{ABORTED, Call, CallState, ToolBatch, never_ran};
use crate::agent::event::{Event, MessageEntry, ToolStart};
use crate::permissions::policy::{Ask, Rule};
use crate::permissions::questions::{Answer, Ended, Preview, entry_body, entry_of};
use crate::session::settings::StoredSettings;

/// The calls of a response that the end of a daemon has left in the middle, some of them waiting for answers.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftBatch {
    /// The response.
    pub assistant: MessageEntry,
    /// Its calls in order; those without an end wait.
    pub calls: Vec<(Arc<ToolStart>, Option<ToolEnd>)>,
}

impl From<LeftBatch> for ToolBatch {
    fn from(left: LeftBatch) -> Self {
        let state = |end: Option<ToolEnd>| end.map_or(CallState::Asking, CallState::Done);
        let calls = left.calls.into_iter().map(|(start, end)| Call { start, state: state(end) }).collect();
        Self { assistant: left.assistant, calls, is_from_before: true }
    }
}

/// Makes the event that tells of the end of a call.
pub(super) fn end_event(start: &Arc<ToolStart>, end: &ToolEnd) -> Event {
    Event::ToolExecutionEnd {
        call: Arc::clone(start),
        result: Arc::clone(&end.result),
        is_error: end.is_error,
        duration_ms: end.duration_ms,
    }
}

impl Machine {
    /// Returns what clients had been told of the calls that a daemon before this one has left.
    pub fn told_of_calls(&self) -> Vec<Event> {
        let Phase::Tools(batch) = &self.phase else { return Vec::new() };
        let starts = batch.calls.iter().map(|call| Event::ToolExecutionStart(Arc::clone(&call.start)));
        let ends = batch.calls.iter().filter_map(|call| match &call.state {
            CallState::Done(end) => Some(end_event(&call.start, end)),
            _ => None,
        });
        starts.chain(ends).collect()
    }

    /// The gate wants a person to decide: first it is found out what there is to show.
    pub(super) fn seek_consent(&mut self, id: &EntryId, ask: Ask) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        let Some(call) = batch.open(id) else { return };
        call.state = CallState::Describing(ask);
        self.effects.push(Effect::DescribeTool(Arc::clone(&call.start)));
    }

    pub(super) fn on_tool_described(&mut self, moment: Moment<'_>, id: &EntryId, preview: Result<Preview, ToolEnd>) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        let Some(call) = batch.open(id) else { return };
        let CallState::Describing(ask) = &call.state else { return };
        let (ask, start) = (ask.clone(), Arc::clone(&call.start));
        // What cannot run is not asked about.
        let preview = match preview {
            Ok(preview) => preview,
            Err(end) => return self.finish_call(moment, id, end),
        };
        let question = self.consent_question(moment, &start, ask, preview);
        if self.asks_nobody(moment) {
            return self.deny_unasked(moment, id, question);
        }
        if let Phase::Tools(batch) = &mut self.phase
            && let Some(call) = batch.open(id)
        {
            call.state = CallState::Asking;
        }
        self.ask(question);
    }

    fn consent_question(&mut self, moment: Moment<'_>, start: &ToolStart, ask: Ask, preview: Preview) -> Question {
        let always: Vec<Value> = ask.always.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect();
        let options = match always.is_empty() {
            true => vec![Decision::Once, Decision::Deny],
            false => vec![Decision::Once, Decision::Session, Decision::Deny],
        };
        let text = format!("Let {} run? {}", start.name, sentence(&ask.reason));
        let question = self.question(moment, QuestionKind::Tool, text, options);
        let asked = AskedCall {
            tool_call_id: start.id.clone(),
            tool_name: start.name.clone(),
            entry_id: start.entry_id.clone(),
            reason: ask.reason,
            cwd: preview.cwd,
            shown: preview.shown,
            always,
            digest: preview.digest,
        };
        Question { tool: Some(Box::new(asked)), ..question }
    }

    /// Nobody is there: the question is kept and told of together with its end, and never waits.
    fn deny_unasked(&mut self, moment: Moment<'_>, id: &EntryId, question: Question) {
        let answer = Answer::by_nobody(Resolution::Unattended);
        let body = entry_body(&question, &answer, moment.now);
        let Some(entry_id) = entry_of(&question.approval_id) else { return };
        let text = refusal(&question, &answer);
        let ended = Ended { question, answer, entry_id, body };
        self.write_ends(moment, &[ended], None);
        self.finish_call(moment, id, never_ran(&text));
    }

    /// Adds to what is granted for the session; returns what is to be kept of it.
    pub(super) fn grant(&mut self, rules: &[Value]) -> StoredSettings {
        // A rule of a later version says nothing here.
        let rules = rules.iter().filter_map(|rule| serde_json::from_value::<Rule>(rule.clone()).ok());
        for rule in rules {
            if !self.grants.contains(&rule) {
                self.grants.push(rule);
            }
        }
        let kept = self.grants.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect();
        StoredSettings { grants: Some(kept), ..StoredSettings::default() }
    }

    /// A question about a call has ended: it runs once that is on disk, or the model is told why not.
    pub(super) fn after_consent(
        &mut self,
        moment: Moment<'_>,
        question: &Question,
        answer: &Answer,
        decision: Decision,
    ) {
        let Some(asked) = &question.tool else { return };
        match decision {
            Decision::Deny => self.finish_call(moment, &asked.entry_id, never_ran(&refusal(question, answer))),
            Decision::Once | Decision::Session | Decision::Always => {
                self.start_call(&asked.entry_id, Some(asked.digest.clone()));
            }
        }
    }

    /// The daemon ends: what runs is stopped, and what waits for an answer goes on waiting, in the crash journal.
    pub(super) fn leave_tools(&mut self, moment: Moment<'_>) {
        self.cancel_running();
        self.finish_unbegun(moment, |state| matches!(state, CallState::Validating | CallState::Describing(_)));
        self.leave_if_only_asking();
    }

    /// Ends the run of a daemon that ends, when nothing but answers is waited for.
    pub(super) fn leave_if_only_asking(&mut self) {
        let is_left = matches!(&self.phase, Phase::Tools(batch) if batch.only_asks());
        if is_left {
            self.end_run(RunEnd::Interrupted);
        }
    }

    /// Answers the calls in these states as aborted.
    pub(super) fn finish_unbegun(&mut self, moment: Moment<'_>, is_meant: impl Fn(&CallState) -> bool) {
        let Phase::Tools(batch) = &self.phase else { return };
        let meant = batch.calls.iter().filter(|call| is_meant(&call.state));
        let meant: Vec<EntryId> = meant.map(|call| call.start.entry_id.clone()).collect();
        for id in meant {
            self.finish_call(moment, &id, never_ran(ABORTED));
        }
    }
}

/// What the model is told of a call that was not consented to.
fn refusal(question: &Question, answer: &Answer) -> String {
    let reason = question.tool.as_ref().map(|asked| asked.reason.as_str()).unwrap_or_default();
    let needed = format!("This call needs consent, because {reason}.");
    match (answer.decision, &answer.message) {
        (Resolution::Expired, _) => format!("{needed} Nobody answered in time, so it was not run."),
        (Resolution::Unattended, _) => format!("{needed} Nobody is there to be asked, so it was not run."),
        (_, Some(message)) => format!("The user does not want this call, and it was not run. They say: {message}"),
        (_, None) => "The user does not want this call, and it was not run. Do not try to get the same effect another \
                      way; ask them how to go on."
            .to_owned(),
    }
}

/// Makes a sentence of a reason.
fn sentence(reason: &str) -> String {
    let mut chars = reason.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", chars.as_str())
}
