//! The handlers, one file for each resource. Each turns parameters into a question to a session or the supervisor,
//! and the answer into a result.

pub(super) mod approvals;
pub(super) mod attach;
pub(super) mod config;
pub(super) mod daemon;
pub(super) mod keys;
pub(super) mod models;
pub(super) mod read;
pub(super) mod rules;
pub(super) mod run;
pub(super) mod sessions;
pub(super) mod settings;
pub(super) mod trust;
