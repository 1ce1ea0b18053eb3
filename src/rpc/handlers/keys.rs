//! Keys of providers. No answer and no error has one in it.

use std::sync::Arc;

use agentd_protocol::methods::{
    ListKeys, ListKeysParams, ListKeysResult, RemoveKey, RemoveKeyParams, RemoveKeyResult, SetKey, SetKeyParams,
    SetKeyResult,
};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(SetKey, set);
    registration.plain(RemoveKey, remove);
    registration.plain(ListKeys, list);
}

async fn set(call: Arc<Call>, params: SetKeyParams) -> Result<SetKeyResult, Failure> {
    call.refuse_tools("a key").await?;
    let (file, _) = call.core.sessions.set_key(params.provider, Some(params.key)).await?;
    Ok(SetKeyResult { file: file.display().to_string() })
}

async fn remove(call: Arc<Call>, params: RemoveKeyParams) -> Result<RemoveKeyResult, Failure> {
    call.refuse_tools("the end of a key").await?;
    let (file, removed) = call.core.sessions.set_key(params.provider, None).await?;
    Ok(RemoveKeyResult { file: file.display().to_string(), removed })
}

async fn list(call: Arc<Call>, params: ListKeysParams) -> Result<ListKeysResult, Failure> {
    let env = match params.session_id {
        Some(id) => call.core.sessions.place_of(&id).await?.env,
        None => call.env().await,
    };
    let (file, keys) = call.core.sessions.list_keys(env).await;
    Ok(ListKeysResult { file: file.display().to_string(), keys })
}
