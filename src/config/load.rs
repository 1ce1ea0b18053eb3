//! Reads files and environment once, at start.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentd_protocol::methods::Mode;
use agentd_protocol::paths::Lookup;

use super::paths::Paths;
use super::settings::{
    Durability, ImageSettings, LocalModels, PiSettings, ProviderClocks, RequireRead, RetrySettings, SettingError,
    mode_from_env,
};
use crate::constants::{MAX_SETTINGS_BYTES, MODELS_FILE, SETTINGS_FILE};

/// Everything that the daemon was told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where things are.
    pub paths: Paths,
    /// Model files, earlier ones win; they need not exist.
    pub models_files: Vec<PathBuf>,
    /// pi's file of keys; it need not exist.
    pub auth_file: Option<PathBuf>,
    /// Where servers of models on this machine are looked for.
    pub local_models: LocalModels,
    /// How failed requests are tried again.
    pub retry: RetrySettings,
    /// Time limits of a request to a provider.
    pub provider_clocks: ProviderClocks,
    /// What happens to images.
    pub images: ImageSettings,
    /// Which files sessions may change without reading them first.
    pub require_read: RequireRead,
    /// What the tools of sessions that name no mode may do without a question.
    pub mode: Mode,
    /// When writes are forced to the disk.
    pub durability: Durability,
    /// What in the files could not be used, for the log. None of it stops the daemon.
    pub notices: Vec<String>,
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
    /// An environment variable cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Reads settings from the environment that `lookup` gives, and from files.
///
/// # Errors
/// When a directory cannot be found or a variable of agentd's own holds nonsense. Faults in files become notices.
pub fn load(lookup: Lookup<'_>) -> Result<Config, ConfigError> {
    let paths = Paths::resolve(lookup)?;
    let mut notices = Vec::new();
    let get = |name: &str| lookup(name).map(|value| value.to_string_lossy().into_owned());
    let pi_settings = match &paths.pi_agent_dir {
        Some(dir) => read_pi_settings(&dir.join(SETTINGS_FILE), &mut notices),
        None => PiSettings::default(),
    };
    let pi_file = |name: &str| paths.pi_agent_dir.as_ref().map(|dir| dir.join(name));
    Ok(Config {
        models_files: std::iter::once(paths.config_dir.join(MODELS_FILE)).chain(pi_file(MODELS_FILE)).collect(),
        auth_file: pi_file("auth.json"),
        local_models: LocalModels::from_env(&get)?,
        retry: RetrySettings::default().with_pi(&pi_settings).with_env(&get)?,
        provider_clocks: ProviderClocks::default().with_pi(&pi_settings).with_env(&get)?,
        images: ImageSettings::default().with_pi(&pi_settings),
        require_read: RequireRead::from_env(&get)?,
        mode: mode_from_env(&get)?,
        durability: Durability::from_env(&get)?,
        notices,
        paths,
    })
}

fn read_pi_settings(path: &Path, notices: &mut Vec<String>) -> PiSettings {
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return PiSettings::default(),
        Err(error) => {
            notices.push(format!("{} was not read: {error}", path.display()));
            return PiSettings::default();
        }
    };
    serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_else(|error| {
        // Only the place is told: the text around it may hold a key.
        let (line, column) = (error.line(), error.column());
        notices.push(format!("{} was ignored: not usable at line {line}, column {column}", path.display()));
        PiSettings::default()
    })
}

/// Reads a regular file of moderate size; a fifo at the path must not hold up the start.
fn read_bounded(path: &Path) -> std::io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_SETTINGS_BYTES).read_to_string(&mut text)?;
    Ok(text)
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
            load(&|name| self.1.get(name).cloned()).unwrap()
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
        assert_eq!(config.auth_file, None);
        assert_eq!(config.retry, RetrySettings::default());
        assert!(config.notices.is_empty());
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
        assert_eq!(config.auth_file, Some(agent.join("auth.json")));
        assert_eq!(config.retry.max_retries, 9);
    }

    #[test]
    fn pi_directory_follows_its_variable() {
        let mut home = Home::new();
        std::fs::create_dir_all(home.0.path().join("home/other")).unwrap();
        home.1.insert("PI_CODING_AGENT_DIR", "~/other".into());
        assert_eq!(home.load().paths.pi_agent_dir, Some(home.0.path().join("home/other")));
    }

    #[test]
    fn broken_settings_are_a_notice_that_shows_none_of_their_text() {
        let home = Home::new();
        home.pi_file("settings.json", "{\"retry\": {\"maxRetries\": \"sk-CANARY\"}}");
        let config = home.load();
        assert_eq!(config.retry, RetrySettings::default());
        assert_eq!(config.notices.len(), 1);
        assert!(!config.notices[0].contains("CANARY"), "{}", config.notices[0]);
    }

    #[test]
    fn a_fifo_for_settings_does_not_hold_up_the_start() {
        let home = Home::new();
        home.pi_file("models.json", "{}");
        let path = home.0.path().join("home/.pi/agent/settings.json");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(home.load().notices.len(), 1);
    }

    #[test]
    fn too_long_a_socket_path_is_refused_with_advice() {
        let mut home = Home::new();
        home.1.insert("AGENTD_SOCKET", format!("/{}", "x".repeat(120)).into());
        let error = load(&|name| home.1.get(name).cloned()).unwrap_err();
        assert!(matches!(error, ConfigError::SocketPathTooLong { .. }), "{error}");
    }

    #[test]
    fn nonsense_in_a_variable_stops_the_start() {
        let mut home = Home::new();
        home.1.insert("AGENTD_DURABILITY", "sometimes".into());
        assert!(matches!(load(&|name| home.1.get(name).cloned()), Err(ConfigError::Setting(_))));
    }
}
