use std::collections::BTreeMap;
use std::fs;

use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;

use super::*;
use crate::trust::{Decided, Decision};

struct Home {
    dir: tempfile::TempDir,
    live: LiveSettings,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let vars = [("AGENTD_DURABILITY", "entry"), ("AGENTD_MAX_TURNS", "2")];
        let env = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let live = LiveSettings::start(
            root.join("config.toml"),
            Some(root.join("pi.json")),
            TrustStore::new(&root.join("state")),
            Layer::default(),
            Layer::of_env(&env, Scope::Daemon),
        );
        fs::create_dir_all(root.join("repo/.git")).unwrap();
        fs::create_dir_all(root.join("repo/.agentd")).unwrap();
        fs::create_dir_all(root.join("repo/src")).unwrap();
        Self { dir, live }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn session(&self, vars: &[(&str, &str)], cwd: &str) -> Effective {
        let vars: BTreeMap<_, _> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let env = SessionEnv::new(vars, EnvSource::Client);
        let cwd = Some(self.dir.path().join(cwd));
        self.live.of_session(&SessionPlace { cwd, env, given: Layer::default() })
    }

    fn trust(&self, decision: Decision) {
        let decided = Decided::new(decision, 0, None);
        self.live.trust.decide(&self.dir.path().join("repo"), decided).unwrap();
    }
}

#[test]
fn a_change_of_a_file_is_seen_at_once() {
    let home = Home::new();
    assert_eq!(home.session(&[], "repo").settings.max_turns, 50);
    home.write("config.toml", "max_turns = 5");
    assert_eq!(home.session(&[], "repo").settings.max_turns, 5);
    home.write("config.toml", "max_turns = 6");
    assert_eq!(home.session(&[], "repo").settings.max_turns, 6);
    fs::remove_file(home.dir.path().join("config.toml")).unwrap();
    assert_eq!(home.session(&[], "repo").settings.max_turns, 50);
}

#[test]
fn each_environment_counts_for_its_own_keys() {
    let home = Home::new();
    let held = home.session(&[("AGENTD_MAX_TURNS", "7"), ("AGENTD_DURABILITY", "flush")], "repo");
    assert_eq!(held.settings.max_turns, 7, "the client's, not the daemon's");
    assert_eq!(held.settings.durability, crate::config::Durability::Entry, "the daemon's, not the client's");
    assert_eq!(home.session(&[], "repo").settings.max_turns, 50);
}

#[test]
fn b206_an_untrusted_project_says_nothing() {
    let home = Home::new();
    home.write("repo/.agentd/config.toml", "max_turns = 3\nmodel = \"evil/m\"\n");
    home.write("repo/.env", "AGENTD_MAX_TURNS=4\nAGENTD_DEFAULT_MODEL=evil/m\n");
    home.write("repo/src/.env", "AGENTD_MAX_TURNS=4\n");
    let held = home.session(&[], "repo/src");
    assert_eq!((held.settings.max_turns, &held.settings.model), (50, &None));
    let ignored = held.files[0].ignored.as_deref().unwrap_or_default();
    assert!(ignored.ends_with("repo is not trusted, so nothing in it is read"), "{ignored}");
    home.trust(Decision::No);
    assert_eq!(home.session(&[], "repo/src").settings.max_turns, 50);
    home.trust(Decision::Yes);
    let held = home.session(&[], "repo/src");
    assert_eq!((held.settings.max_turns, held.settings.model.as_deref()), (3, Some("evil/m")));
    assert_eq!(held.files[0].ignored, None);
    assert_eq!(home.session(&[], "").settings.max_turns, 50, "outside of the project");
}

#[test]
fn what_cannot_be_read_is_a_fault_and_holds_up_nobody() {
    let home = Home::new();
    nix::unistd::mkfifo(&home.dir.path().join("config.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    home.write("pi.json", "{\"retry\": {\"maxRetries\": 9}}");
    let held = home.session(&[], "repo");
    assert_eq!(held.settings.retry.max_retries, 9);
    let faults: Vec<String> = held.faults.iter().map(|fault| fault.message.clone()).collect();
    assert_eq!(faults, ["cannot be read: it is not a regular file"]);
    assert_eq!(home.live.known_faults().len(), 1);
    fs::remove_file(home.dir.path().join("config.toml")).unwrap();
    home.write("config.toml", &"#".repeat(usize::try_from(MAX_SETTINGS_BYTES).unwrap() + 1));
    assert!(home.session(&[], "repo").faults[0].message.contains("larger than"));
    fs::write(home.dir.path().join("config.toml"), b"model = \"\xff\"").unwrap();
    assert_eq!(home.session(&[], "repo").faults[0].message, "cannot be read: it is not valid UTF-8");
    home.write("config.toml", "");
    assert!(home.session(&[], "repo").faults.is_empty() && home.live.known_faults().is_empty());
}
