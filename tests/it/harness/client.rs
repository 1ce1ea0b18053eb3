//! A JSON-RPC client for tests: lines of JSON, nothing hidden.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::{Home, bounded};

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    /// JSON-RPC code.
    pub(crate) code: i64,
    /// For people.
    pub(crate) message: String,
    /// `{kind, retryable, …}`.
    pub(crate) data: Value,
}

impl RpcError {
    /// Returns `data.kind`.
    pub(crate) fn kind(&self) -> &str {
        self.data["kind"].as_str().unwrap_or_default()
    }

    fn of(answer: &Value) -> Self {
        let error = &answer["error"];
        Self {
            code: error["code"].as_i64().expect("an error code"),
            message: error["message"].as_str().expect("an error message").to_owned(),
            data: error["data"].clone(),
        }
    }
}

/// One connection to the daemon.
pub(crate) struct Client {
    reader: Box<dyn AsyncBufRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The front program, when the connection goes through one.
    child: Option<Child>,
    /// Messages read while waiting for another one, in order of arrival.
    inbox: VecDeque<Value>,
    next_id: u64,
}

impl Client {
    /// Connects to a socket, and says nothing yet.
    #[track_caller]
    pub(crate) fn connect(socket: &Path) -> impl Future<Output = Self> + use<> {
        let connecting = UnixStream::connect(socket.to_owned());
        async move {
            let stream = bounded("the connection", connecting).await.expect("connect to the daemon");
            let (read, write) = stream.into_split();
            Self::over(BufReader::new(read), write, None)
        }
    }

    /// Starts `agentd stdio` in a home and talks through it.
    pub(crate) fn stdio(home: &Home) -> Self {
        Self::stdio_in(home, &home.cwd(), &home.env())
    }

    /// Starts `agentd stdio` with its own working directory and environment.
    pub(crate) fn stdio_in(home: &Home, cwd: &Path, env: &BTreeMap<String, String>) -> Self {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(home.root().join("stdio.stderr"))
            .expect("open the log of stdio");
        let mut child = Command::new(env!("CARGO_BIN_EXE_agentd"))
            .arg("stdio")
            .env_clear()
            .envs(env)
            .current_dir(cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("start agentd stdio");
        let stdin = child.stdin.take().expect("a piped stdin");
        let stdout = child.stdout.take().expect("a piped stdout");
        Self::over(BufReader::new(stdout), stdin, Some(child))
    }

    fn over(
        reader: impl AsyncBufRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        child: Option<Child>,
    ) -> Self {
        let (reader, writer) = (Box::new(reader), Box::new(writer));
        Self { reader, writer, child, inbox: VecDeque::new(), next_id: 1 }
    }

    /// Sends the notification with which a front says where its user is.
    pub(crate) async fn front(&mut self, cwd: &Path, env: &BTreeMap<String, String>) {
        let params = json!({"cwd": cwd, "env": env, "name": "test", "version": "0"});
        self.send(&json!({"jsonrpc": "2.0", "method": "front", "params": params})).await;
    }

    /// Sends bytes as they are.
    pub(crate) async fn send_raw(&mut self, bytes: impl AsRef<[u8]>) {
        bounded("room to send", self.writer.write_all(bytes.as_ref())).await.expect("send to the daemon");
        bounded("a flush", self.writer.flush()).await.expect("send to the daemon");
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n")).await;
    }

    /// Sends a request and returns its id; the answer is read by [`Client::answer`].
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Reads the next message off the wire; `None` at its end.
    pub(crate) async fn read(&mut self) -> Option<Value> {
        let text = self.read_line().await?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text:?}")))
    }

    /// Reads the next line off the wire as it stands, its line feed included; `None` at the end.
    pub(crate) async fn read_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let count = bounded("a message", self.reader.read_until(b'\n', &mut line)).await.expect("read a message");
        if count == 0 {
            return None;
        }
        let text = String::from_utf8(line).expect("messages are UTF-8");
        assert!(text.ends_with('\n'), "the last message is cut off: {text:?}");
        Some(text)
    }

    /// Returns the next message, those set aside first; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        match self.inbox.pop_front() {
            Some(message) => Some(message),
            None => self.read().await,
        }
    }

    /// Sets a message aside that was read off the wire.
    pub(crate) fn put_back(&mut self, message: Value) {
        self.inbox.push_back(message);
    }

    /// Tells whether messages were set aside.
    pub(crate) fn has_put_back(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Returns the first message that `wanted` accepts and sets the others aside, in order.
    pub(crate) async fn find(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.inbox.iter().position(&wanted) {
            return self.inbox.remove(place).expect("it is there");
        }
        loop {
            let message = self.read().await.unwrap_or_else(|| panic!("the connection ended before {what}"));
            if wanted(&message) {
                return message;
            }
            self.inbox.push_back(message);
        }
    }

    /// Waits for the answer with an id.
    pub(crate) async fn answer(&mut self, id: impl Into<Value>) -> Result<Value, RpcError> {
        let id = id.into();
        let is_answer = |message: &Value| message.get("method").is_none() && message.get("id") == Some(&id);
        let answer = self.find(&format!("the answer to {id}"), is_answer).await;
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(RpcError::of(&answer)),
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub(crate) fn ok<'a>(&'a mut self, method: &'a str, params: Value) -> impl Future<Output = Value> + 'a {
        let place = std::panic::Location::caller();
        async move { self.call(method, params).await.unwrap_or_else(|error| panic!("{method} failed: {error:?} ({place})")) }
    }

    /// Sends a request that must fail.
    #[track_caller]
    pub(crate) fn err<'a>(&'a mut self, method: &'a str, params: Value) -> impl Future<Output = RpcError> + 'a {
        let place = std::panic::Location::caller();
        async move {
            match self.call(method, params).await {
                Err(error) => error,
                Ok(result) => panic!("{method} did not fail: {result} ({place})"),
            }
        }
    }

    /// Makes a session in the home's working directory and returns its id.
    pub(crate) async fn new_session(&mut self, home: &Home, model: &str) -> String {
        let made = self.ok("new_session", json!({"cwd": home.cwd(), "model": model})).await;
        made["sessionId"].as_str().expect("a session id").to_owned()
    }

    /// Returns the parameters of the next `event` notification.
    pub(crate) async fn event(&mut self) -> Value {
        self.find("an event", |message| message["method"] == "event").await["params"].take()
    }

    /// Returns the events up to and including the first of type `last`.
    pub(crate) async fn events_until(&mut self, last: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let done = event["event"]["type"] == last;
            events.push(event);
            if done {
                return events;
            }
        }
    }

    /// Prompts and returns the events of the whole run.
    pub(crate) async fn run(&mut self, message: &str) -> Vec<Value> {
        self.ok("prompt", json!({"message": message})).await;
        self.events_until("agent_settled").await
    }

    /// Closes the client's side; what the daemon still says can be read.
    pub(crate) async fn close_input(&mut self) {
        bounded("the shutdown", self.writer.shutdown()).await.expect("close the client's side");
        self.writer = Box::new(tokio::io::sink());
    }

    /// Returns all messages until the daemon closes the connection.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut rest: Vec<_> = self.inbox.drain(..).collect();
        while let Some(message) = self.read().await {
            rest.push(message);
        }
        rest
    }

    /// Returns the process of the front program.
    pub(crate) fn pid(&self) -> i32 {
        let id = self.child.as_ref().and_then(Child::id).expect("a connection through a front");
        i32::try_from(id).expect("a process id")
    }

    /// Waits for the end of the front program and returns its exit code.
    pub(crate) async fn exit_code(&mut self) -> Option<i32> {
        let child = self.child.as_mut().expect("a connection through a front");
        bounded("the front's end", child.wait()).await.expect("wait for the front").code()
    }
}
