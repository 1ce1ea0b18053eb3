//! The daemon itself.

use std::sync::Arc;

use agentd_protocol::methods::{
    Capabilities, DaemonStatus, Empty, GetDaemonStatus, Initialize, InitializeParams, InitializeResult, Limits, Ping,
    PingResult, Shutdown, ShutdownParams, View,
};
use agentd_protocol::{PROTOCOL_VERSION, version};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use crate::clock;
use crate::constants::{MAX_BATCH, MAX_MESSAGE_BYTES};

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(Initialize, initialize);
    registration.plain(Ping, async |_, _| Ok(PingResult { time: clock::now_ms() }));
    registration.plain(GetDaemonStatus, async |call, _| Ok(status(&call)));
    registration.plain(Shutdown, shutdown);
}

async fn initialize(call: Arc<Call>, params: InitializeParams) -> Result<InitializeResult, Failure> {
    let info = &call.core.info;
    let client = params.client_info.unwrap_or_default();
    call.conn().introduce(&client.name, &client.version);
    call.conn().set_answers(params.capabilities.unwrap_or_default().answers.unwrap_or(true));
    Ok(InitializeResult {
        server_info: info.server_info.clone(),
        // Another version that the client may have named is no error: it learns ours and decides.
        protocol_version: PROTOCOL_VERSION,
        capabilities: Capabilities {
            views: vec![View::Full, View::Coalesced, View::Entries, View::Status],
            confinement: info.confinement.clone(),
        },
        limits: Limits { max_message_bytes: MAX_MESSAGE_BYTES as u64, max_batch: MAX_BATCH as u64 },
        build_mismatch: version::build_mismatch(&client, &info.server_info),
    })
}

fn status(call: &Call) -> DaemonStatus {
    let (core, counts) = (&call.core, call.core.sessions.counts());
    DaemonStatus {
        server_info: core.info.server_info.clone(),
        pid: std::process::id(),
        uptime_ms: u64::try_from(core.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        socket: core.info.socket.clone(),
        sessions_dir: core.info.sessions_dir.clone(),
        loaded_sessions: counts.loaded as u64,
        running_sessions: counts.running as u64,
        ring_bytes: counts.ring_bytes as u64,
        clients: core.clients.status(),
        abandoned_tools: counts.abandoned_tools,
        index: counts.index,
        confinement: core.info.confinement.clone(),
        config_faults: core.sessions.live().known_faults(),
    }
}

async fn shutdown(call: Arc<Call>, params: ShutdownParams) -> Result<Empty, Failure> {
    let client = call.conn().client();
    let reason = params.reason.unwrap_or_else(|| "a client asked".to_owned());
    (call.core.info.stop)(&format!("{reason} (shutdown from client {:?})", client.who.name));
    Ok(Empty {})
}
