//! A temporary home: what a daemon reads and writes, and nothing of the machine's own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::process;
use crate::fixtures;
use crate::model_server::ModelServer;

/// A temporary home. Dropping it kills what still runs in it and removes it.
pub(crate) struct Home {
    root: tempfile::TempDir,
}

impl Home {
    /// Makes an empty home with a working directory.
    pub(crate) fn new() -> Self {
        // Short, because a socket's path must fit into 108 bytes.
        let root = tempfile::Builder::new().prefix("agd").tempdir().expect("a temporary directory");
        let home = Self { root };
        for folder in [home.user(), home.state(), home.config(), home.runtime(), home.pi_agent(), home.cwd()] {
            fs::create_dir_all(folder).expect("make a folder of the home");
        }
        // Tests of permissions say otherwise at places that count more.
        home.configure("mode = \"full\"\n");
        fs::set_permissions(home.runtime(), fs::Permissions::from_mode(0o700)).expect("close the runtime folder");
        home
    }

    /// Writes the user's settings.
    pub(crate) fn configure(&self, text: &str) {
        write(&self.config().join("agentd/config.toml"), text.as_bytes());
    }

    /// Makes a home whose models are those of the recordings, served by `server`.
    pub(crate) fn with_models(server: &ModelServer) -> Self {
        let home = Self::new();
        let folder = home.config().join("agentd");
        fs::create_dir_all(&folder).expect("make the config folder");
        fs::write(folder.join("models.json"), fixtures::models(server.port())).expect("write models.json");
        home
    }

    /// Returns the path that every process of this home carries in its environment.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns `$HOME`.
    pub(crate) fn user(&self) -> PathBuf {
        self.root().join("h")
    }

    /// Returns `$XDG_STATE_HOME`.
    pub(crate) fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// Returns `$XDG_CONFIG_HOME`.
    pub(crate) fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    /// Returns `$XDG_RUNTIME_DIR`.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.root().join("run")
    }

    /// Returns `$PI_CODING_AGENT_DIR`.
    pub(crate) fn pi_agent(&self) -> PathBuf {
        self.root().join("pi")
    }

    /// Returns the working directory of sessions.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.root().join("w")
    }

    /// Returns the daemon's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.runtime().join("a.sock")
    }

    /// Returns where sessions are written.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.state().join("agentd/sessions")
    }

    /// Returns the environment of every program of this home.
    pub(crate) fn env(&self) -> BTreeMap<String, String> {
        let path = |path: PathBuf| path.to_str().expect("a UTF-8 path").to_owned();
        BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").expect("PATH is set")),
            ("HOME".to_owned(), path(self.user())),
            ("USER".to_owned(), "tester".to_owned()),
            ("SHELL".to_owned(), "/bin/bash".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("XDG_STATE_HOME".to_owned(), path(self.state())),
            ("XDG_CONFIG_HOME".to_owned(), path(self.config())),
            ("XDG_RUNTIME_DIR".to_owned(), path(self.runtime())),
            ("PI_CODING_AGENT_DIR".to_owned(), path(self.pi_agent())),
            ("AGENTD_SOCKET".to_owned(), path(self.socket())),
            // What the machine serves is none of the tests' business.
            ("AGENTD_LOCAL_MODELS".to_owned(), "0".to_owned()),
            ("AGENTD_TEST_HOME".to_owned(), path(self.root().to_owned())),
        ])
    }

    /// Trusts a folder, as the user would by hand.
    pub(crate) fn trust(&self, folder: &Path) {
        let folder = folder.canonicalize().expect("a folder");
        let path = self.state().join("agentd/trust.json");
        write(
            &path,
            json!({"folders": {folder.to_str().expect("a UTF-8 path"): {"decision": "yes"}}}).to_string().as_bytes(),
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("close the file");
        fs::set_permissions(self.state().join("agentd"), fs::Permissions::from_mode(0o700)).expect("close the folder");
    }

    /// Writes a file of the working directory.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        write(&self.cwd().join(name), content.as_ref());
    }

    /// Reads a file of the working directory.
    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.cwd().join(name)).expect("a readable file")
    }

    /// Writes the files of a recording's setup (text, or `{"base64": …}`) under `folder`.
    pub(crate) fn write_all(folder: &Path, files: &Map<String, Value>) {
        for (name, content) in files {
            let bytes = match content {
                Value::String(text) => text.clone().into_bytes(),
                other => STANDARD.decode(other["base64"].as_str().expect("text or base64")).expect("base64"),
            };
            write(&folder.join(name), &bytes);
        }
    }

    /// Returns every session file, in the order of their names.
    pub(crate) fn session_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.sessions()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                    files.push(path);
                }
            }
        }
        files.sort();
        files
    }

    /// Reads the lines of a session file, header first.
    #[track_caller]
    pub(crate) fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a readable session file");
        assert!(text.ends_with('\n'), "{} does not end in a line feed", path.display());
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Reads the lines of the only session file.
    #[track_caller]
    pub(crate) fn only_session(&self) -> Vec<Value> {
        let files = self.session_files();
        assert_eq!(files.len(), 1, "session files: {files:?}");
        Self::lines(&files[0])
    }

    /// Returns the processes that were started in this home and still run.
    pub(crate) fn processes(&self) -> Vec<i32> {
        process::with_marker(self.root())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let left = process::kill_all(self.root());
        if !std::thread::panicking() {
            assert!(left.is_empty(), "processes of {} cannot be killed: {left:?}", self.root().display());
        }
    }
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("make a folder");
    fs::write(path, content).expect("write a file");
}
