//! The models that can be used.

use std::sync::Arc;

use agentd_protocol::methods::{GetAvailableModels, GetAvailableModelsParams, GetAvailableModelsResult};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use crate::config::SessionPlace;
use crate::config::settings::Layer;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(GetAvailableModels, available);
}

async fn available(call: Arc<Call>, params: GetAvailableModelsParams) -> Result<GetAvailableModelsResult, Failure> {
    match params.session_id {
        Some(id) => Ok(call.core.sessions.models_of_session(&id).await?),
        None => {
            let place = SessionPlace { cwd: call.conn().cwd(), env: call.env().await, given: Layer::default() };
            Ok(call.core.sessions.available_models(place).await)
        }
    }
}
