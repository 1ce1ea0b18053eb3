//! Providers: the services that run models, and the dialects they speak.
//!
//! Bytes become server-sent events, events become [`StreamEvent`]s in the module of the dialect, and messages become
//! request bodies there too; all of that is pure. This module must not know sessions, runs or retries: it makes one
//! request and tells how it went.

pub mod args;
mod builtin;
mod chat;
pub mod client;
mod context;
mod cost;
mod definitions;
mod demo;
mod demo_stream;
pub mod error;
mod http;
mod json_error;
mod keys;
pub mod levels;
pub mod models_json;
pub mod openai_completions;
pub mod registry;
pub mod retry_after;
pub mod secret;
pub mod spec;
pub mod sse;
pub mod stream;

pub use client::{ModelRequest, ProviderClient};
pub use error::{ErrorClass, ProviderError};
pub use levels::{clamp_level, supported_levels};
pub use registry::{ConfigNotice, ModelError, ModelRegistry};
pub use secret::Secret;
pub use spec::{ModelSpec, ProviderSpec};
pub use stream::StreamEvent;
