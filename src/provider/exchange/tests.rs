use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agentd_protocol::SessionId;
use agentd_protocol::message::{StopReason, ThinkingLevel};
use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::*;
use crate::agent::event::{BlockKind, DeltaKind};
use crate::config::ProviderClocks;
use crate::config::env::SessionEnv;
use crate::provider::client::ProviderClient;
use crate::provider::demo;
use crate::provider::spec::{ModelSpec, ProviderSpec, ValueSource};

/// Longest time that a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(30);

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const TEXT: &str = "data: {\"id\":\"r1\",\"choices\":[{\"delta\":{\"content\":\"hi 界\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// What the server does after it has read a request.
enum Step {
    /// Sends bytes as they are.
    Raw(Vec<u8>),
    /// Sends a piece of a chunked body.
    Chunk(&'static str),
    /// Ends a chunked body.
    End,
    /// Sends a piece of a body every few milliseconds until the client goes away.
    Forever(&'static str),
    /// Waits until the client goes away; fails the test if it does not.
    AwaitClose,
    /// Closes the connection with a reset.
    Reset,
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

struct Server {
    port: u16,
    /// Fires when a script has come to [`Step::AwaitClose`].
    waits: Arc<Notify>,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Server {
    /// Answers one connection for each script, one after the other; gives back the requests.
    #[expect(clippy::disallowed_methods, reason = "a test's own task, joined by the test")]
    async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let waits = Arc::new(Notify::new());
        let told = Arc::clone(&waits);
        let task = tokio::spawn(async move {
            let mut requests = Vec::new();
            for script in scripts {
                let (mut stream, _) = listener.accept().await.unwrap();
                requests.push(read_request(&mut stream).await);
                play(stream, script, &told).await;
            }
            requests
        });
        Self { port, waits, task }
    }

    async fn requests(self) -> Vec<String> {
        tokio::time::timeout(PATIENCE, self.task).await.expect("the server saw all it waited for").unwrap()
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        if read == 0 {
            // The client gave up early, which some tests are about.
            return text;
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
}

async fn play(mut stream: TcpStream, script: Vec<Step>, waits: &Notify) {
    for step in script {
        match step {
            Step::Raw(bytes) => stream.write_all(&bytes).await.unwrap(),
            Step::Chunk(text) => stream.write_all(&chunk(text.as_bytes())).await.unwrap(),
            Step::End => stream.write_all(b"0\r\n\r\n").await.unwrap(),
            Step::Forever(text) => {
                while stream.write_all(&chunk(text.as_bytes())).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            Step::AwaitClose => {
                waits.notify_one();
                let mut rest = Vec::new();
                // A reset is a close too.
                let _ = stream.read_to_end(&mut rest).await;
            }
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
}

fn env(vars: &[(&str, &str)]) -> SessionEnv {
    let vars: BTreeMap<_, _> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    SessionEnv::new(vars, EnvSource::Client)
}

fn spec(base_url: &str) -> ModelSpec {
    let mut spec = demo::spec();
    spec.model.id = "plain".into();
    spec.model.api = "openai-completions".into();
    spec.model.base_url = base_url.into();
    spec.provider = Arc::new(ProviderSpec {
        id: "fake".into(),
        keys: vec![ValueSource::parse("sk-CANARY123")],
        auth_header: false,
        is_keyless: false,
    });
    spec
}

fn request(spec: ModelSpec, env: SessionEnv) -> ModelRequest {
    ModelRequest {
        spec: Arc::new(spec),
        messages: vec![Arc::new(serde_json::from_value(json!({"role": "user", "content": "hello"})).unwrap())],
        thinking: ThinkingLevel::Off,
        env,
        cwd: PathBuf::from("/"),
        session_id: SessionId::new("s"),
        clocks: ProviderClocks::default(),
        demo_delay: std::time::Duration::ZERO,
        pace: crate::provider::Pace::default(),
    }
}

type Outcome = (Vec<StreamEvent>, Result<(), ProviderError>);

async fn ask_with(client: &ProviderClient, request: ModelRequest) -> Outcome {
    let (events, mut received) = mpsc::channel::<Vec<StreamEvent>>(64);
    let collect = async {
        let mut all = Vec::new();
        while let Some(batch) = received.recv().await {
            assert!(!batch.is_empty());
            all.extend(batch);
        }
        all
    };
    let asked = client.stream(request, events, CancellationToken::new());
    let (ended, all) = tokio::time::timeout(PATIENCE, async { tokio::join!(asked, collect) }).await.unwrap();
    (all, ended)
}

/// Asks a server with one script.
async fn ask(script: Vec<Step>) -> Outcome {
    let server = Server::start(vec![script]).await;
    let base_url = format!("http://127.0.0.1:{}/v1", server.port);
    let outcome = ask_with(&ProviderClient::new(), request(spec(&base_url), env(&[]))).await;
    server.requests().await;
    outcome
}

fn raw(text: &str) -> Step {
    Step::Raw(text.as_bytes().to_vec())
}

fn failed(outcome: Outcome) -> (ErrorClass, String) {
    let error = outcome.1.unwrap_err();
    assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    (error.class, error.message)
}

fn expected_text() -> Vec<StreamEvent> {
    vec![
        StreamEvent::Started,
        StreamEvent::Meta { response_id: Some("r1".into()), response_model: None },
        StreamEvent::BlockStart { index: 0, kind: BlockKind::Text },
        StreamEvent::Delta { index: 0, kind: DeltaKind::Text, delta: "hi 界".into() },
        StreamEvent::BlockEnd { index: 0 },
        StreamEvent::Stop { reason: StopReason::Stop, raw: Some("stop".into()) },
    ]
}

#[tokio::test]
async fn a_whole_response() {
    let outcome = ask(vec![raw(HEAD), Step::Chunk(TEXT), Step::Chunk(STOP), Step::Chunk(DONE), Step::End]).await;
    assert_eq!(outcome, (expected_text(), Ok(())));
}

#[tokio::test]
async fn a_response_in_single_bytes() {
    let body = [TEXT, STOP, DONE].concat();
    let mut script = vec![raw(HEAD)];
    script.extend(body.as_bytes().chunks(1).map(|byte| Step::Raw(chunk(byte))));
    script.push(Step::End);
    assert_eq!(ask(script).await, (expected_text(), Ok(())));
}

#[tokio::test]
async fn what_is_sent() {
    let server = Server::start(vec![vec![raw(HEAD), Step::Chunk(STOP), Step::End]]).await;
    let mut spec = spec(&format!("http://127.0.0.1:{}/v1/?v=2", server.port));
    spec.headers =
        vec![("X-Team".into(), ValueSource::parse("$TEAM")), ("x-run".into(), ValueSource::parse("!echo now"))];
    let vars = [("TEAM", "blue"), ("PATH", "/usr/bin:/bin")];
    let (_, ended) = ask_with(&ProviderClient::new(), request(spec, env(&vars))).await;
    assert_eq!(ended, Ok(()));
    let requests = server.requests().await;
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> =
        head.lines().filter(|line| !line.starts_with("host") && !line.starts_with("content-length")).collect();
    lines[1..].sort_unstable();
    let agent = concat!("user-agent: agentd/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        lines,
        [
            "POST /v1/chat/completions?v=2 HTTP/1.1",
            "accept-encoding: identity",
            "accept: application/json",
            "authorization: Bearer sk-CANARY123",
            "content-type: application/json",
            agent,
            "x-run: now",
            "x-team: blue",
        ]
    );
    assert!(body.starts_with("{\"model\":\"plain\",\"messages\":[{\"role\":\"user\""), "{body}");
}

#[tokio::test]
async fn headers_may_say_how_to_authenticate() {
    for (auth_header, expected) in [(false, "authorization: Basic abc"), (true, "authorization: Bearer k")] {
        let server = Server::start(vec![vec![raw(HEAD), Step::Chunk(STOP), Step::End]]).await;
        let mut spec = spec(&format!("http://127.0.0.1:{}", server.port));
        spec.headers = vec![("Authorization".into(), ValueSource::parse("Basic abc"))];
        spec.provider = Arc::new(ProviderSpec {
            id: "p".into(),
            keys: vec![ValueSource::parse("k")],
            auth_header,
            is_keyless: false,
        });
        ask_with(&ProviderClient::new(), request(spec, env(&[]))).await.1.unwrap();
        let requests = server.requests().await;
        let found: Vec<&str> = requests[0].lines().filter(|line| line.starts_with("authorization")).collect();
        assert_eq!(found, [expected]);
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<Step> {
    vec![raw(&format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))]
}

#[tokio::test]
async fn answers_that_are_failures() {
    for (status, headers, body, class, message) in [
        (
            "400 Bad",
            "",
            "{\"error\": {\"message\": \"bad field\"}}",
            ErrorClass::BadRequest,
            "400: {\"message\":\"bad field\"}",
        ),
        (
            "401 No",
            "",
            "{\"error\": {\"message\": \"wrong key sk-CANARY123\"}}",
            ErrorClass::Auth,
            "401: {\"message\":\"wrong key [redacted]\"}",
        ),
        ("500 Oh", "", "boom", ErrorClass::Transient, "500 boom"),
        ("529 Busy", "", "", ErrorClass::Transient, "529 status code (no body)"),
        ("413 Large", "", "<html>", ErrorClass::Overflow, "413 <html>"),
        ("302 Found", "location: http://127.0.0.1:1/\r\n", "", ErrorClass::BadRequest, "302 status code (no body)"),
    ] {
        let outcome = ask(answer(status, headers, body)).await;
        assert_eq!(outcome.0, [], "{status}");
        assert_eq!(failed(outcome), (class, message.to_owned()), "{status}");
    }
    let limited = ask(answer("429 Slow", "Retry-After: 1.5\r\n", "{\"error\": {\"message\": \"Rate limit\"}}")).await;
    let error = limited.1.unwrap_err();
    assert_eq!((error.class, error.status), (ErrorClass::RateLimit, Some(429)));
    assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
}

#[tokio::test]
async fn an_endless_error_page_is_cut() {
    let page: &'static str = Box::leak("x".repeat(16 * 1024).into_boxed_str());
    let head = "HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\n\r\n";
    let (class, message) = failed(ask(vec![raw(head), Step::Forever(page)]).await);
    assert_eq!(class, ErrorClass::Transient);
    assert!(message.len() < 10_000, "{}", message.len());
}

#[tokio::test]
async fn connections_that_fail() {
    let closed = (ErrorClass::Transient, "Connection error.: other side closed (UND_ERR_SOCKET)".to_owned());
    assert_eq!(failed(ask(vec![]).await), closed);
    assert_eq!(failed(ask(vec![Step::Reset]).await), closed);
    let nobody = request(spec("http://127.0.0.1:1/v1"), env(&[]));
    let (class, message) = failed(ask_with(&ProviderClient::new(), nobody).await);
    assert_eq!(class, ErrorClass::Transient);
    assert!(message.starts_with("Connection error.: http://127.0.0.1:1: ") && message.contains("refused"), "{message}");
    let garbage = failed(ask(vec![raw("what?\r\n\r\n")]).await);
    assert_eq!(garbage.0, ErrorClass::Transient);
}

#[tokio::test]
async fn a_key_in_a_url_is_not_repeated() {
    let lost = request(spec("http://user:sk-CANARY123@127.0.0.1:1/v1?key=sk-CANARY123"), env(&[]));
    failed(ask_with(&ProviderClient::new(), lost).await);
    let wrong = request(spec("nothing?key=sk-CANARY123"), env(&[]));
    assert_eq!(failed(ask_with(&ProviderClient::new(), wrong).await).0, ErrorClass::BadRequest);
}

#[tokio::test]
async fn streams_that_break_off() {
    let terminated = (ErrorClass::Transient, "terminated: other side closed (UND_ERR_SOCKET)".to_owned());
    for end in [None, Some(Step::Reset)] {
        let mut script = vec![raw(HEAD), Step::Chunk(TEXT)];
        script.extend(end);
        let (events, ended) = ask(script).await;
        // A reset may overtake what was sent before it.
        assert!(expected_text().starts_with(&events) && events.len() <= 4, "{events:?}");
        assert_eq!(failed((events, ended)), terminated);
    }
    let unfinished = ask(vec![raw(HEAD), Step::Chunk(TEXT), Step::End]).await;
    assert_eq!(unfinished.0, expected_text()[..5]);
    assert_eq!(failed(unfinished), (ErrorClass::Transient, "Stream ended without finish_reason".to_owned()));
    let malformed =
        ask(vec![raw(HEAD), Step::Chunk(TEXT), Step::Chunk("data: {\"broken\": \n\n"), Step::AwaitClose]).await;
    assert_eq!(malformed.0, expected_text()[..4]);
    let message = "Error reading response: malformed server-sent event JSON.".to_owned();
    assert_eq!(failed(malformed), (ErrorClass::Malformed, message));
    let complete = ask(vec![raw(HEAD), Step::Chunk(TEXT), Step::Chunk(STOP)]).await;
    assert_eq!(complete, (expected_text(), Ok(())));
}

#[tokio::test]
async fn done_ends_a_stream_that_stays_open() {
    let outcome = ask(vec![raw(HEAD), Step::Chunk(TEXT), Step::Chunk(STOP), Step::Chunk(DONE), Step::AwaitClose]).await;
    assert_eq!(outcome, (expected_text(), Ok(())));
}

#[tokio::test]
async fn an_endless_line_is_refused() {
    let piece: &'static str = Box::leak("a".repeat(1024 * 1024).into_boxed_str());
    let mut script = vec![raw(HEAD), Step::Chunk("data: ")];
    script.extend((0..33).map(|_| Step::Chunk(piece)));
    // The last pieces may find the connection closed, which is what is asked for.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        for step in script {
            let bytes = match step {
                Step::Raw(bytes) => bytes,
                Step::Chunk(text) => chunk(text.as_bytes()),
                _ => unreachable!(),
            };
            if stream.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    let client = ProviderClient::new();
    let (outcome, ()) = tokio::join!(ask_with(&client, request(spec(&base_url), env(&[]))), serve);
    let message = "Error reading response: a server-sent event is larger than 32 MiB.".to_owned();
    assert_eq!(failed(outcome), (ErrorClass::Malformed, message));
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let body = "{\"id\":\"r1\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"hi 界\"},\"finish_reason\":\"stop\"}]}";
    let outcome = ask(answer("200 OK", "content-type: application/json; charset=utf-8\r\n", body)).await;
    assert_eq!(outcome, (expected_text(), Ok(())));
    let error =
        ask(answer("200 OK", "content-type: application/json\r\n", "{\"error\": {\"message\": \"no sk-CANARY123\"}}"))
            .await;
    assert_eq!(failed(error), (ErrorClass::BadRequest, "no [redacted]".to_owned()));
}

fn short_clocks(first_event_ms: u64, idle_ms: u64) -> ProviderClocks {
    ProviderClocks {
        connect: PATIENCE,
        first_event: Duration::from_millis(first_event_ms),
        idle: Duration::from_millis(idle_ms),
    }
}

#[tokio::test]
async fn silence_is_ended() {
    for (name, script, clocks, message) in [
        ("no answer", vec![Step::AwaitClose], short_clocks(1000, 60_000), "no answer"),
        ("no event", vec![raw(HEAD), Step::AwaitClose], short_clocks(1000, 60_000), "no event"),
        ("comments only", vec![raw(HEAD), Step::Forever(": PROCESSING\n\n")], short_clocks(1000, 60_000), "no event"),
        (
            "no further event",
            vec![raw(HEAD), Step::Chunk(TEXT), Step::AwaitClose],
            short_clocks(60_000, 300),
            "no further event",
        ),
        (
            "only comments further",
            vec![raw(HEAD), Step::Chunk(TEXT), Step::Forever(": PROCESSING\n\n")],
            short_clocks(60_000, 300),
            "no further event",
        ),
    ] {
        let server = Server::start(vec![script]).await;
        let base_url = format!("http://127.0.0.1:{}", server.port);
        let (class, found) = failed(
            ask_with(&ProviderClient::new(), ModelRequest { clocks, ..request(spec(&base_url), env(&[])) }).await,
        );
        assert_eq!(class, ErrorClass::Transient, "{name}");
        assert!(found.starts_with("Request timed out: ") && found.contains(message), "{name}: {found}");
        server.requests().await;
    }
}

#[tokio::test]
async fn events_keep_a_slow_stream_alive() {
    let server = Server::start(vec![vec![raw(HEAD), Step::Forever(TEXT)]]).await;
    let base_url = format!("http://127.0.0.1:{}", server.port);
    let clocks = short_clocks(2000, 2000);
    let client = ProviderClient::new();
    let (events, mut received) = mpsc::channel(4);
    let cancel = CancellationToken::new();
    let asked = client.stream(ModelRequest { clocks, ..request(spec(&base_url), env(&[])) }, events, cancel.clone());
    let count = async {
        let mut deltas = 0;
        while deltas < 50 {
            let batch = received.recv().await.expect("the stream goes on");
            deltas += batch.iter().filter(|event| matches!(event, StreamEvent::Delta { .. })).count();
        }
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(asked, count);
    assert_eq!(ended, Err(ProviderError::cancelled()));
    server.requests().await;
}

/// Cancels when the server is at a certain point; the server must see the close.
#[tokio::test]
async fn cancelling_closes_the_connection_at_any_moment() {
    for script in [
        vec![Step::AwaitClose],
        vec![raw("HTTP/1.1 200 OK\r\n"), Step::AwaitClose],
        vec![raw(HEAD), Step::AwaitClose],
        vec![raw(HEAD), Step::Chunk(TEXT), Step::AwaitClose],
        vec![raw("HTTP/1.1 500 Oh\r\ncontent-length: 100\r\n\r\nx"), Step::AwaitClose],
    ] {
        let server = Server::start(vec![script]).await;
        let base_url = format!("http://127.0.0.1:{}", server.port);
        let cancel = CancellationToken::new();
        let (events, _received) = mpsc::channel(64);
        let client = ProviderClient::new();
        let asked = client.stream(request(spec(&base_url), env(&[])), events, cancel.clone());
        let stop = async {
            server.waits.notified().await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(asked, stop);
        assert_eq!(ended, Err(ProviderError::cancelled()));
        server.requests().await;
    }
}

#[tokio::test]
async fn a_full_receiver_holds_back_the_provider_and_can_be_cancelled() {
    let server = Server::start(vec![vec![raw(HEAD), Step::Forever(TEXT)]]).await;
    let base_url = format!("http://127.0.0.1:{}", server.port);
    let cancel = CancellationToken::new();
    let (events, mut received) = mpsc::channel(1);
    let clocks = short_clocks(60_000, 60_000);
    let client = ProviderClient::new();
    let asked =
        client.stream(ModelRequest { clocks, ..request(spec(&base_url), env(&[])) }, events.clone(), cancel.clone());
    let stop = async {
        received.recv().await.expect("the stream has begun");
        // Now nothing is received any more.
        while events.capacity() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(asked, stop);
    assert_eq!(ended, Err(ProviderError::cancelled()));
    server.requests().await;
}

#[tokio::test]
async fn the_proxy_is_the_sessions() {
    let proxy = Server::start(vec![vec![raw(HEAD), Step::Chunk(TEXT), Step::Chunk(STOP), Step::End]]).await;
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let client = ProviderClient::new();
    let through = request(spec("http://provider.invalid/v1"), env(&[("HTTP_PROXY", &address)]));
    assert_eq!(ask_with(&client, through).await, (expected_text(), Ok(())));
    let requests = proxy.requests().await;
    assert!(requests[0].starts_with("POST http://provider.invalid/v1/chat/completions HTTP/1.1"), "{}", requests[0]);
    // Another session of the same daemon has no proxy, and one that is told to spare the host does not use it.
    for vars in [&[][..], &[("HTTP_PROXY", address.as_str()), ("NO_PROXY", "provider.invalid")]] {
        let direct = request(spec("http://provider.invalid/v1"), env(vars));
        let (class, message) = failed(ask_with(&client, direct).await);
        assert_eq!(class, ErrorClass::Transient);
        assert!(message.contains("http://provider.invalid"), "{message}");
    }
}

#[tokio::test]
async fn a_refused_key_of_a_command_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    let refused = || answer("401 No", "connection: close\r\n", "{\"error\": {\"message\": \"no\"}}");
    let server = Server::start(vec![refused(), refused()]).await;
    let mut spec = spec(&format!("http://127.0.0.1:{}", server.port));
    let command = format!("!echo x >> {0}; echo key-$(wc -l < {0})", count.display());
    spec.provider = Arc::new(ProviderSpec {
        id: "p".into(),
        keys: vec![ValueSource::parse(&command)],
        auth_header: false,
        is_keyless: false,
    });
    let client = ProviderClient::new();
    let vars = [("PATH", "/usr/bin:/bin")];
    for _ in 0..2 {
        let (class, _) = failed(ask_with(&client, request(spec.clone(), env(&vars))).await);
        assert_eq!(class, ErrorClass::Auth);
    }
    let requests = server.requests().await;
    assert!(requests[0].contains("Bearer key-1") && requests[1].contains("Bearer key-2"));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let body = [TEXT, STOP, DONE].concat();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_request(&mut stream).await;
            stream.write_all(&[HEAD.as_bytes(), &chunk(body.as_bytes()), b"0\r\n\r\n"].concat()).await.unwrap();
        }
    };
    let client = ProviderClient::new();
    let asked = async {
        for _ in 0..3 {
            ask_with(&client, request(spec(&base_url), env(&[]))).await.1.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(serve, asked) }).await.expect("one connection is enough");
}

const MESSAGE: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"r1\",\"model\":\"plain\"}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"hi 界\"}}\n\n",
);
const MESSAGE_END: &str = concat!(
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

fn messages_spec(port: u16) -> ModelSpec {
    let mut spec = spec(&format!("http://127.0.0.1:{port}"));
    spec.model.api = "anthropic-messages".into();
    spec
}

#[tokio::test]
async fn a_messages_request_and_its_response() {
    let script = vec![raw(HEAD), Step::Chunk(PING), Step::Chunk(MESSAGE), Step::Chunk(MESSAGE_END), Step::AwaitClose];
    let server = Server::start(vec![script]).await;
    let mut spec = messages_spec(server.port);
    spec.headers = vec![("anthropic-version".into(), ValueSource::parse("2030-01-01"))];
    let outcome = ask_with(&ProviderClient::new(), request(spec, env(&[]))).await;
    let mut expected = expected_text();
    *expected.last_mut().unwrap() = StreamEvent::Stop { reason: StopReason::Stop, raw: Some("end_turn".into()) };
    assert_eq!(outcome, (expected, Ok(())));
    let requests = server.requests().await;
    let head = requests[0].split_once("\r\n\r\n").unwrap().0;
    assert!(head.starts_with("POST /v1/messages?beta=true HTTP/1.1"), "{head}");
    assert!(
        head.contains("\r\nx-api-key: sk-CANARY123") && head.contains("\r\nanthropic-version: 2030-01-01"),
        "{head}"
    );
    assert!(!head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn configured_beta_features_stand_beside_ours() {
    for (name, value, expected) in [
        ("Anthropic-Beta", "context-x", "anthropic-beta: interleaved-thinking-2025-05-14,context-x"),
        ("x-api-key", "mine", "x-api-key: mine"),
        ("Authorization", "Basic abc", "authorization: Basic abc"),
    ] {
        let server =
            Server::start(vec![vec![raw(HEAD), Step::Chunk(MESSAGE), Step::Chunk(MESSAGE_END), Step::End]]).await;
        let mut spec = messages_spec(server.port);
        spec.model.reasoning = true;
        spec.headers = vec![(name.into(), ValueSource::parse(value))];
        let asked = ModelRequest { thinking: ThinkingLevel::High, ..request(spec, env(&[])) };
        ask_with(&ProviderClient::new(), asked).await.1.unwrap();
        let requests = server.requests().await;
        let lines: Vec<&str> = requests[0].lines().collect();
        assert!(lines.contains(&expected), "{lines:?}");
        let keys = lines.iter().filter(|line| line.contains("CANARY")).count();
        assert_eq!(keys, usize::from(name == "Anthropic-Beta"), "{name}");
    }
}

#[tokio::test]
async fn b003_pings_do_not_keep_a_messages_stream_alive() {
    for (script, clocks, message) in [
        (vec![raw(HEAD), Step::Forever(PING)], short_clocks(1000, 60_000), "no event"),
        (vec![raw(HEAD), Step::Chunk(MESSAGE), Step::Forever(PING)], short_clocks(60_000, 300), "no further event"),
    ] {
        let server = Server::start(vec![script]).await;
        let (class, found) = failed(
            ask_with(&ProviderClient::new(), ModelRequest { clocks, ..request(messages_spec(server.port), env(&[])) })
                .await,
        );
        assert_eq!(class, ErrorClass::Transient);
        assert!(found.starts_with("Request timed out: ") && found.contains(message), "{found}");
        server.requests().await;
    }
}

#[tokio::test]
async fn a_refused_messages_request_names_its_id() {
    let body = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}";
    for (headers, expected) in
        [("", format!("529 {body}")), ("request-id: req_1\r\n", format!("529 {body} (request id req_1)"))]
    {
        let server = Server::start(vec![answer("529 Busy", &format!("Retry-After: 2\r\n{headers}"), body)]).await;
        let (_, ended) = ask_with(&ProviderClient::new(), request(messages_spec(server.port), env(&[]))).await;
        let error = ended.unwrap_err();
        assert_eq!((error.class, error.status, error.message), (ErrorClass::Transient, Some(529), expected));
        assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
        server.requests().await;
    }
}
