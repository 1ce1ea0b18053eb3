//! Steering that does not wait for the end of the turn.

use agentd_protocol::message::StopReason;
use pretty_assertions::assert_eq;

use super::check;
use super::sim::{Sim, message};
use crate::provider::error::ErrorClass;

#[test]
fn steering_now_cuts_the_answer_and_goes_on_in_the_same_run() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.start_stream();
    sim.take_log();
    sim.steer_now("left");
    check(&sim.take_log(), &["save queue 1", "queue 1 0", "reply 2 queued", "cancel request 1"]);
    sim.finish_stream(message("half", StopReason::Aborted), None);
    check(
        &sim.take_log(),
        &[
            "append assistant:half (sync)",
            "message_end assistant",
            "turn_end 0",
            "turn_start",
            "append user:left (sync)",
            "save queue 0",
            "queue 0 0",
            "message_start user",
            "message_end user",
            "request 2",
        ],
    );
    sim.answer("whole");
    check(&sim.take_log_from("turn_end"), &["turn_end 0", "agent_end 4", "settled done"]);
}

#[test]
fn steering_now_overtakes_what_waits_and_keeps_its_own_order() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.steer("later");
    sim.start_stream();
    sim.steer_now("first");
    sim.steer_now("second");
    let log = sim.take_log();
    assert_eq!(log.iter().filter(|line| *line == "cancel request 1").count(), 1, "{log:?}");
    sim.finish_stream(message("half", StopReason::Aborted), None);
    sim.answer("a");
    sim.answer("b");
    let expected =
        ["user:go", "assistant:half", "user:first", "user:second", "assistant:a", "user:later", "assistant:b"];
    assert_eq!(sim.branch_texts(), expected);
}

#[test]
fn steering_now_lets_tools_end() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools(&["a"]);
    sim.take_log();
    sim.steer_now("left");
    check(&sim.take_log(), &["save queue 1", "queue 1 0", "reply 2 queued"]);
    sim.finish_tool("a");
    let log = sim.take_log_from("turn_start");
    assert_eq!((log[1].as_str(), log.last().unwrap().as_str()), ("append user:left (sync)", "request 2"));
}

#[test]
fn steering_now_during_a_pause_goes_with_the_retry() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.fail(ErrorClass::Transient);
    sim.steer_now("left");
    sim.take_log();
    sim.retry_due();
    let log = sim.take_log();
    assert_eq!((log[2].as_str(), log.last().unwrap().as_str()), ("append user:left (sync)", "request 3"));
}

#[test]
fn an_answer_that_was_whole_before_the_cut_counts() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.steer_now("left");
    sim.take_log();
    sim.answer("whole");
    sim.answer("after");
    assert_eq!(sim.branch_texts(), ["user:go", "assistant:whole", "user:left", "assistant:after"]);
    assert_eq!(sim.take_log().last().unwrap(), "settled done");
}

#[test]
fn a_cut_answer_with_nothing_left_to_say_ends_the_run() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.start_stream();
    sim.steer_now("left");
    let reply = sim.reply_id();
    sim.feed(crate::agent::machine::Input::ClearQueue { reply });
    sim.take_log();
    sim.finish_stream(message("half", StopReason::Aborted), None);
    check(&sim.take_log_from("turn_end"), &["turn_end 0", "agent_end 2", "settled aborted"]);
}

#[test]
fn abort_after_steering_now_leaves_the_message_in_its_queue() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.start_stream();
    sim.steer_now("left");
    sim.abort();
    sim.take_log();
    sim.finish_stream(message("half", StopReason::Aborted), None);
    check(&sim.take_log_from("turn_end"), &["turn_end 0", "agent_end 2", "settled aborted", "reply 3 done"]);
    assert_eq!(sim.machine.queues().len(), 1);
}

#[test]
fn steering_now_while_idle_waits_as_steering_does() {
    let mut sim = Sim::new();
    sim.steer_now("s");
    check(&sim.take_log(), &["save queue 1", "queue 1 0", "reply 1 queued"]);
}
