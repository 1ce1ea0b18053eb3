//! As much HTTP/1.1 as the server needs: reading a request, writing a plain answer or a chunk.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// A request as it came.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Reads a request; `None` when the client has closed the connection.
pub(crate) async fn read(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Request>> {
    let Some(line) = read_line(reader).await? else { return Ok(None) };
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    while let Some(line) = read_line(reader).await?.filter(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let body = if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        read_chunked(reader).await?
    } else {
        let length = header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        read_exactly(reader, length).await?
    };
    Ok(Some(Request { method, path, headers, body }))
}

async fn read_line(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).await?;
    Ok((read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}

async fn read_chunked(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(line) = read_line(reader).await? {
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16).map_err(io::Error::other)?;
        let piece = read_exactly(reader, size + 2).await?;
        if size == 0 {
            break;
        }
        body.extend_from_slice(&piece[..size]);
    }
    Ok(body)
}

async fn read_exactly(reader: &mut BufReader<OwnedReadHalf>, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    reader.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Returns once the client has closed its side, and never while it is only silent.
pub(crate) async fn closed(reader: &mut BufReader<OwnedReadHalf>) {
    loop {
        match reader.fill_buf().await {
            Ok([]) | Err(_) => return,
            // The next request, sent early; it is read once this one is done.
            Ok(_) => std::future::pending::<()>().await,
        }
    }
}

/// Writes an answer that is not a stream: text as it stands, any other value as JSON.
pub(crate) async fn plain<'a>(
    writer: &mut OwnedWriteHalf,
    status: u16,
    headers: impl Iterator<Item = (&'a String, &'a Value)>,
    body: &Value,
) -> io::Result<()> {
    let (kind, body) = match body {
        Value::String(text) => ("text/plain", text.clone()),
        Value::Null => ("text/plain", String::new()),
        other => ("application/json", other.to_string()),
    };
    let mut answer = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str("\r\n");
    answer.push_str(&body);
    writer.write_all(answer.as_bytes()).await
}

/// Writes one chunk of a chunked body in one socket write; an empty one ends the body.
pub(crate) async fn chunk(writer: &mut OwnedWriteHalf, data: &[u8]) -> io::Result<()> {
    let mut framed = format!("{:x}\r\n", data.len()).into_bytes();
    framed.extend_from_slice(data);
    framed.extend_from_slice(b"\r\n");
    writer.write_all(&framed).await
}
