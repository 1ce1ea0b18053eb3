//! Consent to tool calls: who is asked, what runs meanwhile, and what becomes of it all when things end.

use agentd_protocol::methods::{Decision, Headless, Mode, QuestionKind, SessionStatus};
use pretty_assertions::assert_eq;

use super::check;
use super::sim::Sim;
use crate::agent::machine::*;

/// A run in mode `ask` with somebody there, whose model has called these tools.
fn called(ids: &[&str]) -> Sim {
    let mut sim = Sim::new();
    sim.set_mode(Mode::Ask);
    sim.is_attended = true;
    sim.begin("go");
    sim.call_tools(ids);
    sim
}

/// The same, asking about the call `x`.
fn asked() -> Sim {
    let mut sim = called(&["x"]);
    sim.describe();
    sim.take_log();
    sim
}

/// What the model is told of each call, the last first.
fn told(sim: &Sim) -> Vec<String> {
    let entries = sim.tree.branch().into_iter().rev();
    let results = entries.filter_map(|entry| match &**entry.message()? {
        agentd_protocol::message::Message::ToolResult(result) => result.content[0].as_text().map(str::to_owned),
        _ => None,
    });
    results.collect()
}

#[test]
fn a_call_waits_until_it_is_consented_to() {
    let mut sim = called(&["x"]);
    check(&sim.take_log_from("tool_start"), &["tool_start x", "validate x", "describe x"]);
    sim.describe();
    let log = sim.take_log();
    assert_eq!((log.len(), log[0].as_str()), (2, "save questions 1"));
    assert!(log[1].starts_with("asked Let bash run?"), "{log:?}");
    assert_eq!((sim.machine.status(), sim.machine.is_idle()), (SessionStatus::Asking, false));
    // Nobody there any more: the question stays.
    sim.is_attended = false;
    sim.respond(Decision::Once);
    check(
        &sim.take_log(),
        &["append agentd.approval:once (sync)", "resolved once", "entry_appended", "reply 2 answered", "run x"],
    );
    assert_eq!(sim.machine.status(), SessionStatus::Running);
    sim.finish_tool("x");
    check(&sim.take_log()[..2], &["tool_end x", "append toolResult:x (sync)"]);
}

#[test]
fn other_calls_run_meanwhile_and_the_results_keep_their_order() {
    let mut sim = called(&["x", "r", "y"]);
    sim.describe();
    sim.describe();
    sim.take_log();
    assert_eq!(sim.running.len(), 1);
    sim.finish_tool("r");
    let second = sim.asked[1].clone();
    sim.respond_to(second, Decision::Once);
    sim.finish_tool("y");
    check(&sim.take_log()[5..], &["run y", "tool_end y"]);
    sim.respond(Decision::Deny);
    let log = sim.take_log_from("tool_end");
    check(&log[..2], &["tool_end x", "append toolResult:x toolResult:r toolResult:y (sync)"]);
}

#[test]
fn the_model_is_told_of_a_no_and_what_the_person_says() {
    let mut sim = asked();
    sim.respond_with(Decision::Deny, "use the other file");
    assert!(told(&sim)[0].ends_with("They say: use the other file"), "{:?}", told(&sim));
    assert!(!sim.log.contains(&"run x".to_owned()));
    assert_eq!(sim.log.last().map(String::as_str), Some("request 2"), "the run goes on");
}

#[test]
fn where_nobody_is_there_it_is_denied_at_once() {
    let mut sim = called(&["x"]);
    sim.is_attended = false;
    sim.take_log();
    sim.describe();
    check(
        &sim.take_log()[..4],
        &["append agentd.approval:unattended (sync)", "resolved unattended", "entry_appended", "tool_end x"],
    );
    assert!(told(&sim)[0].contains("Nobody is there to be asked"), "{:?}", told(&sim));
}

#[test]
fn where_nobody_is_there_it_waits_if_it_is_to() {
    let mut sim = called(&["x"]);
    sim.set_asking(Headless::Wait, 0);
    sim.is_attended = false;
    sim.describe();
    assert_eq!((sim.asked.len(), sim.machine.deadline()), (1, None));
}

#[test]
fn after_its_deadline_a_question_is_taken_for_denied() {
    let mut sim = called(&["x"]);
    sim.set_asking(Headless::Deny, 500);
    sim.now = 1000;
    sim.describe();
    let approval = sim.asked[0].clone();
    sim.take_log();
    sim.wait_ms(499);
    check(&sim.take_log(), &[]);
    sim.wait_ms(1);
    check(
        &sim.take_log()[..4],
        &["append agentd.approval:expired (sync)", "resolved expired", "entry_appended", "tool_end x"],
    );
    assert!(told(&sim)[0].contains("Nobody answered in time"), "{:?}", told(&sim));
    sim.respond_to(approval, Decision::Once);
    let log = sim.take_log();
    assert!(log[0].starts_with("reply 2 refused Unanswerable(Ended(Answer { decision: Expired"), "{log:?}");
}

#[test]
fn a_grant_for_the_session_is_kept_and_not_asked_about_again() {
    let mut sim = called(&["x"]);
    sim.describe();
    sim.take_log();
    sim.respond(Decision::Session);
    check(&sim.take_log()[..2], &["append agentd.approval:session agentd.session (sync)", "resolved session"]);
    sim.finish_tool("x");
    sim.call_tools(&["x"]);
    assert_eq!(sim.running.len(), 1);
    let stored = crate::session::settings::StoredSettings::of(&sim.tree);
    assert_eq!(stored.grants.map(|grants| grants.len()), Some(1));
    let mut other = called(&[]);
    other.machine.configure(&crate::session::settings::StoredSettings::of(&sim.tree));
    assert_eq!(other.machine.policy().grants, sim.machine.policy().grants, "a restart keeps it");
}

#[test]
fn where_no_rule_would_do_nothing_can_be_granted() {
    let mut sim = called(&["w"]);
    sim.describe();
    sim.take_log();
    let [question] = sim.machine.open_questions().try_into().unwrap();
    assert_eq!(question.kind, QuestionKind::Tool);
    assert_eq!(question.options, [Decision::Once, Decision::Deny]);
    sim.respond(Decision::Session);
    assert!(sim.take_log()[0].starts_with("reply 2 refused Unanswerable(NoOption"));
    assert_eq!(sim.machine.status(), SessionStatus::Asking);
}

#[test]
fn of_two_answers_the_first_counts_and_the_call_runs_once() {
    let mut sim = asked();
    let approval = sim.asked[0].clone();
    sim.disk_is_slow = true;
    sim.respond(Decision::Once);
    sim.respond_to(approval.clone(), Decision::Deny);
    assert!(sim.running.is_empty(), "not before the answer is on disk");
    sim.end_write();
    sim.respond_to(approval, Decision::Once);
    assert_eq!(sim.running.len(), 1);
    let log = sim.take_log();
    assert_eq!(log.iter().filter(|line| line.contains("refused Unanswerable(Ended")).count(), 2, "{log:?}");
}

#[test]
fn b177_an_abort_ends_the_questions_and_answers_the_calls() {
    let mut sim = called(&["x", "r", "y", "z"]);
    sim.describe();
    sim.describe();
    sim.take_log();
    sim.abort();
    // What is still being looked at, what waits for an answer, and what runs.
    check(
        &sim.take_log(),
        &[
            "cancel tool r",
            "append agentd.approval:cancelled agentd.approval:cancelled (sync)",
            "resolved cancelled",
            "resolved cancelled",
            "entry_appended",
            "entry_appended",
            "tool_end x",
            "tool_end y",
            "tool_end z",
        ],
    );
    sim.describe();
    check(&sim.take_log(), &[]);
    sim.finish_tool("r");
    let log = sim.take_log();
    assert!(log.contains(&"settled aborted".to_owned()), "{log:?}");
    assert_eq!(told(&sim).iter().filter(|text| *text == "Operation aborted").count(), 3);
}

#[test]
fn what_cannot_run_is_not_asked_about() {
    let mut sim = called(&["x"]);
    sim.take_log();
    sim.fail_to_describe();
    check(&sim.take_log()[..1], &["tool_end x"]);
    assert_eq!(told(&sim), ["no such file"]);
}

#[test]
fn b177_the_end_of_the_daemon_leaves_the_question_open() {
    let mut sim = called(&["x", "r"]);
    sim.describe();
    sim.take_log();
    let reply = sim.reply_id();
    sim.feed(Input::Stop { why: Stop::Shutdown, reply });
    check(&sim.take_log(), &["cancel tool r"]);
    sim.finish_tool("r");
    check(&sim.take_log(), &["tool_end r", "agent_end 2", "settled interrupted", "keep the journal", "reply 2 done"]);
}

#[test]
fn a_question_from_before_is_answered_by_running_the_call_and_going_on() {
    let mut sim = called(&["r", "x"]);
    sim.describe();
    sim.finish_tool("r");
    sim.load_again();
    sim.is_attended = false;
    assert_eq!((sim.machine.status(), sim.machine.is_interrupted()), (SessionStatus::Asking, false));
    assert_eq!(sim.machine.told_of_calls().len(), 3);
    sim.respond(Decision::Once);
    check(&sim.take_log()[4..], &["run x"]);
    sim.finish_tool("x");
    let log = sim.take_log();
    check(&log[..2], &["tool_end x", "append toolResult:r toolResult:x (sync)"]);
    assert_eq!(log.last().map(String::as_str), Some("prepare"), "{log:?}");
    sim.prepared();
    check(&sim.take_log(), &["agent_start", "turn_start", "request 1"]);
}

#[test]
fn a_question_from_before_can_be_denied_and_aborted() {
    let mut sim = asked();
    sim.load_again();
    sim.respond(Decision::Deny);
    assert_eq!(sim.log.last().map(String::as_str), Some("prepare"));
    let mut sim = asked();
    sim.load_again();
    sim.abort();
    check(&sim.take_log_from("agent_end"), &["agent_end 2", "settled aborted", "reply 2 done"]);
    assert_eq!(told(&sim), ["Operation aborted"]);
}

#[test]
fn an_answer_that_cannot_be_kept_does_not_count() {
    let mut sim = asked();
    sim.break_disk();
    sim.respond(Decision::Once);
    check(
        &sim.take_log(),
        &[
            "append failed",
            "reply 2 refused storage",
            "notice",
            "cancel tool that never began",
            "agent_end 2",
            "settled storage",
            "keep the journal",
        ],
    );
    assert!(sim.running.is_empty());
}

#[test]
fn a_question_that_cannot_be_kept_is_not_asked() {
    let mut sim = called(&["x"]);
    sim.break_disk();
    sim.take_log();
    sim.describe();
    check(&sim.take_log(), &["append failed", "notice", "agent_end 2", "settled storage", "keep the journal"]);
    assert_eq!(sim.machine.open_questions(), []);
}
