//! Providers: the services that run models, and the dialects they speak.
//!
//! Bytes become server-sent events in [`sse`], events become [`StreamEvent`]s in the module of the dialect
//! ([`openai_completions`], [`anthropic_messages`]), and messages become request bodies there too; all of that is pure.
//! [`exchange`] carries it over the network, [`registry`] knows which models there are and where their keys come from.
//!
//! **Invariant**: this module knows no sessions, runs or retries. It makes one request and tells how it went. Keys are
//! looked up in the environment of a session, never in the daemon's, and stand in no text that leaves this module.

pub mod anthropic_messages;
pub mod args;
mod auth_file;
mod builtin;
mod call_ids;
mod catalog;
mod chat;
pub mod client;
mod context;
mod cost;
mod definitions;
mod demo;
mod demo_stream;
pub mod error;
mod exchange;
mod files;
mod http;
mod json_error;
mod key_status;
mod keys;
mod known_keys;
mod lenient;
pub mod levels;
mod local;
mod lookup;
mod messages;
pub mod models_json;
mod network;
pub mod openai_completions;
mod pace;
pub mod reader;
pub mod registry;
mod replay;
pub mod retry_after;
mod room;
pub mod secret;
pub mod spec;
pub mod sse;
pub mod stream;

pub use auth_file::{AuthError, AuthFile};
pub use catalog::Catalog;
pub use client::{AskModel, ModelRequest, ProviderClient};
pub use demo::spec as demo_spec;
pub use error::{ErrorClass, ProviderError};
pub use levels::{clamp_level, next_level, supported_levels};
pub use pace::Pace;
#[cfg(test)]
pub(crate) use pace::pass_on_alone;
pub use registry::{ConfigNotice, ModelError, ModelRegistry};
pub use secret::Secret;
pub use spec::{ModelSpec, ProviderSpec};
pub use stream::StreamEvent;
