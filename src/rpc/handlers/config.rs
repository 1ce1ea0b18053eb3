//! Settings.

use std::sync::Arc;

use agentd_protocol::methods::{GetConfig, GetConfigParams, GetConfigResult, Setting};
use serde_json::{Map, Value};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use super::sessions::working_directory;
use crate::config::settings::{Applies, Key, Layer, Resolved, Settled, assigned, key_named};
use crate::config::{Effective, SessionPlace};

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(GetConfig, get);
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
