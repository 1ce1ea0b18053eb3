//! `run`: asks in a new session, or in the last one of this directory, and prints the answer.

use agentd_protocol::client::Client;
use agentd_protocol::methods::{
    Attach, AttachParams, AttachResult, NewSession, NewSessionParams, Prompt, PromptParams, PromptResult, Replay,
    SetModel, SetModelParams, SetSessionName, SetSessionNameParams, SetThinkingLevel, SetThinkingLevelParams, View,
};
use agentd_protocol::session_view::SessionView;
use agentd_protocol::{Seq, SessionId};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::RunArgs;
use crate::console::Console;
use crate::exit::{Exit, UsageError};
use crate::follow::{Followed, Show, follow};
use crate::input::Message;
use crate::link::Link;
use crate::session_ref::{SessionRef, short_id};
use crate::show::clean::one_line;

/// Runs the verb.
///
/// # Errors
/// The session cannot be made or found, the prompt is refused, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, args: &RunArgs, message: Message) -> Result<Exit> {
    let view = view_for(console);
    let session = if args.continue_last {
        let session_id = SessionRef::Cwd.resolve(&link.client, &console.cwd).await?;
        link.lend_environment(&session_id).await?;
        attach(link, session_id, view).await?
    } else {
        new_session(link, console, args, view).await?
    };
    let session_id = session.session_id.clone();
    adjust(link, args, &session_id).await?;
    if args.detach {
        return leave(link, console, &session_id, message).await;
    }
    let (accepted, after) = link.keeping_events(prompt(&link.client.clone(), &session_id, message)).await?;
    let show = show_for(console, args.quiet);
    if show == Show::Live {
        let model = session.state.model.as_ref().map(|model| format!(", {}/{}", model.provider, model.id));
        console.note(&one_line(&format!("session {}{}", short_id(&session_id), model.unwrap_or_default())))?;
    }
    let followed = Followed { view: SessionView::new(session, view), after, asked: accepted.entry_id };
    follow(link, console, show, followed).await
}

/// Returns the view in which a run is read: people need no single deltas, programs may want them.
pub(crate) fn view_for(console: &Console) -> View {
    if console.json { View::Full } else { View::Coalesced }
}

/// Returns how a run is shown.
pub(crate) fn show_for(console: &Console, quiet: bool) -> Show {
    match (console.json, quiet) {
        (true, _) => Show::Json,
        (false, true) => Show::Answer,
        (false, false) => Show::Live,
    }
}

/// Attaches without the past.
///
/// # Errors
/// There is no such session, or it cannot be opened.
pub(crate) async fn attach(link: &mut Link, session_id: SessionId, view: View) -> Result<AttachResult> {
    let params = AttachParams {
        session_id: Some(session_id),
        view: Some(view),
        history: Some(false),
        ..AttachParams::default()
    };
    Ok(link.call::<Attach>(&params).await?)
}

async fn new_session(link: &mut Link, console: &Console, args: &RunArgs, view: View) -> Result<AttachResult> {
    let params = NewSessionParams {
        cwd: console.cwd.to_str().map(str::to_owned),
        model: args.model.clone(),
        name: args.name.clone(),
        tools: args.tools.as_deref().map(tool_names).transpose()?,
        max_turns: args.max_turns,
        settings: assignments(&args.set)?,
        attach: Some(!args.detach),
        view: Some(view),
        ..NewSessionParams::default()
    };
    let made = link.call::<NewSession>(&params).await?;
    Ok(AttachResult {
        session_id: made.session_id,
        epoch: made.epoch,
        seq: made.seq,
        replay: Replay::Exact,
        state: made.state,
        snapshot: None,
    })
}

/// Reads `KEY=VALUE`s; which keys there are and what they may be, the daemon knows.
///
/// # Errors
/// One has no `=`.
pub(crate) fn assignments(texts: &[String]) -> Result<Option<Map<String, Value>>> {
    let mut settings = Map::new();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else {
            return Err(UsageError::new(format!("--set {text:?}: KEY=VALUE, such as retry.max_retries=5")));
        };
        settings.insert(key.trim().to_owned(), Value::from(value));
    }
    Ok((!settings.is_empty()).then_some(settings))
}

fn tool_names(list: &str) -> Result<Vec<String>> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = list.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(UsageError::new(format!(
            "--tools {list:?}: names with a comma between them, such as \"read,bash\""
        )));
    }
    Ok(names)
}

/// Sets what `new_session` does not take, or what an old session is to change.
async fn adjust(link: &mut Link, args: &RunArgs, session_id: &SessionId) -> Result<()> {
    let session_id = Some(session_id.clone());
    if args.continue_last && args.model.is_some() {
        let params =
            SetModelParams { session_id: session_id.clone(), model: args.model.clone(), ..SetModelParams::default() };
        link.call::<SetModel>(&params).await?;
    }
    if let Some(level) = args.thinking {
        link.call::<SetThinkingLevel>(&SetThinkingLevelParams { session_id: session_id.clone(), level }).await?;
    }
    if let (true, Some(name)) = (args.continue_last, &args.name) {
        link.call::<SetSessionName>(&SetSessionNameParams { session_id, name: name.clone() }).await?;
    }
    Ok(())
}

async fn prompt(client: &Client, session_id: &SessionId, message: Message) -> Result<(PromptResult, Seq)> {
    let params = PromptParams {
        session_id: Some(session_id.clone()),
        message: message.text,
        images: message.images,
        ..PromptParams::default()
    };
    Ok(client.request::<Prompt>(&params).await?.answer_with_seq().await?)
}

async fn leave(link: &mut Link, console: &mut Console, session_id: &SessionId, message: Message) -> Result<Exit> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Left<'a> {
        session_id: &'a SessionId,
        #[serde(flatten)]
        prompt: PromptResult,
    }
    let (prompt, _) = link.keeping_events(prompt(&link.client.clone(), session_id, message)).await?;
    if console.json {
        console.json_line(&Left { session_id, prompt })?;
    } else {
        console.line(session_id.as_str())?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_keys_with_values() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(assignments(&[]).expect("none"), None);
        let set = assignments(&texts(&["model=a=b", " retry.enabled =", "model=c"])).expect("three").expect("some");
        assert_eq!(Value::Object(set).to_string(), r#"{"model":"c","retry.enabled":""}"#);
        assert!(assignments(&texts(&["model"])).is_err());
    }

    #[test]
    fn tools_are_listed_with_commas() {
        assert_eq!(tool_names("").expect("none"), [""; 0]);
        assert_eq!(tool_names("read, bash").expect("two"), ["read", "bash"]);
        assert!(tool_names("read,,bash").is_err());
    }
}
