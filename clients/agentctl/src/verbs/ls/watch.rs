//! `ls --watch`: the table of sessions, kept up to date.

use std::cmp::Reverse;
use std::time::Duration;

use agentd_protocol::SessionId;
use agentd_protocol::client::Notification;
use agentd_protocol::event::{ListEvent, ListEventParams};
use agentd_protocol::methods::{ListReplay, ListSessionsResult, SessionRow, WatchSessions, WatchSessionsParams};
use anyhow::Result;

use super::{fetch, limit, table_of};
use crate::cli::LsArgs;
use crate::console::{Console, terminal_rows};
use crate::exit::Exit;
use crate::link::{Heard, Link};
use crate::session_ref::short_id;
use crate::show::clean::{harmless_json, one_line};

/// How often ages on a terminal are brought up to date.
const REDRAW: Duration = Duration::from_secs(10);
/// Moves the cursor of a terminal to its first place and clears what is shown.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Runs the verb. It ends by Ctrl-C, or when the daemon goes away.
///
/// # Errors
/// The connection closes.
pub(super) async fn run(link: &mut Link, console: &mut Console, args: &LsArgs, cwd: Option<String>) -> Result<Exit> {
    link.interrupts.listen()?;
    let mut list = read_list(link, args, cwd.clone()).await?;
    list.show(console)?;
    loop {
        let heard = match tokio::time::timeout(REDRAW, link.next_or_interrupt()).await {
            Ok(heard) => heard?,
            Err(_) if console.out_is_terminal && !console.json => {
                list.show(console)?;
                continue;
            }
            Err(_) => continue,
        };
        let Heard::Notification(first) = heard else { return Ok(Exit::Done) };
        let mut changed = Vec::new();
        let mut is_whole = true;
        let mut next = Some(first);
        // Whatever has come already is shown in one go.
        while let Some(notification) = next.take().filter(|_| is_whole) {
            is_whole = list.take(&notification, console, &mut changed)?;
            next = link.try_next();
        }
        if !is_whole {
            list = read_list(link, args, cwd.clone()).await?;
            list.show(console)?;
        } else if !changed.is_empty() {
            list.show_changed(console, &changed)?;
        }
    }
}

/// Lists the sessions, and has changes told from there on.
async fn read_list(link: &mut Link, args: &LsArgs, cwd: Option<String>) -> Result<List> {
    loop {
        let list = fetch(link, args, cwd.clone()).await?;
        let since = Some(list.list_seq);
        let watched = link.call::<WatchSessions>(&WatchSessionsParams { since }).await?;
        if watched.replay == ListReplay::Exact {
            return Ok(List::new(list, args, cwd));
        }
    }
}

/// The part of the list that is shown.
struct List {
    rows: Vec<SessionRow>,
    /// The last change that is in it.
    seq: u64,
    /// Sessions that fit, also those that are not shown.
    total: u64,
    cwd: Option<String>,
    text: Option<String>,
    limit: usize,
    /// As it came, for `--json`.
    json: String,
}

impl List {
    fn new(list: ListSessionsResult, args: &LsArgs, cwd: Option<String>) -> Self {
        let json = serde_json::to_string(&list).unwrap_or_default();
        let limit = usize::try_from(limit(args)).unwrap_or(usize::MAX);
        let text = args.text.as_ref().map(|text| text.to_lowercase());
        Self { rows: list.sessions, seq: list.list_seq, total: list.total, cwd, text, limit, json }
    }

    /// Takes a notification; returns whether the list is whole after it. Sessions that it shows otherwise are added to
    /// `changed`.
    fn take(
        &mut self,
        notification: &Notification,
        console: &mut Console,
        changed: &mut Vec<SessionId>,
    ) -> Result<bool> {
        // Changes up to the list's number were on their way when it was read.
        let Some(params) = notification.list_event().filter(|params| params.list_seq > self.seq) else {
            return Ok(true);
        };
        if console.json {
            console.line(&harmless_json(notification.params.get()))?;
        }
        Ok(self.apply(params, changed))
    }

    fn apply(&mut self, params: ListEventParams, changed: &mut Vec<SessionId>) -> bool {
        self.seq = params.list_seq;
        match params.event {
            ListEvent::SessionCreated { session } | ListEvent::SessionChanged { session } => {
                if !self.fits(&session) {
                    // It may have fitted before.
                    return self.remove(session.session_id, changed);
                }
                self.put(*session, changed);
            }
            ListEvent::SessionStatus { session_id, status, retry_at } => {
                if let Some(row) = self.rows.iter_mut().find(|row| row.session_id == session_id) {
                    (row.status, row.retry_at) = (status, retry_at);
                    changed.push(session_id);
                }
            }
            ListEvent::SessionGone { session_id } => return self.remove(session_id, changed),
            ListEvent::Lagged {} => return false,
            ListEvent::Unknown(_) => {}
        }
        true
    }

    fn put(&mut self, row: SessionRow, changed: &mut Vec<SessionId>) {
        let id = row.session_id.clone();
        match self.rows.iter_mut().find(|known| known.session_id == row.session_id) {
            Some(known) => *known = row,
            None => self.rows.push(row),
        }
        self.rows.sort_by_key(|row| Reverse(row.modified));
        self.total = self.total.max(self.rows.len() as u64);
        self.rows.truncate(self.limit);
        // One that is older than all that are shown changes nothing.
        if self.rows.iter().any(|row| row.session_id == id) {
            changed.push(id);
        }
    }

    /// One that is not shown yet may take the place of the one that is gone.
    fn remove(&mut self, id: SessionId, changed: &mut Vec<SessionId>) -> bool {
        let has_more = self.total > self.rows.len() as u64;
        let count = self.rows.len();
        self.rows.retain(|row| row.session_id != id);
        if self.rows.len() == count {
            return true;
        }
        changed.push(id);
        self.total = self.total.saturating_sub(1);
        !has_more
    }

    fn fits(&self, row: &SessionRow) -> bool {
        let has =
            |text: &Option<String>, part: &str| text.as_ref().is_some_and(|text| text.to_lowercase().contains(part));
        self.cwd.as_ref().is_none_or(|cwd| row.cwd == *cwd)
            && self.text.as_ref().is_none_or(|part| has(&row.name, part) || has(&row.first_message, part))
    }

    /// Shows all of it.
    fn show(&self, console: &mut Console) -> Result<()> {
        if console.json {
            return Ok(console.raw_json_line(&self.json)?);
        }
        let fits = if console.out_is_terminal { terminal_rows().saturating_sub(1) } else { usize::MAX };
        let table = table_of(&self.rows[..self.rows.len().min(fits)], console);
        let start = if console.out_is_terminal { CLEAR } else { "" };
        write!(console.out, "{start}{table}")?;
        Ok(console.out.flush()?)
    }

    /// Shows what has changed: on a terminal in its place, elsewhere as further lines.
    fn show_changed(&self, console: &mut Console, changed: &[SessionId]) -> Result<()> {
        if console.json {
            return Ok(console.out.flush()?);
        }
        if console.out_is_terminal {
            return self.show(console);
        }
        let rows: Vec<SessionRow> = self.rows.iter().filter(|row| changed.contains(&row.session_id)).cloned().collect();
        let table = table_of(&rows, console);
        console.out.write_all(table.as_bytes())?;
        for id in changed.iter().filter(|id| !self.rows.iter().any(|row| row.session_id == **id)) {
            console.line(&format!("{}  gone", one_line(short_id(id))))?;
        }
        Ok(console.out.flush()?)
    }
}
