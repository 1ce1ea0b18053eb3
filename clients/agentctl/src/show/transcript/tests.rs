use agentd_protocol::methods::{AttachResult, View};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

const ALL: Options = Options { people: true, outputs: true };

fn event(value: Value) -> Event {
    serde_json::from_value(value).expect("an event")
}

fn update(update: Value) -> Value {
    json!({"type": "message_update", "assistantMessageEvent": update})
}

fn assistant(content: &Value) -> Value {
    json!({"role": "assistant", "content": content, "stopReason": "stop"})
}

/// Shows events one after the other; each piece is one line of the result.
fn show(transcript: &mut Transcript, events: Vec<Value>) -> String {
    let pieces: Vec<_> = events.into_iter().flat_map(|value| transcript.event(&event(value))).collect();
    lines(&pieces)
}

fn lines(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => format!("text {text:?}\n"),
            Piece::TextEnd => "text end\n".to_owned(),
            Piece::Thinking(text) => format!("thinking {text:?}\n"),
            Piece::ThinkingEnd => "thinking end\n".to_owned(),
            Piece::Line(tone, line) => format!("{tone:?}: {line}\n"),
        })
        .collect()
}

#[test]
fn a_turn_with_a_tool() {
    let result = json!({"content": [{"type": "text", "text": "a\nb"}]});
    let events = vec![
        json!({"type": "agent_start"}),
        json!({"type": "message_end", "entryId": "u", "message": {"role": "user", "content": "look\n\u{1b}[31m"}}),
        json!({"type": "message_start", "role": "assistant", "entryId": "a", "message": assistant(&json!([]))}),
        update(json!({"type": "thinking_start", "contentIndex": 0})),
        update(json!({"type": "thinking_delta", "contentIndex": 0, "delta": "hm"})),
        update(json!({"type": "thinking_end", "contentIndex": 0})),
        update(json!({"type": "text_start", "contentIndex": 1})),
        update(json!({"type": "text_delta", "contentIndex": 1, "delta": "Let \u{1b}me "})),
        update(json!({"type": "text_delta", "contentIndex": 1, "delta": "see"})),
        update(json!({"type": "text_end", "contentIndex": 1})),
        json!({"type": "message_end", "entryId": "a", "message": assistant(&json!([
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let \u{1b}me see"},
            {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls"}}]))}),
        json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "ls"}}),
        json!({"type": "tool_execution_update", "toolCallId": "c", "delta": "a\nb"}),
        json!({"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "result": result, "isError": false, "durationMs": 12}),
        json!({"type": "message_end", "entryId": "r", "toolCallId": "c"}),
        json!({"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "429: slow\ndown"}),
        json!({"type": "agent_settled", "aborted": false, "reason": "error", "errorMessage": "500: no"}),
    ];
    let expected = "\
User: > look
User: > ␛[31m
thinking \"hm\"
thinking end
text \"Let ␛me \"
text \"see\"
text end
Tool: [bash] ls
Output:   | a
Output:   2 lines, 12 ms
Waiting: retry 1 of 3 in 2.0 s: 429: slow down
Failure: 500: no
";
    assert_eq!(show(&mut Transcript::new(ALL, None), events), expected);
}

#[test]
fn parallel_tools_name_themselves_at_their_end() {
    let start =
        |id: &str| json!({"type": "tool_execution_start", "toolCallId": id, "toolName": "ls", "args": {"path": id}});
    let end = |id: &str| json!({"type": "tool_execution_end", "toolCallId": id, "toolName": "ls", "result": {"content": []}, "isError": id == "x"});
    let shown = show(&mut Transcript::new(ALL, None), vec![start("x"), start("y"), end("y"), end("x")]);
    let expected = "\
Tool: [ls] x
Tool: [ls] y
Output:   [ls] y: no output
Failure:   failed: no output
";
    assert_eq!(shown, expected);
}

#[test]
fn long_output_is_cut_and_output_can_be_left_out() {
    let start = json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {}});
    let update = json!({"type": "tool_execution_update", "toolCallId": "c", "delta": "x\n".repeat(30)});
    let shown = show(&mut Transcript::new(ALL, None), vec![start.clone(), update.clone(), update.clone()]);
    assert_eq!(shown.lines().count(), 1 + OUTPUT_LINES + 1);
    assert!(shown.ends_with("Output:   | …\n"), "{shown}");
    let shown = show(&mut Transcript::new(Options::default(), None), vec![start, update]);
    assert_eq!(shown, "Tool: [bash]\n");
}

#[test]
fn a_message_that_was_not_streamed_is_shown_at_its_end() {
    let message = assistant(&json!([{"type": "text", "text": "whole"}]));
    let events = vec![json!({"type": "message_end", "entryId": "a", "message": message})];
    assert_eq!(show(&mut Transcript::new(ALL, None), events), "text \"whole\"\ntext end\n");
}

#[test]
fn queue_presence_and_settings_are_noted() {
    let events = || {
        vec![
            json!({"type": "queue_update", "steering": ["one"], "followUp": []}),
            json!({"type": "queue_update", "steering": [], "followUp": ["two"]}),
            json!({"type": "model_changed", "model": "p/m"}),
            json!({"type": "thinking_level_changed", "level": "high"}),
            json!({"type": "session_info_changed", "name": "n"}),
            json!({"type": "notice", "kind": "k", "message": "look\nhere"}),
            json!({"type": "client_attached", "name": "", "clients": 2}),
            json!({"type": "client_detached", "name": "zed", "clients": 1}),
            json!({"type": "agent_settled", "aborted": true, "reason": "aborted"}),
        ]
    };
    let expected = "\
Note: queued to steer: one
Note: queued to follow: two
Note: model p/m
Note: thinking high
Note: named \"n\"
Note: look here
Note: a client joined, 2 attached
Note: zed left, 1 attached
Note: aborted
";
    assert_eq!(show(&mut Transcript::new(ALL, None), events()), expected);
    let without = show(&mut Transcript::new(Options::default(), None), events());
    assert!(!without.contains("attached"), "{without}");
}

#[test]
fn what_this_client_sent_is_not_repeated() {
    let mut transcript = Transcript::new(ALL, None);
    transcript.sent("mine");
    let user =
        |text: &str| json!({"type": "message_end", "entryId": "u", "message": {"role": "user", "content": text}});
    let shown = show(&mut transcript, vec![user("mine"), user("mine"), user("theirs")]);
    assert_eq!(shown, "User: > mine\nUser: > theirs\n");
    let mut named = user("one\ntwo");
    named["client"] = json!({"name": "zed\u{1b}", "pid": 7});
    assert_eq!(show(&mut transcript, vec![named]), "User: zed␛ > one\nUser: > two\n");
}

#[test]
fn this_client_is_not_announced_to_its_own_user() {
    let mut transcript = Transcript::new(ALL, None);
    transcript.joins("agentctl");
    let joined = || json!({"type": "client_attached", "name": "agentctl", "clients": 2});
    assert_eq!(show(&mut transcript, vec![joined(), joined()]), "Note: agentctl joined, 2 attached\n");
}

fn attached(snapshot: &Value) -> SessionView {
    let answer: AttachResult = serde_json::from_value(json!({
        "sessionId": "s", "epoch": "e", "seq": 9, "replay": "snapshot", "snapshot": snapshot,
        "state": {"thinkingLevel": "off", "isStreaming": true, "isCompacting": false, "steeringMode": "all",
            "followUpMode": "all", "sessionId": "s", "autoCompactionEnabled": true, "messageCount": 0,
            "pendingMessageCount": 0, "cwd": "/", "status": "running", "tools": [], "maxTurns": 1,
            "envSource": "client", "confinement": "none", "interrupted": false, "clients": 1},
    }))
    .expect("an answer");
    SessionView::new(answer, View::Full)
}

fn entry(id: &str, message: &Value) -> Value {
    json!({"type": "message", "id": id, "message": message})
}

fn snapshot(entries: Value, open: Option<Value>) -> Value {
    let mut snapshot =
        json!({"entries": entries, "tools": [], "queue": {"steering": [], "followUp": []}, "questions": []});
    if let Some(open) = open {
        snapshot["message"] = open;
    }
    snapshot
}

#[test]
fn the_past_is_shown_from_its_entries() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let mut open = assistant(&text("half"));
    open["entryId"] = "o".into();
    let entries = json!([
        entry("s", &json!({"role": "system", "sections": {}})),
        entry("1", &json!({"role": "user", "content": "old"})),
        entry("2", &json!({"role": "user", "content": "new"})),
        entry("3", &assistant(&json!([{"type": "text", "text": "I look"},
            {"type": "toolCall", "id": "c", "name": "ls", "arguments": {"path": "."}},
            {"type": "toolCall", "id": "d", "name": "ls", "arguments": {"path": "d"}}]))),
        entry("4", &json!({"role": "toolResult", "toolCallId": "c", "toolName": "ls", "content": text("x")})),
        {"type": "label", "id": "5"},
    ]);
    let mut transcript = Transcript::new(ALL, None);
    let shown = lines(&transcript.history(&attached(&snapshot(entries, Some(open))), 3));
    let expected = "\
User: > new
text \"I look\"
text end
Tool: [ls] .
Tool: [ls] d
Output:   [ls] .: x
text \"half\"
";
    assert_eq!(shown, expected);
    let more = show(
        &mut transcript,
        vec![
            update(json!({"type": "text_delta", "contentIndex": 0, "delta": " and half"})),
            update(json!({"type": "text_end", "contentIndex": 0})),
            json!({"type": "message_end", "entryId": "o", "message": assistant(&text("half and half"))}),
        ],
    );
    assert_eq!(more, "text \" and half\"\ntext end\n");
}

#[test]
fn after_falling_behind_only_the_rest_is_shown() {
    let start = |id: &str| {
        vec![
            json!({"type": "message_start", "role": "assistant", "entryId": id, "message": assistant(&json!([]))}),
            update(json!({"type": "text_start", "contentIndex": 0})),
            update(json!({"type": "text_delta", "contentIndex": 0, "delta": "one "})),
        ]
    };
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let user = entry("u", &json!({"role": "user", "content": "q"}));

    // The same message is still open.
    let mut transcript = Transcript::new(Options::default(), Some("u".into()));
    show(&mut transcript, start("a"));
    let mut open = assistant(&text("one two"));
    open["entryId"] = "a".into();
    let shown = lines(&transcript.snapshot(&attached(&snapshot(json!([user]), Some(open)))));
    assert_eq!(shown, "text \"two\"\n");
    let more = show(&mut transcript, vec![update(json!({"type": "text_delta", "contentIndex": 0, "delta": "!"}))]);
    assert_eq!(more, "text \"!\"\n");

    // It has ended, and others have begun and ended since.
    let mut transcript = Transcript::new(Options::default(), Some("u".into()));
    show(&mut transcript, start("a"));
    let entries = json!([user, entry("a", &assistant(&text("one two"))), entry("b", &assistant(&text("three")))]);
    let shown = lines(&transcript.snapshot(&attached(&snapshot(entries, None))));
    assert_eq!(shown, "text \"two\"\ntext end\ntext \"three\"\ntext end\n");
}

#[test]
fn each_end_of_a_run_has_its_line() {
    for (reason, error, expected) in [
        (RunEnd::Done, None, None),
        (RunEnd::Aborted, None, Some("aborted")),
        (RunEnd::Error, Some("401: key"), Some("401: key")),
        (RunEnd::MaxTurns, None, Some("stopped: the most turns of one run were taken")),
        (RunEnd::Storage, Some("disk full"), Some("the session could not be written: disk full")),
    ] {
        let line = settled_line(reason, error).map(|piece| match piece {
            Piece::Line(_, line) => line,
            other => panic!("{other:?}"),
        });
        assert_eq!(line.as_deref(), expected);
    }
}
