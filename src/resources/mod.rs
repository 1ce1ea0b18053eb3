//! What goes into the system prompt: facts about the place, how to work, and the instructions found on disk.
//!
//! Discovery reads files and blocks; assembly is pure. What a project brings along is read only where its folder is
//! trusted. Instructions are given to the model as text and never change
//! what a tool may do.

mod discover;
mod project;
mod prompt;

pub use discover::{ContextFile, discover_context_files};
pub use project::{Held, Project};
pub use prompt::{PromptFacts, diff_sections, system_sections};
