//! Settings and where things are on disk.

pub mod env;
