//! `agentd bench`: what the daemon costs on this machine, beside its targets.
//!
//! Everything is private: a model server of its own on loopback ([`server`]), a daemon of its own in a temporary home
//! ([`home`]), clients on that daemon's socket ([`client`]). It measures and never gates: a missed target is printed,
//! not an error. The daemon's CPU is read from the system ([`process`]); what the bench itself burns is not in it,
//! but on a machine with few cores the two get in each other's way, so that wall figures say less than CPU figures.

mod baseline;
mod client;
mod error;
mod home;
mod measure;
mod process;
mod report;
mod run;
mod server;

pub use run::{BenchOptions, run};
