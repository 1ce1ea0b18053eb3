//! A place for tool calls: a working directory, a home and a context.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::message::ToolCall;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{FileLocks, KnownFiles, Progress, ToolContext, ToolOutput, ToolRegistry};
use crate::exec::Spawner;
use crate::redact::Keys;

/// Temporary folder with `w` (working directory), `h` (home) and `out` (outputs, not made yet).
pub(super) struct Place {
    dir: tempfile::TempDir,
    registry: ToolRegistry,
    spawner: Spawner,
    pub(super) cancel: CancellationToken,
    pub(super) env: Vec<(String, String)>,
    pub(super) known_files: Option<KnownFiles>,
    pub(super) keys: Arc<Keys>,
}

impl Place {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["w", "h"] {
            std::fs::create_dir(dir.path().join(sub)).unwrap();
        }
        let home = dir.path().join("h").to_str().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        Self {
            dir,
            registry: ToolRegistry::builtin(),
            spawner: crate::exec::test_support::spawner(),
            cancel: CancellationToken::new(),
            env: vec![("HOME".to_owned(), home), ("PATH".to_owned(), path)],
            known_files: None,
            keys: Arc::default(),
        }
    }

    /// Path of something in the working directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.cwd().join(name)
    }

    pub(super) fn cwd(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    pub(super) fn outputs(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub(super) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    #[track_caller]
    pub(super) fn check_file(&self, name: &str, expected: impl AsRef<[u8]>) {
        let found = std::fs::read(self.path(name)).unwrap();
        let (found, expected) = (found.escape_ascii().to_string(), expected.as_ref().escape_ascii().to_string());
        pretty_assertions::assert_eq!(found, expected, "content of {name}");
    }

    #[track_caller]
    pub(super) fn check_file_len(&self, name: &str, expected: usize) {
        assert_eq!(std::fs::metadata(self.path(name)).unwrap().len(), expected as u64, "length of {name}");
    }

    pub(super) fn context(&self, progress: mpsc::Sender<Progress>) -> ToolContext {
        self.context_in(&self.cwd(), progress)
    }

    pub(super) fn context_in(&self, cwd: &Path, progress: mpsc::Sender<Progress>) -> ToolContext {
        ToolContext {
            cwd: cwd.to_owned(),
            env: self.env.clone(),
            outputs_dir: self.outputs(),
            overwrites_dir: self.dir.path().join("overwrites"),
            cancel: self.cancel.clone(),
            progress,
            spawner: self.spawner.clone(),
            locks: FileLocks::default(),
            known_files: self.known_files.clone(),
            call_id: "call".into(),
            command_limit: None,
            resizes_images: true,
            text_only_model: None,
            keys: Arc::clone(&self.keys),
        }
    }

    /// Validates and runs a call, as the agent does.
    pub(super) async fn run(&self, tool: &str, arguments: Value) -> ToolOutput {
        self.run_with_progress(tool, arguments).await.0
    }

    pub(super) async fn run_with_progress(&self, tool: &str, arguments: Value) -> (ToolOutput, Vec<Progress>) {
        let (sender, mut receiver) = mpsc::channel(4);
        let collect = async {
            let mut all = Vec::new();
            while let Some(progress) = receiver.recv().await {
                all.push(progress);
            }
            all
        };
        tokio::join!(self.run_in(tool, arguments, self.context(sender)), collect)
    }

    /// Returns how many workers did not come back in time.
    pub(super) fn abandoned(&self) -> u64 {
        self.registry.abandoned()
    }

    /// Ends what commands left in the background.
    pub(super) async fn end_children(&self) {
        self.spawner.end_all().await;
    }

    pub(super) async fn run_in(&self, tool: &str, arguments: Value, context: ToolContext) -> ToolOutput {
        match self.registry.validate(&all_tools(), &call(tool, arguments)) {
            Ok(invocation) => self.registry.run(invocation, context).await,
            Err(output) => output,
        }
    }
}

pub(super) fn make_fifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

pub(super) fn all_tools() -> Vec<String> {
    ToolRegistry::builtin().names().map(str::to_owned).collect()
}

pub(super) fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "call".into(),
        name: tool.to_owned(),
        arguments,
        arguments_error: None,
        arguments_text: None,
        thought_signature: None,
    }
}

impl ToolOutput {
    /// The first block's text.
    pub(super) fn first_text(&self) -> &str {
        self.result.content[0].as_text().unwrap()
    }
}

/// One call of a recording, with what came of it.
pub(super) struct Recorded {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) output: ToolOutput,
}

/// Reads the tool calls of a recording. Texts are as recorded: long ones are cut in the middle, and some places stand
/// for paths.
pub(super) fn recorded(name: &str) -> Vec<Recorded> {
    let path = fixture(&format!("transcripts/{name}.jsonl"));
    let events: Vec<Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["msg"].take())
        .collect();
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    of_kind("tool_execution_end")
        .map(|end| {
            let start = of_kind("tool_execution_start").find(|start| start["toolCallId"] == end["toolCallId"]).unwrap();
            Recorded {
                tool: end["toolName"].as_str().unwrap().to_owned(),
                arguments: start["args"].clone(),
                output: ToolOutput {
                    result: serde_json::from_value(end["result"].clone()).unwrap(),
                    is_error: end["isError"].as_bool().unwrap(),
                },
            }
        })
        .collect()
}

/// Puts the files of a recording's set-up into the working directory.
pub(super) fn set_up(place: &Place, name: &str) {
    use base64::Engine as _;
    let setup = std::fs::read_to_string(fixture(&format!("setups/{name}.json"))).unwrap();
    let setup: Value = serde_json::from_str(&setup).unwrap();
    for (name, content) in setup["files"].as_object().unwrap() {
        std::fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        match content {
            Value::String(text) => place.put(name, text),
            other => {
                let data = other.as_object().unwrap().values().next().unwrap().as_str().unwrap();
                place.put(name, base64::engine::general_purpose::STANDARD.decode(data).unwrap());
            }
        }
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pi").join(name)
}

/// Runs all calls of a recording that `pick` accepts, and compares everything but durations with what pi gave.
pub(super) async fn replay(name: &str, pick: impl Fn(usize, &Recorded) -> bool) {
    let place = Place::new();
    set_up(&place, name);
    let mut count = 0;
    for (at, mut recorded) in recorded(name).into_iter().enumerate() {
        if !pick(at, &recorded) {
            continue;
        }
        count += 1;
        let mut ours = place.run(&recorded.tool, recorded.arguments.clone()).await;
        blur_times(&mut recorded.output);
        blur_times(&mut ours);
        let ours = serde_json::to_value((ours.is_error, &ours.result)).unwrap();
        let theirs = serde_json::to_value((recorded.output.is_error, &recorded.output.result)).unwrap();
        if let Err(difference) = same(&theirs, &ours, &place) {
            panic!("call {at} of {name}, {} {}: {difference}", recorded.tool, recorded.arguments);
        }
    }
    assert!(count > 0, "nothing was replayed");
}

fn blur_times(output: &mut ToolOutput) {
    if let Some(time) = output.result.structured_content.as_mut().and_then(|s| s.get_mut("wall_time_seconds")) {
        assert!(time.is_number());
        *time = Value::Null;
    }
}

fn same(theirs: &Value, ours: &Value, place: &Place) -> Result<(), String> {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let (names_a, names_b): (Vec<_>, Vec<_>) = (a.keys().collect(), b.keys().collect());
            if names_a != names_b {
                return Err(format!("fields {names_a:?} against {names_b:?}"));
            }
            a.iter()
                .zip(b.values())
                .try_for_each(|((name, a), b)| same(a, b, place).map_err(|e| format!("{name}: {e}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| same(a, b, place))
        }
        (Value::String(a), Value::String(b)) => same_text(a, b, place),
        _ if theirs == ours => Ok(()),
        _ => Err(format!("{theirs} against {ours}")),
    }
}

/// `<CWD>` stands for the working directory, `/tmp/pi-bash-<RAND>.log` for a file of full output, and
/// `<<<elided: N chars in all, …>>>` for the middle of a text.
fn same_text(theirs: &str, ours: &str, place: &Place) -> Result<(), String> {
    let mut ours = ours.replace(place.cwd().to_str().unwrap(), "<CWD>");
    let outputs = format!("{}/", place.outputs().display());
    while let Some(at) = ours.find(&outputs) {
        let end = at + ours[at..].find(".log").unwrap() + 4;
        ours.replace_range(at..end, "/tmp/pi-bash-<RAND>.log");
    }
    let fits = match theirs.split_once("<<<elided: ") {
        None => theirs == ours,
        Some((head, rest)) => {
            let (about, tail) = rest.split_once(">>>").unwrap();
            let count: usize = about.split(' ').next().unwrap().parse().unwrap();
            // Recorded lengths are those of the placeholders' texts.
            ours.starts_with(head) && ours.ends_with(tail) && ours.chars().count() == count
        }
    };
    if fits { Ok(()) } else { Err(format!("\n{theirs}\nagainst ours\n{ours}")) }
}
