//! What stands at the top of an attached session.

use agentd_protocol::SessionId;
use agentd_protocol::methods::{DaemonStatus, EnvSource, SessionStatus};
use agentd_protocol::session_view::SessionView;

use crate::session_ref::short_id;
use crate::show::clean::one_line;
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

/// Returns the lines of the header.
pub(super) fn lines(view: &SessionView, others: &[String], keys: &str) -> Vec<String> {
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
    if state.interrupted {
        lines
            .push("         the last run was cut short by the end of the daemon; /continue goes on with it".to_owned());
    }
    lines.push(format!("keys     {keys}"));
    lines
}
