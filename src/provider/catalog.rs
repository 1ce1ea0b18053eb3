//! The models as they are now: files are read again when they have changed, servers on this machine asked now and then.
//!
//! Whoever looks a model up takes a [`ModelRegistry`], which stays as it is, from [`Catalog::refresh`] (blocking, looks
//! at the files) or [`Catalog::registry`] (at once).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::files::Watched;
use super::known_keys;
use super::local::{self, Target};
use super::models_json::ProviderDef;
use super::registry::ModelRegistry;
use super::spec::ValueSource;
use crate::config::LocalModels;

/// All that is known of models. Shared by the whole daemon.
#[derive(Debug)]
pub struct Catalog {
    sources: Mutex<Sources>,
    registry: Mutex<Arc<ModelRegistry>>,
    targets: Vec<Target>,
    asking: Mutex<Asking>,
}

#[derive(Debug)]
struct Sources {
    files: Vec<Watched<ProviderDef>>,
    keys: Vec<Watched<(String, ValueSource)>>,
    /// The same files, for hiding what is in them.
    all_keys: Vec<Watched<(String, String)>>,
    local: Vec<ProviderDef>,
}

/// When the servers of this machine were asked.
#[derive(Default)]
struct Asking {
    last: Option<Instant>,
    running: Option<Shared<BoxFuture<'static, ()>>>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("last", &self.last).field("is_running", &self.running.is_some()).finish()
    }
}

impl Catalog {
    /// Reads model files, the first of which wins where two define the same, and files of keys, likewise. Blocking. Missing
    /// files are no fault. No server is asked yet.
    pub fn load(files: &[PathBuf], auth: &[PathBuf], local: &LocalModels) -> Self {
        let mut sources = Sources {
            files: files.iter().cloned().map(Watched::models).collect(),
            keys: auth.iter().cloned().map(Watched::keys).collect(),
            all_keys: auth.iter().cloned().map(Watched::all_keys).collect(),
            local: Vec::new(),
        };
        sources.read();
        Self {
            registry: Mutex::new(Arc::new(sources.build())),
            sources: Mutex::new(sources),
            targets: local::targets(local),
            asking: Mutex::default(),
        }
    }

    /// Returns the models as they were known last.
    pub fn registry(&self) -> Arc<ModelRegistry> {
        Arc::clone(&lock(&self.registry))
    }

    /// Reads files that have changed, and returns the models as they are then. Blocking. A file that has become
    /// faulty goes on to count as it was.
    pub fn refresh(&self) -> Arc<ModelRegistry> {
        let mut sources = lock(&self.sources);
        if sources.read() {
            self.renew(&sources);
        }
        self.registry()
    }

    fn renew(&self, sources: &Sources) {
        let known = self.registry();
        let registry = sources.build();
        for notice in registry.notices().iter().filter(|notice| !known.notices().contains(notice)) {
            tracing::warn!("{notice}");
        }
        *lock(&self.registry) = Arc::new(registry);
    }

    /// Asks the servers of models on this machine what they have, unless they were asked within `max_age`; whoever
    /// comes while that goes on waits for the same answers. Takes at most [`local::LIMIT`].
    ///
    /// Cancel safe.
    pub async fn ask_local(self: &Arc<Self>, max_age: Duration) {
        if self.targets.is_empty() {
            return;
        }
        let running = {
            let mut asking = lock(&self.asking);
            if asking.last.is_some_and(|last| last.elapsed() < max_age) {
                return;
            }
            asking.running.get_or_insert_with(|| Arc::clone(self).ask().boxed().shared()).clone()
        };
        running.await;
    }

    async fn ask(self: Arc<Self>) {
        let found = local::ask(&self.targets).await;
        let mut sources = lock(&self.sources);
        if sources.local != found {
            sources.local = found;
            self.renew(&sources);
        }
        drop(sources);
        *lock(&self.asking) = Asking { last: Some(Instant::now()), running: None };
    }
}

impl Sources {
    /// Reads what has changed; tells whether anything had.
    fn read(&mut self) -> bool {
        let files = self.files.iter_mut().map(Watched::refresh);
        let keys = self.keys.iter_mut().map(Watched::refresh);
        let all_keys = self.all_keys.iter_mut().map(Watched::refresh);
        // All are read, also after the first that has changed.
        files.chain(keys).chain(all_keys).fold(false, |any, changed| any | changed)
    }

    fn build(&self) -> ModelRegistry {
        let files = self.files.iter().map(|file| (file.path().to_path_buf(), file.content().to_vec()));
        let keys = self.keys.iter().map(|file| (file.path().to_path_buf(), file.content().to_vec()));
        let notices = self.files.iter().flat_map(Watched::notices).chain(self.keys.iter().flat_map(Watched::notices));
        let mut known: known_keys::Named =
            self.files.iter().flat_map(|file| known_keys::in_definitions(file.content())).collect();
        known.extend(self.all_keys.iter().flat_map(Watched::content).cloned());
        let registry = ModelRegistry::build(files.collect(), keys.collect(), &self.local, notices.cloned().collect());
        registry.with_keys(known)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
