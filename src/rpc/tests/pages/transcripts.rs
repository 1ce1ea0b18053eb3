//! Conversations that the pages show, held with made-up sessions: the wire is real, what happens is arranged.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, ContentBlock, Message, StopReason, UserMessage};
use agentd_protocol::methods::SessionStatus;
use agentd_protocol::methods::{Decision, Question, QuestionKind};
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::fake::{self, Fake};
use crate::agent::event::{AssistantUpdate, DeltaKind, Event, MessageEntry};
use crate::ring::{Doing, RowChange};

const SESSION: &str = "0199f3a2-7c1e-7d40-9b5a-2f6c1e8d4a10";

/// Writes down what is said.
struct Recorder {
    client: Client,
    text: String,
    framed: bool,
}

impl Recorder {
    fn new(fake: &Arc<Fake>) -> Self {
        Self::with_pipe(fake, 64 * 1024)
    }

    fn with_pipe(fake: &Arc<Fake>, pipe: usize) -> Self {
        let client = Client::connect_with(&fake.server(), &fake.tasks, pipe);
        Self { client, text: String::new(), framed: false }
    }

    /// Says a line.
    async fn say(&mut self, line: &str) {
        self.text += &format!("→ {line}\n");
        self.client.write(format!("{line}\n")).await;
    }

    /// Says a request.
    async fn ask(&mut self, id: u64, method: &str, params: Value) {
        let params = if params == json!({}) { String::new() } else { format!(",\"params\":{params}") };
        self.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"{params}}}")).await;
    }

    /// Hears so many messages.
    async fn hear(&mut self, count: usize) {
        for _ in 0..count {
            let text = self.client.next_text().await.unwrap();
            let text = without_time(&text);
            let header = if self.framed { format!("Content-Length: {}⏎ ⏎ ", text.len()) } else { String::new() };
            self.text += &format!("← {header}{text}\n");
        }
    }

    fn note(&mut self, text: &str) {
        self.text += &format!("# {text}\n");
    }

    fn finish(self) -> String {
        format!("```text\n{}```", self.text)
    }
}

/// Puts a fixed time for the clock's.
fn without_time(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{\"time\":") else { return text.to_owned() };
    let end = rest.find('}').unwrap();
    format!("{before}{{\"time\":1796000000000{}", &rest[end..])
}

async fn handshake() -> String {
    let mut recorder = Recorder::new(&Fake::new(usize::MAX));
    let client = json!({"name": "my-editor", "version": "0.3.0"});
    recorder.ask(1, "initialize", json!({"clientInfo": client, "protocolVersion": 1})).await;
    recorder.hear(1).await;
    recorder.ask(2, "ping", json!({})).await;
    recorder.hear(1).await;
    recorder.finish()
}

async fn errors() -> String {
    let fake = Fake::new(usize::MAX);
    let mut recorder = Recorder::new(&fake);
    recorder.say("{not json").await;
    recorder.hear(1).await;
    recorder.ask(1, "get_sate", json!({})).await;
    recorder.hear(1).await;
    recorder.ask(2, "get_state", json!({})).await;
    recorder.hear(1).await;
    recorder.ask(3, "prompt", json!({"sessionId": SESSION, "message": 5})).await;
    recorder.hear(1).await;
    recorder.ask(4, "get_state", json!({"sessionId": SESSION})).await;
    recorder.hear(1).await;
    recorder.finish()
}

async fn batch() -> String {
    let mut recorder = Recorder::new(&Fake::new(usize::MAX));
    recorder.say(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"ping"},{"jsonrpc":"2.0","id":"w","method":"wait"}]"#).await;
    recorder.hear(1).await;
    recorder.finish()
}

async fn lsp() -> String {
    let mut recorder = Recorder::new(&Fake::new(usize::MAX));
    recorder.note("⏎ stands for CR LF");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    recorder.text += &format!("→ content-length: {}⏎ ⏎ {body}\n", body.len());
    recorder.client.write(format!("content-length: {}\r\n\r\n{body}", body.len())).await;
    recorder.framed = true;
    recorder.hear(1).await;
    recorder.finish()
}

fn entry(id: &str, message: Message) -> MessageEntry {
    MessageEntry { id: id.into(), message: Arc::new(message), client: None }
}

fn user(text: &str) -> MessageEntry {
    let content = vec![ContentBlock::text(text)];
    entry("5f0c8e21", Message::User(UserMessage { content, timestamp: 1_796_000_000_000, client_message_id: None }))
}

fn answer(text: &str) -> MessageEntry {
    let message = AssistantMessage { stop_reason: StopReason::Stop, ..fake::assistant(text) };
    entry("9d41b7f0", Message::Assistant(message))
}

fn a_run() -> Vec<Event> {
    let update = |update| Event::MessageUpdate { usage: None, update };
    let start = AssistantMessage { content: Vec::new(), ..fake::assistant("") };
    vec![
        Event::AgentStart,
        Event::TurnStart,
        Event::MessageStart(user("Say hello")),
        Event::MessageEnd(user("Say hello")),
        Event::MessageStart(entry("9d41b7f0", Message::Assistant(start))),
        fake::block_start(),
        fake::delta("Hel"),
        fake::delta("lo."),
        update(AssistantUpdate::End { index: 0, kind: DeltaKind::Text }),
        Event::MessageEnd(answer("Hello.")),
        Event::TurnEnd { message: answer("Hello."), tool_results: Vec::new() },
        Event::AgentEnd { messages: vec![user("Say hello"), answer("Hello.")], will_retry: false },
        fake::settled(),
    ]
}

async fn run() -> String {
    let fake = Fake::new(usize::MAX);
    *fake.next_new.lock().unwrap() = Some(SESSION.to_owned());
    let mut recorder = Recorder::new(&fake);
    recorder.ask(1, "new_session", json!({"cwd": "/work", "model": "demo/demo"})).await;
    recorder.hear(1).await;
    let events = a_run();
    let count = events.len();
    fake.session(SESSION).script(events);
    recorder.ask(2, "prompt", json!({"message": "Say hello"})).await;
    recorder.hear(1 + count).await;
    recorder.finish()
}

async fn attach() -> String {
    let fake = Fake::new(usize::MAX);
    let session = fake.load(SESSION, "k3v9");
    session.stream(["The answer ", "is "]);
    let mut recorder = Recorder::new(&fake);
    recorder.ask(1, "attach", json!({"sessionId": "2f6c1e8d4a10", "view": "coalesced"})).await;
    recorder.hear(1).await;
    session.stream(["for", "ty", "-two"]);
    session.ring().flush_merge();
    recorder.hear(1).await;
    recorder.note("the connection breaks; on a new one:");
    let text = recorder.text;
    let mut recorder = Recorder { text, ..Recorder::new(&fake) };
    session.stream(["."]);
    let since = json!({"epoch": "k3v9", "seq": 7});
    recorder.ask(1, "attach", json!({"sessionId": SESSION, "since": since})).await;
    recorder.hear(2).await;
    recorder.finish()
}

async fn lagged() -> String {
    let fake = Fake::new(8000);
    let session = fake.load(SESSION, "k3v9");
    let mut recorder = Recorder::with_pipe(&fake, 128);
    recorder.ask(1, "attach", json!({"sessionId": SESSION, "history": false})).await;
    recorder.hear(1).await;
    session.stream(["a"]);
    // The client reads nothing while far more comes than is held for it.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    session.stream(["b"; 200]);
    session.stream(["."]);
    recorder.hear(1).await;
    recorder.note("a long pause of the client; then:");
    recorder.hear(1).await;
    let long = "b".repeat(200);
    recorder.finish().replace(&long, "bbb…")
}

fn list_row(name: Option<&str>) -> RowChange {
    let row = json!({
        "sessionId": SESSION, "sessionFile": format!("/state/sessions/--work--/2026-11-30T05-33-20-000Z_{SESSION}.jsonl"),
        "cwd": "/work", "name": name, "firstMessage": "Say hello", "created": 1_796_000_000_000_i64,
        "modified": 1_796_000_000_000_i64, "messageCount": 2, "model": "demo/demo", "cost": 0.0, "status": "unloaded",
    });
    RowChange::Put { row: serde_json::from_value(row).unwrap(), is_new: name.is_none() }
}

async fn watch() -> String {
    let fake = Fake::new(usize::MAX);
    let log = &fake.list_log;
    let mut recorder = Recorder::new(&fake);
    recorder.ask(1, "list_sessions", json!({})).await;
    recorder.hear(1).await;
    let doing = |status| Doing { status, retry_at: None };
    log.set_doing(&SESSION.into(), doing(SessionStatus::Running), false);
    log.rows_changed(0, 1, vec![list_row(None)]);
    recorder.ask(2, "watch_sessions", json!({"since": 1_796_000_000_000_001_u64})).await;
    recorder.hear(2).await;
    log.set_doing(&SESSION.into(), doing(SessionStatus::Idle), true);
    log.rows_changed(1, 2, vec![list_row(Some("greeting"))]);
    recorder.hear(2).await;
    recorder.note("somebody deletes the file");
    log.rows_changed(2, 3, vec![RowChange::Gone(SESSION.into())]);
    recorder.hear(1).await;
    recorder.finish()
}

async fn approvals() -> String {
    let fake = Fake::new(usize::MAX);
    let session = fake.load_idle(SESSION, "k3v9");
    let mut recorder = Recorder::new(&fake);
    recorder.ask(1, "initialize", json!({"clientInfo": {"name": "my-editor", "version": "0.3.0"}})).await;
    drop(recorder.client.next_text().await);
    recorder.ask(2, "attach", json!({"sessionId": SESSION, "history": false})).await;
    drop(recorder.client.next_text().await);
    recorder.text.clear();
    session.ask(Question {
        deadline: None,
        tool: None,
        approval_id: format!("{SESSION}.7c21a90e").into(),
        kind: QuestionKind::MaxTurns,
        text: "The run has taken 50 turns, the most of one run. Go on for another 50?".into(),
        options: vec![Decision::Once, Decision::Session, Decision::Deny],
        asked_at: 1_796_000_000_000,
        turns: Some(50),
    });
    recorder.hear(1).await;
    recorder.ask(3, "list_approvals", json!({})).await;
    recorder.hear(1).await;
    let answer = json!({"approvalId": format!("{SESSION}.7c21a90e"), "decision": "once"});
    recorder.ask(4, "respond_approval", answer.clone()).await;
    recorder.hear(2).await;
    recorder.note("another client was slower:");
    recorder.ask(5, "respond_approval", answer).await;
    recorder.hear(1).await;
    recorder.finish()
}

async fn trust() -> String {
    let fake = Fake::new(usize::MAX);
    let mut recorder = Recorder::new(&fake);
    recorder.ask(1, "initialize", json!({"clientInfo": {"name": "my-editor", "version": "0.3.0"}})).await;
    drop(recorder.client.next_text().await);
    recorder.text.clear();
    recorder.ask(2, "trust", json!({"path": "/home/me/project"})).await;
    recorder.hear(1).await;
    recorder.ask(3, "list_trust", json!({})).await;
    recorder.hear(1).await;
    recorder.ask(4, "untrust", json!({"path": "/home/me/project"})).await;
    recorder.hear(1).await;
    recorder.finish()
}

async fn rules() -> String {
    let fake = Fake::new(usize::MAX);
    let mut recorder = Recorder::new(&fake);
    let rule = json!({"action": "allow", "tool": "bash", "command": "git status"});
    recorder.ask(1, "add_rule", json!({"rule": rule})).await;
    recorder.hear(1).await;
    recorder.ask(2, "list_rules", json!({"cwd": "/work"})).await;
    recorder.hear(1).await;
    for (id, command) in [(3, "git status --short"), (4, "git status && cargo test")] {
        recorder.ask(id, "test_rule", json!({"command": command, "cwd": "/work"})).await;
        recorder.hear(1).await;
    }
    recorder.ask(5, "remove_rule", json!({"rule": rule})).await;
    recorder.hear(1).await;
    recorder.finish()
}

/// Holds all conversations.
pub(super) async fn all() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("handshake", handshake().await),
        ("errors", errors().await),
        ("batch", batch().await),
        ("lsp", lsp().await),
        ("run", run().await),
        ("attach", attach().await),
        ("lagged", lagged().await),
        ("watch", watch().await),
        ("approvals", approvals().await),
        ("trust", trust().await),
        ("rules", rules().await),
    ])
}
