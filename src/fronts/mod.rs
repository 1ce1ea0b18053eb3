//! Fronts: programs that speak on stdin and stdout for an editor or a script, and are clients of the daemon.
//!
//! They use only `agentd-protocol`, never another module of the daemon: a front shares nothing with it but the wire.

pub mod stdio;
