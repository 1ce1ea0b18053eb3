use std::collections::{BTreeMap, HashSet};
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::database::with_suffix;
use super::rows::Told;
use super::*;

mod copies;

struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("state/index.sqlite")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("sessions")
    }

    fn open(&self) -> Index {
        Index::open(&self.db(), vec![self.root()], ListLog::new(0))
    }

    /// Writes a session file; returns its path.
    fn session(&self, folder: &str, id: &str, lines: &[String]) -> PathBuf {
        self.file(&format!("{folder}/2026_{id}.jsonl"), id, lines)
    }

    fn file(&self, name: &str, id: &str, lines: &[String]) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let header = format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"1970-01-01T00:00:00.001Z","cwd":"/w/{}"}}"#,
            path.parent().unwrap().file_name().unwrap().to_str().unwrap()
        );
        fs::write(&path, format!("{header}\n{}", lines.concat())).unwrap();
        path
    }
}

fn name(id: &str, at: i64, name: &str) -> String {
    format!(r#"{{"type":"session_info","id":"{id}","parentId":null,"timestamp":{at},"name":"{name}"}}"#) + "\n"
}

fn user(id: &str, at: i64, text: &str) -> String {
    format!(
        r#"{{"type":"message","id":"{id}","parentId":null,"timestamp":{at},"message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn facts(file: &Path, id: &str, modified: i64) -> SessionFacts {
    SessionFacts {
        file: file.to_owned(),
        len: 0,
        id: id.into(),
        cwd: "/w".into(),
        parent_session: None,
        name: None,
        first_message: None,
        created: 0,
        modified,
        message_count: 0,
        model: None,
        model_chosen: false,
        cost: 0.0,
    }
}

async fn ids(index: &Index) -> Vec<String> {
    list(index, ListQuery::default()).await.0
}

async fn list(index: &Index, query: ListQuery) -> (Vec<String>, u64) {
    let page = index.list(query).await.unwrap();
    (page.rows.iter().map(|row| row.session_id.to_string()).collect(), page.total)
}

fn text(text: &str) -> ListQuery {
    ListQuery { text: Some(text.into()), ..ListQuery::default() }
}

#[tokio::test]
async fn session_files_are_found_and_listed_latest_use_first() {
    let home = Home::new();
    home.session("a", "s1", &[user("1", 10, "hello"), name("2", 20, "first")]);
    home.session("a", "s2", &[user("1", 30, "x")]);
    home.session("b", "s3", &[user("1", 15, "y")]);
    fs::write(home.root().join("a/notes.jsonl"), "no session\n").unwrap();
    fs::write(home.root().join("a/readme.txt"), "no session\n").unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(index.status(), "ready");
    assert_eq!(list(&index, ListQuery::default()).await, (vec!["s2".into(), "s1".into(), "s3".into()], 3));
    let page =
        index.list(ListQuery { cwd: Some("/w/a".into()), limit: Some(1), ..ListQuery::default() }).await.unwrap();
    assert_eq!((page.rows.len(), page.total), (1, 2));
    let rest = ListQuery { cwd: Some("/w/a".into()), cursor: page.next_cursor, ..ListQuery::default() };
    let page = index.list(rest).await.unwrap();
    assert_eq!(page.next_cursor, None);
    let row = &page.rows[0];
    assert_eq!((row.session_id.as_str(), row.name.as_deref()), ("s1", Some("first")));
    assert_eq!((row.first_message.as_deref(), row.message_count, row.created, row.modified), (Some("hello"), 1, 1, 20));
    assert_eq!(index.latest(Some(Path::new("/w/b"))).await.unwrap().unwrap().session_id.as_str(), "s3");
    assert_eq!(index.latest(Some(Path::new("/w/c"))).await.unwrap(), None);
    index.close().await;
    assert!(!with_suffix(&home.db(), "-wal").exists(), "the log goes with the last connection");
}

#[tokio::test]
async fn what_is_recorded_is_listed_at_once() {
    let home = Home::new();
    let index = home.open();
    let file = home.session("a", "s1", &[]);
    let mut facts = facts(&file, "s1", 5);
    index.record(facts.clone());
    assert_eq!(ids(&index).await, ["s1"]);
    let before = index.list(ListQuery::default()).await.unwrap().revision;
    facts.name = Some("n".into());
    index.record(facts);
    let page = index.list(ListQuery::default()).await.unwrap();
    assert_eq!(page.rows[0].name.as_deref(), Some("n"));
    assert!(page.revision > before);
}

#[tokio::test]
async fn a_search_by_text_knows_no_case_and_no_wildcards() {
    let home = Home::new();
    home.session("a", "s1", &[user("1", 1, "Über den Wolken")]);
    home.session("a", "s2", &[name("1", 2, "100%_sure")]);
    home.session("a", "s3", &[user("1", 3, "100 percent"), name("2", 3, "ÜBERBLICK")]);
    let index = home.open();
    index.settled().await;
    for (query, expected) in [
        ("über", vec!["s3", "s1"]),
        ("ÜBERB", vec!["s3"]),
        ("wolken", vec!["s1"]),
        ("100", vec!["s3", "s2"]),
        ("100%", vec!["s2"]),
        ("%", vec!["s2"]),
        ("_", vec!["s2"]),
        ("'; DROP TABLE sessions", vec![]),
        ("", vec!["s3", "s2", "s1"]),
    ] {
        let (rows, total) = list(&index, text(query)).await;
        assert_eq!(
            (rows, total),
            (expected.iter().map(|id| (*id).to_owned()).collect(), expected.len() as u64),
            "{query}"
        );
    }
}

#[tokio::test]
async fn pages_show_each_session_once() {
    let home = Home::new();
    // Many of the same time: the id decides then.
    for number in 0..25 {
        home.session("a", &format!("s{number:02}"), &[user("1", i64::from(number % 3), "x")]);
    }
    let index = home.open();
    index.settled().await;
    for query in [ListQuery::default(), text("X"), ListQuery { cwd: Some("/w/a".into()), ..ListQuery::default() }] {
        let whole = list(&index, query.clone()).await;
        assert_eq!(whole.1, 25);
        let (mut rows, mut cursor) = (Vec::new(), None);
        loop {
            let page = index.list(ListQuery { limit: Some(4), cursor, ..query.clone() }).await.unwrap();
            assert_eq!(page.total, 25);
            rows.extend(page.rows.iter().map(|row| row.session_id.to_string()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(rows, whole.0);
    }
    for (limit, count) in [(0, 1), (1, 1), (25, 25), (10_000, 25)] {
        assert_eq!(
            index.list(ListQuery { limit: Some(limit), ..ListQuery::default() }).await.unwrap().rows.len(),
            count
        );
    }
    let bad = ListQuery { cursor: Some("7".into()), ..ListQuery::default() };
    assert!(matches!(index.list(bad).await, Err(IndexError::BadCursor)));
}

#[tokio::test]
async fn sessions_are_found_by_id_or_its_end() {
    let home = Home::new();
    for id in ["01a22bed-aaaa", "01a22bed-bbba", "aaaa"] {
        home.session("a", id, &[]);
    }
    let index = home.open();
    index.settled().await;
    for (query, expected) in [
        ("01a22bed-aaaa", vec!["01a22bed-aaaa"]),
        ("aaaa", vec!["aaaa"]),
        ("-aaaa", vec!["01a22bed-aaaa"]),
        ("bba", vec!["01a22bed-bbba"]),
        ("a", vec!["01a22bed-aaaa", "01a22bed-bbba", "aaaa"]),
        ("01a22bed", vec![]),
        ("%", vec![]),
        ("", vec![]),
    ] {
        let rows = index.find(query).await.unwrap();
        let mut found: Vec<&str> = rows.iter().map(|row| row.session_id.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test]
async fn changed_files_are_read_on_from_where_the_row_ends() {
    let home = Home::new();
    let file = home.session("a", "s1", &[user("1", 1, "x")]);
    let index = home.open();
    index.settled().await;
    let count = || async { index.list(ListQuery::default()).await.unwrap().rows[0].message_count };
    let again = || async {
        index.reconcile();
        index.settled().await;
    };
    assert_eq!(count().await, 1);
    append(&file, &user("2", 2, "y"));
    again().await;
    assert_eq!(count().await, 2);
    // A line that is being written counts when it is whole, and once.
    let line = user("3", 3, "z");
    append(&file, &line[..20]);
    again().await;
    assert_eq!(count().await, 2);
    append(&file, &line[20..line.len() - 1]);
    again().await;
    assert_eq!(count().await, 3);
    append(&file, &format!("\n{}", user("4", 4, "w")));
    again().await;
    assert_eq!(count().await, 4);
    // Another content in the same file.
    home.session(
        "a",
        "s1",
        &[
            user("1", 1, "x"),
            user("2", 2, "a much longer text than all that was there before, so that it grows"),
            user("3", 3, "the file is longer now than it was and has another content altogether"),
        ],
    );
    again().await;
    assert_eq!(count().await, 3);
    // No session any more.
    fs::write(&file, "something else\n").unwrap();
    again().await;
    assert_eq!(ids(&index).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_older_reading_does_not_undo_what_a_session_said_later() {
    let home = Home::new();
    let file = home.session("a", "s1", &[user("1", 1, "x")]);
    let mut database = database::open(None, false).unwrap().0;
    let _ = &mut database;
    let mut connection = database.lock();
    let tx = connection.transaction().unwrap();
    let read = read::read_facts(&file).unwrap();
    append(&file, &user("2", 2, "y"));
    let later = read::read_facts(&file).unwrap();
    let put = |facts, source| {
        let mut told = Vec::new();
        rows::put(&tx, facts, source, &mut told).unwrap();
        told.len()
    };
    assert_eq!(put(&later, rows::Source::Session), 1);
    assert_eq!(put(&read, rows::Source::Scan), 0);
    assert_eq!(rows::known(&tx, &file).unwrap().unwrap().facts.message_count, 2);
    // Unless the file became shorter.
    fs::write(&file, &fs::read(&file).unwrap()[..read.len as usize]).unwrap();
    assert_eq!(put(&read, rows::Source::Scan), 1);
    assert_eq!(rows::known(&tx, &file).unwrap().unwrap().facts, read);
}

#[tokio::test]
async fn deleted_files_leave_and_unreadable_folders_do_not() {
    let home = Home::new();
    let gone = home.session("a", "s1", &[]);
    home.session("b", "s2", &[]);
    let elsewhere = home.dir.path().join("elsewhere.jsonl");
    fs::copy(&gone, &elsewhere).unwrap();
    let index = home.open();
    index.settled().await;
    index.record(facts(&elsewhere, "s3", 1));
    assert_eq!(ids(&index).await.len(), 3);
    fs::remove_file(&gone).unwrap();
    index.reconcile();
    index.settled().await;
    assert_eq!(
        ids(&index).await.into_iter().collect::<HashSet<_>>(),
        HashSet::from(["s2".to_owned(), "s3".to_owned()])
    );
    let rows = index.list(ListQuery::default()).await.unwrap().rows;
    assert!(rows.iter().any(|row| row.path == elsewhere), "a session outside of the roots stays");

    // A folder in whose place there is something else for a moment, as while a disk is being mounted.
    let b = home.root().join("b");
    fs::set_permissions(&b, Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&b).is_err() {
        index.reconcile();
        index.settled().await;
        assert_eq!(ids(&index).await.len(), 2);
    }
    fs::set_permissions(&b, Permissions::from_mode(0o700)).unwrap();
    fs::remove_dir_all(home.root()).unwrap();
    index.reconcile();
    index.settled().await;
    assert_eq!(ids(&index).await.len(), 1);
}

/// Whatever is done to the database between two starts, all sessions are listed, and the old file is kept.
#[tokio::test]
async fn a_database_in_any_state_is_made_again() {
    type Damage = (&'static str, fn(&Path), bool);
    let damages: [Damage; 9] = [
        ("deleted", |db| fs::remove_file(db).unwrap(), false),
        ("random bytes", |db| fs::write(db, noise(20_000)).unwrap(), true),
        ("cut to 100 bytes", |db| OpenOptions::new().write(true).open(db).unwrap().set_len(100).unwrap(), true),
        ("empty", |db| fs::write(db, "").unwrap(), false),
        (
            "cut in half",
            |db| {
                let len = fs::metadata(db).unwrap().len();
                OpenOptions::new().write(true).open(db).unwrap().set_len(len / 2).unwrap();
            },
            true,
        ),
        (
            "another program's",
            |db| {
                fs::remove_file(db).unwrap();
                Connection::open(db).unwrap().execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
            },
            true,
        ),
        (
            "another version's",
            |db| Connection::open(db).unwrap().execute_batch("PRAGMA user_version = 99").unwrap(),
            true,
        ),
        ("without a table", |db| Connection::open(db).unwrap().execute_batch("DROP TABLE totals").unwrap(), true),
        (
            "a folder",
            |db| {
                fs::remove_file(db).unwrap();
                fs::create_dir(db).unwrap();
            },
            true,
        ),
    ];
    for (name, damage, is_kept) in damages {
        let home = Home::new();
        for number in 0..60 {
            home.session("a", &format!("s{number}"), &[user("1", number, &"long text ".repeat(30))]);
        }
        let index = home.open();
        index.settled().await;
        index.close().await;
        damage(&home.db());
        let index = home.open();
        index.settled().await;
        assert_eq!(list(&index, ListQuery::default()).await.1, 60, "{name}");
        assert_eq!(index.status(), "ready", "{name}");
        assert_eq!(with_suffix(&home.db(), ".broken").exists(), is_kept, "{name}");
        index.close().await;
    }
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

#[tokio::test]
async fn a_log_that_was_lost_or_is_of_another_database_harms_nothing() {
    let home = Home::new();
    for number in 0..50 {
        home.session("a", &format!("s{number}"), &[user("1", number, "x")]);
    }
    // As after kill -9: the database and its log are copied while they are open.
    let index = home.open();
    index.settled().await;
    let copy = |suffix: &str, to: &Path| fs::copy(with_suffix(&home.db(), suffix), with_suffix(to, suffix));
    let killed = home.dir.path().join("killed.sqlite");
    copy("", &killed).unwrap();
    let has_log = copy("-wal", &killed).is_ok();
    index.close().await;
    if has_log {
        let index = Index::open(&killed, vec![home.root()], ListLog::new(0));
        index.settled().await;
        assert_eq!(list(&index, ListQuery::default()).await.1, 50);
        index.close().await;
    }

    // The log of another database beside it.
    let other = home.dir.path().join("other.sqlite");
    let connection = Connection::open(&other).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE other (x); PRAGMA user_version = 7").unwrap();
    for _ in 0..200 {
        connection.execute("INSERT INTO other VALUES (randomblob(500))", []).unwrap();
    }
    fs::copy(with_suffix(&other, "-wal"), with_suffix(&home.db(), "-wal")).unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(list(&index, ListQuery::default()).await.1, 50);
    assert_eq!(index.status(), "ready");
    index.close().await;
}

#[tokio::test]
async fn a_database_lost_while_it_is_open_is_made_again() {
    let home = Home::new();
    for number in 0..100 {
        home.session("a", &format!("s{number}"), &[user("1", number, "x")]);
    }
    let index = home.open();
    index.settled().await;
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(with_suffix(&home.db(), suffix));
    }
    let late = home.session("a", "late", &[]);
    index.record(facts(&late, "late", 1_000));
    assert!(ids(&index).await.contains(&"late".to_owned()));
    index.settled().await;
    assert_eq!(list(&index, ListQuery::default()).await.1, 101);
    assert!(home.db().exists());

    // Damaged under our hands, behind the page cache of the connections.
    index.close().await;
    let index = home.open();
    index.settled().await;
    index.flush().await;
    let len = fs::metadata(home.db()).unwrap().len() as usize;
    OpenOptions::new().write(true).open(home.db()).unwrap().write_all(&noise(len)).unwrap();
    let page = index.list(ListQuery { text: Some("x".into()), ..ListQuery::default() }).await;
    assert!(page.is_ok(), "{page:?}");
    index.settled().await;
    assert_eq!(list(&index, ListQuery::default()).await.1, 101);
}

/// A reader finds out by itself; nothing has to be written first.
#[tokio::test]
async fn a_database_cut_to_nothing_while_it_is_open_is_made_again() {
    let home = Home::new();
    for number in 0..20 {
        home.session("a", &format!("s{number}"), &[user("1", number, "x")]);
    }
    let index = home.open();
    index.settled().await;
    index.close().await;
    let index = home.open();
    index.settled().await;
    index.flush().await;
    for suffix in ["", "-wal"] {
        if let Ok(file) = OpenOptions::new().write(true).open(with_suffix(&home.db(), suffix)) {
            file.set_len(0).unwrap();
        }
    }
    let page = index.list(ListQuery::default()).await;
    assert!(page.is_ok(), "{page:?}");
    index.settled().await;
    assert_eq!(list(&index, ListQuery::default()).await.1, 20);
    assert_eq!(index.status(), "ready");
}

/// Two daemons with one state folder that start together share the index that one of them makes.
#[test]
fn an_index_made_by_two_at_once_is_made_once() {
    for _ in 0..20 {
        let home = Home::new();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let (_database, amiss) = database::open(Some(&home.db()), false).unwrap();
                    assert_eq!(amiss, None);
                });
            }
        });
        assert!(!with_suffix(&home.db(), ".broken").exists(), "one of them took the other's for broken");
    }
}

#[tokio::test]
async fn without_a_place_for_a_file_the_list_is_kept_in_memory() {
    let home = Home::new();
    home.session("a", "s1", &[user("1", 1, "x")]);
    // A file where the folder should be.
    fs::write(home.dir.path().join("state"), "in the way").unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(ids(&index).await, ["s1"]);
    assert!(index.status().starts_with("ready; in memory, for "), "{}", index.status());
    let file = home.session("a", "s2", &[]);
    index.record(facts(&file, "s2", 9));
    assert_eq!(ids(&index).await, ["s2", "s1"]);
    index.close().await;
    assert_eq!(ids(&index).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_read_only_database_is_replaced_or_kept_in_memory() {
    let home = Home::new();
    home.session("a", "s1", &[]);
    let index = home.open();
    index.settled().await;
    index.close().await;
    fs::set_permissions(home.db(), Permissions::from_mode(0o400)).unwrap();
    let index = home.open();
    index.settled().await;
    home.session("a", "s2", &[]);
    index.reconcile();
    index.settled().await;
    assert_eq!(ids(&index).await.len(), 2);
    index.close().await;
    // The folder, too.
    let state = home.db().parent().unwrap().to_owned();
    fs::set_permissions(&state, Permissions::from_mode(0o500)).unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(ids(&index).await.len(), 2);
    index.close().await;
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn all_its_files_are_private() {
    let home = Home::new();
    home.session("a", "s1", &[]);
    let index = home.open();
    index.settled().await;
    index.flush().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut count = 0;
    for entry in fs::read_dir(home.db().parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        count += 1;
    }
    assert!(count >= 2, "the log was there to be looked at");
    assert_eq!(mode(home.db().parent().unwrap()), 0o700);
    index.close().await;
    // A file that was left open to others is closed.
    fs::set_permissions(home.db(), Permissions::from_mode(0o644)).unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(mode(&home.db()), 0o600);
}

#[tokio::test]
async fn the_log_does_not_stay_large() {
    let home = Home::new();
    let index = home.open();
    index.settled().await;
    let reader = Connection::open(home.db()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM sessions").unwrap();
    let file = home.session("a", "s1", &[]);
    let mut facts = facts(&file, "s1", 0);
    for number in 0..4_000_i64 {
        facts.modified = number;
        facts.first_message = Some(format!("{number} {}", "x".repeat(190)));
        index.record(facts.clone());
        if number % 4 == 0 {
            index.flush().await;
        }
    }
    index.flush().await;
    let log = with_suffix(&home.db(), "-wal");
    let held = fs::metadata(&log).unwrap().len();
    assert!(held > 4 << 20, "a reader holds it back: {held}");
    reader.execute_batch("COMMIT").unwrap();
    drop(reader);
    let give_up = Instant::now() + Duration::from_secs(30);
    while fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        assert!(Instant::now() < give_up, "the log stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    index.close().await;
    assert!(!log.exists());
}

#[tokio::test]
async fn more_than_can_be_written_is_made_up_for() {
    let home = Home::new();
    let index = home.open();
    index.settled().await;
    // The writer waits for this one.
    let blocker = Connection::open(home.db()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    for number in 0..2_200 {
        let id = format!("s{number}");
        let file = home.session("a", &id, &[user("1", number, "x")]);
        index.record(facts(&file, &id, number));
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "recording never waits");
    blocker.execute_batch("COMMIT").unwrap();
    index.flush().await;
    index.settled().await;
    assert_eq!(list(&index, ListQuery::default()).await.1, 2_200);
}

#[tokio::test]
async fn dropping_ends_the_threads() {
    let home = Home::new();
    for number in 0..50 {
        home.session("a", &format!("s{number}"), &[user("1", number, "x")]);
    }
    let index = home.open();
    index.flush().await;
    drop(index);
    let give_up = Instant::now() + Duration::from_secs(30);
    while with_suffix(&home.db(), "-wal").exists() {
        assert!(Instant::now() < give_up, "the writer does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_lists_number_never_falls_behind() {
    let home = Home::new();
    let file = home.session("a", "s1", &[]);
    let index = home.open();
    index.settled().await;
    let first = index.list(ListQuery::default()).await.unwrap().revision;
    index.record(facts(&file, "s1", 4));
    let second = index.list(ListQuery::default()).await.unwrap().revision;
    index.close().await;
    let index = home.open();
    index.settled().await;
    let third = index.list(ListQuery::default()).await.unwrap().revision;
    index.close().await;
    fs::remove_file(home.db()).unwrap();
    let index = home.open();
    index.settled().await;
    let fourth = index.list(ListQuery::default()).await.unwrap().revision;
    assert!(first < second && second <= third && third <= fourth, "{first} {second} {third} {fourth}");
}

#[derive(Clone, Debug)]
enum Step {
    Put { file: u8, id: u8, modified: i64, cwd: u8 },
    Remove(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..8, 0_u8..4, 0_i64..20, 0_u8..3).prop_map(|(file, id, modified, cwd)| Step::Put { file, id, modified, cwd }),
        1 => (0_u8..8).prop_map(Step::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order: totals count the rows, every id is shown once, one file of each session has
    /// its id, and that is the one named after it if there is one. What is told of the changes makes up the list.
    #[test]
    fn rows_counts_and_ids_agree(steps in proptest::collection::vec(any_step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let path = |file: u8| dir.path().join(if file < 4 { format!("2026_i{file}.jsonl") } else { format!("copy{file}.jsonl") });
        for file in 0..8 {
            fs::write(path(file), "").unwrap();
        }
        let database = database::open(None, false).unwrap().0;
        let mut connection = database.lock();
        let mut expected = BTreeMap::new();
        let mut list = BTreeMap::new();
        for step in &steps {
            let mut told = Vec::new();
            let tx = connection.transaction().unwrap();
            match step {
                Step::Put { file, id, modified, cwd } => {
                    let mut facts = facts(&path(*file), &format!("i{id}"), *modified);
                    facts.cwd = format!("/w{cwd}");
                    rows::put(&tx, &facts, rows::Source::Session, &mut told).unwrap();
                    expected.insert(path(*file), (format!("i{id}"), facts.cwd));
                }
                Step::Remove(file) => {
                    rows::remove(&tx, &path(*file), &mut told).unwrap();
                    prop_assert_eq!(!told.is_empty(), expected.remove(&path(*file)).is_some());
                }
            }
            for told in told {
                match told {
                    Told::Put { row, is_new } => {
                        let before = list.insert(row.session_id.clone(), row.clone());
                        prop_assert_eq!(before.is_none(), is_new);
                        prop_assert_ne!(before, Some(row), "what says nothing new is not told");
                    }
                    Told::Gone(id) => prop_assert!(list.remove(&id).is_some()),
                }
            }
            tx.commit().unwrap();
        }
        let shared = database.shared();
        drop(connection);
        let reader = Reader::default();
        reader.use_memory(shared);
        let page = reader.list(&ListQuery::default()).unwrap();
        let listed: BTreeMap<_, _> = page.rows.iter().map(|row| (row.session_id.clone(), row.clone())).collect();
        prop_assert_eq!(list, listed);
        prop_assert_eq!(page.total as usize, expected.len());
        prop_assert_eq!(page.rows.len(), expected.len());
        for cwd in ["/w0", "/w1", "/w2"] {
            let page = reader.list(&ListQuery { cwd: Some(cwd.into()), ..ListQuery::default() }).unwrap();
            let count = expected.values().filter(|(_, of)| of == cwd).count();
            prop_assert_eq!((page.total as usize, page.rows.len()), (count, count));
        }
        let shown: HashSet<_> = page.rows.iter().map(|row| row.session_id.clone()).collect();
        prop_assert_eq!(shown.len(), expected.len());
        for id in 0..4 {
            let id = format!("i{id}");
            let files: Vec<_> = expected.iter().filter(|(_, (of, _))| *of == id).map(|(file, _)| file.clone()).collect();
            let named = files.iter().find(|file| file.ends_with(format!("2026_{id}.jsonl")));
            let found = reader.find(&id).unwrap();
            let found = found.first().map(|row| &row.path);
            match named {
                Some(named) => prop_assert_eq!(found, Some(named)),
                None => prop_assert_eq!(found.is_some_and(|found| files.contains(found)), !files.is_empty()),
            }
        }
    }
}
