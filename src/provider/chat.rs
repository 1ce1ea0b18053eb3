//! Chat Completions on the wire: where requests go, how they authenticate, what refusals mean.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

use super::client::ModelRequest;
use super::error::ProviderError;
use super::exchange::Dialect;
use super::http::join;
use super::openai_completions::decode::Decoder;
use super::openai_completions::request;
use super::secret::Secret;
use super::spec::ModelSpec;

/// The dialect.
pub(super) struct ChatCompletions;

impl Dialect for ChatCompletions {
    type Decoder = Decoder;

    const AUTH_HEADERS: &'static [&'static str] = &["authorization"];
    const JOINED_HEADER: Option<&'static str> = None;
    // Every server that copies the dialect has its own name for it, if any.
    const REQUEST_ID_HEADER: Option<&'static str> = None;

    fn url(model_base: &str) -> Result<Url, ProviderError> {
        join(model_base, "chat/completions")
    }

    fn auth(_: &ModelRequest, key: &Secret) -> (&'static str, Secret) {
        ("authorization", key.bearer())
    }

    fn headers(_: &ModelRequest, _: &Secret) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn body(request: &ModelRequest) -> Vec<u8> {
        request::body(&request.spec, &request.messages, request.thinking)
    }

    fn decoder(spec: Arc<ModelSpec>, id_seed: String, secrets: Vec<Secret>) -> Decoder {
        Decoder::new(spec, id_seed, secrets)
    }

    fn refusal(status: u16, body: &str, retry_after: Option<Duration>, secrets: &[Secret]) -> ProviderError {
        ProviderError::from_response(status, body, retry_after, secrets)
    }
}
