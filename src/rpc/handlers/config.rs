//! Settings.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::methods::{
    GetConfig, GetConfigParams, GetConfigResult, SetConfig, SetConfigParams, SetConfigResult, Setting,
};
use serde_json::{Map, Value};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use super::sessions::working_directory;
use crate::config::env::SessionEnv;
use crate::config::settings::{Applies, Key, Layer, Project, Resolved, Settled, assigned, key_named, read_json};
use crate::config::{ConfigTarget, Effective, SessionPlace};

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(GetConfig, get);
    registration.plain(SetConfig, set);
}

async fn get(call: Arc<Call>, params: GetConfigParams) -> Result<GetConfigResult, Failure> {
    let only = match &params.key {
        Some(name) => Some(key_named(name).map_err(|why| Failure::param("key", why))?),
        None => None,
    };
    let sessions = &call.core.sessions;
    let place = match params.session_id {
        Some(id) => sessions.place_of(&id).await?,
        None => SessionPlace {
            cwd: match params.cwd {
                Some(cwd) => Some(working_directory(&call, Some(cwd))?),
                None => call.conn().cwd(),
            },
            env: call.env().await,
            given: read_settings(&params.settings.unwrap_or_default())?,
        },
    };
    Ok(tell(sessions.effective(place).await, sessions.live().started(), only))
}

async fn set(call: Arc<Call>, params: SetConfigParams) -> Result<SetConfigResult, Failure> {
    call.refuse_tools("a change of settings").await?;
    let key = key_named(&params.key).map_err(|why| Failure::param("key", why))?;
    let value = match &params.value {
        Value::Null => None,
        value => Some(read_json(key.name, value).map_err(|why| Failure::param("value", why))?.1),
    };
    let env = call.env().await;
    let cwd = params.cwd.map(|cwd| working_directory(&call, Some(cwd))).transpose()?.or_else(|| call.conn().cwd());
    let target = match params.project {
        Some(true) => project_target(&call, key, cwd.clone(), &env)?,
        _ => ConfigTarget::User,
    };
    let sessions = &call.core.sessions;
    let file = sessions.set_config(target, key, value).await?;
    let effective = sessions.effective(SessionPlace { cwd, env, given: Layer::default() }).await;
    let now = effective.resolved.of(key).map(|settled| setting(settled, sessions.live().started()));
    Ok(SetConfigResult { file: file.display().to_string(), setting: now.unwrap_or_default() })
}

fn project_target(call: &Call, key: &Key, cwd: Option<PathBuf>, env: &SessionEnv) -> Result<ConfigTarget, Failure> {
    if key.project == Project::Never {
        return Err(Failure::param("project", format!("{}: a project may not set it", key.name)));
    }
    let cwd = cwd.map_or_else(|| working_directory(call, None), Ok)?;
    Ok(ConfigTarget::Project { cwd, home: env.get("HOME").map(PathBuf::from) })
}

/// Reads settings that a session is given.
///
/// # Errors
/// The failure names the first that cannot be used.
pub(super) fn read_settings(settings: &Map<String, Value>) -> Result<Layer, Failure> {
    Layer::of_session(settings).map_err(|(key, why)| Failure::param(format!("settings.{key}"), why))
}

fn tell(effective: Effective, started: &Resolved, only: Option<&'static Key>) -> GetConfigResult {
    let wanted = |settled: &&Settled| only.is_none_or(|key| key.name == settled.key.name);
    let settings = effective.resolved.all().iter().filter(wanted).map(|settled| setting(settled, started));
    GetConfigResult { settings: settings.collect(), files: effective.files, faults: effective.faults }
}

fn setting(now: &Settled, started: &Resolved) -> Setting {
    let key = now.key;
    // What is read at start holds as it was then, whatever the files say now.
    let held = started.of(key).filter(|_| key.applies == Applies::Start).unwrap_or(now);
    Setting {
        key: key.name.to_owned(),
        value: held.assigned().value,
        origin: held.origin.clone(),
        overridden: held.overridden.iter().map(|(value, origin)| assigned(value.as_ref(), origin)).collect(),
        after_restart: (held.value != now.value).then(|| now.assigned()),
        expects: key.kind.expects(),
        doc: key.doc.to_owned(),
        variable: Some(key.variable.to_owned()),
        scope: key.scope.as_str().to_owned(),
        applies: key.applies.as_str().to_owned(),
        project: key.project.as_str().to_owned(),
    }
}
