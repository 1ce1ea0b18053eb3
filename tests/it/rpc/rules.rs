//! Rules for tool calls: list_rules, add_rule, remove_rule, test_rule.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};

fn rule(action: &str, command: &str) -> Value {
    json!({"action": action, "tool": "bash", "command": command})
}

async fn verdict(client: &mut Client, daemon: &Daemon, command: &str) -> Value {
    client.ok("test_rule", json!({"command": command, "cwd": daemon.home().cwd()})).await["verdict"].clone()
}

#[tokio::test]
async fn rules_are_added_tried_listed_and_removed() {
    let daemon = Daemon::start(Home::new());
    let file = daemon.home().config().join("agentd/rules.toml");
    let mut client = daemon.connect().await;
    let cwd = json!(daemon.home().cwd());
    assert_eq!(client.ok("list_rules", json!({"cwd": cwd})).await["rules"], json!([]));
    let added = client.ok("add_rule", json!({"rule": rule("allow", "git status")})).await;
    assert_eq!(added, json!({"file": file, "changed": true}));
    assert_eq!(client.ok("add_rule", json!({"rule": rule("allow", "git status")})).await["changed"], false);
    client.ok("add_rule", json!({"rule": rule("deny", "rm")})).await;
    let listed = client.ok("list_rules", json!({"cwd": cwd})).await;
    let row = |rule: Value| json!({"scope": "user", "rule": rule});
    assert_eq!(listed["rules"], json!([row(rule("allow", "git status")), row(rule("deny", "rm"))]));
    assert_eq!(listed["files"][0], json!({"scope": "user", "path": file, "isRead": true}));
    assert_eq!(listed["files"][1]["isRead"], false);

    let tried = client.ok("test_rule", json!({"command": "git status -s", "cwd": cwd})).await;
    assert_eq!(tried, json!({"verdict": "allow", "rules": [rule("allow", "git status")], "always": []}));
    let tried = client.ok("test_rule", json!({"command": "git status; rm x", "cwd": cwd})).await;
    assert_eq!((&tried["verdict"], &tried["rules"]), (&json!("deny"), &json!([rule("deny", "rm")])));
    let tried = client.ok("test_rule", json!({"command": "git status && cargo test", "cwd": cwd})).await;
    assert_eq!((&tried["verdict"], &tried["always"]), (&json!("ask"), &json!([rule("allow", "cargo test")])));
    for (mode, expected) in [("read-only", "deny"), ("ask", "ask"), ("auto-edit", "allow"), ("full", "allow")] {
        let params = json!({"tool": "write", "args": {"path": "a", "content": ""}, "mode": mode, "cwd": cwd});
        assert_eq!(client.ok("test_rule", params).await["verdict"], expected, "{mode}");
    }

    // Comments of the user stay, and what is changed by hand counts at once.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("# mine\n{}", text.replace("\"rm\"", "\"mv\""))).unwrap();
    assert_eq!(verdict(&mut client, &daemon, "mv a b").await, "deny");
    assert_eq!(verdict(&mut client, &daemon, "rm a").await, "ask");
    assert_eq!(client.ok("remove_rule", json!({"rule": rule("deny", "mv")})).await["changed"], true);
    assert_eq!(client.ok("remove_rule", json!({"rule": rule("deny", "mv")})).await["changed"], false);
    assert!(fs::read_to_string(&file).unwrap().starts_with("# mine\n"));
    assert_eq!(verdict(&mut client, &daemon, "mv a b").await, "ask");
}

#[tokio::test]
async fn a_projects_rules_count_where_it_is_trusted() {
    let home = Home::new();
    home.write(".agentd/rules.toml", "[[rule]]\naction = \"allow\"\ntool = \"bash\"\ncommand = \"make\"\n");
    let daemon = Daemon::start(home);
    let mut client = daemon.connect().await;
    assert_eq!(verdict(&mut client, &daemon, "make").await, "ask");
    client.ok("trust", json!({"path": daemon.home().cwd()})).await;
    assert_eq!(verdict(&mut client, &daemon, "make").await, "allow");
    let project = json!({"rule": rule("deny", "make"), "scope": "project", "cwd": daemon.home().cwd()});
    assert_eq!(client.ok("add_rule", project).await["changed"], true);
    assert_eq!(verdict(&mut client, &daemon, "make").await, "deny");
    client.ok("untrust", json!({"path": daemon.home().cwd()})).await;
    assert_eq!(verdict(&mut client, &daemon, "make").await, "ask");
}

#[tokio::test]
async fn a_broken_file_is_told_with_its_line_and_has_calls_asked_about() {
    let daemon = Daemon::start(Home::new());
    let file = daemon.home().config().join("agentd/rules.toml");
    let mut client = daemon.connect().await;
    client.ok("add_rule", json!({"rule": rule("allow", "git status")})).await;
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{good}[[rule]]\naction = \"deny\"\ntool = \"bash\"\ncomand = \"rm\"\n")).unwrap();
    let listed = client.ok("list_rules", json!({"cwd": daemon.home().cwd()})).await;
    assert_eq!((&listed["problems"][0]["line"], listed["rules"].as_array().unwrap().len()), (&json!(8), 1), "{listed}");
    let full = json!({"command": "git status", "cwd": daemon.home().cwd(), "mode": "full"});
    let tried = client.ok("test_rule", full.clone()).await;
    assert_eq!(tried["verdict"], "ask");
    assert!(tried["reason"].as_str().unwrap().contains("rules.toml, line 8"), "{tried}");
    fs::write(&file, "[[rule").unwrap();
    assert_eq!(client.ok("test_rule", full).await["verdict"], "ask");
    assert_eq!(client.err("add_rule", json!({"rule": rule("deny", "rm")})).await.kind(), "storage");
    assert_eq!(fs::read_to_string(&file).unwrap(), "[[rule");
}
