//! A client: it connects, is cut, attaches from some cursor in some view, and folds what it hears.

use std::collections::{HashMap, VecDeque};

use agentd_protocol::event::{Event, EventParams};
use agentd_protocol::framing::Framing;
use agentd_protocol::message::{ContentBlock, Message, ToolCall};
use agentd_protocol::methods::{AttachResult, Replay, View};
use agentd_protocol::session_view::{Applied, SessionView, text_of};
use agentd_protocol::{Cursor, Epoch, Seq};
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::plan::{Say, Since};
use super::truth::{Truth, block_of};
use super::wire::Wire;
use super::world::World;

/// Earlier views that a client keeps of each session.
const KEPT: usize = 6;

/// See the module.
#[derive(Default)]
pub(super) struct Device {
    pub(super) wire: Option<Wire>,
    /// What was asked on the present connection and is not answered yet, oldest first.
    asked: VecDeque<(u64, Asked)>,
    /// What is read on it.
    streams: HashMap<usize, Stream>,
    /// What it holds of the sessions, also while it is not connected.
    pub(super) held: HashMap<usize, SessionView>,
    /// What it held earlier.
    kept: HashMap<usize, VecDeque<SessionView>>,
}

/// A request on its way.
enum Asked {
    /// From the cursor of the view that the client then had, if it named one.
    Attach {
        session: usize,
        view: View,
        base: Option<Box<SessionView>>,
        /// Events after that cursor were forgotten when it was asked.
        is_late: bool,
    },
    Detach {
        session: usize,
    },
    Other {
        session: usize,
        /// It is answered whenever it is done.
        waits: bool,
    },
}

/// Where the stream of a session stands on a connection.
struct Stream {
    epoch: Epoch,
    view: View,
    at: Seq,
    /// The number with which the last event begins; 0 when none has come yet.
    last_from: Seq,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

/// Refusals that a client may get in these cases.
const REFUSALS: [&str; 3] = ["busy", "wrong_state", "unknown_entry"];

impl Device {
    pub(super) fn connect(&mut self, world: &World, pipe: usize, framing: Framing) {
        self.cut();
        self.wire = Some(Wire::new(world, pipe, framing));
    }

    /// Loses the connection with all that is in it.
    pub(super) fn cut(&mut self) {
        self.wire = None;
        self.asked.clear();
        self.streams.clear();
    }

    /// Tells whether it has a connection on which it can ask for something.
    pub(super) fn can_speak(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| !wire.is_half)
    }

    /// Tells whether it reads a session.
    pub(super) fn is_attached(&self, session: usize) -> bool {
        self.streams.contains_key(&session)
    }

    fn is_attaching(&self, session: usize) -> bool {
        self.asked.iter().any(|(_, asked)| matches!(asked, Asked::Attach { session: its, .. } if *its == session))
    }

    /// Tells whether every request was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.asked.is_empty()
    }

    pub(super) fn attach(&mut self, world: &World, session: usize, view: View, since: Since, history: Option<bool>) {
        let is_pending = self.is_attaching(session);
        let base = match since {
            // Which answer comes first decides what the client then has: it asks for all.
            _ if is_pending => None,
            Since::Last => self.held.get(&session).cloned(),
            Since::Earlier(back) => self.kept.get(&session).and_then(|kept| kept.get(back)).cloned(),
            Since::Nothing | Since::Future | Since::ForeignEpoch => None,
        };
        let known = self.held.get(&session).map(SessionView::cursor).filter(|_| !is_pending);
        let since = match (since, known) {
            (Since::Future, Some(cursor)) => Some(Cursor { seq: cursor.seq + 100_000, ..cursor }),
            (Since::ForeignEpoch, Some(cursor)) => Some(Cursor { epoch: Epoch::new("another"), ..cursor }),
            _ => base.as_ref().map(SessionView::cursor),
        };
        let mut params = json!({"sessionId": world.sessions[session], "view": view, "since": since});
        if let Some(history) = history {
            params["history"] = history.into();
        }
        if since.is_none() {
            params.as_object_mut().unwrap().remove("since");
        }
        let is_late = base.as_ref().is_some_and(|base| world.is_forgotten_after(session, &base.cursor(), view));
        self.ask("attach", &params, Asked::Attach { session, view, base: base.map(Box::new), is_late });
    }

    pub(super) fn detach(&mut self, world: &World, session: usize) {
        self.ask("detach", &json!({"sessionId": world.sessions[session]}), Asked::Detach { session });
    }

    pub(super) fn say(&mut self, world: &World, session: usize, what: Say, number: usize) {
        let message = format!("message {number}");
        let (method, mut params) = match what {
            Say::Prompt => ("prompt", json!({"message": message})),
            Say::PromptToSteer => ("prompt", json!({"message": message, "ifBusy": "steer"})),
            Say::PromptToFollow => ("prompt", json!({"message": message, "ifBusy": "followUp"})),
            Say::LongPrompt => ("prompt", json!({"message": message.repeat(9000)})),
            Say::Steer => ("steer", json!({"message": message})),
            Say::FollowUp => ("follow_up", json!({"message": message})),
            Say::Abort => ("abort", json!({})),
            Say::ClearQueue => ("clear_queue", json!({})),
            Say::Name => ("set_session_name", json!({"name": message})),
            Say::RetrySetting => ("set_auto_retry", json!({"enabled": number.is_multiple_of(2)})),
            Say::State => ("get_state", json!({})),
            Say::Entries => ("get_entries", json!({"branch": true, "limit": 1 + number % 5})),
            Say::AllEntries => ("get_entries", json!({"branch": true})),
        };
        params["sessionId"] = json!(world.sessions[session]);
        self.ask(method, &params, Asked::Other { session, waits: matches!(what, Say::Abort) });
    }

    fn ask(&mut self, method: &str, params: &Value, asked: Asked) {
        if let Some(wire) = self.wire.as_mut().filter(|wire| !wire.is_half) {
            let id = wire.ask(method, params);
            self.asked.push_back((id, asked));
        }
    }

    /// Reads at most so many bytes; returns how many came.
    pub(super) fn read(&mut self, world: &World, truth: &mut Truth, bytes: usize) -> usize {
        let Some(wire) = &mut self.wire else { return 0 };
        let (read, messages) = wire.read(bytes);
        for message in &messages {
            let text = std::str::from_utf8(message).unwrap();
            let incoming: Incoming<'_> = serde_json::from_str(text).unwrap();
            match incoming.id {
                Some(id) => self.answer(truth, id, &incoming),
                // It broke off within a request.
                None if incoming.error.as_ref().is_some_and(|error| error["data"]["kind"] == "parse_error") => {
                    assert!(self.wire.as_ref().is_some_and(|wire| wire.is_half), "{text}");
                }
                None => self.event(world, truth, incoming.params.expect(text).get()),
            }
        }
        read
    }

    fn answer(&mut self, truth: &mut Truth, id: u64, incoming: &Incoming<'_>) {
        let at = self.asked.iter().position(|(asked, _)| *asked == id).expect("an answer to what was asked");
        let (_, asked) = self.asked.remove(at).unwrap();
        let Some(result) = incoming.result else {
            let error = incoming.error.as_ref().unwrap();
            let kind = error["data"]["kind"].as_str().unwrap();
            assert!(matches!(asked, Asked::Other { .. }) && REFUSALS.contains(&kind), "{error}");
            return;
        };
        match asked {
            Asked::Attach { session, view, base, is_late } => {
                let result: AttachResult = serde_json::from_str(result.get()).unwrap();
                assert!(!is_late || result.replay == Replay::Snapshot, "event {} was forgotten", result.seq + 1);
                self.attached(truth, session, view, base, result);
            }
            Asked::Detach { session } => {
                self.reflects(session, result, false);
                self.streams.remove(&session);
            }
            Asked::Other { session, waits } => self.reflects(session, result, waits),
        }
    }

    /// What an answer reflects has been read before it, and nothing later unless it waits.
    fn reflects(&self, session: usize, result: &RawValue, waits: bool) {
        #[derive(Deserialize)]
        struct WithSeq {
            seq: Seq,
        }
        let WithSeq { seq } = serde_json::from_str(result.get()).unwrap();
        let is_attaching = self.is_attaching(session);
        let Some(stream) = self.streams.get(&session) else { return };
        assert!(waits || stream.last_from <= seq, "event {} came before an answer of event {seq}", stream.last_from);
        // An attachment that is on its way may stand for events that were lost.
        if is_whole(stream.view) && !is_attaching {
            assert!(stream.at >= seq, "an answer of event {seq} came after event {}", stream.at);
        }
    }

    fn attached(
        &mut self,
        truth: &mut Truth,
        session: usize,
        view: View,
        base: Option<Box<SessionView>>,
        result: AttachResult,
    ) {
        if let Some(old) = self.streams.get(&session).filter(|old| old.epoch == result.epoch) {
            let is_past = old.at > result.seq && result.replay == Replay::Snapshot;
            assert!(!is_past, "event {} came before the snapshot of event {}", old.at, result.seq);
        }
        let stream = Stream { epoch: result.epoch.clone(), view, at: result.seq, last_from: 0 };
        self.streams.insert(session, stream);
        if result.replay == Replay::Snapshot {
            return self.begin(truth, session, SessionView::new(result, view));
        }
        let mut held = *base.expect("only a cursor that was given is replayed");
        assert_eq!((&result.epoch, result.seq, &result.snapshot), (&held.epoch, held.seq, &None));
        if held.view == View::Status && view != View::Status {
            // Of these it knows little.
            (held.entries, held.before) = (Vec::new(), None);
        }
        held.view = view;
        self.held.insert(session, held);
    }

    /// Begins with a snapshot.
    fn begin(&mut self, truth: &mut Truth, session: usize, held: SessionView) {
        truth.held(session, &held);
        truth.entries(&held.entries);
        self.held.insert(session, held);
    }

    fn event(&mut self, world: &World, truth: &mut Truth, text: &str) {
        let params: EventParams = serde_json::from_str(text).unwrap();
        let session = world.sessions.iter().position(|id| *id == params.session_id).expect(text);
        let stream = self.streams.get_mut(&session).unwrap_or_else(|| panic!("before its attachment: {text}"));
        match &params.event {
            Event::Lagged(result) => {
                assert_eq!((params.seq, params.from, result.replay), (result.seq, None, Replay::Snapshot));
                assert!(result.epoch != stream.epoch || result.seq >= stream.at, "back from {}: {text}", stream.at);
                *stream = Stream { epoch: result.epoch.clone(), view: stream.view, at: result.seq, last_from: 0 };
                let held = SessionView::new((**result).clone(), stream.view);
                return self.begin(truth, session, held);
            }
            Event::Detached { .. } | Event::Unknown(_) => panic!("{text}"),
            _ => {}
        }
        let from = params.from.unwrap_or(params.seq);
        if is_whole(stream.view) {
            assert_eq!(from, stream.at + 1, "{text}");
            assert!(params.from.is_none() || (stream.view == View::Coalesced && from < params.seq), "{text}");
        } else {
            assert!(params.from.is_none() && from > stream.at, "{text} after {}", stream.at);
            truth.passed_over(session, &stream.epoch, stream.view, (stream.at, params.seq));
        }
        (stream.at, stream.last_from) = (params.seq, from);
        truth.event(session, &stream.epoch, &params, text, stream.view);
        self.fold(truth, session, &params);
    }

    fn fold(&mut self, truth: &mut Truth, session: usize, params: &EventParams) {
        let held = self.held.get_mut(&session).unwrap();
        check_end(held, &params.event);
        let entries = held.entries.len();
        assert_eq!(held.apply(params), Ok(Applied::Event), "{params:?}");
        if held.view != View::Status {
            truth.entries(&held.entries[entries.saturating_sub(1)..]);
        }
        truth.held(session, held);
        if params.seq.is_multiple_of(5) {
            let kept = self.kept.entry(session).or_default();
            kept.push_front(held.clone());
            kept.truncate(KEPT);
        }
    }
}

/// Tells whether a view shows every event.
fn is_whole(view: View) -> bool {
    matches!(view, View::Full | View::Coalesced)
}

/// What has grown is, at its end, what it grew to be.
fn check_end(held: &SessionView, event: &Event) {
    if !is_whole(held.view) {
        return;
    }
    match event {
        Event::MessageEnd { message: Some(Message::Assistant(message)), entry_id, .. } => {
            let Some(open) = &held.open else {
                return assert!(message.content.is_empty(), "message {entry_id} has not begun");
            };
            assert_eq!(open.entry_id, *entry_id);
            assert_eq!(open.message.content.len(), message.content.len(), "message {entry_id}");
            for (grown, whole) in open.message.content.iter().zip(&message.content) {
                // Arguments that broke off end as none.
                let is_broken = matches!(grown, ContentBlock::ToolCall(call) if !has_whole_arguments(call));
                assert!(is_broken || block_of(grown) == block_of(whole), "message {entry_id}: {grown:?}, {whole:?}");
            }
        }
        Event::ToolExecutionEnd { tool_call_id, result, duration_ms: Some(_), .. } => {
            let tool = held.tools.iter().find(|tool| tool.tool_call_id == *tool_call_id);
            assert_eq!(tool.expect("it has begun").output, text_of(&result.content));
        }
        _ => {}
    }
}

fn has_whole_arguments(call: &ToolCall) -> bool {
    call.arguments_text.as_ref().is_none_or(|text| serde_json::from_str::<Value>(text).is_ok())
}
