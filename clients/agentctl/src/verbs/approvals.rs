//! `approvals`, `approve` and `deny`: the questions of all sessions, and answers to them.

use std::collections::HashSet;
use std::time::Duration;

use agentd_protocol::ApprovalId;
use agentd_protocol::methods::{
    Approval, Decision, ListApprovals, ListApprovalsParams, ListApprovalsResult, RespondApproval, RespondApprovalParams,
};
use anyhow::{Result, bail};

use crate::cli::{ApprovalsArgs, ApproveArgs, DenyArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::now::now_ms;
use crate::session_ref::short_id;
use crate::show::clean::one_line;
use crate::show::question::short_approval;
use crate::show::style::age;

/// How often `approvals --watch` looks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Runs `approvals`. With `watch` it ends only with Ctrl-C or the daemon.
///
/// # Errors
/// The connection closes, or output cannot be written.
pub(crate) async fn list(link: &mut Link, console: &mut Console, args: &ApprovalsArgs) -> Result<Exit> {
    let mut shown = HashSet::new();
    loop {
        let found = link.call::<ListApprovals>(&ListApprovalsParams::default()).await?;
        if console.json && !args.watch {
            console.json_line(&found)?;
        } else {
            for approval in &found.approvals {
                if shown.insert(approval.question.approval_id.clone()) {
                    print(console, approval)?;
                }
            }
            console.out.flush()?;
        }
        if !args.watch {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn print(console: &mut Console, approval: &Approval) -> Result<()> {
    if console.json {
        return Ok(console.json_line(approval)?);
    }
    Ok(console.line(&line(approval, now_ms()))?)
}

/// Returns a line: the question's name, its session's, its age, what is asked, and the answers that it takes.
fn line(approval: &Approval, now: i64) -> String {
    let question = &approval.question;
    let options: Vec<&str> = question.options.iter().map(|option| option.as_str()).collect();
    format!(
        "{}  session {}  {}  {} [{}]",
        one_line(short_approval(&question.approval_id)),
        one_line(short_id(&approval.session_id)),
        age(now - question.asked_at),
        one_line(&question.text),
        options.join(", ")
    )
}

/// Runs `approve`.
///
/// # Errors
/// There is no such question, another client was first, or the connection closes.
pub(crate) async fn approve(link: &mut Link, console: &mut Console, args: ApproveArgs) -> Result<Exit> {
    let decision = if args.session { Decision::Session } else { Decision::Once };
    respond(link, console, &args.approval, decision, args.message).await
}

/// Runs `deny`.
///
/// # Errors
/// As [`approve`].
pub(crate) async fn deny(link: &mut Link, console: &mut Console, args: DenyArgs) -> Result<Exit> {
    respond(link, console, &args.approval, Decision::Deny, args.message).await
}

async fn respond(
    link: &mut Link,
    console: &mut Console,
    name: &str,
    decision: Decision,
    message: Option<String>,
) -> Result<Exit> {
    let approval_id = find(link, name).await?;
    let answer = link.call::<RespondApproval>(&RespondApprovalParams { approval_id, decision, message }).await?;
    if console.json {
        console.json_line(&answer)?;
    }
    Ok(Exit::Done)
}

/// Finds the question that a text names. A whole id need not be open: the daemon knows how it ended.
async fn find(link: &mut Link, name: &str) -> Result<ApprovalId> {
    if name.contains('.') {
        return Ok(ApprovalId::new(name));
    }
    let ListApprovalsResult { approvals } = link.call::<ListApprovals>(&ListApprovalsParams::default()).await?;
    let ids = approvals.into_iter().map(|approval| approval.question.approval_id);
    let mut fitting: Vec<ApprovalId> = ids.filter(|id| !name.is_empty() && id.as_str().ends_with(name)).collect();
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => bail!("no question {name:?} waits for an answer; agentctl approvals lists those that do"),
        several => bail!("{several} questions end with {name:?}; give more of the id"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::console::test::console;
    use crate::fake::{SESSION, link};

    fn approval(end: &str) -> Value {
        json!({"sessionId": SESSION, "approvalId": format!("{SESSION}.{end}"), "kind": "maxTurns",
            "text": "Go\u{1b} on?", "options": ["once", "session", "deny", "later"], "askedAt": 1000, "turns": 50})
    }

    #[test]
    fn a_question_is_one_line() {
        let approval: Approval = serde_json::from_value(approval("00c0ffee")).expect("an approval");
        let expected = "00c0ffee  session 567890ab  3m  Go␛ on? [once, session, deny]";
        assert_eq!(line(&approval, 181_000), expected);
    }

    #[tokio::test]
    async fn the_end_of_an_id_names_a_question_that_waits() {
        let (mut link, mut daemon, _interrupt) = link();
        let (mut console, ..) = console(false);
        let args = ApproveArgs { approval: "ffee".into(), session: true, message: Some("yes".into()) };
        let script = async {
            let listed = json!({"approvals": [approval("00c0ffee"), approval("00abba00")]});
            daemon.answer("list_approvals", listed.clone()).await;
            let params = daemon.answer("respond_approval", json!({})).await;
            let expected =
                json!({"approvalId": format!("{SESSION}.00c0ffee"), "decision": "session", "message": "yes"});
            assert_eq!(params, expected);
            for _ in 0..2 {
                daemon.answer("list_approvals", listed.clone()).await;
            }
        };
        let work = async {
            assert_eq!(approve(&mut link, &mut console, args).await.expect("answered"), Exit::Done);
            let mut fault = async |name: &str| {
                let args = DenyArgs { approval: name.into(), message: None };
                deny(&mut link, &mut console, args).await.expect_err("no such question").to_string()
            };
            assert!(fault("beef").await.starts_with("no question \"beef\""));
            assert!(fault("").await.starts_with("no question"));
        };
        tokio::join!(script, work);
    }

    #[tokio::test]
    async fn a_late_answer_fails_with_the_daemons_words() {
        let (mut link, mut daemon, _interrupt) = link();
        let (mut console, ..) = console(false);
        let args = DenyArgs { approval: format!("{SESSION}.00c0ffee"), message: None };
        let (outcome, ()) = tokio::join!(
            deny(&mut link, &mut console, args),
            daemon.refuse("respond_approval", -32011, "already_resolved", "answered before")
        );
        assert_eq!(Exit::of_error(&outcome.expect_err("too late")), Some(Exit::Error));
    }
}
