use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::*;

fn env(vars: &[(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
    let vars = vars.to_vec();
    move |name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
}

#[track_caller]
fn check(vars: &[(&'static str, &'static str)], f: fn(Lookup<'_>) -> Option<PathBuf>, expected: &str) {
    assert_eq!(f(&env(vars)).as_deref(), Some(Path::new(expected)), "{vars:?}");
}

#[test]
fn xdg_variables_win_over_home() {
    check(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")], state_dir, "/s/agentd");
    check(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")], config_dir, "/c/agentd");
    check(&[("XDG_RUNTIME_DIR", "/r")], runtime_dir, "/r/agentd");
    check(&[("XDG_RUNTIME_DIR", "/r")], socket_path, "/r/agentd/agentd.sock");
}

#[test]
fn home_gives_the_defaults() {
    check(&[("HOME", "/h")], state_dir, "/h/.local/state/agentd");
    check(&[("HOME", "/h")], config_dir, "/h/.config/agentd");
}

#[test]
fn relative_xdg_values_are_ignored() {
    check(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")], state_dir, "/h/.local/state/agentd");
    check(&[("HOME", "/h"), ("XDG_STATE_HOME", "")], state_dir, "/h/.local/state/agentd");
}

#[test]
fn agentd_socket_overrides() {
    check(&[("AGENTD_SOCKET", "/x/y.sock"), ("XDG_RUNTIME_DIR", "/r")], socket_path, "/x/y.sock");
    check(&[("AGENTD_SOCKET", ""), ("XDG_RUNTIME_DIR", "/r")], socket_path, "/r/agentd/agentd.sock");
}

#[test]
fn without_home_nothing_panics() {
    // The password database may still know a home; what matters is that an answer comes.
    let _ = (state_dir(&env(&[])), config_dir(&env(&[])), socket_path(&env(&[])));
}

struct Fallback {
    root: tempfile::TempDir,
    uid: u32,
}

impl Fallback {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), uid: nix::unistd::geteuid().as_raw() }
    }

    fn dir(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.root.path().join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[track_caller]
    fn check(&self, expected: &str) {
        let root = self.root.path();
        let found = runtime_fallback(&root.join("run"), &root.join("tmp"), self.uid, Some(root.join("state")));
        assert_eq!(found, Some(root.join(expected.replace("UID", &self.uid.to_string()))));
    }
}

#[test]
fn fallback_prefers_the_user_directory_of_the_system() {
    let fallback = Fallback::new();
    fallback.dir(&format!("run/{}", fallback.uid), 0o700);
    fallback.check("run/UID/agentd");
}

#[test]
fn fallback_uses_the_temp_directory() {
    let fallback = Fallback::new();
    fallback.check("tmp/agentd-UID");
    fallback.dir(&format!("tmp/agentd-{}", fallback.uid), 0o700);
    fallback.check("tmp/agentd-UID");
}

#[test]
fn fallback_avoids_a_name_that_others_can_enter() {
    let fallback = Fallback::new();
    fallback.dir(&format!("tmp/agentd-{}", fallback.uid), 0o755);
    fallback.check("state/run");
}

#[test]
fn fallback_avoids_a_link_and_a_file() {
    let fallback = Fallback::new();
    let name = format!("agentd-{}", fallback.uid);
    let temp = fallback.dir("tmp", 0o700);
    std::os::unix::fs::symlink(fallback.dir("elsewhere", 0o700), temp.join(&name)).unwrap();
    fallback.check("state/run");
    std::fs::remove_file(temp.join(&name)).unwrap();
    std::fs::write(temp.join(&name), "").unwrap();
    fallback.check("state/run");
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = check_private_dir(dir.path(), nix::unistd::geteuid().as_raw() + 1).unwrap_err();
    assert!(error.to_string().contains("belongs to user"), "{error}");
}
