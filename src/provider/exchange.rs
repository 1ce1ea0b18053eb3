//! One request to a provider: sent, read to its end, its faults told apart. What a dialect does in its own way is
//! behind [`Dialect`]; connections, clocks, cancelling and the order of things are the same for all.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::client::{ModelRequest, send};
use super::error::{ErrorClass, ProviderError};
use super::http::{BodyFault, Connections, Post, add_header, error_body, next_bytes};
use super::keys::KeyRing;
use super::known_keys::is_telling;
use super::reader::{Decode, Flow, Reader};
use super::retry_after::retry_after;
use super::secret::Secret;
use super::spec::ModelSpec;
use super::stream::StreamEvent;
use crate::clock;
use crate::config::ProviderClocks;

/// Longest wait for the end of a body after `[DONE]`: a new connection costs more, a person notices no less.
const LINGER: Duration = Duration::from_millis(2);

/// What a dialect does in its own way.
pub(super) trait Dialect {
    /// Decodes its responses.
    type Decoder: Decode;

    /// Headers by which a request may authenticate. Where the configuration sets one of them, the key is not added.
    const AUTH_HEADERS: &'static [&'static str];
    /// Header whose configured value is added to ours behind a comma, instead of replacing it.
    const JOINED_HEADER: Option<&'static str>;
    /// Header of answers in which the provider names the request, for its support.
    const REQUEST_ID_HEADER: Option<&'static str>;

    /// Returns where requests of a model go.
    fn url(model_base: &str) -> Result<Url, ProviderError>;

    /// Returns the header that carries the key.
    fn auth(request: &ModelRequest, key: &Secret) -> (&'static str, Secret);

    /// Returns further headers; configured ones of the same name win.
    fn headers(request: &ModelRequest, key: &Secret) -> Vec<(&'static str, String)>;

    /// Returns the body of a request.
    fn body(request: &ModelRequest) -> Vec<u8>;

    /// Returns a decoder. `id_seed` goes into the ids of calls that come without one; `secrets` are hidden in error
    /// texts.
    fn decoder(spec: Arc<ModelSpec>, id_seed: String, secrets: Vec<Secret>) -> Self::Decoder;

    /// Returns what an answer with a status of failure means.
    fn refusal(status: u16, body: &str, retry_after: Option<Duration>, secrets: &[Secret]) -> ProviderError;
}

/// Asks a model and passes on its answer.
pub(super) async fn stream<D: Dialect>(
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
        url: D::url(&request.spec.model.base_url)?,
        headers: header_map::<D>(request, &key, &headers)?,
        body: D::body(request),
    };
    let deadline = Instant::now() + request.clocks.first_event;
    let mut response = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(ProviderError::cancelled()),
        // Dropping the request closes its connection.
        response = connections.post(post, &request.env, &request.clocks, deadline) => response?,
    };
    if !response.status().is_success() {
        let error = failure::<D>(&mut response, &secrets, cancel).await?;
        if error.class == ErrorClass::Auth {
            keys.forget(&request.spec);
        }
        return Err(error);
    }
    send(events, vec![StreamEvent::Started], cancel).await?;
    let seed = Uuid::new_v4().simple().to_string();
    let decoder = D::decoder(Arc::clone(&request.spec), seed[..12].to_owned(), secrets);
    read(&request.clocks, response, Reader::new(decoder), deadline, events, cancel).await
}

/// Reads the body to its end.
async fn read(
    clocks: &ProviderClocks,
    mut response: Response,
    mut reader: Reader<impl Decode>,
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
            Err(BodyFault::TimedOut) => break Some(silence(clocks, seen)),
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
            deadline = Instant::now() + clocks.idle;
        }
        if Instant::now() >= deadline {
            // Comments may keep bytes coming for ever.
            break Some(silence(clocks, seen));
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

fn silence(clocks: &ProviderClocks, seen: u64) -> ProviderError {
    let (what, limit) = if seen == 0 { ("no event", clocks.first_event) } else { ("no further event", clocks.idle) };
    ProviderError::timed_out(&format!("{what} from the provider within {} s", limit.as_secs()))
}

async fn failure<D: Dialect>(
    response: &mut Response,
    secrets: &[Secret],
    cancel: &CancellationToken,
) -> Result<ProviderError, ProviderError> {
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let wait = retry_after(header, clock::now_ms());
    let request_id = D::REQUEST_ID_HEADER.and_then(header).map(str::to_owned);
    let body = error_body(response, cancel).await?;
    let error = D::refusal(status, &body, wait, secrets);
    Ok(match request_id {
        Some(id) if !error.message.contains(&id) => error.with_request_id(&id),
        _ => error,
    })
}

fn header_map<D: Dialect>(
    request: &ModelRequest,
    key: &Secret,
    configured: &[(String, Secret)],
) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    // A compressed stream would come in the compressor's pieces, not in the model's.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, value) in D::headers(request, key) {
        add_header(&mut headers, name, &Secret::new(value))?;
    }
    let (auth_name, auth) = D::auth(request, key);
    let is_auth = |(name, _): &&(String, Secret)| D::AUTH_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known));
    let is_forced = request.spec.provider.auth_header;
    let is_needed = is_forced || !configured.iter().any(|header| is_auth(&header));
    if is_needed && !key.expose().is_empty() {
        add_header(&mut headers, auth_name, &auth)?;
    }
    for (name, value) in configured.iter().filter(|header| !(is_forced && is_auth(header))) {
        let is_joined = D::JOINED_HEADER.is_some_and(|joined| name.eq_ignore_ascii_case(joined));
        let ours = headers.get(name.as_str()).and_then(|ours| ours.to_str().ok()).filter(|_| is_joined);
        match ours.map(|ours| Secret::new(format!("{ours},{}", value.expose()))) {
            Some(joined) => add_header(&mut headers, name, &joined)?,
            None => add_header(&mut headers, name, value)?,
        }
    }
    Ok(headers)
}

/// What must not be repeated in error texts: the key, and values of headers that look like one.
fn secrets(key: &Secret, headers: &[(String, Secret)]) -> Vec<Secret> {
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
