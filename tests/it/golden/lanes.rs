//! Events, sorted into lanes within which their order means something.
//!
//! - `run`: what the run itself does, in order. Tool ends that came within [`TOGETHER`] of each other in the recording
//!   may come in any order.
//! - `commanded`: what a client's command caused (a longer or emptied queue, a new name), in order.
//! - `output`: what each running tool printed, as one text a call.
//!
//! Events of both programs are brought into one shape here. pi repeats messages in `turn_end` and `agent_end`, sends
//! whole tails of tool output and the whole text at a block's end; the `full` view says each thing once and refers to
//! it by entry id. Both become labels: `m1`, `m2` … for the messages in the order of their `message_end`; one that the
//! table leaves out has none. Of output that is longer than the tail that pi repeats, only that tail is compared.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::differences::{Differences, Lane, Whose};
use super::recording::Record;

/// Tool ends at most this many milliseconds apart in a recording have no order.
const TOGETHER: f64 = 150.0;

/// An event in the common shape.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: String,
    pub(super) value: Value,
    /// When it was recorded; 0 for events of ours.
    at: f64,
}

/// The lanes of one run.
#[derive(Default)]
pub(super) struct Lanes {
    pub(super) run: Vec<Step>,
    pub(super) commanded: Vec<Step>,
    pub(super) output: BTreeMap<String, String>,
    /// Calls that have started and not ended.
    pub(super) running: Vec<String>,
}

/// Who sent the events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// pi, as recorded.
    Recorded,
    /// The daemon, in its `full` view.
    Played,
}

/// Sorts what pi sent in these records, without what the table gives to pi alone.
pub(super) fn recorded(recording: &str, records: &[Record], differences: &Differences) -> Lanes {
    let events = records.iter().filter(|record| record.is_event()).map(|record| (record.at, &record.message));
    let is_left_out =
        |kind: &str, event: &Value| differences.is_dropped(recording, Lane::Events, Whose::Pi, kind, event);
    sort(Side::Recorded, events, is_left_out)
}

/// Sorts what the daemon sent, without what the table gives to agentd alone.
pub(super) fn played(recording: &str, events: &[Value], differences: &Differences) -> Lanes {
    let is_left_out =
        |kind: &str, event: &Value| differences.is_dropped(recording, Lane::Events, Whose::Agentd, kind, event);
    sort(Side::Played, events.iter().map(|event| (0.0, event)), is_left_out)
}

/// An event to sort.
struct Event<'a> {
    at: f64,
    kind: &'a str,
    value: &'a Value,
    is_left_out: bool,
}

/// Sorts the events of one side; each has its time, or 0. Those that `is_left_out` names, by type and value, count as
/// never sent.
fn sort<'a>(
    side: Side,
    events: impl Iterator<Item = (f64, &'a Value)>,
    is_left_out: impl Fn(&str, &Value) -> bool,
) -> Lanes {
    let event = |(at, value): (f64, &'a Value)| {
        let kind = value["type"].as_str().unwrap_or_default();
        Event { at, kind, value, is_left_out: is_left_out(kind, value) }
    };
    let events: Vec<_> = events.map(event).collect();
    let mut labels = Labels::default();
    let mut lanes = Lanes::default();
    for (place, Event { at, kind, value: event, is_left_out }) in events.iter().enumerate() {
        if *is_left_out {
            labels.left_out += usize::from(*kind == "message_end");
            continue;
        }
        let id = || event["toolCallId"].as_str().unwrap_or_default().to_owned();
        match *kind {
            "tool_execution_update" => {
                output(side, event, lanes.output.entry(id()).or_default());
                continue;
            }
            "tool_execution_start" => lanes.running.push(id()),
            "tool_execution_end" => lanes.running.retain(|running| *running != id()),
            _ => {}
        }
        let step = Step { kind: (*kind).to_owned(), value: labels.shape(side, event), at: *at };
        let next = events[place + 1..].iter().find(|next| !next.is_left_out && !is_aside(next.value));
        if is_commanded(event, next.map(|next| next.value)) { &mut lanes.commanded } else { &mut lanes.run }.push(step);
    }
    lanes
}

fn output(side: Side, event: &Value, text: &mut String) {
    match side {
        Side::Played => text.push_str(event["delta"].as_str().unwrap_or_default()),
        Side::Recorded => {
            let blocks = event.pointer("/partialResult/content").and_then(Value::as_array);
            *text = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str()).collect();
        }
    }
}

/// Events that may stand anywhere between those of the run.
fn is_aside(event: &Value) -> bool {
    matches!(
        event["type"].as_str(),
        Some("tool_execution_update" | "client_attached" | "client_detached" | "notice" | "model_changed")
    )
}

/// A queue update belongs to the run when the message that it took out follows.
fn is_commanded(event: &Value, next: Option<&Value>) -> bool {
    let takes_out = |next: &Value| next["type"] == "message_start" && role(next) == "user";
    match event["type"].as_str() {
        Some("queue_update") => !next.is_some_and(takes_out),
        Some("session_info_changed" | "thinking_level_changed" | "model_changed") => true,
        _ => false,
    }
}

/// Returns the role of a message event of either side.
fn role(event: &Value) -> &str {
    let named = event["role"].as_str().or_else(|| event["message"]["role"].as_str());
    named.unwrap_or(if event.get("toolCallId").is_some() { "toolResult" } else { "" })
}

/// Returns what pi repeats of a running tool's output: its last 2000 lines, of these the last 50 KiB; a cut one without
/// its last line feed.
pub(super) fn tail(output: &str) -> &str {
    let body = output.strip_suffix('\n').unwrap_or(output);
    let lines = body.rmatch_indices('\n').nth(1999).map_or(0, |(place, _)| place + 1);
    let bytes = match output.len().saturating_sub(50 * 1024) {
        0 => 0,
        // Whole lines, but for one that is longer alone.
        surplus => output[surplus - 1..].find('\n').map_or(surplus, |place| surplus + place),
    };
    match lines.max(bytes) {
        0 => output,
        cut => &body[cut..],
    }
}

#[derive(Default)]
struct Labels {
    by_entry: BTreeMap<String, String>,
    count: usize,
    /// Messages since the last `agent_start`, and since the last `turn_start`.
    run: Vec<String>,
    turn: Vec<(String, String)>,
    /// Messages left out since the last `agent_start`.
    left_out: usize,
    /// Entry id that the last `message_start` announced.
    announced: Option<Value>,
}

impl Labels {
    /// Returns an event in the common shape.
    fn shape(&mut self, side: Side, event: &Value) -> Value {
        let kind = event["type"].as_str().unwrap_or_default();
        match kind {
            "agent_start" => {
                self.run.clear();
                self.left_out = 0;
                json!({"type": kind})
            }
            "turn_start" => {
                self.turn.clear();
                json!({"type": kind})
            }
            "message_start" => {
                self.announced = event.get("entryId").cloned();
                match role(event) {
                    "assistant" => json!({"type": kind, "role": "assistant", "message": event["message"]}),
                    role => json!({"type": kind, "role": role}),
                }
            }
            "message_update" => json!({"type": kind, "event": update(&event["assistantMessageEvent"])}),
            "message_end" => self.message_end(event),
            "turn_end" => match side {
                Side::Recorded => self.recorded_turn_end(event),
                Side::Played => {
                    let ids = event["toolResultIds"].as_array().into_iter().flatten();
                    let results: Vec<_> = ids.map(|id| self.label(id)).collect();
                    json!({"type": kind, "message": self.label(&event["entryId"]), "toolResults": results})
                }
            },
            "agent_end" => {
                let messages: Vec<_> = match side {
                    Side::Recorded => {
                        let count = event["messages"].as_array().map_or(0, Vec::len);
                        if count == self.run.len() + self.left_out {
                            self.run.clone()
                        } else {
                            vec![format!("{count} messages")]
                        }
                    }
                    Side::Played => {
                        event["entryIds"].as_array().into_iter().flatten().map(|id| self.label(id)).collect()
                    }
                };
                json!({"type": kind, "messages": messages, "willRetry": event["willRetry"]})
            }
            "agent_settled" => json!({"type": kind, "aborted": event["aborted"]}),
            "tool_execution_end" => {
                let mut event = event.clone();
                // pi says it twice: in the result as well, for some tools.
                if let Some(result) = event["result"].as_object_mut() {
                    result.shift_remove("isError");
                }
                event
            }
            _ => event.clone(),
        }
    }

    fn message_end(&mut self, event: &Value) -> Value {
        self.count += 1;
        let label = format!("m{}", self.count);
        if let Some(id) = event["entryId"].as_str() {
            self.by_entry.insert(id.to_owned(), label.clone());
        }
        let role = role(event);
        self.run.push(label.clone());
        self.turn.push((role.to_owned(), label.clone()));
        let mut out = match role {
            "toolResult" => {
                let call = event.get("toolCallId").unwrap_or(&event["message"]["toolCallId"]);
                json!({"type": "message_end", "role": role, "label": label, "toolCallId": call})
            }
            _ => json!({"type": "message_end", "role": role, "label": label, "message": event["message"]}),
        };
        if self.announced.take() != event.get("entryId").cloned() {
            out["fault"] = json!("another entry id than in message_start");
        }
        out
    }

    fn recorded_turn_end(&self, event: &Value) -> Value {
        let of = |wanted: &str| -> Vec<String> {
            self.turn.iter().filter(|(role, _)| role == wanted).map(|(_, label)| label.clone()).collect()
        };
        let results = of("toolResult");
        let count = event["toolResults"].as_array().map_or(0, Vec::len);
        assert_eq!(results.len(), count, "the recording's turn_end repeats what it announced");
        json!({"type": "turn_end", "message": of("assistant").last(), "toolResults": results})
    }

    fn label(&self, id: &Value) -> String {
        let known = id.as_str().and_then(|id| self.by_entry.get(id));
        known.cloned().unwrap_or_else(|| format!("unannounced entry {id}"))
    }
}

/// Returns an update without what `message_end` says again.
fn update(event: &Value) -> Value {
    let mut out = event.clone();
    if let Some(members) = out.as_object_mut() {
        members.shift_remove("content");
        members.shift_remove("toolCall");
    }
    out
}

/// Brings tool ends that have no order into one order, on both sides by the recording's clusters.
pub(super) fn settle_tool_ends(recorded: &mut [Step], played: &mut [Step]) {
    let is_end = |step: &Step| step.kind == "tool_execution_end";
    let by_call = |step: &Step| step.value["toolCallId"].as_str().unwrap_or_default().to_owned();
    let mut begin = 0;
    while begin < recorded.len() {
        let mut end = begin + 1;
        while end < recorded.len()
            && is_end(&recorded[begin])
            && is_end(&recorded[end])
            && recorded[end].at - recorded[end - 1].at < TOGETHER
        {
            end += 1;
        }
        recorded[begin..end].sort_by_key(by_call);
        if let Some(cluster) = played.get_mut(begin..end).filter(|cluster| cluster.iter().all(is_end)) {
            cluster.sort_by_key(by_call);
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::recording::Recording;
    use super::*;

    /// Says what pi said as the `full` view says it.
    fn in_full_view(events: &[Value]) -> Vec<Value> {
        let (mut entry, mut run, mut turn) = (0, Vec::new(), Vec::new());
        let mut printed = BTreeMap::<String, String>::new();
        let mut out = Vec::new();
        for event in events {
            let kind = event["type"].as_str().unwrap();
            let role = event["message"]["role"].as_str().unwrap_or_default();
            let id = format!("e{entry}");
            out.push(match kind {
                "message_start" if role == "assistant" => {
                    json!({"type": kind, "role": role, "entryId": id, "message": event["message"]})
                }
                "message_start" => json!({"type": kind, "role": role, "entryId": id}),
                "message_end" => {
                    entry += 1;
                    run.push(id.clone());
                    turn.push((role.to_owned(), id.clone()));
                    match role {
                        "toolResult" => {
                            json!({"type": kind, "entryId": id, "toolCallId": event["message"]["toolCallId"]})
                        }
                        _ => json!({"type": kind, "entryId": id, "message": event["message"]}),
                    }
                }
                "turn_end" => {
                    let turn = std::mem::take(&mut turn);
                    let of = |wanted: &str| -> Vec<_> {
                        turn.iter().filter(|(role, _)| role == wanted).map(|(_, id)| id.clone()).collect()
                    };
                    json!({"type": kind, "entryId": of("assistant")[0], "toolResultIds": of("toolResult")})
                }
                "agent_end" => {
                    json!({"type": kind, "entryIds": std::mem::take(&mut run), "willRetry": event["willRetry"]})
                }
                "tool_execution_update" => {
                    let call = event["toolCallId"].as_str().unwrap().to_owned();
                    let mut text = String::new();
                    output(Side::Recorded, event, &mut text);
                    let before = printed.insert(call.clone(), text.clone()).unwrap_or_default();
                    json!({"type": kind, "toolCallId": call, "delta": text.strip_prefix(&before).unwrap_or_default()})
                }
                _ => event.clone(),
            });
        }
        out
    }

    #[test]
    fn both_spellings_of_a_run_come_out_the_same() {
        for name in ["thinking-tools-parallel", "steer-mid-run", "retry-429", "abort-mid-tool", "edit-write"] {
            let recording = Recording::load(name);
            let events: Vec<_> =
                recording.records.into_iter().filter(|record| record.is_event()).map(|record| record.message).collect();
            let played = in_full_view(&events);
            let recorded = sort(Side::Recorded, events.iter().map(|event| (0.0, event)), |_, _| false);
            let played = sort(Side::Played, played.iter().map(|event| (0.0, event)), |_, _| false);
            let values = |steps: Vec<Step>| steps.into_iter().map(|step| step.value).collect::<Vec<_>>();
            assert_eq!(values(played.run), values(recorded.run), "{name}");
            assert_eq!(values(played.commanded), values(recorded.commanded), "{name}");
            assert_eq!(played.output, recorded.output, "{name}");
        }
    }
}
