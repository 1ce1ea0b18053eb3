//! The agent: the session machine (pure), and the actor that performs what it decides.

pub mod actor;
pub mod assembler;
pub mod backoff;
pub mod event;
pub mod facts;
pub mod handle;
pub mod machine;
pub mod services;
