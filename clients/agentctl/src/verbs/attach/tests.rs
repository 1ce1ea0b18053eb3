use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::console::test::console;
use crate::fake::{FakeDaemon, SESSION, link, state};

fn attached(status: &str) -> AttachedState {
    let message =
        |text: &str| json!({"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop"});
    let mut state = state(status);
    state["leafId"] = "a".into();
    state["sessionName"] = "fix\u{1b} it".into();
    state["interrupted"] = true.into();
    let answer = json!({"sessionId": SESSION, "epoch": "e", "seq": 0, "replay": "snapshot", "state": state,
    "snapshot": {"tools": [], "queue": {}, "questions": [], "entries": [
        {"type": "message", "id": "u", "message": {"role": "user", "content": "question"}},
        {"type": "message", "id": "a", "message": message("answer")},
    ]}});
    AttachedState(serde_json::from_value(answer).expect("an answer"))
}

struct AttachedState(agentd_protocol::methods::AttachResult);

/// Plays a terminal; returns what was printed.
async fn play<F: Future<Output = FakeDaemon>>(
    status: &str,
    read_only: bool,
    script: impl FnOnce(FakeDaemon, mpsc::Sender<Input>) -> F,
) -> String {
    let (mut link, daemon, _interrupt) = link();
    let (mut console, out, err) = console(false);
    let (keys, inputs) = mpsc::channel(8);
    let mut keyboard = Keyboard::of_test(inputs);
    let view = SessionView::new(attached(status).0, View::Coalesced);
    let display = Display::new(&mut console, None);
    let mut terminal = Attached::new(view, display, read_only, keyboard.echoes());
    terminal.begin(&["zed".into()], "KEYS", 10).expect("writes");
    let work = async {
        let outcome = terminal.serve(&mut link, &mut keyboard).await;
        terminal.display.finish().expect("writes");
        outcome
    };
    let (exit, _daemon) = tokio::join!(work, script(daemon, keys));
    assert_eq!(exit.expect("no failure"), Exit::Done);
    assert_eq!(err.text(), "");
    out.text()
}

const HEADER: &str = "\
session  567890ab  fix␛ it
model    p/m, thinking off
state    idle, branch to a, also here: zed
cwd      /srv/code; tools run unconfined
         the last run was cut short by the end of the daemon; /continue goes on with it
keys     KEYS
> question

answer
";

#[tokio::test]
async fn what_is_typed_is_sent_and_what_happens_is_shown() {
    let shown = play("idle", false, |mut daemon, keys| async move {
        keys.send(Input::Line("  do it ".into())).await.expect("typed");
        let params = daemon.answer("prompt", json!({"disposition": "started", "entryId": "v", "seq": 0})).await;
        assert_eq!(params, json!({"sessionId": SESSION, "message": "do it", "ifBusy": "steer"}));
        keys.send(Input::End).await.expect("typed");
        let user = json!({"role": "user", "content": "do it"});
        daemon.event(json!({"type": "message_end", "entryId": "v", "message": user})).await;
        daemon.event(json!({"type": "client_attached", "name": "zed", "clients": 3})).await;
        daemon.speak("b", "done so").await;
        daemon.settle("done").await;
        daemon.expect("detach").await;
        daemon
    })
    .await;
    assert_eq!(shown, format!("{HEADER}> do it\nzed joined, 3 attached\n\ndone so\n"));
}

#[tokio::test]
async fn keys_and_commands() {
    let shown = play("running", false, |mut daemon, keys| async move {
        keys.send(Input::Abort).await.expect("typed");
        daemon.expect("abort").await;
        keys.send(Input::Line("/abort".into())).await.expect("typed");
        daemon.expect("abort").await;
        keys.send(Input::Line("/continue".into())).await.expect("typed");
        daemon.refuse("continue", -32004, "wrong_state", "a run is\ngoing on").await;
        keys.send(Input::Line("/help".into())).await.expect("typed");
        keys.send(Input::Line("".into())).await.expect("typed");
        keys.send(Input::Detach).await.expect("typed");
        daemon.expect("detach").await;
        daemon
    })
    .await;
    let header = HEADER.replace("state    idle", "state    running");
    assert_eq!(shown, format!("{header}a run is going on\n{COMMANDS}\ndetached; the run goes on\n"));
}

#[tokio::test]
async fn read_only_sends_nothing() {
    let shown = play("idle", true, |mut daemon, keys| async move {
        for input in [Input::Line("x".into()), Input::Abort, Input::Detach] {
            keys.send(input).await.expect("typed");
        }
        daemon.expect("detach").await;
        daemon
    })
    .await;
    assert_eq!(shown, HEADER);
}

#[test]
fn other_clients_are_named() {
    let client = |name: &str, pid: Value, session: &str| {
        json!({"name": name, "pid": pid, "bytesOut": 0,
        "attached": [{"sessionId": session, "view": "full"}]})
    };
    let status = serde_json::from_value(json!({
        "serverInfo": {"name": "agentd", "version": "1"}, "pid": 1, "uptimeMs": 1, "socket": "", "sessionsDir": "",
        "loadedSessions": 1, "runningSessions": 0, "ringBytes": 0, "abandonedTools": 0, "index": "", "confinement": "none",
        "clients": [client("agentctl", std::process::id().into(), SESSION), client("zed\u{1b}", 5.into(), SESSION),
            client("", 6.into(), SESSION), client("", Value::Null, SESSION), client("other", 7.into(), "t")],
    }))
    .expect("a status");
    assert_eq!(header::others(&status, &SESSION.into()), ["zed␛", "pid 6", "a client"]);
}

/// Lets the terminal deal with everything that has come.
async fn catch_up() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn questions_are_answered_in_place() {
    let shown = play("running", false, |mut daemon, keys| async move {
        keys.send(Input::Line("/yes".into())).await.expect("typed");
        catch_up().await;
        for id in ["s.e1", "s.e2"] {
            daemon
                .event(json!({"type": "approval_requested", "approvalId": id, "kind": "maxTurns", "text": "Go on?",
                    "options": ["once", "session", "deny"], "askedAt": 1}))
                .await;
        }
        daemon.event(json!({"type": "approval_resolved", "approvalId": "s.e1", "decision": "once", "by": "zed"})).await;
        daemon.event(json!({"type": "notice", "kind": "k", "message": "seen"})).await;
        catch_up().await;
        keys.send(Input::Line("/now  turn left".into())).await.expect("typed");
        let params = daemon.answer("steer", json!({"disposition": "queued", "seq": 0})).await;
        assert_eq!(params, json!({"sessionId": SESSION, "message": "turn left", "when": "now"}));
        keys.send(Input::Line("/no not today".into())).await.expect("typed");
        let params = daemon.answer("respond_approval", json!({})).await;
        assert_eq!(params, json!({"approvalId": "s.e2", "decision": "deny", "message": "not today"}));
        keys.send(Input::Line("/session".into())).await.expect("typed");
        daemon.refuse("respond_approval", -32011, "already_resolved", "answered\nbefore").await;
        keys.send(Input::Detach).await.expect("typed");
        daemon.expect("detach").await;
        daemon
    })
    .await;
    let lines = shown.strip_prefix(&HEADER.replace("state    idle", "state    running")).expect("the header");
    let expected = format!(
        "no question waits for an answer\n? Go on? (question e1)\n{ANSWERS}\n? Go on? (question e2)\n{ANSWERS}\n\
         answered once by zed\nseen\nanswered before\ndetached; the run goes on\n"
    );
    assert_eq!(lines, expected);
}
