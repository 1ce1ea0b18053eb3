//! Questions: at the limit of turns, after a restart, and with a disk that fails.

use agentd_protocol::methods::{Decision, QuestionKind, SessionStatus};
use pretty_assertions::assert_eq;

use super::check;
use super::sim::Sim;
use crate::agent::machine::*;
use crate::constants::MAX_MAX_TURNS;

/// A run that has reached its limit of one turn with somebody there.
fn at_limit() -> Sim {
    let mut sim = Sim::new();
    sim.set_max_turns(1);
    sim.is_attended = true;
    sim.begin("go");
    sim.call_tools(&["a"]);
    sim.finish_tool("a");
    sim
}

/// The same, after the daemon was killed and the session loaded anew.
fn at_limit_again() -> Sim {
    let mut sim = at_limit();
    let questions = sim.machine.open_questions();
    let settings = sim.machine.settings().clone();
    sim.machine = Machine::new(settings, Left { questions, ..Left::default() }, 2);
    sim.is_attended = false;
    sim.take_log();
    sim
}

const ASKED: &str = "asked The run has taken 1 turn, the most of one run. Go on for another 1?";

#[test]
fn at_the_limit_of_turns_it_asks_when_somebody_is_there() {
    let mut sim = at_limit();
    check(&sim.take_log_from("turn_end"), &["turn_end 1", "save questions 1", ASKED]);
    assert_eq!((sim.machine.status(), sim.machine.is_idle()), (SessionStatus::Asking, false));
    // Nobody there any more: the question stays.
    sim.is_attended = false;
    sim.respond(Decision::Once);
    check(
        &sim.take_log(),
        &[
            "append agentd.approval:once (sync)",
            "resolved once",
            "entry_appended",
            "reply 2 answered",
            "turn_start",
            "request 2",
        ],
    );
    sim.call_tools(&["b"]);
    sim.finish_tool("b");
    check(&sim.take_log_from("turn_end"), &["turn_end 1", "agent_end 5", "settled maxTurns"]);
}

#[test]
fn once_gives_as_many_turns_again() {
    let mut sim = at_limit();
    for call in ["b", "c"] {
        sim.respond(Decision::Once);
        sim.call_tools(&[call]);
        sim.finish_tool(call);
        assert_eq!(sim.machine.status(), SessionStatus::Asking, "{call}");
    }
}

#[test]
fn a_denied_run_ends_as_if_nobody_had_been_asked() {
    let mut sim = at_limit();
    sim.wait();
    sim.take_log();
    sim.respond(Decision::Deny);
    check(
        &sim.take_log()[4..],
        &[
            "agent_end 3",
            "settled maxTurns",
            "reply 2 Wait(WaitResult { reason: Some(MaxTurns), error_message: None })",
        ],
    );
}

#[test]
fn for_the_session_lifts_its_limit() {
    let mut sim = at_limit();
    sim.take_log();
    sim.respond(Decision::Session);
    check(
        &sim.take_log()[..4],
        &[
            "append agentd.approval:session agentd.session (sync)",
            "resolved session",
            "entry_appended",
            "entry_appended",
        ],
    );
    assert_eq!(sim.machine.settings().max_turns, MAX_MAX_TURNS);
}

#[test]
fn always_is_no_answer_to_it_and_changes_nothing() {
    let mut sim = at_limit();
    sim.take_log();
    sim.respond(Decision::Always);
    let [line] = sim.take_log().try_into().unwrap();
    assert!(line.starts_with("reply 2 refused Unanswerable(NoOption"), "{line}");
    assert_eq!(sim.machine.status(), SessionStatus::Asking);
}

#[test]
fn of_two_answers_the_first_counts_also_while_it_is_being_written() {
    let mut sim = at_limit();
    let approval = sim.asked[0].clone();
    sim.take_log();
    sim.disk_is_slow = true;
    sim.respond(Decision::Deny);
    sim.respond_to(approval.clone(), Decision::Once);
    sim.end_write();
    let log = sim.take_log();
    assert!(log.contains(&"reply 2 answered".into()) && log.contains(&"settled maxTurns".into()), "{log:?}");
    let late = |log: &[String], reply: u64| {
        let start = format!("reply {reply} refused Unanswerable(Ended(Answer {{ decision: Deny, by: Some(\"me\")");
        assert!(log.iter().any(|line| line.starts_with(&start)), "{log:?}");
    };
    late(&log, 3);
    sim.respond_to(approval, Decision::Once);
    late(&sim.take_log(), 4);
}

#[test]
fn meanwhile_it_is_busy_and_takes_what_is_queued_along() {
    let mut sim = at_limit();
    sim.take_log();
    sim.prompt("p");
    sim.resume_input();
    sim.steer("s");
    check(
        &sim.take_log(),
        &["reply 2 refused Busy", "reply 3 refused Busy", "save queue 1", "queue 1 0", "reply 4 queued"],
    );
    sim.respond(Decision::Once);
    let log = sim.take_log_from("turn_start");
    assert_eq!((log[1].as_str(), log.last().unwrap().as_str()), ("append user:s (sync)", "request 2"));
}

#[test]
fn b177_abort_ends_the_question_and_says_so() {
    let mut sim = at_limit();
    sim.take_log();
    sim.abort();
    check(
        &sim.take_log(),
        &[
            "append agentd.approval:cancelled (sync)",
            "resolved cancelled",
            "entry_appended",
            "turn_start",
            "append assistant: (sync)",
            "message_start assistant",
            "message_end assistant",
            "turn_end 0",
            "agent_end 4",
            "settled aborted",
            "reply 2 done",
        ],
    );
}

#[test]
fn the_end_of_the_daemon_leaves_it_open() {
    let mut sim = at_limit();
    sim.take_log();
    let reply = sim.reply_id();
    sim.feed(Input::Stop { why: Stop::Shutdown, reply });
    check(&sim.take_log(), &["agent_end 3", "settled interrupted", "keep the journal", "reply 2 done"]);
}

#[test]
fn a_question_from_before_is_answered_by_going_on_with_the_run() {
    let mut sim = at_limit_again();
    assert_eq!((sim.machine.status(), sim.machine.is_interrupted()), (SessionStatus::Asking, false));
    sim.respond(Decision::Once);
    check(
        &sim.take_log(),
        &["append agentd.approval:once (sync)", "resolved once", "entry_appended", "reply 2 answered", "prepare"],
    );
    sim.prepared();
    check(&sim.take_log(), &["agent_start", "turn_start", "request 1"]);
}

#[test]
fn a_question_from_before_can_be_denied_and_aborted() {
    let mut sim = at_limit_again();
    sim.respond(Decision::Deny);
    check(&sim.take_log_from("agent_end"), &["agent_end 0", "settled maxTurns"]);
    let mut sim = at_limit_again();
    sim.abort();
    check(&sim.take_log_from("agent_end"), &["agent_end 1", "settled aborted", "reply 2 done"]);
}

#[test]
fn a_run_that_cannot_go_on_after_an_answer_is_told_to_have_failed() {
    let mut sim = at_limit_again();
    sim.respond(Decision::Once);
    sim.take_log();
    sim.wait();
    sim.refuse_start(Refusal::NoModel("no key".into()));
    let end = "reply 3 Wait(WaitResult { reason: Some(Error), error_message: Some(\"no key\") })";
    check(&sim.take_log(), &["agent_end 0", "settled error", end]);
}

#[test]
fn an_answer_that_cannot_be_kept_does_not_count() {
    let mut sim = at_limit();
    sim.break_disk();
    sim.take_log();
    sim.respond(Decision::Once);
    check(
        &sim.take_log(),
        &["append failed", "reply 2 refused storage", "notice", "agent_end 3", "settled storage", "keep the journal"],
    );
}

/// It is asked again with the next load, so that nobody may be told that it has ended.
#[test]
fn an_abort_that_cannot_be_kept_does_not_end_the_question() {
    let mut sim = at_limit();
    sim.break_disk();
    sim.take_log();
    sim.abort();
    check(
        &sim.take_log(),
        &["append failed", "notice", "agent_end 3", "settled aborted", "keep the journal", "reply 2 done"],
    );
}

#[test]
fn for_the_session_counts_also_for_a_run_that_is_stopped_meanwhile() {
    let mut sim = at_limit();
    sim.disk_is_slow = true;
    sim.respond(Decision::Session);
    sim.abort();
    while sim.is_writing() {
        sim.end_write();
    }
    assert!(sim.take_log().contains(&"settled aborted".into()));
    assert_eq!(sim.machine.settings().max_turns, MAX_MAX_TURNS);
}

#[test]
fn a_question_that_cannot_be_kept_is_not_asked() {
    let mut sim = Sim::new();
    sim.set_max_turns(1);
    sim.is_attended = true;
    sim.begin("go");
    sim.call_tools(&["a"]);
    sim.disk_is_slow = true;
    sim.finish_tool("a");
    sim.end_write();
    sim.break_disk();
    sim.take_log();
    sim.end_write();
    check(&sim.take_log(), &["append failed", "notice", "agent_end 3", "settled storage", "keep the journal"]);
    assert_eq!(sim.machine.open_questions(), []);
}

#[test]
fn the_question_says_what_it_is_about() {
    let sim = at_limit();
    let [question] = sim.machine.open_questions().try_into().unwrap();
    assert_eq!((question.kind, question.turns), (QuestionKind::MaxTurns, Some(1)));
    assert_eq!(question.options, [Decision::Once, Decision::Session, Decision::Deny]);
    assert!(question.approval_id.as_str().starts_with("s."), "{}", question.approval_id);
}
