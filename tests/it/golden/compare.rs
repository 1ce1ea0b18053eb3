//! Compares what was recorded with what was played, step by step.

use serde_json::Value;

use super::differences::{ABSENT, Differences, Lane, Whose};

/// A step of a lane.
pub(super) type Kinded = (String, Value);

/// Compares the lanes of one recording and collects what is wrong.
pub(super) struct Comparison<'a> {
    pub(super) recording: &'a str,
    pub(super) differences: &'a Differences,
    pub(super) problems: Vec<String>,
}

impl Comparison<'_> {
    /// Leaves out the steps that one side may have alone.
    pub(super) fn keep(&self, lane: Lane, whose: Whose, steps: Vec<Kinded>) -> Vec<Kinded> {
        let dropped = |step: &Kinded| self.differences.is_dropped(self.recording, lane, whose, &step.0, &step.1);
        steps.into_iter().filter(|step| !dropped(step)).collect()
    }

    /// Compares two lists of steps; returns how many were compared.
    pub(super) fn steps(&mut self, lane: Lane, recorded: &[Kinded], played: &[Kinded]) -> usize {
        for (place, (recorded_step, played_step)) in recorded.iter().zip(played).enumerate() {
            if recorded_step.0 != played_step.0 {
                self.problem(lane, place, &order(place, recorded, played));
                return place;
            }
            let mut found = Vec::new();
            diff("", Some(&recorded_step.1), Some(&played_step.1), &mut found);
            for (path, pi, agentd) in found {
                if !self.differences.accepts(self.recording, lane, &recorded_step.0, &path, &pi, &agentd) {
                    let text = format!(
                        "{} {path}\n      pi     {}\n      agentd {}",
                        recorded_step.0,
                        short(&pi),
                        short(&agentd)
                    );
                    self.problem(lane, place, &text);
                }
            }
        }
        if recorded.len() != played.len() {
            let place = recorded.len().min(played.len());
            self.problem(lane, place, &order(place, recorded, played));
        }
        recorded.len().min(played.len())
    }

    /// Notes what is wrong at a step.
    pub(super) fn problem(&mut self, lane: Lane, place: usize, text: &str) {
        self.problems.push(format!("{lane:?} {place}: {text}"));
    }
}

/// Shows what comes at a place and after it on both sides.
fn order(place: usize, recorded: &[Kinded], played: &[Kinded]) -> String {
    let next = |steps: &[Kinded]| {
        let kinds: Vec<_> = steps.iter().skip(place).take(4).map(|(kind, _)| kind.clone()).collect();
        let first = steps.get(place).map(|(_, value)| short(value)).unwrap_or_default();
        format!("{} of {}: {}\n          {first}", place, steps.len(), kinds.join(", "))
    };
    format!("the order differs\n      pi     {}\n      agentd {}", next(recorded), next(played))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 420 {
        return text;
    }
    let head: String = text.chars().take(400).collect();
    format!("{head} …")
}

/// Collects the members that differ: path, ours and theirs, with [`ABSENT`] for a missing one.
fn diff(path: &str, recorded: Option<&Value>, played: Option<&Value>, found: &mut Vec<(String, Value, Value)>) {
    match (recorded, played) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let more = right.keys().filter(|key| !left.contains_key(*key));
            for key in left.keys().chain(more) {
                diff(&format!("{path}/{key}"), left.get(key), right.get(key), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            // Items that only one side has do not make all that follow differ.
            let shorter = left.len().min(right.len());
            let same_tail = |count: usize| left[left.len() - count..] == right[right.len() - count..];
            let tail = if left.len() == right.len() {
                0
            } else {
                (0..=shorter).rev().find(|count| same_tail(*count)).unwrap_or(0)
            };
            let (left, right) = (&left[..left.len() - tail], &right[..right.len() - tail]);
            for place in 0..left.len().max(right.len()) {
                diff(&format!("{path}/{place}"), left.get(place), right.get(place), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            let or_absent = |value: Option<&Value>| value.cloned().unwrap_or_else(|| Value::from(ABSENT));
            found.push((path.to_owned(), or_absent(left), or_absent(right)));
        }
    }
}

/// Reduces a value to the members that another has: an answer may say more than pi's.
pub(super) fn restrict(value: &Value, like: &Value) -> Value {
    match (value, like) {
        (Value::Object(value), Value::Object(like)) => {
            let kept = value.iter().filter_map(|(key, value)| Some((key.clone(), restrict(value, like.get(key)?))));
            Value::Object(kept.collect())
        }
        (Value::Array(items), Value::Array(like)) if items.len() == like.len() => {
            Value::Array(items.iter().zip(like).map(|(item, like)| restrict(item, like)).collect())
        }
        _ => value.clone(),
    }
}
