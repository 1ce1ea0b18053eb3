//! What a tool call may do, and what people are asked.

pub mod policy;
pub mod questions;
pub mod rules;
pub mod shell;
