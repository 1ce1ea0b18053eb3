use agentd_protocol::message::ThinkingLevel;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn assembler() -> Assembler {
    let facts = ModelFacts {
        api: "openai-completions".into(),
        provider: "p".into(),
        model: "m".into(),
        thinking_level: ThinkingLevel::Off,
        max_tokens: 4096,
    };
    Assembler::new(facts, 1_000)
}

fn start(index: usize, kind: BlockKind) -> StreamEvent {
    StreamEvent::BlockStart { index, kind }
}

fn delta(index: usize, kind: DeltaKind, text: &str) -> StreamEvent {
    StreamEvent::Delta { index, kind, delta: text.into() }
}

fn call(id: &str) -> BlockKind {
    BlockKind::ToolCall { id: id.into(), name: "read".into() }
}

#[track_caller]
fn check_content(events: Vec<StreamEvent>, expected: &str) {
    let mut assembler = assembler();
    for event in events {
        assembler.push(event);
    }
    let message = assembler.finish(&End::Complete, 1_500);
    assert_eq!(serde_json::to_string(&message.content).unwrap(), expected);
    assert_eq!(message.duration_ms, Some(500));
}

#[test]
fn blocks_keep_their_order_and_text() {
    check_content(
        vec![
            start(0, BlockKind::Thinking),
            delta(0, DeltaKind::Thinking, "hm"),
            StreamEvent::Signature { index: 0, signature: "reasoning_content".into() },
            start(1, BlockKind::Text),
            delta(1, DeltaKind::Text, "He"),
            start(2, call("c1")),
            delta(1, DeltaKind::Text, "llo"),
            delta(2, DeltaKind::ToolCall, "{\"path\":"),
            delta(2, DeltaKind::ToolCall, "\"a\"}"),
        ],
        concat!(
            r#"[{"type":"thinking","thinking":"hm","thinkingSignature":"reasoning_content"},"#,
            r#"{"type":"text","text":"Hello"},"#,
            r#"{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"a"}}]"#
        ),
    );
}

#[test]
fn withheld_thinking_is_marked() {
    check_content(
        vec![
            start(0, BlockKind::Thinking),
            StreamEvent::Redacted { index: 0 },
            StreamEvent::Signature { index: 0, signature: "data".into() },
            StreamEvent::Redacted { index: 7 },
        ],
        r#"[{"type":"thinking","thinking":"","thinkingSignature":"data","redacted":true}]"#,
    );
}

#[test]
fn events_for_blocks_that_are_not_there_change_nothing() {
    check_content(
        vec![
            delta(0, DeltaKind::Text, "lost"),
            start(3, BlockKind::Text),
            start(0, BlockKind::Text),
            delta(0, DeltaKind::Thinking, "wrong kind"),
            delta(0, DeltaKind::Text, "kept"),
            StreamEvent::BlockEnd { index: 0 },
            delta(0, DeltaKind::Text, "late"),
            StreamEvent::BlockEnd { index: 9 },
        ],
        r#"[{"type":"text","text":"kept"}]"#,
    );
}

#[test]
fn usage_rides_on_the_next_update_only() {
    let mut assembler = assembler();
    let usage = Usage { input: 3, total_tokens: 3, ..Usage::default() };
    assert_eq!(assembler.push(StreamEvent::Usage(usage)), None);
    assert_eq!(assembler.so_far().usage, Usage::default(), "a snapshot says what was told");
    let first = assembler.push(start(0, BlockKind::Text)).unwrap();
    assert_eq!(first.usage, Some(usage));
    assert_eq!(assembler.so_far().usage, usage);
    assert_eq!(assembler.push(StreamEvent::Usage(usage)), None);
    let second = assembler.push(delta(0, DeltaKind::Text, "x")).unwrap();
    assert_eq!(second.usage, None);
}

#[test]
fn a_snapshot_shows_unfinished_arguments_as_text() {
    let mut assembler = assembler();
    assembler.push(start(0, call("c1")));
    assembler.push(delta(0, DeltaKind::ToolCall, "{\"pa"));
    let so_far = serde_json::to_value(assembler.so_far().content).unwrap();
    let expected = json!([
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": null, "argumentsText": "{\"pa"}
    ]);
    assert_eq!(so_far, expected);
}

#[test]
fn an_aborted_message_keeps_what_came() {
    let mut assembler = assembler();
    assembler.push(start(0, BlockKind::Text));
    assembler.push(delta(0, DeltaKind::Text, "half"));
    let ends: Vec<AssistantUpdate> = assembler.close_blocks().into_iter().map(|update| update.update).collect();
    assert_eq!(ends, [AssistantUpdate::End { index: 0, kind: DeltaKind::Text }]);
    let message = assembler.finish(&End::Aborted("Request was aborted".into()), 1_000);
    assert_eq!(message.stop_reason, StopReason::Aborted);
    assert_eq!(message.error_message.as_deref(), Some("Request was aborted"));
    assert_eq!(message.content, [ContentBlock::text("half")]);
}
