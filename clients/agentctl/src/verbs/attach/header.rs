//! What stands at the top of an attached session.

use agentd_protocol::SessionId;
use agentd_protocol::methods::{DaemonStatus, EnvSource, SessionState, SessionStatus};
use agentd_protocol::session_view::SessionView;

use crate::session_ref::short_id;
use crate::show::clean::one_line;
use crate::show::style::duration;
use crate::verbs::daemon::confinement;
use crate::verbs::ls::status_word;

/// Returns the names of other clients of a session; the pid stands for one that did not say its name.
pub(super) fn others(status: &DaemonStatus, session_id: &SessionId) -> Vec<String> {
    let own = i32::try_from(std::process::id()).ok();
    let attached = status.clients.iter().filter(|client| client.pid.is_none() || client.pid != own);
    let attached = attached.filter(|client| client.attached.iter().any(|a| a.session_id == *session_id));
    attached
        .map(|client| match (client.name.as_str(), client.pid) {
            ("", Some(pid)) => format!("pid {pid}"),
            ("", None) => "a client".to_owned(),
            (name, _) => one_line(name),
        })
        .collect()
}

/// Says what a session in retry wait waits for.
fn waiting(state: &SessionState, now: i64) -> Option<String> {
    let retry = state.retry.as_ref()?;
    let left = state.retry_at.map_or(retry.delay_ms, |at| u64::try_from(at - now).unwrap_or(0));
    let (attempt, most) = (retry.attempt, retry.max_attempts);
    let why = one_line(&retry.error_message);
    Some(format!("waiting for the provider, {}: retry {attempt} of {most} after {why}", duration(left)))
}

/// Returns the lines of the header; `now` in milliseconds since the epoch.
pub(super) fn lines(view: &SessionView, others: &[String], keys: &str, now: i64) -> Vec<String> {
    let state = &view.state;
    let name = state.session_name.as_deref().map(|name| format!("  {}", one_line(name))).unwrap_or_default();
    let model = view.model.as_deref().map_or_else(|| "none can be used".to_owned(), one_line);
    let status = match state.status {
        SessionStatus::Unloaded => "idle",
        status => status_word(status),
    };
    let others =
        if others.is_empty() { "nobody else here".to_owned() } else { format!("also here: {}", others.join(", ")) };
    let leaf = state
        .leaf_id
        .as_ref()
        .map_or_else(|| "empty".to_owned(), |leaf| format!("branch to {}", one_line(leaf.as_str())));
    let mut lines = vec![
        format!("session  {}{name}", one_line(short_id(&view.session_id))),
        format!("model    {model}, thinking {}", state.thinking_level.as_str()),
        format!("state    {status}, {leaf}, {others}"),
        format!("cwd      {}; tools {}", one_line(&state.cwd), confinement(&state.confinement)),
    ];
    if state.env_source == EnvSource::LoginShell {
        lines.push("env      the login shell's: no terminal has sent its own since the daemon started".to_owned());
    }
    if let Some(waiting) = waiting(state, now) {
        lines.push(format!("         {waiting}"));
    }
    if state.interrupted {
        lines
            .push("         the last run was cut short by the end of the daemon; /continue goes on with it".to_owned());
    }
    lines.push(format!("keys     {keys}"));
    lines
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_waited_for_is_said_with_the_time_left() {
        let mut state = crate::fake::state("retryWait");
        state["retryAt"] = 50_000.into();
        state["retry"] = json!({"attempt": 2, "maxAttempts": 3, "delayMs": 60_000, "errorMessage": "429: slow\ndown"});
        let state: SessionState = serde_json::from_value(state).expect("a state");
        let expected = "waiting for the provider, 43.0 s: retry 2 of 3 after 429: slow down";
        assert_eq!(waiting(&state, 7_000).as_deref(), Some(expected));
        assert!(waiting(&state, 70_000).expect("it waits").starts_with("waiting for the provider, 0 ms"));
        let idle = serde_json::from_value(crate::fake::state("idle")).expect("a state");
        assert_eq!(waiting(&idle, 0), None);
    }
}
