//! The program as it is started: its name, version and usage.
//!
//! This file has a second purpose: `cargo test --workspace` makes the programs only of packages that have such tests,
//! and the black-box tests of the workspace look for this one beside the daemon.
#![allow(clippy::unwrap_used, reason = "a test: a panic names the place")]
#![allow(clippy::disallowed_methods, reason = "a test starts the program itself")]

use std::process::{Command, Output};

fn agentctl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agentctl")).args(args).output().unwrap()
}

#[test]
fn version_names_program_and_build() {
    let output = agentctl(&["--version"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert_eq!(text, format!("agentctl {}\n", agentd_protocol::version::LONG_VERSION));
}

#[test]
fn a_wrong_command_line_is_refused_with_code_2() {
    let output = agentctl(&["no-such-verb"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}
