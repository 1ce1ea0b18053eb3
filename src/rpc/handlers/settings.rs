//! Changing a session's name, model, thinking level, modes and environment.

use std::sync::Arc;

use agentd_protocol::methods::{
    CycleModel, CycleThinkingLevel, Empty, GetAvailableThinkingLevels, SetAutoRetry, SetEnv, SetEnvParams,
    SetFollowUpMode, SetMode, SetModel, SetModelParams, SetSessionName, SetSessionNameParams, SetSteeringMode,
    SetThinkingLevel,
};
use agentd_protocol::model::Model;

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use crate::config::env::check_vars;
use crate::constants::MAX_SESSION_NAME_CHARS;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.session(SetSessionName, set_name);
    registration.session(SetModel, set_model);
    registration.session(SetThinkingLevel, async |call, params| {
        call.ask(params.session_id, async |session| session.set_thinking_level(params.level).await).await
    });
    registration.session(CycleThinkingLevel, async |call, params| {
        call.ask(params.session_id, async |session| session.cycle_thinking_level().await).await
    });
    registration.session(GetAvailableThinkingLevels, async |call, params| {
        call.ask(params.session_id, async |session| session.thinking_levels().await).await
    });
    registration.session(CycleModel, async |call, params| {
        call.core.sessions.refresh_models(None).await;
        call.ask(params.session_id, async |session| session.cycle_model().await).await
    });
    registration.session(SetMode, async |call, params| {
        call.ask(params.session_id, async |session| session.set_mode(params.mode).await).await
    });
    registration.session(SetAutoRetry, async |call, params| {
        call.ask(params.session_id, async |session| session.set_auto_retry(params.enabled).await).await
    });
    registration.session(SetSteeringMode, async |call, params| {
        call.ask(params.session_id, async |session| session.set_steering_mode(params.mode).await).await
    });
    registration.session(SetFollowUpMode, async |call, params| {
        call.ask(params.session_id, async |session| session.set_follow_up_mode(params.mode).await).await
    });
    registration.session(SetEnv, set_env);
}

async fn set_name(call: Arc<Call>, params: SetSessionNameParams) -> Result<Empty, Failure> {
    let name = params.name.trim().to_owned();
    if name.is_empty() {
        return Err(Failure::param("name", "must not be empty"));
    }
    check_name(&name)?;
    call.ask(params.session_id, async |session| session.set_name(name).await).await
}

/// Refuses a name that is too long for lists.
///
/// # Errors
/// The failure names the parameter and the limit.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    match name.chars().count() {
        count if count > MAX_SESSION_NAME_CHARS => {
            Err(Failure::param("name", format!("{count} characters; at most {MAX_SESSION_NAME_CHARS} are kept")))
        }
        _ => Ok(()),
    }
}

async fn set_env(call: Arc<Call>, params: SetEnvParams) -> Result<Empty, Failure> {
    check_vars(&params.env).map_err(|why| Failure::param("env", why))?;
    call.ask(params.session_id, async |session| session.set_env(params.env).await).await
}

async fn set_model(call: Arc<Call>, params: SetModelParams) -> Result<Model, Failure> {
    let name = match (params.model, params.provider, params.model_id) {
        (Some(model), None, None) => model,
        (None, Some(provider), Some(id)) => format!("{provider}/{id}"),
        (None, None, None) => return Err(Failure::param("model", "missing; or give provider and modelId")),
        (None, Some(_), None) => return Err(Failure::param("modelId", "missing beside provider")),
        (None, None, Some(_)) => return Err(Failure::param("provider", "missing beside modelId")),
        (Some(_), _, _) => {
            return Err(Failure::param("model", "given together with provider or modelId; give one of them"));
        }
    };
    call.core.sessions.refresh_models(Some(&name)).await;
    call.ask(params.session_id, async |session| session.set_model(name).await).await
}
