//! The Anthropic Messages dialect, spoken by Anthropic and by servers that copy its API.
//!
//! Pure: [`request`] makes bodies out of messages, [`decode`] makes stream events out of server-sent events. What
//! differs from server to server is data in [`compat`], never a branch on a name elsewhere.
//!
//! The rules of the API that are kept here are those of Anthropic's reference for `POST /v1/messages` (version
//! 2023-06-01), its pages on streaming, extended and adaptive thinking, tool use, prompt caching and errors.

pub mod compat;
mod conversation;
pub mod decode;
mod events;
pub mod request;
mod usage;
mod wire;
