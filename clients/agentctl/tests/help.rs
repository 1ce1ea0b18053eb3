//! The installed program answers by itself, without a daemon. (What it does with one is tested from the workspace's
//! `tests/it`; this test also makes `cargo test --workspace` build the program, which those tests run.)

use std::process::Command;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts the program it is about")]
fn help_shows_the_verbs_that_matter_first() {
    let output = Command::new(env!("CARGO_BIN_EXE_agentctl")).arg("--help").output().expect("agentctl runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let places: Vec<_> = ["run", "attach", "send", "ls", "tail", "abort", "wait", "models", "daemon", "rpc"]
        .iter()
        .map(|verb| text.find(&format!("\n  {verb} ")).unwrap_or_else(|| panic!("{verb} is not in:\n{text}")))
        .collect();
    assert!(places.is_sorted(), "the ten verbs in order of use:\n{text}");
}
