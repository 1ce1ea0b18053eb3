//! Which module may use which, and what a pure one may not touch.

use super::source::{code_of, is_test_file, module_of, used_paths};
use super::{assert_none, read, rust_files};

/// The modules, lowest first; arrows of use point down only. A path belongs to the longest row that it begins with;
/// `*` stands for any one name. Modules of one row may use each other.
const ORDER: &[&[&str]] = &[
    &["constants"],
    &["clock", "own_file", "tasks"],
    &["redact", "trust"],
    &["config::env", "config::settings"],
    &["config"],
    &["session"],
    &["compaction"],
    &["permissions::shell"],
    &["permissions::rules"],
    &["permissions::policy", "permissions::questions"],
    &["tools::edit_match", "tools::fold", "tools::truncate"],
    &["agent::event"],
    &[
        "provider::stream",
        "provider::sse",
        "provider::args",
        "provider::json_error",
        "provider::secret",
        "provider::error",
        "provider::retry_after",
        "provider::levels",
        "provider::lookup",
        "provider::known_keys",
        "provider::spec",
        "provider::context",
        "provider::cost",
        "provider::models_json",
        "provider::builtin",
        "provider::demo",
        "provider::call_ids",
        "provider::lenient",
        "provider::reader",
        "provider::replay",
        "provider::room",
        "provider::anthropic_messages",
        "provider::openai_completions",
        "provider::*::request",
        "provider::*::decode",
    ],
    &["agent::machine", "agent::assembler", "agent::backoff"],
    &["ring"],
    &["store"],
    &["provider"],
    &["exec", "permissions"],
    &["tools"],
    &["resources"],
    &["agent"],
    &["supervisor"],
    &["rpc"],
    &["daemon"],
    &["bench"],
];

/// Modules without `async`, files, sockets, clocks, environment and randomness: those are passed in as values.
const PURE: &[&str] = &[
    "redact::keys",
    "redact::stream",
    "trust::decisions",
    "provider::known_keys",
    "config::env",
    "config::settings",
    "session",
    "compaction",
    "permissions::shell",
    "permissions::rules",
    "permissions::policy",
    "permissions::questions",
    "tools::edit_match",
    "tools::fold",
    "tools::truncate",
    "agent::event",
    "agent::machine",
    "agent::assembler",
    "agent::backoff",
    "provider::stream",
    "provider::sse",
    "provider::args",
    "provider::json_error",
    "provider::secret",
    "provider::error",
    "provider::retry_after",
    "provider::levels",
    "provider::lookup",
    "provider::local::answer",
    "provider::spec",
    "provider::context",
    "provider::cost",
    "provider::models_json",
    "provider::builtin",
    "provider::demo",
    "provider::call_ids",
    "provider::lenient",
    "provider::reader",
    "provider::replay",
    "provider::room",
    "provider::anthropic_messages",
    "provider::openai_completions",
    "provider::*::request",
    "provider::*::decode",
    "store::record",
    "store::recovery",
];

/// What a pure module must not name.
const IMPURE: &[&str] = &[
    "tokio",
    "async fn",
    ".await",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "crate::clock",
];

/// The fronts are clients: nothing of the daemon but the wire.
const FRONTS: &str = "fronts";

#[test]
fn arrows_of_use_point_down() {
    let mut faults = Vec::new();
    for file in rust_files("src").into_iter().filter(|file| !is_test_file(file)) {
        let module = module_of(&file);
        if module.is_empty() {
            continue;
        }
        let code = code_of(&read(&file));
        for used in used_paths(&code, &module) {
            if let Some(fault) = fault_of(&module, &used) {
                faults.push(format!("{}: {fault}", file.display()));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn pure_modules_touch_nothing() {
    let mut faults = Vec::new();
    for file in rust_files("src").into_iter().filter(|file| !is_test_file(file)) {
        let module = module_of(&file);
        if !PURE.iter().any(|row| begins_with(&module, row)) {
            continue;
        }
        let code = code_of(&read(&file));
        for word in IMPURE.iter().filter(|word| code.contains(**word)) {
            faults.push(format!("{}: pure, but uses {word}", file.display()));
        }
    }
    assert_none(&faults);
}

fn fault_of(module: &str, used: &str) -> Option<String> {
    if begins_with(module, FRONTS) {
        return (!begins_with(used, FRONTS)).then(|| format!("a front uses {used}"));
    }
    if begins_with(used, FRONTS) {
        return Some(format!("{module} uses a front"));
    }
    let Some(from) = rank(module) else { return Some(format!("module {module} has no place in the order")) };
    // A name of the crate's root (a macro) has no place either.
    let to = rank(used)?;
    (to > from).then(|| format!("{module} uses {used}, which is above it"))
}

/// Returns the place in [`ORDER`] of the longest row that `path` begins with.
fn rank(path: &str) -> Option<usize> {
    let rows = ORDER.iter().enumerate().flat_map(|(rank, names)| names.iter().map(move |name| (rank, *name)));
    rows.filter(|(_, name)| begins_with(path, name))
        .max_by_key(|(_, name)| name.split("::").count())
        .map(|(rank, _)| rank)
}

fn begins_with(path: &str, row: &str) -> bool {
    let mut names = path.split("::");
    row.split("::").all(|wanted| names.next().is_some_and(|name| wanted == "*" || wanted == name))
}

#[test]
fn the_order_is_read_as_meant() {
    assert!(fault_of("agent::machine::running", "agent::actor").is_some());
    assert!(fault_of("agent::actor", "agent::machine::Machine").is_none());
    assert!(fault_of("provider::openai_completions::decode", "provider::registry::X").is_some());
    assert!(fault_of("provider::openai_completions", "provider::openai_completions::decode::X").is_none());
    assert!(fault_of("session::tree", "store::record").is_some());
    assert!(fault_of("fronts::stdio", "constants::X").is_some());
    assert!(fault_of("nowhere", "constants::X").is_some());
}
