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

    /// A state directory whose path leaves no room for a socket's name.
    fn long_state(&self) -> PathBuf {
        self.root.path().join("s".repeat(MAX_SOCKET_PATH_BYTES))
    }

    #[track_caller]
    fn check(&self, state: &Path, expected: &str) {
        let root = self.root.path();
        let found = runtime_fallback(&root.join("run"), &root.join("tmp"), self.uid, Some(state.to_owned()));
        assert_eq!(found, Some(root.join(expected.replace("UID", &self.uid.to_string()))));
    }
}

#[test]
fn fallback_prefers_the_user_directory_of_the_system() {
    let fallback = Fallback::new();
    fallback.dir(&format!("run/{}", fallback.uid), 0o700);
    fallback.check(&fallback.root.path().join("state"), "run/UID/agentd");
}

#[test]
fn fallback_is_in_the_state_directory() {
    let fallback = Fallback::new();
    fallback.dir(&format!("tmp/agentd-{}", fallback.uid), 0o700);
    fallback.check(&fallback.root.path().join("state"), "state/run");
}

#[test]
fn fallback_uses_the_temp_directory_where_the_path_would_be_too_long() {
    let fallback = Fallback::new();
    fallback.check(&fallback.long_state(), "tmp/agentd-UID");
    fallback.dir(&format!("tmp/agentd-{}", fallback.uid), 0o700);
    fallback.check(&fallback.long_state(), "tmp/agentd-UID");
}

#[test]
fn fallback_avoids_a_name_that_others_can_enter() {
    let fallback = Fallback::new();
    fallback.dir(&format!("tmp/agentd-{}", fallback.uid), 0o755);
    let long = fallback.long_state();
    fallback.check(&long, long.join("run").to_str().unwrap());
}

#[test]
fn fallback_avoids_a_link_and_a_file() {
    let fallback = Fallback::new();
    let name = format!("agentd-{}", fallback.uid);
    let temp = fallback.dir("tmp", 0o700);
    let long = fallback.long_state();
    let own = long.join("run").to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(fallback.dir("elsewhere", 0o700), temp.join(&name)).unwrap();
    fallback.check(&long, &own);
    std::fs::remove_file(temp.join(&name)).unwrap();
    std::fs::write(temp.join(&name), "").unwrap();
    fallback.check(&long, &own);
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = check_private_dir(dir.path(), nix::unistd::geteuid().as_raw() + 1).unwrap_err();
    assert!(error.to_string().contains("belongs to user"), "{error}");
}
