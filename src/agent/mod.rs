//! The agent: the session machine (pure), and the actor that performs what it decides.

pub mod event;
pub mod handle;
