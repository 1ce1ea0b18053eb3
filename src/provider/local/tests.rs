use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::config::env::SessionEnv;
use crate::provider::models_json::ModelDef;
use crate::provider::{Catalog, ModelRegistry};

/// Serves answers by path on a port of the loopback, each on a connection of its own, until dropped.
struct Scripted {
    address: SocketAddr,
}

impl Scripted {
    /// `answers` are paths and whole responses.
    fn start(answers: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), answers)
    }

    fn on(listener: TcpListener, answers: Vec<(&'static str, Vec<u8>)>) -> Self {
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), answers) = (stream, answers.clone()) else { return };
                std::thread::spawn(move || {
                    let mut request = Vec::new();
                    let mut buffer = [0; 4096];
                    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                        match stream.read(&mut buffer) {
                            Ok(0) | Err(_) => return,
                            Ok(count) => request.extend_from_slice(&buffer[..count]),
                        }
                    }
                    let head = String::from_utf8_lossy(&request).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    let answer = answers.iter().find(|(known, _)| *known == path);
                    let answer = answer
                        .map_or(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(), |(_, a)| a.clone());
                    drop(stream.write_all(&answer));
                });
            }
        });
        Self { address }
    }

    fn target(&self, expected: Option<Kind>) -> Target {
        Target { address: self.address, expected }
    }
}

fn ok(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn list(models: &[Value]) -> Vec<u8> {
    ok(&json!({"object": "list", "data": models}))
}

fn windows(provider: &ProviderDef) -> Vec<(&str, u64)> {
    provider.models.iter().map(|model| (model.id.as_str(), model.context_window.unwrap())).collect()
}

#[tokio::test]
async fn each_kind_of_server_is_told_by_its_answer() {
    let vllm = Scripted::start(vec![(
        "/v1/models",
        list(&[json!({"id": "org/model", "object": "model", "owned_by": "vllm", "max_model_len": 40960})]),
    )]);
    let llama = Scripted::start(vec![
        (
            "/v1/models",
            list(&[
                json!({"id": "a.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}),
            ]),
        ),
        ("/props", ok(&json!({"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": true}}))),
    ]);
    let studio = Scripted::start(vec![
        (
            "/v1/models",
            list(&[
                json!({"id": "chat", "object": "model", "owned_by": "organization_owner"}),
                json!({"id": "text-embedding-x", "object": "model", "owned_by": "organization_owner"}),
            ]),
        ),
        (
            "/api/v0/models",
            ok(
                &json!({"data": [{"id": "chat", "type": "llm", "max_context_length": 65536, "loaded_context_length": 4096}]}),
            ),
        ),
    ]);
    let ollama = Scripted::start(vec![
        ("/v1/models", list(&[json!({"id": "quen:8b", "object": "model", "owned_by": "library"})])),
        (
            "/api/show",
            ok(&json!({"capabilities": ["completion", "vision"], "parameters": "stop \"x\"\nnum_ctx    16384",
            "model_info": {"quen.context_length": 131072}})),
        ),
    ]);
    let targets = [vllm.target(None), llama.target(None), studio.target(None), ollama.target(None)];
    let found = ask(&targets).await;
    let ids: Vec<&str> = found.iter().map(|provider| provider.id.as_str()).collect();
    assert_eq!(ids, ["vllm", "llama.cpp", "lmstudio", "ollama"]);
    assert_eq!(windows(&found[0]), [("org/model", 40960)]);
    assert_eq!(windows(&found[1]), [("a.gguf", 8192)]);
    assert_eq!(windows(&found[2]), [("chat", 4096)]);
    assert_eq!(windows(&found[3]), [("quen:8b", 16384)]);
    assert_eq!(found[1].models[0].input, Some(vec!["text".to_owned(), "image".to_owned()]));
    assert_eq!(found[0].base_url, Some(format!("http://{}/v1", vllm.address)));
    assert!(found.iter().all(|provider| provider.is_keyless));
}

#[tokio::test]
async fn what_is_no_server_of_models_is_passed_over() {
    let long_id = "x".repeat(1000);
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("a web page", b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n<html>hi</html>".to_vec()),
        ("another list", ok(&json!({"object": "list", "data": [{"id": "a", "object": "user"}]}))),
        ("another api", ok(&json!({"data": [{"id": "a"}]}))),
        ("no list at all", ok(&json!([1, 2]))),
        ("an empty list", list(&[])),
        (
            "odd ids",
            list(&[
                json!({"id": long_id, "object": "model"}),
                json!({"id": "a\u{1b}[2J", "object": "model"}),
                json!({"id": 5, "object": "model"}),
            ]),
        ),
        ("only embeddings", list(&[json!({"id": "nomic-embed-text", "object": "model"})])),
        ("a refusal", b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("another protocol", b"SSH-2.0-OpenSSH_9.7\r\n".to_vec()),
        ("nothing", Vec::new()),
    ];
    for (name, answer) in answers {
        let server = Scripted::start(vec![("/v1/models", answer)]);
        assert_eq!(ask(&[server.target(Some(Kind::LlamaCpp))]).await, [], "{name}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Scripted::start(vec![("/v1/models", list(&[json!({"id": "a", "object": "model"})]))]);
    let there =
        format!("HTTP/1.1 302 Found\r\nlocation: http://{}/v1/models\r\ncontent-length: 0\r\n\r\n", other.address);
    let server = Scripted::start(vec![("/v1/models", there.into_bytes())]);
    assert_eq!(ask(&[server.target(None)]).await, []);
    assert_eq!(ask(&[other.target(None)]).await.len(), 1);
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let mut endless =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"object\": \"list\", \"data\": [".to_vec();
    endless.extend(std::iter::repeat_n(b' ', MAX_ANSWER_BYTES + 1));
    endless.extend_from_slice(br#"{"id": "a", "object": "model"}]}"#);
    let server = Scripted::start(vec![("/v1/models", endless)]);
    assert_eq!(ask(&[server.target(None)]).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_holds_the_others_back_no_longer_than_the_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target { address: silent.local_addr().unwrap(), expected: Some(Kind::Ollama) };
    let begin = Instant::now();
    assert_eq!(ask(&[target]).await, []);
    assert!(begin.elapsed() <= LIMIT, "in the test's own time");
}

#[tokio::test]
async fn a_second_server_of_a_kind_has_its_port_in_its_name() {
    let model = || vec![("/v1/models", list(&[json!({"id": "a", "object": "model", "owned_by": "vllm"})]))];
    let (one, two) = (Scripted::start(model()), Scripted::start(model()));
    let found = ask(&[one.target(None), two.target(None)]).await;
    let ids: Vec<&str> = found.iter().map(|provider| provider.id.as_str()).collect();
    assert_eq!(ids, ["vllm", &format!("vllm-{}", two.address.port())]);
}

#[test]
fn where_servers_are_looked_for() {
    let ports = |local: &LocalModels| -> Vec<(u16, Option<Kind>)> {
        targets(local).iter().map(|target| (target.address.port(), target.expected)).collect()
    };
    assert_eq!(ports(&LocalModels::Off), []);
    let all = [(11434, Kind::Ollama), (8080, Kind::LlamaCpp), (1234, Kind::LmStudio), (8000, Kind::Vllm)];
    assert_eq!(ports(&LocalModels::Default), all.map(|(port, kind)| (port, Some(kind))));
    let at = LocalModels::At(vec!["127.0.0.1:8080".parse().unwrap(), "[::1]:9".parse().unwrap()]);
    assert_eq!(ports(&at), [(8080, Some(Kind::LlamaCpp)), (9, None)]);
}

#[tokio::test]
async fn the_catalogue_learns_of_a_server_when_it_asks_again() {
    // A port that is free: taken, and given back.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let catalog = Arc::new(Catalog::load(&[], &[], &LocalModels::At(vec![address])));
    let env = SessionEnv::new(BTreeMap::new(), EnvSource::Client);
    let found = |name: &str| catalog.registry().resolve(name, &env).map(|(spec, _)| spec);
    catalog.ask_local(Duration::ZERO).await;
    assert!(found("local/a").is_err());
    let models = list(&[json!({"id": "a", "object": "model"}), json!({"id": "b:7b", "object": "model"})]);
    let _server = Scripted::on(TcpListener::bind(address).unwrap(), vec![("/v1/models", models)]);
    catalog.ask_local(Duration::from_secs(3600)).await;
    assert!(found("local/a").is_err(), "what was said within the hour is believed");
    let (one, two) = (catalog.ask_local(Duration::ZERO), catalog.ask_local(Duration::ZERO));
    tokio::join!(one, two);
    let model = &found("local/a").unwrap().model;
    assert_eq!((model.context_window, model.max_tokens, model.reasoning), (32_768, 16_384, false));
    let compat = &found("b:7b").unwrap().compat;
    assert!(!compat.supports_store && !compat.supports_developer_role && !compat.supports_reasoning_effort);
    assert_eq!(compat.max_tokens_field.as_str(), "max_tokens");
    assert_eq!(catalog.registry().default_model(&env, None).unwrap().0.name(), "local/a", "no key is needed");
}

#[test]
fn what_the_user_calls_so_is_the_users() {
    let file = std::path::PathBuf::from("models.json");
    let base = "http://127.0.0.1:1/v1";
    let local = ProviderDef {
        id: "ollama".to_owned(),
        base_url: Some(base.to_owned()),
        api: Some("openai-completions".to_owned()),
        models: vec![
            ModelDef { id: "own".to_owned(), ..ModelDef::default() },
            ModelDef { id: "more".to_owned(), ..ModelDef::default() },
        ],
        is_keyless: true,
        ..ProviderDef::default()
    };
    let env = SessionEnv::new(BTreeMap::new(), EnvSource::Client);
    for (url, expected) in [(base, vec!["ollama/own", "ollama/more"]), ("http://elsewhere/v1", vec!["ollama/own"])] {
        let text = json!({"providers": {"ollama": {"baseUrl": url, "api": "openai-completions", "apiKey": "k",
            "models": [{"id": "own", "contextWindow": 5}]}}});
        let (providers, _) = crate::provider::models_json::parse(&text.to_string());
        let registry =
            ModelRegistry::build(vec![(file.clone(), providers)], Vec::new(), std::slice::from_ref(&local), Vec::new());
        let names: Vec<String> = registry.available(&env).iter().map(|spec| spec.name()).collect();
        assert_eq!(names[..names.len() - 1], expected);
        assert_eq!(registry.resolve("ollama/own", &env).unwrap().0.model.context_window, 5);
    }
}
