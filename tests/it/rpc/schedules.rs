//! Clients whose connections break at any byte, on real sockets: each ends with the same session. The same with paused
//! time, far more cases and every view of every moment is played beside the code (`src/rpc/tests/schedules`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_protocol::event::EventParams;
use agentd_protocol::framing::{Decoder, Frame, Framing};
use agentd_protocol::methods::{AttachResult, Replay, SessionStatus, View};
use agentd_protocol::session_view::{Applied, SessionView};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Client, Daemon, Home, bounded};
use crate::model_server::ModelServer;

const CASES: u64 = 50;
const VIEWS: [View; 4] = [View::Full, View::Coalesced, View::Entries, View::Status];

/// A small generator: the same number gives the same plan, though real sockets cut it at other moments.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A client that is cut again and again.
struct Reader {
    socket: PathBuf,
    session: String,
    dice: Dice,
    held: Option<SessionView>,
    /// It has passed over entries, in the view that lacks them.
    is_partial: bool,
}

impl Reader {
    /// Lives through one connection, which breaks after so many bytes; without a number it reads up to what an answer
    /// at the end reflects.
    async fn live(&mut self, bytes: Option<u64>) {
        let view = VIEWS[usize::try_from(self.dice.roll(4)).unwrap()];
        let since = self.held.as_ref().map(SessionView::cursor);
        let mut params = json!({"sessionId": self.session, "view": view});
        if let Some(since) = since {
            params["since"] = json!(since);
        }
        let ask = |id: u64, method: &str, params: &Value| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        let mut request = ask(1, "attach", &params);
        match bytes {
            None => request += &ask(2, "get_state", &json!({"sessionId": self.session})),
            // Sometimes it does not even get that far.
            Some(_) if self.dice.roll(8) == 0 => request.truncate(request.len() / 2),
            Some(_) => {}
        }
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut left = bytes.unwrap_or(u64::MAX);
        let mut decoder = Decoder::with_framing(Framing::Lines, usize::MAX);
        let mut chunk = [0; 512];
        while left > 0 && request.ends_with('\n') {
            let most = usize::try_from(left.min(512)).unwrap();
            let read = bounded("more of the stream", stream.read(&mut chunk[..most])).await.unwrap();
            assert!(read > 0, "the daemon closed the connection");
            left -= read as u64;
            decoder.buffer().extend_from_slice(&chunk[..read]);
            while let Some(frame) = decoder.decode().unwrap() {
                let Frame::Message(message) = frame else { panic!("{frame:?}") };
                if self.take(&message, view) {
                    return;
                }
            }
        }
    }

    /// Takes a message; returns whether it is the last answer.
    fn take(&mut self, message: &[u8], view: View) -> bool {
        let mut message: Value = serde_json::from_slice(message).unwrap();
        match message["id"].as_u64() {
            None => {
                let params: EventParams = serde_json::from_value(message["params"].take()).unwrap();
                let held = self.held.as_mut().expect("no event comes before the attachment");
                assert!(matches!(held.apply(&params), Ok(Applied::Event | Applied::Snapshot)), "{params:?}");
            }
            Some(1) => {
                let answer: AttachResult = serde_json::from_value(message["result"].take()).expect("an attachment");
                self.attached(answer, view);
            }
            Some(_) => return true,
        }
        false
    }

    fn attached(&mut self, answer: AttachResult, view: View) {
        match &mut self.held {
            Some(held) if answer.replay == Replay::Exact => {
                if held.view == View::Status && view != View::Status {
                    // Of these it knows little.
                    (held.entries, held.before) = (Vec::new(), None);
                    self.is_partial = true;
                }
                assert_eq!(held.resume(answer), Ok(Applied::Seen));
                held.view = view;
            }
            held => {
                *held = Some(SessionView::new(answer, view));
                self.is_partial = false;
            }
        }
    }

    /// Compares what it has with the session.
    async fn check(&mut self, client: &mut Client) {
        self.live(None).await;
        let entries = client.ok("get_entries", json!({"sessionId": self.session, "branch": true})).await;
        let entries = entries["entries"].as_array().unwrap();
        let held = self.held.as_ref().unwrap();
        assert_eq!((held.state.status, &held.open, held.tools.len()), (SessionStatus::Idle, &None, 0));
        assert_eq!(
            held.state.leaf_id.as_ref().map(ToString::to_string).as_deref(),
            entries.last().unwrap()["id"].as_str()
        );
        if held.view == View::Status {
            return;
        }
        if held.before.is_none() && !self.is_partial {
            assert_eq!(held.entries.len(), entries.len());
        }
        for (own, entry) in held.entries.iter().rev().zip(entries.iter().rev()) {
            assert_eq!(own.id.as_str(), entry["id"].as_str().unwrap());
            if let Some(message) = own.message() {
                let content = serde_json::to_value(message).unwrap()["content"].take();
                assert_eq!(content, entry["message"]["content"], "{}", own.id);
            }
        }
    }
}

async fn play(daemon: &Daemon, case: u64) {
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    let is_over = AtomicBool::new(false);
    let reader = |number: u64| Reader {
        socket: daemon.home().socket(),
        session: session.clone(),
        dice: Dice((case * 3 + number).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
        held: None,
        is_partial: false,
    };
    let read = async |mut reader: Reader| {
        while !is_over.load(Ordering::Relaxed) {
            let bytes = 1 + reader.dice.roll(12_000);
            // What is not there yet is not waited for: the cut comes all the same.
            let pause = std::time::Duration::from_millis(1 + reader.dice.roll(30));
            drop(tokio::time::timeout(pause, reader.live(Some(bytes))).await);
        }
        reader
    };
    let run = async {
        client.run("go").await;
        is_over.store(true, Ordering::Relaxed);
    };
    let ((), mut one, mut two, mut three) = tokio::join!(run, read(reader(0)), read(reader(1)), read(reader(2)));
    for reader in [&mut one, &mut two, &mut three] {
        reader.check(&mut client).await;
    }
}

#[tokio::test]
async fn clients_that_are_cut_at_any_byte_end_with_the_session() {
    let words: String = (0..24).map(|number| format!("w{number}é\u{2028}\" ")).collect();
    let call = json!({"blocks": [{"text": words}, {"tool": "bash", "args": {"command": "echo one; echo two"}}],
        "chunk": 9, "delay_ms": 1});
    let server =
        ModelServer::start(json!({"replies": [call, {"text": words, "chunk": 5, "delay_ms": 1}], "loop": true}));
    let daemon = Daemon::start(Home::with_models(&server));
    for case in 0..CASES {
        play(&daemon, case).await;
    }
}
