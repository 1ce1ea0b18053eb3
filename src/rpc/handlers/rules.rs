//! Rules for tool calls.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::SessionId;
use agentd_protocol::methods::{
    AddRule, ChangeRuleParams, ChangeRuleResult, ListRules, ListRulesParams, ListRulesResult, RemoveRule, RuleScope,
    TestRule, TestRuleParams, TestRuleResult,
};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use crate::permissions::rule_files::RuleEdit;
use crate::supervisor::RuleChange;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(ListRules, list);
    registration.plain(AddRule, async |call, params| change(call, params, RuleEdit::Add).await);
    registration.plain(RemoveRule, async |call, params| change(call, params, RuleEdit::Remove).await);
    registration.plain(TestRule, test);
}

async fn list(call: Arc<Call>, params: ListRulesParams) -> Result<ListRulesResult, Failure> {
    let folder = folder(&call, params.session_id, params.cwd).await?;
    let home = call.env().await.get("HOME").map(PathBuf::from);
    Ok(call.core.sessions.list_rules(folder, home).await?)
}

async fn change(call: Arc<Call>, params: ChangeRuleParams, edit: RuleEdit) -> Result<ChangeRuleResult, Failure> {
    call.refuse_tools("a rule").await?;
    let scope = params.scope.unwrap_or(RuleScope::User);
    let folder = match (scope, params.cwd) {
        (RuleScope::User, None) => PathBuf::from("/"),
        (_, cwd) => folder(&call, params.session_id, cwd).await?,
    };
    Ok(call.core.sessions.change_rule(RuleChange { edit, rule: params.rule, scope, folder }).await?)
}

async fn test(call: Arc<Call>, mut params: TestRuleParams) -> Result<TestRuleResult, Failure> {
    let folder = folder(&call, params.session_id.take(), params.cwd.take()).await?;
    let env = call.env().await;
    Ok(call.core.sessions.test_rule(params, folder, env).await?)
}

async fn folder(call: &Call, session: Option<SessionId>, cwd: Option<String>) -> Result<PathBuf, Failure> {
    match cwd {
        Some(cwd) => Ok(cwd.into()),
        None => Ok(call.ask(session, async |session| session.state().await).await?.cwd.into()),
    }
}
