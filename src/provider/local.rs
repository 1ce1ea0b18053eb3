//! Servers of models on this machine: Ollama, llama.cpp, LM Studio and vLLM, found where they listen by default.
//!
//! What answers there is not trusted: only addresses of the loopback are asked, redirects are not followed, time and
//! size are bounded, and what does not look like a list of models is passed over.

mod answer;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use self::answer::{Found, Kind};
use super::http::{Connections, next_bytes};
use super::models_json::ProviderDef;
use crate::config::LocalModels;

/// Longest time that asking all servers takes.
pub(super) const LIMIT: Duration = Duration::from_millis(1500);
/// Longest time until a connection stands; on one machine it takes microseconds.
const CONNECT_LIMIT: Duration = Duration::from_millis(250);
/// Longest answer that is read, in bytes; a list of a thousand models has some hundred kilobytes.
const MAX_ANSWER_BYTES: usize = 2 * 1024 * 1024;
/// Most models of one Ollama that are asked about one by one, and that one at a time.
const MAX_SHOWN: usize = 32;

/// A place where a server may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    address: SocketAddr,
    /// What listens there by default.
    expected: Option<Kind>,
}

/// Returns where to look.
pub(super) fn targets(local: &LocalModels) -> Vec<Target> {
    match local {
        LocalModels::Off => Vec::new(),
        LocalModels::Default => Kind::ALL
            .into_iter()
            .map(|kind| Target {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, kind.default_port())),
                expected: Some(kind),
            })
            .collect(),
        LocalModels::At(addresses) => {
            let expected =
                |address: &SocketAddr| Kind::ALL.into_iter().find(|kind| kind.default_port() == address.port());
            addresses.iter().map(|address| Target { address: *address, expected: expected(address) }).collect()
        }
    }
}

/// Asks all servers at once, and returns those that have models, in the order of `targets`.
pub(super) async fn ask(targets: &[Target]) -> Vec<ProviderDef> {
    let connections = Connections::default();
    let asked = targets.iter().map(|target| async {
        // A server that is slow loses only its own answer.
        timeout(LIMIT, ask_one(&connections, target)).await.ok().flatten()
    });
    let mut providers: Vec<ProviderDef> = Vec::new();
    for found in join_all(asked).await.into_iter().flatten() {
        let mut provider = found.provider();
        // A second server of a kind is told from the first by its port.
        if providers.iter().any(|known| known.id == provider.id) {
            provider.id = format!("{}-{}", provider.id, found.address.port());
        }
        providers.push(provider);
    }
    providers
}

async fn ask_one(connections: &Connections, target: &Target) -> Option<Found> {
    // Where nothing listens, which is usual, no client is made.
    timeout(CONNECT_LIMIT, TcpStream::connect(target.address)).await.ok()?.ok()?;
    let server = Server { connections, address: target.address, deadline: Instant::now() + LIMIT };
    let list = server.get("v1/models").await?;
    let mut found = Found::read(target.address, target.expected, &list)?;
    match found.kind {
        Some(Kind::Ollama) => {
            for id in found.ids().into_iter().take(MAX_SHOWN) {
                let Some(shown) = server.post("api/show", &json!({ "model": id })).await else { break };
                found.read_ollama(&id, &shown);
            }
        }
        Some(Kind::LlamaCpp) if found.lacks_window() => {
            if let Some(props) = server.get("props").await {
                found.read_llama_props(&props);
            }
        }
        Some(Kind::LmStudio) => {
            if let Some(models) = server.get("api/v0/models").await {
                found.read_lm_studio(&models);
            }
        }
        Some(Kind::LlamaCpp | Kind::Vllm) | None => {}
    }
    found.drop_other_than_chat();
    (!found.ids().is_empty()).then_some(found)
}

/// One server while it is asked.
struct Server<'a> {
    connections: &'a Connections,
    address: SocketAddr,
    deadline: Instant,
}

impl Server<'_> {
    async fn get(&self, path: &str) -> Option<Value> {
        self.read(path, None).await
    }

    async fn post(&self, path: &str, body: &Value) -> Option<Value> {
        self.read(path, Some(body.to_string().into_bytes())).await
    }

    /// Returns the JSON of a successful answer.
    async fn read(&self, path: &str, body: Option<Vec<u8>>) -> Option<Value> {
        let url = Url::parse(&format!("http://{}/{path}", self.address)).ok()?;
        let mut response = self.connections.ask(url, body, self.deadline).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let mut text = Vec::new();
        while let Some(bytes) = next_bytes(&mut response, self.deadline).await.ok()? {
            if text.len() + bytes.len() > MAX_ANSWER_BYTES {
                return None;
            }
            text.extend_from_slice(&bytes);
        }
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests;
