//! Runs: starting, steering and ending them.

use std::sync::Arc;

use agentd_protocol::SessionId;
use agentd_protocol::message::ContentBlock;
use agentd_protocol::methods::{
    Abort, AbortRetry, ClearQueue, Continue, FollowUp, Prompt, PromptParams, PromptResult, QueueParams, Steer,
    SteerParams, Wait,
};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use crate::agent::handle::UserInput;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.session(Prompt, prompt);
    registration.session(Steer, async |call, params| {
        let SteerParams { session_id, message, images, when, client_message_id } = params;
        let (id, input) = queued(&call, QueueParams { session_id, message, images, client_message_id })?;
        call.ask(id, async |session| session.steer(input, when.unwrap_or_default()).await).await
    });
    registration.session(FollowUp, async |call, params| {
        let (id, input) = queued(&call, params)?;
        call.ask(id, async |session| session.follow_up(input).await).await
    });
    registration
        .session(Abort, async |call, params| call.ask(params.session_id, async |session| session.abort().await).await);
    registration.session(AbortRetry, async |call, params| {
        call.ask(params.session_id, async |session| session.abort_retry().await).await
    });
    registration.session(ClearQueue, async |call, params| {
        call.ask(params.session_id, async |session| session.clear_queue().await).await
    });
    registration.session(Continue, async |call, params| {
        call.ask(params.session_id, async |session| session.continue_run().await).await
    });
    registration
        .session(Wait, async |call, params| call.ask(params.session_id, async |session| session.wait().await).await);
}

async fn prompt(call: Arc<Call>, params: PromptParams) -> Result<PromptResult, Failure> {
    refuse_blank(&params.message, &params.images)?;
    let if_busy = params.if_busy.or(params.streaming_behavior).unwrap_or_default();
    let input = UserInput {
        message: params.message,
        images: params.images,
        client_message_id: params.client_message_id,
        client: call.conn().client(),
    };
    call.ask(params.session_id, async |session| session.prompt(input, if_busy).await).await
}

fn queued(call: &Call, params: QueueParams) -> Result<(Option<SessionId>, UserInput), Failure> {
    let QueueParams { session_id, message, images, client_message_id } = params;
    refuse_blank(&message, &images)?;
    Ok((session_id, UserInput { message, images, client_message_id, client: call.conn().client() }))
}

/// A message without content would be left out of the request, and the model asked about nothing.
fn refuse_blank(message: &str, images: &[ContentBlock]) -> Result<(), Failure> {
    if message.trim().is_empty() && images.is_empty() {
        return Err(Failure::param("message", "must not be blank unless an image goes with it"));
    }
    Ok(())
}
