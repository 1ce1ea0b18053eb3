//! Plays a recording's `in` records against a fresh daemon.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_protocol::methods::REGISTRY;
use serde_json::{Map, Value, json};

use super::besides::{self, Beside};
use super::canonical::Names;
use super::differences::{Differences, Whose};
use super::lanes::{self, Lanes};
use super::recording::{Dir, Record, Recording};
use crate::fixtures;
use crate::harness::{Client, Daemon, Home, PATIENCE};
use crate::model_server::{ModelServer, Script};

/// pi's commands that switch the process to another session; only the pi wire emulates that.
const SWITCHING: [&str; 4] = ["new_session", "fork", "clone", "switch_session"];

/// What came out of a play.
pub(super) struct Played {
    pub(super) events: Vec<Value>,
    /// Answers by index of their `in` record.
    pub(super) answers: BTreeMap<usize, Value>,
    pub(super) requests: Vec<Value>,
    pub(super) sessions: Vec<Vec<Value>>,
    pub(super) names: Names,
    /// Why the play stopped early.
    pub(super) stopped: Option<String>,
}

/// Plays a recording, leaving out the commands in `skipped`.
pub(super) async fn play(recording: &Recording, skipped: &[&str], differences: &Differences) -> Played {
    let (script, gates) = recording.gated_script(differences);
    let server = ModelServer::with_script(Script::parse(script));
    let home = prepare(recording, server.port());
    let mut daemon = Daemon::start(home);
    let mut client = Client::connect(&daemon.home().socket()).await;
    let mut env = daemon.home().env();
    // The recorder started pi with these.
    for (name, value) in [("PI_OFFLINE", "1"), ("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0")] {
        env.insert(name.to_owned(), value.to_owned());
    }
    let hold = Hold::make(daemon.home());
    env.insert("PATH".to_owned(), hold.path(&env["PATH"]));
    client.front(&daemon.home().cwd(), &env).await;
    let mut player = Player {
        recording,
        differences,
        client,
        server: &server,
        hold,
        gates,
        events: Vec::new(),
        answers: BTreeMap::new(),
        sent: BTreeMap::new(),
    };
    let stopped = player.run(&daemon, skipped).await.err();
    let (events, answers) = (player.events, player.answers);
    drop(player.client);
    let stopped = stopped.or_else(|| if recording.ends_in_a_kill() { kill(&mut daemon) } else { end(&mut daemon) });
    let files = daemon.home().session_files();
    let sessions: Vec<_> = files.iter().map(|file| Home::lines(file)).collect();
    let names = Names::played(daemon.home(), server.port(), &sessions, |entry| {
        differences.is_dropped_entry(&recording.name, Whose::Agentd, entry)
    });
    let requests =
        server.requests().iter().map(|request| json!({"path": request.path, "body": request.body})).collect();
    Played { events, answers, requests, sessions, names, stopped }
}

fn end(daemon: &mut Daemon) -> Option<String> {
    let status = daemon.terminate();
    (!status.success()).then(|| format!("the daemon ended with {status}"))
}

fn kill(daemon: &mut Daemon) -> Option<String> {
    daemon.kill();
    None
}

/// Lays out the files, models and settings of the setup.
fn prepare(recording: &Recording, port: u16) -> Home {
    let home = Home::new();
    let files = |name: &str| recording.setup[name].as_object().cloned().unwrap_or_default();
    Home::write_all(&home.cwd(), &files("files"));
    Home::write_all(&home.pi_agent(), &files("agentFiles"));
    // pi takes instructions from any folder.
    home.trust(&home.cwd());
    let write = |name: &str, text: String| std::fs::write(home.pi_agent().join(name), text).expect("write a setting");
    write("models.json", fixtures::models(port));
    write("settings.json", recording.setup["settings"].to_string());
    home
}

/// A `sleep` that the tools of the recordings find first: it does not begin while a file is there. So what was sent
/// while a tool slept is sent while it sleeps, however slow the machine is.
struct Hold {
    folder: PathBuf,
}

impl Hold {
    fn make(home: &Home) -> Self {
        let folder = home.root().join("hold");
        std::fs::create_dir(&folder).expect("make a folder");
        let hold = Self { folder };
        let file = hold.file();
        let script =
            format!("#!/bin/sh\nwhile [ -e '{}' ]; do /bin/sleep 0.01; done\nexec /bin/sleep \"$@\"\n", file.display());
        let program = hold.folder.join("sleep");
        std::fs::write(&program, script).expect("write the program");
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("make it a program");
        hold
    }

    fn path(&self, rest: &str) -> String {
        format!("{}:{rest}", self.folder.display())
    }

    fn file(&self) -> PathBuf {
        self.folder.join("held")
    }

    fn set(&self) {
        std::fs::write(self.file(), "").expect("hold the tools");
    }

    fn release(&self) {
        std::fs::remove_file(self.file()).expect("let the tools go on");
    }
}

struct Player<'a> {
    recording: &'a Recording,
    differences: &'a Differences,
    client: Client,
    server: &'a ModelServer,
    hold: Hold,
    gates: BTreeMap<usize, String>,
    events: Vec<Value>,
    answers: BTreeMap<usize, Value>,
    /// Request ids by index of the `in` record.
    sent: BTreeMap<usize, u64>,
}

impl Player<'_> {
    async fn run(&mut self, daemon: &Daemon, skipped: &[&str]) -> Result<(), String> {
        let unknown = self.recording.unknown_options();
        if !unknown.is_empty() {
            return Err(format!("cannot perform pi's options {unknown:?}"));
        }
        let made = self.client.call("new_session", self.new_session(&daemon.home().cwd())).await;
        made.map_err(|error| format!("new_session failed: {error:?}"))?;
        let records = &self.recording.records;
        let commands: Vec<_> = records
            .iter()
            .enumerate()
            .filter(|(_, record)| record.dir == Dir::In && !record.is_skipped(skipped))
            .map(|(index, record)| (index, record, record.message["type"].as_str().unwrap_or_default()))
            .collect();
        for (place, (index, record, command)) in commands.iter().enumerate() {
            self.reach(*index).await?;
            let next_meets_tools = commands.get(place + 1).is_some_and(|(next, _, _)| self.meets_running_tools(*next));
            if next_meets_tools {
                self.hold.set();
            }
            let (method, params) = request(&record.message)?;
            let id = self.client.request(&method, params).await;
            self.sent.insert(*index, id);
            self.besides(daemon, *index, record).await?;
            if is_waiting(&method) {
                continue;
            }
            let (gate, held) = (self.gates.get(index).cloned(), self.meets_running_tools(*index) && !next_meets_tools);
            if gate.is_some() || held {
                self.until(&format!("the answer to {command}"), |player| player.answers.contains_key(index)).await?;
            }
            if held {
                self.hold.release();
            }
            if let Some(gate) = gate.filter(|gate| !self.gates.range(index + 1..).any(|(_, other)| other == gate)) {
                self.server.release(&gate);
            }
        }
        self.reach(records.len()).await
    }

    /// Does what stands beside a command.
    async fn besides(&mut self, daemon: &Daemon, index: usize, record: &Record) -> Result<(), String> {
        let Some(beside) = besides::of(&self.recording.name, record) else { return Ok(()) };
        self.until("the answer before it", |player| player.answers.contains_key(&index)).await?;
        match beside {
            Beside::Request { method, params } => {
                self.client.request(method, serde_json::from_str(params).expect("parameters")).await;
                Ok(())
            }
            Beside::SecondWriter { message } => besides::write_from_a_second_daemon(daemon, message).await,
        }
    }

    /// Tells whether a command was sent while tools were running.
    fn meets_running_tools(&self, index: usize) -> bool {
        !self.lanes_of(&self.recording.records[..index]).running.is_empty()
    }

    fn new_session(&self, cwd: &Path) -> Value {
        let level = self.recording.option("--thinking").map(|level| format!(":{level}")).unwrap_or_default();
        let model = format!("{}{level}", self.recording.setup["model"].as_str().expect("a model"));
        let mut params = json!({"cwd": cwd, "model": model});
        if let Some(tools) = self.recording.option("--tools") {
            params["tools"] = tools.split(',').collect();
        }
        if let Some(name) = self.recording.option("--name") {
            params["name"] = json!(name);
        }
        params
    }

    /// Waits until what the recording has before a record has come: answers, events of the run, and before an `abort`
    /// also what the running tools had printed.
    async fn reach(&mut self, index: usize) -> Result<(), String> {
        let before = &self.recording.records[..index];
        let answered: Vec<usize> = self.sent.keys().copied().filter(|sent| is_answered(before, *sent)).collect();
        let recorded = self.lanes_of(before);
        let count = recorded.run.len();
        let printed = self.printed_before_abort(index, &recorded);
        let what = format!("record {index}: {} answers, {count} events of the run, output {printed:?}", answered.len());
        self.until(&what, |player| {
            let played = player.played_lanes();
            answered.iter().all(|index| player.answers.contains_key(index))
                && played.run.len() >= count
                && printed.iter().all(|(call, text)| played.output.get(call) == Some(text))
        })
        .await
    }

    fn printed_before_abort(&self, index: usize, recorded: &Lanes) -> Vec<(String, String)> {
        let is_abort = |record: &Record| record.message["type"] == "abort";
        if !self.recording.records.get(index).is_some_and(is_abort) {
            return Vec::new();
        }
        let mut whole = self.lanes_of(&self.recording.records).output;
        let text = |call: &String| Some((call.clone(), whole.remove(call)?));
        recorded.running.iter().filter_map(text).filter(|(_, text)| !text.is_empty()).collect()
    }

    fn lanes_of(&self, records: &[Record]) -> Lanes {
        lanes::recorded(&self.recording.name, records, self.differences)
    }

    fn played_lanes(&self) -> Lanes {
        lanes::played(&self.recording.name, &self.events, self.differences)
    }

    /// Reads messages until something is so.
    async fn until(&mut self, what: &str, reached: impl Fn(&Self) -> bool) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + PATIENCE.min(Duration::from_secs(20));
        while !reached(self) {
            let message = tokio::time::timeout_at(deadline, self.client.read())
                .await
                .map_err(|_| format!("waited in vain for {what}"))?
                .ok_or_else(|| format!("the connection ended before {what}"))?;
            self.take(message);
        }
        Ok(())
    }

    fn take(&mut self, mut message: Value) {
        if message["method"] == "event" {
            return self.events.push(message["params"]["event"].take());
        }
        let of_id = self.sent.iter().find(|(_, id)| message["id"] == json!(id)).map(|(index, _)| *index);
        if let Some(index) = of_id {
            self.answers.insert(index, message);
        }
    }
}

/// Returns the method and parameters of a recorded command.
fn request(command: &Value) -> Result<(String, Value), String> {
    let name = command["type"].as_str().ok_or_else(|| format!("cannot perform {command}"))?;
    if SWITCHING.contains(&name) || !REGISTRY.iter().any(|method| method.name == name) {
        return Err(format!("cannot perform {name}"));
    }
    let params: Map<_, _> = command
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !matches!(key.as_str(), "id" | "type"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Ok((name.to_owned(), Value::Object(params)))
}

fn is_waiting(method: &str) -> bool {
    REGISTRY.iter().any(|row| row.name == method && row.waits)
}

/// Tells whether the command of record `sent` is answered among these records.
fn is_answered(records: &[Record], sent: usize) -> bool {
    let Some(command) = records.get(sent) else { return false };
    records[sent..].iter().any(|record| {
        record.dir == Dir::Out
            && record.message["type"] == "response"
            && record.message["id"] == command.message["id"]
            && record.message["command"] == command.message["type"]
    })
}
