//! The pages of `proto-docs/`: what in them follows from the code is compared with it, and written anew when
//! `UPDATE_PAGES` is set.
//!
//! Such a part stands between a line `<!-- generated: KIND NAME -->` and a line `<!-- /generated -->`.

mod schema;
mod transcripts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use agentd_protocol::error_code::ERROR_CODES;
use agentd_protocol::methods::{MethodInfo, REGISTRY, Scope};
use pretty_assertions::assert_eq;

use schema::Types;

use crate::config::settings::{KEYS, Project};

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- /generated -->";
/// Set to write what the pages should say instead of comparing.
const UPDATE: &str = "UPDATE_PAGES";

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto-docs")
}

/// Reads all pages.
fn pages() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(dir()).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// Returns the names of the generated parts of a page, such as `method prompt`.
fn parts(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(" -->"))
}

/// Returns a page with its parts made anew.
fn regenerate(page: &str, mut make: impl FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        assert!(lines.any(|line| line == END), "{name} does not end");
        out += &format!("\n{}\n\n{END}\n", make(name).trim());
    }
    out
}

/// Compares a page with what it should be, or writes it.
fn settle(name: &str, found: &str, expected: &str) {
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(dir().join(name), expected).unwrap();
    } else {
        assert_eq!(found, expected, "proto-docs/{name} is out of date: run the tests once with {UPDATE}=1");
    }
}

#[tokio::test]
async fn pages_say_what_the_code_does() {
    let transcripts = transcripts::all().await;
    let mut shown = Vec::new();
    let pages = pages();
    let places: BTreeMap<&str, &str> =
        pages.iter().flat_map(|(name, page)| parts(page).map(move |part| (part, name.as_str()))).collect();
    let types = Types::new(&places);
    for (name, page) in &pages {
        let expected = regenerate(page, |part| {
            let (kind, what) = part.split_once(' ').unwrap_or((part, ""));
            match kind {
                "method" => method(what, &types),
                "methods" => index(&places),
                "errors" => errors(),
                "keys" => keys(),
                "type" => types.one(what),
                "types" => types.rest(),
                "transcript" => {
                    shown.push(what.to_owned());
                    transcripts.get(what).unwrap_or_else(|| panic!("{name}: no transcript {what}")).clone()
                }
                _ => panic!("{name}: nobody knows how to make {part:?}"),
            }
        });
        settle(name, page, &expected);
    }
    shown.sort_unstable();
    assert_eq!(shown, transcripts.keys().copied().collect::<Vec<_>>(), "each is shown once");
}

#[test]
fn every_method_has_its_place() {
    let pages = pages();
    let mut documented: Vec<&str> =
        pages.values().flat_map(|page| parts(page)).filter_map(|part| part.strip_prefix("method ")).collect();
    documented.sort_unstable();
    let mut all: Vec<&str> = REGISTRY.iter().map(|info| info.name).collect();
    all.sort_unstable();
    assert_eq!(documented, all);
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let mut faults = Vec::new();
    for (name, page) in &pages {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { name } else { target };
            let leads = match pages.get(target) {
                Some(text) => anchor.is_empty() || anchors(text).any(|found| found == anchor),
                None => dir().join(target).exists(),
            };
            if !leads {
                faults.push(format!("{name}: {link}"));
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
}

fn anchors(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    })
}

fn info(name: &str) -> &'static MethodInfo {
    REGISTRY.iter().find(|info| info.name == name).unwrap_or_else(|| panic!("no method {name}"))
}

fn method(name: &str, types: &Types) -> String {
    let info = info(name);
    let mut out = format!("### {name}\n\n{}\n\n", flow(info.doc));
    if info.waits {
        out += "Waits: later requests are served meanwhile, it can be cancelled, and it is refused in a batch.\n\n";
    }
    out += &types.fields("Parameter", &(info.params)(&mut types.generator()), &[]);
    let seq = ("seq", "integer", "Number of the last event that the answer reflects; those before are written first.");
    let more: &[_] = if info.scope == Scope::Session { &[seq] } else { &[] };
    out += &types.fields("Result", &(info.result)(&mut types.generator()), more);
    out
}

fn index(places: &BTreeMap<&str, &str>) -> String {
    let mut out = String::from("| Method | What it does |\n| --- | --- |\n");
    for info in REGISTRY {
        let page = places.get(format!("method {}", info.name).as_str()).unwrap_or(&"");
        writeln!(out, "| [`{0}`]({page}#{0}) | {1} |", info.name, flow(info.doc)).unwrap();
    }
    out
}

fn errors() -> String {
    let mut out = String::from("| Code | `data.kind` | Retryable | Meaning |\n| --- | --- | --- | --- |\n");
    for row in ERROR_CODES {
        let retryable = if row.retryable { "yes" } else { "no" };
        writeln!(out, "| {} | `{}` | {retryable} | {} |", row.code, row.name, row.meaning).unwrap();
    }
    out
}

fn keys() -> String {
    let mut out = String::from("| Key | What it may be | Default | Variable | Of | From the next | A project may |\n");
    out += "| --- | --- | --- | --- | --- | --- | --- |\n";
    for key in KEYS {
        let default = key.default.as_ref().map_or("unset".to_owned(), |value| format!("`{value}`"));
        let (scope, applies) = (key.scope.as_str(), key.applies.as_str());
        let project = match key.project {
            Project::Never => "not set it",
            Project::Stricter => "be stricter",
            Project::Any => "set it",
        };
        let (name, variable, expects) = (key.name, key.variable, key.kind.expects());
        writeln!(out, "| `{name}` | {expects} | {default} | `{variable}` | {scope} | {applies} | {project} |").unwrap();
    }
    for key in KEYS {
        write!(out, "\n- `{}`: {}", key.name, key.doc).unwrap();
        if !key.pi.is_empty() {
            let places: Vec<String> = key.pi.iter().map(|at| format!("`{}`", at[1..].replace('/', "."))).collect();
            write!(out, " pi: {}.", places.join(" or ")).unwrap();
        }
    }
    out
}

/// Joins the lines of a doc comment.
fn flow(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
