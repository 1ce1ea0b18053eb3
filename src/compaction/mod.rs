//! How full the context is. (When and what to compact is not built yet.)
//!
//! Pure: no clock, no file, no provider.

pub mod estimate;
