//! The OpenAI Chat Completions dialect, spoken by OpenAI and by most other servers.
//!
//! Pure: [`request`] makes bodies out of messages, [`decode`] makes stream events out of server-sent events. What
//! differs from server to server is data in [`compat`], never a branch on a name elsewhere.

mod cache_marks;
mod calls;
mod chunk;
pub mod compat;
mod conversation;
pub mod decode;
pub mod request;
mod thinking;
