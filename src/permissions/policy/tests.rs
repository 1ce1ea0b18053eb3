//! Modes, rules and places.
use serde_json::json;

use super::*;
use crate::permissions::rules::RuleFault;

/// What becomes of a call, in the first letter: allow, ask (`?`) or deny.
fn outcome(policy: &Policy, tool: &str, path: Option<&str>) -> char {
    let (effect, access) = match tool {
        "read" | "grep" => (EffectClass::Read, Access::Read),
        "write" | "edit" => (EffectClass::Write, Access::Write),
        "fetch" => (EffectClass::Net, Access::Read),
        _ => (EffectClass::Exec, Access::Write),
    };
    let places: Vec<Place> = path.into_iter().map(|path| Place { path: path.into(), access }).collect();
    let call = CheckedCall { effect, args: json!({"command": "ls"}), places, cwd: "/w".into() };
    match decide(policy, &call.view(tool)) {
        Verdict::Allow => 'a',
        Verdict::Deny(_) => 'd',
        Verdict::Ask(_) => '?',
    }
}

#[test]
fn modes_decide_by_effect() {
    for (tool, path, expected) in [
        // read-only, ask, auto-edit, full
        ("read", "/etc/passwd", "aaaa"),
        ("bash", "/w/a", "d??a"),
        ("fetch", "/w/a", "d??a"),
        ("write", "/w/a", "d?aa"),
        ("edit", "/w/deep/a", "d?aa"),
        ("write", "/w", "d?aa"),
        ("write", "/wide/a", "d??a"),
        ("write", "/etc/a", "d??a"),
        ("write", "/w/.git/hooks/pre-commit", "d??a"),
        ("write", "/w/sub/.git/config", "d??a"),
        ("write", "/w/.agentd/rules.toml", "d??a"),
        ("write", "/w/.gitignore", "d?aa"),
    ] {
        let of = |mode| outcome(&Policy { mode, ..Policy::default() }, tool, Some(path));
        assert_eq!(Mode::ALL.map(of).iter().collect::<String>(), expected, "{tool} {path}");
    }
    let auto = Policy { mode: Mode::AutoEdit, ..Policy::default() };
    assert_eq!(outcome(&auto, "write", None), '?', "a change of a place that nobody knows");
}

fn of_tool(action: RuleAction, tool: &str, path: Option<&str>) -> Rule {
    Rule { action, tool: tool.into(), command: None, path: path.map(Into::into) }
}

fn rules(rules: &[Rule]) -> Arc<Rules> {
    let prepare = |rule: &Rule| Prepared::new(rule.clone(), None, None, Some(Path::new("/home/u"))).unwrap();
    Arc::new(Rules { rules: rules.iter().map(prepare).collect(), faults: Vec::new() })
}

#[test]
fn deny_wins_over_ask_and_ask_over_allow() {
    let rules = rules(&[
        of_tool(RuleAction::Allow, "write", None),
        of_tool(RuleAction::Deny, "edit", None),
        of_tool(RuleAction::Allow, "edit", None),
        of_tool(RuleAction::Ask, "read", None),
        of_tool(RuleAction::Allow, "read", None),
    ]);
    for (mode, expected) in Mode::ALL.into_iter().zip(["dd?d", "?d??", "?d??", "ad?a"]) {
        let policy = Policy { mode, rules: Arc::clone(&rules), ..Policy::default() };
        let of = |tool| outcome(&policy, tool, Some("/w/.git/a"));
        assert_eq!(["bash", "edit", "read", "write"].map(of).iter().collect::<String>(), expected, "{mode:?}");
    }
    let allows = Policy { mode: Mode::Ask, rules: Arc::clone(&rules), ..Policy::default() };
    assert_eq!(outcome(&allows, "write", Some("/w/a")), 'a');
    let grants = vec![of_tool(RuleAction::Allow, "edit", None), of_tool(RuleAction::Allow, "fetch", None)];
    let granted = Policy { mode: Mode::Ask, rules, grants, ..Policy::default() };
    assert_eq!(outcome(&granted, "fetch", None), 'a');
    assert_eq!(outcome(&granted, "edit", Some("/w/a")), 'd');
}

#[test]
fn paths_of_rules_cover_what_is_below() {
    let rules = rules(&[
        of_tool(RuleAction::Allow, "write", Some("src")),
        of_tool(RuleAction::Allow, "write", Some("/tmp/*.txt")),
        of_tool(RuleAction::Allow, "write", Some(".git/info")),
        of_tool(RuleAction::Deny, "write", Some("**/*.key")),
        of_tool(RuleAction::Deny, "read", Some("~/.ssh")),
        of_tool(RuleAction::Deny, "grep", Some("~/.ssh")),
        of_tool(RuleAction::Deny, "grep", Some("secrets/**")),
    ]);
    let policy = Policy { mode: Mode::Ask, rules, ..Policy::default() };
    for (tool, path, expected) in [
        ("write", "/w/src/a/b.rs", 'a'),
        ("write", "/w/srcs/a", '?'),
        ("write", "/v/src/a", '?'),
        ("write", "/w/src/.git/config", '?'),
        ("write", "/w/.git/info/exclude", 'a'),
        ("write", "/tmp/a.txt", 'a'),
        ("write", "/tmp/a.txt/b", 'a'),
        ("write", "/tmp/b/a.txt", '?'),
        ("write", "/w/src/a.key", 'd'),
        ("write", "/v/a.key", '?'),
        ("read", "/home/u/.ssh/id", 'd'),
        ("read", "/home/u", 'a'),
        ("grep", "/home/u/.ssh", 'd'),
        ("grep", "/home/u", '?'),
        ("grep", "/", '?'),
        ("grep", "/w/src", 'a'),
        ("grep", "/w", '?'),
        ("grep", "/w/secrets/a", 'd'),
    ] {
        assert_eq!(outcome(&policy, tool, Some(path)), expected, "{tool} {path}");
    }
    assert_eq!(outcome(&policy, "write", None), '?', "a change of a place that nobody knows");
}

#[test]
fn no_rule_and_no_grant_gives_away_the_daemons_own_files() {
    let rule = of_tool(RuleAction::Allow, "write", None);
    let own_folders = [PathBuf::from("/w/state")].into();
    for (mode, expected) in Mode::ALL.into_iter().zip(['d', '?', '?', 'a']) {
        let (rules, grants, own_folders) =
            (rules(std::slice::from_ref(&rule)), vec![rule.clone()], Arc::clone(&own_folders));
        let policy = Policy { mode, rules, grants, own_folders };
        assert_eq!(outcome(&policy, "write", Some("/w/state/trust.json")), expected, "{mode:?}");
        assert_eq!(outcome(&policy, "write", Some("/w/sub/.agentd/rules.toml")), expected, "{mode:?}");
    }
}

#[test]
fn a_rule_that_cannot_be_followed_has_its_tool_asked_about() {
    let fault = |tool: Option<&str>, is_harmless| RuleFault {
        file: "/r.toml".into(),
        line: Some(3),
        message: "no".into(),
        tool: tool.map(Into::into),
        is_harmless,
    };
    for (fault, expected) in [
        (fault(None, false), "?????"),
        (fault(Some("read"), false), "?aaaa"),
        (fault(Some("bash"), false), "a?aaa"),
        (fault(Some("read"), true), "aaaaa"),
    ] {
        let rules = Rules { rules: Vec::new(), faults: vec![fault] };
        let policy = Policy { mode: Mode::Full, rules: rules.into(), ..Policy::default() };
        let of = |tool| outcome(&policy, tool, Some("/w/a"));
        let found: String = ["read", "bash", "write", "fetch", "edit"].map(of).iter().collect();
        assert_eq!(found, expected, "{:?}", policy.rules.faults);
    }
}

#[test]
fn a_question_says_why_and_what_always_would_save() {
    let ask = |tool: &str, args: Value, places: &[(&str, Access)]| {
        let places = places.iter().map(|(path, access)| Place { path: path.into(), access: *access }).collect();
        let effect = if tool == "bash" { EffectClass::Exec } else { EffectClass::Write };
        let call = CheckedCall { effect, args, places, cwd: "/w".into() };
        match decide(&Policy { mode: Mode::Ask, ..Policy::default() }, &call.view(tool)) {
            Verdict::Ask(Ask { reason, always }) => (
                reason,
                always.into_iter().map(|rule| rule.command.or(rule.path).unwrap_or_default()).collect::<Vec<_>>(),
            ),
            other => panic!("{other:?}"),
        }
    };
    let (reason, always) = ask("bash", json!({"command": "git status -s && rm x"}), &[]);
    assert_eq!(
        (reason.as_str(), always),
        ("bash can do anything that you can: no rule allows `git status -s`", vec![])
    );
    assert_eq!(ask("bash", json!({"command": "git status -s"}), &[]).1, ["git status"]);
    let write = |path| ask("write", json!({"path": path}), &[(path, Access::Write)]).1;
    assert_eq!(write("/w/src/a.rs"), ["src/a.rs"]);
    assert_eq!(write("/v/a.rs"), ["/v/a.rs"]);
    assert_eq!(write("/w/.git/config"), [""; 0]);
    assert_eq!(write("/w/a*"), [""; 0]);
}
