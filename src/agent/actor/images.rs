//! Images of user messages: made fit for models before anything of the message is kept.
//!
//! That takes up to a second, on a thread of its own. Until it is done the session takes no further request, so that
//! requests stay in order; what runs goes on, and other sessions notice nothing.

use std::sync::Arc;

use agentd_protocol::message::{ContentBlock, UserMessage};
use agentd_protocol::methods::{IfBusy, PromptResult, SteerWhen};
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use super::SessionActor;
use super::perform::Sender;
use crate::agent::handle::{Client, Reply, SessionError, UserInput};
use crate::agent::machine::Input;
use crate::clock;
use crate::config::ImageSettings;
use crate::provider::ModelSpec;
use crate::tools::FitImages;

/// What a user message is sent for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// To start a run.
    Prompt(IfBusy),
    /// To be injected after the current turn, or at once.
    Steer(SteerWhen),
    /// To be sent when the run would end.
    FollowUp,
}

/// A user message whose images are being made fit.
pub(super) struct Fitting {
    task: JoinHandle<Result<FitImages, String>>,
    text: String,
    client_message_id: Option<String>,
    client: Client,
    purpose: Purpose,
    reply: Reply<PromptResult>,
    /// Ends the task, also when the actor fails.
    _cancel: DropGuard,
}

/// Waits for the images that are being made fit, for ever when there are none. Cancel safe.
pub(super) async fn finished(fitting: &mut Option<Box<Fitting>>) -> Result<FitImages, String> {
    let Some(current) = fitting else { return std::future::pending().await };
    (&mut current.task).await.unwrap_or_else(|panic| {
        tracing::error!(panicked = panic.is_panic(), "opening an image failed");
        Err("the images cannot be opened because of a fault of the daemon; its log says more".to_owned())
    })
}

impl SessionActor {
    /// Takes a user message, once its images are fit if it has any.
    pub(super) fn on_user_input(&mut self, input: UserInput, purpose: Purpose, reply: Reply<PromptResult>) {
        let UserInput { message, images, client_message_id, client } = input;
        if images.is_empty() {
            return self.feed_user(user_message(message, Vec::new(), client_message_id), client, purpose, reply);
        }
        let tools = Arc::clone(&self.services.tools);
        let resize = self.settings.config.images.auto_resize;
        let cancel = self.services.tasks.cancel_token().child_token();
        let token = cancel.clone();
        let task = self.services.tasks.spawn("images", async move { tools.fit_images(images, resize, &token).await });
        let _cancel = cancel.drop_guard();
        let text = message;
        self.fitting = Some(Box::new(Fitting { task, text, client_message_id, client, purpose, reply, _cancel }));
    }

    pub(super) fn on_fitted(&mut self, fitted: Result<FitImages, String>) {
        let Some(fitting) = self.fitting.take() else { return };
        let Fitting { text, client_message_id, client, purpose, reply, .. } = *fitting;
        match fitted {
            Ok(FitImages { blocks, notes }) => {
                let text = [text].into_iter().filter(|text| !text.is_empty()).chain(notes_paragraph(&notes));
                let text = text.collect::<Vec<_>>().join("\n\n");
                self.feed_user(user_message(text, blocks, client_message_id), client, purpose, reply);
            }
            Err(message) => drop(reply.send(Err(SessionError::InvalidParam { param: "images", message }))),
        }
    }

    fn feed_user(&mut self, user: UserMessage, client: Client, purpose: Purpose, reply: Reply<PromptResult>) {
        let reply = self.replies.keep(Sender::Prompt(reply));
        self.feed(match purpose {
            Purpose::Prompt(if_busy) => Input::Prompt { user, if_busy, reply },
            Purpose::Steer(when) => Input::Steer { user, when, reply },
            Purpose::FollowUp => Input::FollowUp { user, reply },
        });
        if let Some(entry) = self.machine.take_accepted() {
            self.senders.prune(self.tree.entries().len() + self.machine.queues().len(), |id| {
                self.tree.get(id).is_some() || self.machine.queues().iter().any(|queued| queued.entry_id == *id)
            });
            self.senders.add(entry, client.who);
        }
    }
}

fn notes_paragraph(notes: &[String]) -> Option<String> {
    (!notes.is_empty()).then(|| notes.join("\n"))
}

fn user_message(text: String, images: Vec<ContentBlock>, client_message_id: Option<String>) -> UserMessage {
    let mut content = Vec::with_capacity(1 + images.len());
    // An image alone is a whole message: an empty text beside it would be refused by some providers.
    if images.is_empty() || !text.is_empty() {
        content.push(ContentBlock::text(text));
    }
    content.extend(images);
    UserMessage { content, timestamp: clock::now_ms(), client_message_id }
}

/// Returns the model's id if it takes no images.
pub(super) fn text_only(spec: &ModelSpec) -> Option<String> {
    let takes_images = spec.model.input.iter().any(|kind| kind == "image");
    (!takes_images).then(|| spec.model.id.clone())
}

/// Returns the model as the user lets it be used: one that takes no images when they are blocked.
pub(super) fn allowed(spec: &Arc<ModelSpec>, settings: &ImageSettings) -> Arc<ModelSpec> {
    if !settings.block || text_only(spec).is_some() {
        return Arc::clone(spec);
    }
    let mut spec = ModelSpec::clone(spec);
    spec.model.input.retain(|kind| kind != "image");
    Arc::new(spec)
}
