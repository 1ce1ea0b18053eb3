//! Choosing a session's model and how much it is asked to think.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// Starts a daemon with the models of the recordings and makes a session with one of them.
async fn session(model: &str) -> (Daemon, Client) {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), model).await;
    (daemon, client)
}

async fn level(client: &mut Client) -> Value {
    client.ok("get_state", json!({})).await["thinkingLevel"].clone()
}

#[tokio::test]
async fn set_model_takes_effect_with_the_next_request() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    let model = client.ok("set_model", json!({"provider": "fake", "modelId": "thinker"})).await;
    assert_eq!(
        (&model["id"], &model["provider"], &model["reasoning"]),
        (&json!("thinker"), &json!("fake"), &json!(true))
    );
    client.ok("set_model", json!({"model": "fake/thinker:low"})).await;
    assert_eq!(client.ok("get_state", json!({})).await["thinkingLevel"], "low");
    client.run("second").await;
    let requests = server.requests();
    assert_eq!((&requests[0].body["model"], requests[0].body.get("reasoning_effort")), (&json!("plain"), None));
    assert_eq!((&requests[1].body["model"], &requests[1].body["reasoning_effort"]), (&json!("thinker"), &json!("low")));
    let changes: Vec<_> = daemon
        .home()
        .only_session()
        .into_iter()
        .filter(|line| line["type"] == "model_change")
        .map(|line| line["modelId"].clone())
        .collect();
    assert_eq!(changes, ["plain", "thinker", "thinker"], "an entry also for the same model, as pi");
    let error = client.err("set_model", json!({"model": "fake/nosuch"})).await;
    assert_eq!((error.code, error.kind()), (-32008, "unknown_model"));
    assert_eq!(client.ok("get_state", json!({})).await["model"]["id"], "thinker");
}

#[tokio::test]
async fn set_thinking_level_is_clamped_to_the_model() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/thinker").await;
    client.ok("set_thinking_level", json!({"level": "xhigh"})).await;
    assert_eq!(client.ok("get_state", json!({})).await["thinkingLevel"], "high");
    let event = client.events_until("thinking_level_changed").await.pop().unwrap();
    assert_eq!(event["event"]["level"], "high");
    client.ok("set_model", json!({"model": "fake/plain"})).await;
    assert_eq!(client.ok("get_state", json!({})).await["thinkingLevel"], "off", "a model that cannot think");
}

#[tokio::test]
async fn set_thinking_level_refuses_a_word_that_is_no_level_and_names_those_that_are() {
    let (_daemon, mut client) = session("fake/thinker:high").await;
    let error = client.err("set_thinking_level", json!({"level": "bogus"})).await;
    assert_eq!((error.code, &error.data["param"]), (-32602, &json!("level")));
    for word in ["bogus", "off", "minimal", "low", "medium", "high", "xhigh", "max"] {
        assert!(error.message.contains(word), "{}", error.message);
    }
    assert_eq!(level(&mut client).await, "high");
}

#[tokio::test]
async fn get_available_thinking_levels_tells_what_the_model_supports() {
    let (_daemon, mut client) = session("fake/thinker").await;
    let levels = client.ok("get_available_thinking_levels", json!({})).await["levels"].clone();
    assert_eq!(levels, json!(["off", "minimal", "low", "medium", "high"]));
    client.ok("set_model", json!({"model": "fake/plain"})).await;
    assert_eq!(client.ok("get_available_thinking_levels", json!({})).await["levels"], json!(["off"]));
    let error = client.err("get_available_thinking_levels", json!({"sessionId": "nosuch"})).await;
    assert_eq!(error.kind(), "unknown_session");
}

#[tokio::test]
async fn cycle_thinking_level_goes_round_and_tells_all() {
    let (_daemon, mut client) = session("fake/thinker:medium").await;
    for expected in ["high", "off", "minimal"] {
        assert_eq!(client.ok("cycle_thinking_level", json!({})).await["level"], expected);
        let event = client.events_until("thinking_level_changed").await.pop().expect("the event");
        assert_eq!(event["event"]["level"], expected);
    }
    assert_eq!(level(&mut client).await, "minimal");
    client.ok("set_model", json!({"model": "fake/plain"})).await;
    let only_one = client.ok("cycle_thinking_level", json!({})).await;
    assert_eq!(only_one.get("level"), None, "{only_one}");
    let error = client.err("cycle_thinking_level", json!({"sessionId": "nosuch"})).await;
    assert_eq!(error.kind(), "unknown_session");
}

#[tokio::test]
async fn cycle_model_goes_through_the_models_in_their_order_and_back() {
    let (_daemon, mut client) = session("fake/plain").await;
    let listed = client.ok("get_available_models", json!({})).await["models"].clone();
    let listed: Vec<Value> = listed.as_array().expect("a list").iter().map(|model| model["id"].clone()).collect();
    let real: Vec<Value> = listed.into_iter().filter(|id| id != "demo").collect();
    let mut seen = vec![json!("plain")];
    for _ in 1..real.len() {
        let cycled = client.ok("cycle_model", json!({})).await;
        assert_eq!(cycled["isScoped"], false);
        seen.push(cycled["model"]["id"].clone());
    }
    assert_eq!(seen, real);
    let back = client.ok("cycle_model", json!({})).await;
    assert_eq!((&back["model"]["id"], &back["thinkingLevel"]), (&json!("plain"), &json!("off")));
    let error = client.err("cycle_model", json!({"sessionId": "nosuch"})).await;
    assert_eq!(error.kind(), "unknown_session");
}

#[tokio::test]
async fn cycle_model_clamps_the_level_on_each_step() {
    let (_daemon, mut client) = session("fake/thinker:high").await;
    let small = client.ok("cycle_model", json!({})).await;
    assert_eq!((&small["model"]["id"], &small["thinkingLevel"]), (&json!("small"), &json!("off")));
    let event = client.events_until("thinking_level_changed").await.pop().expect("the event");
    assert_eq!(event["event"]["level"], "off");
}

#[tokio::test]
async fn cycle_model_without_another_model_changes_nothing() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    let nothing = client.ok("cycle_model", json!({})).await;
    assert_eq!(nothing.get("model"), None, "{nothing}");
    assert_eq!(client.ok("get_state", json!({})).await["model"]["id"], "demo");
}

#[tokio::test]
async fn a_part_of_a_models_name_is_enough_where_it_fits_only_one() {
    let (_daemon, mut client) = session("thinker:low").await;
    assert_eq!(level(&mut client).await, "low");
    let model = client.ok("set_model", json!({"model": "Fake/SMA"})).await;
    assert_eq!(model["id"], "small");
    for (name, words) in [
        ("fake/thinker:hihg", &["hihg", "fake/thinker", "minimal", "high"][..]),
        ("nosuch", &["nosuch", "get_available_models"]),
    ] {
        let error = client.err("set_model", json!({"model": name})).await;
        assert_eq!(error.kind(), "unknown_model", "{name}");
        assert!(words.iter().all(|word| error.message.contains(word)), "{}", error.message);
    }
    let error = client.err("new_session", json!({"model": "fake/thinker:hihg"})).await;
    assert_eq!(error.kind(), "unknown_model");
}

#[tokio::test]
async fn models_json_is_read_again_when_it_has_changed_and_a_broken_edit_changes_nothing() {
    let (daemon, mut client) = session("fake/plain").await;
    let file = daemon.home().config().join("agentd/models.json");
    let sound = std::fs::read_to_string(&file).expect("models.json");
    std::fs::write(&file, sound.replace("\"bare\"", "\"brand-new\"")).expect("write models.json");
    assert_eq!(client.ok("set_model", json!({"model": "brand-new"})).await["id"], "brand-new");
    std::fs::write(&file, "{\"providers\": {oops").expect("write models.json");
    assert_eq!(client.ok("set_model", json!({"model": "fake/brand-new"})).await["id"], "brand-new");
    let listed = client.ok("get_available_models", json!({})).await;
    assert!(listed["models"].as_array().expect("a list").iter().any(|model| model["id"] == "brand-new"));
    let notice = listed["notices"][0].as_str().expect("a notice");
    assert!(notice.contains("models.json:1:") && notice.contains("before"), "{notice}");
    // Who makes a session now is told as well.
    client.new_session(daemon.home(), "fake/plain").await;
    let told = client.events_until("notice").await.pop().expect("the event");
    assert_eq!((&told["event"]["kind"], &told["event"]["message"]), (&json!("models_file"), &json!(notice)));
    std::fs::write(&file, &sound).expect("write models.json");
    let mended = client.ok("get_available_models", json!({})).await;
    assert_eq!(mended.get("notices"), None, "{mended}");
    assert_eq!(client.err("set_model", json!({"model": "fake/brand-new"})).await.kind(), "unknown_model");
}

#[tokio::test]
async fn the_default_model_is_the_last_used_else_the_first_with_a_key_else_a_clear_answer() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd()});
    let first = client.ok("new_session", params.clone()).await;
    assert_eq!(first["state"]["model"]["id"], "plain", "the first with a key");
    client.new_session(daemon.home(), "fake/small").await;
    client.run("hello").await;
    assert_eq!(client.ok("get_available_models", json!({})).await["defaultModel"], "fake/small");
    assert_eq!(client.ok("new_session", params.clone()).await["state"]["model"]["id"], "small", "the last used");
    // Without any key there is none, and a prompt says what to do.
    drop(client);
    daemon.terminate();
    std::fs::remove_file(daemon.home().config().join("agentd/models.json")).expect("remove models.json");
    daemon.restart();
    let mut client = daemon.connect().await;
    let none = client.ok("new_session", params).await;
    assert_eq!(none["state"].get("model"), None, "{none}");
    let error = client.err("prompt", json!({"message": "hello"})).await;
    assert_eq!(error.kind(), "no_model");
    for word in ["_API_KEY", "models.json", "--model demo"] {
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[tokio::test]
async fn a_server_of_models_on_this_machine_is_found_and_asked_without_a_key() {
    let server = ModelServer::replies(json!([{"text": "from here"}]));
    let place = format!("127.0.0.1:{}", server.port());
    let daemon = Daemon::start_with(Home::new(), [("AGENTD_LOCAL_MODELS", &*place)]);
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "local/fake").await;
    client.run("hello").await;
    let request = server.request(1).await;
    assert_eq!((request.header("authorization"), &request.body["model"]), (None, &json!("fake")));
    assert_eq!((request.body.get("store"), request.body.get("max_completion_tokens")), (None, None));
    assert_eq!(request.messages()[0]["role"], "system");
    let listed = client.ok("get_available_models", json!({})).await;
    assert_eq!(listed["models"][0]["baseUrl"], json!(format!("http://{place}/v1")));
    assert_eq!(listed["defaultModel"], "local/fake");
}
