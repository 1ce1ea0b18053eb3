//! Session id → handle: loading, unloading when idle, containment of crashes, and the list of sessions.

mod approvals;
mod config;
mod directory;
mod error;
mod live;
mod load;
mod login_env;
mod models;
mod new;
mod rules;
mod trust;

pub use directory::Supervisor;
pub use error::SupervisorError;
pub use new::NewSession;
pub use rules::RuleChange;

#[cfg(test)]
mod tests;
