//! A session's entries as a tree, and what of it the model sees.
//!
//! Pure: this module never reads a clock, a file or the environment. Lines become entries in `store::record`.

pub mod entry;
pub mod tree;

pub use entry::{Compaction, Entry, EntryBody, Header};
pub use tree::SessionTree;
