//! The `ls` tool: the names in one folder.

use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::fs::DirEntry;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::context::{EffectClass, ToolContext, ToolOutput};
use super::paths::Base;
use super::registry::{Tool, ToolUsage};
use super::search::names;
use super::search::page::{self, Page};
use super::search::root::{cannot_look, folder_at};
use super::work::{Budget, Gate, Workers, aborted};
use crate::constants::{LS_ENTRIES, TOOL_OUTPUT_BYTES};

/// Arguments of `ls`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct LsArgs {
    /// Folder to list; left out: the working directory
    path: Option<String>,
    /// Most entries to show; left out: 500
    limit: Option<f64>,
}

/// The tool.
pub(crate) struct Ls;

impl Tool for Ls {
    type Args = LsArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "ls",
        summary: "list what is in a folder",
        habits: &["List a folder with ls rather than with ls in bash."],
    };
    const DESCRIPTION: &'static str = "Lists the names in a folder, hidden ones included, sorted without regard to \
        capital letters; folders have a / at their end. At most 500 entries (see limit) and 50KB a call.";
    const EFFECT: EffectClass = EffectClass::Read;
    const HOLDS_TO_SCHEMA: bool = false;

    async fn run(args: LsArgs, context: ToolContext, workers: Workers) -> ToolOutput {
        let base = Base::new(&context.cwd, &context.env);
        let budget = Budget::start(&context.cancel);
        let work = move |gate: &Gate| {
            let path = base.resolve_for_reading(args.path.as_deref().unwrap_or("."));
            ls(&args, &path, gate).unwrap_or_else(ToolOutput::error)
        };
        workers.run(&budget, work).await.unwrap_or_else(|given_up| given_up)
    }
}

/// Lists; an error is the text for the model.
fn ls(args: &LsArgs, path: &Path, gate: &Gate) -> Result<ToolOutput, String> {
    let root = folder_at(path)?;
    let limit = page::limit(args.limit, LS_ENTRIES);
    // Each entry takes a byte and a line end at least.
    let most = limit.min(TOOL_OUTPUT_BYTES);
    let Some(names) = first_names(&root, most + 1, gate).map_err(|error| cannot_look(&error, path))? else {
        return Ok(aborted());
    };
    let mut page = Page::default();
    for name in names.iter().take(most) {
        if gate.is_stopped() {
            return Ok(aborted());
        }
        // Of a link, its target counts.
        let is_folder = name.is_folder.unwrap_or_else(|| root.join(&name.name).is_dir());
        let end = if is_folder { "/" } else { "" };
        if !page.push(&format!("{}{end}", names::shown(Path::new(&name.name)))) {
            break;
        }
    }
    if names.len() > limit {
        let more = limit.saturating_mul(2);
        let note = format!("{limit} entries limit reached. Use limit={more} for more");
        page.note_fact(note, "entryLimitReached", limit);
    }
    page.note_byte_limit();
    Ok(page.finish("(empty directory)"))
}

/// A name in a folder; they sort as they are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    folded: String,
    name: OsString,
    /// Not known of links.
    is_folder: Option<bool>,
}

impl Name {
    fn of(entry: &DirEntry) -> Self {
        let name = entry.file_name();
        let is_folder = entry.file_type().ok().filter(|kind| !kind.is_symlink()).map(|kind| kind.is_dir());
        Self { folded: name.to_string_lossy().to_lowercase(), name, is_folder }
    }
}

/// A look at whether the call was given up comes after so many entries.
const ENTRIES_A_LOOK: usize = 256;

/// Returns the first `most` names of a folder, holding no more of them; `None` when the call was given up.
fn first_names(folder: &Path, most: usize, gate: &Gate) -> io::Result<Option<Vec<Name>>> {
    let mut first = BinaryHeap::new();
    for (count, entry) in folder.read_dir()?.enumerate() {
        if count.is_multiple_of(ENTRIES_A_LOOK) && gate.is_stopped() {
            return Ok(None);
        }
        first.push(Name::of(&entry?));
        if first.len() > most {
            first.pop();
        }
    }
    Ok(Some(first.into_sorted_vec()))
}

#[cfg(test)]
mod tests;
