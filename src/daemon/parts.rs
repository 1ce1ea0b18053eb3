//! The parts that do the daemon's work, brought together.

use std::io;

use agentd_protocol::version;
use tokio::net::UnixStream;

use super::logging;
use super::service::{Peer, Service, StopHandle};
use crate::agent::services::Services;
use crate::config::Config;
use crate::constants::LOCAL_MODELS_MAX_AGE;
use crate::exec::{SpawnerOptions, end_leftovers};
use crate::permissions::policy::CONFINEMENT;
use crate::rpc::{DaemonInfo, Server};
use crate::supervisor::Supervisor;
use crate::tasks::Tasks;
use crate::tools::{mend_overwritten, remove_old_outputs};

/// How the daemon names itself to clients and to other writers of a session file.
const NAME: &str = "agentd";

/// Connections and sessions. Cheap to clone.
#[derive(Clone)]
pub(super) struct Parts {
    server: Server,
    supervisor: Supervisor,
}

impl Parts {
    /// Makes the parts. `open_files` is the limit that children get.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub(super) fn new(
        config: Config,
        tasks: &Tasks,
        stop: StopHandle,
        open_files: Option<(u64, u64)>,
    ) -> io::Result<Self> {
        // Looking through all processes takes a moment that no client should wait for.
        drop(tasks.spawn_blocking(end_leftovers));
        let outputs = config.paths.outputs_dir.clone();
        drop(tasks.spawn_blocking(move || remove_old_outputs(&outputs)));
        let overwrites = config.paths.overwrites_dir.clone();
        drop(tasks.spawn_blocking(move || mend_overwritten(&overwrites)));
        let info = DaemonInfo {
            server_info: version::own_info(NAME),
            socket: config.paths.socket.display().to_string(),
            sessions_dir: config.paths.sessions_dir.display().to_string(),
            confinement: CONFINEMENT.to_owned(),
            stop: Box::new(move |reason| stop.stop(reason)),
        };
        let spawner = SpawnerOptions { nofile: open_files, ..SpawnerOptions::default() };
        let services = Services::new(config, tasks.clone(), NAME, spawner)?;
        logging::hide_keys(services.key_book.clone());
        // Where no server of models listens, this is four refused connections.
        let models = std::sync::Arc::clone(&services.models);
        drop(tasks.spawn("ask local models", async move { models.ask_local(LOCAL_MODELS_MAX_AGE).await }));
        let supervisor = Supervisor::new(services.into());
        // What waits for an answer is seen in lists, and by whoever watches, before somebody asks for it.
        let asking = supervisor.clone();
        drop(tasks.spawn("load what waits for answers", async move { asking.load_asking().await }));
        let server = Server::new(std::sync::Arc::new(supervisor.clone()), info);
        Ok(Self { server, supervisor })
    }
}

impl Service for Parts {
    async fn serve(&self, stream: UnixStream, peer: Peer) {
        self.server.serve(stream, peer.pid).await;
    }

    fn refuse_requests(&self) {
        self.server.refuse_requests();
    }

    async fn abort_runs(&self) {
        self.supervisor.close_all().await;
    }

    async fn end_processes(&self) {
        self.supervisor.services().spawner.end_all().await;
    }

    async fn flush(&self) {
        self.supervisor.services().index.close().await;
    }

    async fn say_goodbye(&self) {
        self.server.say_goodbye().await;
    }
}
