//! The `read` tool: a part of a text file, or an image.
//!
//! Memory is bounded by the output limit whatever the file's size: lines outside the wanted part are only counted.
//! Images are for [`picture`].

mod picture;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::picture::Picture;
use super::context::{EffectClass, ToolContext, ToolOutput};
use super::image::{HEAD_BYTES, ImageKind};
use super::known_files::{Hasher, KnownFiles};
use super::node_error;
use super::open::open_regular;
use super::paths::Base;
use super::registry::{Tool, ToolUsage};
use super::truncate::{Totals, TruncatedBy, Truncation, format_size, truncate_head_of};
use super::work::{Budget, Gate, Workers, aborted};
use crate::constants::{READ_SCAN_BYTES, TOOL_OUTPUT_BYTES};

/// Arguments of `read`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct ReadArgs {
    /// File to read, absolute or relative to the working directory
    path: String,
    /// First line wanted, counted from 1
    offset: Option<f64>,
    /// Most lines wanted
    limit: Option<f64>,
}

/// The tool.
pub(crate) struct Read;

impl Tool for Read {
    type Args = ReadArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "read",
        summary: "read text files and images",
        habits: &[
            "Read a file before you change it, and look at files with read rather than with cat or sed.",
            "Read large files in parts with offset and limit.",
        ],
    };
    const DESCRIPTION: &'static str = "Reads a text file or an image (PNG, JPEG, GIF, WebP). Text comes as it is, \
        without line numbers, at most 2000 lines or 50KB a call; when it was cut, the end of the answer names the \
        offset to go on from.";
    const EFFECT: EffectClass = EffectClass::Read;

    async fn run(args: ReadArgs, context: ToolContext, workers: Workers) -> ToolOutput {
        try_run(args, &context, &workers).await.unwrap_or_else(|given_up| given_up)
    }
}

async fn try_run(args: ReadArgs, context: &ToolContext, workers: &Workers) -> Result<ToolOutput, ToolOutput> {
    let base = Base::new(&context.cwd, &context.env);
    let budget = Budget::start(&context.cancel);
    let known_files = context.known_files.clone();
    let work = move |gate: &Gate| read(&args, &base.resolve_for_reading(&args.path), known_files, gate);
    match workers.run(&budget, work).await?? {
        Found::Text(output) => Ok(output),
        Found::Picture(picture) => picture.show(context, workers).await,
    }
}

/// What a file turns out to be.
enum Found {
    Text(ToolOutput),
    Picture(Picture),
}

fn read(args: &ReadArgs, path: &Path, known_files: Option<KnownFiles>, gate: &Gate) -> Result<Found, ToolOutput> {
    let begun = known_files.map(|known| (known.now(), known));
    let (mut file, metadata) =
        open_regular(path, Some(gate)).map_err(|error| ToolOutput::error(error.text("access", path)))?;
    let mut head = [0; HEAD_BYTES];
    let head = read_head(&mut file, &mut head).map_err(|error| read_error(&error))?;
    if let Some(kind) = ImageKind::of(head) {
        if let Some((since, known)) = begun {
            known.note_read(path, &metadata, None, since);
        }
        return Ok(Found::Picture(Picture { kind, head: head.to_vec(), file }));
    }
    let mut hasher = begun.is_some().then(Hasher::new);
    match scan(head, &mut file, Window::of(args), hasher.as_mut(), gate) {
        Ok(Some(scanned)) => {
            let output = text_output(args, &scanned);
            if let Some((since, known)) = begun.filter(|_| !output.is_error) {
                known.note_read(path, &metadata, hasher.and_then(Hasher::finish), since);
            }
            Ok(Found::Text(output))
        }
        Ok(None) => Err(aborted()),
        Err(error) => Err(read_error(&error)),
    }
}

fn read_error(error: &io::Error) -> ToolOutput {
    ToolOutput::error(node_error::text(error, "read", None))
}

/// Fills as much of the buffer as the file has.
fn read_head<'a>(file: &mut File, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

/// The lines wanted, counted from 0.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: u64,
    /// Where the model's own limit ends it.
    end: Option<u64>,
}

impl Window {
    fn of(args: &ReadArgs) -> Self {
        let start = whole(args.offset.unwrap_or(1.0) - 1.0);
        Self { start, end: args.limit.map(|limit| start.saturating_add(whole(limit))) }
    }

    fn holds(self, line: u64) -> bool {
        line >= self.start && self.end.is_none_or(|end| line < end)
    }
}

/// Negative numbers and NaN count as 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// What was found while going through the file.
#[derive(Debug, Default)]
struct Scanned {
    /// Beginning of the wanted lines, somewhat longer than the output limit where there is more.
    kept: Vec<u8>,
    /// Bytes of all wanted lines.
    bytes: u64,
    /// Length of the first wanted line.
    first_line: u64,
    /// Line feeds passed.
    feeds: u64,
    /// Line feeds between wanted lines.
    inner_feeds: u64,
    /// Whether the wanted lines end with a line feed: the last of them is empty.
    ends_with_feed: bool,
    /// Whether the end was reached.
    complete: bool,
}

/// Longest beginning of the wanted lines that is kept: a character more than can be shown.
const KEEP_BYTES: usize = TOOL_OUTPUT_BYTES + 8;
const CHUNK_BYTES: usize = 64 * 1024;

/// Goes through the file; `None` when the call was given up.
fn scan(
    head: &[u8],
    file: &mut File,
    window: Window,
    mut hasher: Option<&mut Hasher>,
    gate: &Gate,
) -> io::Result<Option<Scanned>> {
    let mut scanned = Scanned::default();
    let mut hash = |bytes: &[u8]| hasher.iter_mut().for_each(|hasher| hasher.take(bytes));
    hash(head);
    scanned.take(head, window);
    let mut passed = head.len() as u64;
    let mut chunk = vec![0; CHUNK_BYTES];
    while passed < READ_SCAN_BYTES {
        if gate.is_stopped() {
            return Ok(None);
        }
        match file.read(&mut chunk) {
            Ok(0) => {
                scanned.complete = true;
                break;
            }
            Ok(count) => {
                hash(&chunk[..count]);
                scanned.take(&chunk[..count], window);
                passed += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A log of the kernel that has nothing more to say just now.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && passed > 0 => {
                scanned.complete = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(scanned))
}

impl Scanned {
    fn take(&mut self, mut bytes: &[u8], window: Window) {
        while !bytes.is_empty() {
            if self.only_counts(window) {
                self.count(bytes, window);
                return;
            }
            let feed = memchr::memchr(b'\n', bytes);
            self.keep(&bytes[..feed.unwrap_or(bytes.len())], window);
            let Some(feed) = feed else { return };
            // A line feed belongs to the wanted lines only between two of them.
            let line = self.feeds;
            if window.holds(line) && window.holds(line + 1) {
                self.bytes += 1;
                self.inner_feeds += 1;
                self.ends_with_feed = true;
                if self.kept.len() < KEEP_BYTES {
                    self.kept.push(b'\n');
                }
            }
            self.feeds += 1;
            bytes = &bytes[feed + 1..];
        }
    }

    /// Whether nothing of what follows is kept or looked at line by line.
    fn only_counts(&self, window: Window) -> bool {
        match window.end {
            Some(end) => self.feeds >= end,
            None => self.feeds > window.start && self.kept.len() >= KEEP_BYTES,
        }
    }

    fn count(&mut self, bytes: &[u8], window: Window) {
        let feeds = memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.feeds += feeds;
        if window.end.is_none() {
            self.bytes += bytes.len() as u64;
            self.inner_feeds += feeds;
            self.ends_with_feed = bytes.ends_with(b"\n");
        }
    }

    fn keep(&mut self, part: &[u8], window: Window) {
        if part.is_empty() || !window.holds(self.feeds) {
            return;
        }
        self.ends_with_feed = false;
        self.bytes += part.len() as u64;
        if self.feeds == window.start {
            self.first_line += part.len() as u64;
        }
        let room = KEEP_BYTES.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Lines of the file: a final line feed begins an empty last one, as pi counts.
    fn lines(&self) -> u64 {
        self.feeds + 1
    }
}

fn text_output(args: &ReadArgs, scanned: &Scanned) -> ToolOutput {
    let window = Window::of(args);
    let lines = scanned.lines();
    if window.start >= lines {
        let offset = args.offset.unwrap_or(1.0);
        return ToolOutput::error(format!("Offset {offset} is beyond end of file ({lines} lines total)"));
    }
    let cut = cut_window(scanned);
    let first = window.start + 1;
    let of = if scanned.complete { lines.to_string() } else { format!("at least {lines}") };
    if cut.first_line_exceeds_limit {
        let size = format_size(to_usize(scanned.first_line));
        let text = format!(
            "[Line {first} is {size}, exceeds {} limit. Use bash: sed -n '{first}p' {} | head -c {TOOL_OUTPUT_BYTES}]",
            format_size(TOOL_OUTPUT_BYTES),
            shell_word(&args.path),
        );
        return ToolOutput::structured_text(text).with_details(json!({ "truncation": cut }));
    }
    if cut.truncated {
        let last = window.start + cut.output_lines as u64;
        let why = match cut.truncated_by {
            Some(TruncatedBy::Bytes) => format!(" ({} limit)", format_size(TOOL_OUTPUT_BYTES)),
            _ => String::new(),
        };
        let text = format!(
            "{}\n\n[Showing lines {first}-{last} of {of}{why}. Use offset={} to continue.]",
            cut.content,
            last + 1
        );
        return ToolOutput::structured_text(text).with_details(json!({ "truncation": cut }));
    }
    match window.end.filter(|end| *end < lines) {
        Some(end) => ToolOutput::structured_text(format!(
            "{}\n\n[{} more lines in file. Use offset={} to continue.]",
            cut.content,
            lines - end,
            end + 1
        )),
        None => ToolOutput::structured_text(cut.content),
    }
}

fn cut_window(scanned: &Scanned) -> Truncation {
    let text = String::from_utf8_lossy(&scanned.kept);
    let whole_is_kept = scanned.bytes == scanned.kept.len() as u64;
    let totals = if whole_is_kept {
        Totals::of(&text)
    } else {
        let lines = scanned.inner_feeds + u64::from(!scanned.ends_with_feed);
        Totals { lines: to_usize(lines), bytes: to_usize(scanned.bytes) }
    };
    truncate_head_of(&text, totals)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Quotes what a shell would not take literally.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
