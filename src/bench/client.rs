//! A blocking client that costs next to nothing: lines are counted, not decoded, except for answers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use agentd_protocol::methods::Method;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::BenchError;

/// How every notification begins.
const NOTIFICATION: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":";
/// Longest silence that is waited out.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 256 * 1024;

/// One connection to the daemon.
pub(super) struct Client {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
    line: Vec<u8>,
    last_id: u64,
}

/// An answer.
#[derive(Deserialize)]
pub(super) struct Answer {
    /// Which request it answers.
    #[serde(default)]
    pub(super) id: Option<u64>,
    result: Option<Box<RawValue>>,
    error: Option<AnswerError>,
}

#[derive(Deserialize)]
struct AnswerError {
    message: String,
}

/// What a client saw of a stream.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Everything read, line ends included.
    pub(super) bytes: u64,
    /// Text in deltas.
    pub(super) text_bytes: u64,
    /// Events with deltas.
    pub(super) delta_events: u64,
    /// Times that the daemon replaced events by a snapshot.
    pub(super) lagged: u64,
    /// When the first delta of each session came.
    pub(super) first_deltas: HashMap<String, Instant>,
    settled: usize,
}

impl Client {
    /// Connects.
    pub(super) fn connect(socket: &Path) -> Result<Self, BenchError> {
        let fail = || BenchError::io("connect to the daemon");
        let writer = UnixStream::connect(socket).map_err(fail())?;
        writer.set_read_timeout(Some(SILENCE_LIMIT)).map_err(fail())?;
        let reader = BufReader::with_capacity(READ_BYTES, writer.try_clone().map_err(fail())?);
        Ok(Self { writer, reader, line: Vec::new(), last_id: 0 })
    }

    /// Sends a request and waits for its answer; events that come before it are passed over.
    pub(super) fn call<M: Method>(&mut self, params: &M::Params) -> Result<M::Result, BenchError> {
        let id = self.send::<M>(params)?;
        loop {
            self.next_line()?;
            let Some(answer) = answer_in(&self.line)? else { continue };
            if answer.id == Some(id) {
                let result = answer.into_result(M::NAME)?;
                return serde_json::from_str(result.get())
                    .map_err(|source| BenchError::Decode { what: format!("answer to {}", M::NAME), source });
            }
        }
    }

    /// Sends a request and returns its id.
    pub(super) fn send<M: Method>(&mut self, params: &M::Params) -> Result<u64, BenchError> {
        let mut line = Vec::new();
        let id = self.encode::<M>(params, &mut line)?;
        self.write(&line)?;
        Ok(id)
    }

    /// Appends a request to `out`, for one write of many.
    pub(super) fn encode<M: Method>(&mut self, params: &M::Params, out: &mut Vec<u8>) -> Result<u64, BenchError> {
        self.last_id += 1;
        let params = serde_json::to_string(params)
            .map_err(|source| BenchError::Decode { what: format!("request {}", M::NAME), source })?;
        let id = self.last_id;
        out.extend_from_slice(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{}\",\"params\":{params}}}\n", M::NAME).as_bytes(),
        );
        Ok(id)
    }

    /// Writes bytes as they are.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.writer.write_all(bytes).map_err(BenchError::io("write to the daemon"))
    }

    /// Returns a second handle for writing.
    pub(super) fn try_clone_writer(&self) -> Result<UnixStream, BenchError> {
        self.writer.try_clone().map_err(BenchError::io("use the connection"))
    }

    /// Waits for the next answer; events are passed over.
    pub(super) fn next_answer(&mut self) -> Result<Answer, BenchError> {
        loop {
            self.next_line()?;
            if let Some(answer) = answer_in(&self.line)? {
                return Ok(answer);
            }
        }
    }

    /// Reads events until `sessions` runs have settled.
    pub(super) fn watch(&mut self, sessions: usize) -> Result<Seen, BenchError> {
        let mut seen = Seen::default();
        while seen.settled < sessions {
            self.next_line()?;
            match answer_in(&self.line)? {
                // That of a prompt, which is awaited only for its error.
                Some(answer) => drop(answer.into_result("prompt")?),
                None => seen.take(&self.line, sessions)?,
            }
        }
        Ok(seen)
    }

    fn next_line(&mut self) -> Result<(), BenchError> {
        self.line.clear();
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(0) => Err(BenchError::Closed),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(BenchError::TooSlow { what: "the daemon's next message", limit: SILENCE_LIMIT })
            }
            Err(error) => Err(BenchError::io("read from the daemon")(error)),
        }
    }
}

impl Answer {
    fn into_result(self, method: &str) -> Result<Box<RawValue>, BenchError> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(result),
            (_, error) => Err(BenchError::Refused {
                method: method.to_owned(),
                message: error.map_or_else(|| "no result".to_owned(), |error| error.message),
            }),
        }
    }
}

impl Seen {
    /// Counts one event.
    ///
    /// # Errors
    /// [`BenchError::Run`] when a run has ended otherwise than with an answer: its cost would be that of a failure.
    fn take(&mut self, line: &[u8], sessions: usize) -> Result<(), BenchError> {
        self.bytes += line.len() as u64;
        if let Some(text) = text_after(line, b"\"delta\":\"") {
            self.text_bytes += text.len() as u64;
            self.delta_events += 1;
            if self.first_deltas.len() < sessions {
                let session = text_after(line, b"\"sessionId\":\"").unwrap_or_default();
                let session = String::from_utf8_lossy(session).into_owned();
                self.first_deltas.entry(session).or_insert_with(Instant::now);
            }
        } else if memmem::find(line, b"\"type\":\"agent_settled\"").is_some() {
            if memmem::find(line, b"\"reason\":\"done\"").is_none() {
                return Err(BenchError::Run { how: String::from_utf8_lossy(line).trim().to_owned() });
            }
            self.settled += 1;
        } else if memmem::find(line, b"\"type\":\"lagged\"").is_some() {
            self.lagged += 1;
        }
        Ok(())
    }
}

/// Returns what follows `key` up to the next quote; the texts looked for hold no escapes.
fn text_after<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[memmem::find(line, key)? + key.len()..];
    Some(&rest[..memchr::memchr(b'"', rest)?])
}

/// Reads a line as an answer; `None` for a notification.
fn answer_in(line: &[u8]) -> Result<Option<Answer>, BenchError> {
    if line.starts_with(NOTIFICATION) {
        return Ok(None);
    }
    serde_json::from_slice(line).map(Some).map_err(|source| BenchError::Decode { what: "answer".to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_counted() {
        let mut seen = Seen::default();
        let lines: [&[u8]; 3] = [
            b"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"sessionId\":\"a\",\"seq\":1,\"event\":{\"delta\":\"quick\"}}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"sessionId\":\"b\",\"seq\":1,\"event\":{\"delta\":\"brown \"}}}\n",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"event\":{\"type\":\"agent_settled\",\"reason\":\"done\"}}}\n",
        ];
        for line in lines {
            assert!(answer_in(line).unwrap().is_none());
            seen.take(line, 2).unwrap();
        }
        assert_eq!((seen.text_bytes, seen.delta_events, seen.settled, seen.lagged), (11, 2, 1, 0));
        assert_eq!(seen.bytes, lines.iter().map(|line| line.len() as u64).sum::<u64>());
        assert_eq!(seen.first_deltas.len(), 2);
    }

    #[test]
    fn a_run_that_failed_is_no_measurement() {
        let line =
            b"{\"params\":{\"event\":{\"type\":\"agent_settled\",\"reason\":\"error\",\"errorMessage\":\"no\"}}}\n";
        assert!(matches!(Seen::default().take(line, 1), Err(BenchError::Run { .. })));
    }

    #[test]
    fn answers_are_told_from_events() {
        let answer =
            answer_in(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":1,\"message\":\"no\"}}").unwrap().unwrap();
        assert_eq!(answer.id, Some(7));
        assert!(matches!(answer.into_result("x"), Err(BenchError::Refused { message, .. }) if message == "no"));
    }
}
