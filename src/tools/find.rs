//! The `find` tool: names that fit a glob, in the order of their paths.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::context::{EffectClass, ToolContext, ToolOutput};
use super::node_error;
use super::paths::Base;
use super::registry::{Tool, ToolUsage};
use super::search::folder::{Entry, Interest, Kind};
use super::search::globs::PathPattern;
use super::search::names;
use super::search::page::{self, Page};
use super::search::root::{cannot_look, folder_at};
use super::search::rules::{Dialect, Rules};
use super::search::walk::{Halt, Search, walk};
use super::work::{Budget, Gate, Workers};
use crate::constants::FIND_RESULTS;

/// Arguments of `find`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct FindArgs {
    /// Glob that names have to fit, such as '*.ts'; with a '/' in it, it is about the path below the folder that is
    /// searched: 'src/**/*.ts'. Without capital letters it matches them too
    pattern: String,
    /// Folder to search; left out: the working directory
    path: Option<String>,
    /// Most results to show; left out: 1000
    limit: Option<f64>,
}

/// The tool.
pub(crate) struct Find;

impl Tool for Find {
    type Args = FindArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "find",
        summary: "find files and folders by name",
        habits: &["Find files with find rather than with find or ls -R in bash."],
    };
    const DESCRIPTION: &'static str = "Finds files and folders whose names fit a glob and shows one path a line, \
        relative to the folder that is searched and sorted. Hidden ones are found; what .gitignore leaves out and .git \
        are not. At most 1000 results (see limit) and 50KB a call.";
    const EFFECT: EffectClass = EffectClass::Read;
    const HOLDS_TO_SCHEMA: bool = false;

    async fn run(args: FindArgs, context: ToolContext, workers: Workers) -> ToolOutput {
        let base = Base::new(&context.cwd, &context.env);
        let dialect = Dialect::find(&context.env);
        let budget = Budget::start(&context.cancel);
        let work = move |gate: &Gate| {
            let path = base.resolve_for_reading(args.path.as_deref().unwrap_or("."));
            find(&args, &path, dialect, gate).unwrap_or_else(ToolOutput::error)
        };
        workers.run(&budget, work).await.unwrap_or_else(|given_up| given_up)
    }
}

/// Searches; an error is the text for the model.
fn find(args: &FindArgs, path: &Path, dialect: Dialect, gate: &Gate) -> Result<ToolOutput, String> {
    let root = folder_at(path)?;
    let pattern = PathPattern::new(&args.pattern).map_err(|error| format!("Invalid pattern: {error}"))?;
    let limit = page::limit(args.limit, FIND_RESULTS);
    let mut page = Page::default();
    let (mut count, mut has_more) = (0, false);
    let rules = Rules::inside(&root, dialect);
    let search = PathSearch { pattern, named: node_error::normalize(path) };
    let walked = walk(root, rules, &search, gate, |name: String| {
        has_more = count == limit;
        count += 1;
        if has_more || !page.push(&name) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let unreadable = walked.map_err(|error| cannot_look(&error, path))?;
    if has_more {
        let more = limit.saturating_mul(2);
        let note = format!("{limit} results limit reached. Use limit={more} for more, or refine pattern");
        page.note_fact(note, "resultLimitReached", limit);
    }
    page.note_byte_limit();
    page.note_unreadable(unreadable);
    Ok(page.finish("No files found matching pattern"))
}

/// The search for names in a tree.
#[derive(Debug)]
pub(crate) struct PathSearch {
    /// What they have to fit.
    pub(crate) pattern: PathPattern,
    /// The folder that is searched as it was named: an absolute pattern is written like that.
    pub(crate) named: PathBuf,
}

impl PathSearch {
    fn is_match(&self, entry: Entry<'_>) -> bool {
        let is_folder = entry.kind == Kind::Folder;
        self.pattern.is_match(entry.path, entry.below, is_folder)
            || self.pattern.is_absolute()
                && self.pattern.is_match(&self.named.join(entry.below), entry.below, is_folder)
    }
}

impl Search for PathSearch {
    type Found = String;
    type Kit = ();

    fn kit(&self) {}

    fn interest(&self, entry: Entry<'_>) -> Interest {
        if entry.kind == Kind::Folder || self.is_match(entry) { Interest::ByRules } else { Interest::None }
    }

    fn look(&self, (): &mut (), entry: Entry<'_>, _: Halt<'_>) -> io::Result<Option<String>> {
        if entry.kind != Kind::Folder {
            return Ok(Some(names::shown(entry.below).into_owned()));
        }
        Ok(self.is_match(entry).then(|| format!("{}/", names::shown(entry.below))))
    }
}

#[cfg(test)]
mod tests;
