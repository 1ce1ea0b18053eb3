//! Which folders are trusted.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::SessionId;
use agentd_protocol::methods::{ListTrust, Trust, TrustParams, TrustResult, Untrust, UntrustParams, UntrustResult};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(Trust, trust);
    registration.plain(Untrust, untrust);
    registration.plain(ListTrust, async |call, _| Ok(call.core.sessions.list_trust().await?));
}

async fn trust(call: Arc<Call>, params: TrustParams) -> Result<TrustResult, Failure> {
    call.refuse_tools("a decision about a folder").await?;
    let path = folder(&call, params.session_id, params.path).await?;
    let name = call.conn().client().who.name.clone();
    let client = (!name.is_empty()).then_some(name);
    Ok(call.core.sessions.trust(path, params.decision, client).await?)
}

async fn untrust(call: Arc<Call>, params: UntrustParams) -> Result<UntrustResult, Failure> {
    call.refuse_tools("a decision about a folder").await?;
    let path = folder(&call, params.session_id, params.path).await?;
    Ok(call.core.sessions.untrust(path).await?)
}

async fn folder(call: &Call, session: Option<SessionId>, path: Option<String>) -> Result<PathBuf, Failure> {
    match path {
        Some(path) => Ok(path.into()),
        None => Ok(call.ask(session, async |session| session.state().await).await?.cwd.into()),
    }
}
