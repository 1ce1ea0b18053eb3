use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Plays a run: answers each call with `answer(tool, args)` until there are none left.
fn play(
    mut messages: Vec<Arc<Message>>,
    mut answer: impl FnMut(&str, &Value) -> (String, bool),
) -> (Vec<Arc<Message>>, Vec<Reply>) {
    let mut replies = Vec::new();
    loop {
        let reply = reply(&messages);
        let mut content = vec![json!({"type": "text", "text": reply.text})];
        content.extend(
            reply.calls.iter().map(|c| json!({"type": "toolCall", "id": c.id, "name": c.name, "arguments": c.args})),
        );
        messages.push(message(json!({"role": "assistant", "content": content, "stopReason": "stop"})));
        let calls = reply.calls.clone();
        replies.push(reply);
        if calls.is_empty() {
            return (messages, replies);
        }
        for call in calls {
            let (text, is_error) = answer(call.name, &call.args);
            messages.push(message(json!({
                "role": "toolResult", "toolCallId": call.id, "toolName": call.name,
                "content": [{"type": "text", "text": text}], "isError": is_error,
            })));
        }
        assert!(replies.len() < 10, "the script must end");
    }
}

fn message(value: Value) -> Arc<Message> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn user(text: &str) -> Arc<Message> {
    message(json!({"role": "user", "content": text}))
}

fn start(tools: &[&str], prompt: &str) -> Vec<Arc<Message>> {
    let tools: Vec<Value> =
        tools.iter().map(|name| json!({"name": name, "description": "", "parameters": {"type": "object"}})).collect();
    vec![message(json!({"role": "system", "sections": {"a": "b"}, "toolsAdded": tools})), user(prompt)]
}

const DEFAULT: &[&str] = &["read", "bash", "edit", "write"];

fn calls(replies: &[Reply]) -> Vec<String> {
    replies.iter().flat_map(|r| &r.calls).map(|c| format!("{} {}", c.name, c.args)).collect()
}

#[test]
fn a_project_with_a_readme() {
    let (_, replies) = play(start(DEFAULT, "hello there"), |tool, args| match (tool, args["command"].as_str()) {
        ("bash", Some("pwd && ls -Ap")) => ("/p\n.git/\nCargo.toml\nREADME.md\nsrc/\n".into(), false),
        ("read", _) => ("# Title\nmore".into(), false),
        _ => ("  2 12\n".into(), false),
    });
    assert_eq!(
        calls(&replies),
        [
            r#"bash {"command":"pwd && ls -Ap"}"#,
            r#"read {"path":"README.md","limit":20}"#,
            r#"bash {"command":"wc -lc < './README.md'"}"#
        ]
    );
    assert!(replies[0].text.contains("fixed script") && replies[0].text.contains("“hello there”"));
    assert!(replies[1].text.contains("4 entries: .git/, Cargo.toml, README.md, src/"), "{}", replies[1].text);
    let last = &replies[2].text;
    assert!(last.contains("the file begins with “# Title”") && last.contains("“2 12”"), "{last}");
    assert!(last.contains("OPENAI_API_KEY"));
}

#[test]
fn an_empty_directory() {
    let (_, replies) = play(start(DEFAULT, "hi"), |_, args| {
        let listing = args["command"] == "pwd && ls -Ap";
        (if listing { "/empty\n" } else { "Linux x86_64\n" }.into(), false)
    });
    assert_eq!(calls(&replies), [r#"bash {"command":"pwd && ls -Ap"}"#, r#"bash {"command":"uname -sm && date"}"#]);
    assert!(replies[2].text.contains("Linux x86_64"));
}

#[test]
fn a_failing_tool_ends_the_script_with_what_it_said() {
    let (_, replies) = play(start(DEFAULT, "hi"), |_, _| ("denied by policy".into(), true));
    assert_eq!(replies.len(), 2);
    assert!(replies[1].text.contains("bash failed and said “denied by policy”"), "{}", replies[1].text);
}

#[test]
fn only_offered_tools_are_called() {
    let (_, replies) = play(start(&[], "hi"), |_, _| unreachable!());
    assert_eq!(replies.len(), 1);
    let (_, replies) =
        play(start(&["read", "ls"], "hi"), |tool, _| (if tool == "ls" { "a.txt\nsub/" } else { "text" }.into(), false));
    assert_eq!(calls(&replies), ["ls {}", r#"read {"path":"a.txt","limit":20}"#]);
}

#[test]
fn writing_happens_on_request_and_in_one_folder() {
    let (_, replies) = play(start(DEFAULT, "please write a note"), |_, _| ("/p\nREADME.md\n".into(), false));
    let made = calls(&replies);
    assert_eq!(made.len(), 3);
    assert!(made[1].starts_with(r#"write {"path":"agentd-demo/note.txt""#), "{}", made[1]);
    assert!(made[2].starts_with(r#"edit {"path":"agentd-demo/note.txt""#), "{}", made[2]);
    let (_, replies) = play(start(DEFAULT, "rewrite nothing"), |_, _| ("/p\n".into(), false));
    assert!(!calls(&replies).iter().any(|call| call.starts_with("write")));
}

#[test]
fn a_follow_up_knows_what_came_before() {
    let listing = |_: &str, _: &Value| ("/p\nREADME.md\n".to_owned(), false);
    let (mut messages, first) = play(start(DEFAULT, "one"), listing);
    messages.push(user("two"));
    let (_, second) = play(messages, listing);
    assert!(
        second[0].text.contains("“two”") && second[0].text.contains("message 2") && second[0].text.contains("“one”")
    );
    let ids: Vec<_> = first.iter().chain(&second).flat_map(|r| &r.calls).map(|c| c.id.clone()).collect();
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "call ids are unique in a session");
}

#[test]
fn usage_adds_up() {
    let usage = reply(&start(DEFAULT, "hello")).usage;
    assert_eq!(usage.total_tokens, usage.input + usage.output);
    assert!(usage.input > 0 && usage.output > 0);
}

#[test]
fn odd_names_are_quoted() {
    let names = vec!["it's.md".to_owned()];
    assert_eq!(pick_file(&names), Some("it's.md"));
    assert_eq!(shell_quote("it's.md"), r"'./it'\''s.md'");
    assert_eq!(pick_file(&["readme/".to_owned(), ".md".to_owned()]), None);
}

proptest! {
    #[test]
    fn any_prompt_and_any_output(prompt in any::<String>(), output in "\\PC{0,200}") {
        let (_, replies) = play(start(DEFAULT, &prompt), |_, _| (output.clone(), false));
        prop_assert!(replies.iter().all(|reply| !reply.text.is_empty()));
    }
}
