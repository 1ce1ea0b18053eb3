//! Where files of a session lie. Pure.

use std::path::{Path, PathBuf};

use agentd_protocol::SessionId;

use super::record::format_timestamp;

/// Longest file name that common file systems take, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Returns where a new session's file goes: pi's folder per working directory, pi's file name.
pub fn session_path(sessions_dir: &Path, cwd: &Path, timestamp_ms: i64, id: &SessionId) -> PathBuf {
    let time = format_timestamp(timestamp_ms).replace([':', '.'], "-");
    sessions_dir.join(cwd_folder(cwd)).join(format!("{time}_{}.jsonl", file_stem(id)))
}

/// Returns the folder of a working directory's sessions: `--home-me-project--` for `/home/me/project`.
pub fn cwd_folder(cwd: &Path) -> String {
    let text = cwd.to_string_lossy();
    let text = text.strip_prefix(['/', '\\']).unwrap_or(&text);
    let name = format!("--{}--", text.replace(['/', '\\', ':'], "-"));
    if name.len() <= MAX_NAME_BYTES { name } else { shortened(&name) }
}

/// Tells how much a file looks like the one that a program made for a session: its name ends in the id, it is the
/// whole name, and the folder is that of the working directory. Who copies a file changes one of these. More is more
/// alike; 0 to 7.
pub fn likeness(file: &Path, id: &SessionId, cwd: &str, created_ms: i64) -> u8 {
    let made = session_path(Path::new(""), Path::new(cwd), created_ms, id);
    let folder_fits = file.parent().and_then(Path::file_name) == made.parent().map(Path::as_os_str);
    4 * u8::from(is_named_after(file, id)) + 2 * u8::from(file.file_name() == made.file_name()) + u8::from(folder_fits)
}

fn is_named_after(file: &Path, id: &SessionId) -> bool {
    let stem = file.file_stem().unwrap_or_default().as_encoded_bytes();
    stem.strip_suffix(id.as_str().as_bytes()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"_"))
}

/// Returns where the crash journal of a session lies.
pub fn journal_path(journal_dir: &Path, id: &SessionId) -> PathBuf {
    journal_dir.join(format!("{}.journal", file_stem(id)))
}

/// Returns where the crash journal of a session file lies whose id another file has as well.
pub fn copy_journal_path(journal_dir: &Path, id: &SessionId, session_file: &Path) -> PathBuf {
    let place = fnv1a(session_file.as_os_str().as_encoded_bytes());
    journal_dir.join(format!("{}-{place:016x}.journal", file_stem(id)))
}

/// Returns the session's id as a part of a file name. Ids of foreign files can be any text, `../x` included.
fn file_stem(id: &SessionId) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let text = id.as_str();
    if (1..=128).contains(&text.len()) && text.chars().all(plain) {
        return text.to_owned();
    }
    let readable: String = text.chars().filter(|c| plain(*c)).take(64).collect();
    format!("{readable}-{:016x}", fnv1a(text.as_bytes()))
}

/// Keeps the end, which tells directories apart for people, and a hash of the whole, which does so for certain.
fn shortened(name: &str) -> String {
    let mut start = name.len() - (MAX_NAME_BYTES - "--0123456789abcdef-".len());
    while !name.is_char_boundary(start) {
        start += 1;
    }
    format!("--{:016x}-{}", fnv1a(name.as_bytes()), &name[start..])
}

/// FNV-1a: stable over builds, unlike the hashes of the standard library.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_new_session_lies_where_pi_puts_it() {
        let id = SessionId::new("01a22bed-0f6f-75d2-bfc3-96b58447c554");
        let path = session_path(Path::new("/s"), Path::new("/home/me/a:b\\c"), 1_796_033_286_000, &id);
        assert_eq!(
            path,
            Path::new("/s/--home-me-a-b-c--/2026-11-30T10-08-06-000Z_01a22bed-0f6f-75d2-bfc3-96b58447c554.jsonl")
        );
    }

    #[test]
    fn a_copy_looks_less_like_the_session_than_the_original() {
        let (id, cwd) = (SessionId::new("s1"), Path::new("/w"));
        let original = session_path(Path::new("/s"), cwd, 0, &id);
        let likeness = |path: &Path| likeness(path, &id, "/w", 0);
        let name = original.file_name().unwrap();
        let copies =
            [Path::new("/s/--a--").join(name), original.with_file_name("old_s1.jsonl"), "/s/--w--/a.jsonl".into()];
        let found: Vec<u8> = copies.iter().map(|copy| likeness(copy)).collect();
        assert_eq!((likeness(&original), found), (7, vec![6, 5, 1]));
    }

    #[test]
    fn long_directories_keep_apart_and_within_the_limit() {
        let long = format!("/{}", "é/".repeat(300));
        let (a, b) = (cwd_folder(Path::new(&format!("/a{long}"))), cwd_folder(Path::new(&format!("/b{long}"))));
        assert!(a.len() <= MAX_NAME_BYTES && b.len() <= MAX_NAME_BYTES);
        assert_ne!(a, b);
        assert!(a.ends_with("--"));
    }

    #[test]
    fn an_id_never_leaves_its_folder() {
        for id in ["../../etc/passwd", "a/b", "..", "", "x\0y", &"9".repeat(500)] {
            let path = journal_path(Path::new("/j"), &SessionId::new(id));
            assert_eq!(path.parent(), Some(Path::new("/j")), "{id:?}");
            assert!(path.file_name().unwrap().len() < MAX_NAME_BYTES);
        }
    }
}
