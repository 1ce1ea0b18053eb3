//! Paths as models write them: the exact name first, never another file.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::calls::Calls;
use crate::harness::{Daemon, Home};
use crate::model_server::ModelServer;

#[tokio::test]
async fn b138_a_look_alike_is_read_only_where_it_is_the_only_one() {
    let mut calls = Calls::start().await;
    for name in ["a\u{a0}b.txt", "a b.txt", "Shot 3.00\u{202f}pm.png.txt", "it\u{2019}s.md"] {
        calls.home().write(name, name);
    }
    for (asked, found) in [
        ("a\u{a0}b.txt", "a\u{a0}b.txt"),
        ("a b.txt", "a b.txt"),
        ("Shot 3.00 pm.png.txt", "Shot 3.00\u{202f}pm.png.txt"),
        ("it's.md", "it\u{2019}s.md"),
    ] {
        assert_eq!(calls.read(asked).await.as_deref(), Ok(found), "{asked:?}");
    }
    calls.edit("it's.md", &[("it", "IT")]).await.unwrap_err();
    calls.call("write", json!({"path": "it's.md", "content": "new"})).await.unwrap();
    assert_eq!(calls.home().read("it\u{2019}s.md"), "it\u{2019}s.md");
}

#[tokio::test]
async fn b140_tilde_and_at_sign_come_after_the_exact_name() {
    let mut calls = Calls::start().await;
    std::fs::write(calls.home().user().join("x"), "at home").unwrap();
    for name in ["src/a.ts", "@types/index.d.ts", "~/y"] {
        calls.home().write(name, name);
    }
    for (asked, found) in
        [("~/x", "at home"), ("@src/a.ts", "src/a.ts"), ("@types/index.d.ts", "@types/index.d.ts"), ("./~/y", "~/y")]
    {
        assert_eq!(calls.read(asked).await.as_deref(), Ok(found), "{asked:?}");
    }
    calls.read("~nosuch/z").await.unwrap_err();
}

#[tokio::test]
async fn b142_odd_working_directories_work_and_a_removed_one_is_named() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let names = ["with blank".to_owned(), "it's \"odd\"".to_owned(), "two\nlines".to_owned(), "x".repeat(250)];
    for name in names {
        let cwd = daemon.home().cwd().join(&name);
        std::fs::create_dir(&cwd).unwrap();
        std::fs::write(cwd.join("f"), "found").unwrap();
        client.ok("new_session", json!({"cwd": cwd, "model": "fake/plain"})).await;
        let calls =
            [json!({"tool": "read", "args": {"path": "f"}}), json!({"tool": "bash", "args": {"command": "cat f"}})];
        server.push(json!({"blocks": calls}));
        server.push(json!({"text": "done"}));
        let events = client.run("look").await;
        let ends = events.iter().filter(|event| event["event"]["type"] == "tool_execution_end");
        let texts: Vec<_> = ends.map(|event| event["event"]["result"]["content"][0]["text"].clone()).collect();
        assert_eq!(texts, ["found", "found"], "{name:?}");
        std::fs::remove_dir_all(&cwd).unwrap();
        let error = client.err("prompt", json!({"message": "again"})).await;
        assert!(error.message.contains("working directory"), "{error:?}");
    }
}
