//! The machine on its own: inputs by hand, effects written down as short words.

mod asking;
mod consent;
mod random;
mod sim;
mod steering;

use std::time::Duration;

use agentd_protocol::message::{ContentBlock, StopReason};
use agentd_protocol::methods::IfBusy;
use pretty_assertions::assert_eq;

use self::sim::Sim;
use super::*;
use crate::provider::error::ErrorClass;

#[track_caller]
fn check(log: &[String], expected: &[&str]) {
    assert_eq!(log, expected);
}

#[test]
fn a_plain_answer() {
    let mut sim = Sim::new();
    sim.prompt("hi");
    sim.prepared();
    sim.answer("hello");
    check(
        &sim.take_log(),
        &[
            "prepare",
            "append user:hi (sync)",
            "reply 1 started",
            "agent_start",
            "turn_start",
            "message_start user",
            "message_end user",
            "request 1",
            "message_start assistant",
            "append assistant:hello (sync)",
            "message_end assistant",
            "turn_end 0",
            "agent_end 2",
            "settled done",
        ],
    );
}

#[test]
fn tools_run_side_by_side_and_answer_in_call_order() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools(&["a", "b"]);
    check(
        &sim.take_log_from("append assistant"),
        &[
            "append assistant:",
            "message_end assistant",
            "tool_start a",
            "tool_start b",
            "validate a",
            "validate b",
            "run a",
            "run b",
        ],
    );
    sim.finish_tool("b");
    sim.finish_tool("a");
    check(
        &sim.take_log(),
        &[
            "tool_end b",
            "tool_end a",
            "append toolResult:a toolResult:b (sync)",
            "message_start toolResult",
            "message_end toolResult",
            "message_start toolResult",
            "message_end toolResult",
            "turn_end 2",
            "turn_start",
            "request 2",
        ],
    );
}

#[test]
fn a_call_that_fails_its_check_is_answered_and_not_run() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.reject_tool("a");
    sim.call_tools(&["a", "b"]);
    let log = sim.take_log();
    assert!(!log.contains(&"run a".to_owned()), "{log:?}");
    sim.finish_tool("b");
    check(&sim.take_log()[..2], &["tool_end b", "append toolResult:a toolResult:b (sync)"]);
}

#[test]
fn steering_goes_with_the_tool_results() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools(&["a"]);
    sim.steer("left");
    sim.take_log();
    sim.finish_tool("a");
    check(
        &sim.take_log_from("turn_end"),
        &[
            "turn_end 1",
            "turn_start",
            "append user:left (sync)",
            "save queue 0",
            "queue 0 0",
            "message_start user",
            "message_end user",
            "request 2",
        ],
    );
}

#[test]
fn a_follow_up_waits_until_the_run_would_end() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.follow_up("then");
    sim.steer("first");
    sim.answer("one");
    sim.answer("two");
    sim.answer("three");
    let log = sim.take_log();
    let order: Vec<&String> =
        log.iter().filter(|line| line.starts_with("append") || line.contains("settled")).collect();
    assert_eq!(
        order,
        [
            "append user:go (sync)",
            "append assistant:one (sync)",
            "append user:first (sync)",
            "append assistant:two (sync)",
            "append user:then (sync)",
            "append assistant:three (sync)",
            "settled done"
        ]
    );
}

#[test]
fn queued_while_idle_stays_queued_and_goes_with_the_next_prompt() {
    let mut sim = Sim::new();
    sim.steer("s");
    sim.follow_up("f");
    check(
        &sim.take_log(),
        &["save queue 1", "queue 1 0", "reply 1 queued", "save queue 2", "queue 1 1", "reply 2 queued"],
    );
    sim.begin("go");
    let log = sim.take_log();
    assert!(
        log.ends_with(
            &[
                "append user:s (sync)",
                "save queue 1",
                "queue 0 1",
                "message_start user",
                "message_end user",
                "request 1"
            ]
            .map(str::to_owned)
        ),
        "{log:?}"
    );
}

#[test]
fn abort_in_mid_stream_settles_before_it_answers() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.start_stream();
    sim.take_log();
    sim.abort();
    check(&sim.take_log(), &["cancel request 1"]);
    sim.finish_stream(sim::message("half", StopReason::Aborted), None);
    check(
        &sim.take_log(),
        &[
            "append assistant:half (sync)",
            "message_end assistant",
            "turn_end 0",
            "agent_end 2",
            "settled aborted",
            "reply 2 done",
        ],
    );
    sim.begin("again");
    assert!(sim.take_log().contains(&"request 2".to_owned()));
}

#[test]
fn abort_in_mid_tool_ends_with_an_empty_response() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools(&["a", "b"]);
    sim.take_log();
    sim.abort();
    sim.abort();
    check(&sim.take_log(), &["cancel tool a", "cancel tool b"]);
    sim.finish_tool("a");
    sim.finish_tool("b");
    check(
        &sim.take_log_from("turn_end"),
        &[
            "turn_end 2",
            "turn_start",
            "append assistant: (sync)",
            "message_start assistant",
            "message_end assistant",
            "turn_end 0",
            "agent_end 5",
            "settled aborted",
            "reply 2 done",
            "reply 3 done",
        ],
    );
}

#[test]
fn abort_while_starting_still_accepts_the_prompt() {
    let mut sim = Sim::new();
    sim.prompt("go");
    sim.abort();
    sim.prepared();
    let log = sim.take_log();
    assert!(log.contains(&"reply 1 started".to_owned()), "{log:?}");
    assert!(log.iter().all(|line| !line.starts_with("request")), "{log:?}");
    assert_eq!(log.last().unwrap(), "reply 2 done");
}

#[test]
fn abort_of_an_idle_session_is_nothing() {
    let mut sim = Sim::new();
    sim.abort();
    check(&sim.take_log(), &["reply 1 done"]);
    sim.begin("go");
    sim.answer("fine");
    assert_eq!(sim.take_log().last().unwrap(), "settled done");
}

#[test]
fn a_transient_error_is_tried_again_and_hidden() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.take_log();
    sim.fail(ErrorClass::Transient);
    check(
        &sim.take_log(),
        &[
            "append assistant: (sync)",
            "message_start assistant",
            "message_end assistant",
            "turn_end 0",
            "agent_end 2 will retry",
            "retry_start 1",
            "append context_edit",
            "entry_appended",
            "arm retry",
        ],
    );
    sim.retry_due();
    sim.answer("fine");
    check(
        &sim.take_log(),
        &[
            "agent_start",
            "turn_start",
            "request 3",
            "message_start assistant",
            "append assistant:fine (sync)",
            "message_end assistant",
            "retry_end ok 1",
            "turn_end 0",
            "agent_end 1",
            "settled done",
        ],
    );
}

#[test]
fn retries_count_from_one_after_each_success() {
    let mut sim = Sim::new();
    sim.begin("go");
    for _ in 0..8 {
        sim.fail(ErrorClass::Transient);
        sim.retry_due();
        sim.call_tools(&["a"]);
        sim.finish_tool("a");
    }
    sim.answer("fine");
    let log = sim.take_log();
    assert_eq!(log.iter().filter(|line| *line == "retry_start 1").count(), 8);
    assert_eq!(log.last().unwrap(), "settled done");
}

#[test]
fn errors_end_the_run_when_retries_are_used_up_or_useless() {
    let mut sim = Sim::new();
    sim.begin("go");
    for _ in 0..3 {
        sim.fail(ErrorClass::Transient);
        sim.retry_due();
    }
    sim.fail(ErrorClass::Transient);
    let log = sim.take_log();
    check(&log[log.len() - 3..], &["agent_end 1", "retry_end failed 3", "settled error"]);
    sim.begin("again");
    sim.fail(ErrorClass::Auth);
    assert_eq!(sim.take_log().last().unwrap(), "settled error");
}

#[test]
fn a_refused_image_leaves_the_context_and_the_run_goes_on() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.fail(ErrorClass::Image);
    assert_eq!(sim.take_log().last().unwrap(), "settled error", "there is no image to leave out");
    let image = ContentBlock::Image { data: "AA==".into(), mime_type: "image/png".into() };
    for text in ["first", "second"] {
        let mut user = sim::user(text, None);
        user.content.push(image.clone());
        sim.prompt_message(user);
        sim.prepared();
        if text == "first" {
            sim.answer("seen");
        }
    }
    sim.take_log();
    sim.fail(ErrorClass::Image);
    check(&sim.take_log_from("turn_end")[1..4], &["append context_edit", "entry_appended", "notice"]);
    assert_eq!(sim.images_in_context(), 1, "what was accepted once stays");
    sim.retry_due();
    sim.fail(ErrorClass::Image);
    assert_eq!(sim.images_in_context(), 0, "then it is all of them");
    sim.retry_due();
    sim.take_log();
    sim.fail(ErrorClass::Image);
    assert_eq!(sim.take_log().last().unwrap(), "settled error");
}

#[test]
fn abort_ends_a_retry_pause() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.fail(ErrorClass::RateLimit);
    sim.take_log();
    sim.abort();
    check(&sim.take_log(), &["cancel retry", "retry_end failed 1", "settled aborted", "reply 2 done"]);
    sim.retry_due();
    check(&sim.take_log(), &[]);
}

#[test]
fn a_prompt_during_a_run_is_refused_or_queued() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.take_log();
    sim.prompt_if("no", IfBusy::Reject);
    sim.prompt_if("s", IfBusy::Steer);
    sim.prompt_if("f", IfBusy::FollowUp);
    check(
        &sim.take_log(),
        &[
            "reply 2 refused Busy",
            "save queue 1",
            "queue 1 0",
            "reply 3 queued",
            "save queue 2",
            "queue 1 1",
            "reply 4 queued",
        ],
    );
}

#[test]
fn a_repeated_message_is_answered_like_the_first() {
    let mut sim = Sim::new();
    sim.prompt_with_id("hi", "m1");
    sim.prepared();
    sim.prompt_with_id("hi", "m1");
    sim.prompt_with_id("other", "m2");
    sim.answer("hello");
    sim.prompt_with_id("hi", "m1");
    let log = sim.take_log();
    let started: Vec<&String> = log.iter().filter(|line| line.starts_with("reply")).collect();
    assert_eq!(started, ["reply 1 started", "reply 2 started", "reply 3 refused Busy", "reply 4 started"]);
    assert_eq!(log.iter().filter(|line| *line == "prepare").count(), 1);
}

#[test]
fn the_turn_limit_ends_the_run() {
    let mut sim = Sim::new();
    sim.set_max_turns(2);
    sim.begin("go");
    sim.call_tools(&["a"]);
    sim.finish_tool("a");
    sim.call_tools(&["a"]);
    sim.finish_tool("a");
    assert_eq!(sim.take_log().last().unwrap(), "settled maxTurns");
    sim.resume();
    assert!(sim.take_log().contains(&"request 3".to_owned()));
}

#[test]
fn calls_of_a_cut_response_are_answered_and_not_run() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools_cut(&["a"]);
    let log = sim.take_log_from("tool_start");
    check(&log[..3], &["tool_start a", "tool_end a", "append toolResult:a (sync)"]);
    assert_eq!(log.last().unwrap(), "request 2");
}

#[test]
fn continue_needs_something_to_continue() {
    let mut sim = Sim::new();
    sim.resume_input();
    check(
        &sim.take_log(),
        &["reply 1 refused WrongState(\"there is nothing to continue: the last run ended by itself; send a prompt\")"],
    );
    sim.begin("go");
    sim.start_stream();
    sim.abort();
    sim.finish_stream(sim::message("half", StopReason::Aborted), None);
    sim.take_log();
    sim.resume();
    check(&sim.take_log(), &["prepare", "reply 4 started", "agent_start", "turn_start", "request 2"]);
}

#[test]
fn a_failed_write_ends_the_run_and_leaves_no_unwritten_message_announced() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.take_log();
    sim.break_disk();
    sim.answer("lost");
    let log = sim.take_log();
    assert!(log.iter().all(|line| line != "message_end assistant"), "{log:?}");
    check(&log[log.len() - 3..], &["agent_end 1", "settled storage", "keep the journal"]);
    sim.mend_disk();
    sim.begin("again");
    sim.answer("kept");
    assert_eq!(sim.take_log().last().unwrap(), "settled done");
    assert_eq!(sim.branch_texts(), ["user:go", "user:again", "assistant:kept"]);
}

#[test]
fn a_failed_write_of_the_prompt_is_its_answer() {
    let mut sim = Sim::new();
    sim.break_disk();
    sim.begin("go");
    let log = sim.take_log();
    check(&log, &["prepare", "append failed", "reply 1 refused storage", "notice", "cancel request 1"]);
    assert!(sim.machine.is_idle());
}

#[test]
fn calls_with_the_same_id_are_two_calls() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools(&["a", "a"]);
    check(&sim.take_log_from("validate"), &["validate a", "validate a", "run a", "run a"]);
    sim.finish_tool("a");
    check(&sim.take_log(), &["tool_end a"]);
    sim.finish_tool("a");
    check(&sim.take_log()[..2], &["tool_end a", "append toolResult:a toolResult:a (sync)"]);
    sim.call_tools(&["a", "a"]);
    sim.take_log();
    sim.abort();
    sim.finish_tool("a");
    sim.finish_tool("a");
    assert_eq!(sim.take_log().last().unwrap(), "reply 2 done");
}

#[test]
fn the_end_of_a_run_is_told_although_a_write_of_something_else_fails() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.disk_is_slow = true;
    sim.answer("whole");
    sim.steer("left");
    sim.abort();
    sim.wait();
    sim.end_write();
    sim.take_log();
    sim.break_disk();
    sim.end_write();
    check(
        &sim.take_log(),
        &[
            "append failed",
            "reply 2 refused storage",
            "agent_end 2",
            "settled aborted",
            "reply 3 done",
            "reply 4 Wait(WaitResult { reason: Some(Aborted), error_message: None })",
            "notice",
            "queue 0 0",
        ],
    );
}

#[test]
fn a_retry_that_clients_were_not_told_of_ends_as_the_run_that_they_know() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.fail(ErrorClass::Transient);
    sim.disk_is_slow = true;
    sim.steer("left");
    sim.retry_due();
    sim.take_log();
    sim.break_disk();
    sim.end_write();
    check(
        &sim.take_log(),
        &[
            "append failed",
            "reply 2 refused storage",
            "notice",
            "queue 0 0",
            "cancel request 3",
            "retry_end failed 1",
            "settled storage",
            "keep the journal",
        ],
    );
}

#[test]
fn queued_messages_survive_a_failed_write() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.steer("left");
    sim.call_tools(&["a"]);
    sim.break_disk();
    sim.finish_tool("a");
    sim.mend_disk();
    assert_eq!(sim.machine.queues().texts().steering, ["left"]);
    sim.begin("again");
    sim.answer("fine");
    assert_eq!(sim.branch_texts(), ["user:go", "assistant:", "user:again", "user:left", "assistant:fine"]);
}

#[test]
fn a_long_retry_after_is_an_error_that_says_so() {
    let mut sim = Sim::new();
    sim.begin("go");
    let failure = Failure { class: ErrorClass::RateLimit, retry_after: Some(Duration::from_secs(3600)) };
    sim.finish_stream(sim::message("", StopReason::Error), Some(failure));
    assert_eq!(sim.take_log().last().unwrap(), "settled error");
    sim.wait();
    let log = sim.take_log();
    assert!(log[0].contains("3600 s"), "{log:?}");
}

#[test]
fn late_and_doubled_inputs_find_nothing_to_do() {
    let mut sim = Sim::new();
    sim.begin("go");
    sim.call_tools(&["a"]);
    sim.finish_tool("a");
    sim.take_log();
    sim.finish_tool("a");
    sim.finish_tool("nobody");
    sim.step();
    sim.prepared();
    sim.retry_due();
    check(&sim.take_log(), &[]);
}
