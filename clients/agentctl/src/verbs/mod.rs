//! What each verb does, one file each.

pub(crate) mod abort;
pub(crate) mod approvals;
pub(crate) mod attach;
pub(crate) mod auth;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod ls;
pub(crate) mod models;
pub(crate) mod rpc;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod tail;
pub(crate) mod trust;
pub(crate) mod wait;

#[cfg(test)]
mod tests;
