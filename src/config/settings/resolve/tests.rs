use agentd_protocol::methods::ConfigSource;
use pretty_assertions::assert_eq;

use super::*;
use crate::config::settings::{Scope, parse_file};

fn file(source: ConfigSource, text: &str) -> Layer {
    parse_file(source, "f", text)
}

fn command_line(set: &[&str]) -> Layer {
    Layer::of_command_line(&set.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn env(vars: &'static [(&str, &str)], scope: Scope) -> Layer {
    Layer::of_env(&|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()), scope)
}

#[track_caller]
fn check(resolved: &Resolved, key: &str, value: &str, origins: &[ConfigSource]) {
    let settled = resolved.all().iter().find(|settled| settled.key.name == key).unwrap();
    let shown = settled.value.as_ref().map_or("unset".to_owned(), ToString::to_string);
    assert_eq!(shown, value, "{key}");
    let chain: Vec<_> =
        [&settled.origin].into_iter().chain(settled.overridden.iter().map(|(_, origin)| origin)).collect();
    assert_eq!(chain.iter().map(|origin| origin.source).collect::<Vec<_>>(), origins, "{key}");
}

#[test]
fn the_highest_place_counts_key_by_key() {
    use ConfigSource::{CommandLine, Default, Environment, Pi, Project, User};
    let (line, env) = (command_line(&["max_turns=1"]), env(&[("AGENTD_MAX_TURNS", "2")], Scope::Session));
    let project = file(Project, "max_turns = 3\nretry.enabled = false");
    let user = file(User, "max_turns = 4\n[retry]\nmax_retries = 4");
    let pi = crate::config::settings::pi_layer("p", r#"{"retry": {"maxRetries": 5, "baseDelayMs": 6}}"#);
    let resolved = resolve(&[&line, &env, &project, &user, &pi]);
    check(&resolved, "max_turns", "1", &[CommandLine, Environment, Project, User, Default]);
    check(&resolved, "retry.enabled", "false", &[Project, Default]);
    check(&resolved, "retry.max_retries", "4", &[User, Pi, Default]);
    check(&resolved, "retry.base_delay_ms", "6", &[Pi, Default]);
    check(&resolved, "model", "unset", &[Default]);
    check(&resolved, "durability", "\"turn\"", &[Default]);
}

#[test]
fn empty_is_not_unset() {
    use ConfigSource::{CommandLine, Default, User};
    let user = file(User, "model = \"a/b\"");
    check(&resolve(&[&user]), "model", "\"a/b\"", &[User, Default]);
    check(&resolve(&[&command_line(&["model="]), &user]), "model", "\"\"", &[CommandLine, User, Default]);
    // Of a variable, as everywhere in an environment, it is.
    let empty = env(&[("AGENTD_DEFAULT_MODEL", ""), ("AGENTD_MAX_TURNS", "")], Scope::Session);
    assert_eq!((empty.set.len(), empty.faults.len()), (0, 0));
    check(&resolve(&[&empty, &user]), "model", "\"a/b\"", &[User, Default]);
}

#[test]
fn variables_count_for_their_own_scope() {
    let vars = &[("AGENTD_DURABILITY", "flush"), ("AGENTD_MAX_TURNS", "none"), ("AGENTD_RETRY_ENABLED", "no")];
    let names = |layer: &Layer| layer.set.iter().map(|(key, ..)| key.name).collect::<Vec<_>>();
    let session = env(vars, Scope::Session);
    assert_eq!(names(&session), ["retry.enabled"]);
    let faults: Vec<String> = session.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["AGENTD_MAX_TURNS: max_turns must be a whole number from 1 to 1000000"]);
    assert_eq!(names(&env(vars, Scope::Daemon)), ["durability"]);
}

#[test]
fn a_project_may_only_say_what_does_no_harm() {
    let user = file(ConfigSource::User, "max_turns = 20\ntools.require_read = \"off\"");
    let without = resolve(&[&user]);
    let text = "max_turns = 30\nsessions_dir = \"/evil\"\nimages.block = false\ndurability = \"flush\"\nmodel = \"p/m\"\ntools.require_read = \"changed\"";
    let admitted = admit_project(&file(ConfigSource::Project, text), &without);
    assert_eq!(admitted.set.iter().map(|(key, ..)| key.name).collect::<Vec<_>>(), ["model", "tools.require_read"]);
    let faults: Vec<String> = admitted.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "f:1: max_turns: a project may only be stricter than the user's own settings",
            "f:2: sessions_dir: a project may not set it",
            "f:3: images.block: a project may not set it",
            "f:4: durability: a project may not set it",
        ]
    );
    let stricter = admit_project(&file(ConfigSource::Project, "max_turns = 10"), &without);
    assert_eq!((stricter.set.len(), stricter.faults.len()), (1, 0));
}

#[test]
fn what_is_given_to_a_session_or_the_daemon_is_right_or_refused() {
    let given = |json: &str| Layer::of_session(&serde_json::from_str(json).unwrap());
    let set = given(r#"{"max_turns": 5, "retry.enabled": "no", "model": ""}"#).unwrap().set;
    assert_eq!(
        set.iter().map(|(key, value, _)| format!("{}={value}", key.name)).collect::<Vec<_>>(),
        ["max_turns=5", "retry.enabled=false", "model=\"\""]
    );
    for (json, key, why) in [
        (r#"{"modell": "a"}"#, "modell", "no key modell; did you mean model?"),
        (r#"{"max_turns": 0}"#, "max_turns", "max_turns must be a whole number from 1 to 1000000"),
        (r#"{"max_turns": null}"#, "max_turns", "max_turns must be a whole number from 1 to 1000000, not null"),
        (
            r#"{"durability": "entry"}"#,
            "durability",
            "durability is a setting of the daemon, not of a session; set it in the user's config.toml",
        ),
    ] {
        assert_eq!(given(json).unwrap_err(), (key.to_owned(), why.to_owned()));
    }
    let refused = |text: &str| Layer::of_command_line(&[text.to_owned()]).unwrap_err();
    assert_eq!(refused("max_turns"), "give KEY=VALUE, such as retry.max_retries=5");
    assert_eq!(refused("max_turns=many"), "max_turns must be a whole number from 1 to 1000000");
    let twice = command_line(&["max_turns=1", "max_turns=2"]);
    assert_eq!(twice.set.len(), 1);
    check(&resolve(&[&twice]), "max_turns", "2", &[ConfigSource::CommandLine, ConfigSource::Default]);
}
