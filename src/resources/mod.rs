//! What goes into the system prompt. (Only the facts so far; discovery of files and our wording follow.)

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::tools::ToolUsage;

/// A file of instructions that was found.
#[derive(Clone, Debug)]
pub struct ContextFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// What the system prompt is made of.
pub struct PromptFacts {
    /// Working directory.
    pub cwd: PathBuf,
    /// Operating system.
    pub os: String,
    /// Shell.
    pub shell: String,
    /// `YYYY-MM-DD`.
    pub date: String,
    /// Tools with their habits.
    pub tools: Vec<ToolUsage>,
    /// Instructions found.
    pub context_files: Vec<ContextFile>,
}

/// Returns the sections of the system prompt.
pub fn system_sections(facts: &PromptFacts) -> Map<String, Value> {
    let mut sections = Map::new();
    sections.insert("preamble".to_owned(), "You are a coding agent.".into());
    sections.insert("cwd".to_owned(), format!("You work in {}.", facts.cwd.display()).into());
    sections
}

/// Finds files of instructions.
pub fn discover_context_files(_cwd: &Path, _global: &[PathBuf]) -> Vec<ContextFile> {
    Vec::new()
}

/// Returns the sections that differ.
pub fn diff_sections(effective: &Map<String, Value>, now: &Map<String, Value>) -> Option<Map<String, Value>> {
    let changed: Map<String, Value> = now
        .iter()
        .filter(|(name, text)| effective.get(*name) != Some(*text))
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect();
    (!changed.is_empty()).then_some(changed)
}
