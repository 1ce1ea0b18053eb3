//! `send`: a message to a session that exists.

use agentd_protocol::methods::{AttachResult, Disposition, IfBusy, Prompt, PromptParams};
use agentd_protocol::session_view::SessionView;
use anyhow::Result;

use crate::cli::SendArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::follow::{Followed, follow};
use crate::input::Message;
use crate::link::Link;
use crate::verbs::run;

/// Runs the verb.
///
/// # Errors
/// There is no such session, the message is refused, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, args: &SendArgs, message: Message) -> Result<Exit> {
    let session_id = args.session.resolve(&link.client, &console.cwd).await?;
    link.lend_environment(&session_id).await?;
    let attached =
        if args.wait { Some(run::attach(link, session_id.clone(), run::view_for(console)).await?) } else { None };
    let params = PromptParams {
        session_id: Some(session_id),
        message: message.text,
        images: message.images,
        if_busy: Some(IfBusy::from(args.if_busy)),
        ..PromptParams::default()
    };
    let call = link.client.request::<Prompt>(&params).await?;
    let (accepted, after) = link.keeping_events(call.answer_with_seq()).await?;
    match attached {
        Some(attached) => {
            let AttachResult { ref state, .. } = attached;
            // A message that only waits is answered somewhere after the present leaf.
            let asked = accepted.entry_id.or_else(|| state.leaf_id.clone());
            let view = SessionView::new(attached, run::view_for(console));
            follow(link, console, run::show_for(console, false), Followed { view, after, asked }).await
        }
        None if console.json => {
            console.json_line(&accepted)?;
            Ok(Exit::Done)
        }
        None => {
            console.note(match accepted.disposition {
                Disposition::Started => "started",
                Disposition::Queued => "queued: it is sent when the present turn or run is over",
                Disposition::Handled => "done",
            })?;
            Ok(Exit::Done)
        }
    }
}
