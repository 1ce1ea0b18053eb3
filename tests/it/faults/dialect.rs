//! Requests to servers that know nothing but the plain dialect.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::settled;
use crate::harness::{Daemon, Home};
use crate::model_server::{ModelServer, Recorded};

/// Starts a daemon that knows one model of a server that nobody knows.
fn start(server: &ModelServer, model: &Value) -> Daemon {
    let home = Home::new();
    let folder = home.config().join("agentd");
    std::fs::create_dir_all(&folder).unwrap();
    let provider = json!({
        "baseUrl": format!("http://127.0.0.1:{}/v1", server.port()), "api": "openai-completions", "apiKey": "k",
        "models": [model],
    });
    std::fs::write(folder.join("models.json"), json!({"providers": {"nobody": provider}}).to_string()).unwrap();
    Daemon::start(home)
}

/// Lets a model call a tool and answer, with a thinking level if it has one, and returns the requests.
async fn requests(model: &Value, tools: &Value) -> Vec<Recorded> {
    let server = ModelServer::replies(json!([]));
    if tools.as_array().unwrap().is_empty() {
        server.push(json!({"text": "one"}));
    } else {
        server.push(json!({"blocks": [{"tool": "ls", "args": {}}]}));
    }
    server.push(json!({"text": "two"}));
    let daemon = start(&server, model);
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd(), "model": "nobody/m:high", "tools": tools});
    client.ok("new_session", params).await;
    for _ in 0..2 {
        let events = client.run("x").await;
        assert_eq!(settled(&events)["reason"], "done", "{model}");
    }
    server.requests()
}

#[tokio::test]
async fn b051_a_server_that_nobody_knows_gets_the_plain_dialect() {
    // Each with a model that thinks: the role `developer` and `reasoning_effort` are for those.
    let model = json!({"id": "m", "reasoning": true});
    for tools in [json!([]), json!(["ls", "read", "edit", "bash"])] {
        for request in requests(&model, &tools).await {
            let body = &request.body;
            let mut members: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
            members.retain(|member| *member != "tools");
            let plain = ["model", "messages", "stream", "stream_options", "store", "max_completion_tokens"];
            assert_eq!(members, [&plain[..], &["reasoning_effort"]].concat());
            assert_eq!((&body["store"], &body["stream_options"]), (&json!(false), &json!({"include_usage": true})));
            assert_eq!(body.get("tools").is_none(), tools == json!([]), "no empty list of tools");
            for message in request.messages() {
                assert!(["system", "user", "assistant", "tool"].contains(&message["role"].as_str().unwrap()));
                assert!(message["content"].is_string() || message["content"].is_null(), "{message}");
            }
            for tool in body["tools"].as_array().into_iter().flatten() {
                let (tool, function) = (tool.as_object().unwrap(), tool["function"].as_object().unwrap());
                assert_eq!(tool.keys().collect::<Vec<_>>(), ["type", "function"]);
                assert_eq!(function.keys().collect::<Vec<_>>(), ["name", "description", "parameters"]);
                check_schema(&function["parameters"]);
            }
        }
    }
}

/// Only words of JSON schema that every server understands, and nothing empty.
fn check_schema(schema: &Value) {
    let known = ["type", "description", "properties", "required", "items"];
    for (word, value) in schema.as_object().unwrap() {
        assert!(known.contains(&word.as_str()) && *value != json!({}), "{word}: {value}");
    }
    for schema in schema["properties"].as_object().into_iter().flat_map(|map| map.values()).chain(schema.get("items")) {
        check_schema(schema);
    }
}

#[tokio::test]
async fn b051_what_a_server_refuses_can_be_left_out() {
    for (compat, member) in [
        (json!({"supportsStore": false}), "store"),
        (json!({"supportsUsageInStreaming": false}), "stream_options"),
        (json!({"maxTokensField": "max_tokens"}), "max_completion_tokens"),
        (json!({"supportsReasoningEffort": false}), "reasoning_effort"),
    ] {
        let model = json!({"id": "m", "reasoning": true, "compat": compat});
        for request in requests(&model, &json!(["ls"])).await {
            assert_eq!(request.body.get(member), None, "{compat}");
        }
    }
}
