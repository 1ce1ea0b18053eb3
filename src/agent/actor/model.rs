//! Which model a session asks, and how much it is asked to think.

use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{CycleModelResult, CycleThinkingLevelResult, Empty, GetAvailableThinkingLevelsResult};
use agentd_protocol::model::Model;

use super::SessionActor;
use crate::agent::event::Event;
use crate::agent::handle::{Reply, SessionError};
use crate::agent::machine::Refusal;
use crate::provider::{ModelError, ModelSpec, clamp_level, next_level, supported_levels};
use crate::session::context::build_context;
use crate::session::entry::EntryBody;

impl SessionActor {
    pub(super) fn set_model(&mut self, name: String, reply: Reply<Model>) {
        self.change_in_turn(move |actor| match actor.services.models.registry().resolve(&name, &actor.settings.env) {
            Ok((spec, level)) => {
                let model = spec.shown();
                actor.choose_model(spec, level, reply, |_| model);
            }
            Err(error) => drop(reply.send(Err(error.into()))),
        });
    }

    /// Chooses the model after the present one, in the order in which they are listed.
    pub(super) fn cycle_model(&mut self, reply: Reply<CycleModelResult>) {
        self.change_in_turn(move |actor| match actor.next_model() {
            Some(spec) => {
                let model = Some(spec.shown());
                let result = |level| CycleModelResult { model, thinking_level: Some(level), is_scoped: Some(false) };
                actor.choose_model(spec, None, reply, result);
            }
            None => actor.answer_written(reply, |_| CycleModelResult::default()),
        });
    }

    fn next_model(&self) -> Option<Arc<ModelSpec>> {
        let mut models = self.services.models.registry().available(&self.settings.env);
        models.retain(|spec| !spec.is_demo());
        let present = self.settings.model.as_ref().map(|spec| spec.name());
        let place = models.iter().position(|spec| Some(spec.name()) == present);
        let next = place.map_or(0, |place| (place + 1) % models.len());
        models.into_iter().nth(next).filter(|spec| Some(spec.name()) != present)
    }

    /// Writes and tells that this model is asked from the next request on, with `level` or the present one, clamped
    /// to what it supports. It is so once that is on disk; then the request is answered.
    fn choose_model<T: Send + 'static>(
        &mut self,
        spec: Arc<ModelSpec>,
        level: Option<ThinkingLevel>,
        reply: Reply<T>,
        answer: impl FnOnce(ThinkingLevel) -> T + Send + 'static,
    ) {
        let level = clamp_level(&spec.model, level.unwrap_or(self.settings.thinking));
        let mut entries =
            vec![EntryBody::ModelChange { provider: spec.model.provider.clone(), model_id: spec.model.id.clone() }];
        let mut events = vec![Event::ModelChanged { model: spec.name() }];
        if level != self.settings.thinking {
            entries.push(EntryBody::ThinkingLevelChange(level));
            events.push(Event::ThinkingLevelChanged { level });
        }
        self.append_all(entries);
        events.into_iter().for_each(|event| self.emit_in_turn(event));
        self.answer_written(reply, move |actor| {
            actor.use_model(spec, level);
            answer(level)
        });
    }

    /// Asks this model from the next request on.
    pub(super) fn use_model(&mut self, spec: Arc<ModelSpec>, level: ThinkingLevel) {
        self.settings.model = Some(spec);
        self.settings.thinking = level;
        self.tell_machine_model();
    }

    /// Returns the name of the branch's model if that could not be used so far, for want of a key above all.
    pub(super) fn lost_model(&self) -> Option<String> {
        let (provider, id) = build_context(&self.tree).model.filter(|_| self.settings.model.is_none())?;
        Some(format!("{provider}/{id}"))
    }

    /// Looks again for the branch's model with another environment. That it cannot be used with this one either is the
    /// answer to the next prompt.
    pub(super) fn find_lost_model(&mut self) {
        let name = self.lost_model();
        let found = name.and_then(|name| self.services.models.registry().resolve(&name, &self.settings.env).ok());
        if let Some((spec, _)) = found {
            self.take_back_model(spec);
        }
    }

    /// Asks the branch's model again; the file says so already.
    pub(super) fn take_back_model(&mut self, spec: Arc<ModelSpec>) {
        self.publish(Event::ModelChanged { model: spec.name() });
        let level = clamp_level(&spec.model, self.settings.thinking);
        self.use_model(spec, level);
    }

    pub(super) fn set_thinking_level(&mut self, level: ThinkingLevel, reply: Reply<Empty>) {
        self.change_in_turn(move |actor| {
            let level = actor.settings.model.as_ref().map_or(level, |spec| clamp_level(&spec.model, level));
            actor.choose_level(level, reply, Empty {});
        });
    }

    pub(super) fn cycle_thinking_level(&mut self, reply: Reply<CycleThinkingLevelResult>) {
        self.change_in_turn(move |actor| {
            let present = actor.settings.thinking;
            let level = actor.settings.model.as_ref().and_then(|spec| next_level(&spec.model, present));
            actor.choose_level(level.unwrap_or(present), reply, CycleThinkingLevelResult { level });
        });
    }

    fn choose_level<T: Send + 'static>(&mut self, level: ThinkingLevel, reply: Reply<T>, answer: T) {
        if level != self.settings.thinking {
            self.append_all(vec![EntryBody::ThinkingLevelChange(level)]);
            self.emit_in_turn(Event::ThinkingLevelChanged { level });
        }
        self.answer_written(reply, move |actor| {
            actor.settings.thinking = level;
            actor.tell_machine_model();
            answer
        });
    }

    pub(super) fn thinking_levels(&self) -> GetAvailableThinkingLevelsResult {
        let model = self.settings.model.as_ref();
        let levels = model.map_or_else(|| vec![ThinkingLevel::Off], |spec| supported_levels(&spec.model));
        GetAvailableThinkingLevelsResult { levels }
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        let message = error.to_string();
        match error {
            ModelError::NoModel { .. } | ModelError::NoKey { .. } => Self::NoModel(message),
            ModelError::Unknown { .. }
            | ModelError::UnknownLevel { .. }
            | ModelError::Ambiguous { .. }
            | ModelError::UnsupportedApi { .. } => Self::UnknownModel(message),
        }
    }
}

impl From<ModelError> for SessionError {
    fn from(error: ModelError) -> Self {
        Refusal::from(error).into()
    }
}
