//! One Chat Completions request: sent, read to its end, its faults told apart.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::client::{ModelRequest, send};
use super::error::{ErrorClass, ProviderError};
use super::http::{BodyFault, Connections, Post, add_header, error_body, join, next_bytes};
use super::keys::KeyRing;
use super::openai_completions::decode::{Decoder, Flow};
use super::openai_completions::reader::Reader;
use super::openai_completions::request;
use super::retry_after::retry_after;
use super::secret::Secret;
use super::stream::StreamEvent;
use crate::clock;

/// Longest wait for the end of a body after `[DONE]`: a new connection costs more, a person notices no less.
const LINGER: Duration = Duration::from_millis(2);

/// Asks a model and passes on its answer.
pub(super) async fn stream(
    connections: &Connections,
    keys: &KeyRing,
    request: &ModelRequest,
    events: &mpsc::Sender<Vec<StreamEvent>>,
    cancel: &CancellationToken,
) -> Result<(), ProviderError> {
    let key = keys.key(&request.spec, &request.env, cancel).await?;
    let headers = keys.headers(&request.spec, &request.env, cancel).await?;
    let secrets = secrets(&key, &headers);
    let post = Post {
        url: url(request)?,
        headers: header_map(request, &key, &headers)?,
        body: request::body(&request.spec, &request.messages, request.thinking),
    };
    let deadline = Instant::now() + connections.clocks.first_event;
    let mut response = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(ProviderError::cancelled()),
        // Dropping the request closes its connection.
        response = connections.post(post, &request.env, deadline) => response?,
    };
    if !response.status().is_success() {
        let error = failure(&mut response, &secrets, cancel).await?;
        if error.class == ErrorClass::Auth {
            keys.forget(&request.spec);
        }
        return Err(error);
    }
    send(events, vec![StreamEvent::Started], cancel).await?;
    let seed = Uuid::new_v4().simple().to_string();
    let decoder = Decoder::new(Arc::clone(&request.spec), seed[..12].to_owned(), secrets);
    read(connections, response, Reader::new(decoder), deadline, events, cancel).await
}

/// Reads the body to its end.
async fn read(
    connections: &Connections,
    mut response: Response,
    mut reader: Reader,
    mut deadline: Instant,
    events: &mpsc::Sender<Vec<StreamEvent>>,
    cancel: &CancellationToken,
) -> Result<(), ProviderError> {
    let is_json = is_json(&response);
    let mut seen = 0;
    let cut = loop {
        let bytes = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled()),
            // Nothing is lost: a cancelled response is over.
            bytes = next_bytes(&mut response, deadline) => bytes,
        };
        let bytes = match bytes {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break None,
            Err(BodyFault::Cut(error)) => break Some(error),
            Err(BodyFault::TimedOut) => break Some(silence(connections, seen)),
        };
        let mut batch = Vec::new();
        let flow = if is_json { reader.keep(&bytes) } else { reader.push(&bytes, &mut batch) };
        // What came before a fault stands.
        send(events, batch, cancel).await?;
        if flow? == Flow::Done {
            linger(&mut response).await;
            break None;
        }
        if reader.events() > seen {
            // Counted from here, so that a busy receiver does not count as a silent provider.
            seen = reader.events();
            deadline = Instant::now() + connections.clocks.idle;
        }
        if Instant::now() >= deadline {
            // Comments may keep bytes coming for ever.
            break Some(silence(connections, seen));
        }
    };
    let mut batch = Vec::new();
    let ended = reader.end(cut, &mut batch);
    send(events, batch, cancel).await?;
    ended
}

/// Lets a body end that has said all: only then can its connection be used again. Usually the end is there already.
async fn linger(response: &mut Response) {
    let deadline = Instant::now() + LINGER;
    // The limit is looked at here too: bytes that are always there would never meet it.
    while Instant::now() < deadline && matches!(next_bytes(response, deadline).await, Ok(Some(_))) {}
}

fn silence(connections: &Connections, seen: u64) -> ProviderError {
    let clocks = &connections.clocks;
    let (what, limit) = if seen == 0 { ("no event", clocks.first_event) } else { ("no further event", clocks.idle) };
    ProviderError::timed_out(&format!("{what} from the provider within {} s", limit.as_secs()))
}

async fn failure(
    response: &mut Response,
    secrets: &[Secret],
    cancel: &CancellationToken,
) -> Result<ProviderError, ProviderError> {
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let wait = retry_after(header, clock::now_ms());
    let body = error_body(response, cancel).await?;
    Ok(ProviderError::from_response(status, &body, wait, secrets))
}

fn url(request: &ModelRequest) -> Result<Url, ProviderError> {
    join(&request.spec.model.base_url, "chat/completions")
}

fn header_map(
    request: &ModelRequest,
    key: &Secret,
    configured: &[(String, Secret)],
) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    // A compressed stream would come in the compressor's pieces, not in the model's.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let is_own = |(name, _): &(String, Secret)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
    let is_needed = request.spec.provider.auth_header || !configured.iter().any(is_own);
    if is_needed && !key.expose().is_empty() {
        add_header(&mut headers, AUTHORIZATION.as_str(), &Secret::new(format!("Bearer {}", key.expose())))?;
    }
    for (name, value) in configured.iter().filter(|header| !(is_own(header) && request.spec.provider.auth_header)) {
        add_header(&mut headers, name, value)?;
    }
    Ok(headers)
}

/// What must not be repeated in error texts: the key, and values of headers that look like one.
fn secrets(key: &Secret, headers: &[(String, Secret)]) -> Vec<Secret> {
    let is_telling = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
    };
    let values = headers.iter().filter(|(name, _)| is_telling(name)).map(|(_, value)| {
        let text = value.expose();
        // "Bearer x" is repeated as "x".
        Secret::new(text.strip_prefix("Bearer ").unwrap_or(text))
    });
    std::iter::once(key.clone()).chain(values).filter(|secret| !secret.expose().is_empty()).collect()
}

fn is_json(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

#[cfg(test)]
mod tests;
