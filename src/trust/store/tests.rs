use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use pretty_assertions::assert_eq;

use super::super::Decision;
use super::*;

struct Place {
    root: PathBuf,
    store: TrustStore,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("p/sub")).unwrap();
        Self { store: TrustStore::new(&root.join("state")), root, _dir: dir }
    }

    fn decide(&self, dir: &str, decision: Decision) -> Result<PathBuf, TrustError> {
        self.store.decide(&self.root.join(dir), decided(decision))
    }

    /// Asks a store that has just been made, as after a restart.
    #[track_caller]
    fn check(&self, dir: &str, expected: Option<Decision>) {
        let store = TrustStore::new(&self.root.join("state"));
        assert_eq!(store.lookup(&self.root.join(dir)).unwrap().decision, expected, "{dir}");
    }
}

fn decided(decision: Decision) -> Decided {
    Decided::new(decision, 7, Some("test".to_owned()))
}

#[test]
fn b183_a_decision_holds_for_every_spelling_and_after_a_restart() {
    for decision in [Decision::No, Decision::Yes] {
        let place = Place::new();
        place.check("p", None);
        symlink(place.root.join("p"), place.root.join("link")).unwrap();
        assert_eq!(place.decide("link/sub/../", decision).unwrap(), place.root.join("p"));
        for spelling in ["p", "p/", "link", "link//", "p/sub/..", "p/sub", "link/sub", "p/gone/deeper"] {
            place.check(spelling, Some(decision));
        }
        for other in ["", "P", "pp", "gone"] {
            place.check(other, None);
        }
    }
}

#[test]
fn b183_the_nearest_decision_wins_until_it_is_taken_back() {
    let place = Place::new();
    place.decide("p", Decision::Yes).unwrap();
    place.decide("p/sub", Decision::No).unwrap();
    place.check("p/sub/x", Some(Decision::No));
    let forgotten = place.store.forget(&place.root.join("p/sub/")).unwrap();
    assert_eq!(forgotten, (place.root.join("p/sub"), Some(decided(Decision::No))));
    place.check("p/sub/x", Some(Decision::Yes));
    assert_eq!(place.store.forget(&place.root.join("p/sub")).unwrap().1, None);
    // A folder that is gone, and may come back as another one.
    fs::remove_dir_all(place.root.join("p")).unwrap();
    place.check("p", Some(Decision::Yes));
    assert!(place.store.forget(&place.root.join("p")).unwrap().1.is_some());
    fs::create_dir(place.root.join("p")).unwrap();
    place.check("p", None);
}

#[test]
fn b183_a_folder_that_became_a_link_stays_denied() {
    let place = Place::new();
    place.decide("", Decision::Yes).unwrap();
    place.decide("p", Decision::No).unwrap();
    fs::rename(place.root.join("p"), place.root.join("moved")).unwrap();
    symlink("moved", place.root.join("p")).unwrap();
    for dir in ["p", "p/sub", "moved", "moved/sub"] {
        place.check(dir, Some(Decision::No));
    }
    place.check("", Some(Decision::Yes));
}

#[test]
fn b183_a_store_that_cannot_be_used_trusts_nothing_and_is_left_alone() {
    let place = Place::new();
    place.decide("p", Decision::Yes).unwrap();
    let whole = fs::read_to_string(place.store.path()).unwrap();
    let (cut, no_text) = (&whole.as_bytes()[..whole.len() / 2], b"{\"folders\": {}}\xff".as_slice());
    for damage in [b"".as_slice(), b"null", cut, no_text] {
        fs::write(place.store.path(), damage).unwrap();
        assert!(!place.store.is_trusted(&place.root.join("p")));
        assert!(matches!(place.decide("p", Decision::Yes), Err(TrustError::Unreadable { .. })));
        assert!(matches!(place.store.forget(&place.root.join("p")), Err(TrustError::Unreadable { .. })));
        assert_eq!(fs::read(place.store.path()).unwrap(), damage);
    }
    fs::write(place.store.path(), format!("\u{feff}{whole}")).unwrap();
    assert!(place.store.is_trusted(&place.root.join("p")));
}

#[test]
fn b212_a_planted_link_is_neither_read_nor_written() {
    let place = Place::new();
    let planted = place.root.join("planted");
    place.decide("p", Decision::Yes).unwrap();
    fs::rename(place.store.path(), &planted).unwrap();
    symlink(&planted, place.store.path()).unwrap();
    assert!(!place.store.is_trusted(&place.root.join("p")));
    let before = fs::read(&planted).unwrap();
    place.decide("p/sub", Decision::No).unwrap_err();
    assert_eq!(fs::read(&planted).unwrap(), before);
    // One that leads nowhere yet is no store that is still to be made.
    fs::remove_file(&planted).unwrap();
    place.decide("p/sub", Decision::No).unwrap_err();
    assert!(!planted.exists());
}

#[test]
fn only_the_user_may_read_it() {
    let place = Place::new();
    place.decide("p", Decision::Yes).unwrap();
    for (path, mode) in [(place.store.path(), 0o600), (&place.root.join("state"), 0o700)] {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode, "{}", path.display());
    }
}

#[test]
fn only_folders_that_are_there_are_decided_about() {
    let place = Place::new();
    fs::write(place.root.join("file"), "").unwrap();
    for path in ["file", "gone"] {
        assert!(matches!(place.decide(path, Decision::Yes), Err(TrustError::NotAFolder(_))), "{path}");
    }
    assert!(matches!(place.store.decide(Path::new("p"), decided(Decision::Yes)), Err(TrustError::Relative(_))));
    assert!(!place.store.path().exists());
}

/// Several stores and somebody who edits by hand, at once: every decision is there at the end.
#[test]
fn b183_writers_at_once_lose_nothing() {
    const EACH: usize = 25;
    let place = Place::new();
    let folder = |writer: usize, number: usize| place.root.join(format!("p/{writer}-{number}"));
    for (writer, number) in (0..4).flat_map(|writer| (0..EACH).map(move |number| (writer, number))) {
        fs::create_dir(folder(writer, number)).unwrap();
    }
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = TrustStore::new(&place.root.join("state"));
            scope.spawn(move || {
                for number in 0..EACH {
                    store.decide(&folder(writer, number), decided(Decision::No)).unwrap();
                }
            });
        }
    });
    assert_eq!(place.store.load().unwrap().all().count(), 4 * EACH);
}

#[test]
fn a_change_by_hand_between_reading_and_writing_is_kept() {
    let place = Place::new();
    place.decide("p", Decision::Yes).unwrap();
    let by_hand = r#"{"folders": {"/by/hand": {"decision": "no"}}}"#;
    let edits = std::cell::Cell::new(0);
    place
        .store
        .change(|decisions| {
            // What an editor does after the first reading.
            if edits.replace(edits.get() + 1) == 0 {
                fs::write(place.store.path(), by_hand).unwrap();
            }
            decisions.set("/ours".into(), decided(Decision::No));
        })
        .unwrap();
    let folders: Vec<PathBuf> = place.store.load().unwrap().all().map(|(path, _)| path.to_owned()).collect();
    assert_eq!(folders, [Path::new("/by/hand"), Path::new("/ours")]);
    assert_eq!(edits.get(), 2);
}
