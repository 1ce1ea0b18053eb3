//! Black-box tests: the real programs, over the real socket and stdio, against a scripted model server.
#![allow(clippy::disallowed_methods, reason = "tests start programs and tasks of their own and bound every wait")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "this crate is tests: a panic names the place"
)]

mod agentctl;
mod decoders;
mod faults;
mod fixtures;
mod golden;
mod harness;
mod life;
mod model_server;
mod provider;
mod rpc;
mod tidy;
