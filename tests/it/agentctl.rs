//! The command-line client, as scripts use it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home, agentctl, bounded, wait_for_exit};
use crate::model_server::ModelServer;

fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(agentctl());
    command.args(args).env_clear().envs(home.env()).current_dir(home.cwd()).stdin(Stdio::null());
    command
}

/// Starts it at once; the future is its end.
fn ctl(home: &Home, args: &[&str]) -> impl Future<Output = Output> + use<> {
    let mut command = command(home, args);
    let run = tokio::task::spawn_blocking(move || command.output().expect("start agentctl"));
    async move { bounded("the end of agentctl", run).await.expect("no panic") }
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[tokio::test]
async fn run_prints_the_answer_on_stdout_and_activity_on_stderr() {
    let call = json!({"blocks": [{"text": "Looking."}, {"tool": "bash", "args": {"command": "echo from-the-tool"}}]});
    let server = ModelServer::replies(json!([call, {"text": "The answer."}, {"text": "Quiet answer."}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let output = ctl(daemon.home(), &["run", "--model", "fake/plain", "what", "is", "it"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("The answer.") && !out(&output).contains("from-the-tool"), "{}", out(&output));
    assert!(err(&output).contains("bash"), "{}", err(&output));
    let quiet = ctl(daemon.home(), &["run", "-q", "--model", "fake/plain", "again"]).await;
    assert_eq!((out(&quiet), err(&quiet)), ("Quiet answer.\n", ""));
    let listed = ctl(daemon.home(), &["ls", "--json"]).await;
    assert!(out(&listed).contains("what is it") && out(&listed).contains("again"), "{}", out(&listed));
}

#[tokio::test]
async fn run_starts_the_daemon_when_there_is_none() {
    let server = ModelServer::replies(json!([{"text": "hello"}]));
    let home = Home::with_models(&server);
    let output = ctl(&home, &["run", "-q", "--model", "fake/plain", "x"]).await;
    assert_eq!((output.status.code(), out(&output)), (Some(0), "hello\n"), "{}", err(&output));
    assert_eq!(ctl(&home, &["daemon", "status"]).await.status.code(), Some(0));
    assert_eq!(ctl(&home, &["daemon", "stop"]).await.status.code(), Some(0));
    assert_eq!(ctl(&home, &["daemon", "status"]).await.status.code(), Some(75), "no daemon");
}

#[tokio::test]
async fn exit_codes_tell_how_a_run_ended() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}]});
    let bad = json!({"status": 400, "body": {"error": {"message": "no such thing"}}});
    let server = ModelServer::replies(json!([bad, call, call]));
    let daemon = Daemon::start(Home::with_models(&server));
    let home = daemon.home();
    let provider = ctl(home, &["run", "--model", "fake/plain", "x"]).await;
    assert_eq!(provider.status.code(), Some(5));
    assert!(err(&provider).contains("no such thing"), "{}", err(&provider));
    assert_eq!(ctl(home, &["run", "--model", "fake/plain", "--max-turns", "2", "x"]).await.status.code(), Some(6));
    assert_eq!(ctl(home, &["run", "--no-such-option"]).await.status.code(), Some(2));
    assert_eq!(ctl(home, &["run", "--model", "fake/nosuch", "x"]).await.status.code(), Some(1));
    assert_eq!(ctl(home, &["tail", "no-such-session"]).await.status.code(), Some(1));
}

#[tokio::test]
async fn a_detached_run_is_waited_for_tailed_and_aborted() {
    let gated = |gate: &str| json!({"text": "abc", "chunk": 1, "gates": {"2": gate}});
    let server = ModelServer::replies(json!([gated("one"), gated("never")]));
    let daemon = Daemon::start(Home::with_models(&server));
    let home = daemon.home();
    let started = ctl(home, &["run", "-d", "--model", "fake/plain", "x"]).await;
    let id = out(&started).trim().to_owned();
    assert_eq!(started.status.code(), Some(0));
    let wait = ctl(home, &["wait", &id]);
    server.release("one");
    assert_eq!(wait.await.status.code(), Some(0));

    let started = ctl(home, &["run", "-d", "-c", "go on"]).await;
    assert_eq!(out(&started).trim(), id, "-c goes on in the session used last in this directory");
    server.request(2).await;
    let mut tail =
        command(home, &["tail", "--json", &id]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(tail.stderr.take().unwrap()).lines();
    let attached = tokio::task::spawn_blocking(move || (told.next().unwrap().unwrap(), told));
    let (attached, _told) = bounded("tail's first words", attached).await.unwrap();
    assert!(attached.starts_with("from "), "{attached}");
    let aborted = ctl(home, &["abort", &id]).await;
    assert_eq!(aborted.status.code(), Some(0));
    assert_eq!(ctl(home, &["wait", &id]).await.status.code(), Some(4), "the last run was aborted");
    let mut seen = BufReader::new(tail.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let settled = move || (seen.find(|line| line.contains("agent_settled")).unwrap(), seen);
    let (settled, _seen) = bounded("the end of the run", tokio::task::spawn_blocking(settled)).await.unwrap();
    let settled: Value = serde_json::from_str(&settled).unwrap();
    assert_eq!((&settled["sessionId"], &settled["event"]["reason"]), (&json!(id), &json!("aborted")));
    kill(Pid::from_raw(i32::try_from(tail.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(wait_for_exit(&mut tail, "tail").code(), Some(0));
}

#[tokio::test]
async fn files_and_piped_input_come_before_the_text() {
    use std::io::Write as _;
    let server = ModelServer::replies(json!([{"text": "ok"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    daemon.home().write("notes.txt", "CONTENT OF NOTES\n");
    let mut child = command(daemon.home(), &["run", "-q", "--model", "fake/plain", "explain", "@notes.txt"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"PIPED INPUT\n").unwrap();
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    assert!(bounded("the end of agentctl", ended).await.unwrap().status.success());
    let sent = server.requests()[0].messages().last().unwrap()["content"].to_string();
    let place = |text: &str| sent.find(text).unwrap_or_else(|| panic!("{text} is not in {sent}"));
    assert!(place("PIPED INPUT") < place("explain") && place("CONTENT OF NOTES") < place("explain"), "{sent}");
    assert!(sent.contains("<file name=\\\"") && sent.contains("notes.txt"), "{sent}");
}

#[tokio::test]
async fn any_method_can_be_called() {
    let daemon = Daemon::start(Home::new());
    let output = ctl(daemon.home(), &["rpc", "get_daemon_status"]).await;
    let status: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(status["pid"], daemon.pid());
    let failed = ctl(daemon.home(), &["rpc", "get_state", r#"{"sessionId":"none"}"#]).await;
    assert_eq!(failed.status.code(), Some(1));
    assert!(err(&failed).contains("none"), "{}", err(&failed));
}

#[tokio::test]
async fn a_session_of_an_editor_is_seen_in_the_terminal() {
    let daemon = Daemon::start(Home::new());
    let mut front = Client::stdio(daemon.home());
    front.ok("new_session", json!({"model": "demo", "name": "from the editor"})).await;
    front.run("look around").await;
    let listed = ctl(daemon.home(), &["ls"]).await;
    assert!(out(&listed).contains("from the editor"), "{}", out(&listed));
}

/// Nobody types answers into a pipe, so that the run must not wait for one.
#[tokio::test]
async fn a_script_that_is_attached_ends_at_the_limit_of_turns() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}]});
    let server = ModelServer::replies(json!([call]));
    let daemon = Daemon::start(Home::with_models(&server));
    let home = daemon.home();
    let mut client = daemon.connect().await;
    let params = json!({"cwd": home.cwd(), "model": "fake/plain", "maxTurns": 1, "attach": false});
    let id = client.ok("new_session", params).await["sessionId"].as_str().unwrap().to_owned();
    std::fs::write(home.cwd().join("typed"), "fix it\n").unwrap();
    let mut attach = command(home, &["attach", &id]);
    attach.stdin(std::fs::File::open(home.cwd().join("typed")).unwrap());
    let run = tokio::task::spawn_blocking(move || attach.output().expect("start agentctl"));
    let output = bounded("the end of attach", run).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(client.ok("wait", json!({"sessionId": id})).await["reason"], "maxTurns");
}

#[tokio::test]
async fn the_demo_shows_two_clients_on_one_session_and_says_how_to_attach() {
    let home = Home::new();
    home.write("README.md", "# A project\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
    command.arg("demo").env_clear().envs(home.env()).current_dir(home.cwd()).stdin(Stdio::null());
    let run = tokio::task::spawn_blocking(move || command.output().expect("start agentd demo"));
    let output = bounded("the end of the demo", run).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    let said = format!("{}{}", out(&output), err(&output));
    assert!(said.contains("attach"), "{said}");
    let listed = ctl(&home, &["ls", "--json"]).await;
    assert!(out(&listed).contains("demo/demo"), "{}", out(&listed));
    let lines = home.only_session();
    assert!(lines.iter().any(|line| line["message"]["role"] == "toolResult"), "real tool calls");
}

#[tokio::test]
async fn questions_are_listed_and_answered_from_another_terminal() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}]});
    let server = ModelServer::replies(json!([call, {"text": "done"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let home = daemon.home();
    let mut client = daemon.connect().await;
    client.ok("new_session", json!({"cwd": home.cwd(), "model": "fake/plain", "maxTurns": 1})).await;
    client.ok("prompt", json!({"message": "x"})).await;
    let question = client.events_until("approval_requested").await.pop().unwrap()["event"].clone();
    let id = question["approvalId"].as_str().unwrap();
    let (_, short) = id.rsplit_once('.').unwrap();
    let listed = ctl(home, &["approvals"]).await;
    assert!(out(&listed).starts_with(short) && out(&listed).contains("[once, session, deny]"), "{}", out(&listed));
    assert!(ctl(home, &["approve", short]).await.status.success());
    assert_eq!(client.events_until("agent_settled").await.last().unwrap()["event"]["reason"], "done");
    assert_eq!(out(&ctl(home, &["approvals"]).await), "");
    let late = ctl(home, &["deny", id]).await;
    assert_eq!(late.status.code(), Some(1));
    assert!(err(&late).contains("answered before: \"once\" by \"agentctl\""), "{}", err(&late));
}

/// One key set at every place there is, as people see it.
#[tokio::test]
async fn config_show_says_which_place_counts() {
    let home = Home::new();
    home.configure("max_turns = 40\n");
    let project = home.cwd().join(".agentd");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("config.toml"), "# ours\nmax_turns = 35\n").unwrap();
    let (user, project) =
        (home.config().join("agentd/config.toml"), project.join("config.toml").canonicalize().unwrap());
    let daemon = Daemon::start(home);
    let home = daemon.home();
    let show = |args: &[&str]| {
        let mut command = command(home, args);
        command.env("AGENTD_MAX_TURNS", "30");
        let run = tokio::task::spawn_blocking(move || command.output().expect("start agentctl"));
        async move { bounded("the end of agentctl", run).await.expect("no panic") }
    };
    let five = ["config", "show", "max_turns", "--origin", "--set", "max_turns=20"];
    let untrusted = show(&five).await;
    let places = |project: &str| {
        format!(
            "max_turns = 20  given to the session\n                over 30 (environment AGENTD_MAX_TURNS)\n{project}\
             \x20               over 40 (user {}:1)\n                over 50 (default)\n",
            user.display()
        )
    };
    assert_eq!(out(&untrusted), places(""), "{}", err(&untrusted));
    assert!(err(&untrusted).contains("is not trusted"), "{}", err(&untrusted));
    home.trust(&home.cwd());
    let project = format!("                over 35 (project {}:2)\n", project.display());
    let trusted = show(&five).await;
    assert_eq!((out(&trusted), err(&trusted)), (&*places(&project), ""));
    assert_eq!(out(&show(&["config", "show", "max_turns"]).await), "max_turns = 30\n");
    assert_eq!(out(&show(&["config", "get", "max_turns"]).await), "30\n");
    assert_eq!(out(&show(&["config", "path"]).await), format!("{}\n", user.display()));
    let unset = show(&["config", "get", "model"]).await;
    assert_eq!((unset.status.code(), out(&unset)), (Some(1), ""));
    let unknown = show(&["config", "get", "max_turn"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains("did you mean max_turns?"), "{}", err(&unknown));
}

/// A key is piped in, or typed; on a command line it is refused.
#[tokio::test]
async fn auth_keeps_keys_and_says_where_they_come_from() {
    let daemon = Daemon::start(Home::new());
    let home = daemon.home();
    let refused = ctl(home, &["auth", "login", "openai", "sk-CANARY"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("shell's history") && !err(&refused).contains("CANARY"), "{}", err(&refused));
    let refused = ctl(home, &["rpc", "set_key", r#"{"provider":"openai","key":"sk-CANARY"}"#]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(!err(&refused).contains("CANARY"), "{}", err(&refused));
    std::fs::write(home.cwd().join("key"), "sk-CANARY\n").unwrap();
    let mut login = command(home, &["auth", "login", "openai"]);
    login.stdin(std::fs::File::open(home.cwd().join("key")).unwrap());
    let run = tokio::task::spawn_blocking(move || login.output().expect("start agentctl"));
    let login = bounded("the end of login", run).await.unwrap();
    let file = home.config().join("agentd/auth.json");
    assert_eq!(err(&login), format!("the key of openai is kept in {}\n", file.display()));
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"sk-CANARY\""));
    let status = ctl(home, &["auth", "status"]).await;
    assert_eq!(out(&status), format!("openai  {}\n", file.display()));
    let logout = ctl(home, &["auth", "logout", "openai"]).await;
    assert!(err(&logout).starts_with("the key of openai is forgotten"), "{}", err(&logout));
    assert_eq!(out(&ctl(home, &["auth", "status"]).await), "");
}

#[tokio::test]
async fn config_set_changes_one_thing_and_refuses_what_makes_no_sense() {
    let daemon = Daemon::start(Home::new());
    let home = daemon.home();
    home.configure("# mine\n");
    let file = home.config().join("agentd/config.toml");
    let set = ctl(home, &["config", "set", "retry.max_retries", "7"]).await;
    assert_eq!(err(&set), format!("{0}: retry.max_retries = 7 (user {0}:3)\n", file.display()));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.ends_with("[retry]\nmax_retries = 7\n") && text.contains("# mine"), "{text}");
    for (args, why) in [
        (["retry.max_retrys", "7"], "did you mean retry.max_retries?"),
        (["retry.max_retries", "many"], "must be a whole number"),
        (["durability", ""], "must be flush, turn or entry"),
    ] {
        let refused = ctl(home, &["config", "set", args[0], args[1]]).await;
        assert_eq!(refused.status.code(), Some(1));
        assert!(err(&refused).contains(why), "{}", err(&refused));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let unset = ctl(home, &["config", "unset", "retry.max_retries"]).await;
    assert!(err(&unset).contains("retry.max_retries = 3 (default)"), "{}", err(&unset));
    assert_eq!(out(&ctl(home, &["config", "get", "retry.max_retries"]).await), "3\n");
}

#[tokio::test]
async fn rules_are_added_tried_listed_and_removed() {
    let daemon = Daemon::start(Home::new());
    let said = async |args: &[&str]| {
        let output = ctl(daemon.home(), &[&["rules"], args].concat()).await;
        (output.status.code(), out(&output).to_owned() + err(&output))
    };
    assert_eq!(said(&[]).await.1, "there are no rules\n");
    for args in [
        &["add", "allow", "git", "status"][..],
        &["add", "deny", "rm", "-rf"],
        &["add", "--tool", "write", "ask", "src"],
    ] {
        assert_eq!(said(args).await.0, Some(0), "{args:?}");
    }
    let listed = "user     allow git status\nuser     deny rm -rf\nuser     ask --tool write src\n";
    assert_eq!(said(&["list"]).await, (Some(0), listed.to_owned()));
    assert_eq!(said(&["test", "git status -s"]).await.1, "allow\n  by: allow git status\n");
    let denied = "deny: a rule denies it: deny bash `rm -rf`\n  by: deny rm -rf\n";
    assert_eq!(said(&["test", "git status && rm -r -f x"]).await.1, denied);
    assert_eq!(said(&["remove", "deny", "rm", "-rf"]).await.0, Some(0));
    assert_eq!(said(&["remove", "deny", "rm", "-rf"]).await.0, Some(1), "it is not there");
    let (code, text) = said(&["add", "allow", "sudo"]).await;
    assert!(code == Some(1) && text.contains("would allow everything"), "{text}");
}
