//! Verbs against a daemon that the test plays.

use agentd_protocol::client::ClientError;
use agentd_protocol::error_code::ErrorKind;
use agentd_protocol::methods::View;
use agentd_protocol::session_view::SessionView;
use clap::Parser;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::answering::Answering;
use crate::cli::{Cli, Verb};
use crate::console::test::{Written, console};
use crate::exit::Exit;
use crate::fake::{FakeDaemon, SESSION, link, state};
use crate::follow::{Followed, Show, follow_answering};
use crate::input::Message;
use crate::verbs;

/// What a verb came to.
struct Outcome {
    exit: anyhow::Result<Exit>,
    out: String,
    err: String,
}

impl Outcome {
    #[track_caller]
    fn check(self, exit: Exit, out: &str, err: &str) {
        assert_eq!((self.out.as_str(), self.err.as_str()), (out, err));
        assert_eq!(self.exit.expect("no failure"), exit);
    }
}

fn message(text: &str) -> Message {
    Message { text: text.to_owned(), images: Vec::new() }
}

/// Runs a command line against a daemon that `script` plays.
async fn play<F: Future<Output = FakeDaemon>>(line: &[&str], script: impl FnOnce(FakeDaemon) -> F) -> Outcome {
    play_with_interrupts(line, |daemon, _| script(daemon)).await
}

async fn play_with_interrupts<F: Future<Output = FakeDaemon>>(
    line: &[&str],
    script: impl FnOnce(FakeDaemon, tokio::sync::mpsc::Sender<()>) -> F,
) -> Outcome {
    let cli = Cli::try_parse_from([&["agentctl"], line].concat()).expect("a command line");
    let (mut link, daemon, interrupt) = link();
    let (mut console, out, err) = console(cli.json);
    let work = async {
        match cli.verb {
            Verb::Run(args) => verbs::run::run(&mut link, &mut console, &args, message("hi")).await,
            Verb::Send(args) => verbs::send::run(&mut link, &mut console, &args, message("hi")).await,
            Verb::Ls(args) => verbs::ls::run(&mut link, &mut console, &args).await,
            Verb::Tail(args) => verbs::tail::run(&mut link, &mut console, &args).await,
            Verb::Abort(args) => verbs::abort::run(&mut link, &mut console, &args.sessions).await,
            Verb::Wait(args) => verbs::wait::run(&mut link, &mut console, &args.sessions).await,
            Verb::Models(args) => verbs::models::run(&mut link, &mut console, &args).await,
            Verb::Rpc(args) => {
                let params = verbs::rpc::params(&args).expect("parameters");
                verbs::rpc::run(&mut link, &mut console, &args, params).await
            }
            other => panic!("{other:?} is tested elsewhere"),
        }
    };
    let (exit, _daemon) = tokio::join!(work, script(daemon, interrupt));
    let text = |written: &Written| written.text();
    Outcome { exit, out: text(&out), err: text(&err) }
}

fn new_session() -> Value {
    json!({"sessionId": SESSION, "epoch": "e", "seq": 0, "state": state("idle")})
}

fn started() -> Value {
    json!({"disposition": "started", "entryId": "u", "seq": 0})
}

fn rows(ids: &[&str], next: Option<&str>) -> Value {
    let rows: Vec<_> = ids
        .iter()
        .map(|id| {
            json!({"sessionId": id, "cwd": "/srv/code", "created": 0, "modified": 0, "messageCount": 1, "cost": 0.0, "status": "idle"})
        })
        .collect();
    let mut page = json!({"sessions": rows, "total": 9, "listSeq": 1});
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    page
}

#[tokio::test]
async fn run_prints_the_answer_and_what_leads_to_it() {
    let line = ["run", "--model", "p/m", "--name", "n", "--tools", "read,ls", "--max-turns", "3", "--thinking", "low"];
    let outcome = play(&line, |mut daemon| async {
        let params = daemon.answer("new_session", new_session()).await;
        let expected = json!({"cwd": "/srv/code", "model": "p/m", "name": "n", "tools": ["read", "ls"], "maxTurns": 3,
            "attach": true, "view": "coalesced"});
        assert_eq!(params, expected);
        let params = daemon.answer("set_thinking_level", json!({"seq": 0})).await;
        assert_eq!(params, json!({"sessionId": SESSION, "level": "low"}));
        let params = daemon.answer("prompt", started()).await;
        assert_eq!(params, json!({"sessionId": SESSION, "message": "hi"}));
        daemon.event(json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "ls", "args": {}})).await;
        daemon.speak("a", "Hello \u{1b}[1m\nthere").await;
        daemon.settle("done").await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "Hello ␛[1m\nthere\n", "session 567890ab, p/m\n[ls]\n");
}

#[tokio::test]
async fn run_quiet_prints_the_last_answer_only() {
    let outcome = play(&["run", "-q"], |mut daemon| async {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        let user = json!({"role": "user", "content": "hi"});
        daemon.event(json!({"type": "message_end", "entryId": "u", "message": user})).await;
        daemon.speak("a", "I look first").await;
        daemon.speak("b", "It is so\n").await;
        daemon.settle("done").await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "It is so\n", "");
}

#[tokio::test]
async fn run_json_prints_events_as_they_came() {
    let outcome = play(&["run", "--json"], |mut daemon| async {
        let params = daemon.answer("new_session", new_session()).await;
        assert_eq!(params["view"], "full");
        daemon.answer("prompt", started()).await;
        daemon.event(json!({"type": "of_the_future", "x": 1.5})).await;
        daemon.settle("maxTurns").await;
        daemon
    })
    .await;
    let id = SESSION;
    let out = format!(
        "{{\"sessionId\":\"{id}\",\"seq\":1,\"event\":{{\"type\":\"of_the_future\",\"x\":1.5}}}}\n\
         {{\"sessionId\":\"{id}\",\"seq\":2,\"event\":{{\"type\":\"agent_settled\",\"aborted\":false,\"reason\":\"maxTurns\"}}}}\n"
    );
    outcome.check(Exit::Budget, &out, "");
}

#[tokio::test]
async fn run_tells_how_it_failed() {
    let outcome = play(&["run"], |mut daemon| async {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        let settled =
            json!({"type": "agent_settled", "aborted": false, "reason": "error", "errorMessage": "401: no key"});
        daemon.event(settled).await;
        daemon
    })
    .await;
    outcome.check(Exit::Provider, "", "session 567890ab, p/m\n401: no key\n");

    let outcome = play(&["run"], |mut daemon| async {
        daemon.refuse("new_session", -32009, "no_model", "set OPENAI_API_KEY").await;
        daemon
    })
    .await;
    let error = outcome.exit.expect_err("a failure");
    assert_eq!(error.downcast_ref::<ClientError>().and_then(ClientError::kind), Some(ErrorKind::NoModel));
    assert_eq!((error.to_string().as_str(), Exit::of_error(&error)), ("set OPENAI_API_KEY", Some(Exit::Provider)));
}

#[tokio::test]
async fn run_detached_prints_the_id() {
    for (line, out) in [
        (&["run", "-d"][..], format!("{SESSION}\n")),
        (
            &["run", "-d", "--json"],
            format!("{{\"sessionId\":\"{SESSION}\",\"disposition\":\"started\",\"entryId\":\"u\"}}\n"),
        ),
    ] {
        let outcome = play(line, |mut daemon| async {
            let params = daemon.answer("new_session", new_session()).await;
            assert_eq!(params["attach"], false);
            daemon.answer("prompt", started()).await;
            daemon
        })
        .await;
        outcome.check(Exit::Done, &out, "");
    }
}

fn with_env_of(source: &str) -> Value {
    let mut state = state("idle");
    state["envSource"] = source.into();
    state["seq"] = 0.into();
    state
}

#[tokio::test]
async fn run_can_go_on_in_the_last_session_of_the_directory() {
    let outcome = play(&["run", "-c", "-q", "--model", "p/n", "--name", "x"], |mut daemon| async {
        let params = daemon.answer("list_sessions", rows(&[SESSION], None)).await;
        assert_eq!(params, json!({"cwd": "/srv/code", "limit": 1}));
        assert_eq!(daemon.answer("get_state", with_env_of("client")).await, json!({"sessionId": SESSION}));
        let attached =
            json!({"sessionId": SESSION, "epoch": "e", "seq": 0, "replay": "snapshot", "state": state("idle"),
            "snapshot": {"entries": [], "tools": [], "queue": {}, "questions": []}});
        let params = daemon.answer("attach", attached).await;
        assert_eq!(params, json!({"sessionId": SESSION, "view": "coalesced", "history": false}));
        assert_eq!(daemon.answer("set_model", state("idle")["model"].clone()).await["model"], "p/n");
        assert_eq!(daemon.answer("set_session_name", json!({})).await["name"], "x");
        daemon.answer("prompt", started()).await;
        daemon.speak("a", "again").await;
        daemon.settle("done").await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "again\n", "");

    let outcome = play(&["run", "-c"], |mut daemon| async {
        daemon.answer("list_sessions", rows(&[], None)).await;
        daemon
    })
    .await;
    let error = outcome.exit.expect_err("a failure").to_string();
    assert_eq!(error, "no session of /srv/code yet; `agentctl run TEXT` makes one");
}

#[tokio::test]
async fn the_first_interruption_aborts_and_the_second_leaves() {
    let outcome = play_with_interrupts(&["run"], |mut daemon, interrupt| async move {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        daemon.speak("a", "half").await;
        interrupt.send(()).await.expect("heard");
        let params = daemon.answer("abort", json!({})).await;
        assert_eq!(params, json!({"sessionId": SESSION}));
        daemon.settle("aborted").await;
        daemon
    })
    .await;
    let err = "session 567890ab, p/m\naborting; Ctrl-C again leaves at once\naborted\n";
    outcome.check(Exit::Aborted, "half\n", err);

    let outcome = play_with_interrupts(&["run"], |mut daemon, interrupt| async move {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        interrupt.send(()).await.expect("heard");
        daemon.expect("abort").await;
        interrupt.send(()).await.expect("heard");
        daemon
    })
    .await;
    let err = "session 567890ab, p/m\naborting; Ctrl-C again leaves at once\n\
               left; see what becomes of it with: agentctl attach 567890ab\n";
    outcome.check(Exit::Aborted, "", err);
}

#[tokio::test]
async fn a_run_whose_daemon_goes_away_fails() {
    let outcome = play(&["run", "-q"], |mut daemon| async {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        drop(daemon);
        link().1
    })
    .await;
    let error = outcome.exit.expect_err("a failure");
    assert_eq!(Exit::of_error(&error), Some(Exit::NoDaemon));
}

#[tokio::test]
async fn an_answer_is_whole_although_its_reader_fell_behind() {
    let outcome = play(&["run"], |mut daemon| async {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        daemon.speak("a", "one").await;
        let message = |text: &str| json!({"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop"});
        let entries = json!([
            {"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}},
            {"type": "message", "id": "a", "message": message("one")},
            {"type": "message", "id": "b", "message": message("two")},
        ]);
        let lagged = json!({"type": "lagged", "sessionId": SESSION, "epoch": "e", "seq": 40, "replay": "snapshot",
            "state": state("idle"), "snapshot": {"entries": entries, "tools": [], "queue": {}, "questions": []}});
        let params = json!({"sessionId": SESSION, "seq": 40, "event": lagged});
        daemon.say(json!({"jsonrpc": "2.0", "method": "event", "params": params})).await;
        daemon.answer("wait", json!({"reason": "length"})).await;
        daemon
    })
    .await;
    let err = "session 567890ab, p/m\nthe answer is cut short: the model's output limit was reached\n";
    outcome.check(Exit::Budget, "one\n\ntwo\n", err);
}

#[tokio::test]
async fn send_steers_by_default_and_can_wait() {
    let outcome = play(&["send", "567890ab"], |mut daemon| async {
        daemon.answer("get_state", with_env_of("client")).await;
        let params = daemon.answer("prompt", json!({"disposition": "queued", "seq": 3})).await;
        assert_eq!(params, json!({"sessionId": "567890ab", "message": "hi", "ifBusy": "steer"}));
        daemon
    })
    .await;
    outcome.check(Exit::Done, "", "queued: it is sent when the present turn or run is over\n");

    let outcome = play(&["send", "@last", "--if-busy", "follow-up", "--wait"], |mut daemon| async {
        assert_eq!(daemon.answer("list_sessions", rows(&[SESSION], None)).await, json!({"limit": 1}));
        daemon.answer("get_state", with_env_of("loginShell")).await;
        let params = daemon.answer("set_env", json!({"seq": 0})).await;
        assert_eq!(params["env"]["PATH"], std::env::var("PATH").expect("a path"), "a restarted daemon has lost it");
        let attached =
            json!({"sessionId": SESSION, "epoch": "e", "seq": 0, "replay": "exact", "state": state("running")});
        daemon.answer("attach", attached).await;
        let params = daemon.answer("prompt", json!({"disposition": "queued", "seq": 0})).await;
        assert_eq!(params["ifBusy"], "followUp");
        daemon.speak("a", "yes").await;
        daemon.settle("done").await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "yes\n", "");

    let outcome = play(&["send", "--if-busy", "reject", "x"], |mut daemon| async {
        daemon.answer("get_state", with_env_of("client")).await;
        daemon.refuse("prompt", -32003, "busy", "a run is going on").await;
        daemon
    })
    .await;
    assert_eq!(outcome.exit.expect_err("a failure").to_string(), "a run is going on");

    let outcome = play(&["send", "@later"], |daemon| async { daemon }).await;
    assert_eq!(Exit::of_error(&outcome.exit.expect_err("a failure")), Some(Exit::Usage));
}

#[tokio::test]
async fn ls_reads_as_many_pages_as_are_wanted() {
    let outcome = play(&["ls", "--all"], |mut daemon| async {
        let params = daemon.answer("list_sessions", rows(&["s1", "s2"], Some("c"))).await;
        assert_eq!(params, json!({"limit": 500}));
        let params = daemon.answer("list_sessions", rows(&["s3"], None)).await;
        assert_eq!(params, json!({"limit": 500, "cursor": "c"}));
        daemon
    })
    .await;
    let ids: Vec<_> = outcome.out.lines().map(|line| line.split(' ').next().unwrap_or("")).collect();
    assert_eq!((ids, outcome.err.as_str()), (vec!["s1", "s2", "s3"], ""));

    let outcome = play(&["ls", "-n", "1", "--text", "x"], |mut daemon| async {
        let params = daemon.answer("list_sessions", rows(&["s1"], Some("c"))).await;
        assert_eq!(params, json!({"limit": 1, "text": "x"}));
        daemon
    })
    .await;
    assert_eq!(outcome.err, "8 more with --all\n");

    let outcome = play(&["ls", "--json"], |mut daemon| async {
        daemon.answer("list_sessions", rows(&[], None)).await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "{\"sessions\":[],\"total\":9,\"listSeq\":1}\n", "");
}

#[tokio::test]
async fn ls_watch_goes_on_with_what_changes() {
    let change = |seq: u64, event: Value| json!({"jsonrpc": "2.0", "method": "session_list_event", "params": {"listSeq": seq, "event": event}});
    let row = |id: &str, modified: i64, name: &str| {
        let mut row = rows(&[id], None)["sessions"][0].take();
        (row["modified"], row["name"]) = (modified.into(), name.into());
        row
    };
    let script = |mut daemon: FakeDaemon, interrupt: tokio::sync::mpsc::Sender<()>| async move {
        let params = daemon.answer("list_sessions", rows(&["s1"], None)).await;
        assert_eq!(params, json!({"limit": 20, "text": "NAME"}));
        let (id, params) = daemon.expect("watch_sessions").await;
        assert_eq!(params, json!({"since": 1}));
        // The number of the list is gone already: it is read again.
        daemon.say(json!({"jsonrpc": "2.0", "id": id, "result": {"listSeq": 7, "replay": "list"}})).await;
        daemon.answer("list_sessions", rows(&["s1"], None)).await;
        daemon.answer("watch_sessions", json!({"listSeq": 1, "replay": "exact"})).await;
        daemon.say(change(1, json!({"type": "session_gone", "sessionId": "s1"}))).await;
        daemon.say(change(2, json!({"type": "session_created", "session": row("s2", 5, "other")}))).await;
        daemon.say(change(3, json!({"type": "session_created", "session": row("s3", 5, "a name")}))).await;
        daemon.say(change(4, json!({"type": "session_status", "sessionId": "s3", "status": "running"}))).await;
        daemon.say(change(5, json!({"type": "later"}))).await;
        daemon.say(change(6, json!({"type": "lagged"}))).await;
        daemon.answer("list_sessions", rows(&["s4"], None)).await;
        daemon.answer("watch_sessions", json!({"listSeq": 6, "replay": "exact"})).await;
        interrupt.send(()).await.expect("it waits");
        daemon
    };
    let outcome = play_with_interrupts(&["ls", "--watch", "--json", "--text", "NAME"], script).await;
    let seen: Vec<_> = outcome.out.lines().map(|line| line.split(':').next().unwrap_or("")).collect();
    assert_eq!(
        seen,
        [
            "{\"sessions\"",
            "{\"listSeq\"",
            "{\"listSeq\"",
            "{\"listSeq\"",
            "{\"listSeq\"",
            "{\"listSeq\"",
            "{\"sessions\""
        ]
    );
    assert_eq!(outcome.exit.expect("it ends in order"), Exit::Done);
}

fn exact_from_4() -> Value {
    json!({"sessionId": SESSION, "epoch": "e", "seq": 4, "replay": "exact", "state": state("idle")})
}

#[tokio::test]
async fn tail_prints_notifications_as_they_came() {
    let outcome = play(&["tail", "--json", "s", "--since", "e:4"], |mut daemon| async {
        let params = daemon.answer("attach", exact_from_4()).await;
        let since = json!({"epoch": "e", "seq": 4, "view": "full"});
        assert_eq!(params, json!({"sessionId": "s", "since": since, "view": "full", "history": false}));
        let params = json!({"sessionId": SESSION, "seq": 5, "event": {"type": "x", "n": 1.5}});
        daemon.say(json!({"jsonrpc": "2.0", "method": "event", "params": params})).await;
        drop(daemon);
        link().1
    })
    .await;
    assert_eq!(Exit::of_error(&outcome.exit.expect_err("the daemon has gone")), Some(Exit::NoDaemon));
    assert_eq!(
        outcome.out,
        format!("{{\"sessionId\":\"{SESSION}\",\"seq\":5,\"event\":{{\"type\":\"x\",\"n\":1.5}}}}\n")
    );
    assert_eq!(outcome.err, "from e:4\n");
}

#[tokio::test]
async fn tail_ends_with_the_position_where_it_stopped() {
    let outcome = play_with_interrupts(&["tail", "s"], |mut daemon, interrupt| async move {
        daemon.answer("attach", exact_from_4()).await;
        interrupt.send(()).await.expect("heard");
        daemon
    })
    .await;
    outcome.check(Exit::Done, "", "from e:4\nuntil e:4\n");
}

#[tokio::test]
async fn wait_tells_the_first_bad_end() {
    let outcome = play(&["wait", "s1", "s2", "s3"], |mut daemon| async {
        daemon.answer("wait", json!({"reason": "done", "seq": 1})).await;
        daemon.answer("wait", json!({"reason": "error", "errorMessage": "529\nbusy", "seq": 1})).await;
        daemon.answer("wait", json!({"reason": "aborted", "seq": 1})).await;
        daemon
    })
    .await;
    outcome.check(Exit::Provider, "s1  done\ns2  error: 529 busy\ns3  aborted\n", "");

    let outcome = play(&["wait", "--json", "s1"], |mut daemon| async {
        daemon.answer("wait", json!({"seq": 1})).await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "{\"sessionId\":\"s1\"}\n", "");
}

#[tokio::test]
async fn abort_tells_all_sessions_first() {
    let outcome = play(&["abort", "s1", "s2"], |mut daemon| async {
        let (first, _) = daemon.expect("abort").await;
        daemon.answer("abort", json!({})).await;
        daemon.say(json!({"jsonrpc": "2.0", "id": first, "result": {}})).await;
        daemon
    })
    .await;
    outcome.check(Exit::Done, "", "");
}

#[tokio::test]
async fn rpc_prints_the_result_as_it_came() {
    let outcome = play(&["rpc", "odd", r#"{"a": 1.0}"#, "-s", "s1"], |mut daemon| async {
        let params = daemon.answer("odd", json!({"b": [1.50, "é"]})).await;
        assert_eq!(params, json!({"a": 1.0, "sessionId": "s1"}));
        daemon
    })
    .await;
    outcome.check(Exit::Done, "{\"b\":[1.5,\"é\"]}\n", "");

    let outcome = play(&["rpc", "nope"], |mut daemon| async {
        daemon.refuse("nope", -32601, "method_not_found", "no method nope").await;
        daemon
    })
    .await;
    assert_eq!(Exit::of_error(&outcome.exit.expect_err("a failure")), Some(Exit::Error));
}

fn asks(options: &[&str]) -> Value {
    json!({"type": "approval_requested", "approvalId": "s.0b", "kind": "maxTurns", "text": "Go on?", "options": options,
        "askedAt": 1})
}

fn resolved(decision: &str) -> Value {
    json!({"type": "approval_resolved", "approvalId": "s.0b", "decision": decision, "by": "zed", "message": "why\nnot"})
}

/// Lets the verb deal with everything that has come.
async fn catch_up() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Without a terminal nobody is asked, but others may answer.
#[tokio::test]
async fn run_in_a_script_tells_of_a_question_and_waits_for_others() {
    let outcome = play(&["run"], |mut daemon| async {
        daemon.answer("new_session", new_session()).await;
        daemon.answer("prompt", started()).await;
        daemon.event(json!({"type": "agent_start"})).await;
        daemon.event(asks(&["once", "deny"])).await;
        catch_up().await;
        daemon.event(resolved("deny")).await;
        daemon.settle("maxTurns").await;
        daemon
    })
    .await;
    let err = "session 567890ab, p/m\n? Go on? (question 0b)\n  waiting for: agentctl approve 0b, or agentctl deny 0b\nanswered deny by zed: why not\n\
               stopped: the most turns of one run were taken\n";
    outcome.check(Exit::Budget, "", err);
}

#[tokio::test]
async fn what_the_user_types_answers_the_question() {
    let (mut link, mut daemon, _interrupt) = link();
    let (mut console, _out, err) = console(false);
    let (typed, lines) = tokio::sync::mpsc::channel(4);
    let answer = json!({"sessionId": SESSION, "epoch": "e", "seq": 0, "replay": "exact", "state": state("running")});
    let answer = serde_json::from_value(answer).expect("an answer");
    let view = SessionView::new(answer, View::Coalesced);
    let followed = Followed { view, after: 0, asked: None };
    let work = follow_answering(&mut link, &mut console, Show::Live, followed, Answering::Asked(lines));
    let script = async {
        daemon.event(asks(&["once", "deny"])).await;
        catch_up().await;
        for line in ["perhaps", "session", "y", "y"] {
            typed.send(line.to_owned()).await.expect("typed");
        }
        daemon.refuse("respond_approval", -32010, "forbidden", "not from you").await;
        let params = daemon.answer("respond_approval", json!({})).await;
        assert_eq!(params, json!({"approvalId": "s.0b", "decision": "once"}));
        daemon.event(resolved("once")).await;
        daemon.settle("done").await;
    };
    let (exit, ()) = tokio::join!(work, script);
    assert_eq!(exit.expect("no failure"), Exit::Done);
    let hint = "  type yes, no\n";
    let expected = format!("? Go on? (question 0b)\n{hint}{hint}{hint}not from you\nanswered once by zed: why not\n");
    assert_eq!(err.text(), expected);
}
