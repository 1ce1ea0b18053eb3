//! A session's entries as a tree, and what of it the model sees.
//!
//! Pure: this module never reads a clock, a file or the environment. Lines become entries in `store::record`.

pub mod context;
pub mod entry;
pub mod rows;
pub mod settings;
pub mod tree;

pub use context::{ContextMessage, ModelContext, build_context};
pub use entry::{Compaction, Entry, EntryBody, Header};
pub use rows::{SessionFacts, summarize};
pub use settings::StoredSettings;
pub use tree::SessionTree;
