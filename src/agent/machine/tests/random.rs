//! Thousands of random sessions: whatever comes in whatever order, the invariants hold.

use agentd_protocol::message::{Message, StopReason};
use agentd_protocol::methods::{Decision, Headless, IfBusy, Mode, SessionStatus};

use super::sim::{Sim, message, user_text};
use crate::agent::machine::{Failure, Input, Stop};
use crate::provider::error::ErrorClass;
use crate::session::entry::EntryBody;
use crate::session::settings::StoredSettings;

/// A small generator, so that a failing case is named by its seed alone.
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[test]
fn invariants_hold_in_random_sessions() {
    for seed in 1..=3_000 {
        run(seed);
    }
}

#[test]
fn b170_steering_survives_an_abort_at_any_moment() {
    for seed in 1..=200 {
        let mut dice = Dice::of(seed);
        let mut sim = Sim::new();
        sim.begin("start");
        sim.call_tools(&["x"]);
        sim.disk_is_slow = dice.roll(2) == 0;
        sim.steer("steered");
        for _ in 0..dice.roll(20) {
            if sim.is_writing() {
                sim.end_write();
            } else if let Some(tool) = sim.running.first().cloned() {
                sim.finish_tool(tool.id.as_str());
            } else if sim.request.is_some() {
                sim.call_tools(&["x"]);
            }
        }
        finish(&mut sim);
        sim.begin("next");
        for _ in 0..3 {
            sim.answer("a");
        }
        assert!(sim.machine.is_idle() && sim.machine.queues().is_empty(), "seed {seed}: {:#?}", sim.log);
        let said = sim.branch_texts();
        assert_eq!(said.iter().filter(|text| *text == "user:steered").count(), 1, "seed {seed}: {said:#?}");
    }
}

fn run(seed: u64) {
    let mut dice = Dice::of(seed);
    let mut sim = Sim::new();
    // Most sessions come to their limit of turns now and then.
    let max_turns = 1 + u32::try_from(dice.roll(4)).unwrap();
    sim.set_max_turns(max_turns);
    if dice.roll(2) == 0 {
        sim.set_mode(Mode::Ask);
        let headless = if dice.roll(2) == 0 { Headless::Wait } else { Headless::Deny };
        sim.set_asking(headless, dice.roll(2) * 50);
    }
    let mut log = Vec::new();
    for _ in 0..60 {
        act(&mut sim, &mut dice);
        log.extend(sim.take_log());
    }
    finish(&mut sim);
    log.extend(sim.take_log());
    check(seed, &sim, &log);
    // After a failed write the session is loaded anew, which this one is not.
    if !log.iter().any(|line| line == "append failed") {
        let kept = StoredSettings::of(&sim.tree).max_turns.unwrap_or(max_turns);
        assert_eq!(sim.machine.settings().max_turns, kept, "seed {seed}: the file says otherwise: {log:#?}");
    }
}

fn act(sim: &mut Sim, dice: &mut Dice) {
    if sim.machine.status() == SessionStatus::RetryWait && dice.roll(2) == 0 {
        return disturb_retry(sim, dice);
    }
    match dice.roll(29) {
        27 => sim.wait_ms(20),
        28 => respond_to_any(sim, dice),
        26 => sim.steer_now(&next_text(sim)),
        24 => sim.respond(match dice.roll(8) {
            0 => Decision::Session,
            1 | 2 => Decision::Deny,
            _ => Decision::Once,
        }),
        25 => sim.is_attended = !sim.is_attended,
        20 => sim.disk_is_slow = true,
        21 => let_writes_end(sim),
        22..=23 => sim.end_write(),
        0..=2 => sim.prompt(&next_text(sim)),
        3 => sim.prompt_if(&next_text(sim), if dice.roll(2) == 0 { IfBusy::Steer } else { IfBusy::FollowUp }),
        4 => sim.steer(&next_text(sim)),
        5 => sim.follow_up(&next_text(sim)),
        6 => sim.abort(),
        7 => {
            let reply = sim.reply_id();
            sim.feed(Input::Stop { why: Stop::Shutdown, reply });
        }
        8 => sim.wait(),
        9 => sim.resume_input(),
        10 if dice.roll(4) == 0 => sim.break_disk(),
        11 => sim.mend_disk(),
        12..=13 if sim.may_be_prepared() => sim.prepared(),
        14 => sim.retry_due(),
        _ => advance(sim, dice),
    }
}

/// Answers any of the questions, or one that has ended.
fn respond_to_any(sim: &mut Sim, dice: &mut Dice) {
    let open = sim.asked.len() as u64;
    if open > 0 {
        let place = usize::try_from(dice.roll(open)).unwrap();
        let approval = sim.asked[place].clone();
        sim.respond_to(approval.clone(), if dice.roll(3) == 0 { Decision::Deny } else { Decision::Once });
        sim.respond_to(approval, Decision::Once);
    }
}

/// A text that tells which answer its message gets.
fn next_text(sim: &Sim) -> String {
    format!("message {}", sim.replies + 1)
}

/// Rare by chance alone: a retry comes due while the write of something else is about to fail.
fn disturb_retry(sim: &mut Sim, dice: &mut Dice) {
    match dice.roll(3) {
        0 => {
            sim.disk_is_slow = true;
            sim.steer(&next_text(sim));
        }
        1 => sim.break_disk(),
        _ => sim.retry_due(),
    }
}

fn let_writes_end(sim: &mut Sim) {
    while sim.is_writing() {
        sim.end_write();
    }
    sim.disk_is_slow = false;
}

/// Lets the model or a tool do something, which nobody hears while jobs wait.
fn advance(sim: &mut Sim, dice: &mut Dice) {
    if sim.is_waiting() {
        return;
    }
    if sim.machine.status() == SessionStatus::Asking && dice.roll(2) == 0 {
        return sim.respond(Decision::Once);
    }
    if sim.is_describing() && dice.roll(2) == 0 {
        return if dice.roll(5) == 0 { sim.fail_to_describe() } else { sim.describe() };
    }
    if let Some(tool) = sim.running.first().cloned() {
        return sim.finish_tool(tool.id.as_str());
    }
    if sim.request.is_none() {
        return sim.prepared();
    }
    match dice.roll(6) {
        0 => sim.start_stream(),
        1 | 2 => sim.answer("a"),
        3 => sim.call_tools(match dice.roll(4) {
            0 => &["x", "x"],
            1 => &["w", "r", "x"],
            2 => &["w", "y"],
            _ => &["x", "y"],
        }),
        4 => sim.fail(ErrorClass::Transient),
        _ => sim.finish_stream(message("half", StopReason::Aborted), None),
    }
}

/// Ends whatever goes on in the ways that the actor guarantees.
fn finish(sim: &mut Sim) {
    sim.mend_disk();
    let_writes_end(sim);
    sim.abort();
    for _ in 0..10 {
        sim.prepared();
        while sim.is_describing() {
            sim.describe();
        }
        while let Some(tool) = sim.running.first().cloned() {
            sim.finish_tool(tool.id.as_str());
        }
        if sim.request.is_some() {
            sim.finish_stream(message("half", StopReason::Aborted), None);
        }
        let failure = Failure { class: ErrorClass::Auth, retry_after: None };
        if sim.request.is_some() {
            sim.finish_stream(message("", StopReason::Error), Some(failure));
        }
    }
}

fn check(seed: u64, sim: &Sim, log: &[String]) {
    assert!(sim.machine.is_idle(), "seed {seed}: not idle at the end: {log:#?}");
    let mut depth = 0_i32;
    let (mut is_settled, mut is_retry, mut told_queues) = (true, false, "queue 0 0");
    for line in log {
        match line.as_str() {
            "agent_start" => {
                assert!(is_settled || is_retry, "seed {seed}: a run begins before the last one has settled: {log:#?}");
                (is_settled, is_retry) = (false, false);
                depth += 1;
            }
            line if line.starts_with("agent_end") => {
                is_retry = line.ends_with("will retry");
                depth -= 1;
            }
            line if line.starts_with("settled") => {
                assert!(!is_settled, "seed {seed}: settled without a run: {log:#?}");
                is_settled = true;
            }
            line if line.starts_with("queue") => told_queues = line,
            _ => {}
        }
        assert!((0..=1).contains(&depth), "seed {seed}: runs overlap at {line}: {log:#?}");
    }
    assert!(depth == 0 && is_settled, "seed {seed}: a run has no end: {log:#?}");
    assert!(sim.asked.is_empty(), "seed {seed}: a question has no end: {log:#?}");
    let queues = sim.machine.queues();
    let queues = format!("queue {} {}", queues.steering.len(), queues.follow_up.len());
    assert_eq!(told_queues, queues, "seed {seed}: clients were told otherwise: {log:#?}");
    let mut answered: Vec<&str> =
        log.iter().filter_map(|line| line.strip_prefix("reply ")?.split(' ').next()).collect();
    let count = answered.len();
    answered.sort_unstable();
    answered.dedup();
    assert_eq!(answered.len(), count, "seed {seed}: something was answered twice: {log:#?}");
    assert_eq!(count as u64, sim.replies, "seed {seed}: something was not answered: {log:#?}");
    check_pairs(seed, sim);
    check_accepted(seed, sim, log);
}

/// Every message that was accepted is said once or still waits, and one that was refused is nowhere.
fn check_accepted(seed: u64, sim: &Sim, log: &[String]) {
    let said = sim.branch_texts();
    let waiting: Vec<String> = sim.machine.queues().iter().map(|queued| user_text(&queued.message)).collect();
    for reply in &sim.messages {
        let is_accepted = |outcome: &str| log.contains(&format!("reply {} {outcome}", reply.0));
        let text = format!("user:message {}", reply.0);
        let count = said.iter().chain(&waiting).filter(|other| **other == text).count();
        let expected = usize::from(is_accepted("started") || is_accepted("queued"));
        assert_eq!(count, expected, "seed {seed}: message {}: {said:#?} {waiting:#?} {log:#?}", reply.0);
    }
}

/// Every tool result answers a call of the assistant message before it, and none twice.
fn check_pairs(seed: u64, sim: &Sim) {
    let mut open = Vec::new();
    for entry in sim.tree.branch() {
        let EntryBody::Message(message) = &entry.body else { continue };
        match &**message {
            Message::Assistant(assistant) => {
                open = assistant
                    .content
                    .iter()
                    .filter_map(|block| match block {
                        agentd_protocol::message::ContentBlock::ToolCall(call) => Some(call.id.clone()),
                        _ => None,
                    })
                    .collect();
            }
            Message::ToolResult(result) => {
                let place = open.iter().position(|id| *id == result.tool_call_id);
                let place = place.unwrap_or_else(|| panic!("seed {seed}: a result without a call"));
                open.remove(place);
            }
            _ => {}
        }
    }
}
