//! Version and build of the programs, and what to say when those of client and daemon differ.

use std::cmp::Ordering;

use crate::methods::PeerInfo;

/// Version of the programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Build of the programs: `YYYYMMDDhhmmss-revision` in a git checkout, `src-hash` elsewhere.
pub const BUILD: &str = env!("AGENTD_BUILD");
/// Version and build as `--version` shows them after the program's name.
pub const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("AGENTD_BUILD"), ")");

/// Describes a program of this build.
pub fn own_info(name: &str) -> PeerInfo {
    PeerInfo { name: name.to_owned(), version: VERSION.to_owned(), build: Some(BUILD.to_owned()) }
}

/// Says which side is older and what mends it; `None` when the builds are the same or the client does not tell its own.
pub fn build_mismatch(client: &PeerInfo, daemon: &PeerInfo) -> Option<String> {
    let (client_build, daemon_build) = (client.build.as_deref()?, daemon.build.as_deref()?);
    if client_build == daemon_build {
        return None;
    }
    let sides = format!(
        "client {} {} build {client_build}, daemon {} build {daemon_build}",
        client.name, client.version, daemon.version
    );
    Some(match compare(client, daemon) {
        Some(Ordering::Greater) => {
            format!("the daemon is older than this client ({sides}); run: agentctl daemon restart")
        }
        Some(Ordering::Less) => {
            format!("this client is older than the daemon ({sides}); restart the client, or install agentd again")
        }
        _ => format!("the daemon is of another build than this client ({sides}); run: agentctl daemon restart"),
    })
}

/// Compares two builds by version, then by commit time. `None` when neither tells.
fn compare(a: &PeerInfo, b: &PeerInfo) -> Option<Ordering> {
    match numbers(&a.version)?.cmp(&numbers(&b.version)?) {
        Ordering::Equal => Some(commit_time(a.build.as_deref()?)?.cmp(&commit_time(b.build.as_deref()?)?)),
        other => Some(other),
    }
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    let core = version.split(['-', '+']).next()?;
    core.split('.').map(|part| part.parse().ok()).collect()
}

fn commit_time(build: &str) -> Option<u64> {
    build.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(version: &str, build: Option<&str>) -> PeerInfo {
        PeerInfo { name: "x".into(), version: version.into(), build: build.map(Into::into) }
    }

    #[track_caller]
    fn check(client: (&str, Option<&str>), daemon: (&str, Option<&str>), expected: Option<&str>) {
        let text = build_mismatch(&peer(client.0, client.1), &peer(daemon.0, daemon.1));
        match expected {
            None => assert_eq!(text, None),
            Some(start) => assert!(text.as_deref().unwrap_or("").starts_with(start), "{text:?}"),
        }
    }

    #[test]
    fn the_older_side_is_named() {
        let (old, new) = (Some("20260101000000-aaa"), Some("20260201000000-bbb"));
        check(("0.1.0", new), ("0.1.0", old), Some("the daemon is older"));
        check(("0.1.0", old), ("0.1.0", new), Some("this client is older"));
        check(("0.2.0", old), ("0.10.0", old.map(|_| "20250101000000-ccc")), Some("this client is older"));
        check(("0.1.0", Some("src-1")), ("0.1.0", Some("src-2")), Some("the daemon is of another build"));
    }

    #[test]
    fn same_or_unknown_builds_are_no_mismatch() {
        check(("0.1.0", Some("src-1")), ("0.1.0", Some("src-1")), None);
        check(("0.1.0", None), ("0.1.0", Some("src-1")), None);
    }

    #[test]
    fn the_build_is_known() {
        assert!(!BUILD.is_empty());
        assert!(LONG_VERSION.starts_with(VERSION));
    }
}
