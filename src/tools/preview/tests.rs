use agentd_protocol::message::ToolCall;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, content: &str) {
        std::fs::write(self.0.path().join(name), content).unwrap();
    }

    async fn try_preview(&self, tool: &str, args: Value) -> Result<Preview, ToolOutput> {
        let registry = ToolRegistry::builtin();
        let call: ToolCall = serde_json::from_value(json!({"id": "c", "name": tool, "arguments": args})).unwrap();
        let invocation = registry.validate(&[tool.to_owned()], &call).unwrap();
        registry.preview(&invocation, self.0.path(), &[], &CancellationToken::new()).await
    }

    async fn preview(&self, tool: &str, args: Value) -> Preview {
        self.try_preview(tool, args).await.unwrap()
    }

    /// What a change is shown as, without the path in its first line.
    async fn diff(&self, tool: &str, args: Value) -> String {
        let shown = self.preview(tool, args).await.shown;
        assert_eq!((shown.kind, shown.is_complete), (ShownKind::Diff, true));
        let (path, diff) = shown.text.split_once('\n').unwrap();
        let root = self.0.path().canonicalize().unwrap();
        assert!(path.starts_with(root.to_str().unwrap()), "{path}");
        diff.to_owned()
    }
}

#[tokio::test]
async fn a_change_is_shown_as_it_will_be() {
    let place = Place::new();
    place.put("a", "one\ntwo\n");
    let edit = json!({"path": "a", "edits": [{"oldText": "two", "newText": "2"}]});
    assert_eq!(place.diff("edit", edit).await, " 1 one\n-2 two\n+2 2");
    assert_eq!(place.diff("write", json!({"path": "a", "content": "one\n"})).await, " 1 one\n-2 two");
    assert_eq!(place.diff("write", json!({"path": "deep/b", "content": "x\ny"})).await, "+1 x\n+2 y");
}

#[tokio::test]
async fn what_is_no_change_is_shown_as_it_was_given() {
    let place = Place::new();
    let shown = place.preview("bash", json!({"command": "ls -l"})).await.shown;
    assert_eq!((shown.kind, shown.text.as_str()), (ShownKind::Command, "ls -l"));
    let shown = place.preview("read", json!({"path": "a"})).await.shown;
    assert_eq!((shown.kind, shown.text.as_str()), (ShownKind::Arguments, "{\n  \"path\": \"a\"\n}"));
}

#[tokio::test]
async fn a_call_that_cannot_run_says_so_at_once() {
    let place = Place::new();
    place.put("a", "one");
    for edit in [
        json!({"path": "a", "edits": [{"oldText": "three", "newText": "3"}]}),
        json!({"path": "none", "edits": [{"oldText": "three", "newText": "3"}]}),
    ] {
        assert!(place.try_preview("edit", edit).await.unwrap_err().is_error);
    }
    assert!(place.try_preview("write", json!({"path": ".", "content": ""})).await.unwrap_err().is_error);
}

#[tokio::test]
async fn b181_the_digest_is_that_of_all_that_matters() {
    let place = Place::new();
    place.put("a", "one");
    let write = |content: &str| json!({"path": "a", "content": content});
    let first = place.preview("write", write("x")).await;
    assert_eq!(place.preview("write", write("x")).await, first);
    assert_ne!(place.preview("write", write("y")).await.digest, first.digest);
    place.put("a", "two");
    assert_ne!(place.preview("write", write("x")).await.digest, first.digest);
    let of = async |command: &str| place.preview("bash", json!({"command": command})).await;
    assert_ne!(of("ls").await.digest, of("ls ").await.digest);
    // What is shown alike is told apart all the same.
    let (one, other) = (of("ls \u{200b}").await, of("ls \\u{200b}").await);
    assert_eq!(one.shown.text, other.shown.text);
    assert_ne!((one.digest, one.shown.is_exact), (other.digest, other.shown.is_exact));
}

#[tokio::test]
async fn b181_what_is_too_long_to_be_shown_is_flagged() {
    let place = Place::new();
    let command = format!("echo {}; rm -rf x", "y".repeat(PREVIEW_BYTES));
    let shown = place.preview("bash", json!({"command": command})).await.shown;
    assert!(!shown.is_complete && shown.is_exact && shown.text.len() <= PREVIEW_BYTES);
    let content = "line\n".repeat(PREVIEW_BYTES);
    assert!(!place.preview("write", json!({"path": "a", "content": content})).await.shown.is_complete);
    place.put("large", &"z".repeat(usize::try_from(PREVIEW_OLD_BYTES).unwrap() + 1));
    let shown = place.preview("write", json!({"path": "large", "content": "x"})).await.shown;
    assert!(!shown.is_complete && shown.text.contains("what it holds now is not shown"), "{}", shown.text);
}
