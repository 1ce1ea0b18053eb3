//! The `edit` tool: replaces pieces of a file that exists.
//!
//! Everything is computed before the first byte is written, and written only if the file is still the one that was
//! read. [`super::edit_match`] finds the places, [`super::replace`] writes.

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::context::{EffectClass, ToolContext, ToolOutput};
use super::edit_diff::describe;
use super::edit_match::{MatchError, Replacement, apply, plan_edits};
use super::known_files::{KnownFiles, changed_text};
use super::node_error;
use super::open::{OpenError, not_regular_text, open_regular};
use super::paths::Base;
use super::preview::Draft;
use super::registry::{Tool, ToolUsage};
use super::replace::{ReplaceError, replace_content};
use super::truncate::format_size;
use super::work::{Budget, Gate, Workers, aborted};
use super::write::Named;
use crate::constants::{EDIT_DIFF_TIME, EDIT_MAX_BYTES};

/// Arguments of `edit`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct EditArgs {
    /// File to change, absolute or relative to the working directory
    path: String,
    /// Replacements, all found in the file as it is before the call; they must not overlap
    edits: Vec<EditArg>,
}

/// One replacement.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditArg {
    /// Text in the file, exact to the last blank, with as much around it as makes it occur only once
    old_text: String,
    /// Text that replaces it
    new_text: String,
}

/// The tool.
pub(crate) struct Edit;

impl Tool for Edit {
    type Args = EditArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "edit",
        summary: "replace pieces of a file",
        habits: &[
            "Copy oldText from what you read, without line numbers; keep it as short as it can be and still be unique.",
            "Change several places of one file with one call that has several edits.",
        ],
    };
    const DESCRIPTION: &'static str = "Replaces pieces of a text file. Each oldText must occur exactly once in the \
        file. All edits of a call refer to the file as it is before the call, must not overlap, and are made together \
        or not at all.";
    const EFFECT: EffectClass = EffectClass::Write;

    /// Takes `edits` as JSON text or as a single object, and `oldText`/`newText` beside `path`.
    fn prepare(arguments: &mut Value) {
        if let Value::String(text) = arguments
            && let Ok(parsed @ Value::Object(_)) = serde_json::from_str(text)
        {
            *arguments = parsed;
        }
        if let Value::Object(map) = arguments {
            prepare_edits(map);
        }
    }

    fn draft(args: Self::Args, base: &Base, gate: &Gate) -> Result<Option<Draft>, ToolOutput> {
        draft(&args, base, gate).map(Some).map_err(ToolOutput::error)
    }

    async fn run(args: EditArgs, context: ToolContext, workers: Workers) -> ToolOutput {
        match try_run(args, context, &workers).await {
            Ok(output) | Err(output) => output,
        }
    }
}

fn prepare_edits(map: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = map.get("edits")
        && let Ok(parsed @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text)
    {
        map.insert("edits".to_owned(), parsed);
    }
    if let Some(single @ Value::Object(_)) = map.get("edits") {
        let single = single.clone();
        map.insert("edits".to_owned(), Value::Array(vec![single]));
    }
    let (Some(Value::String(old)), Some(Value::String(new))) = (map.get("oldText"), map.get("newText")) else { return };
    let legacy = json!({ "oldText": old, "newText": new });
    match map.get_mut("edits") {
        Some(Value::Array(edits)) => edits.push(legacy),
        None | Some(Value::Null) => {
            map.insert("edits".to_owned(), Value::Array(vec![legacy]));
        }
        Some(_) => {}
    }
}

async fn try_run(args: EditArgs, context: ToolContext, workers: &Workers) -> Result<ToolOutput, ToolOutput> {
    let base = Base::new(&context.cwd, &context.env);
    let budget = Budget::start(&context.cancel);
    let (finder, written) = (base.clone(), args.path.clone());
    let named = workers.run(&budget, move |_| Named::find(&finder, &written)).await??;
    let guard = budget.wait(context.locks.lock(&named.target)).await?;
    let (known_files, records) = (context.known_files.clone(), context.overwrites_dir.clone());
    workers
        .run(&budget, move |gate| {
            // Moved here, so that a stuck worker keeps others from the file.
            let _guard = guard;
            edit(&args, &base, &named, known_files.as_ref(), &records, gate).unwrap_or_else(ToolOutput::error)
        })
        .await
}

/// # Errors
/// The text of the failure; nothing was written then.
fn edit(
    args: &EditArgs,
    base: &Base,
    named: &Named,
    known_files: Option<&KnownFiles>,
    records: &Path,
    gate: &Gate,
) -> Result<ToolOutput, String> {
    let path = &args.path;
    let (content, metadata) = read(args, base, &named.target, gate)?;
    if known_files.is_some_and(|known| known.is_other(&named.target, &metadata, &content)) {
        return Err(changed_text(path));
    }
    let replacements = replacements(args);
    let spans = plan_edits(&content, &replacements).map_err(|error| match_text(&error, path, replacements.len()))?;
    let details = describe(&content, &spans, path, Instant::now() + EDIT_DIFF_TIME);
    if !is_same(&metadata, &named.target) {
        return Err(format!(
            "{path} was changed by somebody else during the edit; nothing was written. Read it again."
        ));
    }
    let pieces = apply(&content, &spans);
    let written = replace_content(&named.target, &pieces, records, gate).map_err(|error| match error {
        ReplaceError::Open(error) => open_text(&error, args, base, &named.target),
        ReplaceError::Stopped => aborted_text(),
    })?;
    if let Some(known) = known_files {
        known.note_change(&named.target, written.as_ref(), &pieces);
    }
    let text = format!("Successfully replaced {} block(s) in {path}.", spans.len());
    Ok(ToolOutput::text(text).with_details(serde_json::to_value(details).unwrap_or_default()))
}

/// Returns what the call would change.
///
/// # Errors
/// The text of the failure that the call itself would end with.
fn draft(args: &EditArgs, base: &Base, gate: &Gate) -> Result<Draft, String> {
    let text = |output: ToolOutput| output.result.content[0].as_text().unwrap_or_default().to_owned();
    let named = Named::find(base, &args.path).map_err(text)?;
    let (content, _) = read(args, base, &named.target, gate)?;
    let replacements = replacements(args);
    let spans =
        plan_edits(&content, &replacements).map_err(|error| match_text(&error, &args.path, args.edits.len()))?;
    Ok(Draft::change(&named.target, &content, &spans))
}

fn replacements(args: &EditArgs) -> Vec<Replacement> {
    let edits = args.edits.iter();
    edits.map(|edit| Replacement { old_text: edit.old_text.clone(), new_text: edit.new_text.clone() }).collect()
}

fn aborted_text() -> String {
    aborted().result.content[0].as_text().unwrap_or_default().to_owned()
}

fn read(args: &EditArgs, base: &Base, target: &Path, gate: &Gate) -> Result<(Vec<u8>, Metadata), String> {
    let failed = |error: OpenError| open_text(&error, args, base, target);
    let (file, metadata) = open_regular(target, Some(gate)).map_err(failed)?;
    if metadata.len() > EDIT_MAX_BYTES {
        return Err(too_large(&args.path, metadata.len()));
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // A file without an end (of the kernel, or growing) stops at the limit.
    file.take(EDIT_MAX_BYTES + 1).read_to_end(&mut content).map_err(|error| failed(OpenError::Io(error)))?;
    if content.len() as u64 > EDIT_MAX_BYTES {
        return Err(too_large(&args.path, content.len() as u64));
    }
    if gate.is_stopped() { Err(aborted_text()) } else { Ok((content, metadata)) }
}

fn too_large(path: &str, size: u64) -> String {
    let size = format_size(usize::try_from(size).unwrap_or(usize::MAX));
    format!("Could not edit file: {path}. It has {size}, too much for one edit; use sed, or split it.")
}

fn open_text(error: &OpenError, args: &EditArgs, base: &Base, target: &Path) -> String {
    let path = &args.path;
    match error {
        OpenError::NotRegular(kind) => not_regular_text(kind, target),
        OpenError::Io(error) => {
            let text = format!("Could not edit file: {path}. Error code: {}.", node_error::code(error));
            match base.look_alike(path).filter(|_| error.kind() == std::io::ErrorKind::NotFound) {
                Some(other) => format!("{text} There is a file of a similar name: {}", other.display()),
                None => text,
            }
        }
    }
}

/// Whether the file is still the one that was read.
fn is_same(read: &Metadata, target: &Path) -> bool {
    let facts = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
    target.metadata().is_ok_and(|now| facts(&now) == facts(read))
}

fn match_text(error: &MatchError, path: &str, count: usize) -> String {
    let single = count == 1;
    match *error {
        MatchError::NoEdits => "Edit tool input is invalid. edits must contain at least one replacement.".to_owned(),
        MatchError::EmptyOldText { .. } if single => format!("oldText must not be empty in {path}."),
        MatchError::EmptyOldText { index } => format!("edits[{index}].oldText must not be empty in {path}."),
        MatchError::NotFound { .. } if single => format!(
            "Could not find the exact text in {path}. The old text must match exactly including all whitespace and \
             newlines."
        ),
        MatchError::NotFound { index } => format!(
            "Could not find edits[{index}] in {path}. The oldText must match exactly including all whitespace and \
             newlines."
        ),
        MatchError::Ambiguous { count, .. } if single => format!(
            "Found {count} occurrences of the text in {path}. The text must be unique. Please provide more context to \
             make it unique."
        ),
        MatchError::Ambiguous { index, count } => format!(
            "Found {count} occurrences of edits[{index}] in {path}. Each oldText must be unique. Please provide more \
             context to make it unique."
        ),
        MatchError::Overlap { first, second } => format!(
            "edits[{first}] and edits[{second}] overlap in {path}. Merge them into one edit or target disjoint regions."
        ),
        MatchError::NoChange if single => format!(
            "No changes made to {path}. The replacement produced identical content. This might indicate an issue with \
             special characters or the text not existing as expected."
        ),
        MatchError::NoChange => format!("No changes made to {path}. The replacements produced identical content."),
    }
}

#[cfg(test)]
mod tests;
