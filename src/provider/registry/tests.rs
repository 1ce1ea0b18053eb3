use std::collections::BTreeMap;

use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;

use super::*;
use crate::config::LocalModels;
use crate::provider::Catalog;

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

    fn load(&self) -> (Arc<ModelRegistry>, Vec<ConfigNotice>) {
        let path = |name: &str| self.0.path().join(name);
        let files = [path("models.json"), path("pi.json")];
        let registry = Catalog::load(&files, &[path("own.json"), path("auth.json")], &LocalModels::Off).registry();
        let notices = registry.notices().to_vec();
        (registry, notices)
    }

    fn registry(&self) -> Arc<ModelRegistry> {
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
  "fakeanth": {"baseUrl": "http://127.0.0.1:1", "api": "anthropic-messages", "apiKey": "k", "models": [{"id": "claude"}],
    "compat": {"forceAdaptiveThinking": true}},
  "fakeresp": {"baseUrl": "http://127.0.0.1:1", "api": "openai-responses", "apiKey": "k", "models": [{"id": "resp"}]},
  "nokey": {"baseUrl": "http://x", "api": "openai-completions", "models": [{"id": "m"}]}
}}"#;

#[test]
fn configured_models_come_first_and_demo_last() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    assert_eq!(
        names(&registry, &env(&[])),
        ["fake/plain", "fake/thinker", "fake/bare", "fake/org/model:7b", "fakeanth/claude", "demo/demo"]
    );
    let with_key = names(&registry, &env(&[("GROQ_API_KEY", "k")]));
    assert_eq!(with_key[5], "groq/openai/gpt-oss-120b");
    assert_eq!(with_key.last().unwrap(), "demo/demo");
}

#[test]
fn a_bare_model_has_defaults() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    let (spec, _) = registry.resolve("fake/bare", &env(&[])).unwrap();
    let expected = r#"{"id":"bare","name":"bare","api":"openai-completions","provider":"fake","baseUrl":"http://127.0.0.1:1/v1","reasoning":false,"input":["text"],"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"contextWindow":128000,"maxTokens":16384}"#;
    assert_eq!(serde_json::to_string(&spec.model).unwrap(), expected);
}

/// A choice of models in which names can be confused.
const NAMES: &str = r#"{"providers": {
  "maker": {"baseUrl": "http://m", "api": "openai-completions", "apiKey": "$MAKER_KEY", "models": [
    {"id": "duet-poem-4-6", "reasoning": true}, {"id": "duet-poem-5", "reasoning": true},
    {"id": "duet-poem-5-5", "reasoning": true, "thinkingLevelMap": {"off": null, "max": "max"}},
    {"id": "duet-tale-5-5"}, {"id": "duet-haiku-4-5"}, {"id": "duet-haiku-4-5-20251001"}]},
  "router": {"baseUrl": "http://r", "api": "openai-completions", "apiKey": "$ROUTER_KEY", "models": [
    {"id": "maker/duet-poem-5.5", "reasoning": true}, {"id": "z/slm-5.3", "reasoning": true}, {"id": "z/slm-5.3:free"},
    {"id": "z/slm-5.3-flash"}, {"id": "open/oss-120b"}, {"id": "open/oss-20b"}, {"id": "solo/Only-One", "reasoning": true}]},
  "fast": {"baseUrl": "http://f", "api": "openai-completions", "apiKey": "$FAST_KEY", "models": [
    {"id": "open/oss-120b"}, {"id": "quen3:8b"}, {"id": "quen3:14b"}, {"id": "high:high", "reasoning": true},
    {"id": "tool-2508"}, {"id": "tool-latest"}, {"id": "tool-2512"}, {"id": "gpt-4o-2024-05-13"}, {"id": "gpt-4o"}]},
  "other": {"baseUrl": "http://o", "api": "telepathy", "apiKey": "k", "models": [{"id": "mind"}]}
}}"#;

#[test]
fn each_dialect_has_its_quirks() {
    let registry = Home::new(&[("models.json", FAKE)]).registry();
    let (spec, _) = registry.resolve("fakeanth/claude", &env(&[])).unwrap();
    assert_eq!((spec.model.api.as_str(), spec.anthropic.force_adaptive_thinking), ("anthropic-messages", true));
    let (spec, _) = registry.resolve("fake/plain", &env(&[])).unwrap();
    assert!(!spec.anthropic.force_adaptive_thinking);
}

#[test]
fn names_of_models() {
    let registry = Home::new(&[("models.json", NAMES)]).registry();
    let found = |keys: &str, name: &str| {
        let vars: Vec<(&str, &str)> = keys.split_whitespace().map(|key| (key, "k")).collect();
        let found = registry.resolve(name, &env(&vars));
        found.map(|(spec, level)| (spec.name(), level.map(ThinkingLevel::as_str))).map_err(|error| error.to_string())
    };
    const ALL: &str = "MAKER_KEY ROUTER_KEY FAST_KEY";
    const NONE: &str = "";
    for (keys, name, full, level) in [
        // The whole name, and the whole id.
        (ALL, "maker/duet-poem-5", "maker/duet-poem-5", None),
        (ALL, "duet-poem-5", "maker/duet-poem-5", None),
        (ALL, "  duet-poem-5 ", "maker/duet-poem-5", None),
        (ALL, "router/open/oss-120b", "router/open/oss-120b", None),
        (ALL, "fast/open/oss-120b", "fast/open/oss-120b", None),
        (ALL, "open/oss-20b", "router/open/oss-20b", None),
        ("FAST_KEY", "open/oss-120b", "fast/open/oss-120b", None),
        (NONE, "demo", "demo/demo", None),
        (NONE, "demo/demo", "demo/demo", None),
        (NONE, "demo:high", "demo/demo", Some("off")),
        // Ids with colons and slashes: whole first, then the last word as a level.
        (ALL, "z/slm-5.3:free", "router/z/slm-5.3:free", None),
        (ALL, "router/z/slm-5.3:free", "router/z/slm-5.3:free", None),
        (ALL, "z/slm-5.3:free:high", "router/z/slm-5.3:free", Some("off")),
        (ALL, "z/slm-5.3:high", "router/z/slm-5.3", Some("high")),
        (ALL, "quen3:8b", "fast/quen3:8b", None),
        (ALL, "quen3:8b:off", "fast/quen3:8b", Some("off")),
        (ALL, "high:high", "fast/high:high", None),
        (ALL, "high:high:low", "fast/high:high", Some("low")),
        // Levels are clamped to what the model has.
        (ALL, "duet-poem-5:xhigh", "maker/duet-poem-5", Some("high")),
        (ALL, "maker/duet-poem-5-5:off", "maker/duet-poem-5-5", Some("minimal")),
        (ALL, "maker/duet-poem-5-5:MAX", "maker/duet-poem-5-5", Some("max")),
        // Parts of names; letter case and marks do not matter.
        (ALL, "tale", "maker/duet-tale-5-5", None),
        (ALL, "Duet Tale", "maker/duet-tale-5-5", None),
        (ALL, "only", "router/solo/Only-One", None),
        (ALL, "SOLO/only_one:low", "router/solo/Only-One", Some("low")),
        (ALL, "20b", "router/open/oss-20b", None),
        (ALL, "slm-5.3-fl", "router/z/slm-5.3-flash", None),
        (ALL, "quen3:14", "fast/quen3:14b", None),
        // Of versions the newest, of an alias and dated ids the alias.
        ("MAKER_KEY", "poem", "maker/duet-poem-5-5", None),
        ("MAKER_KEY", "poem:high", "maker/duet-poem-5-5", Some("high")),
        ("MAKER_KEY", "poem-4", "maker/duet-poem-4-6", None),
        ("MAKER_KEY", "poem-5", "maker/duet-poem-5", None),
        ("MAKER_KEY", "haiku", "maker/duet-haiku-4-5", None),
        ("MAKER_KEY", "haiku-4-5-2025", "maker/duet-haiku-4-5-20251001", None),
        (ALL, "tool", "fast/tool-latest", None),
        (ALL, "tool-25", "fast/tool-2512", None),
        (ALL, "4o", "fast/gpt-4o", None),
        // A provider narrows the choice.
        (ALL, "maker/poem", "maker/duet-poem-5-5", None),
        (ALL, "Maker/POEM:low", "maker/duet-poem-5-5", Some("low")),
        (ALL, "router/poem", "router/maker/duet-poem-5.5", None),
        (ALL, "fast/oss", "fast/open/oss-120b", None),
        // Models with a key go before those without.
        ("ROUTER_KEY", "poem", "router/maker/duet-poem-5.5", None),
        ("ROUTER_KEY", "duet-poem-5-5", "router/maker/duet-poem-5.5", None),
        ("ROUTER_KEY", "oss-120b", "router/open/oss-120b", None),
    ] {
        assert_eq!(found(keys, name), Ok((full.to_owned(), level)), "{name} with {keys:?}");
    }
    for (keys, name, expected) in [
        (ALL, "open/oss-120b", "model open/oss-120b is ambiguous: say router/open/oss-120b or fast/open/oss-120b"),
        (ALL, "poem", "model poem is ambiguous: say maker/duet-poem-5-5 or router/maker/duet-poem-5.5"),
        (
            ALL,
            "duet",
            "model duet is ambiguous: say maker/duet-poem-5-5 or maker/duet-tale-5-5 or maker/duet-haiku-4-5 or router/maker/duet-poem-5.5",
        ),
        (ALL, "poem:high", "model poem is ambiguous: say maker/duet-poem-5-5 or router/maker/duet-poem-5.5"),
        (ALL, "duet-tale-5-5:hihg", "duet-tale-5-5:hihg: hihg is no thinking level; model maker/duet-tale-5-5 has off"),
        (
            ALL,
            "maker/poem:more",
            "maker/poem:more: more is no thinking level; model maker/duet-poem-5-5 has minimal, low, medium, high, max",
        ),
        (
            ALL,
            "router/duet-tale",
            "no model router/duet-tale; get_available_models lists those that can be used (did you mean maker/duet-tale-5-5?)",
        ),
        (ALL, "nothing:high", "no model nothing; get_available_models lists those that can be used"),
        (ALL, "x", "no model x; get_available_models lists those that can be used"),
        (ALL, "", "no model ; get_available_models lists those that can be used"),
        (
            ALL,
            "mind",
            "model other/mind speaks telepathy, which this version of agentd does not; it speaks openai-completions and anthropic-messages",
        ),
    ] {
        assert_eq!(found(keys, name), Err(expected.to_owned()), "{name}");
    }
}

#[test]
fn a_model_without_a_key_says_what_to_set() {
    let home = Home::new(&[("models.json", NAMES)]);
    let registry = home.registry();
    let file = home.0.path().join("models.json").display().to_string();
    let said = |name: &str| registry.resolve(name, &env(&[("FAST_KEY", "k")])).unwrap_err().to_string();
    for (name, model, variable, provider) in [
        ("maker/duet-poem-5", "maker/duet-poem-5", "MAKER_KEY", "maker"),
        ("duet-poem-5:high", "maker/duet-poem-5", "MAKER_KEY", "maker"),
        ("tale", "maker/duet-tale-5-5", "MAKER_KEY", "maker"),
        ("router/open/oss-120b", "router/open/oss-120b", "ROUTER_KEY", "router"),
        ("openai/gpt-5.1:high", "openai/gpt-5.1", "OPENAI_API_KEY", "openai"),
    ] {
        let expected = format!(
            "no key for model {model}: set {variable} in your environment, or give provider {provider} an apiKey in {file}"
        );
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
    assert_eq!(spec.name(), "openai/gpt-5.2");
    let error = registry.default_model(&env(&[("OPENAI_API_KEY", "")]), None).unwrap_err().to_string();
    let file = home.0.path().join("models.json").display().to_string();
    assert!(["OPENAI_API_KEY", "--model demo", &file].iter().all(|word| error.contains(word)), "{error}");
    assert_eq!(registry.default_model(&env(&[]), Some("demo/demo")).unwrap().0.name(), "demo/demo");
}

#[test]
fn a_users_definition_stands_over_the_built_in_one() {
    let text = r#"{"providers": {"openai": {"baseUrl": "http://proxy/v1", "apiKey": "$PROXY_KEY", "headers": {"x-team": "$TEAM"},
        "modelOverrides": {"gpt-5": {"name": "Five", "cost": {"output": 1}, "thinkingLevelMap": {"xhigh": "max"},
          "promptCache": {"long": 2400}}},
        "models": [{"id": "gpt-4.1", "contextWindow": 5, "promptCache": {"short": 120}}, {"id": "mine"}]}}}"#;
    let registry = Home::new(&[("models.json", text)]).registry();
    let env = env(&[("PROXY_KEY", "k")]);
    assert_eq!(
        names(&registry, &env)[..5],
        ["openai/gpt-4.1", "openai/mine", "openai/gpt-5.2", "openai/gpt-5.1", "openai/gpt-5"]
    );
    let (five, _) = registry.resolve("openai/gpt-5", &env).unwrap();
    assert_eq!((five.model.name.as_str(), five.model.cost.output, five.model.cost.input), ("Five", 1.0, 1.25));
    assert_eq!(five.model.base_url, "http://proxy/v1");
    assert_eq!(five.model.thinking_level_map, Some(serde_json::json!({"off": null, "xhigh": "max"})));
    assert_eq!(five.model.prompt_cache, Some(serde_json::json!({"long": 2400})));
    assert_eq!(five.headers[0].0, "x-team");
    let (mine, _) = registry.resolve("openai/gpt-4.1", &env).unwrap();
    assert_eq!(mine.model.context_window, 5);
    assert_eq!(mine.model.prompt_cache, Some(serde_json::json!({"short": 120})));
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
    assert_eq!(said, ["models.json:2:16: key must be a string", "auth.json:1:12: is not valid JSON"]);
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
