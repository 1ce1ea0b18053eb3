//! Whatever clients do and wherever they are cut, each ends with the same session: nothing is lost, repeated or
//! reordered, in any view.
//!
//! A case is made from its number alone, and runs with paused time. `AGENTD_SCHEDULES=10000` plays so many,
//! `AGENTD_SCHEDULE=17` only that one; one that fails is made as small as it gets.

mod device;
mod groups;
mod plan;
mod script;
mod truth;
mod wire;
mod world;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use agentd_protocol::framing::Framing;
use agentd_protocol::methods::{GetEntriesParams, View};
use agentd_protocol::session_view::{SessionView, ViewEntry};
use pretty_assertions::assert_eq;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use self::device::Device;
use self::plan::{CLIENTS, Pause, Plan, Since, Step};
use self::truth::{Truth, content_of, growing_of, state_of};
use self::world::World;

/// Cases that are played unless the environment says otherwise.
const CASES: u64 = 2000;
/// Most bytes with which rings are filled.
const MOST_SQUEEZED: usize = 100_000;
/// Parts that run side by side.
const PARTS: u64 = 2;

fn play(part: u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(case) = number("AGENTD_SCHEDULE") {
        return if part == case % PARTS {
            check(case)
        };
    }
    let cases = number("AGENTD_SCHEDULES").unwrap_or(CASES);
    (0..cases).filter(|case| case % PARTS == part).for_each(check);
}

fn check(case: u64) {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&case.to_le_bytes());
    let config = Config { max_shrink_iters: 400, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let tree = plan::plans().new_tree(&mut runner).unwrap();
    let result = runner.run_one(tree, |plan| {
        std::panic::catch_unwind(AssertUnwindSafe(|| run(&plan))).map_err(|_| TestCaseError::fail("see above"))
    });
    if let Err(TestError::Fail(_, plan)) = result {
        // Once more, so that its own failure is the last that is shown.
        let failure = std::panic::catch_unwind(AssertUnwindSafe(|| run(&plan)));
        panic!("AGENTD_SCHEDULE={case} fails, at its smallest (failing again: {}) with {plan:#?}", failure.is_err());
    }
}

fn run(plan: &Plan) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(case(plan));
}

#[test]
fn every_client_ends_with_the_same_session() {
    play(0);
}

#[test]
fn every_client_ends_with_the_same_session_too() {
    play(1);
}

/// The clients of a case, and what they have seen.
struct Play {
    world: World,
    truth: Truth,
    devices: Vec<Device>,
    witness: Option<Device>,
}

async fn case(plan: &Plan) {
    let world = World::new(plan).await;
    let devices = (0..CLIENTS).map(|_| Device::default()).collect();
    let mut play = Play { world, truth: Truth::default(), devices, witness: None };
    if plan.has_witness {
        play.witness = Some(play.reader().await);
    }
    for (number, (step, pause)) in plan.steps.iter().enumerate() {
        play.step(plan, number, step);
        play.pause(*pause).await;
        if let Some(witness) = &mut play.witness {
            witness.read(&play.world, &mut play.truth, usize::MAX);
        }
    }
    play.world.settled().await;
    play.finish(plan).await;
    let Play { world, devices, witness, .. } = play;
    drop((devices, witness));
    world.end().await;
}

impl Play {
    fn step(&mut self, plan: &Plan, number: usize, step: &Step) {
        let Self { world, truth, devices, .. } = self;
        let session_of = |session: usize| session % plan.sessions.len();
        match *step {
            Step::Connect { client, pipe, is_lsp } => {
                let framing = if is_lsp { Framing::Lsp } else { Framing::Lines };
                devices[client].connect(world, pipe, framing);
            }
            Step::Reach { client } => {
                if !devices[client].can_speak() {
                    devices[client].connect(world, 1 << 16, Framing::Lines);
                }
            }
            Step::Cut { client, is_half: false } => devices[client].cut(),
            Step::Cut { client, is_half: true } => {
                if let Some(wire) = &mut devices[client].wire {
                    wire.finish();
                }
            }
            Step::Attach { client, session, view, since, history } => {
                devices[client].attach(world, session_of(session), view, since, history);
                send(&mut devices[client], number);
            }
            Step::Detach { client, session } => {
                devices[client].detach(world, session_of(session));
                send(&mut devices[client], number);
            }
            Step::Say { client, session, what } => {
                devices[client].say(world, session_of(session), what, number);
                send(&mut devices[client], number);
            }
            Step::Write { client, bytes } => {
                if let Some(wire) = &mut devices[client].wire {
                    wire.send(bytes);
                }
            }
            Step::Read { client, bytes } => drop(devices[client].read(world, truth, bytes)),
            Step::Squeeze => world.squeeze(plan.ring_bytes.min(MOST_SQUEEZED)),
            Step::Forget { client, session, view } => {
                if let Some(held) = devices[client].held.get(&session_of(session)).filter(|_| plan.is_tight()) {
                    world.forget_after(session_of(session), &held.cursor(), view);
                }
            }
        }
    }

    async fn pause(&self, pause: Pause) {
        match pause {
            Pause::Nothing => {}
            Pause::Turns(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
            Pause::Millis(millis) => tokio::time::sleep(Duration::from_millis(millis.into())).await,
        }
    }

    /// Returns a client that reads every session in full, and reads it now.
    async fn reader(&mut self) -> Device {
        let mut device = Device::default();
        device.connect(&self.world, 1 << 20, Framing::Lines);
        for session in 0..self.world.sessions.len() {
            device.attach(&self.world, session, View::Full, Since::Nothing, None);
        }
        catch_up(&self.world, &mut self.truth, &mut [&mut device]).await;
        device
    }

    /// Brings all clients to the end of all sessions, and compares them with the sessions themselves.
    async fn finish(&mut self, plan: &Plan) {
        for (device, view) in self.devices.iter_mut().zip(plan.last_views) {
            if !device.can_speak() || device.wire.as_ref().is_some_and(|wire| !wire.is_sent()) {
                device.connect(&self.world, 4096, Framing::Lines);
            }
            catch_up(&self.world, &mut self.truth, &mut [device]).await;
            for session in 0..self.world.sessions.len() {
                if !device.is_attached(session) {
                    device.attach(&self.world, session, view, Since::Last, None);
                }
            }
        }
        let last = self.reader().await;
        let Self { world, truth, devices, witness } = self;
        let mut all: Vec<&mut Device> = devices.iter_mut().chain(witness).collect();
        catch_up(world, truth, &mut all).await;
        let mut last = last;
        catch_up(world, truth, &mut [&mut last]).await;
        for session in 0..world.sessions.len() {
            let entries = world.branch(session).await;
            compare_entries(&entries, &last.held[&session], "the last");
            check_paging(world, session, &entries, &last.held[&session]).await;
            for (number, device) in all.iter().enumerate() {
                assert!(device.is_answered(), "client {number} was left without an answer");
                compare(&entries, &device.held[&session], &last.held[&session], &format!("client {number}"));
            }
        }
        truth.check_gaps();
    }
}

/// Sends all, or leaves it to a later step.
fn send(device: &mut Device, number: usize) {
    if let Some(wire) = device.wire.as_mut().filter(|_| !number.is_multiple_of(4)) {
        wire.send(usize::MAX);
    }
}

/// Reads until nothing more comes, open merges included.
async fn catch_up(world: &World, truth: &mut Truth, devices: &mut [&mut Device]) {
    let (mut quiet, mut rounds) = (0, 0);
    while quiet < 3 {
        rounds += 1;
        assert!(rounds < 100_000, "it does not come to an end");
        let mut read = 0;
        for device in devices.iter_mut() {
            if let Some(wire) = &mut device.wire {
                wire.send(usize::MAX);
            }
            read += device.read(world, truth, usize::MAX);
        }
        let is_due = devices.iter().any(|device| !device.is_answered());
        quiet = if read > 0 || is_due { 0 } else { quiet + 1 };
        // While bytes come there may be more at once; else all happens that is due within the window of merges.
        match read {
            0 => tokio::time::sleep(Duration::from_millis(60)).await,
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Compares what a client has with the last state of the session.
fn compare(entries: &[ViewEntry], held: &SessionView, last: &SessionView, who: &str) {
    assert_eq!(state_of(held), state_of(last), "{who}");
    assert_eq!(held.state.clients, last.state.clients, "{who}");
    assert_eq!(held.state.leaf_id, last.state.leaf_id, "{who}");
    assert_eq!(growing_of(held), "", "{who}");
    if held.view != View::Status {
        compare_entries(entries, held, who);
    }
}

/// The entries of a client are the last ones of the branch, all of them if it has a snapshot that says so.
fn compare_entries(entries: &[ViewEntry], held: &SessionView, who: &str) {
    let brief = |entry: &ViewEntry| (entry.id.clone(), content_of(entry));
    let tail = &entries[entries.len() - held.entries.len()..];
    for (own, expected) in held.entries.iter().zip(tail) {
        let (id, content) = brief(own);
        let (expected_id, expected) = brief(expected);
        assert_eq!(id, expected_id, "{who}");
        assert!(content.is_none() || content == expected, "{who}: {content:?} is not {expected:?}");
    }
}

/// Page by page before a snapshot there is the rest of the branch, without gap or overlap.
async fn check_paging(world: &World, session: usize, entries: &[ViewEntry], held: &SessionView) {
    let mut pages = held.entries.clone();
    let mut before = held.before.clone();
    while let Some(id) = before.take() {
        let params = GetEntriesParams { branch: Some(true), before: Some(id), limit: Some(3), ..Default::default() };
        let page: Vec<ViewEntry> = world.entries(session, params).await;
        before = page.first().map(|entry| entry.id.clone());
        pages.splice(0..0, page);
    }
    let ids = |entries: &[ViewEntry]| entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&pages), ids(entries));
}
