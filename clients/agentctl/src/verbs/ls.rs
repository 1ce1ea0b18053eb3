//! `ls`: sessions as a table.

use std::path::Path;

use agentd_protocol::methods::{ListSessions, ListSessionsParams, ListSessionsResult, SessionRow, SessionStatus};
use anyhow::{Context, Result};

use crate::cli::LsArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::now::now_ms;
use crate::session_ref::short_id;
use crate::show::clean::one_line;
use crate::show::style::{Style, age, cut, cut_start, pad, width};

mod watch;

/// Sessions listed unless the user says otherwise.
pub(crate) const DEFAULT_LIMIT: u32 = 20;
/// Most sessions that the daemon gives in one page.
const PAGE: u32 = 500;
/// Most columns for the model and for the directory.
const MODEL_COLUMNS: usize = 28;
const CWD_COLUMNS: usize = 32;
/// Least columns for the title; a narrower terminal wraps lines.
const MIN_TITLE_COLUMNS: usize = 12;

/// Runs the verb.
///
/// # Errors
/// The directory does not exist, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, args: &LsArgs) -> Result<Exit> {
    let cwd = args.cwd.as_deref().map(absolute).transpose()?;
    if args.watch {
        return watch::run(link, console, args, cwd).await;
    }
    let list = fetch(link, args, cwd).await?;
    if console.json {
        console.json_line(&list)?;
        return Ok(Exit::Done);
    }
    let table = table_of(&list.sessions, console);
    console.out.write_all(table.as_bytes())?;
    console.out.flush()?;
    let more = list.total.saturating_sub(list.sessions.len() as u64);
    if list.sessions.is_empty() {
        console.note("no session yet; `agentctl run TEXT` makes one")?;
    } else if more > 0 && list.next_cursor.is_some() {
        console.note(&format!("{more} more with --all"))?;
    }
    Ok(Exit::Done)
}

/// Lays rows out as the console can show them.
pub(crate) fn table_of(rows: &[SessionRow], console: &Console) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    table(rows, now_ms(), &home, console.columns(), console.out_style)
}

fn absolute(dir: &Path) -> Result<String> {
    let path = dir.canonicalize().with_context(|| dir.display().to_string())?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

/// Returns how many sessions are listed at most.
fn limit(args: &LsArgs) -> u32 {
    if args.all { u32::MAX } else { args.limit.unwrap_or(DEFAULT_LIMIT) }
}

/// Reads as many pages as are wanted. The number of the first one stands for all.
async fn fetch(link: &mut Link, args: &LsArgs, cwd: Option<String>) -> Result<ListSessionsResult> {
    let mut wanted = limit(args);
    let mut params = ListSessionsParams {
        cwd,
        text: args.text.clone(),
        limit: Some(wanted.min(PAGE)),
        ..ListSessionsParams::default()
    };
    let mut list = link.call::<ListSessions>(&params).await?;
    while let Some(cursor) = list.next_cursor.clone() {
        wanted = wanted.saturating_sub(params.limit.unwrap_or(PAGE));
        if wanted == 0 {
            break;
        }
        (params.cursor, params.limit) = (Some(cursor), Some(wanted.min(PAGE)));
        let page = link.call::<ListSessions>(&params).await?;
        list.sessions.extend(page.sessions);
        (list.next_cursor, list.total) = (page.next_cursor, page.total);
    }
    Ok(list)
}

/// Lays rows out in columns. With `columns` nothing is wider than that; without, nothing is cut but the title.
fn table(rows: &[SessionRow], now: i64, home: &str, columns: Option<usize>, style: Style) -> String {
    let cells: Vec<[String; 6]> = rows.iter().map(|row| cells(row, now, home, columns.is_some())).collect();
    let widths: Vec<usize> = (0..5).map(|i| cells.iter().map(|cells| width(&cells[i])).max().unwrap_or(0)).collect();
    let left: usize = widths.iter().map(|width| width + 2).sum();
    let title = columns.map(|columns| columns.saturating_sub(left).max(MIN_TITLE_COLUMNS));
    let mut out = String::new();
    for (row, cells) in rows.iter().zip(&cells) {
        for (index, cell) in cells[..5].iter().enumerate() {
            let padded = pad(cell, widths[index]);
            out.push_str(&match (index, row.status) {
                (0, _) => style.bold(&padded),
                (
                    2,
                    SessionStatus::Running | SessionStatus::RetryWait | SessionStatus::Asking | SessionStatus::Stopping,
                ) => style.yellow(&padded),
                _ => style.dim(&padded),
            });
            out.push_str("  ");
        }
        out.push_str(&title.map_or_else(|| cells[5].clone(), |columns| cut(&cells[5], columns)));
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

fn cells(row: &SessionRow, now: i64, home: &str, narrow: bool) -> [String; 6] {
    let title = row.name.as_deref().or(row.first_message.as_deref()).unwrap_or("");
    let (mut model, mut cwd) = (one_line(row.model.as_deref().unwrap_or("-")), tilde(&one_line(&row.cwd), home));
    if narrow {
        (model, cwd) = (cut_start(&model, MODEL_COLUMNS), cut_start(&cwd, CWD_COLUMNS));
    }
    let status = match row.retry_at {
        Some(at) => format!("{} {}", status_word(row.status), age(at - now)),
        None => status_word(row.status).to_owned(),
    };
    [one_line(short_id(&row.session_id)), age(now - row.modified), status, model, cwd, one_line(title)]
}

/// Names a status in a word.
pub(crate) fn status_word(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Unloaded => "-",
        SessionStatus::Idle => "idle",
        SessionStatus::Running => "running",
        SessionStatus::RetryWait => "retry",
        SessionStatus::Asking => "asking",
        SessionStatus::Stopping => "stopping",
        SessionStatus::Unknown => "?",
    }
}

fn tilde(path: &str, home: &str) -> String {
    match path.strip_prefix(home) {
        Some("") if !home.is_empty() => "~".to_owned(),
        // `/home/me2` is not below `/home/me`.
        Some(rest) if !home.is_empty() && rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn rows() -> Vec<SessionRow> {
        serde_json::from_value(json!([
            {"sessionId": "0192a3b4-0000-7000-8000-1234567890ab", "cwd": "/home/me/src/app", "name": "fix\u{1b}[31m it",
             "firstMessage": "please", "created": 0, "modified": 990_000, "messageCount": 4, "model": "local/qwen",
             "cost": 0.0, "status": "retryWait", "retryAt": 1_043_000},
            {"sessionId": "s2", "cwd": "/home/me2", "firstMessage": "世界 and a rather long first message that goes on",
             "created": 0, "modified": 0, "messageCount": 2, "cost": 0.0, "status": "unloaded"},
        ]))
        .expect("rows")
    }

    #[test]
    fn a_table_for_a_pipe_cuts_nothing() {
        let expected = "\
567890ab  10s  retry 43s  local/qwen  ~/src/app  fix␛[31m it
s2        16m  -          -           /home/me2  世界 and a rather long first message that goes on
";
        assert_eq!(table(&rows(), 1_000_000, "/home/me", None, Style::default()), expected);
    }

    #[test]
    fn a_table_for_a_terminal_fits_it() {
        let expected = "\
567890ab  10s  retry 43s  local/qwen  ~/src/app  fix␛[31m it
s2        16m  -          -           /home/me2  世界 and a …
";
        assert_eq!(table(&rows(), 1_000_000, "/home/me", Some(58), Style::default()), expected);
        assert_eq!(table(&[], 0, "", Some(58), Style::default()), "");
    }

    #[test]
    fn only_what_is_below_home_is_shortened() {
        for (path, home, expected) in
            [("/h/me", "/h/me", "~"), ("/h/me/x", "/h/me", "~/x"), ("/h/me2", "/h/me", "/h/me2"), ("/x", "", "/x")]
        {
            assert_eq!(tilde(path, home), expected);
        }
    }
}
