//! What a tool call may do, and what people are asked.

pub mod policy;
pub mod questions;
pub mod rule_files;
pub mod rules;
pub mod shell;
