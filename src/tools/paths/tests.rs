use std::fs;

use pretty_assertions::assert_eq;

use super::*;

struct Place {
    dir: tempfile::TempDir,
    base: Base,
}

/// A working directory `w` with files, beside a home `h`.
fn place(files: &[&str]) -> Place {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    fs::create_dir_all(dir.path().join("w")).unwrap();
    let home = dir.path().join("h").to_str().unwrap().to_owned();
    let base = Base::new(&dir.path().join("w"), &[("HOME".to_owned(), home)]);
    Place { dir, base }
}

impl Place {
    #[track_caller]
    fn check_read(&self, written: &str, expected: &str) {
        assert_eq!(self.base.resolve_for_reading(written), self.dir.path().join(expected), "reading {written}");
    }

    #[track_caller]
    fn check_write(&self, written: &str, expected: &str) {
        assert_eq!(self.base.resolve_for_writing(written), self.dir.path().join(expected), "writing {written}");
    }
}

#[test]
fn exact_names_come_first() {
    let names = ["w/a\u{a0}b.txt", "w/a b.txt", "w/it\u{2019}s.md", "w/it's.md", "w/@x", "w/x"];
    let place = place(&names);
    for name in names {
        place.check_read(name.strip_prefix("w/").unwrap(), name);
        place.check_write(name.strip_prefix("w/").unwrap(), name);
    }
}

#[test]
fn a_single_look_alike_is_read_but_never_written() {
    let place = place(&["w/Shot 3.00\u{202f}p.m..png", "w/it\u{2019}s.md", "w/cafe\u{301}", "w/plain"]);
    place.check_read("Shot 3.00 p.m..png", "w/Shot 3.00\u{202f}p.m..png");
    place.check_read("it's.md", "w/it\u{2019}s.md");
    place.check_read("caf\u{e9}", "w/cafe\u{301}");
    place.check_write("it's.md", "w/it's.md");
    assert_eq!(place.base.look_alike("it's.md"), Some(place.dir.path().join("w/it\u{2019}s.md")));
    assert_eq!(place.base.look_alike("nothing"), None);
}

#[test]
fn of_several_look_alikes_none_is_taken() {
    let place = place(&["w/a\u{a0}b", "w/a\u{202f}b"]);
    place.check_read("a b", "w/a b");
}

#[test]
fn at_signs() {
    let place = place(&["w/src/a.ts", "w/@types/index.d.ts", "h/n"]);
    place.check_read("@src/a.ts", "w/src/a.ts");
    place.check_read("@types/index.d.ts", "w/@types/index.d.ts");
    place.check_write("@types/new.d.ts", "w/@types/new.d.ts");
    place.check_write("@src/new.ts", "w/src/new.ts");
    place.check_write("@new.ts", "w/new.ts");
    place.check_read("@~/n", "h/n");
    place.check_read("@", "w/@");
}

#[test]
fn homes() {
    let place = place(&["h/x", "w/~/y", "w/~/x"]);
    place.check_read("./~/y", "w/~/y");
    place.check_read("~/x", "w/~/x");
    place.check_read("~/z", "h/z");
    place.check_write("~/z", "h/z");
    place.check_read("~", "w/~");
    place.check_read("~nosuch/z", "w/~nosuch/z");
    place.check_read("~2", "w/~2");
}

#[test]
fn without_a_home_a_tilde_is_a_name() {
    let base = Base::new(Path::new("/w"), &[]);
    assert_eq!(base.resolve_for_reading("~/x"), Path::new("/w/~/x"));
    let relative = Base::new(Path::new("/w"), &[("HOME".to_owned(), "here".to_owned())]);
    assert_eq!(relative.resolve_for_reading("~/x"), Path::new("/w/~/x"));
}
