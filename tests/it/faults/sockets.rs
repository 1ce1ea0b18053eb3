//! Connections that come and go in every way: what the daemon holds is what it held before.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as StdStream;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, settled};
use crate::harness::{Client, Daemon, Home, PATIENCE, bounded, usage_of};
use crate::model_server::ModelServer;

/// Room for what a daemon keeps of its own accord: buffers of its allocator, threads that wait for work, connections to
/// the index for two readers at a time (three descriptors each, and some that SQLite closes later).
const SLACK_KIB: u64 = 24 * 1024;
const SLACK_DESCRIPTORS: usize = 10;
const SLACK_THREADS: usize = 8;

/// Waits until only this many clients are left.
async fn until_clients(client: &mut Client, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = client.ok("get_daemon_status", json!({})).await;
        if status["clients"].as_array().unwrap().len() == count {
            return;
        }
        assert!(Instant::now() < deadline, "clients are left: {status}");
    }
}

/// Checks that a daemon holds what it held before, with some room.
async fn check_flat(daemon: &Daemon, client: &mut Client, before: crate::harness::Usage) {
    until_clients(client, 1).await;
    let ring_bytes = client.ok("get_daemon_status", json!({})).await["ringBytes"].as_u64().unwrap();
    let after = usage_of(daemon.pid());
    assert!(after.descriptors <= before.descriptors + SLACK_DESCRIPTORS, "{before:?}, then {after:?}");
    assert!(after.threads <= before.threads + SLACK_THREADS, "{before:?}, then {after:?}");
    let kept_kib = SLACK_KIB + ring_bytes / 1024;
    assert!(
        after.resident_kib <= before.resident_kib + kept_kib,
        "{before:?}, then {after:?}, {ring_bytes} in the ring"
    );
}

#[tokio::test]
async fn b195_a_thousand_connections_and_two_hundred_aborted_streams_leave_nothing() {
    let hang = json!({"text": "abc", "chunk": 1, "hang_after": 3});
    let server = ModelServer::start(json!({"replies": [], "default": hang}));
    let (daemon, mut client) = begin(&server).await;
    let socket = daemon.home().socket();
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    for round in 0..2 {
        let before = usage_of(daemon.pid());
        for number in 0..1000 {
            let mut stream = StdStream::connect(&socket).unwrap();
            match number % 5 {
                // Says nothing.
                0 => {}
                // Leaves with its answer unread: the daemon's end is reset.
                1 => stream.write_all(ping).unwrap(),
                // Leaves in the middle of a line.
                2 => stream.write_all(&ping[..20]).unwrap(),
                // Closes its own direction, and reads to the end.
                3 => {
                    stream.write_all(ping).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).unwrap();
                    assert!(answer.contains("\"time\"") && answer.ends_with('\n'), "{answer}");
                }
                // Closes both.
                _ => {
                    stream.write_all(ping).unwrap();
                    stream.shutdown(Shutdown::Both).unwrap();
                }
            }
        }
        for _ in 0..100 {
            client.ok("prompt", json!({"message": "x"})).await;
            client.events_until("message_update").await;
            client.ok("abort", json!({})).await;
            assert_eq!(settled(&client.events_until("agent_settled").await)["aborted"], true);
        }
        // The first round pays for what is made once.
        if round > 0 {
            check_flat(&daemon, &mut client, before).await;
        }
    }
}

#[tokio::test]
async fn b195_a_low_soft_limit_of_descriptors_is_raised() {
    let daemon = Daemon::start_after(Home::new(), "ulimit -Sn 256");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = files.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft > 256, "{files}");
    let clients: Vec<_> = (0..300).map(|_| StdStream::connect(daemon.home().socket()).unwrap()).collect();
    let mut client = daemon.connect().await;
    until_clients(&mut client, clients.len() + 1).await;
}

/// A client that was killed is noticed at once; one that only has nothing more to say gets its answers.
#[tokio::test]
async fn b195_requests_of_a_client_that_is_gone_end_and_those_of_a_half_closed_one_are_answered() {
    let server = ModelServer::replies(json!([{"text": "abc", "chunk": 1, "gates": {"1": "go"}}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    let ask = |id: u64| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "wait", "params": {"sessionId": session}});
        let mut stream = StdStream::connect(daemon.home().socket()).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        stream
    };
    let mut half_closed = ask(1);
    half_closed.shutdown(Shutdown::Write).unwrap();
    let gone: Vec<_> = (2..30).map(ask).collect();
    until_clients(&mut client, 30).await;
    drop(gone);
    until_clients(&mut client, 2).await;
    server.release("go");
    client.events_until("agent_settled").await;
    half_closed.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    half_closed.read_to_string(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["reason"]), (&json!(1), &json!("done")));
    until_clients(&mut client, 1).await;
}

/// A script may write its request and be gone before it is taken.
#[tokio::test]
async fn what_a_client_has_asked_is_done_though_it_is_gone() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let (mut daemon, mut client) = begin(&server).await;
    client.run("x").await;
    let session = client.ok("get_state", json!({})).await["sessionId"].clone();
    // So that the session has to be loaded first.
    assert!(daemon.terminate().success());
    daemon.restart();
    let request = |id: u64, method: &str, params: Value| {
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let lines = [
        request(1, "ping", json!({})),
        request(2, "wait", json!({"sessionId": session})),
        request(3, "set_session_name", json!({"sessionId": session, "name": "left"})),
        request(4, "prompt", json!({"sessionId": session, "message": "y"})),
    ];
    let mut stream = StdStream::connect(daemon.home().socket()).unwrap();
    stream.write_all(lines.concat().as_bytes()).unwrap();
    drop(stream);
    server.request(2).await;
}

#[tokio::test]
async fn b151_a_half_closed_connection_costs_nothing_while_it_waits_and_sigterm_works() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "sleep 60"}, "id": "c1"}]});
    let server = ModelServer::replies(json!([call]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("tool_execution_start").await;
    let wait = client.request("wait", json!({})).await;
    client.close_input().await;
    let before = usage_of(daemon.pid()).cpu_ticks;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ticks = usage_of(daemon.pid()).cpu_ticks - before;
    assert!(ticks < 15, "{ticks} hundredths of a second: it spins");
    assert!(daemon.terminate().success());
    let rest = client.rest().await;
    let answer = rest.iter().find(|message| message["id"] == json!(wait)).expect("an answer");
    let (result, kind) = (&answer["result"]["reason"], &answer["error"]["data"]["kind"]);
    assert!(*result == "interrupted" || *kind == "shutting_down", "{answer}");
}

#[tokio::test]
async fn b197_five_hundred_retries_leave_nothing() {
    let failure = json!({"status": 503, "body": "busy"});
    let server = ModelServer::start(json!({"replies": [], "default": failure}));
    let (daemon, mut client) = begin(&server).await;
    let mut before = usage_of(daemon.pid());
    let mut retries = 0;
    while retries < 500 {
        let events = client.run("x").await;
        retries += events.iter().filter(|event| event["event"]["type"] == "auto_retry_start").count();
        if retries < 100 {
            // Until then it grows into what one session of that kind needs.
            before = usage_of(daemon.pid());
        }
    }
    check_flat(&daemon, &mut client, before).await;
}

/// Connections opened and dropped at random, many at a time, some of them with a request, an attachment or half a line.
/// `AGENTD_STORM_SECONDS` says how long; two seconds find what is wrong at each connection.
#[tokio::test]
async fn two_hundred_connections_at_random_leave_nothing() {
    let seconds = std::env::var("AGENTD_STORM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let server = ModelServer::start(json!({"replies": [], "default": {"text": "word ".repeat(50), "chunk": 5}}));
    let (daemon, mut client) = begin(&server).await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("x").await;
    let socket = daemon.home().socket();
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "attach", "params": {"sessionId": session}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "wait", "params": {"sessionId": session}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "watch_sessions", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "list_sessions"}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "get_messages", "params": {"sessionId": session}}),
    ]
    .map(|line| format!("{line}\n"));
    let mut random = 11_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut storm = |open: &mut Vec<StdStream>, steps: usize| {
        for _ in 0..steps {
            if open.len() < 200 && next(2) == 0 {
                open.push(StdStream::connect(&socket).unwrap());
            } else if !open.is_empty() {
                let at = next(open.len());
                let stream = &mut open[at];
                let line = lines[next(lines.len())].as_bytes();
                let sent = match next(5) {
                    0 | 1 => stream.write_all(line),
                    2 => stream.write_all(&line[..next(line.len())]),
                    3 => stream.shutdown([Shutdown::Read, Shutdown::Write, Shutdown::Both][next(3)]),
                    _ => {
                        drop(open.swap_remove(at));
                        Ok(())
                    }
                };
                // It may have been closed before.
                drop(sent);
            }
        }
    };
    let mut open = Vec::new();
    // Until then the session grows, and the daemon into what it needs for so many at a time.
    for _ in 0..30 {
        storm(&mut open, 200);
        client.run("y").await;
    }
    open.clear();
    until_clients(&mut client, 1).await;
    let before = usage_of(daemon.pid());
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        storm(&mut open, 200);
        client.ok("set_steering_mode", json!({"mode": "all"})).await;
    }
    drop(open);
    check_flat(&daemon, &mut client, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_clients_that_never_read_cost_at_most_the_ring() {
    const DELTAS: usize = 100_000;
    let synth = json!({"deltas": DELTAS, "text": "word", "per_write": 100});
    let server = ModelServer::replies(json!([{"synth": synth}, {"text": "small"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("attach", json!({"view": "coalesced"})).await;
    let attach = json!({"jsonrpc": "2.0", "id": 1, "method": "attach", "params": {"sessionId": session}});
    let never_read: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = StdStream::connect(daemon.home().socket()).unwrap();
            stream.write_all(format!("{attach}\n").as_bytes()).unwrap();
            stream
        })
        .collect();
    bounded("all attachments", async { while client.ok("get_state", json!({})).await["clients"] != 11 {} }).await;
    let before = usage_of(daemon.pid());
    let events = client.run("x").await;
    assert_eq!(settled(&events)["reason"], "done", "{:?}", settled(&events));
    let text: usize =
        events.iter().filter_map(|event| event["event"]["assistantMessageEvent"]["delta"].as_str()).map(str::len).sum();
    assert_eq!(text, DELTAS * 4, "the one that reads has all of it");
    let status = client.ok("get_daemon_status", json!({})).await;
    let ring_kib = status["ringBytes"].as_u64().unwrap() / 1024;
    assert!(ring_kib <= 64 * 1024, "{status}");
    let unsent = |client: &Value| client["bytesUnsent"].as_u64().unwrap();
    let held: u64 = status["clients"].as_array().unwrap().iter().map(unsent).sum();
    assert!(held <= 10 * 256 * 1024, "{held} bytes are held for those that do not read");
    // The ring, the message itself in its forms, and what reading it took.
    let after = usage_of(daemon.pid());
    assert!(after.resident_kib <= before.resident_kib + ring_kib + 48 * 1024, "{before:?}, then {after:?}: {status}");
    drop(never_read);
    until_clients(&mut client, 1).await;
    let events = client.run("y").await;
    assert_eq!(settled(&events)["reason"], "done", "{}", settled(&events));
}
