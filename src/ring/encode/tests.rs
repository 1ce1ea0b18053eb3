use agentd_protocol::ToolCallId;
use agentd_protocol::event::{AssistantMessageEvent, Event as WireEvent, EventParams};
use agentd_protocol::message::{
    AssistantMessage, ContentBlock, StopReason, SystemMessage, ThinkingLevel, ToolCall, ToolResult, ToolResultMessage,
    UserMessage,
};
use agentd_protocol::methods::{
    AskedCall, Decision, Entry, Question, QuestionKind, Resolution, RunEnd, Shown, ShownKind,
};
use pretty_assertions::assert_eq;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::permissions::questions::Answer;

const NASTY: &str = "a\"b\\c\nd\re\tf\u{8}g\u{c}h\u{1}i\u{1f}j\u{7f}k\u{2028}l😀é/";

#[derive(serde::Deserialize)]
struct Notification {
    jsonrpc: String,
    method: String,
    params: EventParams,
}

#[track_caller]
fn decode(frame: &[u8]) -> EventParams {
    let text = std::str::from_utf8(frame).unwrap();
    assert!(!text.contains('\n'), "{text}");
    let notification: Notification = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((notification.jsonrpc.as_str(), notification.method.as_str()), ("2.0", "event"));
    notification.params
}

/// Encodes `event` and compares what a client reads with `expected`.
#[track_caller]
fn check(event: Event, expected: WireEvent) {
    let mut out = Vec::new();
    event_frame(&mut out, &frame_head(&SessionId::new("s\"1")), 7, &event);
    let params = decode(&out);
    assert_eq!(params, EventParams { session_id: SessionId::new("s\"1"), from: None, seq: 7, event: expected.clone() });
    // Nothing is written that the type does not have, and in the type's order.
    let written = format!(r#""event":{}}}}}"#, serde_json::to_string(&expected).unwrap());
    assert!(out.ends_with(written.as_bytes()), "{} != {written}", String::from_utf8_lossy(&out));
}

fn assistant() -> AssistantMessage {
    AssistantMessage {
        content: vec![ContentBlock::text(NASTY)],
        api: "demo".into(),
        provider: "demo".into(),
        model: "demo".into(),
        usage: Usage { output: 3, ..Usage::default() },
        stop_reason: StopReason::Stop,
        timestamp: 5,
        response_id: None,
        raw_stop_reason: None,
        response_model: None,
        error_message: None,
        duration_ms: None,
        thinking_level: None,
    }
}

fn nasty(pid: Option<i32>) -> Arc<ClientRef> {
    Arc::new(ClientRef { name: NASTY.into(), pid })
}

fn entry(id: &str, message: Message) -> MessageEntry {
    MessageEntry { id: EntryId::new(id), message: Arc::new(message), client: None }
}

fn user() -> Message {
    Message::User(UserMessage { content: vec![ContentBlock::text(NASTY)], timestamp: 1, client_message_id: None })
}

fn tool_result() -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: ToolCallId::new("c1"),
        tool_name: "bash".into(),
        content: vec![ContentBlock::text("out")],
        details: None,
        is_error: false,
        duration_ms: Some(1),
        timestamp: 2,
    })
}

fn call() -> Arc<ToolStart> {
    Arc::new(ToolStart {
        id: ToolCallId::new("c\"1"),
        name: "ba\"sh".into(),
        args: json!({"command": NASTY}),
        arguments_error: None,
        entry_id: "e".into(),
    })
}

#[test]
fn runs_and_turns() {
    check(Event::AgentStart, WireEvent::AgentStart {});
    check(Event::TurnStart, WireEvent::TurnStart {});
    check(
        Event::TurnEnd { message: entry("a", user()), tool_results: vec![entry("b", tool_result())] },
        WireEvent::TurnEnd { entry_id: "a".into(), tool_result_ids: vec!["b".into()] },
    );
    check(
        Event::AgentEnd { messages: vec![entry("a", user()), entry("b", tool_result())], will_retry: true },
        WireEvent::AgentEnd { entry_ids: vec!["a".into(), "b".into()], will_retry: true },
    );
    for error_message in [None, Some(NASTY.to_owned())] {
        check(
            Event::AgentSettled { aborted: true, reason: RunEnd::MaxTurns, error_message: error_message.clone() },
            WireEvent::AgentSettled { aborted: true, reason: RunEnd::MaxTurns, error_message },
        );
    }
}

#[test]
fn only_an_assistants_start_carries_a_message() {
    check(
        Event::MessageStart(entry("a\"", Message::Assistant(assistant()))),
        WireEvent::MessageStart {
            role: "assistant".into(),
            entry_id: "a\"".into(),
            message: Some(Message::Assistant(assistant())),
            client: None,
        },
    );
    let others = [
        (user(), "user"),
        (Message::System(SystemMessage::default()), "system"),
        (tool_result(), "toolResult"),
        (Message::Other(json!({"role": "novel"})), "novel"),
    ];
    for (message, role) in others {
        check(
            Event::MessageStart(entry("a", message)),
            WireEvent::MessageStart { role: role.into(), entry_id: "a".into(), message: None, client: None },
        );
    }
}

#[test]
fn a_user_message_says_who_sent_it() {
    let client = Some(ClientRef { name: NASTY.into(), pid: Some(7) });
    let sent = MessageEntry { client: Some(nasty(Some(7))), ..entry("a", user()) };
    let start =
        WireEvent::MessageStart { role: "user".into(), entry_id: "a".into(), message: None, client: client.clone() };
    check(Event::MessageStart(sent.clone()), start);
    let end = WireEvent::MessageEnd { message: Some(user()), entry_id: "a".into(), tool_call_id: None, client };
    check(Event::MessageEnd(sent), end);
}

#[test]
fn a_message_end_carries_the_message_unless_it_is_a_tool_result() {
    for message in [user(), Message::Assistant(assistant()), Message::System(SystemMessage::default())] {
        check(
            Event::MessageEnd(entry("a", message.clone())),
            WireEvent::MessageEnd { message: Some(message), entry_id: "a".into(), tool_call_id: None, client: None },
        );
    }
    check(
        Event::MessageEnd(entry("a", tool_result())),
        WireEvent::MessageEnd { message: None, entry_id: "a".into(), tool_call_id: Some("c1".into()), client: None },
    );
}

#[track_caller]
fn check_update(update: AssistantUpdate, expected: AssistantMessageEvent) {
    for usage in [None, Some(Usage { output: 9, ..Usage::default() })] {
        check(
            Event::MessageUpdate { usage, update: update.clone() },
            WireEvent::MessageUpdate { usage, assistant_message_event: expected.clone() },
        );
    }
}

#[test]
fn block_updates() {
    use AssistantMessageEvent as Wire;
    let delta = |kind| AssistantUpdate::Delta { index: 12, kind, delta: NASTY.into() };
    let end = |kind| AssistantUpdate::End { index: 12, kind };
    let start = |block| AssistantUpdate::Start { index: 12, block };
    let content_index = 12;
    let text = NASTY.to_owned();
    check_update(start(BlockKind::Text), Wire::TextStart { content_index });
    check_update(start(BlockKind::Thinking), Wire::ThinkingStart { content_index });
    check_update(
        start(BlockKind::ToolCall { id: "c\"".into(), name: "b\"".into() }),
        Wire::ToolcallStart { content_index, id: "c\"".into(), tool_name: "b\"".into() },
    );
    check_update(delta(DeltaKind::Text), Wire::TextDelta { content_index, delta: text.clone() });
    check_update(delta(DeltaKind::Thinking), Wire::ThinkingDelta { content_index, delta: text.clone() });
    check_update(delta(DeltaKind::ToolCall), Wire::ToolcallDelta { content_index, delta: text });
    check_update(end(DeltaKind::Text), Wire::TextEnd { content_index });
    check_update(end(DeltaKind::Thinking), Wire::ThinkingEnd { content_index });
    check_update(end(DeltaKind::ToolCall), Wire::ToolcallEnd { content_index });
}

#[test]
fn tool_calls() {
    let call = call();
    check(
        Event::ToolExecutionStart(call.clone()),
        WireEvent::ToolExecutionStart {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            args: call.args.clone(),
        },
    );
    check(
        Event::ToolExecutionUpdate { call: call.clone(), delta: NASTY.into() },
        WireEvent::ToolExecutionUpdate { tool_call_id: call.id.clone(), delta: NASTY.into() },
    );
    let result = ToolResult {
        content: vec![
            ContentBlock::text(NASTY),
            ContentBlock::ToolCall(ToolCall {
                id: "x".into(),
                name: "y".into(),
                arguments: json!({}),
                arguments_error: None,
                thought_signature: None,
                arguments_text: None,
            }),
        ],
        details: Some(json!({"a": NASTY})),
        structured_content: None,
    };
    for duration_ms in [None, Some(12)] {
        check(
            Event::ToolExecutionEnd {
                call: call.clone(),
                result: Arc::new(result.clone()),
                is_error: true,
                duration_ms,
            },
            WireEvent::ToolExecutionEnd {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                result: result.clone(),
                is_error: true,
                duration_ms,
            },
        );
    }
}

#[test]
fn queues_and_retries() {
    check(
        Event::QueueUpdate { steering: vec![NASTY.into(), "b".into()], follow_up: vec![] },
        WireEvent::QueueUpdate { steering: vec![NASTY.into(), "b".into()], follow_up: vec![] },
    );
    check(
        Event::AutoRetryStart { attempt: 1, max_attempts: 3, delay_ms: 2000, error_message: NASTY.into() },
        WireEvent::AutoRetryStart { attempt: 1, max_attempts: 3, delay_ms: 2000, error_message: NASTY.into() },
    );
    for final_error in [None, Some(NASTY.to_owned())] {
        check(
            Event::AutoRetryEnd { success: false, attempt: 3, final_error: final_error.clone() },
            WireEvent::AutoRetryEnd { success: false, attempt: 3, final_error },
        );
    }
}

#[test]
fn questions() {
    for turns in [None, Some(50)] {
        let question = Question {
            approval_id: "s.e1".into(),
            kind: QuestionKind::MaxTurns,
            text: NASTY.to_owned(),
            options: vec![Decision::Once, Decision::Deny],
            asked_at: 7,
            deadline: turns.map(i64::from),
            turns,
            tool: turns.map(|_| Box::new(asked_call())),
        };
        check(Event::ApprovalRequested(question.clone()), WireEvent::ApprovalRequested(question));
    }
    for (by, decision) in [(None, Resolution::Cancelled), (Some(NASTY.to_owned()), Resolution::Session)] {
        let answer = Answer { decision, by: by.clone(), pid: by.as_ref().map(|_| 7), message: by.clone() };
        check(
            Event::ApprovalResolved { approval_id: "s.e1".into(), answer },
            WireEvent::ApprovalResolved {
                approval_id: "s.e1".into(),
                decision,
                by: by.clone(),
                pid: by.as_ref().map(|_| 7),
                message: by,
            },
        );
    }
}

fn asked_call() -> AskedCall {
    AskedCall {
        tool_call_id: "c".into(),
        tool_name: NASTY.to_owned(),
        entry_id: "e2".into(),
        reason: NASTY.to_owned(),
        cwd: "/w".to_owned(),
        shown: Shown { kind: ShownKind::Command, text: NASTY.to_owned(), is_complete: true, is_exact: false },
        always: vec![serde_json::json!({"tool": "bash"})],
        digest: "00".to_owned(),
    }
}

#[test]
fn what_concerns_the_session() {
    let raw: Arc<RawValue> = RawValue::from_string(r#"{"type":"custom",  "id":"e1"}"#.to_owned()).unwrap().into();
    check(Event::EntryAppended(raw.clone()), WireEvent::EntryAppended { entry: Entry(raw) });
    for name in [None, Some(NASTY.to_owned())] {
        check(Event::SessionInfoChanged { name: name.clone() }, WireEvent::SessionInfoChanged { name });
    }
    check(Event::ModelChanged { model: "a/b\"".into() }, WireEvent::ModelChanged { model: "a/b\"".into() });
    check(
        Event::ThinkingLevelChanged { level: ThinkingLevel::Xhigh },
        WireEvent::ThinkingLevelChanged { level: ThinkingLevel::Xhigh },
    );
    check(
        Event::ClientAttached { client: nasty(Some(7)), view: View::Status, clients: 2 },
        WireEvent::ClientAttached { name: NASTY.into(), pid: Some(7), view: Some(View::Status), clients: 2 },
    );
    check(
        Event::ClientDetached { client: nasty(None), view: View::Full, clients: 1 },
        WireEvent::ClientDetached { name: NASTY.into(), pid: None, view: Some(View::Full), clients: 1 },
    );
    check(
        Event::Notice { kind: "damaged_lines", message: NASTY.into() },
        WireEvent::Notice { kind: "damaged_lines".into(), message: NASTY.into() },
    );
}

#[test]
fn a_merged_frame_tells_its_range() {
    let mut out = Vec::new();
    let place = Place::Block { index: 0, kind: DeltaKind::Text };
    let head = frame_head(&SessionId::new("s"));
    delta_frame(&mut out, &head, (Some(3), 9), (&place, None), |out| escape(out, NASTY));
    let params = decode(&out);
    assert_eq!((params.from, params.seq), (Some(3), 9));
}

#[test]
fn escaping_is_that_of_serde_json() {
    let every_char: String = ('\0'..='\u{ff}').chain(NASTY.chars()).collect();
    let mut out = Vec::new();
    string(&mut out, &every_char);
    assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&every_char).unwrap());
}
