//! What a person is shown of a tool call before it runs, in a text that is safe to show, and the digest that binds what
//! was shown to what runs. Touches the disk.

mod safe;

use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

use agentd_protocol::methods::{Shown, ShownKind};
use ring::digest::{Context, SHA256};
use tokio_util::sync::CancellationToken;

use self::safe::{Safe, safe};
use super::context::ToolOutput;
use super::edit_diff::describe;
use super::edit_match::Span;
use super::open::{OpenError, open_regular};
use super::paths::Base;
use super::registry::{ToolInvocation, ToolRegistry};
use super::work::{Budget, Gate};
use crate::constants::{EDIT_DIFF_TIME, PREVIEW_BYTES, PREVIEW_OLD_BYTES};
use crate::permissions::questions::Preview;

/// What a tool says of a call before it runs.
#[derive(Debug)]
pub(crate) struct Draft {
    kind: ShownKind,
    text: String,
    /// Something is left out already.
    is_cut: bool,
    /// What the call depends on besides its arguments.
    binds: Vec<u8>,
}

impl Draft {
    /// Shows a command line.
    pub(crate) fn command(line: &str) -> Self {
        Self { kind: ShownKind::Command, text: line.to_owned(), is_cut: false, binds: Vec::new() }
    }

    /// Shows a change of a file that holds `content`.
    pub(crate) fn change(target: &Path, content: &[u8], spans: &[Span]) -> Self {
        // It is the first line of what is shown, and nothing of it must pass for the second.
        let path = target.display().to_string().replace('\n', "\\u{a}");
        let details = describe(content, spans, &path, Instant::now() + EDIT_DIFF_TIME);
        let mut binds = path.clone().into_bytes();
        binds.extend_from_slice(digest(&[content]).as_bytes());
        Self { kind: ShownKind::Diff, text: format!("{path}\n{}", details.diff), is_cut: details.is_cut, binds }
    }

    /// Shows that a file gets a new content; of a large one it is not shown what it holds now.
    ///
    /// # Errors
    /// It is no file that can be replaced.
    pub(crate) fn replacement(target: &Path, new_text: String, gate: &Gate) -> Result<Self, OpenError> {
        let old = match open_regular(target, Some(gate)) {
            Ok((file, metadata)) => Some((read_old(file, &metadata).map_err(OpenError::Io)?, metadata)),
            Err(OpenError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let content = old.as_ref().and_then(|(content, _)| content.clone()).unwrap_or_default();
        let span = Span { start: 0, end: content.len(), new_text, index: 0 };
        let mut draft = Self::change(target, &content, &[span]);
        match old {
            None => draft.binds.extend_from_slice(b"new"),
            Some((Some(_), _)) => {}
            Some((None, metadata)) => {
                draft.is_cut = true;
                draft.text.push_str(&format!("\n(what it holds now is not shown: {} bytes)", metadata.len()));
                draft.binds.extend_from_slice(&facts(&metadata));
            }
        }
        Ok(draft)
    }
}

/// Reads what a file holds; `None` for a large one.
fn read_old(file: std::fs::File, metadata: &Metadata) -> std::io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    if metadata.len() > PREVIEW_OLD_BYTES {
        return Ok(None);
    }
    // It may be growing.
    file.take(PREVIEW_OLD_BYTES + 1).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= PREVIEW_OLD_BYTES).then_some(content))
}

fn facts(metadata: &Metadata) -> Vec<u8> {
    let facts =
        [metadata.ino(), metadata.len(), metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()];
    facts.iter().flat_map(|fact| fact.to_le_bytes()).collect()
}

impl ToolRegistry {
    /// Draws up what a person is shown of a call in a session with this working directory and environment.
    ///
    /// # Errors
    /// The result of a call that cannot run.
    pub async fn preview(
        &self,
        invocation: &ToolInvocation,
        cwd: &Path,
        env: &[(String, String)],
        cancel: &CancellationToken,
    ) -> Result<Preview, ToolOutput> {
        let (base, arguments) = (Base::new(cwd, env), invocation.arguments().clone());
        let show = self.show_of(invocation);
        let draw = move |gate: &Gate| show.map_or(Ok(None), |show| show(arguments, &base, gate));
        let draft = self.workers().run(&Budget::start(cancel), draw).await??;
        let arguments = invocation.arguments().to_string();
        let cwd = cwd.display().to_string();
        let binds = draft.as_ref().map(|draft| draft.binds.clone()).unwrap_or_default();
        let digest = digest(&[invocation.name().as_bytes(), cwd.as_bytes(), arguments.as_bytes(), &binds]);
        let draft = draft.unwrap_or_else(|| Draft {
            kind: ShownKind::Arguments,
            text: serde_json::to_string_pretty(invocation.arguments()).unwrap_or(arguments),
            is_cut: false,
            binds,
        });
        let Safe { text, is_whole, is_exact } = safe(&draft.text, PREVIEW_BYTES);
        let shown = Shown { kind: draft.kind, text, is_complete: is_whole && !draft.is_cut, is_exact };
        Ok(Preview { shown, cwd, digest })
    }
}

/// Returns the SHA-256 of the parts, each with its length before it, in hexadecimal.
fn digest(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
