use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::error::{Change, NotASessionReason, StoreError};
use super::super::record::{Damage, NotASession, load_bytes};
use super::*;

const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#;

fn line(id: &str, parent: &str) -> String {
    format!(
        r#"{{"type":"session_info","id":"{id}","parentId":"{parent}","timestamp":"2026-01-01T00:00:00.000Z","name":"{id}"}}"#
    ) + "\n"
}

struct Home {
    dir: TempDir,
    writer: Arc<Writer>,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(dir.path().join("run/locks"), "agentd test", Some("/run/socket".into()));
        Self { dir, writer }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("sessions/--w--/a.jsonl")
    }

    /// Writes a file as another program would.
    fn put(&self, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn open(&self) -> (SessionFile, Loaded) {
        SessionFile::open(&self.path(), &self.writer).unwrap()
    }

    fn content(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn foreign_write(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

#[test]
fn a_new_session_appears_with_its_first_lines_and_is_private() {
    let home = Home::new();
    let mut file = SessionFile::create(&home.path(), &home.writer);
    assert!(file.is_empty() && !home.path().exists() && !home.dir.path().join("sessions").exists());
    let first = format!("{HEADER}\n{}", line("a", "x"));
    assert_eq!(file.append(first.as_bytes(), SyncMode::Data).unwrap().offset, 0);
    let appended = file.append(line("b", "a").as_bytes(), SyncMode::Flush).unwrap();
    assert_eq!(appended.offset, first.len() as u64);
    file.sync().unwrap();
    assert_eq!(home.content(), format!("{first}{}", line("b", "a")));
    assert_eq!(file.len(), home.content().len() as u64);
    assert_eq!(mode(&home.path()), 0o600);
    assert_eq!(mode(home.path().parent().unwrap()), 0o700);
    assert_eq!(mode(&home.dir.path().join("sessions")), 0o700);
    assert_eq!(mode(&home.dir.path().join("run/locks")), 0o700);
    let record = fs::read_dir(home.dir.path().join("run/locks")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&record), 0o600);
    let beside = fs::read_dir(home.path().parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "nothing lies beside the session");
    drop(file);
    assert!(!record.exists());
}

#[test]
fn an_existing_file_is_never_taken_for_a_new_session() {
    let home = Home::new();
    home.put("something\n");
    let mut file = SessionFile::create(&home.path(), &home.writer);
    let error = file.append(format!("{HEADER}\n").as_bytes(), SyncMode::Flush).unwrap_err();
    assert!(matches!(error, StoreError::Io { action: "create", .. }), "{error:?}");
    assert_eq!(home.content(), "something\n");
}

#[test]
fn opening_writes_nothing() {
    let home = Home::new();
    let content = format!("{HEADER}\n{}\nBROKEN", line("a", "x"));
    let path = home.put(&content);
    let before = fs::metadata(&path).unwrap();
    let (file, loaded) = home.open();
    assert_eq!((ids(&loaded.entries), loaded.damaged.len()), (vec!["a"], 1));
    assert!(file.open.is_none());
    let after = fs::metadata(&path).unwrap();
    assert_eq!((home.content(), after.modified().unwrap()), (content, before.modified().unwrap()));
    assert!(!home.dir.path().join("run").exists());
}

#[track_caller]
fn check_refused(home: &Home, path: &Path, why: NotASessionReason) {
    match SessionFile::open(path, &home.writer) {
        Err(StoreError::NotASession { why: got, .. }) => assert_eq!(got, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_session_is_refused_and_untouched() {
    let home = Home::new();
    for (content, why) in [
        (&b""[..], NotASession::Empty),
        (b"127.0.0.1 localhost\n", NotASession::Unreadable),
        (b"\x89PNG\r\n\x1a\n", NotASession::Unreadable),
        (b"{\"type\":\"custom\",\"id\":\"a\"}\n", NotASession::NoHeader),
    ] {
        let path = home.put(content);
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        check_refused(&home, &path, NotASessionReason::Content(why));
        assert_eq!(fs::read(&path).unwrap(), content);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    }
    check_refused(&home, home.dir.path(), NotASessionReason::NotAFile);
    check_refused(&home, Path::new("/dev/null"), NotASessionReason::NotAFile);
    let pipe = home.dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    check_refused(&home, &pipe, NotASessionReason::NotAFile);
    home.put(format!("{HEADER}\n"));
    let link = home.dir.path().join("link.jsonl");
    symlink(home.path(), &link).unwrap();
    check_refused(&home, &link, NotASessionReason::Link);
    let missing = SessionFile::open(&home.dir.path().join("no.jsonl"), &home.writer).unwrap_err();
    assert!(missing.is_not_found());
}

#[test]
fn a_huge_file_of_something_else_is_not_read_to_its_end() {
    let home = Home::new();
    let path = home.put("");
    // Sparse: 64 GiB of zeros that take no room.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(64 << 30).unwrap();
    check_refused(&home, &path, NotASessionReason::Content(NotASession::Unreadable));
}

#[test]
fn torn_and_unfinished_tails_stay_and_new_lines_stand_alone() {
    let whole = line("b", "a");
    for (tail, kept) in [(&whole[..whole.len() - 1], true), (&whole[..20], false), ("\u{e9}", false)] {
        let home = Home::new();
        let content = format!("{HEADER}\n{}{tail}", line("a", "x"));
        // the last case is cut within a character
        let bytes = if tail == "\u{e9}" { &content.as_bytes()[..content.len() - 1] } else { content.as_bytes() };
        home.put(bytes);
        let (mut file, loaded) = home.open();
        assert_eq!(loaded.entries.len(), if kept { 2 } else { 1 });
        let appended = file.append(line("c", "a").as_bytes(), SyncMode::Data).unwrap();
        assert!(appended.foreign.is_empty(), "our own tail is not foreign");
        let now = fs::read(home.path()).unwrap();
        assert_eq!(now, [bytes, b"\n", line("c", "a").as_bytes()].concat());
        assert_eq!(appended.offset, bytes.len() as u64 + 1);
        let (_, again) = home.open();
        assert_eq!(ids(&again.entries), if kept { vec!["a", "b", "c"] } else { vec!["a", "c"] });
    }
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let home = Home::new();
    home.put(format!("{HEADER}\n"));
    let (mut first, _) = home.open();
    let (mut second, _) = home.open();
    first.append(line("a", "x").as_bytes(), SyncMode::Flush).unwrap();
    let error = second.append(line("b", "x").as_bytes(), SyncMode::Flush).unwrap_err();
    let StoreError::Locked { owner, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*owner, home.writer.owner);
    assert!(error.to_string().contains("agentd test (process"), "{error}");

    // Another runtime folder: the kernel knows.
    let elsewhere = Writer::new(home.dir.path().join("elsewhere"), "other", None);
    let (mut third, _) = SessionFile::open(&home.path(), &elsewhere).unwrap();
    match third.append(line("b", "x").as_bytes(), SyncMode::Flush) {
        Err(StoreError::Locked { owner, .. }) => assert_eq!(owner.pid, std::process::id()),
        other => panic!("{other:?}"),
    }

    drop(first);
    let appended = second.append(line("b", "a").as_bytes(), SyncMode::Flush).unwrap();
    assert_eq!(ids(&appended.foreign), ["a"]);
    assert_eq!(home.content(), format!("{HEADER}\n{}{}", line("a", "x"), line("b", "a")));
}

#[test]
fn the_record_of_a_killed_writer_misleads_nobody() {
    let home = Home::new();
    home.put(format!("{HEADER}\n"));
    let (mut file, _) = home.open();
    file.lock().unwrap();
    let record = fs::read_dir(&home.writer.locks_dir).unwrap().next().unwrap().unwrap().path();
    drop(file);
    fs::write(&record, r#"{"pid":4194305,"program":"gone"}"#).unwrap();
    let (mut file, _) = home.open();
    file.lock().unwrap();
    assert!(fs::read_to_string(&record).unwrap().contains("agentd test"));
}

#[test]
fn lines_of_a_program_without_locks_are_read_before_ours_are_written() {
    let home = Home::new();
    let path = home.put(format!("{HEADER}\n{}", line("a", "x")));
    let (mut file, _) = home.open();
    foreign_write(&path, &line("p", "a"));
    let refreshed = file.refresh().unwrap();
    assert_eq!(ids(&refreshed.entries), ["p"]);
    assert!(file.open.is_none());
    foreign_write(&path, &format!("{}BROKEN\n{}", line("q", "p"), &line("r", "q")[..30]));
    let appended = file.append(line("b", "p").as_bytes(), SyncMode::Flush).unwrap();
    assert_eq!((ids(&appended.foreign), appended.damaged.len()), (vec!["q"], 2));
    // The line that was being written is finished after all: by then it is part of another one.
    let appended = file.append(line("c", "b").as_bytes(), SyncMode::Flush).unwrap();
    assert!(appended.foreign.is_empty() && appended.damaged.is_empty());
    let (_, loaded) = home.open();
    assert_eq!(ids(&loaded.entries), ["a", "p", "q", "b", "c"]);
}

#[test]
fn a_foreign_line_seen_half_is_read_when_it_is_whole() {
    let home = Home::new();
    let path = home.put(format!("{HEADER}\n"));
    let (mut file, _) = home.open();
    let foreign = line("p", "x");
    foreign_write(&path, &foreign[..25]);
    let seen = file.refresh().unwrap();
    assert_eq!((seen.entries.len(), seen.damaged[0].damage), (0, Damage::NotJson));
    foreign_write(&path, &foreign[25..foreign.len() - 1]);
    assert_eq!(ids(&file.refresh().unwrap().entries), ["p"]);
    foreign_write(&path, "\n");
    let seen = file.refresh().unwrap();
    assert!(seen.entries.is_empty() && seen.damaged.is_empty());
    file.append(line("a", "p").as_bytes(), SyncMode::Flush).unwrap();
    assert_eq!(home.content(), format!("{HEADER}\n{foreign}{}", line("a", "p")));
}

#[test]
fn a_changed_file_is_not_written_to() {
    type Change2 = (&'static str, fn(&Path), Change);
    let changes: [Change2; 5] = [
        (
            "shrunk",
            |path| OpenOptions::new().write(true).open(path).unwrap().set_len(HEADER.len() as u64 + 1).unwrap(),
            Change::Shrunk,
        ),
        ("emptied", |path| fs::write(path, "").unwrap(), Change::Shrunk),
        ("deleted", |path| fs::remove_file(path).unwrap(), Change::Deleted),
        (
            "replaced",
            |path| {
                let other = path.with_extension("new");
                fs::copy(path, &other).unwrap();
                fs::rename(other, path).unwrap();
            },
            Change::Replaced,
        ),
        (
            "made a link to itself",
            |path| {
                fs::rename(path, path.with_extension("moved")).unwrap();
                symlink(path.with_extension("moved"), path).unwrap();
            },
            Change::Replaced,
        ),
    ];
    for (name, change, expected) in changes {
        for locked in [true, false] {
            let home = Home::new();
            let path = home.put(format!("{HEADER}\n{}", line("a", "x")));
            let (mut file, _) = home.open();
            if locked {
                file.lock().unwrap();
            }
            change(&path);
            let before = fs::read(&path).ok();
            let error = file.append(line("b", "a").as_bytes(), SyncMode::Data).unwrap_err();
            match error {
                StoreError::Changed { change, .. } => assert_eq!(change, expected, "{name}"),
                StoreError::NotASession { why: NotASessionReason::Link, .. } if name.contains("link") && !locked => {}
                other => panic!("{name}: {other:?}"),
            }
            assert!(file.refresh().is_err(), "{name}");
            assert_eq!(fs::read(&path).ok(), before, "{name}");
        }
    }
}

#[test]
fn a_read_only_file_is_an_error_and_stays_as_it_is() {
    let home = Home::new();
    let path = home.put(format!("{HEADER}\n"));
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    if OpenOptions::new().append(true).open(&path).is_ok() {
        return; // root may write it all the same
    }
    let (mut file, _) = home.open();
    let error = file.append(line("a", "x").as_bytes(), SyncMode::Data).unwrap_err();
    assert!(matches!(error, StoreError::Io { action: "open for writing", .. }), "{error:?}");
    assert_eq!(home.content(), format!("{HEADER}\n"));
}

#[test]
fn an_old_file_is_replaced_as_a_whole_and_kept() {
    let home = Home::new();
    let old = concat!(
        r#"{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
        "\n",
        r#"{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"q","timestamp":1}}"#,
    );
    let path = home.put(old);
    fs::write(path.with_extension("jsonl.bak"), "an older backup").unwrap();
    let (mut file, loaded) = home.open();
    assert_eq!(home.content(), old, "opening writes nothing");
    let parent = loaded.entries[0].id.to_string();
    file.append(line("b", &parent).as_bytes(), SyncMode::Data).unwrap();
    assert_eq!(fs::read_to_string(path.with_extension("jsonl.bak2")).unwrap(), old);
    assert_eq!(fs::read_to_string(path.with_extension("jsonl.bak")).unwrap(), "an older backup");
    let (_, again) = home.open();
    assert_eq!((again.version, ids(&again.entries)), (3, vec![parent.as_str(), "b"]));
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 3, "no temporary file stays");

    // The lock is on the new file.
    let (mut second, _) = home.open();
    assert!(matches!(second.lock(), Err(StoreError::Locked { .. })));
    file.append(line("c", "b").as_bytes(), SyncMode::Flush).unwrap();
    assert_eq!(home.open().1.entries.len(), 3);
}

#[test]
fn two_who_open_an_old_file_migrate_it_once() {
    let home = Home::new();
    home.put("{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/w\"}\n");
    let (mut first, _) = home.open();
    let (mut second, _) = home.open();
    first.lock().unwrap();
    drop(first);
    assert!(matches!(second.lock(), Err(StoreError::Changed { change: Change::Replaced, .. })));
    assert_eq!(fs::read_dir(home.path().parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn a_failed_write_leaves_no_partial_line() {
    limited::check();
}

/// A file size limit stands for a full disk: the write comes short, then fails. The limit and the ignored signal
/// hold for a whole process, so the test runs itself again in one of its own.
mod limited {
    use pretty_assertions::assert_eq;

    use super::*;

    const MARK: &str = "AGENTD_TEST_FILE_SIZE_LIMIT";
    const NAME: &str = "store::session_file::tests::a_failed_write_leaves_no_partial_line";

    pub(super) fn check() {
        if std::env::var_os(MARK).is_some() {
            return inside();
        }
        let script = format!(r#"trap "" XFSZ; ulimit -f 64; exec "$0" --exact {NAME} --test-threads 1"#);
        #[expect(clippy::disallowed_methods, reason = "the test needs a process with a limit")]
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(std::env::current_exe().unwrap())
            .env(MARK, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }

    fn inside() {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        let limit = |bytes: u64| setrlimit(Resource::RLIMIT_FSIZE, bytes, hard).unwrap();
        let home = Home::new();
        let mut file = SessionFile::create(&home.path(), &home.writer);

        limit(20);
        let first = format!("{HEADER}\n{}", line("a", "x"));
        assert!(matches!(file.append(first.as_bytes(), SyncMode::Data), Err(StoreError::Io { action: "write", .. })));
        assert!(!home.path().exists(), "a session that could not be begun leaves no file");
        limit(10_000);
        file.append(first.as_bytes(), SyncMode::Data).unwrap();

        // Every length that the room left can have.
        for room in 0..line("b", "a").len() as u64 {
            limit(home.content().len() as u64 + room);
            let before = home.content();
            let error = file.append(line("b", "a").as_bytes(), SyncMode::Data).unwrap_err();
            assert!(
                matches!(&error, StoreError::Io { action: "append to", source, .. } if source.raw_os_error() == Some(27)),
                "{error:?}"
            );
            assert_eq!(home.content(), before, "room for {room}");
        }
        limit(10_000);
        let appended = file.append(line("c", "a").as_bytes(), SyncMode::Data).unwrap();
        assert!(appended.foreign.is_empty() && appended.damaged.is_empty());
        assert_eq!(home.content(), format!("{first}{}", line("c", "a")));

        // Lines of another program that were found on the way are handed out by the next append.
        foreign_write(&home.path(), &line("f", "c"));
        limit(home.content().len() as u64);
        file.append(line("d", "f").as_bytes(), SyncMode::Data).unwrap_err();
        limit(10_000);
        let appended = file.append(line("d", "f").as_bytes(), SyncMode::Data).unwrap();
        assert_eq!(ids(&appended.foreign), ["f"]);
    }
}

#[test]
fn the_umask_opens_nothing_and_hinders_nothing() {
    umask::check();
}

/// The umask belongs to the process, too.
mod umask {
    use pretty_assertions::assert_eq;

    use super::*;

    const MARK: &str = "AGENTD_TEST_UMASK";
    const NAME: &str = "store::session_file::tests::the_umask_opens_nothing_and_hinders_nothing";

    pub(super) fn check() {
        if std::env::var_os(MARK).is_some() {
            return inside();
        }
        for mask in ["000", "777"] {
            #[expect(clippy::disallowed_methods, reason = "the test needs a process with a umask of its own")]
            let output = std::process::Command::new("sh")
                .arg("-c")
                .arg(format!(r#"umask {mask}; exec "$0" --exact {NAME} --test-threads 1"#))
                .arg(std::env::current_exe().unwrap())
                .env(MARK, "1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{mask}: {}", String::from_utf8_lossy(&output.stdout));
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        }
    }

    fn inside() {
        let home = Home::new();
        // What the test itself made is not under test.
        fs::set_permissions(home.dir.path(), Permissions::from_mode(0o700)).unwrap();
        let mut file = SessionFile::create(&home.path(), &home.writer);
        file.append(format!("{HEADER}\n").as_bytes(), SyncMode::Data).unwrap();
        assert_eq!(mode(&home.path()), 0o600);
        assert_eq!(mode(home.path().parent().unwrap()), 0o700);
        assert_eq!(mode(&home.dir.path().join("sessions")), 0o700);
        assert_eq!(mode(&home.writer.locks_dir), 0o700);
    }
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_session() {
    killed::check();
}

mod killed {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;

    const MARK: &str = "AGENTD_TEST_KILLED_WRITER";
    const NAME: &str = "store::session_file::tests::a_writer_killed_at_any_moment_leaves_a_session";
    const ROUNDS: u64 = 8;

    /// Long enough that a write takes a while, so that some rounds end in the middle of one.
    fn long_line(number: usize) -> String {
        format!(
            r#"{{"type":"session_info","id":"{number:08x}","parentId":null,"timestamp":0,"name":"{}"}}"#,
            "x".repeat(1 + (number * 7919) % 40_000)
        ) + "\n"
    }

    pub(super) fn check() {
        if let Some(path) = std::env::var_os(MARK) {
            return write_until_killed(Path::new(&path));
        }
        let home = Home::new();
        let path = home.put(format!("{HEADER}\n"));
        let mut whole_before = 0;
        for round in 0..ROUNDS {
            #[expect(clippy::disallowed_methods, reason = "the test needs a process to kill")]
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--test-threads", "1"])
                .env(MARK, &path)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            // Not before it has written something; then at another moment each round.
            let len = fs::metadata(&path).unwrap().len();
            while fs::metadata(&path).unwrap().len() == len {
                assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(round * 700));
            child.kill().unwrap();
            child.wait().unwrap();

            let (mut file, loaded) = home.open();
            let numbers: Vec<usize> =
                loaded.entries.iter().map(|entry| usize::from_str_radix(entry.id.as_str(), 16).unwrap()).collect();
            assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "no line is lost or repeated");
            assert!(numbers.len() > whole_before);
            whole_before = numbers.len();
            // The lock went with the process, and what comes next stands on a line of its own.
            file.append(long_line(whole_before).as_bytes(), SyncMode::Flush).unwrap();
            whole_before += 1;
            assert_eq!(home.open().1.entries.len(), whole_before);
        }
    }

    fn write_until_killed(path: &Path) {
        let writer = Writer::new(path.with_extension("locks"), "killed", None);
        let (mut file, loaded) = SessionFile::open(path, &writer).unwrap();
        for number in loaded.entries.len()..loaded.entries.len() + 40 {
            file.append(long_line(number).as_bytes(), SyncMode::Flush).unwrap();
        }
        loop {
            std::thread::park();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ours,
    Foreign,
    ForeignTorn(usize),
    Reopen,
    Cut(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ours),
        2 => Just(Step::Foreign),
        1 => (1_usize..60).prop_map(Step::ForeignTorn),
        1 => Just(Step::Reopen),
        1 => (0_usize..90).prop_map(Step::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever others do to the file: what we appended with success and nobody cut off is read again, in order,
    /// and what was handed out is what a new reader sees.
    #[test]
    fn what_was_appended_is_read_again(steps in proptest::collection::vec(any_step(), 1..30)) {
        let home = Home::new();
        let path = home.put(format!("{HEADER}\n"));
        let (mut file, _) = home.open();
        let mut seen: Vec<String> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let id = format!("e{number}");
            match step {
                Step::Ours => match file.append(line(&id, "x").as_bytes(), SyncMode::Flush) {
                    Ok(appended) => {
                        seen.extend(appended.foreign.iter().map(|entry| entry.id.to_string()));
                        seen.push(id);
                    }
                    Err(StoreError::Changed { .. }) => {
                        drop(std::mem::replace(&mut file, SessionFile::create(&path, &home.writer)));
                        let (again, loaded) = home.open();
                        file = again;
                        seen = loaded.entries.iter().map(|entry| entry.id.to_string()).collect();
                    }
                    Err(other) => panic!("{other:?}"),
                },
                // pi repairs a missing line end when it opens a file
                Step::Foreign => {
                    let lf = if fs::read(&path).unwrap().ends_with(b"\n") { "" } else { "\n" };
                    foreign_write(&path, &format!("{lf}{}", line(&id, "x")));
                }
                Step::ForeignTorn(len) => {
                    let text = line(&id, "x");
                    foreign_write(&path, &text[..(*len).min(text.len() - 1)]);
                }
                Step::Reopen => {
                    drop(std::mem::replace(&mut file, SessionFile::create(&path, &home.writer)));
                    let (again, loaded) = home.open();
                    file = again;
                    seen = loaded.entries.iter().map(|entry| entry.id.to_string()).collect();
                }
                Step::Cut(bytes) => {
                    let len = fs::metadata(&path).unwrap().len();
                    let new = len.saturating_sub(*bytes as u64).max(HEADER.len() as u64 + 1);
                    OpenOptions::new().write(true).open(&path).unwrap().set_len(new).unwrap();
                }
            }
        }
        match file.refresh() {
            Ok(rest) => seen.extend(rest.entries.iter().map(|entry| entry.id.to_string())),
            Err(StoreError::Changed { .. }) => return Ok(()),
            Err(other) => panic!("{other:?}"),
        }
        let now = load_bytes(&fs::read(&path).unwrap()).unwrap();
        // A cut followed by as many foreign bytes cannot be told from no change; nothing of ours was lost by us then.
        if !steps.iter().any(|step| matches!(step, Step::Cut(_))) {
            let ids: Vec<String> = now.entries.iter().map(|entry| entry.id.to_string()).collect();
            prop_assert_eq!(seen, ids);
        }
    }
}

#[test]
fn two_processes_worth_of_writers_never_mix_lines() {
    let home = Home::new();
    let path = home.put(format!("{HEADER}\n"));
    std::thread::scope(|scope| {
        for name in ["l", "m"] {
            let (path, writer) = (path.clone(), Arc::clone(&home.writer));
            scope.spawn(move || {
                for number in 0..100 {
                    // Each opens, writes and lets go, as two daemons on one session might.
                    loop {
                        let (mut file, _) = SessionFile::open(&path, &writer).unwrap();
                        match file.append(line(&format!("{name}{number}"), "x").as_bytes(), SyncMode::Flush) {
                            Ok(_) => break,
                            Err(StoreError::Locked { .. }) => std::thread::yield_now(),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
        // A program without locks at the same time.
        scope.spawn(|| {
            for number in 0..100 {
                foreign_write(&path, &line(&format!("p{number}"), "x"));
            }
        });
    });
    let (_, loaded) = home.open();
    assert_eq!((loaded.entries.len(), loaded.damaged.len()), (300, 0));
}

/// What other programs wrote between our check and our write, as it stands in the file before and after ours.
#[track_caller]
fn check_settled(unfinished: usize, before: &str, after: &str, expected: &[&str], damaged: usize) {
    let home = Home::new();
    let whole = line("p", "x");
    let path = home.put(format!("{HEADER}\n{}", &whole[..unfinished]));
    let (mut file, _) = home.open();
    file.lock().unwrap();
    let known = file.known.unwrap();
    let torn = known.len > known.complete;
    let ours = if torn { format!("\n{}", line("o", "x")) } else { line("o", "x") };
    foreign_write(&path, &format!("{}{before}{ours}{after}", &whole[unfinished..]));
    let mut foreign = Foreign::default();
    let offset = file.settle(known, ours.as_bytes(), torn, &mut foreign).unwrap();
    assert!(home.content()[offset as usize..].starts_with(&line("o", "x")));
    assert_eq!((ids(&foreign.entries), foreign.damaged.len()), (expected.to_vec(), damaged));
    // What comes next is read on from there, and nothing twice.
    let appended = file.append(line("q", "o").as_bytes(), SyncMode::Flush).unwrap();
    assert!(appended.foreign.is_empty() && appended.damaged.is_empty());
    let (_, loaded) = home.open();
    assert_eq!(loaded.entries.last().unwrap().id.as_str(), "q");
}

#[test]
fn lines_written_at_the_same_moment_are_told_apart() {
    let (r, s) = (line("r", "p"), line("s", "r"));
    let whole = line("p", "x").len();
    check_settled(0, "", "", &["p"], 0);
    check_settled(0, &r, &s, &["p", "r", "s"], 0);
    check_settled(0, "BROKEN\n", &s[..20], &["p"], 2);
    // Of a line that was seen half, and was finished then.
    check_settled(20, "", "", &["p"], 0);
    check_settled(20, &r, &s, &["p", "r", "s"], 0);
    // Of one that lacked only its line end: it was read before.
    check_settled(whole - 1, &r, "", &["r"], 0);
}

#[test]
fn a_writer_beside_a_program_without_locks_hears_of_every_line_once() {
    let home = Home::new();
    let path = home.put(format!("{HEADER}\n"));
    let (mut file, _) = home.open();
    let mut seen = Vec::new();
    // A line over the end of a page of memory is not written as one: a reader can see half of it.
    let long = |id: String| line(&id, &"x".repeat(id.len() * 700));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..500 {
                foreign_write(&path, &long(format!("p{number}")));
            }
        });
        for number in 0..500 {
            let appended = file.append(line(&format!("o{number}"), "x").as_bytes(), SyncMode::Flush).unwrap();
            seen.extend(appended.foreign);
        }
    });
    seen.extend(file.refresh().unwrap().entries);
    let expected: Vec<String> = (0..500).map(|number| format!("p{number}")).collect();
    assert_eq!(ids(&seen), expected);
    let (_, loaded) = home.open();
    assert_eq!((loaded.entries.len(), loaded.damaged.len()), (1000, 0));
}
