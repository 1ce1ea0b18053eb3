//! One connection as its client holds it: a pipe that takes and gives bytes only when the case says so.

use agentd_protocol::framing::{Decoder, Frame, Framing};
use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::world::World;

/// See the module.
pub(super) struct Wire {
    read: ReadHalf<DuplexStream>,
    write: WriteHalf<DuplexStream>,
    framing: Framing,
    decoder: Decoder,
    /// What has not left the client yet.
    unsent: Vec<u8>,
    last_id: u64,
    /// The client sends no more.
    pub(super) is_half: bool,
    /// The daemon sends no more.
    pub(super) has_ended: bool,
}

impl Wire {
    pub(super) fn new(world: &World, pipe: usize, framing: Framing) -> Self {
        let (ours, theirs) = duplex(pipe);
        let server = world.server.clone();
        drop(world.tasks.spawn("connection", async move { server.serve(theirs, None).await }));
        let (read, write) = split(ours);
        let decoder = Decoder::with_framing(framing, usize::MAX);
        Self { read, write, framing, decoder, unsent: Vec::new(), last_id: 0, is_half: false, has_ended: false }
    }

    /// Has something to ask; returns the request's id.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.framing.encode(request.to_string().as_bytes(), &mut self.unsent);
        self.last_id
    }

    /// Sends so many bytes, as far as the pipe takes them.
    pub(super) fn send(&mut self, bytes: usize) {
        let bytes = bytes.min(self.unsent.len());
        if bytes > 0
            && !self.is_half
            && let Some(Ok(sent)) = self.write.write(&self.unsent[..bytes]).now_or_never()
        {
            self.unsent.drain(..sent);
        }
    }

    /// Tells whether all has been sent.
    pub(super) fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Sends no more, also what was begun.
    pub(super) fn finish(&mut self) {
        self.is_half = true;
        drop(self.write.shutdown().now_or_never());
    }

    /// Reads at most so many bytes, as far as they are there; returns how many, and the messages that they complete.
    pub(super) fn read(&mut self, bytes: usize) -> (usize, Vec<Bytes>) {
        let mut left = bytes;
        let mut chunk = [0; 4096];
        while left > 0 {
            let most = left.min(chunk.len());
            match self.read.read(&mut chunk[..most]).now_or_never() {
                None => break,
                Some(Ok(0)) => {
                    self.has_ended = true;
                    break;
                }
                Some(read) => {
                    let read = read.unwrap();
                    self.decoder.buffer().extend_from_slice(&chunk[..read]);
                    left -= read;
                }
            }
        }
        let mut messages = Vec::new();
        while let Some(frame) = self.decoder.decode().unwrap() {
            let Frame::Message(message) = frame else { panic!("{frame:?}") };
            messages.push(message);
        }
        (bytes - left, messages)
    }
}
