//! A live session as the supervisor knows it, without asking its actor.

use std::sync::Arc;

use crate::agent::handle::SessionHandle;

/// A session in memory.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) handle: SessionHandle,
    pub(super) facts: Arc<crate::agent::facts::LiveFacts>,
}

impl Live {
    /// Ends the actor if it is still idle and alone.
    pub(super) async fn unload_if_idle(&self) {
        if let Ok(pending) = self.handle.unload().await {
            drop(pending.await);
        }
    }
}
