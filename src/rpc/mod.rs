//! JSON-RPC 2.0: connections, the method table, and one thin handler for each method.
//!
//! jsonrpsee gives registration, parameter types and error objects; envelope, transport, writer and notifications
//! are ours. A connection is one task with two halves: one takes requests in order, the other writes answers and
//! pulls events. Handlers decide nothing: they turn parameters into a question to a session or the supervisor, and
//! its answer into a result.
//!
//! The main types are [`Server`], which serves connections, and [`Sessions`], what it needs of the supervisor.

mod call;
mod conn;
mod connection;
mod dispatch;
mod envelope;
mod error_map;
mod handlers;
mod methods;
mod outbox;
mod server;
mod sessions;
mod transport;
mod writer;

pub use server::{DaemonInfo, Server};
pub use sessions::{Counts, Sessions, Supervised};
pub use transport::{Incoming, Transport};

#[cfg(test)]
mod tests;
