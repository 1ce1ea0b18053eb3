//! The `grep` tool: lines of files that match a pattern, in the order of the files' paths.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use grep_regex::{ErrorKind, RegexMatcher};
use grep_searcher::Searcher;
use ignore::Match;
use ignore::overrides::Override;
use schemars::JsonSchema;
use serde::Deserialize;

use super::context::{EffectClass, ToolContext, ToolOutput};
use super::node_error;
use super::open::open_regular;
use super::paths::Base;
use super::registry::{Tool, ToolUsage};
use super::search::folder::{Entry, Interest, Kind};
use super::search::globs::file_filter;
use super::search::lines::{self, FileLines, Wanted};
use super::search::names;
use super::search::page::{self, Page};
use super::search::root::{cannot_look, real_path};
use super::search::rules::{Dialect, Rules};
use super::search::walk::{Halt, Search, open_found, walk};
use super::work::{Budget, Gate, Workers};
use crate::constants::{GREP_LINE_CHARS, GREP_MATCHES, GREP_MAX_CONTEXT, TOOL_OUTPUT_BYTES};

/// Arguments of `grep`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrepArgs {
    /// What to look for in each line: a regular expression (Rust's syntax), or plain text with literal
    pattern: String,
    /// Folder or file to search; left out: the working directory
    path: Option<String>,
    /// Only files that this glob fits, such as '*.ts' or 'src/**/*.rs', relative to the folder that is searched; with a
    /// '!' in front: all others
    glob: Option<String>,
    /// Take capital and small letters for the same
    ignore_case: Option<bool>,
    /// Take the pattern as plain text
    literal: Option<bool>,
    /// Lines to show before and after each match; left out: none
    context: Option<f64>,
    /// Most matches to show; left out: 100
    limit: Option<f64>,
}

/// The tool.
pub(crate) struct Grep;

impl Tool for Grep {
    type Args = GrepArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "grep",
        summary: "find lines in files that match a pattern",
        habits: &["Search with grep rather than with grep or rg in bash; narrow a broad search with path or glob."],
    };
    const DESCRIPTION: &'static str = "Searches files for lines that match a pattern and shows each as \
        path:line: text, sorted by path. Hidden files are searched; what .gitignore leaves out, binary files and \
        .git are not. At most 100 matches (see limit) and 50KB a call; lines over 500 characters are cut.";
    const EFFECT: EffectClass = EffectClass::Read;
    const HOLDS_TO_SCHEMA: bool = false;

    async fn run(args: GrepArgs, context: ToolContext, workers: Workers) -> ToolOutput {
        let base = Base::new(&context.cwd, &context.env);
        let dialect = Dialect::grep(&context.env);
        let budget = Budget::start(&context.cancel);
        let work = move |gate: &Gate| {
            let path = base.resolve_for_reading(args.path.as_deref().unwrap_or("."));
            grep(&args, &path, dialect, gate).unwrap_or_else(ToolOutput::error)
        };
        workers.run(&budget, work).await.unwrap_or_else(|given_up| given_up)
    }
}

/// Searches; an error is the text for the model.
fn grep(args: &GrepArgs, path: &Path, dialect: Dialect, gate: &Gate) -> Result<ToolOutput, String> {
    let metadata = path.metadata().map_err(|error| cannot_look(&error, path))?;
    let context = args.context.map_or(0, page::whole).min(GREP_MAX_CONTEXT);
    let wanted = Wanted { matches: page::limit(args.limit, GREP_MATCHES), context, bytes: TOOL_OUTPUT_BYTES };
    let matcher = matcher(args)?;
    let mut shown = Shown::new(wanted);
    if !metadata.is_dir() {
        shown.search_file(path, &matcher, gate)?;
        return Ok(shown.finish());
    }
    let root = real_path(path)?;
    let roots = [node_error::normalize(path), root.clone()];
    let filter = file_filter(&root, &roots.each_ref().map(PathBuf::as_path), args.glob.as_deref())
        .map_err(|error| format!("Invalid glob: {error}"))?;
    let rules = Rules::inside(&root, dialect);
    let search = LineSearch { matcher, filter, wanted };
    let walked = walk(root, rules, &search, gate, |found| shown.take(&found));
    shown.unreadable = walked.map_err(|error| cannot_look(&error, path))?;
    Ok(shown.finish())
}

fn matcher(args: &GrepArgs) -> Result<RegexMatcher, String> {
    let (literal, ignore_case) = (args.literal.unwrap_or(false), args.ignore_case.unwrap_or(false));
    lines::matcher(&args.pattern, literal, ignore_case).map_err(|error| match error.kind() {
        ErrorKind::NotAllowed(_) => "Invalid pattern: it has a line break, and lines are looked at one by one. \
            Search for one of the lines."
            .to_owned(),
        _ => format!("Invalid pattern: {error}"),
    })
}

/// The search for lines in a tree.
#[derive(Debug)]
pub(crate) struct LineSearch {
    /// What a line has to hold.
    pub(crate) matcher: RegexMatcher,
    /// Which files are wanted.
    pub(crate) filter: Override,
    /// How much of each.
    pub(crate) wanted: Wanted,
}

/// The lines that were found in one file.
#[derive(Debug)]
pub(crate) struct FoundLines {
    name: String,
    /// They.
    pub(crate) lines: FileLines,
}

impl Search for LineSearch {
    type Found = FoundLines;
    /// A matcher of its own keeps a thread from waiting for the cache of another.
    type Kit = (Searcher, RegexMatcher);

    fn kit(&self) -> Self::Kit {
        (lines::searcher(self.wanted.context), self.matcher.clone())
    }

    fn interest(&self, entry: Entry<'_>) -> Interest {
        if entry.kind == Kind::Other {
            return Interest::None;
        }
        match self.filter.matched(entry.path, entry.kind == Kind::Folder) {
            Match::None => Interest::ByRules,
            Match::Ignore(_) => Interest::None,
            // What was asked for by name is searched even if it is ignored (ripgrep: the same).
            Match::Whitelist(_) => Interest::Always,
        }
    }

    fn look(&self, kit: &mut Self::Kit, entry: Entry<'_>, halt: Halt<'_>) -> io::Result<Option<FoundLines>> {
        let Some(file) = open_found(entry.path, entry.kind)? else { return Ok(None) };
        let (searcher, matcher) = kit;
        let lines = lines::search(searcher, matcher, file, self.wanted, halt)?;
        Ok((lines.matches() > 0).then(|| FoundLines { name: names::shown(entry.below).into_owned(), lines }))
    }
}

/// What is shown of what was found.
struct Shown {
    wanted: Wanted,
    page: Page,
    matches: usize,
    has_more: bool,
    has_cut_lines: bool,
    unreadable: usize,
    /// About the one file that is searched.
    note: Option<String>,
}

impl Shown {
    fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            page: Page::default(),
            matches: 0,
            has_more: false,
            has_cut_lines: false,
            unreadable: 0,
            note: None,
        }
    }

    fn search_file(&mut self, path: &Path, matcher: &RegexMatcher, gate: &Gate) -> Result<(), String> {
        let (file, _) = open_regular(path, Some(gate)).map_err(|error| error.text("open", path))?;
        let ended = AtomicBool::new(false);
        let mut searcher = lines::searcher(self.wanted.context);
        let lines = lines::search(&mut searcher, matcher, &file, self.wanted, Halt::new(gate, &ended))
            .map_err(|error| cannot_search(&error, path))?;
        let name = path.file_name().map_or_else(|| names::shown(path), |name| names::shown(Path::new(name)));
        if lines.is_binary {
            self.note = Some(format!("{name} is a binary file: it was searched up to its first NUL byte"));
        }
        // Nothing comes after it.
        let _ = self.take(&FoundLines { name: name.into_owned(), lines });
        Ok(())
    }

    /// Takes the lines of the next file, up to the limits; near the last match that is wanted, further ones are lines
    /// like any other.
    fn take(&mut self, found: &FoundLines) -> ControlFlow<()> {
        let mut last_near = None;
        for line in found.lines.iter() {
            let is_wanted = line.is_match && self.matches < self.wanted.matches;
            self.has_more |= line.is_match && !is_wanted;
            if is_wanted {
                self.matches += 1;
                last_near = Some(line.number.saturating_add(self.wanted.context as u64));
            } else if self.matches == self.wanted.matches && last_near.is_none_or(|last| line.number > last) {
                // Too far away: lines before a match that is not wanted any more, or that match itself.
                if self.has_more {
                    return ControlFlow::Break(());
                }
                continue;
            }
            let mark = if is_wanted { ':' } else { '-' };
            if !self.page.push(&format!("{}{mark}{}{mark} {}", found.name, line.number, line.text)) {
                return ControlFlow::Break(());
            }
            self.has_cut_lines |= line.is_cut;
        }
        if self.has_more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn finish(mut self) -> ToolOutput {
        if self.has_more {
            let limit = self.wanted.matches;
            let more = limit.saturating_mul(2);
            let note = format!("{limit} matches limit reached. Use limit={more} for more, or refine pattern");
            self.page.note_fact(note, "matchLimitReached", limit);
        }
        self.page.note_byte_limit();
        if self.has_cut_lines {
            let note = format!("Some lines truncated to {GREP_LINE_CHARS} chars. Use read tool to see full lines");
            self.page.note_fact(note, "linesTruncated", true);
        }
        if let Some(note) = self.note {
            self.page.note(note);
        }
        self.page.note_unreadable(self.unreadable);
        self.page.finish("No matches found")
    }
}

fn cannot_search(error: &io::Error, path: &Path) -> String {
    match error.raw_os_error() {
        Some(_) => node_error::text(error, "read", None),
        None => format!("Cannot search {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests;
