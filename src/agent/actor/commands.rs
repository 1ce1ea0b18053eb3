//! Requests of clients: handed to the machine, or answered in their turn.

use std::collections::BTreeMap;

use agentd_protocol::EntryId;
use agentd_protocol::methods::{Empty, EnvSource};

use super::images::Purpose;
use super::perform::{Job, Sender};
use super::{AttachedClient, SessionActor};
use crate::agent::event::Event;
use crate::agent::handle::{Answer, Client, Command, Reply, SessionError, UserAnswer};
use crate::agent::machine::{Effect, Input, NewEntry, Response, Stop};
use crate::config::env::SessionEnv;
use crate::constants::LOGIN_ENV_NOTICE;
use crate::session::entry::EntryBody;
use crate::session::settings::StoredSettings;

impl SessionActor {
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::Prompt(user, if_busy, reply) => self.on_user_input(user, Purpose::Prompt(if_busy), reply),
            Command::Steer(user, when, reply) => self.on_user_input(user, Purpose::Steer(when), reply),
            Command::FollowUp(user, reply) => self.on_user_input(user, Purpose::FollowUp, reply),
            Command::Abort(reply) => self.stop(Stop::Abort, reply),
            Command::AbortRetry(reply) => {
                let reply = self.replies.keep(Sender::Empty(reply));
                self.feed(Input::AbortRetry { reply });
            }
            Command::Respond(answer, reply) => self.respond(answer, reply),
            Command::ClearQueue(reply) => {
                let reply = self.replies.keep(Sender::Queue(reply));
                self.feed(Input::ClearQueue { reply });
            }
            Command::Continue(reply) => {
                let reply = self.replies.keep(Sender::Prompt(reply));
                self.feed(Input::Continue { reply });
            }
            Command::Wait(reply) => {
                let reply = self.replies.keep(Sender::Wait(reply));
                self.feed(Input::Wait { reply });
            }
            Command::GetState(reply) => self.answer_read(reply, |actor| Ok(actor.state())),
            Command::GetMessages(reply) => self.answer_read(reply, |actor| Ok(actor.messages())),
            Command::GetEntries(params, reply) => self.answer_read(reply, move |actor| actor.entries(&params)),
            Command::GetLastAssistantText(reply) => self.answer_read(reply, |actor| Ok(actor.last_assistant_text())),
            Command::GetStats(reply) => self.answer_read(reply, |actor| Ok(actor.stats())),
            Command::GetPlace(reply) => self.answer_read(reply, |actor| Ok(actor.place())),
            Command::SetName(name, reply) => {
                let name = self.services.key_book.keys().redact(&name).into_owned();
                self.set_name(&name, reply);
            }
            Command::SetModel(name, reply) => self.set_model(name, reply),
            Command::SetThinkingLevel(level, reply) => self.set_thinking_level(level, reply),
            Command::CycleThinkingLevel(reply) => self.cycle_thinking_level(reply),
            Command::GetThinkingLevels(reply) => self.answer_read(reply, |actor| Ok(actor.thinking_levels())),
            Command::CycleModel(reply) => self.cycle_model(reply),
            Command::SetMode(mode, reply) => {
                self.store_settings(StoredSettings { mode: Some(mode), ..StoredSettings::default() }, reply);
            }
            Command::SetAutoRetry(enabled, reply) => {
                self.store_settings(StoredSettings { auto_retry: Some(enabled), ..StoredSettings::default() }, reply);
            }
            Command::SetSteeringMode(mode, reply) => {
                self.store_settings(StoredSettings { steering_mode: Some(mode), ..StoredSettings::default() }, reply);
            }
            Command::SetFollowUpMode(mode, reply) => {
                self.store_settings(StoredSettings { follow_up_mode: Some(mode), ..StoredSettings::default() }, reply);
            }
            Command::SetEnv(env, reply) => self.set_env(env, reply),
            Command::Attach(request, reply) => {
                self.jobs.push_back(Job::Read(Box::new(move |actor| actor.attach(*request, reply))));
            }
            Command::Detach(client, reply) => {
                self.jobs.push_back(Job::Read(Box::new(move |actor| actor.detach(&client, reply))));
            }
            Command::Unload(reply) => {
                self.jobs.push_back(Job::Read(Box::new(move |actor| actor.unload(reply))));
            }
            Command::Close(reply) => {
                self.closing = true;
                self.stop(Stop::Shutdown, reply);
            }
            #[cfg(test)]
            Command::Panic(_reply) => panic!("as the test wishes"),
        }
    }

    /// Every handle is gone: nobody can ask for this session any more, so its run has no owner.
    pub(super) fn on_abandoned(&mut self) {
        self.is_abandoned = true;
        self.closing = true;
        let (reply, _) = tokio::sync::oneshot::channel();
        self.stop(Stop::Shutdown, reply);
    }

    fn unload(&mut self, reply: Reply<Empty>) {
        self.closing |= self.can_unload();
        drop(reply.send(Ok(Answer { value: Empty {}, seq: self.ring.last_seq() })));
    }

    /// Tells whether nothing would be missed if the session left memory.
    pub(super) fn can_unload(&self) -> bool {
        // Without a file it could not be loaded again.
        self.machine.is_idle() && self.clients.is_empty() && self.machine.queues().is_empty() && self.has_file()
    }

    /// Tells whether the session is on disk; not while a write has the file.
    pub(super) fn has_file(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_empty())
    }

    fn stop(&mut self, why: Stop, reply: Reply<Empty>) {
        let reply = self.replies.keep(Sender::Empty(reply));
        self.feed(Input::Stop { why, reply });
    }

    fn respond(&mut self, answer: UserAnswer, reply: Reply<Empty>) {
        let UserAnswer { approval, decision, message, client } = answer;
        let by = (!client.who.name.is_empty()).then(|| client.who.name.clone());
        let response = Box::new(Response { approval, decision, by, pid: client.who.pid, message });
        let reply = self.replies.keep(Sender::Empty(reply));
        self.feed(Input::Respond { response, reply });
    }

    /// Answers in turn with something that is only read.
    pub(super) fn answer_read<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        read: impl FnOnce(&Self) -> Result<T, SessionError> + Send + 'static,
    ) {
        self.jobs.push_back(Job::Read(Box::new(move |actor| {
            let seq = actor.ring.last_seq();
            drop(reply.send(read(actor).map(|value| Answer { value, seq })));
        })));
    }

    /// Answers in turn once everything queued so far is on disk.
    pub(super) fn answer_written<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        value: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) {
        self.jobs.push_back(Job::Answer(Box::new(move |actor, written| {
            let answer = written.map(|()| Answer { value: value(actor), seq: actor.ring.last_seq() });
            drop(reply.send(answer));
        })));
    }

    /// Changes the session in its turn, on what the requests before have left of it. What the change queues comes
    /// before all that waits.
    pub(super) fn change_in_turn(&mut self, change: impl FnOnce(&mut Self) + Send + 'static) {
        self.jobs.push_back(Job::Read(Box::new(move |actor| {
            let waiting = std::mem::take(&mut actor.jobs);
            change(actor);
            actor.jobs.extend(waiting);
        })));
    }

    /// Appends entries in one write, and tells of each.
    pub(super) fn append_all(&mut self, bodies: Vec<EntryBody>) {
        let with_id = |body| NewEntry { id: self.tree.new_entry_id(rand_u32), body };
        let entries: Vec<NewEntry> = bodies.into_iter().map(with_id).collect();
        let ids: Vec<EntryId> = entries.iter().map(|entry| entry.id.clone()).collect();
        self.jobs.push_back(Job::Effect(Effect::Append { entries, sync: false }));
        self.jobs.extend(ids.into_iter().map(|id| Job::Effect(Effect::EmitEntry(id))));
    }

    pub(super) fn emit_in_turn(&mut self, event: Event) {
        self.jobs.push_back(Job::Effect(Effect::Emit(event)));
    }

    fn set_name(&mut self, name: &str, reply: Reply<Empty>) {
        let name = name.trim().to_owned();
        if name.is_empty() {
            let message = "the name must not be empty".to_owned();
            return drop(reply.send(Err(SessionError::InvalidParam { param: "name", message })));
        }
        self.append_all(vec![EntryBody::SessionInfo { name: name.clone() }]);
        self.emit_in_turn(Event::SessionInfoChanged { name: Some(name) });
        self.answer_written(reply, |_| Empty {});
    }

    /// Keeps settings in the session when they change something, and obeys them once that is on disk.
    fn store_settings(&mut self, set: StoredSettings, reply: Reply<Empty>) {
        self.change_in_turn(move |actor| {
            if actor.machine.would_change(&set) {
                actor.append_all(vec![set.entry()]);
            }
            actor.answer_written(reply, move |actor| {
                actor.machine.configure(&set);
                Empty {}
            });
        });
    }

    fn set_env(&mut self, env: BTreeMap<String, String>, reply: Reply<Empty>) {
        self.settings.env = SessionEnv::new(env, EnvSource::Client);
        self.services.learn_keys(&self.settings.env);
        self.notices.retain(|(kind, _)| *kind != LOGIN_ENV_NOTICE);
        self.change_in_turn(Self::find_lost_model);
        self.answer_written(reply, |_| Empty {});
    }

    pub(super) fn detach(&mut self, client: &Client, reply: Reply<Empty>) {
        if let Some(AttachedClient { who: client, view, .. }) = self.clients.remove(&client.id) {
            let clients = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
            self.publish(Event::ClientDetached { client, view, clients });
        }
        drop(reply.send(Ok(Answer { value: Empty {}, seq: self.ring.last_seq() })));
    }
}

/// Returns a random number, from the random bits of a version 4 uuid.
pub(super) fn rand_u32() -> u32 {
    uuid::Uuid::new_v4().as_fields().0
}
