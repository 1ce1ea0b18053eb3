//! Asking: the run waits for the answer to a question.

use agentd_protocol::ApprovalId;
use agentd_protocol::methods::{Decision, Question, QuestionKind, RunEnd};

use super::core::{Machine, Moment, Next, Phase};
use super::effect::{Effect, NewEntry, Outcome};
use super::input::{Refusal, ReplyId, Response};
use crate::agent::event::Event;
use crate::constants::MAX_MAX_TURNS;
use crate::permissions::questions::{Answer, QuestionBook, approval_id};
use crate::session::settings::StoredSettings;

impl Machine {
    /// Takes up questions that a daemon before this one had asked: the run waits for them again.
    pub(super) fn ask_again(&mut self, questions: Vec<Question>) {
        self.questions = QuestionBook::new(questions);
        if !self.questions.is_empty() {
            self.phase = Phase::Asking { is_from_before: true };
            // Who attaches sees a run that waits, so that its end is to be told.
            self.run_mut().is_announced = true;
        }
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn open_questions(&self) -> Vec<Question> {
        self.questions.open()
    }

    /// The most turns of one run are taken. If somebody is there to decide, the run asks whether to go on.
    pub(super) fn at_turn_limit(&mut self, moment: Moment<'_>) {
        if !moment.is_attended {
            return self.end_run(RunEnd::MaxTurns);
        }
        let (turns, most) = (self.run_mut().turns, self.settings.max_turns);
        let question = Question {
            approval_id: approval_id(moment.session, &self.new_entry_id(moment)),
            kind: QuestionKind::MaxTurns,
            text: format!(
                "The run has taken {turns} {}, the most of one run. Go on for another {most}?",
                if turns == 1 { "turn" } else { "turns" }
            ),
            options: vec![Decision::Once, Decision::Session, Decision::Deny],
            asked_at: moment.now,
            turns: Some(turns),
        };
        self.questions.ask(question.clone());
        self.effects.push(Effect::SaveQuestions(self.questions.open()));
        self.emit(Event::ApprovalRequested(question));
        self.phase = Phase::Asking { is_from_before: false };
    }

    pub(super) fn on_respond(&mut self, moment: Moment<'_>, response: Response, reply: ReplyId) {
        let Response { approval, decision, by, message } = response;
        let remark = (by.clone(), message.clone());
        let (id, body) = match self.questions.answer(moment.tree, &approval, decision, remark, moment.now) {
            Ok(entry) => entry,
            Err(why) => return self.refuse(reply, Refusal::Unanswerable(why)),
        };
        let mut entries = vec![NewEntry { id, body }];
        if decision == Decision::Session {
            entries.push(self.new_entry(moment, no_limit().entry()));
        }
        self.write_answers(entries, [(approval, Answer { decision: decision.into(), by, message })]);
        self.reply(reply, Outcome::Answered);
        let is_from_before = matches!(self.phase, Phase::Asking { is_from_before: true });
        self.phase = Phase::Between(Next::Answered { decision, is_from_before });
        self.effects.push(Effect::Step);
    }

    /// The run is being stopped: nothing waits for an answer any more.
    pub(super) fn cancel_questions(&mut self, moment: Moment<'_>) {
        let (ids, entries): (Vec<_>, Vec<_>) = self
            .questions
            .cancel_all(moment.now)
            .into_iter()
            .map(|(approval, id, body)| ((approval, Answer::cancelled()), NewEntry { id, body }))
            .unzip();
        self.write_answers(entries, ids);
        self.phase = Phase::Between(Next::Answer);
        self.effects.push(Effect::Step);
    }

    fn write_answers(&mut self, entries: Vec<NewEntry>, ended: impl IntoIterator<Item = (ApprovalId, Answer)>) {
        let ids: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
        self.effects.push(Effect::Append { entries, sync: true });
        for (approval_id, answer) in ended {
            self.emit(Event::ApprovalResolved { approval_id, answer });
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
