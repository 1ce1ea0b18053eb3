//! Attaching a client: an exact replay where the ring still holds what it missed, else a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::methods::{AttachResult, ClientRef, Entry as WireEntry, Replay, Snapshot, View};

use super::request::ActiveRequest;
use super::{AttachedClient, SessionActor};
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
        let (client, view, answers) = (request.client.who, request.view, request.client.answers);
        self.clients.insert(request.client.id, AttachedClient { who: Arc::clone(&client), view, answers });
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
            self.publish(Event::ClientAttached { client, view, clients });
            for (kind, message) in std::mem::take(&mut self.notices) {
                self.publish(Event::Notice { kind, message });
            }
        }
    }

    /// What has grown so far is left out for views that do not show it growing.
    fn snapshot(&self, history: bool, view: View) -> Snapshot {
        let shows_growth = matches!(view, View::Full | View::Coalesced);
        let (entries, before, senders) = if history { self.branch_tail() } else { (Vec::new(), None, BTreeMap::new()) };
        let message = self
            .request
            .as_ref()
            .filter(|request| request.is_started && shows_growth)
            .map(ActiveRequest::so_far)
            .or_else(|| self.published.closing.clone().filter(|_| shows_growth));
        Snapshot {
            entries,
            before,
            message,
            tools: self.published.tools(),
            queue: self.published.queue.clone(),
            questions: self.published.questions.clone(),
            senders,
        }
    }

    /// Returns the last entries of the branch that fit, where those before them end, and who sent what is among them.
    fn branch_tail(&self) -> (Vec<WireEntry>, Option<EntryId>, BTreeMap<EntryId, ClientRef>) {
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
        let shown = &branch[first..];
        let senders =
            shown.iter().filter_map(|entry| Some((entry.id.clone(), ClientRef::clone(self.senders.of(&entry.id)?))));
        (shown.iter().map(|entry| WireEntry(Arc::clone(&entry.raw))).collect(), before, senders.collect())
    }
}
