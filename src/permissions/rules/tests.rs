//! Tables of command lines and of rules.
mod lines;

use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;

/// What is allowed, asked about and denied in most tests.
const RULES: [(RuleAction, &[&str]); 3] = [
    (
        RuleAction::Allow,
        &[
            "./run.sh",
            "awk",
            "cargo build",
            "cargo test",
            "cat",
            "fd",
            "find",
            "git diff",
            "git grep",
            "git log",
            "git status",
            "go test",
            "grep",
            "head",
            "less",
            "ls",
            "make test",
            "mytool check",
            "npm run lint",
            "python -m pytest",
            "python3 tools/check.py",
            "rg",
            "sed",
            "sort",
            "sudo systemctl status nginx",
            "tail",
            "tar",
            "uniq",
            "wc",
        ],
    ),
    (RuleAction::Deny, &["rm -rf", "git push", "curl"]),
    (RuleAction::Ask, &["git commit"]),
];

fn rule(action: RuleAction, command: &str) -> Rule {
    Rule { action, tool: "bash".into(), command: Some(command.into()), path: None }
}

fn prepared(rule: Rule) -> Prepared {
    Prepared::new(rule, Some(RuleScope::User), None, Some(Path::new("/home/u"))).unwrap()
}

fn rules() -> Vec<Prepared> {
    RULES
        .iter()
        .flat_map(|(action, commands)| commands.iter().map(|command| prepared(rule(*action, command))))
        .collect()
}

fn judge(rules: &[Prepared], line: &str) -> Judgement {
    judge_line(&rules.iter().collect::<Vec<_>>(), line, Path::new("/w"))
}

fn letter(judgement: &Judgement) -> char {
    match judgement {
        Judgement::Allowed(_) => 'a',
        Judgement::Denied(_) => 'd',
        Judgement::Asked { .. } => '?',
        Judgement::Open { .. } => '-',
    }
}

#[test]
fn lines_are_judged_by_all_of_their_commands() {
    let rules = rules();
    let wrong: Vec<String> = lines::LINES
        .iter()
        .map(|(name, line, expected)| (name, expected, judge(&rules, line)))
        .filter(|(_, expected, judgement)| letter(judgement) != **expected)
        .map(|(name, expected, judgement)| format!("{name}: not {expected} but {judgement:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_have_names_of_their_own() {
    let mut names: Vec<&str> = lines::LINES.iter().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
    assert!(before >= 250, "{before}");
}

#[test]
fn always_saves_the_narrowest_rules_that_would_have_allowed_the_line() {
    let none: &[&str] = &[];
    for (line, expected) in [
        ("git status --short", &["git status"][..]),
        ("cargo clippy --workspace", &["cargo clippy"]),
        ("ls -la src", &["ls"]),
        ("npm run build -- --watch", &["npm run build"]),
        ("python -m pytest tests", &["python -m pytest"]),
        ("mytool check", &["mytool check"]),
        ("git fetch && git show HEAD | head -3", &["git fetch", "git show"]),
        ("timeout 60 cargo clippy", &["cargo clippy"]),
        ("bash -c 'cargo clippy && ls'", none),
        ("a && b && c && d", none),
        ("rm x", none),
        ("curl example.org", none),
        ("sudo ls", none),
        ("xargs ls", none),
        ("python x.py", none),
        ("docker run x", none),
        ("npm exec x", none),
        ("git st", none),
        ("git config a b", none),
        ("git show --output=P", none),
        ("find . -delete", none),
        ("./build.sh", none),
        ("ls > P", none),
        ("A=1 ls", none),
        ("eval ls", none),
        ("ls $(touch P)", none),
        ("ls 'a", none),
    ] {
        let allow: Vec<Prepared> = rules().into_iter().filter(|rule| rule.words == ["head"]).collect();
        let Judgement::Open { always, .. } = judge(&allow, line) else { panic!("{line}") };
        let commands: Vec<String> = always.iter().filter_map(|rule| rule.command.clone()).collect();
        assert_eq!(commands, expected, "{line}");
    }
}

#[test]
fn rules_that_would_allow_anything_are_none() {
    for command in [
        "",
        "bash",
        "sudo",
        "/bin/sh",
        "python3",
        "env",
        "xargs",
        "eval x",
        "source x",
        "export PATH=.",
        "git status && ls",
        "git status > P",
        "A=1 ls",
        "ls *",
        "git $x",
        "'",
        "git status:*",
        "$(ls)",
        "ls # all",
    ] {
        let wrong = Prepared::new(rule(RuleAction::Allow, command), None, None, None);
        assert_eq!(wrong.is_err(), command != "ls # all", "{command}: {wrong:?}");
    }
    let all = |action| Prepared::new(Rule { action, tool: "bash".into(), command: None, path: None }, None, None, None);
    assert_eq!(all(RuleAction::Allow), Err(WrongRule::AllOfBash));
    let denied = [all(RuleAction::Deny).unwrap()];
    assert_eq!(letter(&judge(&denied, "ls")), 'd');
    assert_eq!(letter(&judge(&denied, "ls '")), 'd');
}

fn parse(text: &str) -> Rules {
    parse_rules(text, Path::new("/r.toml"), RuleScope::User, None, Some(Path::new("/home/u")))
}

#[test]
fn what_is_wrong_in_a_file_is_told_and_stops_nothing_else() {
    let found = parse(
        "# mine\n[[rule]]\naction = \"allow\"\ntool = \"bash\"\ncommand = \"git status\"\n\n[[rule]]\naction = \
         \"deny\"\ntool = \"bash\"\ncomand = \"rm\"\n[[rule]]\naction = \"never\"\ntool = \"read\"\n[[rule]]\naction = \
         \"allow\"\ntool = \"write\"\npath = 3\n[[rule]]\ntool = \"ls\"\n[other]\na = 1\n",
    );
    assert_eq!(found.rules.len(), 1);
    let faults: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "/r.toml, line 10: a rule has no key \"comand\"; it has action, tool, command, path",
            "/r.toml, line 12: \"never\" is no action; these are allow, ask and deny",
            "/r.toml, line 17: \"path\" is a text in quotes",
            "/r.toml, line 18: a rule has no action: allow, ask or deny",
            "/r.toml, line 20: there is no key \"other\"; rules begin with [[rule]]",
        ]
    );
    let harmless: Vec<bool> = found.faults.iter().map(|fault| fault.is_harmless).collect();
    assert_eq!(harmless, [false, false, true, false, false]);
    assert_eq!(parse("[[rule]\n").faults[0].line, Some(1));
    assert!(parse("rule = 3").fault_for("any").is_some());
    assert!(parse("").is_empty());
}

#[test]
fn comments_stay_when_rules_come_and_go() {
    let text = "# mine\n\n[[rule]] # first\naction = \"deny\" # always\ntool = \"bash\"\ncommand = \"rm\"\n";
    let added = add_rule(text, &rule(RuleAction::Allow, "git status")).unwrap();
    assert_eq!(added, format!("{text}\n[[rule]]\naction = \"allow\"\ntool = \"bash\"\ncommand = \"git status\"\n"));
    assert_eq!(add_rule(&added, &rule(RuleAction::Allow, "git status")), Ok(added.clone()));
    assert_eq!(remove_rule(&added, &rule(RuleAction::Allow, "git status")), Ok((text.to_owned(), 1)));
    assert_eq!(remove_rule(text, &rule(RuleAction::Deny, "mv")), Ok((text.to_owned(), 0)));
    assert!(add_rule("rule = 3", &rule(RuleAction::Deny, "mv")).is_err());
    assert!(add_rule("[[rule]", &rule(RuleAction::Deny, "mv")).is_err());
    let quoted = rule(RuleAction::Allow, "git commit -m 'a \"b\"'");
    let found = parse(&add_rule("", &quoted).unwrap());
    assert_eq!((found.rules[0].rule.clone(), found.faults), (quoted, vec![]));
}
