//! A model server on loopback that says what the measurement wants, in the pieces that it wants.
//!
//! It speaks just enough HTTP/1.1 and OpenAI Chat Completions: a request is read, whatever it asks, and the current
//! [`Script`] is played as server-sent events in chunks. Bodies are made beforehand, so that playing costs little.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::BenchError;

/// What words of 5 to 9 bytes a long answer is made of.
const WORDS: [&str; 5] = ["quick", "brown ", "foxes j", "ump over", "the dogs "];
const ANSWER_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
/// A request of a bench session is a few kilobytes.
const MAX_REQUEST_BYTES: u64 = 16 * 1024 * 1024;

/// What the model answers, as the writes in which it is sent.
#[derive(Debug)]
pub(super) struct Script {
    writes: Vec<Vec<u8>>,
    /// Time from the start of one write to that of the next; as fast as it is taken when `None`.
    pace: Option<Duration>,
    /// Bytes of text in the answer.
    pub(super) text_bytes: u64,
}

impl Script {
    /// One word, in one write.
    pub(super) fn word() -> Self {
        let mut body = chunk(&[opening(), text_delta("Yes"), closing(1)].concat());
        body.extend_from_slice(b"0\r\n\r\n");
        Self { writes: vec![[ANSWER_HEAD, &body].concat()], pace: None, text_bytes: 3 }
    }

    /// `count` deltas, `per_write` of them in each write.
    pub(super) fn deltas(count: usize, per_write: usize, pace: Option<Duration>) -> Self {
        let words: Vec<&str> = WORDS.iter().copied().cycle().take(count).collect();
        let mut writes = vec![[ANSWER_HEAD, &chunk(&opening())].concat()];
        writes.extend(words.chunks(per_write).map(|words| {
            let deltas: Vec<Vec<u8>> = words.iter().map(|word| text_delta(word)).collect();
            chunk(&deltas.concat())
        }));
        let mut last = chunk(&closing(count));
        last.extend_from_slice(b"0\r\n\r\n");
        writes.push(last);
        Self { writes, pace, text_bytes: words.iter().map(|word| word.len() as u64).sum() }
    }

    fn play(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let started = Instant::now();
        for (number, write) in (0u32..).zip(&self.writes) {
            if let Some(pace) = self.pace {
                // Counted from the start: a write that comes late does not make the later ones late as well.
                std::thread::sleep((pace * number).saturating_sub(started.elapsed()));
            }
            stream.write_all(write)?;
        }
        Ok(())
    }
}

fn event(delta: &str, finish: &str) -> Vec<u8> {
    format!(
        "data: {{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"scripted\",\
         \"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{finish}}}]}}\n\n"
    )
    .into_bytes()
}

fn opening() -> Vec<u8> {
    event("\"role\":\"assistant\",\"content\":\"\"", "null")
}

fn text_delta(text: &str) -> Vec<u8> {
    event(&format!("\"content\":\"{text}\""), "null")
}

fn closing(tokens: usize) -> Vec<u8> {
    let mut out = event("", "\"stop\"");
    let usage = format!(
        "data: {{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"scripted\",\
         \"choices\":[],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{tokens},\"total_tokens\":{}}}}}\n\n\
         data: [DONE]\n\n",
        tokens + 10
    );
    out.extend_from_slice(usage.as_bytes());
    out
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

/// A model server. Its threads live as long as the program.
pub(super) struct ModelServer {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    script: Arc<Script>,
    /// How long the last answer took, from the request's last byte to the answer's.
    busy: Duration,
}

impl ModelServer {
    /// Begins to listen.
    pub(super) fn start() -> Result<Self, BenchError> {
        let fail = || BenchError::io("start the model server");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fail())?;
        let address = listener.local_addr().map_err(fail())?;
        let shared = Arc::new(Mutex::new(Shared { script: Arc::new(Script::word()), busy: Duration::ZERO }));
        let serving = Arc::clone(&shared);
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                // The daemon sees a connection that is not served as a failed request.
                let _ = std::thread::Builder::new().name("model".into()).spawn(move || serve(stream, &shared));
            }
        };
        std::thread::Builder::new().name("models".into()).spawn(accept).map_err(fail())?;
        Ok(Self { address, shared })
    }

    /// Returns the base URL of its API.
    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Chooses what the next requests are answered.
    pub(super) fn set(&self, script: Script) -> Arc<Script> {
        let script = Arc::new(script);
        lock(&self.shared).script = Arc::clone(&script);
        script
    }

    /// Returns how long the last answer took, from the request's last byte to the answer's.
    pub(super) fn last_busy(&self) -> Duration {
        lock(&self.shared).busy
    }
}

/// Nothing that holds the lock can panic half-way.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the requests of one connection until the other side leaves.
fn serve(stream: TcpStream, shared: &Mutex<Shared>) {
    let Ok(mut writer) = stream.try_clone() else { return };
    // Otherwise the system would hold back a small delta until the one before is acknowledged.
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while read_request(&mut reader).unwrap_or(false) {
        let started = Instant::now();
        let script = Arc::clone(&lock(shared).script);
        if script.play(&mut writer).is_err() {
            return;
        }
        lock(shared).busy = started.elapsed();
    }
}

/// Reads one request to its end. `false` when there is none any more.
fn read_request(reader: &mut impl BufRead) -> std::io::Result<bool> {
    let mut length = 0u64;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut reader.take(length.min(MAX_REQUEST_BYTES)), &mut std::io::sink())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"POST /v1/x HTTP/1.1\r\ncontent-LENGTH: 2\r\n\r\n{}").unwrap();
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while !answer.ends_with(b"0\r\n\r\n") {
            let count = stream.read(&mut piece).unwrap();
            answer.extend_from_slice(&piece[..count]);
        }
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_connection_is_answered_again_and_again() {
        let server = ModelServer::start().unwrap();
        let mut stream = TcpStream::connect(server.address).unwrap();
        assert!(ask(&mut stream).contains("\"content\":\"Yes\""));
        let script = server.set(Script::deltas(45, 20, Some(Duration::from_millis(1))));
        let answer = ask(&mut stream);
        assert_eq!(answer.matches("\"content\":\"").count(), 46, "one of them opens the message");
        assert_eq!(script.writes.len(), 5);
        assert!(answer.contains("data: [DONE]\n\n"));
    }

    #[test]
    fn chunks_have_their_lengths() {
        assert_eq!(chunk(b"0123456789abcdef"), b"10\r\n0123456789abcdef\r\n");
    }

    #[test]
    fn words_are_of_five_to_nine_bytes_and_need_no_escape() {
        assert!(WORDS.iter().all(|word| (5..=9).contains(&word.len()) && !word.contains(['"', '\\'])));
        assert_eq!(Script::deltas(10, 1, None).text_bytes, 70);
    }
}
