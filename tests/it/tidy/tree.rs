//! Sizes, names and completeness of files.

use std::path::Path;

use agentd_protocol::methods::REGISTRY;

use super::{assert_none, read, root, rust_files};

/// Longest file, in lines.
const MAX_LINES: usize = 800;
/// Longest `main.rs` of the daemon.
const MAX_MAIN_LINES: usize = 100;
/// Longest map of the code, in lines: it is reread at each milestone.
const MAX_ARCHITECTURE_LINES: usize = 250;

/// No example needs it, so where it stands it came from somebody's terminal.
const HOME_OF_ROOT: &str = concat!("/ro", "ot/");

#[test]
fn no_file_is_too_long() {
    let mut faults = Vec::new();
    for file in ["src", "clients", "tests"].iter().flat_map(|dir| rust_files(dir)) {
        let lines = read(&file).lines().count();
        if lines > MAX_LINES {
            faults.push(format!("{}: {lines} lines; split it", file.display()));
        }
    }
    assert_none(&faults);
    assert!(read(Path::new("src/main.rs")).lines().count() < MAX_MAIN_LINES, "main.rs is only an entrance");
    assert!(read(Path::new("ARCHITECTURE.md")).lines().count() < MAX_ARCHITECTURE_LINES, "the map is too long to read");
}

#[test]
fn mod_files_hold_no_code() {
    let mut faults = Vec::new();
    for file in ["src", "clients"].iter().flat_map(|dir| rust_files(dir)) {
        if file.file_name().is_none_or(|name| name != "mod.rs") {
            continue;
        }
        let text = read(&file);
        for line in text
            .lines()
            .filter(|line| line.starts_with("fn ") || line.starts_with("impl") || line.starts_with("struct "))
        {
            faults.push(format!("{}: {line}", file.display()));
        }
    }
    assert_none(&faults);
}

#[test]
fn every_file_of_the_tests_is_a_module() {
    let mut faults = Vec::new();
    for file in rust_files("tests/it") {
        if file.ends_with("main.rs") {
            continue;
        }
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let dir = file.parent().unwrap();
        // `x/mod.rs` belongs to the file above `x`, everything else to `x.rs` or `x/mod.rs` of its folder `x`.
        let (name, dir) = if stem == "mod" {
            (dir.file_name().unwrap().to_str().unwrap(), dir.parent().unwrap())
        } else {
            (stem, dir)
        };
        let parents = [dir.join("mod.rs"), dir.with_extension("rs"), dir.join("main.rs")];
        let declared =
            parents.iter().filter(|parent| root().join(parent).is_file()).any(|parent| declares(&read(parent), name));
        if !declared {
            faults.push(format!("{}: nobody says `mod {name};`, so it is never run", file.display()));
        }
    }
    assert_none(&faults);
}

/// Each method has its place in the documentation.
#[test]
fn every_method_has_its_page() {
    let pages: String = std::fs::read_dir(root().join("proto-docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let missing = REGISTRY.iter().filter(|method| !pages.contains(&format!("`{}`", method.name)));
    let faults: Vec<String> = missing.map(|method| format!("{}: not in proto-docs", method.name)).collect();
    assert_none(&faults);
}

#[test]
fn no_path_of_a_machine_is_in_the_tree() {
    // Where this checkout is; a very short path would be found in ordinary text.
    let own = (root().iter().count() > 2).then(|| root().display().to_string() + "/");
    let mut files: Vec<_> = ["src", "clients", "tests"].iter().flat_map(|dir| rust_files(dir)).collect();
    files.extend(std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into()).filter(
        |name: &std::path::PathBuf| name.extension().is_some_and(|extension| extension == "md" || extension == "toml"),
    ));
    let mut faults = Vec::new();
    for file in files {
        let text = read(&file);
        for line in text
            .lines()
            .filter(|line| own.as_ref().is_some_and(|own| line.contains(own)) || line.contains(HOME_OF_ROOT))
        {
            faults.push(format!("{}: {}", file.display(), line.trim()));
        }
    }
    assert_none(&faults);
}

fn declares(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        line.strip_prefix("mod ")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with([';', ' ']))
    })
}
