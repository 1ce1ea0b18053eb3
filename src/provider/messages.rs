//! Anthropic Messages on the wire: where requests go, how they authenticate, what refusals mean.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

use super::anthropic_messages::decode::Decoder;
use super::anthropic_messages::request;
use super::client::ModelRequest;
use super::error::ProviderError;
use super::exchange::Dialect;
use super::http::join;
use super::secret::Secret;
use super::spec::{ModelSpec, ValueSource};

/// Version of the API that is spoken.
const VERSION: &str = "2023-06-01";
/// Lets a token of a log-in be used in place of a key.
const BETA_OAUTH: &str = "oauth-2025-04-20";
/// How tokens of a log-in begin.
const OAUTH_PREFIX: &str = "sk-ant-oat";
/// Variables whose values are tokens for `Authorization`, not keys (as Anthropic's own libraries have it).
const TOKEN_VARIABLES: &[&str] = &["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN"];

/// The dialect.
pub(super) struct Messages;

impl Dialect for Messages {
    type Decoder = Decoder;

    const AUTH_HEADERS: &'static [&'static str] = &["x-api-key", "authorization"];
    const JOINED_HEADER: Option<&'static str> = Some("anthropic-beta");
    const REQUEST_ID_HEADER: Option<&'static str> = Some("request-id");

    /// A base may end in the API's version or not: both ways of writing it are common.
    fn url(model_base: &str) -> Result<Url, ProviderError> {
        let base = model_base.trim();
        let has_version = base.split('?').next().is_some_and(|path| path.trim_end_matches('/').ends_with("/v1"));
        let mut url = join(base, if has_version { "messages" } else { "v1/messages" })?;
        url.query_pairs_mut().append_pair("beta", "true");
        Ok(url)
    }

    fn auth(request: &ModelRequest, key: &Secret) -> (&'static str, Secret) {
        let is_token = is_oauth(key) || comes_from_token_variable(request);
        if request.spec.provider.auth_header || is_token {
            ("authorization", key.bearer())
        } else {
            ("x-api-key", key.clone())
        }
    }

    fn headers(request: &ModelRequest, key: &Secret) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        let mut betas = request::betas(&request.spec, &request.messages, request.thinking);
        if is_oauth(key) {
            betas.push(BETA_OAUTH);
        }
        if !betas.is_empty() {
            headers.push(("anthropic-beta", betas.join(",")));
        }
        headers
    }

    fn body(request: &ModelRequest) -> Vec<u8> {
        request::body(&request.spec, &request.messages, request.thinking)
    }

    fn decoder(spec: Arc<ModelSpec>, id_seed: String, secrets: Vec<Secret>) -> Decoder {
        Decoder::new(spec, id_seed, secrets)
    }

    fn refusal(status: u16, body: &str, retry_after: Option<Duration>, secrets: &[Secret]) -> ProviderError {
        ProviderError::from_whole_response(status, body, retry_after, secrets)
    }
}

fn is_oauth(key: &Secret) -> bool {
    key.expose().starts_with(OAUTH_PREFIX)
}

/// The first usable source is the one that the key was taken from.
fn comes_from_token_variable(request: &ModelRequest) -> bool {
    let source = request.spec.provider.keys.iter().find(|source| source.is_usable(&request.env));
    source.is_some_and(|source| {
        *source == ValueSource::variable(TOKEN_VARIABLES[0]) || *source == ValueSource::variable(TOKEN_VARIABLES[1])
    })
}

#[cfg(test)]
mod tests;
