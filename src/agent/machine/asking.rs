//! Questions: at the limit of turns the run waits for the answer; a tool call that needs consent waits alone (`consent`).

use agentd_protocol::methods::{Decision, Headless, Question, QuestionKind, Resolution, RunEnd};

use super::consent::LeftBatch;
use super::core::{Machine, Moment, Next, Phase};
use super::effect::{Effect, NewEntry, Outcome};
use super::input::{Refusal, ReplyId, Response};
use crate::agent::event::Event;
use crate::constants::MAX_MAX_TURNS;
use crate::permissions::questions::{Answerer, Ended, QuestionBook, approval_id};
use crate::session::settings::StoredSettings;

impl Machine {
    /// Takes up questions that a daemon before this one had asked: the run waits for them again, in the middle of `batch`
    /// if they are about its calls.
    pub(super) fn ask_again(&mut self, questions: Vec<Question>, batch: Option<LeftBatch>) {
        self.questions = QuestionBook::new(questions);
        if self.questions.is_empty() {
            return;
        }
        self.phase = match batch {
            Some(batch) => Phase::Tools(batch.into()),
            None => Phase::Asking { is_from_before: true },
        };
        // Who attaches sees a run that waits, so that its end is to be told.
        self.run_mut().is_announced = true;
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn open_questions(&self) -> Vec<Question> {
        self.questions.open()
    }

    /// Returns when `Input::DeadlineReached` is due, in milliseconds since the epoch.
    pub fn deadline(&self) -> Option<i64> {
        self.questions.deadline()
    }

    /// Tells whether a question is denied at once, because nobody is there to be asked.
    pub(super) fn asks_nobody(&self, moment: Moment<'_>) -> bool {
        !moment.is_attended && self.settings.headless == Headless::Deny
    }

    /// Asks: the question is in the crash journal before anybody sees it.
    pub(super) fn ask(&mut self, question: Question) {
        self.questions.ask(question.clone());
        self.effects.push(Effect::SaveQuestions(self.questions.open()));
        self.emit(Event::ApprovalRequested(question));
    }

    /// Makes a question without what is particular to its kind.
    pub(super) fn question(
        &mut self,
        moment: Moment<'_>,
        kind: QuestionKind,
        text: String,
        options: Vec<Decision>,
    ) -> Question {
        let timeout = i64::try_from(self.settings.ask_timeout_ms).unwrap_or(i64::MAX);
        Question {
            approval_id: approval_id(moment.session, &self.new_entry_id(moment)),
            kind,
            text,
            options,
            asked_at: moment.now,
            deadline: (timeout > 0).then(|| moment.now.saturating_add(timeout)),
            turns: None,
            tool: None,
        }
    }

    /// The most turns of one run are taken. If somebody is there to decide, the run asks whether to go on.
    pub(super) fn at_turn_limit(&mut self, moment: Moment<'_>) {
        if self.asks_nobody(moment) {
            return self.end_run(RunEnd::MaxTurns);
        }
        let (turns, most) = (self.run_mut().turns, self.settings.max_turns);
        let text = format!(
            "The run has taken {turns} {}, the most of one run. Go on for another {most}?",
            if turns == 1 { "turn" } else { "turns" }
        );
        let options = vec![Decision::Once, Decision::Session, Decision::Deny];
        let question = self.question(moment, QuestionKind::MaxTurns, text, options);
        self.ask(Question { turns: Some(turns), ..question });
        self.phase = Phase::Asking { is_from_before: false };
    }

    pub(super) fn on_respond(&mut self, moment: Moment<'_>, response: Response, reply: ReplyId) {
        let Response { approval, decision, by, pid, message } = response;
        let from = Answerer { by, pid, message };
        let ended = match self.questions.answer(moment.tree, &approval, decision, from, moment.now) {
            Ok(ended) => ended,
            Err(why) => return self.refuse(reply, Refusal::Unanswerable(why)),
        };
        let set = match (decision, &ended.question.tool) {
            (Decision::Session, None) => Some(no_limit()),
            (Decision::Session, Some(call)) => Some(self.grant(&call.always)),
            (Decision::Once | Decision::Always | Decision::Deny, _) => None,
        };
        self.write_ends(moment, std::slice::from_ref(&ended), set);
        self.reply(reply, Outcome::Answered);
        self.go_on_after(moment, &ended, decision);
    }

    /// Questions that nobody has answered in time are taken for answered with no.
    pub(super) fn on_deadline(&mut self, moment: Moment<'_>) {
        let is_due = |question: &Question| question.deadline.is_some_and(|deadline| deadline <= moment.now);
        let ended = self.questions.end(is_due, Resolution::Expired, moment.now);
        if ended.is_empty() {
            return;
        }
        self.write_ends(moment, &ended, None);
        for ended in ended {
            self.go_on_after(moment, &ended, Decision::Deny);
        }
    }

    fn go_on_after(&mut self, moment: Moment<'_>, ended: &Ended, decision: Decision) {
        if ended.question.tool.is_some() {
            return self.after_consent(moment, &ended.question, &ended.answer, decision);
        }
        let is_from_before = matches!(self.phase, Phase::Asking { is_from_before: true });
        self.phase = Phase::Between(Next::Answered { decision, is_from_before });
        self.effects.push(Effect::Step);
    }

    /// The run is being stopped: nothing waits for an answer any more.
    pub(super) fn cancel_questions(&mut self, moment: Moment<'_>) {
        let ended = self.questions.end(|_| true, Resolution::Cancelled, moment.now);
        if !ended.is_empty() {
            self.write_ends(moment, &ended, None);
        }
    }

    /// Writes how questions ended, together with what an answer sets, and tells of it.
    pub(super) fn write_ends(&mut self, moment: Moment<'_>, ended: &[Ended], set: Option<StoredSettings>) {
        let end = |ended: &Ended| NewEntry { id: ended.entry_id.clone(), body: ended.body.clone() };
        let mut entries: Vec<NewEntry> = ended.iter().map(end).collect();
        entries.extend(set.map(|set| self.new_entry(moment, set.entry())));
        let ids: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
        self.effects.push(Effect::Append { entries, sync: true });
        for Ended { question, answer, .. } in ended {
            self.emit(Event::ApprovalResolved { approval_id: question.approval_id.clone(), answer: answer.clone() });
        }
        self.effects.extend(ids.into_iter().map(Effect::EmitEntry));
    }

    /// The answer is on disk: what it says of the session holds from now on, also if the run is being stopped.
    pub(super) fn obey(&mut self, decision: Decision) {
        if decision == Decision::Session {
            self.configure(&no_limit());
        }
    }

    /// The answer is on disk, and so the run does what it says.
    pub(super) fn after_decision(&mut self, moment: Moment<'_>, decision: Decision, is_from_before: bool) {
        match decision {
            Decision::Deny => return self.end_run(RunEnd::MaxTurns),
            // What it sets was taken in by `on_step`. `Always` is not among the options of this question.
            Decision::Once | Decision::Session | Decision::Always => {}
        }
        self.run_mut().turns = 0;
        match is_from_before {
            // What a run is prepared with may have changed since: the model, the system prompt, the session's writer.
            true => self.prepare_again(),
            false => self.next_turn(moment),
        }
    }
}

/// The limit that is none.
fn no_limit() -> StoredSettings {
    StoredSettings { max_turns: Some(MAX_MAX_TURNS), ..StoredSettings::default() }
}
