use pretty_assertions::assert_eq;

use super::*;

/// What a text sets, `key = value :line`, and its faults, `line: message`.
#[track_caller]
fn check(text: &str, expected: &[&str], faults: &[&str]) {
    let layer = parse_file(ConfigSource::User, "f", text);
    let line = |origin: &Origin| origin.line.unwrap_or_default();
    let set: Vec<String> =
        layer.set.iter().map(|(key, value, origin)| format!("{} = {value} :{}", key.name, line(origin))).collect();
    assert_eq!(set, expected, "{text}");
    let found: Vec<String> =
        layer.faults.iter().map(|fault| format!("{}: {}", line(&fault.origin), fault.message)).collect();
    assert_eq!(found, faults, "{text}");
}

#[test]
fn keys_are_found_in_all_spellings() {
    check("", &[], &[]);
    check(
        "\u{feff}# all\n\nmodel = \"a/b\" # mine\r\n[retry]\r\nmax_retries = 1\r\n",
        &["model = \"a/b\" :3", "retry.max_retries = 1 :5"],
        &[],
    );
    check(
        "retry.enabled = false\nretry = {max_retries = 2}",
        &["retry.enabled = false :1"],
        &["2: is no TOML: duplicate key; this statement is passed over"],
    );
    check("retry = { max_retries = 2, enabled = true }", &["retry.max_retries = 2 :1", "retry.enabled = true :1"], &[]);
    check("[tools]\n\"require_read\" = 'off'\n[retry]", &["tools.require_read = \"off\" :2"], &[]);
    check("local_models = [\"localhost:1\",\n \"[::1]:2\"]", &["local_models = [\"localhost:1\",\"[::1]:2\"] :1"], &[]);
}

#[test]
fn empty_is_a_value_where_the_type_takes_it() {
    check("model = \"\"", &["model = \"\" :1"], &[]);
    check("local_models = \"\"", &["local_models = [] :1"], &[]);
    check("local_models = []", &["local_models = [] :1"], &[]);
    check("durability = \"\"", &[], &["1: durability must be flush, turn or entry, not empty text"]);
    check("sessions_dir = \"\"", &[], &["1: sessions_dir must be a path that begins with / or ~/, not empty text"]);
    check("max_turns = \"\"", &[], &["1: max_turns must be a whole number from 1 to 1000000, not empty text"]);
}

#[test]
fn a_fault_stops_nothing_but_itself() {
    check(
        "max_turns = 5\nmodell = \"x\"\n[retry]\nmax_retries = \"sk-CANARY\"\nenabled = false\n[retyr]\nenabled = 1\n",
        &["max_turns = 5 :1", "retry.enabled = false :5"],
        &[
            "2: no key modell; did you mean model?",
            "4: retry.max_retries must be a whole number from 0 to 1000, not text",
            "6: no key retyr; `agentctl config show` lists them",
        ],
    );
    check("retry = 5", &[], &["1: retry is a table: write [retry]"]);
    check("[model]\nname = 1", &[], &["1: model must be text, not a table"]);
    check("[[retry]]\nenabled = true", &[], &["1: retry is a table: write [retry]"]);
    check(
        "max_turns = 5.5\nmodel = 2026-01-01\n",
        &[],
        &[
            "1: max_turns must be a whole number from 1 to 1000000, not a number with a fraction",
            "2: model must be text, not a date",
        ],
    );
    check("max_turns = 0\n", &[], &["1: max_turns must be a whole number from 1 to 1000000"]);
}

/// The lines of the statements that hold, and those that are told as faults.
#[track_caller]
fn passes_over(text: &str, sets: &[&str], lines: &[u32]) {
    let layer = parse_file(ConfigSource::User, "f", text);
    let set: Vec<String> = layer.set.iter().map(|(key, value, _)| format!("{} = {value}", key.name)).collect();
    assert_eq!(set, sets, "{text}\n{:?}", layer.faults);
    let found: Vec<u32> = layer.faults.iter().filter_map(|fault| fault.origin.line).collect();
    assert_eq!(found, lines, "{text}\n{:?}", layer.faults);
    assert!(layer.faults.iter().all(|fault| !fault.message.contains("CANARY")), "{:?}", layer.faults);
}

#[test]
fn what_is_no_toml_is_passed_over() {
    passes_over(
        "max_turns = 5\nmodel = sk-CANARY\ndurability = \"entry\"",
        &["max_turns = 5", "durability = \"entry\""],
        &[2],
    );
    passes_over("model = \"unclosed CANARY\nmax_turns = 5", &["max_turns = 5"], &[1]);
    passes_over("max_turns = 5\n\"CANARY\nmodel = \"a\"", &["max_turns = 5", "model = \"a\""], &[2]);
    passes_over("max_turns 5\nmodel = \"a\"", &["model = \"a\""], &[1]);
    passes_over("local_models = [\"a:1\"\n\"b:2\"\nmodel = \"a\"\n", &["model = \"a\""], &[2]);
    // The keys of a table whose heading is broken are not those of the one before.
    passes_over(
        "[retry]\nmax_retries = 1\n[tools\nmax_retries = 9\n[images]\nblock = true",
        &["retry.max_retries = 1", "images.block = true"],
        &[3],
    );
    passes_over(
        "[retry]\nmax_retries = 1\nmax_retries = 2\nenabled = false",
        &["retry.max_retries = 1", "retry.enabled = false"],
        &[3],
    );
    passes_over("\u{1}\nmodel = \"a\"", &["model = \"a\""], &[1]);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read(text in "(\\PC|[\\[\\]{}=.\"'#\n,]|max_turns|retry){0,80}") {
        drop(parse_file(ConfigSource::User, "f", &text));
    }

    /// What follows a whole statement takes nothing from it.
    #[test]
    fn a_fault_takes_nothing_from_the_statement_before(noise in "[a-z\\[\\]{}=.# \n,0-9]{0,80}") {
        let layer = parse_file(ConfigSource::User, "f", &format!("max_turns = 5\n{noise}"));
        let set: Vec<String> = layer.set.iter().map(|(key, value, _)| format!("{}={value}", key.name)).collect();
        assert!(set.contains(&"max_turns=5".to_owned()), "{noise:?}: {set:?} {:?}", layer.faults);
    }
}

#[test]
fn a_text_of_nothing_but_faults_is_given_up() {
    let text = format!("max_turns = 5\n{}", "?\n= 1\n".repeat(100));
    let layer = parse_file(ConfigSource::User, "f", &text);
    assert!(layer.faults.len() <= MAX_SYNTAX_FAULTS + 1, "{}", layer.faults.len());
    let deep = format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(parse_file(ConfigSource::User, "f", &deep).faults.len(), 1);
}
