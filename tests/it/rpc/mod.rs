//! The wire: a file for each resource, and one each for what holds for all methods.

mod approvals;
mod attach;
mod batch;
mod config;
mod connection;
mod envelope;
mod framing;
mod keys;
mod models;
mod modes;
mod params;
mod queue;
mod rules;
mod run;
mod schedules;
mod session;
mod stock_client;
mod trust;
mod watch;
