//! A stand-in for the actor: performs effects in order on a tree in memory and writes down what they were. Writes are
//! done at once, or held until the test lets them end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::message::{
    AssistantMessage, ContentBlock, Message, StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
use agentd_protocol::methods::{Decision, Headless, IfBusy, Mode, QueueMode, Resolution, Shown, ShownKind, SteerWhen};
use agentd_protocol::{ApprovalId, EntryId};
use serde_json::json;

use crate::agent::event::{Event, ToolStart};
use crate::agent::machine::core::Phase;
use crate::agent::machine::tools::{Call, CallState};
use crate::agent::machine::*;
use crate::config::RetrySettings;
use crate::permissions::policy::{CheckedCall, EffectClass};
use crate::permissions::questions::Preview;
use crate::provider::error::ErrorClass;
use crate::session::context::build_context;
use crate::session::entry::{EntryBody, Header};
use crate::session::tree::SessionTree;
use crate::store::record;

pub(super) struct Sim {
    pub(super) machine: Machine,
    pub(super) tree: SessionTree,
    pub(super) log: Vec<String>,
    jobs: VecDeque<Effect>,
    rejected: Vec<String>,
    pub(super) replies: u64,
    /// The replies to inputs that carry a message.
    pub(super) messages: Vec<ReplyId>,
    pub(super) request: Option<RequestId>,
    pub(super) retry: Option<RetryId>,
    pub(super) running: Vec<Arc<ToolStart>>,
    ended: Vec<Arc<ToolStart>>,
    saved: Queues,
    disk_is_broken: bool,
    /// Writes wait for [`Sim::end_write`].
    pub(super) disk_is_slow: bool,
    is_preparing: bool,
    /// A client is there that answers questions.
    pub(super) is_attended: bool,
    /// Questions that clients see to be open.
    pub(super) asked: Vec<ApprovalId>,
    /// The calls that questions are about, by the entries of their results.
    calls_asked: HashMap<ApprovalId, EntryId>,
    /// The calls that were consented to and have not begun.
    consented: HashSet<EntryId>,
    /// The calls of which is to be found out what there is to show.
    described: Vec<Arc<ToolStart>>,
    pub(super) now: i64,
}

pub(super) fn message(text: &str, stop_reason: StopReason) -> AssistantMessage {
    AssistantMessage {
        content: if text.is_empty() { Vec::new() } else { vec![ContentBlock::text(text)] },
        api: "test".into(),
        provider: "p".into(),
        model: "m".into(),
        usage: Usage::default(),
        stop_reason,
        timestamp: 0,
        response_id: None,
        raw_stop_reason: None,
        response_model: None,
        error_message: matches!(stop_reason, StopReason::Error).then(|| "it failed".to_owned()),
        duration_ms: None,
        thinking_level: None,
    }
}

/// What is found out about a call: one whose id begins with `r` reads, with `w` writes; any other can do anything.
fn checked(id: &str) -> CheckedCall {
    let effect = match id.as_bytes().first() {
        Some(b'r') => EffectClass::Read,
        Some(b'w') => EffectClass::Write,
        _ => EffectClass::Exec,
    };
    CheckedCall { effect, args: json!({"command": "c"}), places: Vec::new(), cwd: "/".into() }
}

pub(super) fn user(text: &str, id: Option<&str>) -> UserMessage {
    UserMessage { content: vec![ContentBlock::text(text)], timestamp: 0, client_message_id: id.map(str::to_owned) }
}

impl Sim {
    pub(super) fn new() -> Self {
        let settings = MachineSettings {
            mode: Mode::Full,
            headless: Headless::Deny,
            ask_timeout_ms: 0,
            max_turns: 50,
            retry: RetrySettings { base_delay: Duration::from_millis(1), ..RetrySettings::default() },
            steering_mode: QueueMode::OneAtATime,
            follow_up_mode: QueueMode::OneAtATime,
        };
        let header = Header { version: 3, id: "s".into(), timestamp: 0, cwd: "/".into(), parent_session: None };
        Self {
            machine: Machine::new(settings, Left::default(), 1),
            tree: SessionTree::new(header),
            log: Vec::new(),
            jobs: VecDeque::new(),
            rejected: Vec::new(),
            replies: 0,
            messages: Vec::new(),
            request: None,
            retry: None,
            running: Vec::new(),
            ended: Vec::new(),
            saved: Queues::default(),
            disk_is_broken: false,
            disk_is_slow: false,
            is_preparing: false,
            is_attended: false,
            asked: Vec::new(),
            calls_asked: HashMap::new(),
            consented: HashSet::new(),
            described: Vec::new(),
            now: 0,
        }
    }

    pub(super) fn set_max_turns(&mut self, max_turns: u32) {
        self.machine.settings.max_turns = max_turns;
    }

    pub(super) fn break_disk(&mut self) {
        self.disk_is_broken = true;
    }

    pub(super) fn mend_disk(&mut self) {
        self.disk_is_broken = false;
    }

    pub(super) fn reject_tool(&mut self, id: &str) {
        self.rejected.push(id.to_owned());
    }

    pub(super) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    #[track_caller]
    pub(super) fn take_log_from(&mut self, start: &str) -> Vec<String> {
        let log = self.take_log();
        let first = log.iter().position(|line| line.starts_with(start)).expect("the line is in the log");
        log[first..].to_vec()
    }

    pub(super) fn branch_texts(&self) -> Vec<String> {
        self.tree.branch().into_iter().map(|entry| describe_body(&entry.body)).collect()
    }

    pub(super) fn reply_id(&mut self) -> ReplyId {
        self.replies += 1;
        ReplyId(self.replies)
    }

    fn message_id(&mut self) -> ReplyId {
        let id = self.reply_id();
        self.messages.push(id);
        id
    }

    pub(super) fn feed(&mut self, input: Input) {
        self.queue(input);
        self.advance();
    }

    /// Performs jobs until one has to wait.
    fn advance(&mut self) {
        while !self.is_waiting()
            && let Some(effect) = self.jobs.pop_front()
        {
            self.perform(effect);
        }
    }

    /// Tells whether jobs wait, and with them all that streams.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_preparing || self.is_writing()
    }

    pub(super) fn is_writing(&self) -> bool {
        self.disk_is_slow
            && matches!(
                self.jobs.front(),
                Some(Effect::Append { .. } | Effect::SaveQueue(_) | Effect::SaveQuestions(_))
            )
    }

    /// Tells whether the preparation of a run can end now, or one that ends would be late.
    pub(super) fn may_be_prepared(&self) -> bool {
        self.is_preparing || !matches!(self.machine.phase, Phase::Starting(_))
    }

    /// Lets the write that is held end, and those after it until the next one.
    pub(super) fn end_write(&mut self) {
        if self.is_writing()
            && let Some(write) = self.jobs.pop_front()
        {
            self.perform(write);
            self.advance();
        }
    }

    fn queue(&mut self, input: Input) {
        let session = self.tree.header.id.clone();
        let moment = Moment { now: self.now, tree: &self.tree, session: &session, is_attended: self.is_attended };
        let effects = self.machine.handle(moment, input);
        self.jobs.extend(effects);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Prepare => {
                self.log.push("prepare".into());
                self.is_preparing = true;
            }
            Effect::Append { .. } | Effect::SaveQueue(_) | Effect::SaveQuestions(_) if self.disk_is_broken => {
                self.fail_append()
            }
            Effect::Append { entries, sync } => self.append(entries, sync),
            Effect::SaveQueue(queues) => {
                self.log.push(format!("save queue {}", queues.len()));
                self.saved = queues;
            }
            Effect::SaveQuestions(questions) => self.log.push(format!("save questions {}", questions.len())),
            Effect::Emit(event) => {
                self.note_question(&event);
                self.log.push(describe_event(&event));
            }
            Effect::EmitEntry(id) => {
                assert!(self.tree.get(&id).is_some());
                self.log.push("entry_appended".into());
            }
            Effect::StartRequest { request, .. } => {
                self.log.push(format!("request {}", request.0));
                self.request = Some(request);
            }
            Effect::CancelRequest(request, _) => self.log.push(format!("cancel request {}", request.0)),
            Effect::ValidateTool(call) => {
                self.log.push(format!("validate {}", call.id));
                let verdict = if self.rejected.contains(&call.id.to_string()) {
                    Err(tool_end("bad"))
                } else {
                    Ok(checked(call.id.as_str()))
                };
                self.queue(Input::ToolValidated { call: call.entry_id.clone(), verdict });
            }
            Effect::DescribeTool(call) => {
                self.log.push(format!("describe {}", call.id));
                self.described.push(call);
            }
            Effect::StartTool { call, approved } => {
                self.log.push(format!("run {}", call.id));
                if approved.is_some() {
                    assert!(self.consented.remove(&call.entry_id), "a call runs once for each consent");
                }
                self.running.push(call);
            }
            Effect::CancelTool(call) => {
                let name = self.running.iter().find(|running| running.entry_id == call).map(|call| &call.id);
                self.log.push(format!("cancel tool {}", name.map_or("that never began", |name| name.as_str())));
            }
            Effect::ArmRetry { retry, .. } => {
                self.log.push("arm retry".into());
                self.retry = Some(retry);
            }
            Effect::CancelRetry(_) => self.log.push("cancel retry".into()),
            Effect::Reply(to, outcome) => self.log.push(format!("reply {} {}", to.0, describe_outcome(&outcome))),
            Effect::Step => self.queue(Input::Step),
            Effect::Settled { is_whole: true } => assert!(self.asked.is_empty(), "a question outlives its run"),
            Effect::Settled { is_whole: false } => {
                self.log.push("keep the journal".into());
                // The session leaves memory, and asks again when it is loaded.
                self.asked.clear();
            }
        }
    }

    fn note_question(&mut self, event: &Event) {
        match event {
            Event::ApprovalRequested(question) => {
                self.asked.push(question.approval_id.clone());
                if let Some(asked) = &question.tool {
                    self.calls_asked.insert(question.approval_id.clone(), asked.entry_id.clone());
                }
            }
            // It never waited.
            Event::ApprovalResolved { answer, .. } if answer.decision == Resolution::Unattended => {}
            Event::ApprovalResolved { approval_id, answer } => {
                let place = self.asked.iter().position(|asked| asked == approval_id);
                self.asked.remove(place.expect("what ends was asked"));
                let call = self.calls_asked.remove(approval_id);
                let is_yes = matches!(answer.decision, Resolution::Once | Resolution::Session | Resolution::Always);
                self.consented.extend(call.filter(|_| is_yes));
            }
            _ => {}
        }
    }

    fn append(&mut self, entries: Vec<NewEntry>, sync: bool) {
        let words: Vec<String> = entries.iter().map(|entry| describe_body(&entry.body)).collect();
        for new in entries {
            assert!(self.tree.get(&new.id).is_none(), "an id is used twice");
            let parent = self.tree.leaf().cloned();
            let entry = record::encode_entry(&new.id, parent.as_ref(), 0, &new.body).unwrap();
            self.tree.push(entry);
        }
        self.log.push(format!("append {}{}", words.join(" "), if sync { " (sync)" } else { "" }));
    }

    /// Does what the actor does when a barrier fails.
    fn fail_append(&mut self) {
        self.log.push("append failed".into());
        let mut untold = Untold::default();
        for effect in std::mem::take(&mut self.jobs) {
            match effect {
                effect if !untold.takes(&effect) => self.jobs.push_back(effect),
                Effect::Reply(to, _) => self.log.push(format!("reply {} refused storage", to.0)),
                _ => {}
            }
        }
        let saved = self.saved.clone();
        self.queue(Input::AppendFailed { message: "disk full".into(), untold, saved });
    }

    pub(super) fn prompt(&mut self, text: &str) {
        self.prompt_if(text, IfBusy::Reject);
    }

    pub(super) fn prompt_if(&mut self, text: &str, if_busy: IfBusy) {
        let reply = self.message_id();
        self.feed(Input::Prompt { user: user(text, None), if_busy, reply });
    }

    pub(super) fn prompt_message(&mut self, user: UserMessage) {
        let reply = self.reply_id();
        self.feed(Input::Prompt { user, if_busy: IfBusy::Reject, reply });
    }

    pub(super) fn images_in_context(&self) -> usize {
        let messages = build_context(&self.tree).messages;
        let contents = messages.iter().filter_map(|message| match &*message.message {
            Message::User(user) => Some(&user.content),
            _ => None,
        });
        contents.flatten().filter(|block| matches!(block, ContentBlock::Image { .. })).count()
    }

    pub(super) fn prompt_with_id(&mut self, text: &str, id: &str) {
        let reply = self.reply_id();
        self.feed(Input::Prompt { user: user(text, Some(id)), if_busy: IfBusy::Reject, reply });
    }

    pub(super) fn begin(&mut self, text: &str) {
        self.prompt(text);
        self.prepared();
    }

    pub(super) fn prepared(&mut self) {
        self.is_preparing = false;
        self.feed(Input::Prepared(Ok(Prepared::default())));
    }

    pub(super) fn refuse_start(&mut self, refusal: Refusal) {
        self.is_preparing = false;
        self.feed(Input::Prepared(Err(refusal)));
    }

    pub(super) fn resume_input(&mut self) {
        let reply = self.reply_id();
        self.feed(Input::Continue { reply });
    }

    pub(super) fn resume(&mut self) {
        self.resume_input();
        self.prepared();
    }

    pub(super) fn steer(&mut self, text: &str) {
        let reply = self.message_id();
        self.feed(Input::Steer { user: user(text, None), when: SteerWhen::AfterTools, reply });
    }

    pub(super) fn steer_now(&mut self, text: &str) {
        let reply = self.message_id();
        self.feed(Input::Steer { user: user(text, None), when: SteerWhen::Now, reply });
    }

    pub(super) fn follow_up(&mut self, text: &str) {
        let reply = self.message_id();
        self.feed(Input::FollowUp { user: user(text, None), reply });
    }

    /// Answers the oldest question.
    pub(super) fn respond(&mut self, decision: Decision) {
        let approval = self.asked.first().cloned().unwrap_or_else(|| ApprovalId::new("s.none"));
        self.respond_to(approval, decision);
    }

    pub(super) fn respond_to(&mut self, approval: ApprovalId, decision: Decision) {
        let reply = self.reply_id();
        let response = Box::new(Response { approval, decision, by: Some("me".into()), pid: None, message: None });
        self.feed(Input::Respond { response, reply });
    }

    pub(super) fn respond_with(&mut self, decision: Decision, message: &str) {
        let (approval, reply) = (self.asked[0].clone(), self.reply_id());
        let message = Some(message.to_owned());
        let response = Box::new(Response { approval, decision, by: None, pid: None, message });
        self.feed(Input::Respond { response, reply });
    }

    /// Ends the oldest search for what there is to show of a call.
    pub(super) fn describe(&mut self) {
        if !self.described.is_empty() {
            let call = self.described.remove(0);
            let shown = Shown { kind: ShownKind::Command, text: "c".into(), is_complete: true, is_exact: true };
            let preview = Preview { shown, cwd: "/".into(), digest: call.id.to_string() };
            self.feed(Input::ToolDescribed { call: call.entry_id.clone(), preview: Box::new(Ok(preview)) });
        }
    }

    /// Finds that a call cannot run.
    pub(super) fn fail_to_describe(&mut self) {
        let call = self.described.remove(0);
        let preview = Box::new(Err(tool_end("no such file")));
        self.feed(Input::ToolDescribed { call: call.entry_id.clone(), preview });
    }

    pub(super) fn is_describing(&self) -> bool {
        !self.described.is_empty()
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.machine.settings.mode = mode;
    }

    pub(super) fn set_asking(&mut self, headless: Headless, ask_timeout_ms: u64) {
        (self.machine.settings.headless, self.machine.settings.ask_timeout_ms) = (headless, ask_timeout_ms);
    }

    /// Lets time pass, and the deadlines of questions with it.
    pub(super) fn wait_ms(&mut self, ms: i64) {
        self.now += ms;
        if self.machine.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.feed(Input::DeadlineReached);
        }
    }

    /// Loads the session anew, with what a killed daemon has left of its questions about calls.
    pub(super) fn load_again(&mut self) {
        let Phase::Tools(batch) = &self.machine.phase else { panic!("no calls are left") };
        let state = |call: &Call| match &call.state {
            CallState::Asking => None,
            CallState::Done(end) => Some(end.clone()),
            _ => Some(tool_end("cut short")),
        };
        let calls = batch.calls.iter().map(|call| (Arc::clone(&call.start), state(call))).collect();
        let batch = Some(LeftBatch { assistant: batch.assistant.clone(), calls });
        let left = Left { questions: self.machine.open_questions(), batch, ..Left::default() };
        self.machine = Machine::new(self.machine.settings().clone(), left, 2);
        self.running.clear();
        self.take_log();
    }

    pub(super) fn abort(&mut self) {
        let reply = self.reply_id();
        self.feed(Input::Stop { why: Stop::Abort, reply });
    }

    pub(super) fn wait(&mut self) {
        let reply = self.reply_id();
        self.feed(Input::Wait { reply });
    }

    pub(super) fn step(&mut self) {
        self.feed(Input::Step);
    }

    pub(super) fn retry_due(&mut self) {
        if let Some(retry) = self.retry {
            self.feed(Input::RetryDue(retry));
        }
    }

    pub(super) fn start_stream(&mut self) {
        let request = self.request.expect("a request is open");
        let message = Arc::new(Message::Assistant(message("", StopReason::Pending)));
        self.feed(Input::StreamStarted { request, message });
    }

    pub(super) fn finish_stream(&mut self, message: AssistantMessage, failure: Option<Failure>) {
        let request = self.request.expect("a request is open");
        self.feed(Input::StreamFinished { request, message: Box::new(message), failure });
    }

    pub(super) fn answer(&mut self, text: &str) {
        self.start_stream();
        self.finish_stream(message(text, StopReason::Stop), None);
    }

    pub(super) fn fail(&mut self, class: ErrorClass) {
        let failure = Failure { class, retry_after: None };
        self.finish_stream(message("", StopReason::Error), Some(failure));
    }

    pub(super) fn call_tools(&mut self, ids: &[&str]) {
        self.call(ids, StopReason::ToolUse);
    }

    pub(super) fn call_tools_cut(&mut self, ids: &[&str]) {
        self.call(ids, StopReason::Length);
    }

    fn call(&mut self, ids: &[&str], stop_reason: StopReason) {
        self.start_stream();
        let mut message = message("", stop_reason);
        message.content = ids
            .iter()
            .map(|id| {
                ContentBlock::ToolCall(ToolCall {
                    id: (*id).into(),
                    name: "bash".into(),
                    arguments: json!({}),
                    arguments_error: None,
                    thought_signature: None,
                    arguments_text: None,
                })
            })
            .collect();
        self.finish_stream(message, None);
    }

    pub(super) fn finish_tool(&mut self, id: &str) {
        let place = self.running.iter().position(|call| call.id.as_str() == id);
        self.ended.extend(place.map(|place| self.running.remove(place)));
        let call = self.ended.iter().rev().find(|call| call.id.as_str() == id);
        let call = call.map_or_else(|| EntryId::new(id), |call| call.entry_id.clone());
        self.feed(Input::ToolFinished { call, end: tool_end("out") });
    }
}

fn tool_end(text: &str) -> ToolEnd {
    let content = vec![ContentBlock::text(text)];
    ToolEnd { result: Arc::new(ToolResult { content, ..ToolResult::default() }), is_error: false, duration_ms: Some(1) }
}

fn describe_body(body: &EntryBody) -> String {
    match body {
        EntryBody::Message(message) => match &**message {
            Message::User(user) => user_text(user),
            Message::Assistant(assistant) => format!("assistant:{}", text_of(&assistant.content)),
            Message::ToolResult(result) => format!("toolResult:{}", result.tool_call_id),
            _ => "message".to_owned(),
        },
        EntryBody::ContextEdit { .. } => "context_edit".to_owned(),
        EntryBody::Custom { custom_type, data } => match data["decision"].as_str() {
            Some(decision) => format!("{custom_type}:{decision}"),
            None => custom_type.clone(),
        },
        other => format!("{other:?}"),
    }
}

pub(super) fn user_text(user: &UserMessage) -> String {
    format!("user:{}", text_of(&user.content))
}

fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect()
}

fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::ToolResult(_) => "toolResult",
        _ => "other",
    }
}

fn describe_event(event: &Event) -> String {
    match event {
        Event::AgentStart => "agent_start".into(),
        Event::TurnStart => "turn_start".into(),
        Event::MessageStart(entry) => format!("message_start {}", role(&entry.message)),
        Event::MessageEnd(entry) => format!("message_end {}", role(&entry.message)),
        Event::TurnEnd { tool_results, .. } => format!("turn_end {}", tool_results.len()),
        Event::AgentEnd { messages, will_retry } => {
            format!("agent_end {}{}", messages.len(), if *will_retry { " will retry" } else { "" })
        }
        Event::AgentSettled { reason, .. } => {
            format!("settled {}", serde_json::to_value(reason).unwrap().as_str().unwrap())
        }
        Event::ToolExecutionStart(call) => format!("tool_start {}", call.id),
        Event::ToolExecutionEnd { call, .. } => format!("tool_end {}", call.id),
        Event::QueueUpdate { steering, follow_up } => format!("queue {} {}", steering.len(), follow_up.len()),
        Event::AutoRetryStart { attempt, .. } => format!("retry_start {attempt}"),
        Event::AutoRetryEnd { success, attempt, .. } => {
            format!("retry_end {} {attempt}", if *success { "ok" } else { "failed" })
        }
        Event::Notice { .. } => "notice".into(),
        Event::ApprovalRequested(question) => format!("asked {}", question.text),
        Event::ApprovalResolved { answer, .. } => format!("resolved {}", answer.decision.as_str()),
        other => format!("{other:?}"),
    }
}

fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".into(),
        Outcome::Answered => "answered".into(),
        Outcome::Prompt(result) => serde_json::to_value(result.disposition).unwrap().as_str().unwrap().to_owned(),
        Outcome::Refused(refusal) => format!("refused {refusal:?}"),
        other => format!("{other:?}"),
    }
}
