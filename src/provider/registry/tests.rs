use std::collections::BTreeMap;

use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;

use super::*;

fn env(vars: &[(&str, &str)]) -> SessionEnv {
    let vars: BTreeMap<_, _> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    SessionEnv::new(vars, EnvSource::Client)
}

struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            std::fs::write(home.0.path().join(name), text).unwrap();
        }
        home
    }

    fn load(&self) -> (ModelRegistry, Vec<ConfigNotice>) {
        let path = |name: &str| self.0.path().join(name);
        ModelRegistry::load(&[path("models.json"), path("pi.json")], Some(&path("auth.json")))
    }

    fn registry(&self) -> ModelRegistry {
        let (registry, notices) = self.load();
        assert_eq!(notices, []);
        registry
    }
}

fn names(registry: &ModelRegistry, env: &SessionEnv) -> Vec<String> {
    registry.available(env).iter().map(|spec| spec.name()).collect()
}

/// The models.json of pi's recordings.
const FAKE: &str = r#"{"providers": {
  "fake": {"baseUrl": "http://127.0.0.1:1/v1", "api": "openai-completions", "apiKey": "test-key", "models": [
    {"id": "plain", "name": "Fake Plain", "contextWindow": 128000, "maxTokens": 4096,
     "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25}},
    {"id": "thinker", "reasoning": true, "input": ["text", "image"]}, {"id": "bare"}, {"id": "org/model:7b"}]},
  "fakeanth": {"baseUrl": "http://127.0.0.1:1", "api": "anthropic-messages", "apiKey": "k", "models": [{"id": "claude"}]},
  "nokey": {"baseUrl": "http://x", "api": "openai-completions", "models": [{"id": "m"}]}
}}"#;

#[test]
fn configured_models_come_first_and_demo_last() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    assert_eq!(
        names(&registry, &env(&[])),
        ["fake/plain", "fake/thinker", "fake/bare", "fake/org/model:7b", "demo/demo"]
    );
    let with_key = names(&registry, &env(&[("GROQ_API_KEY", "k")]));
    assert_eq!(with_key[4], "groq/openai/gpt-oss-120b");
    assert_eq!(with_key.last().unwrap(), "demo/demo");
}

#[test]
fn a_bare_model_has_defaults() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    let (spec, _) = registry.resolve("fake/bare", &env(&[])).unwrap();
    let expected = r#"{"id":"bare","name":"bare","api":"openai-completions","provider":"fake","baseUrl":"http://127.0.0.1:1/v1","reasoning":false,"input":["text"],"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"contextWindow":128000,"maxTokens":16384}"#;
    assert_eq!(serde_json::to_string(&spec.model).unwrap(), expected);
}

#[test]
fn names_of_models() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    let env = env(&[("GROQ_API_KEY", "k"), ("CEREBRAS_API_KEY", "k"), ("OPENAI_API_KEY", "k")]);
    let found =
        |name: &str| registry.resolve(name, &env).map(|(spec, level)| (spec.name(), level.map(ThinkingLevel::as_str)));
    for (name, full, level) in [
        ("fake/plain", "fake/plain", None),
        ("thinker", "fake/thinker", None),
        ("thinker:high", "fake/thinker", Some("high")),
        ("fake/thinker:xhigh", "fake/thinker", Some("high")),
        ("fake/plain:high", "fake/plain", Some("off")),
        ("org/model:7b", "fake/org/model:7b", None),
        ("fake/org/model:7b:off", "fake/org/model:7b", Some("off")),
        ("groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b", None),
        ("demo", "demo/demo", None),
        ("demo/demo", "demo/demo", None),
        (" gpt-5.1:low ", "openai/gpt-5.1", Some("low")),
    ] {
        assert_eq!(found(name), Ok((full.to_owned(), level)), "{name}");
    }
}

#[test]
fn names_that_give_nothing_say_why() {
    let home = Home::new(&[
        ("models.json", FAKE),
        (
            "pi.json",
            r#"{"providers": {"two": {"baseUrl": "http://x",
        "api": "openai-completions", "apiKey": "k", "models": [{"id": "plain"}]}}}"#,
        ),
    ]);
    let registry = home.registry();
    let file = home.0.path().join("models.json").display().to_string();
    let said = |name: &str| registry.resolve(name, &env(&[])).unwrap_err().to_string();
    for (name, expected) in [
        ("plain", "model plain is ambiguous: say fake/plain or two/plain".to_owned()),
        ("nothing", "no model nothing; get_available_models lists those that can be used".to_owned()),
        (
            "other/think",
            "no model other/think; get_available_models lists those that can be used (did you mean fake/thinker?)".to_owned(),
        ),
        ("nokey/m", format!("no key for model nokey/m: give provider nokey an apiKey in {file}")),
        (
            "openai/gpt-5.1:high",
            format!("no key for model openai/gpt-5.1: set OPENAI_API_KEY in your environment, or give provider openai an apiKey in {file}"),
        ),
        (
            "claude",
            "model fakeanth/claude speaks anthropic-messages, which this version of agentd does not; it speaks openai-completions".to_owned(),
        ),
        ("", "no model ; get_available_models lists those that can be used".to_owned()),
    ] {
        assert_eq!(said(name), expected, "{name}");
    }
}

#[test]
fn the_default_is_the_last_used_then_the_first_with_a_key() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    let default = |last: Option<&str>| registry.default_model(&env(&[]), last).unwrap().0.name();
    assert_eq!(default(None), "fake/plain");
    assert_eq!(default(Some("fake/bare")), "fake/bare");
    assert_eq!(default(Some("gone/away")), "fake/plain");
    assert_eq!(default(Some("demo/demo")), "fake/plain");
}

#[test]
fn one_variable_is_enough() {
    let home = Home::new(&[]);
    let registry = home.registry();
    let (spec, _) = registry.default_model(&env(&[("OPENAI_API_KEY", "k")]), None).unwrap();
    assert_eq!(spec.name(), "openai/gpt-5.1");
    let error = registry.default_model(&env(&[("OPENAI_API_KEY", "")]), None).unwrap_err().to_string();
    let file = home.0.path().join("models.json").display().to_string();
    assert!(["OPENAI_API_KEY", "--model demo", &file].iter().all(|word| error.contains(word)), "{error}");
    assert_eq!(registry.default_model(&env(&[]), Some("demo/demo")).unwrap().0.name(), "demo/demo");
}

#[test]
fn a_users_definition_stands_over_the_built_in_one() {
    let text = r#"{"providers": {"openai": {"baseUrl": "http://proxy/v1", "apiKey": "$PROXY_KEY", "headers": {"x-team": "$TEAM"},
        "modelOverrides": {"gpt-5": {"name": "Five", "cost": {"output": 1}, "thinkingLevelMap": {"xhigh": "max"}}},
        "models": [{"id": "gpt-4.1", "contextWindow": 5}, {"id": "mine"}]}}}"#;
    let registry = Home::new(&[("models.json", text)]).registry();
    let env = env(&[("PROXY_KEY", "k")]);
    assert_eq!(
        names(&registry, &env)[..5],
        ["openai/gpt-4.1", "openai/mine", "openai/gpt-5.1", "openai/gpt-5", "openai/gpt-5-mini"]
    );
    let (five, _) = registry.resolve("openai/gpt-5", &env).unwrap();
    assert_eq!((five.model.name.as_str(), five.model.cost.output, five.model.cost.input), ("Five", 1.0, 1.25));
    assert_eq!(five.model.base_url, "http://proxy/v1");
    assert_eq!(five.model.thinking_level_map, Some(serde_json::json!({"off": null, "xhigh": "max"})));
    assert_eq!(five.headers[0].0, "x-team");
    let (mine, _) = registry.resolve("openai/gpt-4.1", &env).unwrap();
    assert_eq!(mine.model.context_window, 5);
}

#[test]
fn the_first_file_wins_and_the_second_adds() {
    let first = r#"{"providers": {"p": {"baseUrl": "http://one", "api": "openai-completions", "apiKey": "k", "models": [{"id": "a", "name": "first"}]}}}"#;
    let second = r#"{"providers": {"p": {"baseUrl": "http://two", "api": "openai-completions", "apiKey": "k2", "models": [{"id": "a", "name": "second"}, {"id": "b"}]}}}"#;
    let registry = Home::new(&[("models.json", first), ("pi.json", second)]).registry();
    let found = |name: &str| registry.resolve(name, &env(&[])).unwrap().0.model.clone();
    assert_eq!((found("a").name, found("a").base_url), ("first".to_owned(), "http://one".to_owned()));
    assert_eq!(found("b").base_url, "http://two");
}

#[test]
fn keys_of_the_key_file_go_first() {
    let auth = r#"{"openai": {"type": "api_key", "key": "from-file"}, "groq": {"type": "oauth", "access": "x"}}"#;
    let registry = Home::new(&[("auth.json", auth)]).registry();
    let env = env(&[("OPENAI_API_KEY", "from-env")]);
    let (spec, _) = registry.resolve("openai/gpt-5", &env).unwrap();
    assert_eq!(spec.provider.keys[0].value(&env).unwrap().expose(), "from-file");
    assert!(registry.resolve("groq/openai/gpt-oss-20b", &env).is_err());
}

#[test]
fn broken_files_are_told_and_the_rest_is_used() {
    let home = Home::new(&[
        ("models.json", "{\n \"providers\": {7}\n}"),
        ("pi.json", FAKE),
        ("auth.json", "{\"openai\": sk-CANARY123}"),
    ]);
    let (registry, notices) = home.load();
    let said: Vec<String> =
        notices.iter().map(|n| n.to_string().replace(&format!("{}/", home.0.path().display()), "")).collect();
    assert_eq!(
        said,
        ["models.json:2:16: key must be a string", "auth.json:1:12: is not valid JSON; its keys are not used"]
    );
    assert_eq!(names(&registry, &env(&[]))[0], "fake/plain");
}

#[test]
fn things_that_are_no_files_are_not_read() {
    let home = Home::new(&[]);
    std::fs::create_dir(home.0.path().join("models.json")).unwrap();
    let (_, notices) = home.load();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].message, "is not a file");
}

#[test]
fn incomplete_models_are_told() {
    let text = r#"{"providers": {"p": {"baseUrl": "http://x", "apiKey": "k", "models": [{"id": "a"}]}, "q": {"api": "openai-completions", "apiKey": "k", "models": [{"id": "b"}]}}}"#;
    let (_, notices) = Home::new(&[("models.json", text)]).load();
    let said: Vec<&str> = notices.iter().map(|n| n.message.as_str()).collect();
    assert_eq!(said, ["provider p: model a: no api", "provider q: model b: no baseUrl"]);
}

#[test]
fn names_of_secrets() {
    let text = r#"{"providers": {"p": {"baseUrl": "http://x", "api": "openai-completions", "apiKey": "$MY_KEY",
        "headers": {"x": "${HEADER_KEY}", "u": "$USER"}, "models": [{"id": "a"}]}}}"#;
    let names = Home::new(&[("models.json", text)]).registry().secret_names();
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_KEY", "HEADER_KEY"] {
        assert!(names.contains(name), "{name}");
    }
    assert!(!names.contains("USER"));
}

#[test]
fn reloading_sees_changes() {
    let home = Home::new(&[]);
    let registry = home.registry();
    std::fs::write(home.0.path().join("models.json"), FAKE).unwrap();
    assert_eq!(names(&registry.reload().0, &env(&[]))[0], "fake/plain");
}
