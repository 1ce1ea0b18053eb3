use pretty_assertions::assert_eq;

use super::*;

const WORDS: Kind = Kind::Word(&["low", "high"]);
const NUMBER: Kind = Kind::Number { min: 1, max: 9 };

#[track_caller]
fn parse(kind: Kind, text: &str, expected: Option<&str>) {
    assert_eq!(kind.parse(text).map(|value| value.to_string()).as_deref(), expected, "{kind:?} {text:?}");
}

#[test]
fn text_of_variables_and_command_lines() {
    for (kind, text, expected) in [
        (Kind::Flag, "1", Some("true")),
        (Kind::Flag, " off ", Some("false")),
        (Kind::Flag, "maybe", None),
        (Kind::Flag, "", None),
        (NUMBER, "9", Some("9")),
        (NUMBER, "0", None),
        (NUMBER, "10", None),
        (NUMBER, "-1", None),
        (NUMBER, "1.5", None),
        (NUMBER, "", None),
        (Kind::Text, "a b", Some("\"a b\"")),
        (Kind::Text, "", Some("\"\"")),
        (Kind::Path, "/a", Some("\"/a\"")),
        (Kind::Path, "~/a", Some("\"~/a\"")),
        (Kind::Path, "a", None),
        (Kind::Path, "", None),
        (WORDS, "high", Some("\"high\"")),
        (WORDS, "High", None),
        (WORDS, "", None),
        (Kind::Loopback, "0", Some("false")),
        (Kind::Loopback, "", Some("[]")),
        (Kind::Loopback, "localhost:1,[::1]:2", Some("[\"localhost:1\",\"[::1]:2\"]")),
    ] {
        parse(kind, text, expected);
    }
}

#[test]
fn servers_are_looked_for_on_this_machine_only() {
    for text in ["192.168.0.2:8080", "0.0.0.0:8080", "example.org:80", "127.0.0.1", "127.0.0.1:0", "localhost:x"] {
        parse(Kind::Loopback, text, None);
    }
}

#[test]
fn values_with_a_type_are_of_the_right_one() {
    let text = |text: &str| Raw::Text(text.to_owned());
    for (kind, raw, is_taken, has_type) in [
        (Kind::Flag, Raw::Flag(true), true, true),
        (Kind::Flag, text("true"), false, false),
        (NUMBER, Raw::Number(5), true, true),
        (NUMBER, Raw::Number(-5), false, true),
        (NUMBER, text("5"), false, false),
        (Kind::Text, text(""), true, true),
        (Kind::Text, Raw::Number(5), false, false),
        (Kind::Path, text(""), false, false),
        (WORDS, text("middle"), false, true),
        (WORDS, text(""), false, false),
        (Kind::Loopback, Raw::Flag(false), true, true),
        (Kind::Loopback, Raw::List(vec!["[::1]:9".into()]), true, true),
        (Kind::Loopback, Raw::List(vec!["a".into()]), false, true),
        (Kind::Text, Raw::Other("a table"), false, false),
    ] {
        assert_eq!(kind.take(&raw).is_some(), is_taken, "{kind:?} {raw:?}");
        assert_eq!(kind.takes_type(&raw), has_type, "{kind:?} {raw:?}");
    }
}

#[test]
fn stricter_is_an_earlier_word_or_a_smaller_number() {
    let at_most =
        |kind: Kind, value: &str, than: &str| kind.is_at_most(&kind.parse(value).unwrap(), &kind.parse(than).unwrap());
    assert!(at_most(WORDS, "low", "high") && at_most(WORDS, "high", "high") && !at_most(WORDS, "high", "low"));
    assert!(at_most(NUMBER, "2", "3") && !at_most(NUMBER, "3", "2"));
    assert!(at_most(Kind::Flag, "1", "true") && !at_most(Kind::Flag, "0", "1"));
}
