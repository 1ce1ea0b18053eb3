//! The agent: the session machine (pure), and the actor that performs what it decides.

pub mod assembler;
pub mod backoff;
pub mod event;
pub mod handle;
pub mod machine;
