//! The measurements, one file for each kind.

mod decode;
mod latency;
mod memory;
mod plan;
mod requests;
mod search;
mod session;
mod start;
mod statistics;
mod stream;

pub(super) use plan::{Filter, Plan, measure_all};
pub(super) use statistics::median;
