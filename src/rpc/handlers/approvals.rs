//! Questions to people, and their answers.

use std::sync::Arc;

use agentd_protocol::error_code::ErrorKind;
use agentd_protocol::methods::{
    Empty, ListApprovals, ListApprovalsParams, ListApprovalsResult, RespondApproval, RespondApprovalParams,
};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use crate::agent::handle::{SessionError, UserAnswer};
use crate::constants::MAX_REMARK_CHARS;
use crate::permissions::questions::session_of;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(ListApprovals, list);
    registration.plain(RespondApproval, respond);
}

async fn list(call: Arc<Call>, params: ListApprovalsParams) -> Result<ListApprovalsResult, Failure> {
    let id = match params.session_id {
        Some(id) => Some(call.session(Some(id)).await?.id().clone()),
        None => None,
    };
    Ok(ListApprovalsResult { approvals: call.core.sessions.approvals(id).await })
}

/// The question's id names its session, which is loaded if need be.
async fn respond(call: Arc<Call>, params: RespondApprovalParams) -> Result<Empty, Failure> {
    let RespondApprovalParams { approval_id, decision, message } = params;
    if message.as_ref().is_some_and(|message| message.chars().count() > MAX_REMARK_CHARS) {
        return Err(Failure::param("message", format!("longer than {MAX_REMARK_CHARS} characters")));
    }
    let Some(session) = session_of(&approval_id) else {
        return Err(SessionError::UnknownApproval(approval_id).into());
    };
    call.refuse_tools("an answer to a question").await?;
    let answer = UserAnswer { approval: approval_id.clone(), decision, message, client: call.conn().client() };
    let answered = call.ask(Some(session), async |session| session.respond(answer.clone()).await).await;
    answered.map_err(|failure| match failure.kind() {
        ErrorKind::UnknownSession => SessionError::UnknownApproval(approval_id).into(),
        _ => failure,
    })
}
