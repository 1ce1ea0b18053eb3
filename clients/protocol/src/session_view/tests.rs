use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn state(status: &str) -> Value {
    json!({
        "thinkingLevel": "off", "isStreaming": false, "isCompacting": false, "steeringMode": "one-at-a-time",
        "followUpMode": "one-at-a-time", "sessionId": "s", "autoCompactionEnabled": true, "messageCount": 0,
        "pendingMessageCount": 0, "cwd": "/w", "status": status, "tools": [], "maxTurns": 50, "envSource": "client",
        "confinement": "none", "interrupted": false, "clients": 1,
    })
}

fn answer(seq: Seq, snapshot: Option<Value>) -> AttachResult {
    let replay = if snapshot.is_some() { "snapshot" } else { "exact" };
    let mut answer = json!({"sessionId": "s", "epoch": "e", "seq": seq, "replay": replay, "state": state("idle")});
    if let Some(snapshot) = snapshot {
        answer["snapshot"] = snapshot;
    }
    serde_json::from_value(answer).expect("an attach answer")
}

fn empty_snapshot() -> Value {
    json!({"entries": [], "tools": [], "queue": {"steering": [], "followUp": []}, "questions": []})
}

fn event(from: Seq, seq: Seq, event: Value) -> EventParams {
    let mut params = json!({"sessionId": "s", "seq": seq, "event": event});
    if from != seq {
        params["from"] = from.into();
    }
    serde_json::from_value(params).expect("an event")
}

fn assistant(content: &Value, stop: &str) -> Value {
    json!({"role": "assistant", "content": content, "api": "a", "provider": "p", "model": "m", "stopReason": stop})
}

/// Gives single events to a view and returns it.
#[track_caller]
fn fold(mut view: SessionView, events: &[Value]) -> SessionView {
    for value in events {
        let params = event(view.seq + 1, view.seq + 1, value.clone());
        assert_eq!(view.apply(&params), Ok(Applied::Event), "{value}");
    }
    view
}

fn fresh() -> SessionView {
    SessionView::new(answer(0, Some(empty_snapshot())), View::Full)
}

fn update(update: &Value) -> Value {
    json!({"type": "message_update", "assistantMessageEvent": update})
}

/// A turn with thinking, a text and a call, up to the running tool.
fn turn() -> Vec<Value> {
    vec![
        json!({"type": "agent_start"}),
        json!({"type": "turn_start"}),
        json!({"type": "message_start", "role": "user", "entryId": "u"}),
        json!({"type": "message_end", "entryId": "u", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}}),
        json!({"type": "message_start", "role": "assistant", "entryId": "a", "message": assistant(&json!([]), "pending")}),
        update(&json!({"type": "thinking_start", "contentIndex": 0})),
        update(&json!({"type": "thinking_delta", "contentIndex": 0, "delta": "hm"})),
        update(&json!({"type": "thinking_end", "contentIndex": 0})),
        update(&json!({"type": "text_start", "contentIndex": 1})),
        update(&json!({"type": "text_delta", "contentIndex": 1, "delta": "Hel"})),
        update(&json!({"type": "text_delta", "contentIndex": 1, "delta": "lo é"})),
        update(&json!({"type": "toolcall_start", "contentIndex": 2, "id": "c", "toolName": "ls"})),
        update(&json!({"type": "toolcall_delta", "contentIndex": 2, "delta": "{}"})),
    ]
}

#[test]
fn a_message_grows_and_becomes_an_entry() {
    let view = fold(fresh(), &turn());
    assert_eq!(view.state.status, SessionStatus::Running);
    let open = view.open.as_ref().expect("a message is open");
    assert_eq!(
        serde_json::to_value(&open.message.content).expect("encodes"),
        json!([
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Hello é"},
            {"type": "toolCall", "id": "c", "name": "ls", "arguments": null, "argumentsText": "{}"},
        ])
    );
    assert_eq!(view.text_of(&EntryId::new("a")).as_deref(), Some("Hello é"));
    let done = assistant(&json!([{"type": "text", "text": "Hello é"}]), "stop");
    let view = fold(view, &[json!({"type": "message_end", "entryId": "a", "message": done})]);
    assert_eq!(view.open, None);
    assert_eq!(view.text_of(&EntryId::new("a")).as_deref(), Some("Hello é"));
    assert_eq!(view.state.leaf_id, Some(EntryId::new("a")));
    assert_eq!(view.entries.len(), 2);
}

#[test]
fn merged_events_come_to_the_same_state() {
    let full = fold(fresh(), &turn());
    let mut merged = fresh();
    for (index, value) in turn().into_iter().enumerate() {
        let seq = index as Seq + 1;
        let value = match seq {
            10 => continue,
            11 => update(&json!({"type": "text_delta", "contentIndex": 1, "delta": "Hello é"})),
            _ => value,
        };
        let from = if seq == 11 { 10 } else { seq };
        assert_eq!(merged.apply(&event(from, seq, value)), Ok(Applied::Event));
    }
    assert_eq!(merged, full);
}

#[test]
fn a_tool_result_is_put_together_from_its_end() {
    let result = json!({"content": [{"type": "text", "text": "out"}], "details": {"n": 1}});
    let view = fold(
        fresh(),
        &[
            json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "x"}}),
            json!({"type": "tool_execution_start", "toolCallId": "d", "toolName": "ls", "args": {}}),
            json!({"type": "tool_execution_update", "toolCallId": "c", "delta": "ou"}),
            json!({"type": "tool_execution_update", "toolCallId": "c", "delta": "t"}),
            json!({"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "result": result, "isError": true, "durationMs": 7}),
        ],
    );
    assert_eq!(view.tools[0].output, "out");
    assert!(view.tools[0].ended.is_some() && view.tools[1].ended.is_none());
    let view = fold(
        view,
        &[
            json!({"type": "message_end", "entryId": "r", "toolCallId": "c"}),
            json!({"type": "message_end", "entryId": "q", "toolCallId": "d"}),
        ],
    );
    assert_eq!(view.tools, []);
    let Some(Message::ToolResult(message)) = view.entries[0].message() else { panic!("{:?}", view.entries) };
    assert_eq!((message.tool_name.as_str(), message.is_error, message.duration_ms), ("bash", true, Some(7)));
    assert_eq!(view.entries[0].text().as_deref(), Some("out"));
    assert_eq!(view.entries[1].content, EntryContent::UnseenResult("d".into()));
}

#[test]
fn a_snapshot_in_mid_stream_goes_on() {
    let mut snapshot = empty_snapshot();
    snapshot["entries"] = json!([
        {"type": "message", "id": "u", "parentId": null, "message": {"role": "user", "content": "hi"}},
        {"type": "model_change", "id": "x", "provider": "p", "modelId": "m"},
    ]);
    let mut open = assistant(&json!([{"type": "text", "text": "Hel"}]), "pending");
    open["entryId"] = "a".into();
    snapshot["message"] = open;
    snapshot["tools"] = json!([{"toolCallId": "c", "toolName": "ls", "args": {}, "output": "",
        "ended": {"result": {"content": []}, "isError": false}}]);
    let view = SessionView::new(answer(7, Some(snapshot)), View::Coalesced);
    assert_eq!(view.entries[0].text().as_deref(), Some("hi"));
    assert!(matches!(view.entries[1].content, EntryContent::Other(_)));
    let view = fold(
        view,
        &[
            update(&json!({"type": "text_delta", "contentIndex": 0, "delta": "lo"})),
            json!({"type": "message_end", "entryId": "r", "toolCallId": "c"}),
        ],
    );
    assert_eq!(view.text_of(&"a".into()).as_deref(), Some("Hello"));
    assert!(view.entries[2].message().is_some());
    assert_eq!(view.cursor(), Cursor { epoch: "e".into(), seq: 9, view: Some(View::Coalesced) });
}

#[test]
fn run_states_follow_the_events() {
    let view = fold(
        fresh(),
        &[
            json!({"type": "agent_start"}),
            json!({"type": "queue_update", "steering": ["a"], "followUp": ["b"]}),
            json!({"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 10, "errorMessage": "429"}),
        ],
    );
    assert_eq!((view.state.status, view.state.pending_message_count), (SessionStatus::RetryWait, 2));
    assert_eq!(view.state.retry.as_ref().map(|retry| retry.attempt), Some(1));
    let view = fold(
        view,
        &[
            json!({"type": "agent_start"}),
            json!({"type": "auto_retry_end", "success": true, "attempt": 1}),
            json!({"type": "model_changed", "model": "q/n"}),
            json!({"type": "session_info_changed", "name": "title"}),
            json!({"type": "client_attached", "name": "x", "clients": 2}),
            json!({"type": "of_a_later_version"}),
            json!({"type": "agent_settled", "aborted": true, "reason": "aborted"}),
        ],
    );
    assert_eq!((view.state.status, view.state.retry), (SessionStatus::Idle, None));
    assert_eq!(view.ended, Some(Ended { reason: RunEnd::Aborted, error_message: None }));
    assert_eq!((view.model.as_deref(), view.state.session_name.as_deref()), (Some("q/n"), Some("title")));
    assert_eq!(view.state.clients, 2);
}

#[test]
fn what_does_not_follow_is_refused() {
    let mut view = fold(fresh(), &turn());
    let seen = view.seq;
    let turn_start = json!({"type": "turn_start"});
    let gap = view.apply(&event(seen + 2, seen + 2, turn_start.clone()));
    assert_eq!(gap, Err(ViewError::Gap { seen, from: seen + 2 }));
    let overlap = view.apply(&event(seen, seen + 1, turn_start.clone()));
    assert_eq!(overlap, Err(ViewError::Overlap { seen, from: seen, seq: seen + 1 }));
    assert_eq!(view.apply(&event(2, 3, turn_start.clone())), Ok(Applied::Seen));
    let mut other = event(seen + 1, seen + 1, turn_start);
    other.session_id = "t".into();
    assert_eq!(view.apply(&other), Err(ViewError::OtherSession("t".into())));
    assert_eq!(view.seq, seen);
    let delta = update(&json!({"type": "text_delta", "contentIndex": 2, "delta": "x"}));
    assert_eq!(view.apply(&event(seen + 1, seen + 1, delta)), Err(ViewError::NoBlock(2)));
}

#[test]
fn resuming_and_lagging() {
    let mut view = fold(fresh(), &turn());
    let at = view.seq;
    assert_eq!(view.resume(answer(at, None)), Ok(Applied::Seen));
    assert!(view.open.is_some());
    let other = ViewError::OtherCursor { epoch: "e".into(), seq: at + 1 };
    assert_eq!(view.resume(answer(at + 1, None)), Err(other));
    let mut lagged = serde_json::to_value(answer(at + 9, Some(empty_snapshot()))).expect("encodes");
    lagged["type"] = "lagged".into();
    assert_eq!(view.apply(&event(at + 9, at + 9, lagged)), Ok(Applied::Snapshot));
    assert_eq!((view.seq, view.open.is_none(), view.entries.len()), (at + 9, true, 0));
    assert_eq!(view.resume(answer(3, Some(empty_snapshot()))), Ok(Applied::Snapshot));
    assert_eq!(view.seq, 3);
}

#[test]
fn a_tool_that_prints_without_end_is_kept_as_a_tail() {
    let mut output = String::new();
    for _ in 0..100_000 {
        append_tail(&mut output, "é\n");
    }
    assert!(output.len() <= 2 * TOOL_OUTPUT_KEPT_BYTES && output.len() >= TOOL_OUTPUT_KEPT_BYTES - 1);
}

#[test]
fn the_end_of_the_attachment_is_told_although_its_number_is_an_old_one() {
    let mut view = fold(fresh(), &turn());
    let seen = view.seq;
    let detached = json!({"type": "detached", "message": "the file is gone"});
    assert_eq!(view.apply(&event(seen, seen, detached)), Ok(Applied::Detached));
    assert_eq!(view.seq, seen);
}

#[test]
fn the_leaf_is_known_also_without_content() {
    let mut view = fresh();
    view.view = View::Status;
    let view = fold(view, &[json!({"type": "message_end", "entryId": "u"})]);
    assert_eq!((view.state.leaf_id, view.entries), (Some(EntryId::new("u")), Vec::new()));
}

#[test]
fn questions_come_and_go() {
    let ask = |id: &str| {
        json!({"type": "approval_requested", "approvalId": id, "kind": "novel", "text": "?", "options": ["once", "novel"],
        "askedAt": 1})
    };
    let resolve = |id: &str| json!({"type": "approval_resolved", "approvalId": id, "decision": "once", "by": "x"});
    let view = fold(fresh(), &[json!({"type": "agent_start"}), ask("s.a"), ask("s.b")]);
    assert_eq!((view.state.status, view.questions.len()), (SessionStatus::Asking, 2));
    let question = &view.questions[0];
    assert_eq!(question.kind, crate::methods::QuestionKind::Unknown("novel".into()));
    assert_eq!(question.options, [crate::methods::Decision::Once], "an answer of a later version is passed over");
    let view = fold(view, &[resolve("s.a")]);
    assert_eq!(view.state.status, SessionStatus::Asking);
    let view = fold(view, &[resolve("s.b"), resolve("s.b")]);
    assert_eq!((view.state.status, view.questions.len()), (SessionStatus::Running, 0));
}
