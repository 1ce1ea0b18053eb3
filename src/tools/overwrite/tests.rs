use pretty_assertions::assert_eq;

use super::*;

/// A folder with a file `f` of some content, and a record of its overwriting that a kill has left behind.
fn left_behind(old: &str, new: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (path, records) = (dir.path().join("f"), dir.path().join("records"));
    fs::write(&path, old).unwrap();
    let file = File::open(&path).unwrap();
    let metadata = file.metadata().unwrap();
    let old_file = Overwritten { file: &file, path: &path, metadata: &metadata };
    let record = Record::write(&records, &old_file, old.as_bytes(), &[new.as_bytes()]).unwrap();
    fs::copy(&record.path, records.join(format!("left{SUFFIX}"))).unwrap();
    (dir, path, records)
}

fn count(records: &Path) -> usize {
    records.read_dir().unwrap().count()
}

/// Mends a file that the end found in this state.
#[track_caller]
fn check(old: &str, new: &str, found: &str, mended: &str) {
    let (_dir, path, records) = left_behind(old, new);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    write_at_start(&file, &[found.as_bytes()], found.len() as u64).unwrap();
    mend_overwritten(&records);
    assert_eq!(fs::read_to_string(&path).unwrap(), mended, "{old:?} to {new:?}, found {found:?}");
    assert_eq!(count(&records), 0);
}

#[test]
fn a_mix_becomes_the_old_content_and_all_else_stays() {
    for (old, new) in [("abcdef", "ABCDEF"), ("abcdef", "ABC"), ("abc", "ABCDEF"), ("", "ABC"), ("abc", "")] {
        for written in 0..=new.len() {
            let mix = format!("{}{}", &new[..written], old.get(written..).unwrap_or_default());
            check(old, new, &mix, if mix == new { new } else { old });
        }
        check(old, new, "something else", "something else");
    }
    check("abcdef", "ABCDEF", "abCDef", "abcdef"); // the undoing was cut short, too
    check("abc", "ABCDEF", "aBCDE", "abc");
    // Somebody took one of three changes back.
    check("0 - 0 - 0", "1 - 1 - 1", "1 - 0 - 1", "1 - 0 - 1");
    check("abcdef", "ABCDEF", "ABCdeX", "ABCdeX");
    check("abcdef", "ABCDEF", "ABCdefg", "ABCdefg");
}

#[test]
fn another_file_in_its_place_stays() {
    let (dir, path, records) = left_behind("abc", "ABC");
    fs::write(dir.path().join("other"), "Abc").unwrap();
    fs::rename(dir.path().join("other"), &path).unwrap();
    mend_overwritten(&records);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(&records)), ("Abc", 0));
    let (_dir, path, records) = left_behind("abc", "ABC");
    fs::remove_file(&path).unwrap();
    mend_overwritten(&records);
    assert_eq!(count(&records), 0);
}

#[test]
fn a_record_that_is_not_whole_means_nothing() {
    let (_dir, path, records) = left_behind("abc", "ABC");
    let record = records.join(format!("left{SUFFIX}"));
    let whole = fs::read(&record).unwrap();
    fs::write(&path, "Abc").unwrap();
    for length in 0..whole.len() {
        fs::write(&record, &whole[..length]).unwrap();
        mend_overwritten(&records);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(&records)), ("Abc", 0), "{length} bytes");
    }
}

#[test]
fn a_record_whose_writer_lives_is_left_alone() {
    let (_dir, path, records) = left_behind("abc", "ABC");
    fs::write(&path, "Abc").unwrap();
    let writer = File::open(records.join(format!("left{SUFFIX}"))).unwrap();
    writer.lock().unwrap();
    mend_overwritten(&records);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(&records)), ("Abc", 1));
    drop(writer);
    mend_overwritten(&records);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(&records)), ("abc", 0));
}
