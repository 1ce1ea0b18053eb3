//! The listening server: takes requests, keeps and checks them, performs replies step by step.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use super::dialect::Dialect;
use super::http;
use super::script::{Piece, Reply, Script, Then};
use crate::harness::bounded;

/// A request that the server got.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Its number in order of arrival, from 1.
    pub(crate) number: usize,
    /// Path and query.
    pub(crate) path: String,
    /// Headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// Body.
    pub(crate) body: Value,
    /// Body as it came.
    pub(crate) text: String,
    /// Whether the client closed the connection before the reply was complete.
    pub(crate) client_gone: bool,
}

impl Recorded {
    /// Returns a header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the request's messages.
    pub(crate) fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

#[derive(Default)]
struct State {
    script: Script,
    requests: Vec<Recorded>,
    violations: Vec<String>,
    lenient: bool,
    parallel: usize,
    max_parallel: usize,
}

struct Shared {
    state: Mutex<State>,
    /// Bumped whenever something happened that a test may wait for.
    changes: watch::Sender<u64>,
    released: watch::Sender<HashSet<String>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// A running server. Dropping it stops it, and fails the test if an illegal request came in.
pub(crate) struct ModelServer {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server with a script in the notation.
    #[track_caller]
    pub(crate) fn start(script: Value) -> Self {
        Self::with_script(Script::parse(script))
    }

    /// Starts a server that replies with these replies in order.
    #[track_caller]
    pub(crate) fn replies(replies: Value) -> Self {
        Self::start(json!({ "replies": replies }))
    }

    /// Starts a server.
    pub(crate) fn with_script(script: Script) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("bind a loopback port");
        listener.set_nonblocking(true).expect("make the listener non-blocking");
        let port = listener.local_addr().expect("the listener's address").port();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { script, ..State::default() }),
            changes: watch::Sender::new(0),
            released: watch::Sender::new(HashSet::new()),
        });
        let (stop, stopped) = oneshot::channel();
        let serve = {
            let shared = Arc::clone(&shared);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(listener, shared) => {}
                    }
                });
            }
        };
        let thread = std::thread::Builder::new().name("model-server".to_owned()).spawn(serve).expect("a thread");
        Self { port, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Adds a reply at the end of the script.
    #[track_caller]
    pub(crate) fn push(&self, reply: Value) {
        self.shared.lock().script.push(reply);
    }

    /// Lets the server go on past a gate, now or when it gets there.
    pub(crate) fn release(&self, gate: &str) {
        self.shared.released.send_modify(|released| {
            released.insert(gate.to_owned());
        });
    }

    /// Answers illegal requests as if they were legal and does not fail the test for them.
    pub(crate) fn be_lenient(&self) {
        self.shared.lock().lenient = true;
    }

    /// Returns the requests so far, in order of arrival.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().requests.clone()
    }

    /// Returns the most requests that were being answered at the same time.
    pub(crate) fn max_parallel(&self) -> usize {
        self.shared.lock().max_parallel
    }

    /// Waits until `count` requests have come in and returns the last of them.
    pub(crate) async fn request(&self, count: usize) -> Recorded {
        self.until(&format!("request {count}"), |state| state.requests.get(count - 1).cloned()).await
    }

    /// Waits until the client has left request `number` before its reply was complete.
    pub(crate) async fn client_gone(&self, number: usize) {
        let gone = |state: &State| state.requests.get(number - 1).filter(|request| request.client_gone).map(|_| ());
        self.until(&format!("the client leaving request {number}"), gone).await;
    }

    async fn until<T>(&self, what: &str, found: impl Fn(&State) -> Option<T>) -> T {
        let mut changes = self.shared.changes.subscribe();
        let wait = async {
            loop {
                changes.borrow_and_update();
                if let Some(value) = found(&self.shared.lock()) {
                    return value;
                }
                changes.changed().await.expect("the server lives as long as its handle");
            }
        };
        bounded(what, wait).await
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended by itself after a panic; joining it tells.
            let _already_ended = stop.send(());
        }
        let ended = self.thread.take().map(JoinHandle::join);
        if std::thread::panicking() {
            return;
        }
        assert!(!matches!(ended, Some(Err(_))), "the model server panicked");
        let state = self.shared.lock();
        let violations = state.violations.join("\n  ");
        assert!(violations.is_empty() || state.lenient, "illegal requests to the model:\n  {violations}");
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

/// What becomes of a connection after a reply.
enum Next {
    KeepAlive,
    Close,
    Reset,
    /// The client left before the reply was complete.
    Gone,
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).expect("set TCP_NODELAY");
    let (read, writer) = stream.into_split();
    let mut connection = Connection { reader: BufReader::new(read), writer, shared };
    loop {
        let Ok(Some(request)) = http::read(&mut connection.reader).await else { return };
        let next = connection.answer(request).await;
        match next {
            Next::KeepAlive => {}
            Next::Reset => return connection.reset(),
            Next::Close | Next::Gone => return,
        }
    }
}

struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    shared: Arc<Shared>,
}

impl Connection {
    fn reset(self) {
        let stream = self.reader.into_inner().reunite(self.writer).expect("halves of one stream");
        stream.set_zero_linger().expect("set SO_LINGER");
    }

    async fn answer(&mut self, request: http::Request) -> Next {
        if request.method == "GET" {
            let models = json!({"object": "list", "data": [{"id": "fake", "object": "model"}]});
            return self.plain(200, &Reply::default(), &models).await;
        }
        {
            let mut state = self.shared.lock();
            state.parallel += 1;
            state.max_parallel = state.max_parallel.max(state.parallel);
        }
        let (number, next) = self.post(request).await;
        {
            let mut state = self.shared.lock();
            state.parallel -= 1;
            if matches!(next, Next::Gone) {
                state.requests[number - 1].client_gone = true;
            }
        }
        self.shared.changed();
        next
    }

    /// Keeps and checks a request and performs its reply; returns its number.
    async fn post(&mut self, request: http::Request) -> (usize, Next) {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let dialect = Dialect::of(request.path.split('?').next().unwrap_or_default());
        let violations = dialect
            .map_or_else(|| vec![format!("no API is served at {}", request.path)], |dialect| dialect.violations(&body));
        let (number, refused, reply) = {
            let mut state = self.shared.lock();
            let number = state.requests.len() + 1;
            let (path, headers) = (request.path, request.headers);
            state.requests.push(Recorded {
                number,
                path,
                headers,
                body: body.clone(),
                text: text.clone(),
                client_gone: false,
            });
            state.violations.extend(violations.iter().map(|finding| format!("request {number}: {finding}")));
            let refused = !violations.is_empty() && !state.lenient;
            let reply = if refused { Reply::default() } else { state.script.pick(&text) };
            (number, refused, reply)
        };
        self.shared.changed();
        let Some(dialect) = dialect.filter(|_| !refused) else {
            let message = format!("strict validator: {}", violations.join("; "));
            let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
            return (number, self.plain(400, &Reply::default(), &error).await);
        };
        (number, self.perform(dialect, &reply, &body, number).await)
    }

    async fn perform(&mut self, dialect: Dialect, reply: &Reply, request: &Value, number: usize) -> Next {
        if let Some(gate) = &reply.first_gate
            && !self.gate(gate).await
        {
            return Next::Gone;
        }
        if !self.pause(reply.first_delay_ms).await {
            return Next::Gone;
        }
        if reply.drop {
            return if reply.reset { Next::Reset } else { Next::Close };
        }
        if let Some(status) = reply.status {
            return self.plain(status, reply, &reply.body).await;
        }
        if let Some(pieces) = &reply.raw_http {
            return self.raw(reply, pieces).await;
        }
        if let Some(pieces) = &reply.raw {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let head = Piece::Text(head.to_owned());
            return match self.raw_pieces(&[head], None).await {
                Ok(true) => self.raw(reply, pieces).await,
                _ => Next::Gone,
            };
        }
        if request["stream"] != Value::Bool(true) {
            return self.plain(200, &Reply::default(), &dialect.whole(reply, request, number)).await;
        }
        self.stream(dialect, reply, request, number).await.unwrap_or(Next::Gone)
    }

    /// Streams the reply's chunks, and does on the way what it says about cuts, stalls and errors.
    async fn stream(&mut self, dialect: Dialect, reply: &Reply, request: &Value, number: usize) -> io::Result<Next> {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
            transfer-encoding: chunked\r\n\r\n";
        self.writer.write_all(head).await?;
        let per_write = reply.synth.as_ref().map_or(1, |synth| synth.per_write);
        let mut held = Vec::new();
        let mut count = 0;
        for (index, chunk) in dialect.chunks(reply, request, number).into_iter().enumerate() {
            if let Some(gate) = reply.gates.get(&index)
                && !self.gate(gate).await
            {
                return Ok(Next::Gone);
            }
            if reply.cut_after.is_some_and(|after| index >= after) {
                return Ok(if reply.reset { Next::Reset } else { Next::Close });
            }
            if reply.end_after.is_some_and(|after| index >= after) {
                break;
            }
            if reply.hang_after.is_some_and(|after| index >= after) {
                http::closed(&mut self.reader).await;
                return Ok(Next::Gone);
            }
            if reply.malformed_after == Some(index) {
                http::chunk(&mut self.writer, b"data: {\"broken\": \n\n").await?;
            }
            if reply.error_after == Some(index) {
                let error = reply.error.clone().unwrap_or_default();
                http::chunk(&mut self.writer, &dialect.error_event(&error)).await?;
                break;
            }
            if !self.pause(reply.delay_ms).await {
                return Ok(Next::Gone);
            }
            held.extend_from_slice(&chunk);
            count += 1;
            if count % per_write == 0 {
                http::chunk(&mut self.writer, &std::mem::take(&mut held)).await?;
            }
        }
        if !held.is_empty() {
            http::chunk(&mut self.writer, &held).await?;
        }
        http::chunk(&mut self.writer, b"").await?;
        Ok(Next::KeepAlive)
    }

    async fn plain(&mut self, status: u16, reply: &Reply, body: &Value) -> Next {
        match http::plain(&mut self.writer, status, reply.headers.iter(), body).await {
            Ok(()) => Next::KeepAlive,
            Err(_) => Next::Gone,
        }
    }

    async fn raw(&mut self, reply: &Reply, pieces: &[Piece]) -> Next {
        match self.raw_pieces(pieces, reply.raw_split).await {
            Ok(true) => {}
            _ => return Next::Gone,
        }
        match reply.then {
            Then::Close => Next::Close,
            Then::Reset => Next::Reset,
            Then::Hang => {
                http::closed(&mut self.reader).await;
                Next::Gone
            }
        }
    }

    /// Writes each piece in one socket write; false when the client left at a gate.
    async fn raw_pieces(&mut self, pieces: &[Piece], split: Option<usize>) -> io::Result<bool> {
        for piece in pieces {
            match piece.bytes() {
                Some((bytes, times)) => {
                    for part in
                        std::iter::repeat_n(&bytes, times).flat_map(|bytes| bytes.chunks(split.unwrap_or(usize::MAX)))
                    {
                        self.writer.write_all(part).await?;
                        // Lets the reader run in between, so that it sees the pieces apart where it can.
                        tokio::task::yield_now().await;
                    }
                }
                None => {
                    let Piece::Gate { gate } = piece else { continue };
                    if !self.gate(gate).await {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Waits at a gate; false when the client leaves meanwhile.
    async fn gate(&mut self, name: &str) -> bool {
        let mut released = self.shared.released.subscribe();
        tokio::select! {
            () = http::closed(&mut self.reader) => false,
            passed = released.wait_for(|released| released.contains(name)) => passed.is_ok(),
        }
    }

    /// Waits a scripted time; false when the client leaves meanwhile.
    async fn pause(&mut self, milliseconds: u64) -> bool {
        if milliseconds == 0 {
            return true;
        }
        tokio::select! {
            () = http::closed(&mut self.reader) => false,
            () = tokio::time::sleep(Duration::from_millis(milliseconds)) => true,
        }
    }
}
