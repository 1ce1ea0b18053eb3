//! HTTP to providers: connections, time limits, and what network faults mean.
//!
//! Proxies come from the session's environment, never from the daemon's, so there is one pool of connections for
//! each setting. Redirects are not followed: they would carry keys to places that nobody configured.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use agentd_protocol::model::without_keys;
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{NoProxy, Proxy, Response, Url};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::{ErrorClass, ProviderError};
use super::secret::Secret;
use crate::config::ProviderClocks;
use crate::config::env::SessionEnv;
use crate::constants::{MAX_ERROR_BODY_BYTES, PROVIDER_CONNECT_TIMEOUT};

/// What pi says of a server that closes the connection.
const CLOSED: &str = "other side closed (UND_ERR_SOCKET)";
/// Longest time for the body of a failed request.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Most pools; sessions with ever new proxy settings must not pile them up.
const MAX_POOLS: usize = 16;
/// A connection without use is closed after this: an idle daemon should hold none.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// What decides which pool a request uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct PoolKey {
    is_tls: bool,
    http_proxy: Option<String>,
    https_proxy: Option<String>,
    no_proxy: Option<String>,
    /// Time until a connection stands.
    connect: Duration,
}

impl PoolKey {
    fn of(url: &Url, env: &SessionEnv, clocks: &ProviderClocks) -> Self {
        let get = |names: &[&str]| names.iter().find_map(|name| env.get(name)).map(str::to_owned);
        Self {
            is_tls: url.scheme() == "https",
            http_proxy: get(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
            https_proxy: get(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            no_proxy: get(&["no_proxy", "NO_PROXY"]),
            connect: clocks.connect,
        }
    }
}

/// All connections. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct Connections {
    pools: Arc<Mutex<HashMap<PoolKey, reqwest::Client>>>,
}

impl std::fmt::Debug for Connections {
    /// Proxy settings may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// A request, ready to be sent.
pub(super) struct Post {
    /// Where to.
    pub(super) url: Url,
    /// Its headers.
    pub(super) headers: HeaderMap,
    /// Its body, JSON.
    pub(super) body: Vec<u8>,
}

impl Connections {
    /// Sends a request and waits for the headers of its answer.
    ///
    /// # Errors
    /// When none come: [`ErrorClass::Transient`] for the network's faults, [`ErrorClass::BadRequest`] for settings that
    /// cannot work.
    pub(super) async fn post(
        &self,
        post: Post,
        env: &SessionEnv,
        clocks: &ProviderClocks,
        deadline: Instant,
    ) -> Result<Response, ProviderError> {
        let origin = post.url.origin().ascii_serialization();
        let client = self.client(PoolKey::of(&post.url, env, clocks))?;
        let request = client.post(post.url).headers(post.headers).body(post.body);
        match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_builder() => Err(ProviderError::new(
                ErrorClass::BadRequest,
                format!("cannot send a request to {origin}: {}", cause(&error)),
            )),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                let limit = clocks.connect.as_secs();
                Err(ProviderError::timed_out(&format!("no connection to {origin} within {limit} s")))
            }
            Ok(Err(error)) if is_closed(&error) => Err(ProviderError::connection(CLOSED)),
            Ok(Err(error)) => Err(ProviderError::connection(&format!("{origin}: {}", cause(&error)))),
            Err(_) => {
                let limit = clocks.first_event.as_secs();
                Err(ProviderError::timed_out(&format!("no answer from {origin} within {limit} s")))
            }
        }
    }

    /// Asks a server on this machine: GET, or POST with a JSON body. No proxy is used.
    ///
    /// # Errors
    /// When no answer comes in time.
    pub(super) async fn ask(
        &self,
        url: Url,
        body: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Response, ProviderError> {
        let client = self.client(PoolKey { connect: PROVIDER_CONNECT_TIMEOUT, ..PoolKey::default() })?;
        let request = match body {
            Some(body) => client.post(url).header(CONTENT_TYPE, "application/json").body(body),
            None => client.get(url),
        };
        match timeout_at(deadline, request.send()).await {
            Ok(answer) => answer.map_err(|error| ProviderError::connection(&cause(&error))),
            Err(_) => Err(ProviderError::timed_out("no answer")),
        }
    }

    fn client(&self, key: PoolKey) -> Result<reqwest::Client, ProviderError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = pools.get(&key) {
            return Ok(client.clone());
        }
        let client = build(&key)?;
        if pools.len() >= MAX_POOLS {
            // Requests under way keep their own.
            pools.clear();
        }
        pools.insert(key, client.clone());
        Ok(client)
    }
}

fn build(key: &PoolKey) -> Result<reqwest::Client, ProviderError> {
    static PROVIDER: Once = Once::new();
    // A second installation would only say that there is one.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(key.connect)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .user_agent(concat!("agentd/", env!("CARGO_PKG_VERSION")));
    if !key.is_tls {
        // Without TLS no certificates are needed: loading the system's costs milliseconds, and some have none.
        builder = builder.tls_certs_only([]);
    }
    let no_proxy = key.no_proxy.as_deref().and_then(NoProxy::from_string);
    for (variable, url, make) in [
        ("HTTP_PROXY", &key.http_proxy, (|url| Proxy::http(url)) as fn(&str) -> reqwest::Result<Proxy>),
        ("HTTPS_PROXY", &key.https_proxy, |url| Proxy::https(url)),
    ] {
        let Some(url) = url else { continue };
        // The value may hold a password, so it is not repeated.
        let proxy = make(url).map_err(|_| {
            let what = "of the session's environment is no address of an http or https proxy";
            ProviderError::new(ErrorClass::BadRequest, format!("{variable} (or ALL_PROXY) {what}"))
        })?;
        builder = builder.proxy(proxy.no_proxy(no_proxy.clone()));
    }
    builder.build().map_err(|error| {
        ProviderError::new(ErrorClass::BadRequest, format!("cannot set up connections: {}", cause(&error)))
    })
}

/// Joins a base URL and a path.
///
/// # Errors
/// When the base is no HTTP address. It is shown without what may be a password or a key.
pub(super) fn join(base: &str, path: &str) -> Result<Url, ProviderError> {
    let parsed = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(mut url) = parsed else {
        let shown = without_keys(base);
        return Err(ProviderError::new(
            ErrorClass::BadRequest,
            format!("base URL {shown:?} is no http or https address"),
        ));
    };
    let joined = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&joined);
    Ok(url)
}

/// Adds a header whose value is secret.
///
/// # Errors
/// When name or value cannot be a header; the value is not shown.
pub(super) fn add_header(headers: &mut HeaderMap, name: &str, value: &Secret) -> Result<(), ProviderError> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value.expose()).ok());
    let Some((name, mut value)) = parsed else {
        return Err(ProviderError::new(
            ErrorClass::BadRequest,
            format!("header {name:?} has a name or value that HTTP forbids"),
        ));
    };
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// Reads the beginning of the body of a failed request; whatever comes in time.
pub(super) async fn error_body(response: &mut Response, cancel: &CancellationToken) -> Result<String, ProviderError> {
    let mut body = Vec::new();
    let deadline = Instant::now() + ERROR_BODY_TIMEOUT;
    while body.len() < MAX_ERROR_BODY_BYTES {
        let chunk = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled()),
            // A chunk lost to the limit is only a piece of an error page.
            chunk = timeout_at(deadline, response.chunk()) => chunk,
        };
        match chunk {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY_BYTES - body.len())]),
            _ => break,
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Waits for the next bytes of a body. `None` at its orderly end.
///
/// # Errors
/// When the connection breaks, or `deadline` passes.
pub(super) async fn next_bytes(response: &mut Response, deadline: Instant) -> Result<Option<Bytes>, BodyFault> {
    match timeout_at(deadline, response.chunk()).await {
        Ok(Ok(chunk)) => Ok(chunk),
        Ok(Err(_)) => Err(BodyFault::Cut(ProviderError::cut(CLOSED))),
        Err(_) => Err(BodyFault::TimedOut),
    }
}

/// Why a body gives no more bytes.
pub(super) enum BodyFault {
    /// The connection broke.
    Cut(ProviderError),
    /// Nothing came in time.
    TimedOut,
}

/// Tells whether the other side closed the connection before it had answered.
fn is_closed(error: &reqwest::Error) -> bool {
    if error.is_connect() {
        return false;
    }
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            return matches!(io.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof);
        }
        if inner.to_string().contains("connection closed before message completed") {
            return true;
        }
        source = inner.source();
    }
    false
}

/// Returns the innermost cause of an error: what the system said. URLs, which may hold keys, are only further out.
fn cause(error: &reqwest::Error) -> String {
    let Some(mut innermost) = error.source() else {
        return "request failed".to_owned();
    };
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests;
