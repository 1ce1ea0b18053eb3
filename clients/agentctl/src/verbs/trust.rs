//! `trust` and `untrust`: which folders are trusted.

use std::path::{Path, PathBuf};

use agentd_protocol::methods::{
    Empty, FolderTrust, ListTrust, Trust, TrustDecision, TrustParams, Untrust, UntrustParams,
};
use anyhow::{Context, Result};

use crate::cli::{TrustArgs, UntrustArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::now::now_ms;
use crate::show::clean::one_line;
use crate::show::style::age;

/// Runs `trust`.
///
/// # Errors
/// There is no such folder, the decisions cannot be read or written, or the connection closes.
pub(crate) async fn trust(link: &mut Link, console: &mut Console, args: &TrustArgs) -> Result<Exit> {
    if args.list {
        return list(link, console).await;
    }
    let decision = if args.no { TrustDecision::No } else { TrustDecision::Yes };
    let path = Some(absolute(console, args.path.as_deref())?);
    let kept = link.call::<Trust>(&TrustParams { session_id: None, path, decision }).await?;
    match kept.decision {
        _ if console.json => console.json_line(&kept)?,
        TrustDecision::Yes => console.line(&format!("{} is trusted", one_line(&kept.path)))?,
        TrustDecision::No => console.line(&format!("{} is not trusted", one_line(&kept.path)))?,
    }
    Ok(Exit::Done)
}

/// Runs `untrust`.
///
/// # Errors
/// As [`trust`].
pub(crate) async fn untrust(link: &mut Link, console: &mut Console, args: &UntrustArgs) -> Result<Exit> {
    let path = Some(absolute(console, args.path.as_deref())?);
    let forgotten = link.call::<Untrust>(&UntrustParams { session_id: None, path }).await?;
    if console.json {
        console.json_line(&forgotten)?;
        return Ok(Exit::Done);
    }
    let path = one_line(&forgotten.path);
    match forgotten.forgotten {
        Some(decision) => console.line(&format!("{path}: forgotten ({})", decision.as_str()))?,
        None => console.note(&format!("nothing was decided about {path} itself; trust --list shows what was"))?,
    }
    Ok(Exit::Done)
}

async fn list(link: &mut Link, console: &mut Console) -> Result<Exit> {
    let found = link.call::<ListTrust>(&Empty {}).await?;
    if console.json {
        console.json_line(&found)?;
        return Ok(Exit::Done);
    }
    for folder in &found.folders {
        console.line(&line(folder, now_ms()))?;
    }
    if found.folders.is_empty() {
        console.note("nothing was decided about any folder")?;
    }
    Ok(Exit::Done)
}

/// Returns a line: the decision, the folder, how long ago, and who decided.
fn line(folder: &FolderTrust, now: i64) -> String {
    let mut line = format!("{:<3}  {}", folder.decision.as_str(), one_line(&folder.path));
    if let Some(at) = folder.decided_at {
        line.push_str(&format!("  {}", age(now - at)));
    }
    if let Some(client) = &folder.client {
        line.push_str(&format!("  {}", one_line(client)));
    }
    line
}

fn absolute(console: &Console, path: Option<&Path>) -> Result<String> {
    let path: PathBuf = path.map_or_else(|| console.cwd.clone(), |path| console.cwd.join(path));
    let text = path.to_str().with_context(|| format!("{} is not valid UTF-8", path.display()))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::console::test::console;
    use crate::fake::link;

    /// Runs `trust` against a daemon that answers one request, and returns what that had and what was printed.
    async fn said(args: TrustArgs, as_json: bool, method: &str, result: Value) -> (Value, String, String) {
        let (mut link, mut daemon, _interrupt) = link();
        let (mut console, out, err) = console(as_json);
        let (exit, params) = tokio::join!(trust(&mut link, &mut console, &args), daemon.answer(method, result));
        assert_eq!(exit.expect("it succeeds"), Exit::Done);
        (params, out.text(), err.text())
    }

    #[tokio::test]
    async fn a_folder_is_named_as_it_is_seen_from_here() {
        let kept = json!({"path": "/srv/code\u{1b}[2J", "decision": "yes"});
        let (params, out, _) = said(TrustArgs::default(), false, "trust", kept).await;
        assert_eq!(params, json!({"path": "/srv/code", "decision": "yes"}));
        assert_eq!(out, "/srv/code\u{241b}[2J is trusted\n");
        let args = TrustArgs { path: Some("../p".into()), no: true, list: false };
        let kept = json!({"path": "/srv/p", "decision": "no"});
        let (params, out, _) = said(args, false, "trust", kept).await;
        assert_eq!(params, json!({"path": "/srv/code/../p", "decision": "no"}));
        assert_eq!(out, "/srv/p is not trusted\n");
    }

    #[tokio::test]
    async fn decisions_are_listed() {
        let args = || TrustArgs { list: true, ..TrustArgs::default() };
        let folders = json!([{"path": "/p", "decision": "no"},
            {"path": "/q", "decision": "yes", "decidedAt": 5, "client": "x\u{202e}y"}]);
        let answer = json!({"file": "/f", "folders": folders});
        let (_, out, _) = said(args(), false, "list_trust", answer.clone()).await;
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "no   /p"));
        assert!(lines[1].starts_with("yes  /q  ") && lines[1].ends_with("  x<U+202E>y"), "{out}");
        let (_, out, err) = said(args(), false, "list_trust", json!({"file": "/f", "folders": []})).await;
        assert_eq!((out.as_str(), err.as_str()), ("", "nothing was decided about any folder\n"));
        let (_, out, _) = said(args(), true, "list_trust", json!({"file": "/f", "folders": []})).await;
        assert_eq!(out, "{\"file\":\"/f\",\"folders\":[]}\n");
    }

    #[tokio::test]
    async fn what_is_forgotten_is_told() {
        for (answer, out, err) in [
            (json!({"path": "/srv/code", "forgotten": "no"}), "/srv/code: forgotten (no)\n", ""),
            (json!({"path": "/p"}), "", "nothing was decided about /p itself; trust --list shows what was\n"),
        ] {
            let (mut link, mut daemon, _interrupt) = link();
            let (mut console, printed, noted) = console(false);
            let args = UntrustArgs::default();
            let verb = untrust(&mut link, &mut console, &args);
            let (exit, params) = tokio::join!(verb, daemon.answer("untrust", answer));
            assert_eq!((exit.expect("it succeeds"), params), (Exit::Done, json!({"path": "/srv/code"})));
            assert_eq!((printed.text().as_str(), noted.text().as_str()), (out, err));
        }
    }
}
