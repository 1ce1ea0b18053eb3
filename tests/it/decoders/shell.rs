//! Command lines: what bash runs of one is among what the gate reads in it, word for word.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentd::permissions::shell::{Word, WordKind, read_line};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

use super::search::search;

/// Bash calls this for every program, as none is found; what it writes down are the words.
const WRITE_DOWN: &str =
    "command_not_found_handle() { builtin printf '%s\\a' \"$#\" \"$@\" >>../ran; return ${RANDOM: -1:1}; }";

/// Pieces of lines: names that are no programs, and all that means something to bash. Nothing with a slash, so that no
/// other place can be meant.
const PIECES: &[&str] = &[
    "aa",
    "bb",
    "cc",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "; ",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "$",
    "${x",
    "}",
    "${x:-",
    "<(",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<<",
    ">f",
    "2>&1",
    "<",
    "#",
    "! ",
    "time ",
    "if ",
    "; then ",
    "; fi",
    "while ",
    "; do ",
    "; done",
    "case aa in ",
    "aa) ",
    ";; ",
    " esac",
    "[[ ",
    " ]]",
    "((",
    "))",
    "1",
    "x=",
    "~",
    "*",
    "{",
    ",",
    "$'",
    "\\x27",
    "\\\n",
    "-a",
    "=",
    "\t",
    "$x",
    "echo ",
];

/// Whole parts, so that more lines are none that bash refuses.
const PARTS: &[&str] = &[
    "aa bb",
    "$(aa bb)",
    "`aa`",
    "\"$(aa 'b b')\"",
    "if aa; then bb; else cc; fi",
    "case aa in (aa|b) bb;; *) cc;; esac",
    "while aa; do bb; break; done",
    "{ aa; bb; }",
    "(aa)",
    "aa <<E\n$(bb)\nE\n",
    "aa <<'E'\n$(bb)\nE\n",
    "${x:-$(aa)}",
    "<(aa)",
    "[[ -n aa ]]",
    "$((1 + 1))",
    "for x in aa bb; do cc $x; done",
    "aa 'b b' \"c\\\"c\" d\\ d",
    "$'a\\x27b' aa",
    "aa # bb",
];

fn line() -> impl Strategy<Value = String> {
    let piece =
        prop_oneof![3 => select(PARTS), 4 => select(PIECES), 2 => select(&[" ", "; ", " && ", " | ", "\n"][..])];
    proptest::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat())
}

/// Returns the commands that bash runs of a line; `None` when it does not come to an end.
fn ran(line: &str) -> Option<Vec<Vec<String>>> {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(dir.path().join("env"), WRITE_DOWN).unwrap();
    let mut bash = Command::new("/bin/bash")
        .args(["-c", line])
        .current_dir(&work)
        .env_clear()
        .envs([("PATH", "/nonexistent"), ("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")])
        .env("BASH_ENV", dir.path().join("env"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = nix::unistd::Pid::from_raw(i32::try_from(bash.id()).unwrap());
    let patience = Instant::now() + Duration::from_secs(5);
    let ended = loop {
        if bash.try_wait().unwrap().is_some() {
            break true;
        }
        if Instant::now() > patience {
            break false;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    // What it left in the background, or itself.
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    let _ = bash.wait();
    ended.then(|| {
        let mut text = Vec::new();
        if let Ok(mut file) = fs::File::open(dir.path().join("ran")) {
            file.read_to_end(&mut text).unwrap();
        }
        commands(&String::from_utf8_lossy(&text))
    })
}

/// Takes apart what was written down: the number of words and the words, each time.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut words = text.split_terminator('\u{7}');
    let mut found = Vec::new();
    while let Some(count) = words.next().and_then(|count| count.parse().ok()) {
        found.push(words.by_ref().take(count).map(str::to_owned).collect());
    }
    found
}

/// Whether words that were read may have become these.
fn may_become(read: &[Word], ran: &[String]) -> bool {
    let Some((word, rest)) = read.split_first() else { return ran.is_empty() };
    match word.kind {
        WordKind::Literal => ran.first() == Some(&word.text) && may_become(rest, &ran[1..]),
        WordKind::Bound => (1..=ran.len()).any(|count| may_become(rest, &ran[count..])),
        WordKind::Free => (0..=ran.len()).any(|count| may_become(rest, &ran[count..])),
    }
}

fn check(line: &str) -> Result<(), TestCaseError> {
    let Ok(read) = read_line(line) else { return Ok(()) };
    let is_known =
        read.doubts.is_empty() && read.commands.iter().all(|simple| simple.words.is_empty() || simple.name().is_some());
    if !is_known {
        return Ok(());
    }
    let Some(ran) = ran(line) else { return Ok(()) };
    for command in &ran {
        let was_read = read.commands.iter().any(|simple| {
            // `time` after a pipe is a program, which is looked through elsewhere.
            may_become(&simple.words, command) || command[0] == "time" && may_become(&simple.words, &command[1..])
        });
        prop_assert!(was_read, "bash ran {command:?} of {line:?}, which was read as {read:?}");
    }
    Ok(())
}

#[test]
fn b179_what_bash_runs_was_read() {
    search("command lines", &line(), |line| check(&line));
}

/// The test can fail: what bash runs is seen.
#[test]
fn what_bash_runs_is_seen() {
    assert_eq!(ran("aa 'b b' \"$(cc)\" | (dd)").map(|ran| ran.len()), Some(3));
    assert!(check("aa $(bb) && cc").is_ok());
}
