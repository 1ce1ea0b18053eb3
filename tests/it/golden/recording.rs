//! One recording: its setup, its transcript, its session files.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::canonical::Names;
use super::differences::{Differences, Lane, Whose};
use super::requests;
use crate::fixtures;

/// Who wrote a record of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dir {
    /// The client, to pi.
    In,
    /// pi, to the client.
    Out,
    /// pi, to the model.
    Request,
    /// Anything else: replies, notes, standard error.
    Other,
}

/// One record of a transcript.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) dir: Dir,
    /// Milliseconds since the start of the recording; means nothing exact.
    pub(super) at: f64,
    pub(super) message: Value,
}

impl Record {
    fn of(line: &Value) -> Self {
        let dir = match line["dir"].as_str() {
            Some("in") => Dir::In,
            Some("out") => Dir::Out,
            Some("llm-request") => Dir::Request,
            _ => Dir::Other,
        };
        Self { dir, at: line["t"].as_f64().unwrap_or_default(), message: line["msg"].clone() }
    }

    /// Tells whether it is the command with this id.
    pub(super) fn is_command(&self, id: &str) -> bool {
        self.dir == Dir::In && self.message["id"] == id
    }

    /// Tells whether it is a command that is left out, by its name or its id.
    pub(super) fn is_skipped(&self, skipped: &[&str]) -> bool {
        skipped.iter().any(|name| self.message["type"] == *name || self.is_command(name))
    }

    /// Tells whether it is an event (and not an answer) of pi.
    pub(super) fn is_event(&self) -> bool {
        self.dir == Dir::Out && self.message["type"] != "response"
    }
}

/// A recording.
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) setup: Value,
    pub(super) records: Vec<Record>,
    /// Lines of the session files, one list a file.
    pub(super) sessions: Vec<Vec<Value>>,
}

impl Recording {
    /// Reads a recording by name.
    pub(super) fn load(name: &str) -> Self {
        let folder = fixtures::folder();
        let records = fixtures::json_lines(&folder.join(format!("transcripts/{name}.jsonl")));
        let mut sessions = Vec::new();
        for number in 1.. {
            let suffix = if number == 1 { String::new() } else { format!(".{number}") };
            let path = folder.join(format!("sessions/{name}{suffix}.jsonl"));
            if !path.exists() {
                break;
            }
            sessions.push(fixtures::json_lines(&path));
        }
        Self {
            name: name.to_owned(),
            setup: fixtures::json(&folder.join(format!("setups/{name}.json"))),
            records: records.iter().map(Record::of).collect(),
            sessions,
        }
    }

    /// Cuts a recording of one session off before a command; its file has `lines` lines there.
    pub(super) fn cut_before(&mut self, command: &str, lines: usize) {
        let place = self.records.iter().position(|record| record.is_command(command)).expect("the command");
        self.records.truncate(place);
        self.sessions[0].truncate(lines);
    }

    /// Returns the names that its files give.
    pub(super) fn entry_names(&self, differences: &Differences) -> Names {
        Names::recorded(&self.sessions, |entry| differences.is_dropped_entry(&self.name, Whose::Pi, entry))
    }

    /// Returns the names of all recordings, sorted.
    pub(super) fn names() -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(fixtures::folder().join("transcripts"))
            .expect("the folder of transcripts")
            .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// Returns the value of a command-line option that pi was started with.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let args = self.setup["args"].as_array()?;
        let place = args.iter().position(|arg| arg == name)?;
        args.get(place + 1)?.as_str()
    }

    /// Returns pi's options that the player has no equivalent for.
    pub(super) fn unknown_options(&self) -> Vec<String> {
        let known = ["--mode", "rpc", "--model", "--thinking", "--tools", "--name"];
        let values: HashSet<_> = known.iter().filter_map(|option| self.option(option)).collect();
        let args = self.setup["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        args.filter(|arg| !known.contains(arg) && !values.contains(arg)).map(str::to_owned).collect()
    }

    /// Returns the model server's script with a gate wherever the client spoke while a reply was streaming, so that
    /// it speaks at the same place again however fast the machine is; and the gate of each such `in` record.
    /// Replies to requests that the table gives to pi alone are left out; the others keep their numbers.
    pub(super) fn gated_script(&self, differences: &Differences) -> (Value, BTreeMap<usize, String>) {
        let mut script = self.setup["scenario"].clone();
        let mut gates = BTreeMap::new();
        let mut open: Option<(usize, usize)> = None;
        let (mut request, mut starts) = (0, 0);
        for (index, record) in self.records.iter().enumerate() {
            let message = &record.message;
            match (record.dir, message["type"].as_str()) {
                (Dir::Request, _) => request = number(&message["n"]),
                (Dir::Out, Some("message_start")) if message["message"]["role"] == "assistant" => {
                    open = Some((request, 0));
                }
                (Dir::Out, Some("message_update")) => {
                    let kind = message["assistantMessageEvent"]["type"].as_str().unwrap_or_default();
                    // A block of text begins with its first delta; a call has a chunk of its own for that.
                    starts = usize::from(matches!(kind, "text_start" | "thinking_start"));
                    if let Some((_, deltas)) = open.as_mut().filter(|_| kind.ends_with("_delta")) {
                        *deltas += 1;
                    }
                }
                (Dir::Out, Some("message_end")) => open = None,
                (Dir::In, _) => {
                    if let Some((request, deltas)) = open {
                        // The first chunk only names the role; each later one is one delta.
                        let (reply, chunk) = (request - 1, deltas + starts + 1);
                        let gate = format!("reply {request} chunk {chunk}");
                        if script["replies"][reply].get("blocks").is_some() {
                            script["replies"][reply]["gates"][chunk.to_string()] = json!(gate);
                            gates.insert(index, gate);
                        }
                    }
                }
                _ => {}
            }
        }
        self.leave_out_replies(&mut script, differences);
        (script, gates)
    }

    fn leave_out_replies(&self, script: &mut Value, differences: &Differences) {
        let names = self.entry_names(differences);
        let steps: Vec<_> = self.requests().iter().map(|request| requests::step(request, &names)).collect();
        let is_left_out =
            |(kind, step): &(String, Value)| differences.is_dropped(&self.name, Lane::Requests, Whose::Pi, kind, step);
        let Some(first) = steps.iter().position(is_left_out) else { return };
        let replies = script["replies"].as_array_mut().expect("replies");
        for (index, reply) in replies.iter_mut().enumerate().skip(first) {
            reply["id"] = json!(format!("chatcmpl-{}", index + 1));
        }
        let mut index = 0;
        replies.retain(|_| {
            index += 1;
            !steps.get(index - 1).is_some_and(is_left_out)
        });
    }

    /// Tells whether pi was killed at its end.
    pub(super) fn ends_in_a_kill(&self) -> bool {
        self.records.iter().any(|record| record.dir == Dir::Other && record.message["label"] == "after SIGKILL")
    }

    /// Returns the requests that pi sent to the model.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.records.iter().filter(|record| record.dir == Dir::Request).map(|record| record.message.clone()).collect()
    }
}

fn number(value: &Value) -> usize {
    value.as_u64().and_then(|number| usize::try_from(number).ok()).expect("a number")
}
