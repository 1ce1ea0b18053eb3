//! The project's own scripted model server: what a provider says is written down beforehand, what it was asked is kept.
//!
//! One server listens on loopback, on a port the system chooses, in a thread of its own (so it answers whatever the
//! test's runtime is doing). A [`Script`] says what it replies, in the notation of the recordings: blocks, delays,
//! cuts, stalls, statuses, in-stream errors; besides, exact bytes in given pieces, resets, and gates that the test
//! releases. Every request is kept, and checked by the strict [`validator`] as a real provider would: an illegal one
//! is answered with status 400 and fails the test when the server is dropped, unless the test opted out.
//!
//! The dialects of the providers live in a module each ([`chat`], [`anthropic`]); a further one is a variant of [`dialect::Dialect`].

mod anthropic;
mod chat;
mod dialect;
mod http;
mod images;
mod script;
mod server;
#[cfg(test)]
mod tests;
mod text;
mod validator;

pub(crate) use dialect::Dialect;
pub(crate) use script::{Reply, Script};
pub(crate) use server::{ModelServer, Recorded};
