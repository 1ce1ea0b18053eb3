//! `tail`: a session's events as they come.

use agentd_protocol::Cursor;
use agentd_protocol::event::EVENT_METHOD;
use agentd_protocol::methods::{Attach, AttachParams, Replay, View};
use anyhow::Result;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::TailArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::link::{Heard, Link};
use crate::show::clean::{harmless_json, one_line};
use crate::show::style::{Style, cut};

/// Columns of a line where the terminal does not limit them.
const MAX_COLUMNS: usize = 200;

/// Runs the verb. It ends by Ctrl-C, or when the daemon goes away.
///
/// # Errors
/// There is no such session, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, args: &TailArgs) -> Result<Exit> {
    let session_id = args.session.resolve(&link.client, &console.cwd).await?;
    link.interrupts.listen()?;
    let view = if args.coalesced { View::Coalesced } else { View::Full };
    let since =
        args.since.as_ref().map(|(epoch, seq)| Cursor { epoch: epoch.as_str().into(), seq: *seq, view: Some(view) });
    let resumes = since.is_some();
    let params = AttachParams { session_id: Some(session_id), since, view: Some(view), history: Some(false) };
    let attached = link.call::<Attach>(&params).await?;
    let (mut epoch, mut seq) = (attached.epoch, attached.seq);
    let gap = if resumes && attached.replay == Replay::Snapshot { " (what came before is gone)" } else { "" };
    console.note(&format!("from {epoch}:{seq}{gap}"))?;
    loop {
        let Heard::Notification(notification) = link.next_or_interrupt().await? else {
            console.note(&format!("until {epoch}:{seq}"))?;
            return Ok(Exit::Done);
        };
        let mut next = Some(notification);
        while let Some(notification) = next.take().filter(|notification| notification.method == EVENT_METHOD) {
            let text = notification.params.get();
            let position = serde_json::from_str(text).unwrap_or_default();
            let Position { seq: new_seq, epoch: new_epoch } = position;
            (seq, epoch) = (new_seq.max(seq), new_epoch.unwrap_or(epoch));
            if console.json {
                console.line(&harmless_json(text))?;
            } else {
                let line = event_line(text, console.columns().unwrap_or(MAX_COLUMNS), console.out_style);
                console.line(&line)?;
            }
            next = link.try_next();
        }
        console.out.flush()?;
    }
}

/// Where an event leaves its reader.
#[derive(Default)]
struct Position {
    seq: u64,
    /// Told by `lagged` only.
    epoch: Option<agentd_protocol::Epoch>,
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Params {
            seq: u64,
            event: Inner,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(default)]
            epoch: Option<agentd_protocol::Epoch>,
        }
        let params = Params::deserialize(deserializer)?;
        Ok(Self { seq: params.seq, epoch: params.event.epoch })
    }
}

/// Makes a line of an event: its number, its type, and as much of the rest as fits.
fn event_line(params: &str, columns: usize, style: Style) -> String {
    #[derive(Deserialize)]
    struct Params {
        #[serde(default)]
        from: Option<u64>,
        seq: u64,
        event: Map<String, Value>,
    }
    let Ok(Params { from, seq, mut event }) = serde_json::from_str::<Params>(params) else {
        return cut(&one_line(params), columns);
    };
    let number = from.map_or_else(|| format!("{seq:>5}"), |from| format!("{from}-{seq}"));
    let kind = event.shift_remove("type").unwrap_or_default();
    let kind = one_line(kind.as_str().unwrap_or("?"));
    // An update says no more than the one thing that it carries.
    let rest = match event.shift_remove("assistantMessageEvent") {
        Some(update) => update,
        None if event.is_empty() => Value::Null,
        None => Value::Object(event),
    };
    let rest = if rest.is_null() { String::new() } else { one_line(&rest.to_string()) };
    let used = number.len() + kind.len() + 2;
    format!("{} {} {}", style.dim(&number), style.bold(&kind), cut(&rest, columns.saturating_sub(used)))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn events_are_lines() {
        for (params, expected) in [
            (r#"{"sessionId":"s","seq":3,"event":{"type":"agent_start"}}"#, "    3 agent_start"),
            (
                r#"{"sessionId":"s","from":3,"seq":9,"event":{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"a\u001b"}}}"#,
                r#"3-9 message_update {"type":"text_delta","contentIndex":0,"delta":"a\u001b"}"#,
            ),
            (
                r#"{"sessionId":"s","seq":4,"event":{"type":"notice","kind":"k","message":"é\u009b"}}"#,
                "    4 notice {\"kind\":\"k\",\"message\":\"é<U+009B>\"}",
            ),
            ("odd", "odd"),
        ] {
            assert_eq!(event_line(params, 200, Style::default()), expected);
        }
    }

    #[test]
    fn the_position_follows_the_events() {
        let position = |text: &str| {
            let Position { seq, epoch } = serde_json::from_str(text).unwrap_or_default();
            (seq, epoch.map(|epoch| epoch.to_string()))
        };
        assert_eq!(position(r#"{"seq":3,"event":{"type":"x"}}"#), (3, None));
        assert_eq!(position(r#"{"seq":9,"event":{"type":"lagged","epoch":"f"}}"#), (9, Some("f".into())));
        assert_eq!(position("{}"), (0, None));
    }
}
