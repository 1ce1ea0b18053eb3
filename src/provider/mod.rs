//! Providers: the services that run models, and the dialects they speak.
//!
//! Bytes become server-sent events, events become [`StreamEvent`]s in the module of the dialect, and messages become
//! request bodies there too; all of that is pure. This module must not know sessions, runs or retries: it makes one
//! request and tells how it went.

pub mod args;
pub mod error;
mod json_error;
pub mod levels;
pub mod retry_after;
pub mod secret;
pub mod stream;

pub use error::{ErrorClass, ProviderError};
pub use levels::{clamp_level, supported_levels};
pub use secret::Secret;
pub use stream::StreamEvent;
