use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use agentd_protocol::message::ContentBlock;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tools::test_support::{Place, replay};

async fn run_command(place: &Place, command: &str) -> ToolOutput {
    place.run("bash", json!({"command": command})).await
}

#[track_caller]
fn check(output: &ToolOutput, is_error: bool, text: &str) {
    assert_eq!((output.first_text(), output.is_error), (text, is_error));
}

/// A key that a command prints, in pieces and in a flood of output, is in nothing that is kept or told.
#[tokio::test]
async fn b210_a_key_that_is_printed_is_in_no_output() {
    let mut place = Place::new();
    place.keys = Arc::new(Keys::new([("K", "sk-CANARY-0123456789")]));
    let halves = "printf 'a sk-CANARY-0'; sleep 0.3; printf '123456789 b\\377'; printf sk-CANARY-0";
    let (output, progress) = place.run_with_progress("bash", json!({"command": halves})).await;
    let told = format!("{progress:?}");
    assert!(!told.contains("CANARY") && told.contains("[redacted: K]"), "{told}");
    let expected = "a [redacted: K] b\u{fffd}[redacted: K]";
    assert_eq!(output.result.content, [ContentBlock::text(expected)]);
    assert_eq!(output.result.structured_content.unwrap()["output"], expected);
    let flood = "for i in $(seq 3000); do echo \"$i sk-CANARY-0123456789 $i\"; done";
    let (output, progress) = place.run_with_progress("bash", json!({"command": flood})).await;
    let path = output.result.details.as_ref().unwrap()["fullOutputPath"].as_str().unwrap().to_owned();
    let file = std::fs::read_to_string(path).unwrap();
    assert_eq!((file.matches("[redacted: K]").count(), file.matches("CANARY").count()), (3000, 0));
    assert!(!format!("{output:?}{progress:?}").contains("CANARY"));
}

#[tokio::test]
async fn as_recorded() {
    // 5 lists the environment of pi itself.
    replay("bash-tool", |at, _| at != 5).await;
    replay("bash-truncation", |_, _| true).await;
}

#[tokio::test]
async fn the_environment_is_the_session_s_and_the_marker() {
    let mut place = Place::new();
    place.env.push(("PI_SESSION_ID".to_owned(), "s1".to_owned()));
    let output = run_command(&place, "echo $PI_SESSION_ID $AGENTD_CALL; env | grep -c CARGO").await;
    let (first, rest) = output.first_text().split_once('\n').unwrap();
    let marker = first.strip_prefix("s1 ").unwrap();
    assert!(marker.starts_with(&std::process::id().to_string()) && marker.ends_with(":call"), "{marker}");
    assert_eq!(rest, "0\n\n\nCommand exited with code 1");
}

#[tokio::test]
async fn b089_a_background_process_does_not_hold_the_call() {
    let place = Place::new();
    for (command, expected) in [
        ("sleep 60 & echo done", "done\n"),
        ("sleep 60 </dev/null >/dev/null & echo a", "a\n"),
        ("setsid -f sleep 60; echo c", "c\n"),
    ] {
        let begun = Instant::now();
        check(&run_command(&place, command).await, false, expected);
        assert!(begun.elapsed() < Duration::from_secs(2), "{command} took {:?}", begun.elapsed());
    }
    for command in ["(while :; do echo x; sleep 0.05; done) & echo b", "yes x & sleep 0.1; echo b"] {
        let begun = Instant::now();
        let output = run_command(&place, command).await;
        let all = output.result.structured_content.unwrap()["output"].as_str().unwrap().to_owned();
        assert!(!output.is_error && (all.contains("b\n") || all.len() > 1_000_000));
        assert!(begun.elapsed() < Duration::from_secs(3), "took {:?}", begun.elapsed());
        place.end_children().await;
    }
    place.end_children().await;
}

#[tokio::test]
async fn b101_an_exit_before_the_timeout_is_told() {
    let place = Place::new();
    let arguments = json!({"command": "(while :; do echo x; sleep 0.05; done) & exit 7", "timeout": 0.5});
    let output = place.run("bash", arguments).await;
    assert!(output.first_text().ends_with("\n\nCommand exited with code 7"), "{}", output.first_text());
    assert_eq!(output.result.structured_content.unwrap()["exit_code"], 7);
    place.end_children().await;
}

#[tokio::test]
async fn b091_what_ignores_signals_ends_after_the_grace() {
    let place = Place::new();
    for command in ["trap '' TERM INT HUP; while :; do sleep 1; done", "kill -STOP $$; echo on"] {
        let begun = Instant::now();
        let output = place.run("bash", json!({"command": command, "timeout": 0.2})).await;
        check(&output, true, "Command timed out after 0.2 seconds");
        assert!(begun.elapsed() < Duration::from_millis(3500), "{command} took {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn b093_an_abort_lets_no_further_command_run() {
    for command in [
        "echo begin; sleep 30; touch ran",
        "echo begin; sleep 30 || touch ran",
        "echo begin; sleep 30 | true; touch ran",
        "echo begin; (sleep 30); touch ran & wait; touch ran",
    ] {
        for _ in 0..13 {
            let mut place = Place::new();
            place.cancel = CancellationToken::new();
            let (sender, mut receiver) = mpsc::channel(4);
            let run = place.run_in("bash", json!({"command": command}), place.context(sender));
            let abort = async {
                assert_eq!(receiver.recv().await, Some(Progress::Started));
                assert_eq!(receiver.recv().await, Some(Progress::Output("begin\n".to_owned())));
                place.cancel.cancel();
            };
            let begun = Instant::now();
            let (output, ()) = tokio::join!(run, abort);
            check(&output, true, "begin\n\n\nCommand aborted");
            assert_eq!(output.result.details, Some(json!({})));
            assert_eq!(output.result.structured_content, None);
            assert!(begun.elapsed() < Duration::from_secs(2));
            assert!(!place.path("ran").exists(), "{command}");
        }
    }
}

#[tokio::test]
async fn an_abort_at_any_moment_is_an_abort() {
    for pause in [0, 1, 2, 3, 5, 8, 13] {
        let place = Place::new();
        let (sender, _receiver) = mpsc::channel(4);
        let run = place.run_in("bash", json!({"command": "sleep 30; touch ran"}), place.context(sender));
        let abort = async {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            place.cancel.cancel();
        };
        let (output, ()) = tokio::join!(run, abort);
        check(&output, true, "Command aborted");
        assert!(!place.path("ran").exists());
    }
}

#[tokio::test]
async fn output_while_being_ended_is_kept() {
    let place = Place::new();
    let command = "exec bash -c \"trap 'echo bye; exit' TERM; echo up; sleep 30 & wait\"";
    let output = place.run("bash", json!({"command": command, "timeout": 0.5})).await;
    check(&output, true, "up\nbye\n\n\nCommand timed out after 0.5 seconds");
}

#[tokio::test]
async fn b097_nothing_waits_for_input_or_a_terminal() {
    let place = Place::new();
    place.put("x", "x");
    for command in [
        "cat",
        "read x; echo got=$x",
        "python3 -c 'input()'",
        "git init -q . && git add x && git -c user.name=a -c user.email=a@b -c core.editor=vi commit",
        "git -c user.name=a -c user.email=a@b commit -qm one && echo 2 > x && git -c user.name=a -c user.email=a@b commit -qam two",
        "git -c core.editor=vi -c sequence.editor=vi rebase -i HEAD~1; test $? -ne 0 && git log --format=%s",
        "sh -c 'read y < /dev/tty'",
        "sudo -k true",
        "python3 -c 'import getpass; getpass.getpass()'",
    ] {
        let run = tokio::time::timeout(Duration::from_secs(20), run_command(&place, command));
        assert!(run.await.is_ok(), "{command} waits");
    }
}

#[tokio::test]
async fn b099_death_by_signal_is_an_error() {
    let place = Place::new();
    check(&run_command(&place, "kill -9 $$").await, true, "(no output)\n\nCommand exited with code 137");
    check(&run_command(&place, "kill -SEGV $$").await, true, "(no output)\n\nCommand exited with code 139");
    let inner = run_command(&place, "sh -c 'kill -SEGV $$'; exit $?").await;
    assert!(inner.first_text().ends_with("Command exited with code 139"));
}

#[tokio::test]
async fn b103_counts_at_the_limits() {
    let place = Place::new();
    let full = run_command(&place, "seq 2000").await;
    assert_eq!(full.result.details, None);
    assert!(full.first_text().ends_with("\n2000\n"));
    let cut = run_command(&place, "seq 2001").await;
    assert!(
        cut.first_text().starts_with("2\n")
            && cut.first_text().contains("[Showing lines 2-2001 of 2001. Full output: ")
    );
    for (bytes, is_cut) in [(51_199, false), (51_200, false), (51_201, true)] {
        let output = run_command(&place, &format!("head -c {bytes} /dev/zero | tr '\\0' x")).await;
        assert_eq!(output.result.details.is_some(), is_cut, "{bytes} bytes");
    }
}

#[tokio::test]
async fn b103_full_output_is_complete_private_and_closed() {
    let place = Place::new();
    let command = "printf 'a\\xff'; seq 1 200000; printf 'b\\xf0\\x9f'";
    let output = run_command(&place, command).await;
    let path = output.result.details.unwrap()["fullOutputPath"].as_str().unwrap().to_owned();
    let content = std::fs::read(&path).unwrap();
    let numbers: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(content == [b"a\xff", numbers.as_bytes(), b"b\xf0\x9f"].concat());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(place.outputs().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    assert!(open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).all(|target| target != Path::new(&path)));
    // Text and programs get whole characters.
    assert!(output.result.content[0].as_text().unwrap().contains("b\u{fffd}"));
}

#[tokio::test]
async fn where_no_file_can_be_made_the_result_says_so() {
    let place = Place::new();
    std::fs::write(place.outputs(), "in the way").unwrap();
    let output = run_command(&place, "seq 3000").await;
    assert!(
        output.first_text().ends_with("[Showing lines 1001-3000 of 3000. Full output: not kept (EEXIST)]"),
        "{:?}",
        output.first_text().lines().last()
    );
    assert!(!output.is_error);
}

#[tokio::test]
async fn b095_long_lines_are_cut_between_characters() {
    let place = Place::new();
    for lead in 0..4 {
        let command = format!("printf '%{lead}s' ''; yes '界🌍' | head -c 200000 | tr -d '\\n'");
        let output = run_command(&place, &command).await;
        let text = output.first_text();
        assert!(text.contains("\n\n[Showing last 50.0KB of line 1 (line is "), "{}", &text[text.len() - 200..]);
    }
}

#[tokio::test]
async fn progress_is_the_output() {
    let place = Place::new();
    // Every byte of a character on its own, so that reads cut them.
    let command =
        "for i in 1 2 3 4 5 6 7 8; do for b in f0 9f 8c 8d; do printf \"\\x$b\"; sleep 0.002; done; done; echo";
    let (output, progress) = place.run_with_progress("bash", json!({"command": command})).await;
    assert_eq!(progress[0], Progress::Started);
    let sent: String = progress
        .iter()
        .filter_map(|progress| match progress {
            Progress::Output(text) => Some(text.as_str()),
            Progress::Started => None,
        })
        .collect();
    assert_eq!(sent, output.first_text());
    assert_eq!(sent, "🌍".repeat(8) + "\n");
}

#[tokio::test]
async fn a_listener_that_does_not_listen_holds_nothing_up_for_ever() {
    let place = Arc::new(Place::new());
    let (sender, receiver) = mpsc::channel(1);
    // Full from the start with `Started`, never read.
    let arguments = json!({"command": "yes", "timeout": 0.3});
    let output = place.run_in("bash", arguments, place.context(sender)).await;
    assert!(output.first_text().ends_with("Command timed out after 0.3 seconds"));
    drop(receiver);
    // Nobody there at all: the command just runs.
    let (sender, _) = mpsc::channel(1);
    let output = place.run_in("bash", json!({"command": "seq 100000 | tail -1"}), place.context(sender)).await;
    check(&output, false, "100000\n");
}

#[tokio::test]
async fn a_flood_is_shown_in_part() {
    let place = Place::new();
    let command = "yes 0123456789 | head -c 30000000; echo end";
    let (output, progress) = place.run_with_progress("bash", json!({"command": command})).await;
    assert_eq!(output.result.structured_content.as_ref().unwrap()["exit_code"], 0);
    let texts = progress.iter().filter_map(|progress| match progress {
        Progress::Output(text) => Some(text.as_str()),
        Progress::Started => None,
    });
    let shown: String = texts.collect();
    assert!(shown.len() < 15_000_000, "{} bytes", shown.len());
    assert!(shown.starts_with("0123456789\n") && shown.ends_with("end\n"));
    let left_out: usize = shown
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.strip_suffix(" bytes left out here]")?.parse::<usize>().ok())
        .sum();
    let notes: usize = shown.lines().filter(|line| line.starts_with('[')).map(|line| line.len() + 2).sum();
    assert_eq!(shown.len() - notes + left_out, 30_000_004);
}

#[tokio::test]
async fn odd_working_directories() {
    let place = Place::new();
    let (sender, _receiver) = mpsc::channel(9);
    for name in [&b"with space"[..], b"quote'\"s", b"new\nline", b"\xff\xfe not utf8", &[b'x'; 250]] {
        use std::os::unix::ffi::OsStrExt as _;
        let dir = place.cwd().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir(&dir).unwrap();
        let context = place.context_in(&dir, sender.clone());
        let output = place.run_in("bash", json!({"command": "touch here"}), context).await;
        check(&output, false, "(no output)");
        assert!(dir.join("here").exists());
    }
    let gone = place.cwd().join("gone");
    let output = place.run_in("bash", json!({"command": "true"}), place.context_in(&gone, sender)).await;
    check(&output, true, &format!("Working directory does not exist: {}\nNo command can run there.", gone.display()));
}

#[tokio::test]
async fn timeouts_that_make_no_sense() {
    let place = Place::new();
    for (timeout, expected) in [
        (json!(-1), "Invalid timeout: must be a finite number of seconds"),
        (json!(1e12), "Invalid timeout: maximum is 2147483.647 seconds"),
    ] {
        check(&place.run("bash", json!({"command": "x", "timeout": timeout})).await, true, expected);
    }
    check(&place.run("bash", json!({"command": "echo a", "timeout": 0})).await, false, "a\n");
    check(&place.run("bash", json!({"command": "echo a", "timeout": null})).await, false, "a\n");
}

#[tokio::test]
async fn unattended_commands_have_a_limit() {
    let place = Place::new();
    let (sender, _receiver) = mpsc::channel(9);
    let mut context = place.context(sender);
    context.command_limit = Some(Duration::from_millis(200));
    let output = place.run_in("bash", json!({"command": "sleep 30"}), context.clone()).await;
    check(&output, true, "Command timed out after 0.2 seconds");
    let output = place.run_in("bash", json!({"command": "sleep 0.4; echo a", "timeout": 20}), context).await;
    check(&output, false, "a\n");
}

#[tokio::test]
async fn a_command_that_is_too_long_is_named() {
    let output = run_command(&Place::new(), &format!("echo {}", "x".repeat(200_000))).await;
    check(&output, true, "The command line is too long for the system (195.3KB). Write it to a file and run that.");
}

#[test]
fn seconds_are_written_as_javascript_does() {
    for (millis, expected) in [(0, "0"), (49, "0"), (50, "0.1"), (806, "0.8"), (999, "1"), (12_345, "12.3")] {
        assert_eq!(result::tenths(Duration::from_millis(millis)).to_string(), expected);
    }
}
