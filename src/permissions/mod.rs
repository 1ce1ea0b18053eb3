//! What a tool call may do.

pub mod policy;
