//! agentd: a local daemon that hosts coding-agent sessions and streams them to clients over JSON-RPC.
//!
//! ARCHITECTURE.md has the map: which module does what, and what must never happen.

pub mod agent;
pub mod bench;
pub mod clock;
pub mod compaction;
pub mod config;
pub mod constants;
pub mod daemon;
pub mod exec;
pub mod fronts;
mod own_file;
pub mod permissions;
pub mod provider;
pub mod redact;
pub mod resources;
pub mod ring;
pub mod rpc;
pub mod session;
pub mod store;
pub mod supervisor;
pub mod tasks;
pub mod tools;
pub mod trust;
