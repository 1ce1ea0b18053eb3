//! The models that can be used.

use std::sync::Arc;

use agentd_protocol::methods::{GetAvailableModels, GetAvailableModelsParams, GetAvailableModelsResult};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(GetAvailableModels, available);
}

async fn available(call: Arc<Call>, params: GetAvailableModelsParams) -> Result<GetAvailableModelsResult, Failure> {
    match params.session_id {
        Some(id) => Ok(call.core.sessions.models_of_session(&id).await?),
        None => {
            let env = call.env().await;
            Ok(call.core.sessions.available_models(&env).await)
        }
    }
}
