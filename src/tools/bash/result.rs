//! The result of a command, from what is kept of its output and how it ended.
//!
//! Pure but for the types of the standard library that it is given.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Number, Value, json};

use super::{End, Limit};
use crate::constants::TOOL_OUTPUT_BYTES;
use crate::tools::context::ToolOutput;
use crate::tools::kept_output::KeptOutput;
use crate::tools::truncate::{TruncatedBy, Truncation, format_size};

/// Where the full output is, or why it is nowhere; `None` when it was not needed.
type FullPath = Option<Result<PathBuf, String>>;

/// Makes the result of a command that ended.
pub(super) fn output(kept: &KeptOutput, end: &End, limit: Limit, full: FullPath, wall: Duration) -> ToolOutput {
    let cut = kept.truncation();
    let text = if cut.truncated {
        format!("{}\n\n[{} Full output: {}]", cut.content, shown_part(kept, &cut), full_text(full.as_ref()))
    } else {
        cut.content.clone()
    };
    match end {
        End::Exited(status) => exited(text, kept, cut, exit_code(*status), full, wall),
        End::TimedOut => {
            ToolOutput::error(with_note(text, &format!("Command timed out after {} seconds", limit.seconds)))
        }
        End::Aborted => ToolOutput::error(with_note(text, "Command aborted")),
        End::Lost(error) => ToolOutput::error(with_note(text, &format!("The command's end is unknown: {error}"))),
    }
}

fn with_note(text: String, note: &str) -> String {
    if text.is_empty() { note.to_owned() } else { format!("{text}\n\n{note}") }
}

fn shown_part(kept: &KeptOutput, cut: &Truncation) -> String {
    let (last, limit) = (cut.total_lines, format_size(TOOL_OUTPUT_BYTES));
    if cut.last_line_partial {
        let (shown, whole) = (format_size(cut.output_bytes), format_size(kept.last_line_bytes()));
        return format!("Showing last {shown} of line {last} (line is {whole}).");
    }
    let first = last - cut.output_lines + 1;
    match cut.truncated_by {
        Some(TruncatedBy::Bytes) => format!("Showing lines {first}-{last} of {last} ({limit} limit)."),
        _ => format!("Showing lines {first}-{last} of {last}."),
    }
}

fn full_text(full: Option<&Result<PathBuf, String>>) -> String {
    match full {
        Some(Ok(path)) => path.display().to_string(),
        Some(Err(code)) => format!("not kept ({code})"),
        None => "not kept".to_owned(),
    }
}

/// Death by signal n is told as 128 + n, as shells do.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn exited(text: String, kept: &KeptOutput, cut: Truncation, code: i32, full: FullPath, wall: Duration) -> ToolOutput {
    let mut text = if text.is_empty() { "(no output)".to_owned() } else { text };
    if code != 0 {
        text = format!("{text}\n\nCommand exited with code {code}");
    }
    let mut output = ToolOutput::text(text);
    output.is_error = code != 0;
    if cut.truncated {
        output.result.details = Some(match full {
            Some(Ok(path)) => json!({ "truncation": cut, "fullOutputPath": path.to_string_lossy() }),
            _ => json!({ "truncation": cut }),
        });
    }
    let (all, truncated) = kept.for_programs();
    output.result.structured_content = Some(json!({
        "output": all,
        "truncated": truncated,
        "exit_code": code,
        "wall_time_seconds": tenths(wall),
    }));
    output
}

/// Seconds with one decimal; whole ones as an integer, as JavaScript writes them.
pub(super) fn tenths(time: Duration) -> Value {
    let tenths = (time.as_millis() + 50) / 100;
    let whole = u64::try_from(tenths / 10).unwrap_or(u64::MAX);
    if tenths.is_multiple_of(10) {
        return Value::from(whole);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let seconds = tenths as f64 / 10.0;
    Number::from_f64(seconds).map_or(Value::from(whole), Value::Number)
}
