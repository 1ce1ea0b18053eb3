//! Attaching a client: an exact replay where the ring still holds what it missed, else a snapshot.

use std::sync::Arc;

use agentd_protocol::methods::{AttachResult, Entry as WireEntry, OpenMessage, Replay, Snapshot, View};

use super::SessionActor;
use crate::agent::event::Event;
use crate::agent::handle::{Answer, AttachRequest, Attached, Reply};
use crate::constants::SNAPSHOT_ENTRY_BYTES;

impl SessionActor {
    /// Runs between two jobs, so what the actor holds is what it has published.
    pub(super) fn attach(&mut self, request: AttachRequest, reply: Reply<Attached>) {
        // Merged frames must not straddle the cursor.
        self.end_merge();
        let is_new = !self.clients.contains_key(&request.client.id);
        let exact = request.since.as_ref().filter(|since| self.ring.can_replay(since, request.view));
        let (after, replay, snapshot) = match exact {
            Some(since) => (since.seq, Replay::Exact, None),
            None => (self.ring.last_seq(), Replay::Snapshot, Some(self.snapshot(request.history, request.view))),
        };
        let subscription = self.ring.subscribe(request.view, after, request.wake);
        self.clients.insert(request.client.id, Arc::clone(&request.client.name));
        let result = AttachResult {
            session_id: self.id.clone(),
            epoch: self.ring.epoch().clone(),
            seq: after,
            replay,
            state: self.state(),
            snapshot,
        };
        // The answer stands before every event of the session, so it reflects nothing but its own cursor.
        let answer = Answer { value: Attached { result, subscription }, seq: after };
        if reply.send(Ok(answer)).is_err() {
            self.clients.remove(&request.client.id);
        } else if is_new {
            let clients = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
            self.publish(Event::ClientAttached { name: request.client.name.to_string(), clients });
            for (kind, message) in std::mem::take(&mut self.notices) {
                self.publish(Event::Notice { kind, message });
            }
        }
    }

    /// What has grown so far is left out for views that do not show it growing.
    fn snapshot(&self, history: bool, view: View) -> Snapshot {
        let shows_growth = matches!(view, View::Full | View::Coalesced);
        let (entries, before) = if history { self.branch_tail() } else { (Vec::new(), None) };
        let message = self
            .request
            .as_ref()
            .filter(|request| request.is_started && shows_growth)
            .map(|request| OpenMessage { entry_id: request.entry_id.clone(), message: request.assembler.so_far() });
        Snapshot {
            entries,
            before,
            message,
            tools: self.published_tools.snapshot(),
            queue: self.machine.queues().texts(),
            questions: Vec::new(),
        }
    }

    /// Returns the last entries of the branch that fit, and where those before them end.
    fn branch_tail(&self) -> (Vec<WireEntry>, Option<agentd_protocol::EntryId>) {
        let branch = self.tree.branch();
        let mut bytes = 0;
        let mut first = branch.len();
        while first > 0 {
            bytes += branch[first - 1].raw.get().len();
            // The last entry goes along whatever its size.
            if bytes > SNAPSHOT_ENTRY_BYTES && first < branch.len() {
                break;
            }
            first -= 1;
        }
        let before = (first > 0).then(|| branch[first].id.clone());
        (branch[first..].iter().map(|entry| WireEntry(Arc::clone(&entry.raw))).collect(), before)
    }
}
