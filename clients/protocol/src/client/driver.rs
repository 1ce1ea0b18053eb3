//! The future between a [`Client`](super::Client) and its stream: writes what is sent, reads and sorts what comes.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::framing::{Decoder, Frame, FrameReader, Framing, ReadError};

use super::{Item, Notification, Outgoing, RpcError, SharedRequests, lock};

/// Messages that are joined into one write.
const WRITE_BATCH: usize = 64;
/// Largest message of the daemon, in bytes: only something that is no daemon sends more.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024 * 1024;

/// Moves the bytes of one connection; see [`Client::new`](super::Client::new).
pub struct Driver<R, W> {
    frames: FrameReader<R>,
    writer: W,
    outgoing: mpsc::Receiver<Outgoing>,
    items: mpsc::Sender<Item>,
    requests: SharedRequests,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Driver<R, W> {
    pub(super) fn new(
        reader: R,
        writer: W,
        outgoing: mpsc::Receiver<Outgoing>,
        items: mpsc::Sender<Item>,
        requests: SharedRequests,
    ) -> Self {
        let frames = FrameReader::new(reader, Decoder::with_framing(Framing::Lines, MAX_MESSAGE_BYTES));
        Self { frames, writer, outgoing, items, requests }
    }

    /// Runs until either side closes the connection. Waiting requests then fail, and the events end.
    pub async fn run(self) {
        let Self { mut frames, mut writer, mut outgoing, items, requests } = self;
        // Reading and writing must not wait for each other: the daemon may be blocked on writing to us while we are
        // blocked on writing to it. Neither half is resumed after the other has ended, so losing its work is fine.
        let outcome = tokio::select! {
            outcome = read(&mut frames, &items, &requests) => outcome,
            outcome = write(&mut writer, &mut outgoing) => outcome,
        };
        let mut requests = lock(&requests);
        requests.closed = true;
        requests.cause = outcome.err().map(Arc::new);
        // Dropping the senders wakes the callers.
        requests.waiting.clear();
    }
}

async fn read<R: AsyncRead + Unpin>(
    frames: &mut FrameReader<R>,
    items: &mpsc::Sender<Item>,
    requests: &SharedRequests,
) -> io::Result<()> {
    while let Some(frame) = frames.next().await.map_err(io_error)? {
        let message = match frame {
            Frame::Message(message) => message,
            Frame::NotUtf8 | Frame::Truncated => continue,
            // It may have been the answer that somebody waits for.
            Frame::TooLong => return Err(io::Error::other(format!("a message of over {MAX_MESSAGE_BYTES} bytes"))),
        };
        let item = match sort(&message) {
            Some(Incoming::Notification(notification)) => Item::Notification(notification),
            Some(Incoming::Answer { id, answer }) => {
                // Forgotten answers and ids that were never sent harm nobody.
                let Some(waiting) = lock(requests).waiting.remove(&id) else { continue };
                let _ = waiting.answer.send(answer);
                if !waiting.ordered {
                    continue;
                }
                Item::Answered(id)
            }
            None => continue,
        };
        // An error means that the program does not want events.
        let _ = items.send(item).await;
    }
    Ok(())
}

fn io_error(error: ReadError) -> io::Error {
    match error {
        ReadError::Io(error) => error,
        ReadError::Framing(error) => io::Error::other(error),
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, outgoing: &mut mpsc::Receiver<Outgoing>) -> io::Result<()> {
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    let mut open = true;
    while open {
        open = outgoing.recv_many(&mut batch, WRITE_BATCH).await > 0;
        let mut bytes = BytesMut::new();
        for message in batch.drain(..) {
            match message {
                Outgoing::Frame(frame) if open => bytes.extend_from_slice(&frame),
                // Sent after the wish to close: the caller learns that the connection closed.
                Outgoing::Frame(_) => {}
                Outgoing::Close => open = false,
            }
        }
        writer.write_all_buf(&mut bytes).await?;
        writer.flush().await?;
    }
    // The stream is closed by its drop in any case.
    let _ = writer.shutdown().await;
    Ok(())
}

enum Incoming {
    Notification(Notification),
    Answer { id: u64, answer: super::RawAnswer },
}

/// Tells what a message is. One that is none of the wire's is skipped: an odd line must not end a connection.
fn sort(message: &[u8]) -> Option<Incoming> {
    #[derive(Deserialize)]
    struct Frame<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let frame: Frame<'_> = serde_json::from_slice(message).ok()?;
    if let Some(method) = frame.method {
        let params = frame.params.unwrap_or(RawValue::NULL).to_owned();
        return Some(Incoming::Notification(Notification { method: method.into_owned(), params }));
    }
    let id = frame.id?.get().parse().ok()?;
    let answer = match frame.error {
        Some(error) => Err(serde_json::from_str(error.get()).unwrap_or_else(|_| odd_error(error))),
        // `"result": null` reads as no result.
        None => Ok(frame.result.unwrap_or(RawValue::NULL).to_owned()),
    };
    Some(Incoming::Answer { id, answer })
}

/// Makes an error of one that is not shaped as the specification says: the caller must not wait for ever.
fn odd_error(error: &RawValue) -> RpcError {
    RpcError { code: 0, message: error.get().to_owned(), data: None }
}
