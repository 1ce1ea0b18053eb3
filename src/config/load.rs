//! What the daemon needs to know at start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::paths::{self as rules, Lookup};

use super::live::LiveSettings;
use super::paths::Paths;
use super::settings::{Layer, Scope, Settings};
use crate::constants::{AUTH_FILE, CONFIG_FILE, MODELS_FILE, SETTINGS_FILE};
use crate::trust::TrustStore;

/// Everything that the daemon was told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where things are.
    pub paths: Paths,
    /// Model files, earlier ones win; they need not exist.
    pub models_files: Vec<PathBuf>,
    /// Files of keys: ours, which `set_key` writes, then pi's. They need not exist; the first that has a key counts.
    pub auth_files: Vec<PathBuf>,
    /// What held when the daemon started.
    pub settings: Settings,
    /// What holds now.
    pub live: Arc<LiveSettings>,
}

/// Why the daemon cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither the variable nor a home directory is there.
    #[error("there is no home directory; set HOME or {variable}")]
    NoHome {
        /// The variable that would do instead.
        variable: &'static str,
    },
    /// The system limits the length of socket paths.
    #[error("the socket path {} is too long; set AGENTD_SOCKET to a shorter one", path.display())]
    SocketPathTooLong {
        /// The path.
        path: PathBuf,
    },
}

/// Reads settings from the command line, from the environment that `lookup` gives, and from files.
///
/// # Errors
/// When a directory cannot be found. Whatever is wrong in files and variables stops nothing: [`LiveSettings::of_daemon`]
/// tells it.
pub fn load(lookup: Lookup<'_>, command_line: Layer) -> Result<Config, ConfigError> {
    let mut paths = Paths::resolve(lookup)?;
    let pi_file = |name: &str| paths.pi_agent_dir.as_ref().map(|dir| dir.join(name));
    let env = Layer::of_env(&|name| lookup(name).map(|value| value.to_string_lossy().into_owned()), Scope::Daemon);
    let live = LiveSettings::start(
        paths.config_dir.join(CONFIG_FILE),
        pi_file(SETTINGS_FILE),
        TrustStore::new(&paths.state_dir),
        command_line,
        env,
    );
    let models_files = std::iter::once(paths.config_dir.join(MODELS_FILE)).chain(pi_file(MODELS_FILE)).collect();
    let auth_files = std::iter::once(paths.config_dir.join(AUTH_FILE)).chain(pi_file(AUTH_FILE)).collect();
    let settings = Settings::of(live.started());
    if let Some(dir) = &settings.sessions_dir {
        paths.sessions_dir = in_home(dir, lookup);
    }
    Ok(Config { models_files, auth_files, settings, live: Arc::new(live), paths })
}

/// Returns a path that may begin with `~/`.
fn in_home(path: &str, lookup: Lookup<'_>) -> PathBuf {
    let home = rules::home(lookup);
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => Path::new(path).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::ffi::OsString;

    use super::*;

    struct Home(tempfile::TempDir, HashMap<&'static str, OsString>);

    impl Home {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let vars = [("HOME", dir.path().join("home")), ("XDG_RUNTIME_DIR", dir.path().join("run"))];
            let vars = vars.into_iter().map(|(name, path)| (name, path.into_os_string())).collect();
            Self(dir, vars)
        }

        fn pi_file(&self, name: &str, text: &str) {
            let dir = self.0.path().join("home/.pi/agent");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join(name), text).unwrap();
        }

        fn load(&self) -> Config {
            load(&|name| self.1.get(name).cloned(), Layer::default()).unwrap()
        }
    }

    #[test]
    fn an_empty_home_gives_the_defaults() {
        let home = Home::new();
        let config = home.load();
        let root = home.0.path();
        assert_eq!(config.paths.sessions_dir, root.join("home/.local/state/agentd/sessions"));
        assert_eq!(config.paths.socket, root.join("run/agentd/agentd.sock"));
        assert_eq!(config.models_files, [root.join("home/.config/agentd/models.json")]);
        assert_eq!(config.auth_files, [root.join("home/.config/agentd/auth.json")]);
        assert_eq!(config.settings, Settings::default());
        assert!(config.live.of_daemon().faults.is_empty());
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 0, "loading writes nothing");
    }

    #[test]
    fn files_of_pi_are_found() {
        let home = Home::new();
        home.pi_file("settings.json", "\u{feff}{\"retry\":{\"maxRetries\":9}}");
        let config = home.load();
        let agent = home.0.path().join("home/.pi/agent");
        assert_eq!(config.paths.pi_agent_dir, Some(agent.clone()));
        assert_eq!(config.models_files[1], agent.join("models.json"));
        assert_eq!(config.auth_files[1], agent.join("auth.json"));
        assert_eq!(config.settings.retry.max_retries, 9);
    }

    #[test]
    fn pi_directory_follows_its_variable() {
        let mut home = Home::new();
        std::fs::create_dir_all(home.0.path().join("home/other")).unwrap();
        home.1.insert("PI_CODING_AGENT_DIR", "~/other".into());
        assert_eq!(home.load().paths.pi_agent_dir, Some(home.0.path().join("home/other")));
    }

    #[test]
    fn too_long_a_socket_path_is_refused_with_advice() {
        let mut home = Home::new();
        home.1.insert("AGENTD_SOCKET", format!("/{}", "x".repeat(120)).into());
        let error = load(&|name| home.1.get(name).cloned(), Layer::default()).unwrap_err();
        assert!(matches!(error, ConfigError::SocketPathTooLong { .. }), "{error}");
    }

    #[test]
    fn the_folder_of_sessions_can_be_set() {
        let mut home = Home::new();
        let root = home.0.path().to_owned();
        home.1.insert("AGENTD_SESSIONS_DIR", "~/elsewhere".into());
        assert_eq!(home.load().paths.sessions_dir, root.join("home/elsewhere"));
        let line = Layer::of_command_line(&["sessions_dir=/srv/s".to_owned()]).unwrap();
        let config = load(&|name| home.1.get(name).cloned(), line).unwrap();
        assert_eq!(config.paths.sessions_dir, Path::new("/srv/s"));
    }

    #[test]
    fn nonsense_in_a_variable_stops_nothing() {
        let mut home = Home::new();
        home.1.insert("AGENTD_DURABILITY", "sometimes".into());
        home.1.insert("AGENTD_LOG", "debug".into());
        let config = home.load();
        assert_eq!(
            (config.settings.durability, &*config.settings.log_level),
            (Settings::default().durability, "debug")
        );
        let faults: Vec<String> = config.live.of_daemon().faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults, ["AGENTD_DURABILITY: durability must be flush, turn or entry"]);
    }
}
