//! Watching the list of sessions.

use std::collections::BTreeMap;
use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// A client that shows the list.
struct Picker {
    client: Client,
    seq: u64,
    rows: BTreeMap<String, Value>,
    /// The types of the changes that it has heard of, in order.
    heard: Vec<String>,
}

impl Picker {
    /// Lists, and watches from there on.
    async fn new(daemon: &Daemon) -> Self {
        let mut client = daemon.connect().await;
        let list = client.ok("list_sessions", json!({})).await;
        let watch = client.ok("watch_sessions", json!({"since": list["listSeq"]})).await;
        assert_eq!(watch, json!({"listSeq": list["listSeq"], "replay": "exact"}));
        Self { client, seq: list["listSeq"].as_u64().unwrap(), rows: rows(&list), heard: Vec::new() }
    }

    /// Takes the next change.
    async fn next(&mut self) -> Value {
        let change = self.client.find("a change", |message| message["method"] == "session_list_event").await;
        let (seq, mut event) = (change["params"]["listSeq"].as_u64().unwrap(), change["params"]["event"].clone());
        assert_eq!(seq, self.seq + 1, "none is missing and none comes twice: {change}");
        self.seq = seq;
        self.heard.push(event["type"].as_str().unwrap().to_owned());
        let id = |value: &Value| value.as_str().unwrap().to_owned();
        match self.heard.last().unwrap().as_str() {
            "session_created" => {
                let session = event["session"].take();
                assert_eq!(self.rows.insert(id(&session["sessionId"]), session), None);
            }
            "session_changed" => {
                let session = event["session"].clone();
                let before = self.rows.insert(id(&session["sessionId"]), session.clone());
                assert_ne!(before, Some(session), "what says nothing new is not told");
            }
            "session_status" => {
                let row = self.rows.get_mut(&id(&event["sessionId"])).expect("a session of the list");
                row["status"] = event["status"].clone();
            }
            "session_gone" => assert!(self.rows.remove(&id(&event["sessionId"])).is_some()),
            other => panic!("{other}: {event}"),
        }
        event
    }

    /// Takes changes up to one that `is_it` accepts.
    async fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next().await;
            if is_it(&event) {
                return event;
            }
        }
    }

    /// Lists again: the answer stands behind the changes that it shows, and is what they made of the list.
    async fn check(&mut self) {
        let id = self.client.request("list_sessions", json!({})).await;
        let list = loop {
            match self.client.read().await.expect("an answer") {
                answer if answer["id"] == id => break answer["result"].clone(),
                change => self.client.put_back(change),
            }
        };
        while self.seq < list["listSeq"].as_u64().unwrap() {
            self.next().await;
        }
        assert_eq!((self.seq, &self.rows), (list["listSeq"].as_u64().unwrap(), &rows(&list)));
        assert!(!self.client.has_put_back(), "no later change stands before the answer");
    }
}

fn rows(list: &Value) -> BTreeMap<String, Value> {
    let row = |row: &Value| (row["sessionId"].as_str().unwrap().to_owned(), row.clone());
    list["sessions"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn watch_sessions_tells_of_what_is_made_named_running_and_gone() {
    let server = ModelServer::replies(json!([{"text": "abc", "gates": {"1": "go"}}, {"text": "d"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut picker = Picker::new(&daemon).await;
    let mut client = daemon.connect().await;
    let first = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "hello"})).await;
    let made = picker.until(|event| event["type"] == "session_created").await;
    assert_eq!(picker.heard, ["session_created"], "nothing is told of a session before it is in the list");
    assert_eq!((&made["type"], picker.rows[&first]["status"].as_str()), (&json!("session_created"), Some("running")));
    picker.check().await;
    server.release("go");
    picker.until(|event| event["status"] == "idle").await;
    client.ok("set_session_name", json!({"name": "greeting"})).await;
    picker.until(|event| event["session"]["name"] == "greeting").await;
    picker.check().await;
    let second = client.new_session(daemon.home(), "fake/plain").await;
    client.run("hello again").await;
    // It may be over before it is in the list.
    while picker.rows.get(&second).is_none_or(|row| row["messageCount"] != 3 || row["status"] != "idle") {
        picker.next().await;
    }
    picker.check().await;

    // Files of other programs come and go; the daemon notices when it misses one.
    assert!(daemon.terminate().success());
    daemon.restart();
    let mut picker = Picker::new(&daemon).await;
    let files = daemon.home().session_files();
    let (gone, kept) = if files[0].to_str().unwrap().contains(&first) { (0, 1) } else { (1, 0) };
    let foreign = fs::read_to_string(&files[kept]).unwrap().replace(&second, "foreign-1");
    fs::write(files[kept].with_file_name("2026-11-30T00-00-00-000Z_foreign-1.jsonl"), foreign).unwrap();
    fs::remove_file(&files[gone]).unwrap();
    let mut client = daemon.connect().await;
    assert_eq!(client.err("get_state", json!({"sessionId": first})).await.kind(), "unknown_session");
    while picker.rows.contains_key(&first) || !picker.rows.contains_key("foreign-1") {
        picker.next().await;
    }
    picker.heard.sort();
    assert_eq!(picker.heard, ["session_created", "session_gone"]);
    picker.check().await;
}

#[tokio::test]
async fn a_number_of_another_life_is_known_as_such_and_unwatch_sessions_ends_it() {
    let mut daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let now = client.ok("list_sessions", json!({})).await["listSeq"].as_u64().unwrap();
    for since in [json!(0), json!(now + 1), Value::Null] {
        let watch = client.ok("watch_sessions", json!({"since": since})).await;
        assert_eq!(watch, json!({"listSeq": now, "replay": "list"}), "{since}");
    }
    let error = client.err("watch_sessions", json!({"since": "x"})).await;
    assert_eq!((error.code, &error.data["param"]), (-32602, &json!("since")));
    client.ok("unwatch_sessions", json!({})).await;
    client.ok("unwatch_sessions", json!({})).await;
    client.new_session(daemon.home(), "demo").await;
    client.run("hello").await;
    assert!(client.ok("list_sessions", json!({})).await["listSeq"].as_u64().unwrap() > now);
    client.close_input().await;
    let rest = client.rest().await;
    assert!(rest.iter().all(|message| message["method"] != "session_list_event"), "{rest:?}");
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let watch = client.ok("watch_sessions", json!({"since": now})).await;
    assert_eq!(watch["replay"], "list");
    assert!(watch["listSeq"].as_u64().unwrap() > now, "numbers grow over restarts");
}

/// Many sessions at once, a client that lists at random moments, and one that reads slowly: the list is always what the
/// changes say.
#[tokio::test]
async fn a_list_at_any_moment_and_the_changes_after_it_agree() {
    let server =
        ModelServer::start(json!({"replies": [], "default": {"text": "ok", "usage": {"input": 1, "output": 1}}}));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut pickers = vec![Picker::new(&daemon).await];
    let mut client = daemon.connect().await;
    let mut ids = Vec::new();
    for number in 0..12 {
        let made = json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "attach": false});
        ids.push(client.ok("new_session", made).await["sessionId"].clone());
        client.ok("prompt", json!({"message": format!("question {number}")})).await;
        if number % 3 == 0 {
            pickers.push(Picker::new(&daemon).await);
            client
                .ok("set_session_name", json!({"sessionId": ids[number / 2], "name": format!("name {number}")}))
                .await;
        }
        let at = number % pickers.len();
        pickers[at].check().await;
    }
    for id in ids {
        client.ok("wait", json!({"sessionId": id})).await;
    }
    for picker in &mut pickers {
        picker.check().await;
    }
}
