//! Reading a session.

use agentd_protocol::methods::{GetEntries, GetLastAssistantText, GetMessages, GetSessionStats, GetState};

use super::super::methods::Registration;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.session(GetState, async |call, params| {
        call.ask(params.session_id, async |session| session.state().await).await
    });
    registration.session(GetMessages, async |call, params| {
        call.ask(params.session_id, async |session| session.messages().await).await
    });
    registration.session(GetEntries, async |call, params| {
        call.ask(params.session_id.clone(), async |session| session.entries(params).await).await
    });
    registration.session(GetLastAssistantText, async |call, params| {
        call.ask(params.session_id, async |session| session.last_assistant_text().await).await
    });
    registration.session(GetSessionStats, async |call, params| {
        call.ask(params.session_id, async |session| session.stats().await).await
    });
}
