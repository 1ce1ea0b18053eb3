//! Which model a session asks, and how much it is asked to think.

use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{CycleModelResult, CycleThinkingLevelResult, Empty, GetAvailableThinkingLevelsResult};
use agentd_protocol::model::Model;

use super::SessionActor;
use crate::agent::event::Event;
use crate::agent::handle::{Reply, SessionError};
use crate::provider::{ModelError, ModelSpec, clamp_level, next_level, supported_levels};
use crate::session::entry::EntryBody;

impl SessionActor {
    pub(super) fn set_model(&mut self, name: &str, reply: Reply<Model>) {
        let (spec, level) = match self.services.models.registry().resolve(name, &self.settings.env) {
            Ok(found) => found,
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let model = spec.model.clone();
        self.choose_model(spec, level);
        self.answer_written(reply, |_| model);
    }

    /// Chooses the model after the present one, in the order in which they are listed.
    pub(super) fn cycle_model(&mut self, reply: Reply<CycleModelResult>) {
        let mut models = self.services.models.registry().available(&self.settings.env);
        models.retain(|spec| !spec.is_demo());
        let present = self.settings.model.as_ref().map(|spec| spec.name());
        let place = models.iter().position(|spec| Some(spec.name()) == present);
        let next = place.map_or(0, |place| (place + 1) % models.len());
        let other = models.into_iter().nth(next).filter(|spec| Some(spec.name()) != present);
        let Some(spec) = other else {
            return self.answer_written(reply, |_| CycleModelResult::default());
        };
        let model = spec.model.clone();
        let level = self.choose_model(spec, None);
        let result = CycleModelResult { model: Some(model), thinking_level: Some(level), is_scoped: Some(false) };
        self.answer_written(reply, |_| result);
    }

    /// Writes and tells that this model is asked from the next request on, with `level` or the present one, clamped
    /// to what it supports; returns the level.
    fn choose_model(&mut self, spec: Arc<ModelSpec>, level: Option<ThinkingLevel>) -> ThinkingLevel {
        self.append_one(EntryBody::ModelChange {
            provider: spec.model.provider.clone(),
            model_id: spec.model.id.clone(),
        });
        self.emit_in_turn(Event::ModelChanged { model: spec.name() });
        let level = clamp_level(&spec.model, level.unwrap_or(self.settings.thinking));
        if level != self.settings.thinking {
            self.append_one(EntryBody::ThinkingLevelChange(level));
            self.emit_in_turn(Event::ThinkingLevelChanged { level });
        }
        self.use_model(spec, level);
        level
    }

    /// Asks this model from the next request on.
    pub(super) fn use_model(&mut self, spec: Arc<ModelSpec>, level: ThinkingLevel) {
        self.settings.model = Some(spec);
        self.settings.model_problem = None;
        self.settings.thinking = level;
        self.tell_machine_model();
    }

    pub(super) fn set_thinking_level(&mut self, level: ThinkingLevel, reply: Reply<Empty>) {
        let level = self.settings.model.as_ref().map_or(level, |spec| clamp_level(&spec.model, level));
        self.choose_level(level);
        self.answer_written(reply, |_| Empty {});
    }

    pub(super) fn cycle_thinking_level(&mut self, reply: Reply<CycleThinkingLevelResult>) {
        let present = self.settings.thinking;
        let level = self.settings.model.as_ref().and_then(|spec| next_level(&spec.model, present));
        if let Some(level) = level {
            self.choose_level(level);
        }
        self.answer_written(reply, move |_| CycleThinkingLevelResult { level });
    }

    fn choose_level(&mut self, level: ThinkingLevel) {
        if level != self.settings.thinking {
            self.append_one(EntryBody::ThinkingLevelChange(level));
            self.emit_in_turn(Event::ThinkingLevelChanged { level });
            self.settings.thinking = level;
            self.tell_machine_model();
        }
    }

    pub(super) fn thinking_levels(&self) -> GetAvailableThinkingLevelsResult {
        let model = self.settings.model.as_ref();
        let levels = model.map_or_else(|| vec![ThinkingLevel::Off], |spec| supported_levels(&spec.model));
        GetAvailableThinkingLevelsResult { levels }
    }
}

impl From<ModelError> for SessionError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::NoModel { .. } => Self::NoModel(error.to_string()),
            other => Self::UnknownModel(other.to_string()),
        }
    }
}
