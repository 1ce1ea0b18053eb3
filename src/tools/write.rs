//! The `write` tool: makes or replaces a whole file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::context::{EffectClass, ToolContext, ToolOutput};
use super::known_files::{KnownFiles, changed_text};
use super::node_error;
use super::open::{OpenError, not_regular_text};
use super::paths::Base;
use super::preview::Draft;
use super::registry::{Tool, ToolUsage};
use super::replace::{ReplaceError, final_target, replace_content};
use super::work::{Budget, Gate, Workers, aborted};

/// Arguments of `write`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct WriteArgs {
    /// File to write, absolute or relative to the working directory
    path: String,
    /// The whole content
    content: String,
}

/// The tool.
pub(crate) struct Write;

impl Tool for Write {
    type Args = WriteArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "write",
        summary: "make a file or replace all of it",
        habits: &["Use write for new files and complete rewrites; for smaller changes use edit."],
    };
    const DESCRIPTION: &'static str = "Makes a file with the given content, missing folders included, or replaces the \
        whole content of a file that exists.";
    const EFFECT: EffectClass = EffectClass::Write;

    fn draft(args: Self::Args, base: &Base, gate: &Gate) -> Result<Option<Draft>, ToolOutput> {
        let named = Named::find(base, &args.path)?;
        let failed = |error: OpenError| ToolOutput::error(replace_text(&ReplaceError::Open(error), &named.path));
        Draft::replacement(&named.target, args.content, gate).map(Some).map_err(failed)
    }

    async fn run(args: WriteArgs, context: ToolContext, workers: Workers) -> ToolOutput {
        match try_run(args, context, &workers).await {
            Ok(output) | Err(output) => output,
        }
    }
}

async fn try_run(args: WriteArgs, context: ToolContext, workers: &Workers) -> Result<ToolOutput, ToolOutput> {
    let base = Base::new(&context.cwd, &context.env);
    let budget = Budget::start(&context.cancel);
    let written = args.path.clone();
    let named = workers.run(&budget, move |_| Named::find(&base, &written)).await??;
    let guard = budget.wait(context.locks.lock(&named.target)).await?;
    let (known_files, records) = (context.known_files.clone(), context.overwrites_dir.clone());
    workers
        .run(&budget, move |gate| {
            // Moved here, so that a stuck worker keeps others from the file.
            let _guard = guard;
            write(&args, &named, known_files.as_ref(), &records, gate)
        })
        .await
}

/// A file to be changed, under the name it was asked for and where that leads.
#[derive(Debug)]
pub(crate) struct Named {
    /// Absolute path, links not followed; for messages.
    pub(crate) path: PathBuf,
    /// Where the content goes.
    pub(crate) target: PathBuf,
}

impl Named {
    /// Finds it. Touches the disk.
    pub(crate) fn find(base: &Base, written: &str) -> Result<Self, ToolOutput> {
        let path = base.resolve_for_writing(written);
        if written.ends_with('/') {
            // Names a folder, also one that does not exist.
            let error = io::Error::from_raw_os_error(nix::errno::Errno::EISDIR as i32);
            return Err(ToolOutput::error(node_error::text(&error, "open", Some(&path))));
        }
        match final_target(&path) {
            Ok(target) => Ok(Self { path, target }),
            Err(error) => Err(ToolOutput::error(node_error::text(&error, "open", Some(&path)))),
        }
    }
}

fn write(args: &WriteArgs, named: &Named, known_files: Option<&KnownFiles>, records: &Path, gate: &Gate) -> ToolOutput {
    if known_files.is_some_and(|known| known.is_other_on_disk(&named.target, gate)) {
        return ToolOutput::error(changed_text(&args.path));
    }
    if let Err(output) = make_folder(&named.path, gate) {
        return output;
    }
    let content = [args.content.as_bytes()];
    match replace_content(&named.target, &content, records, gate) {
        Ok(written) => {
            if let Some(known) = known_files {
                known.note_change(&named.target, written.as_ref(), &content);
            }
            ToolOutput::text(format!("Successfully wrote to {}", args.path))
        }
        Err(error) => ToolOutput::error(replace_text(&error, &named.path)),
    }
}

fn make_folder(path: &Path, gate: &Gate) -> Result<(), ToolOutput> {
    let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) else { return Ok(()) };
    if !gate.commit() {
        return Err(aborted());
    }
    fs::create_dir_all(folder)
        .map_err(|error| ToolOutput::error(node_error::text(&not_a_folder(error, folder), "mkdir", Some(folder))))
}

/// A dangling link in the way is reported by the system as existing; what is wrong is that it is no folder.
fn not_a_folder(error: io::Error, folder: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::AlreadyExists && folder.is_symlink() {
        return io::Error::from_raw_os_error(nix::errno::Errno::ENOTDIR as i32);
    }
    error
}

fn replace_text(error: &ReplaceError, path: &Path) -> String {
    match error {
        ReplaceError::Open(OpenError::Io(error)) => node_error::text(error, "open", Some(path)),
        ReplaceError::Open(OpenError::NotRegular(kind)) => not_regular_text(kind, path),
        ReplaceError::Stopped => "Operation aborted".to_owned(),
    }
}

#[cfg(test)]
mod tests;
