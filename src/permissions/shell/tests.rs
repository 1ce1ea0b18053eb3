//! Tables of lines and what they may run.
use super::*;

/// Returns the commands of a line, one per row: `name=… word word >target`; what is unknown is in `‹›`.
fn shown(line: &Line) -> Vec<String> {
    let word = |word: &Word| match word.kind {
        WordKind::Literal => word.text.clone(),
        WordKind::Bound => format!("‹{}…›", word.text),
        WordKind::Free => "‹›".to_owned(),
    };
    let command = |simple: &Simple| {
        let assignments = simple.assignments.iter().map(|a| format!("{}={}", a.name, word(&a.value)));
        let redirects = simple.redirects.iter().map(|r| match r.access {
            Access::Read => format!("<{}", word(&r.target)),
            Access::Write => format!(">{}", word(&r.target)),
        });
        assignments.chain(simple.words.iter().map(word)).chain(redirects).collect::<Vec<_>>().join(" ")
    };
    line.commands.iter().map(command).collect()
}

#[track_caller]
fn runs(text: &str, commands: &[&str]) {
    let line = read_line(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    assert_eq!(shown(&line), commands, "{text}");
}

#[track_caller]
fn unreadable(text: &str) {
    if let Ok(line) = read_line(text) {
        panic!("{text}: {:?}", shown(&line));
    }
}

#[test]
fn quotes_are_removed() {
    runs("g\"i\"t 's'\\tatus", &["git status"]);
    runs("$'\\x67it' $'a\\tb'", &["git a\tb"]);
    runs("echo \"a\\\"b\\c\\$d\"", &["echo a\"b\\c$d"]);
    unreadable("echo 'a");
    unreadable("echo \"a");
    unreadable("echo $'\\0x'");
}

#[test]
fn lists_are_taken_apart() {
    runs("a && b || c; d & e\nf | g |& h", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    runs("! a; time -p b; time", &["a", "b"]);
    runs("a # b; c\nd", &["a", "d"]);
    runs("a \\\n  b\\\n  c", &["a b c"]);
    unreadable("a ;; b");
    unreadable("a b )");
    unreadable("git sta\\\ntus");
    unreadable("a &\\\n& b");
}

#[test]
fn what_is_nested_is_found() {
    runs("a $(b `c` \"$(d)\") <(e) >(f | g)", &["c", "d", "b ‹› ‹›", "e", "f", "g", "a ‹› ‹/…› ‹/…›"]);
    runs("a `b \\`c\\``", &["c", "b ‹›", "a ‹›"]);
    runs("a ${x:-$(b)} \"${y#`c`}\"", &["b", "c", "a ‹› ‹›"]);
    runs("x=$(a) b", &["a", "x=‹› b"]);
    runs("a <<X <<'Y' && c\n$(b) `d` \\$(e)\nX\n$(f)\nY\ng", &["a", "c", "b", "d", "g"]);
    runs("a <<-X\n\tb\n\tX\nc", &["a", "c"]);
    runs("a <<< $(b)", &["b", "a"]);
}

#[test]
fn compound_commands_are_taken_apart() {
    runs("{ a; }; (b; (c)) >x", &["a", "b", "c", ">x"]);
    runs("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
    runs("while a; do b; done < x; until c\ndo d\ndone", &["a", "b", "<x", "c", "d"]);
    runs("for i in 1 $(a); do b; done; for j do c; done", &["i=‹›", "a", "b", "j=‹›", "c"]);
    runs("case x in a) b;; (c|d) e;& f) ;; *) g; esac", &["b", "e", "g"]);
    runs("f() { a; }; function g { b; }; function h() (c)", &["a", "b", "c"]);
    runs("[[ -f $(a) && ( x < y ) ]] && b; ((1 + 2)); c $((3 * 4))", &["a", "b", "c ‹›"]);
    unreadable("for ((;;)); do a; done");
    unreadable("((a[$(b)]))");
    unreadable("echo $((a[$(b)]))");
    unreadable("if a; then b");
}

#[test]
fn words_tell_what_they_may_become() {
    runs(
        "a src/*.rs *.rs x{a,b} {a,b} ~/x \"./$x\" ./$x \"$x\"",
        &["a ‹src/*.rs…› ‹› ‹x{a,b}…› ‹› ‹~/x…› ‹./…› ‹› ‹›"],
    );
    runs("a {} { } [ ] b=~/x", &["a {} { } [ ] ‹b=~/x…›"]);
    runs("[ -f x ]", &["[ -f x ]"]);
    runs("a \"./$@\" \"./${x[@]}\" \"-$x\"", &["a ‹› ‹› ‹›"]);
}

#[test]
fn redirections_are_found() {
    runs("a >b 2>>c <d &>e >|f <>g 2>&1 >&- >&h 3< i", &["a >b >c <d >e >f >g >‹› <i"]);
    runs("2>x a2>y", &["a2 >x >y"]);
    unreadable("{fd}>x a");
    unreadable("99999>x a");
}

#[test]
fn doubts_are_told() {
    let doubts = |text: &str| read_line(text).unwrap().doubts;
    assert_eq!(doubts("a\rb"), ["holds control characters"]);
    assert_eq!(doubts("a\u{200b}b"), ["holds characters that cannot be seen"]);
    assert_eq!(doubts("((x))"), ["reckons with variables"]);
    assert_eq!(doubts("[[ -v 'a[$(b)]' ]]"), ["makes a test that may run commands"]);
    assert_eq!(doubts("f() { a; }"), ["defines a function"]);
    assert_eq!(doubts("echo grüße"), [""; 0]);
}

#[test]
fn hostile_lines_neither_panic_nor_take_long_nor_fill_the_stack() {
    let small_stack = std::thread::Builder::new().stack_size(512 * 1024);
    let check = || {
        for part in [
            "$(",
            "((",
            "(",
            "{ ",
            "`",
            "\"$(",
            "${x:-",
            "<(",
            "if a; then ",
            "f() ",
            "! ",
            "a <<E\n",
            "\\",
            "case a in a) ",
        ] {
            unreadable(&part.repeat(100_000));
            // Within the limit of length, but mostly not of depth; and as deep as it goes.
            for count in (1..60).chain([2_000]) {
                let _ = read_line(&part.repeat(count));
            }
        }
        unreadable(&"a".repeat(1 << 20));
        let nested = (0..15).fold("a".to_owned(), |line, _| format!("$({line})"));
        assert_eq!(read_line(&nested).unwrap().commands.len(), 16);
        assert!(read_line(&"a;".repeat(30_000)).is_ok());
    };
    small_stack.spawn(check).unwrap().join().unwrap();
}

proptest::proptest! {
    #[test]
    fn no_line_panics(line in "[-ab \n\t;&|(){}<>$`\"'\\\\#!*?~=\\[\\]:,.0-9é\u{0}]{0,60}") {
        let _ = read_line(&line);
    }

    /// Where a word is literal, bash agrees on it: a line of quoted words is the words.
    #[test]
    fn quoted_words_are_themselves(words in proptest::collection::vec("[^\u{0}]{0,8}", 1..4)) {
        let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ");
        let line = read_line(&quoted).unwrap();
        let read: Vec<_> = line.commands[0].words.iter().map(|word| word.literal().unwrap().to_owned()).collect();
        proptest::prop_assert_eq!(read, words);
    }
}
