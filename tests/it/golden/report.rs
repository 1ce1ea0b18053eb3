//! The test: which recordings are played, what was compared, and what came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::canonical::Names;
use super::compare::{Comparison, Kinded, restrict};
use super::differences::{Differences, Lane, Whose, entry_kind};
use super::lanes::{self, settle_tool_ends};
use super::player::{self, Played};
use super::recording::{Dir, Recording};
use super::requests;

/// Recordings that are played, with the commands (by name or id) left out because their methods, or the dialects of
/// their models, are still to come.
const PLAYED: &[(&str, &[&str])] = &[
    ("abort-clear-queue", &[]),
    ("abort-mid-stream", &[]),
    ("abort-mid-tool", &[]),
    ("abort-mid-toolcall-args", &[]),
    ("abort-with-queue", &[]),
    ("anthropic-tools", &[]),
    ("bash-tool", &[]),
    ("bash-truncation", &["bash"]),
    ("concurrent-prompts", &[]),
    ("connection-dropped", &[]),
    ("edit-write", &[]),
    ("empty-and-odd-stops", &[]),
    ("error-400-401", &[]),
    ("follow-up-mid-run", &[]),
    ("grep-find-ls", &[]),
    ("image-on-text-model", &[]),
    ("models-thinking", &["r2"]),
    ("parallel-tools-order", &[]),
    ("prompt-images", &[]),
    ("queue-while-idle", &[]),
    ("read-tool", &[]),
    ("retry-429", &[]),
    ("retry-429-default-delay", &[]),
    ("retry-abort", &[]),
    ("retry-abort-via-abort", &[]),
    ("retry-disabled", &[]),
    ("retry-exhausted", &[]),
    ("sigkill-mid-stream", &[]),
    ("simple-text", &[]),
    ("stdin-eof-mid-run", &[]),
    ("steer-all-mode", &[]),
    ("steer-mid-run", &[]),
    ("steer-while-text", &[]),
    ("stream-cut", &[]),
    ("stream-cut-mid-toolcall", &[]),
    ("stream-end-no-finish", &[]),
    ("stream-error-object", &[]),
    ("stream-malformed", &[]),
    ("thinking-tools-parallel", &["get_tree"]),
    ("two-writers", &[]),
    ("unicode-text", &[]),
];

/// Recordings that are cut off: before which command, how many lines the session file has there, and why.
const CUT: &[(&str, &str, usize, &str)] = &[
    ("anthropic-tools", "r4", 17, "compaction is still to come"),
    ("models-thinking", "r20", 15, "the dialects of the models are still to come"),
];

/// Plays at the same time: each has a daemon of its own.
const AT_ONCE: usize = 3;

/// Problems shown of one recording.
const SHOWN: usize = 30;

#[derive(Default)]
struct Outcome {
    problems: Vec<String>,
    /// Steps compared by lane.
    compared: BTreeMap<&'static str, usize>,
    /// What was not played.
    left_out: Vec<String>,
}

impl Outcome {
    fn is_part(&self) -> bool {
        !self.left_out.is_empty()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recordings_come_out_as_recorded() {
    let differences = Differences::load();
    let wanted = std::env::var("GOLDEN").ok();
    let names: Vec<_> =
        PLAYED.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|wanted| name.contains(wanted))).collect();
    let mut outcomes = BTreeMap::new();
    for group in names.chunks(AT_ONCE) {
        let plays = group.iter().map(|(name, skipped)| outcome(name, skipped, &differences));
        for (group, outcome) in group.iter().zip(futures_util::future::join_all(plays).await) {
            outcomes.insert(group.0, outcome);
        }
    }
    let unused = if wanted.is_some() { Vec::new() } else { differences.unused() };
    let report = report(&outcomes, &differences);
    println!("{report}");
    let failed = outcomes.values().any(|outcome| !outcome.problems.is_empty());
    assert!(!failed, "recordings came out differently:\n{report}");
    assert!(unused.is_empty(), "rows of differences.json that no recording needs: {unused:#?}");
}

#[test]
fn the_page_of_differences_is_current() {
    let page = Differences::load().page();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(Differences::page_path(), &page).expect("write the page");
    }
    let shown = std::fs::read_to_string(Differences::page_path()).unwrap_or_default();
    assert_eq!(shown, page, "make proto-docs/differences.md again: UPDATE_PAGES=1 cargo test the_page_of_differences");
}

fn report(outcomes: &BTreeMap<&str, Outcome>, differences: &Differences) -> String {
    let mut text = String::new();
    let mut sums = BTreeMap::<&str, usize>::new();
    for (name, outcome) in outcomes {
        let counts: Vec<_> = outcome.compared.iter().map(|(lane, count)| format!("{count} {lane}")).collect();
        let verdict = if outcome.problems.is_empty() { "same" } else { "DIFFERENT" };
        let part =
            if outcome.is_part() { format!(" (IN PART: {})", outcome.left_out.join("; ")) } else { String::new() };
        writeln!(text, "{verdict:9} {name}{part}: {}", counts.join(", ")).expect("write to a string");
        for problem in outcome.problems.iter().take(SHOWN) {
            writeln!(text, "    {problem}").expect("write to a string");
        }
        if outcome.problems.len() > SHOWN {
            writeln!(text, "    and {} more", outcome.problems.len() - SHOWN).expect("write to a string");
        }
        for (lane, count) in &outcome.compared {
            *sums.entry(lane).or_default() += count;
        }
    }
    let same = outcomes.values().filter(|outcome| outcome.problems.is_empty()).count();
    let in_part = outcomes.values().filter(|outcome| outcome.is_part()).count();
    let all = Recording::names().len();
    let sums: Vec<_> = sums.iter().map(|(lane, count)| format!("{count} {lane}")).collect();
    writeln!(
        text,
        "{} of {all} played, {in_part} in part, {} still to come; {same} as recorded ({} accepted differences); \
         compared: {}",
        outcomes.len(),
        all - PLAYED.len(),
        differences.len(),
        sums.join(", "),
    )
    .expect("write to a string");
    text
}

async fn outcome(name: &str, skipped: &[&str], differences: &Differences) -> Outcome {
    let mut recording = Recording::load(name);
    let mut outcome = Outcome::default();
    if !skipped.is_empty() {
        outcome.left_out.push(format!("without {}", skipped.join(", ")));
    }
    if let Some((_, command, lines, why)) = CUT.iter().find(|(cut, ..)| *cut == name) {
        let whole = recording.records.len();
        recording.cut_before(command, *lines);
        outcome.left_out.push(format!("{} of {whole} records, {why}", recording.records.len()));
    }
    let played = player::play(&recording, skipped, differences).await;
    outcome.problems.extend(played.stopped.clone());
    let mut comparison = Comparison { recording: name, differences, problems: Vec::new() };
    let names = recording.entry_names(differences);
    outcome.compared.insert("events", events(&recording, &names, &played, &mut comparison));
    outcome.compared.insert("answers", answers(&recording, skipped, &names, &played, &mut comparison));
    outcome.compared.insert("entries", entries(&recording, &names, &played, &mut comparison));
    outcome.compared.insert("requests", requests_made(&recording, &names, &played, &mut comparison));
    outcome.problems.extend(comparison.problems);
    outcome.problems.extend(announced(&played));
    outcome
}

fn events(recording: &Recording, names: &Names, played: &Played, comparison: &mut Comparison<'_>) -> usize {
    let recorded = lanes::recorded(&recording.name, &recording.records, comparison.differences);
    let sorted = lanes::played(&recording.name, &played.events, comparison.differences);
    let mut count = 0;
    for (mut recorded, mut sorted) in [(recorded.run, sorted.run), (recorded.commanded, sorted.commanded)] {
        settle_tool_ends(&mut recorded, &mut sorted);
        let recorded: Vec<_> = recorded.into_iter().map(|step| (step.kind, names.rewrite(&step.value))).collect();
        let sorted: Vec<_> = sorted.into_iter().map(|step| (step.kind, played.names.rewrite(&step.value))).collect();
        count += comparison.steps(Lane::Events, &recorded, &sorted);
    }
    for (call, text) in &recorded.output {
        let text = names.rewrite(&json!(text));
        let ours = sorted.output.get(call).map_or("", |output| lanes::tail(output));
        let ours = played.names.rewrite(&json!(ours));
        let kind = "tool_execution_update".to_owned();
        let (recorded, sorted) = (json!({"call": call, "output": text}), json!({"call": call, "output": ours}));
        count += comparison.steps(Lane::Events, &[(kind.clone(), recorded)], &[(kind, sorted)]);
    }
    count
}

fn answers(
    recording: &Recording,
    skipped: &[&str],
    names: &Names,
    played: &Played,
    comparison: &mut Comparison<'_>,
) -> usize {
    let (mut recorded_answers, mut played_answers) = (Vec::new(), Vec::new());
    for (index, record) in recording.records.iter().enumerate().filter(|(_, record)| record.dir == Dir::In) {
        let command = record.message["type"].as_str().unwrap_or_default();
        if record.is_skipped(skipped) {
            continue;
        }
        let recorded = recording.records[index..].iter().find(|answer| {
            answer.dir == Dir::Out
                && answer.message["type"] == "response"
                && answer.message["id"] == record.message["id"]
        });
        let Some(recorded) = recorded else { continue };
        let recorded = match recorded.message["success"].as_bool() {
            Some(true) => json!({"ok": recorded.message.get("data").cloned().unwrap_or_else(|| json!({}))}),
            _ => json!({"error": recorded.message["error"]}),
        };
        recorded_answers.push((command.to_owned(), names.rewrite(&recorded)));
        if let Some(answer) = played.answers.get(&index) {
            let ours = match answer.get("result") {
                Some(result) => json!({"ok": reduced(command, result, &recorded["ok"])}),
                None => json!({"error": answer["error"]["data"]["kind"]}),
            };
            played_answers.push((command.to_owned(), played.names.rewrite(&ours)));
        }
    }
    comparison.steps(Lane::Answers, &recorded_answers, &played_answers)
}

/// Leaves out what an answer says beyond pi's; messages and entries are compared whole.
fn reduced(command: &str, result: &Value, like: &Value) -> Value {
    if !matches!(command, "get_messages" | "get_entries") {
        return restrict(result, like);
    }
    let mut result = result.clone();
    if let Some(members) = result.as_object_mut() {
        members.shift_remove("seq");
    }
    result
}

fn entries(recording: &Recording, names: &Names, played: &Played, comparison: &mut Comparison<'_>) -> usize {
    let steps = |sessions: &[Vec<Value>], names: &Names| -> Vec<Kinded> {
        sessions.iter().flatten().map(|entry| (entry_kind(entry), names.rewrite(entry))).collect()
    };
    let recorded = comparison.keep(Lane::Entries, Whose::Pi, steps(&recording.sessions, names));
    let sorted = comparison.keep(Lane::Entries, Whose::Agentd, steps(&played.sessions, &played.names));
    comparison.steps(Lane::Entries, &recorded, &sorted)
}

fn requests_made(recording: &Recording, names: &Names, played: &Played, comparison: &mut Comparison<'_>) -> usize {
    let steps = |made: &[Value], names: &Names| made.iter().map(|request| requests::step(request, names)).collect();
    let recorded = comparison.keep(Lane::Requests, Whose::Pi, steps(&recording.requests(), names));
    let sorted: Vec<_> = steps(&played.requests, &played.names);
    comparison.steps(Lane::Requests, &recorded, &sorted)
}

/// Checks that every message announced is in a file, as it was announced.
fn announced(played: &Played) -> Vec<String> {
    let mut problems = Vec::new();
    for event in played.events.iter().filter(|event| event["type"] == "message_end") {
        let entry = played.sessions.iter().flatten().find(|entry| entry["id"] == event["entryId"]);
        let message = event.get("message");
        match entry {
            None => problems.push(format!("the message of entry {} was announced and is in no file", event["entryId"])),
            Some(entry) if message.is_some_and(|message| *message != entry["message"]) => {
                problems.push(format!("entry {} differs from its message_end", event["entryId"]));
            }
            Some(_) => {}
        }
    }
    problems
}
