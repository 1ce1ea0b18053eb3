//! Tool calls: checking, running, their output as it comes, and stopping them.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::EntryId;
use agentd_protocol::message::{ContentBlock, ToolCall, ToolResult};
use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::SessionActor;
use super::images;
use crate::agent::event::{Event, ToolStart};
use crate::agent::machine::{Input, ToolEnd};
use crate::agent::services::Services;
use crate::constants::{HEADLESS_COMMAND_LIMIT, TOOL_ABANDON, TOOL_PROGRESS, TOOL_UPDATE_INTERVAL};
use crate::permissions::policy::{CheckedCall, EffectClass};
use crate::permissions::questions::Preview;
use crate::permissions::rules::Rules;
use crate::tools::places::canonical;
use crate::tools::{Progress, ToolContext, ToolInvocation, ToolOutput};

/// Result of a call that did not end when it was stopped, or never began (pi's words).
const ABORTED: &str = "Operation aborted";
/// Result of a call whose code failed.
const TOOL_FAULT: &str = "The tool failed because of a fault of the daemon; its log says more. What it had done until \
                          then may remain done.";

/// Result of a call that is no longer what was consented to.
const CHANGED: &str = "The call was not run: what it would do has changed since the user consented to it, for the file has \
                       changed. Read it again before another attempt.";
/// Result of a call that would write the note that stands for a key.
const HIDDEN_KEY: &str = "Nothing was changed: a text of the form [redacted: …] stands for a key that is hidden from you, \
                          and must not be written in its place. Change only the other lines, or ask the user.";

/// A tool that runs.
pub(super) struct LiveTool {
    start: Arc<ToolStart>,
    /// Output that waits for the next update.
    pending: String,
    /// When the next update may be sent.
    next_update: Instant,
    cancel: CancellationToken,
    /// Ends the tool, also when the actor fails.
    _guard: DropGuard,
}

/// What a tool's task says. The call is named by the entry of its result, which no other call ever has.
pub(super) enum ToolMessage {
    /// The rules that hold now, and what else the gate looks at, or why the call cannot run.
    Checked(EntryId, Arc<Rules>, Box<Result<CheckedCall, ToolOutput>>),
    /// What a person is shown of it was found, or the call cannot run.
    Described(EntryId, Box<Result<Preview, ToolOutput>>),
    /// It prints.
    Progress(EntryId, Progress),
    /// It has ended, after so long. Boxed: a channel holds room for dozens of messages, in every session.
    Ended(EntryId, Box<ToolOutput>, Duration),
}

impl LiveTool {
    /// Returns when waiting output is due.
    pub(super) fn flush_at(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.next_update)
    }
}

impl SessionActor {
    pub(super) fn validate_tool(&mut self, start: &Arc<ToolStart>) {
        let call = start.entry_id.clone();
        let invocation = match self.invocation(start) {
            Ok(invocation) => invocation,
            Err(output) => return self.on_checked(call, Err(output)),
        };
        let (cwd, env, tools) = (self.settings.cwd.clone(), self.tool_env(), Arc::clone(&self.services.tools));
        let cancel = self.services.tasks.cancel_token().child_token();
        let out = self.tool_messages.0.clone();
        let services = Arc::clone(&self.services);
        drop(self.services.tasks.spawn("tool check", async move {
            let checked = tools.check(&invocation, &cwd, &env, &cancel).await;
            let rules = load_rules(services, cwd, &env).await;
            // The actor may be gone, and with it whoever wants to know.
            drop(out.send(ToolMessage::Checked(call, rules, Box::new(checked))).await);
        }));
    }

    fn on_checked(&mut self, call: EntryId, checked: Result<CheckedCall, ToolOutput>) {
        let verdict = checked.map_err(|output| tool_end(output, None));
        self.feed(Input::ToolValidated { call, verdict });
    }

    fn invocation(&self, start: &ToolStart) -> Result<ToolInvocation, ToolOutput> {
        let call = ToolCall {
            id: start.id.clone(),
            name: start.name.clone(),
            arguments: start.args.clone(),
            arguments_error: start.arguments_error.clone(),
            thought_signature: None,
            arguments_text: None,
        };
        let invocation = self.services.tools.validate(&self.settings.tools, &call)?;
        // What the model has read is not what stands in the file: written back, the key would be lost.
        let hides_key = || self.services.key_book.keys().stands_in_json(invocation.arguments());
        if invocation.effect() == EffectClass::Write && hides_key() {
            return Err(error_output(HIDDEN_KEY));
        }
        Ok(invocation)
    }

    /// Finds out what a person is shown of a call.
    pub(super) fn describe_tool(&mut self, start: &ToolStart) {
        let call = start.entry_id.clone();
        let invocation = match self.invocation(start) {
            Ok(invocation) => invocation,
            Err(output) => return self.on_described(call, Err(output)),
        };
        let (cwd, env, tools) = (self.settings.cwd.clone(), self.tool_env(), Arc::clone(&self.services.tools));
        let cancel = self.services.tasks.cancel_token().child_token();
        let out = self.tool_messages.0.clone();
        drop(self.services.tasks.spawn("tool preview", async move {
            let preview = tools.preview(&invocation, &cwd, &env, &cancel).await;
            // The actor may be gone, and with it whoever wants to know.
            drop(out.send(ToolMessage::Described(call, Box::new(preview))).await);
        }));
    }

    fn on_described(&mut self, call: EntryId, preview: Result<Preview, ToolOutput>) {
        let preview = Box::new(preview.map_err(|output| tool_end(output, None)));
        self.feed(Input::ToolDescribed { call, preview });
    }

    /// Runs a call; one that was consented to only if it still is what `approved` is the digest of.
    pub(super) fn start_tool(&mut self, start: Arc<ToolStart>, approved: Option<String>) {
        if !self.machine.wants_tool(&start.entry_id) {
            let end = tool_end(error_output(ABORTED), None);
            return self.feed(Input::ToolFinished { call: start.entry_id.clone(), end });
        }
        let invocation = match self.invocation(&start) {
            Ok(invocation) => invocation,
            Err(output) => {
                let end = tool_end(output, None);
                return self.feed(Input::ToolFinished { call: start.entry_id.clone(), end });
            }
        };
        let cancel = self.services.tasks.cancel_token().child_token();
        let (progress, progress_in) = mpsc::channel(TOOL_PROGRESS);
        let context = ToolContext {
            cwd: self.settings.cwd.clone(),
            env: self.tool_env(),
            outputs_dir: self.services.config.paths.outputs_dir.clone(),
            overwrites_dir: self.services.config.paths.overwrites_dir.clone(),
            cancel: cancel.clone(),
            progress,
            spawner: self.services.spawner.clone(),
            locks: self.services.file_locks.clone(),
            known_files: self.known_files.clone(),
            call_id: start.id.clone(),
            command_limit: self.clients.is_empty().then_some(HEADLESS_COMMAND_LIMIT),
            resizes_images: self.settings.config.images.auto_resize,
            text_only_model: self.settings.model.as_ref().and_then(|spec| images::text_only(spec)),
            keys: self.services.key_book.keys(),
        };
        // Before the tool can do anything: after a kill, nobody must think that it had not begun.
        self.journal.note_tool_started(&start);
        let tools = Arc::clone(&self.services.tools);
        let work = async move {
            if let Some(digest) = approved {
                match tools.preview(&invocation, &context.cwd, &context.env, &context.cancel).await {
                    Ok(now) if now.digest == digest => {}
                    Ok(_) => return error_output(CHANGED),
                    Err(output) => return output,
                }
            }
            tools.run(invocation, context).await
        };
        let out = self.tool_messages.0.clone();
        let call = start.entry_id.clone();
        let token = cancel.clone();
        drop(self.services.tasks.spawn("tool call", async move {
            run_tool(work, progress_in, out, call, token).await;
        }));
        let live = LiveTool {
            start: Arc::clone(&start),
            pending: String::new(),
            next_update: Instant::now(),
            _guard: cancel.clone().drop_guard(),
            cancel,
        };
        self.tools.insert(start.entry_id.clone(), live);
    }

    /// Returns the environment of a tool's children: the session's without keys, and what tells them where they are.
    fn tool_env(&self) -> Vec<(String, String)> {
        let mut env = self.settings.env.for_tools(&self.services.models.registry().secret_names());
        let (provider, model) = self
            .settings
            .model
            .as_ref()
            .map(|spec| (spec.model.provider.clone(), spec.model.id.clone()))
            .unwrap_or_default();
        let facts = [
            ("SESSION_ID", self.id.to_string()),
            ("SESSION_FILE", self.path.display().to_string()),
            ("PROVIDER", provider),
            ("MODEL", model),
            ("REASONING_LEVEL", self.settings.thinking.as_str().to_owned()),
        ];
        let both =
            |(name, value): (&str, String)| [(format!("AGENTD_{name}"), value.clone()), (format!("PI_{name}"), value)];
        let mut own: Vec<_> = facts.into_iter().flat_map(both).collect();
        own.push(("PI_CODING_AGENT".to_owned(), "true".to_owned()));
        // A session started from another one's tool must not pass for it; what else the person set stays.
        env.retain(|(name, _)| !own.iter().any(|(own, _)| own == name));
        env.extend(own);
        env
    }

    pub(super) fn cancel_tool(&mut self, call: &EntryId) {
        if let Some(tool) = self.tools.get(call) {
            tool.cancel.cancel();
        }
    }

    pub(super) fn on_tool_message(&mut self, message: ToolMessage) {
        match message {
            ToolMessage::Checked(call, rules, checked) => {
                self.machine.set_rules(rules);
                self.on_checked(call, *checked);
            }
            ToolMessage::Described(call, preview) => self.on_described(call, *preview),
            ToolMessage::Progress(call, progress) => self.on_progress(&call, progress),
            ToolMessage::Ended(call, output, ran) => {
                // What it printed last comes before its end.
                self.publish_output(&call);
                self.tools.remove(&call);
                let duration_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
                self.feed(Input::ToolFinished { call, end: tool_end(*output, Some(duration_ms)) });
            }
        }
    }

    fn on_progress(&mut self, call: &EntryId, progress: Progress) {
        let Some(tool) = self.tools.get_mut(call) else { return };
        match progress {
            Progress::Started => {
                let event = Event::ToolExecutionUpdate { call: Arc::clone(&tool.start), delta: Arc::from("") };
                tool.next_update = Instant::now() + TOOL_UPDATE_INTERVAL;
                self.publish(event);
            }
            Progress::Output(text) => {
                tool.pending.push_str(&text);
                if tool.next_update <= Instant::now() {
                    self.publish_output(call);
                }
            }
        }
    }

    pub(super) fn flush_tool_output(&mut self, now: Instant) {
        let due = self.tools.iter().filter(|(_, tool)| tool.flush_at().is_some_and(|at| at <= now));
        let due: Vec<EntryId> = due.map(|(call, _)| call.clone()).collect();
        for call in due {
            self.publish_output(&call);
        }
    }

    fn publish_output(&mut self, call: &EntryId) {
        let Some(tool) = self.tools.get_mut(call).filter(|tool| !tool.pending.is_empty()) else { return };
        let delta = std::mem::take(&mut tool.pending);
        tool.next_update = Instant::now() + TOOL_UPDATE_INTERVAL;
        let event = Event::ToolExecutionUpdate { call: Arc::clone(&tool.start), delta: Arc::from(delta) };
        self.publish(event);
    }
}

/// Reads the rules that hold in a folder now.
async fn load_rules(services: Arc<Services>, cwd: PathBuf, env: &[(String, String)]) -> Arc<Rules> {
    let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
    let tasks = services.tasks.clone();
    let loaded = tasks.spawn_blocking(move || {
        let folder = canonical(&cwd);
        services.rules.load(&folder, home.as_deref(), || services.trust.is_trusted(&folder))
    });
    // Code that failed may have been about to find a rule that forbids.
    loaded.await.unwrap_or_else(|_| Rules::unknown())
}

/// Runs one call and reports on it. A tool that does not end when told is left behind after [`TOOL_ABANDON`].
async fn run_tool(
    work: impl Future<Output = ToolOutput>,
    mut progress: mpsc::Receiver<Progress>,
    out: mpsc::Sender<ToolMessage>,
    call: EntryId,
    cancel: CancellationToken,
) {
    let begun = Instant::now();
    let run = AssertUnwindSafe(work).catch_unwind();
    tokio::pin!(run);
    let abandoned = async {
        cancel.cancelled().await;
        tokio::time::sleep(TOOL_ABANDON).await;
    };
    tokio::pin!(abandoned);
    let mut is_printing = true;
    let output = loop {
        tokio::select! {
            biased;
            item = progress.recv(), if is_printing => match item {
                // The actor may be gone; the tool is then ended by its token.
                Some(item) => drop(out.send(ToolMessage::Progress(call.clone(), item)).await),
                None => is_printing = false,
            },
            // The panic itself was logged by the panic hook.
            output = &mut run => break output.unwrap_or_else(|_| error_output(TOOL_FAULT)),
            () = &mut abandoned => break error_output(ABORTED),
        }
    };
    while let Ok(item) = progress.try_recv() {
        drop(out.send(ToolMessage::Progress(call.clone(), item)).await);
    }
    drop(out.send(ToolMessage::Ended(call, Box::new(output), begun.elapsed())).await);
}

fn tool_end(output: ToolOutput, duration_ms: Option<u64>) -> ToolEnd {
    ToolEnd { result: Arc::new(output.result), is_error: output.is_error, duration_ms }
}

fn error_output(text: &str) -> ToolOutput {
    ToolOutput {
        result: ToolResult {
            content: vec![ContentBlock::text(text)],
            details: Some(json!({})),
            structured_content: None,
        },
        is_error: true,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Runs some work as a call; returns what it printed and its result.
    async fn run(work: impl Future<Output = ToolOutput>, cancel: CancellationToken) -> (usize, ToolOutput) {
        let (progress, progress_in) = mpsc::channel(4);
        progress.send(Progress::Output("half".into())).await.unwrap();
        drop(progress);
        let (out, mut messages) = mpsc::channel(4);
        run_tool(work, progress_in, out, EntryId::new("e"), cancel).await;
        let mut printed = 0;
        loop {
            match messages.recv().await.expect("a call ends") {
                ToolMessage::Checked(..) | ToolMessage::Described(..) => panic!("it was checked before"),
                ToolMessage::Progress(..) => printed += 1,
                ToolMessage::Ended(_, output, _) => return (printed, *output),
            }
        }
    }

    #[tokio::test]
    async fn a_panic_is_the_result_of_its_call() {
        let (printed, output) = run(async { panic!("a fault of a tool") }, CancellationToken::new()).await;
        assert_eq!((printed, output), (1, error_output(TOOL_FAULT)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_does_not_end_when_told_is_left_behind() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let begun = Instant::now();
        assert_eq!(run(std::future::pending(), cancel).await, (1, error_output(ABORTED)));
        assert_eq!(begun.elapsed(), TOOL_ABANDON);
    }
}
