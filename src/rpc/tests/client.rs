//! A client that says exactly what a test wants.

use std::time::Duration;

use agentd_protocol::framing::{Decoder, Frame, FrameReader, Framing};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use crate::rpc::{Incoming, Server, Transport};
use crate::tasks::Tasks;

/// Longest that a test waits for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

impl Transport for DuplexStream {
    type Read = ReadHalf<DuplexStream>;
    type Write = WriteHalf<DuplexStream>;

    fn halves(self) -> (Self::Read, Self::Write) {
        split(self)
    }
}

impl Incoming for ReadHalf<DuplexStream> {
    fn gone(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

pub(super) struct Client {
    write: WriteHalf<DuplexStream>,
    frames: FrameReader<ReadHalf<DuplexStream>>,
    framing: Framing,
    last_id: u64,
    /// Events that came while an answer was awaited.
    pub(super) events: Vec<Value>,
}

impl Client {
    pub(super) fn connect(server: &Server, tasks: &Tasks) -> Self {
        Self::connect_with(server, tasks, 64 * 1024)
    }

    /// Connects by a pipe that takes this many bytes that are not read.
    pub(super) fn connect_with(server: &Server, tasks: &Tasks, pipe: usize) -> Self {
        let (ours, theirs) = duplex(pipe);
        let server = server.clone();
        drop(tasks.spawn("connection", async move { server.serve(theirs, Some(7)).await }));
        let (read, write) = split(ours);
        let frames = FrameReader::new(read, Decoder::new(usize::MAX));
        Self { write, frames, framing: Framing::Lines, last_id: 0, events: Vec::new() }
    }

    pub(super) fn speak_lsp(&mut self) {
        self.framing = Framing::Lsp;
        self.frames.decoder().detect_again();
    }

    pub(super) fn framing_heard(&mut self) -> Option<Framing> {
        self.frames.decoder().framing()
    }

    /// Returns both halves.
    pub(super) fn split(self) -> (WriteHalf<DuplexStream>, FrameReader<ReadHalf<DuplexStream>>) {
        (self.write, self.frames)
    }

    /// Writes bytes as they are.
    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.write.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Ends our direction.
    pub(super) async fn finish(&mut self) {
        self.write.shutdown().await.unwrap();
    }

    /// Sends one message.
    pub(super) async fn send(&mut self, message: &Value) {
        let mut bytes = Vec::new();
        self.framing.encode(message.to_string().as_bytes(), &mut bytes);
        self.write(bytes).await;
    }

    /// Sends a request and returns its id.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Returns the next message as it came; `None` at the end.
    pub(super) async fn next_text(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(LIMIT, self.frames.next()).await.expect("nothing came").unwrap()?;
        let Frame::Message(text) = frame else { panic!("{frame:?}") };
        Some(String::from_utf8(text.to_vec()).unwrap())
    }

    /// Returns the next message.
    pub(super) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await.expect("the connection ended")).unwrap()
    }

    /// Returns the next event's parameters.
    pub(super) async fn event(&mut self) -> Value {
        if !self.events.is_empty() {
            return self.events.remove(0);
        }
        let mut message = self.next().await;
        assert_eq!(message["method"], "event", "{message}");
        message["params"].take()
    }

    /// Returns the next answer; events before it are kept in `events`.
    pub(super) async fn answer(&mut self) -> Value {
        loop {
            let mut message = self.next().await;
            if message["method"] != "event" {
                return message;
            }
            self.events.push(message["params"].take());
        }
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub(super) fn call(&mut self, method: &str, params: Value) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let id = self.ask(method, params).await;
            let mut answer = self.answer().await;
            assert_eq!(answer["id"], id, "{caller}: {answer}");
            assert!(answer.get("error").is_none(), "{caller}: {answer}");
            answer["result"].take()
        }
    }

    /// Sends a request and returns its error.
    pub(super) async fn fail(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        let mut answer = self.answer().await;
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer.get("result").is_none(), "{answer}");
        answer["error"].take()
    }

    /// Asserts that a request fails so.
    pub(super) async fn check_fail(&mut self, method: &str, params: Value, kind: &str, param: Option<&str>) {
        let error = self.fail(method, params).await;
        assert_eq!((&error["data"]["kind"], &error["data"]["param"]), (&json!(kind), &json!(param)), "{error}");
    }
}

/// Waits until something is so.
pub(super) async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.expect("it never came about");
}
