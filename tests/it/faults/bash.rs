//! Commands of the model, through the daemon: what ends, what stays, what the model is told.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, descriptors, settled, texts};
use crate::harness::{Client, Daemon, bounded};
use crate::model_server::ModelServer;

/// Time in which a call is answered that has nothing to wait for. Processes in the way have at least thrice as long.
const SOON: Duration = Duration::from_secs(15);

fn command(arguments: &Value) -> Value {
    json!({"blocks": [{"tool": "bash", "args": arguments}]})
}

/// Arguments of a call, and whether what the model is told of it is right.
type Row = (Value, fn(&str) -> bool);

/// Runs commands, each in a run of its own, and checks what the model is told of it. None may take long.
async fn check(rows: &[Row]) {
    let server = ModelServer::replies(json!([]));
    let (daemon, mut client) = begin(&server).await;
    for (arguments, is_right) in rows {
        let (told, took) = told(&server, &daemon, &mut client, arguments).await;
        assert!(is_right(&told), "{arguments}: {told:?}");
        assert!(took < SOON, "{arguments} took {took:?}");
    }
}

/// Runs a command in a new session and returns what the next request tells of it.
async fn told(server: &ModelServer, daemon: &Daemon, client: &mut Client, arguments: &Value) -> (String, Duration) {
    server.push(command(arguments));
    server.push(json!({"text": "done"}));
    client.new_session(daemon.home(), "fake/plain").await;
    let begun = Instant::now();
    let events = client.run("x").await;
    let took = begun.elapsed();
    assert_eq!(settled(&events)["aborted"], false, "{arguments}");
    (texts(server.requests().last().unwrap(), "tool").concat(), took)
}

/// Returns the processes that the daemon started and that still run.
fn commands(daemon: &Daemon) -> Vec<i32> {
    daemon.home().processes().into_iter().filter(|pid| *pid != daemon.pid()).collect()
}

/// Waits until the command says that it is up.
async fn until_up(client: &mut Client) {
    let mut output = String::new();
    while !output.contains("up\n") {
        let event = client.events_until("tool_execution_update").await.pop().unwrap();
        output.push_str(event["event"]["delta"].as_str().unwrap());
    }
}

/// Waits until no command runs: a process that was killed takes a moment to be gone.
async fn until_gone(daemon: &Daemon, what: &str) {
    let gone = async {
        while !commands(daemon).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    bounded(&format!("the end of {what}"), gone).await;
}

#[tokio::test]
async fn b089_a_background_process_does_not_hold_the_call() {
    check(&[
        (json!({"command": "sleep 60 & echo done"}), |told| told == "done\n"),
        (json!({"command": "sleep 60 </dev/null >/dev/null & echo a"}), |told| told == "a\n"),
        (json!({"command": "(while :; do echo x; sleep 0.1; done) & echo b"}), |told| told.contains("b\n")),
        (json!({"command": "setsid -f sleep 60; echo c"}), |told| told == "c\n"),
    ])
    .await;
}

#[tokio::test]
async fn b091_b101_what_ignores_signals_ends_and_an_exit_before_that_is_told() {
    check(&[
        (json!({"command": "trap '' TERM INT HUP; while :; do sleep 1; done", "timeout": 0.3}), |told| {
            told == "Command timed out after 0.3 seconds"
        }),
        (json!({"command": "kill -STOP $$; echo on", "timeout": 0.3}), |told| told.contains("timed out")),
        (json!({"command": "(while :; do echo x; sleep 0.1; done) & exit 7", "timeout": 1}), |told| {
            told.ends_with("\n\nCommand exited with code 7")
        }),
    ])
    .await;
}

#[tokio::test]
async fn b091_b093_an_abort_ends_what_ignores_signals_and_lets_no_further_command_run() {
    let server = ModelServer::replies(json!([]));
    let (daemon, mut client) = begin(&server).await;
    for list in [
        "sleep 30; touch ran",
        "sleep 30 || touch ran",
        "sleep 30 | true; touch ran",
        "trap '' TERM INT HUP; while :; do sleep 0.1; done; touch ran",
    ] {
        server.push(command(&json!({"command": format!("echo up; {list}")})));
        client.new_session(daemon.home(), "fake/plain").await;
        client.ok("prompt", json!({"message": "x"})).await;
        until_up(&mut client).await;
        let begun = Instant::now();
        client.ok("abort", json!({})).await;
        let events = client.events_until("agent_settled").await;
        assert_eq!(settled(&events)["aborted"], true, "{list}");
        assert!(begun.elapsed() < SOON, "{list} took {:?}", begun.elapsed());
        until_gone(&daemon, list).await;
        assert!(!daemon.home().cwd().join("ran").exists(), "{list}");
    }
}

#[tokio::test]
async fn b097_nothing_waits_for_input_or_a_terminal() {
    let git = "git -c user.name=a -c user.email=a@b -c core.editor=vi";
    check(&[
        (json!({"command": "cat"}), |told| told == "(no output)"),
        (json!({"command": "read x; echo got=$x"}), |told| told == "got=\n"),
        (json!({"command": "python3 -c 'input()'"}), |told| told.contains("EOFError") || told.contains("not found")),
        (json!({"command": format!("git init -q .; touch f; git add f; {git} commit")}), |told| {
            told.contains("exited with code")
        }),
        (json!({"command": "sh -c 'read y < /dev/tty'"}), |told| told.contains("exited with code")),
        (json!({"command": "sudo -k true"}), |_| true),
    ])
    .await;
}

/// The daemon that serves stdio itself: a command must not eat what the client writes.
#[tokio::test]
async fn b097_a_command_does_not_read_the_requests_of_a_client_on_stdio() {
    let server = ModelServer::replies(json!([]));
    let (daemon, _client) = begin(&server).await;
    let mut client = Client::stdio(daemon.home());
    server.push(command(&json!({"command": "echo begun; cat; read line; echo \"ate=$line\""})));
    server.push(json!({"text": "done"}));
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    for _ in 0..20 {
        client.ok("ping", json!({})).await;
    }
    client.ok("wait", json!({})).await;
    assert_eq!(texts(server.requests().last().unwrap(), "tool"), ["begun\nate=\n"]);
}

#[tokio::test]
async fn b099_death_by_signal_is_no_success() {
    check(&[
        (json!({"command": "kill -9 $$"}), |told| told.ends_with("Command exited with code 137")),
        (json!({"command": "sh -c 'kill -SEGV $$'; exit $?"}), |told| told.ends_with("Command exited with code 139")),
        (json!({"command": "sleep 30", "timeout": 0.2}), |told| told.ends_with("timed out after 0.2 seconds")),
    ])
    .await;
}

#[tokio::test]
async fn b103_counts_at_the_limits_are_exact() {
    check(&[
        (json!({"command": "seq 2000"}), |told| told.starts_with("1\n") && told.ends_with("\n2000\n")),
        (json!({"command": "seq 2001"}), |told| {
            told.starts_with("2\n") && told.contains("[Showing lines 2-2001 of 2001. Full output: ")
        }),
        (json!({"command": "head -c 51200 /dev/zero | tr '\\0' x"}), |told| told.len() == 51_200),
        (json!({"command": "head -c 51201 /dev/zero | tr '\\0' x"}), |told| told.contains("Full output: ")),
    ])
    .await;
}

#[tokio::test]
async fn b103_500_cut_calls_leave_no_descriptor_and_only_private_files() {
    const RUNS: usize = 10;
    const CALLS: usize = 50;
    let arguments = json!({"command": "yes '' | head -n 2001"});
    let calls: Vec<_> = (0..CALLS).map(|_| json!({"tool": "bash", "args": arguments})).collect();
    let server = ModelServer::replies(json!([command(&arguments), {"text": "warm"}]));
    let (daemon, mut client) = begin(&server).await;
    client.run("x").await;
    let before = descriptors(&daemon);
    let mut paths = Vec::new();
    for _ in 0..RUNS {
        server.push(json!({"blocks": calls}));
        server.push(json!({"text": "done"}));
        client.new_session(daemon.home(), "fake/plain").await;
        let events = client.run("y").await;
        let ends = events.iter().filter(|event| event["event"]["type"] == "tool_execution_end");
        let path = |end: &Value| end["event"]["result"]["details"]["fullOutputPath"].as_str().map(str::to_owned);
        paths.extend(ends.map(|end| path(end).expect("a file of the full output")));
    }
    assert_eq!(paths.len(), RUNS * CALLS);
    let whole = "\n".repeat(2001);
    for path in &paths {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
        assert!(std::fs::read_to_string(path).unwrap() == whole, "{path}");
    }
    // A session keeps its file open.
    let after = descriptors(&daemon);
    assert!(after <= before + RUNS + 2, "{before} descriptors before, {after} after");
    until_gone(&daemon, "the calls").await;
}

#[tokio::test]
async fn b105_sigterm_ends_the_commands_of_all_sessions() {
    let server = ModelServer::replies(json!([]));
    let (mut daemon, mut client) = begin(&server).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        server.push(command(&json!({"command": "setsid -f sleep 300; echo up; sleep 300"})));
        client.new_session(daemon.home(), "fake/plain").await;
        client.ok("prompt", json!({"message": "x"})).await;
        until_up(&mut client).await;
        clients.push(std::mem::replace(&mut client, daemon.connect().await));
    }
    assert!(commands(&daemon).len() >= 6, "commands run in each: {:?}", commands(&daemon));
    assert!(daemon.terminate().success());
    until_gone(&daemon, "the commands").await;
}

#[tokio::test]
async fn b105_a_kill_ends_the_shells_and_the_next_daemon_what_they_left() {
    let server = ModelServer::replies(json!([]));
    let (mut daemon, _client) = begin(&server).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        server.push(command(&json!({"command": "setsid -f sleep 300; echo up; sleep 301; touch ran"})));
        let mut client = daemon.connect().await;
        client.new_session(daemon.home(), "fake/plain").await;
        client.ok("prompt", json!({"message": "x"})).await;
        until_up(&mut client).await;
        clients.push(client);
    }
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name in parentheses: the state, the parent.
        let parent = stat.rsplit_once(')').and_then(|(_, facts)| facts.split(' ').nth(2));
        parent == Some(daemon.pid().to_string().as_str())
    };
    let shells: Vec<i32> = commands(&daemon).into_iter().filter(is_child).collect();
    assert_eq!(shells.len(), 3, "{:?}", commands(&daemon));
    daemon.kill();
    let shells_end = async {
        while shells.iter().any(|shell| daemon.home().processes().contains(shell)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    bounded("the end of the shells", shells_end).await;
    daemon.restart();
    until_gone(&daemon, "what the shells left").await;
    assert!(!daemon.home().cwd().join("ran").exists());
}

#[tokio::test]
async fn b103_full_outputs_are_removed_when_they_are_old() {
    let server = ModelServer::replies(json!([]));
    let (mut daemon, mut client) = begin(&server).await;
    let mut files = Vec::new();
    for _ in 0..2 {
        let (text, _) = told(&server, &daemon, &mut client, &json!({"command": "seq 2001"})).await;
        let path = text.rsplit_once("Full output: ").unwrap().1.trim_end_matches(']');
        files.push(std::path::PathBuf::from(path));
    }
    daemon.terminate();
    let fifteen_days = std::time::SystemTime::now() - Duration::from_secs(15 * 24 * 60 * 60);
    std::fs::File::options().write(true).open(&files[0]).unwrap().set_modified(fifteen_days).unwrap();
    daemon.restart();
    let removed = async {
        while files[0].exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    bounded("the removal of the old file", removed).await;
    assert!(files[1].exists());
}
