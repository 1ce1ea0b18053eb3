//! The events of one session that can be replayed, the merged frames of the `coalesced` view and the short ones of
//! `status`. Knows nothing of subscribers or locks.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

use agentd_protocol::Seq;
use agentd_protocol::message::{ContentBlock, Message, Usage};
use agentd_protocol::methods::View;
use bytes::Bytes;
use tokio::time::Instant;

use super::encode::{Delta, Place, delta_frame, delta_of, escape, event_frame};
use super::short::short_frame;
use super::shown::{Class, Growth, Lacks};
use crate::agent::event::Event;

/// A merged frame is closed when its text has grown to this many bytes, so that a very fast stream still flows.
const MAX_MERGED_BYTES: usize = 64 * 1024;
/// A scratch buffer larger than this is given back after use.
const KEEP_SCRATCH_BYTES: usize = 64 * 1024;

/// Retained events of one session, numbered without gaps.
pub(super) struct Buffer {
    head: Box<[u8]>,
    /// Number of the first event in `slots`, or of the next event when there is none.
    first: Seq,
    slots: VecDeque<Slot>,
    /// Closed merges of two events or more, oldest first.
    merges: VecDeque<Merge>,
    open: Option<OpenMerge>,
    /// Short frames for the `status` view, oldest first; of the other events it shows the whole frame.
    shorts: VecDeque<(Seq, Bytes)>,
    growth: Growth,
    /// What readers of poorer views lack after the last event that was forgotten.
    lacks_before: Lacks,
    /// The last events of the classes `Status` and `Entry` or less.
    last_shown: (Seq, Seq),
    /// The last of those that were forgotten.
    last_forgotten: (Seq, Seq),
    last_delta: Seq,
    /// When the session settled, and the last delta before that.
    settled: VecDeque<(Instant, Seq)>,
    bytes: usize,
    scratch: Vec<u8>,
}

struct Slot {
    stored: Stored,
    tick: u64,
    class: Class,
    /// What readers of poorer views lack after this event.
    lacks: Lacks,
}

/// An event, in the smallest form that its frame can be had from.
enum Stored {
    /// Encoded.
    Frame(Bytes),
    /// A delta nobody has read yet.
    Delta { place: Place, text: Arc<str> },
    /// A message nobody has read yet: its content is shared with the session, while a frame would be a copy.
    Event(Box<Event>),
}

/// A closed merge.
struct Merge {
    from: Seq,
    to: Seq,
    frame: Bytes,
}

/// Deltas of one place that are still being gathered.
struct OpenMerge {
    from: Seq,
    to: Seq,
    place: Place,
    usage: Option<Usage>,
    escaped: Vec<u8>,
}

impl Buffer {
    pub(super) fn new(head: Box<[u8]>) -> Self {
        Self {
            head,
            first: 1,
            slots: VecDeque::new(),
            merges: VecDeque::new(),
            open: None,
            shorts: VecDeque::new(),
            growth: Growth::default(),
            lacks_before: Lacks::default(),
            last_shown: (0, 0),
            last_forgotten: (0, 0),
            last_delta: 0,
            settled: VecDeque::new(),
            bytes: 0,
            scratch: Vec::new(),
        }
    }

    /// Returns the number of the newest event, 0 before the first.
    pub(super) fn last(&self) -> Seq {
        self.first + self.slots.len() as Seq - 1
    }

    /// Returns the bytes that the events hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn oldest_tick(&self) -> u64 {
        self.slots.front().map_or(u64::MAX, |slot| slot.tick)
    }

    pub(super) fn has_open_merge(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the last number up to which the `coalesced` view can be read now.
    pub(super) fn coalesced_last(&self) -> Seq {
        self.open.as_ref().map_or_else(|| self.last(), |open| open.from - 1)
    }

    /// Returns the number of the last event that a view has to show now.
    pub(super) fn last_in(&self, view: View) -> Seq {
        match view {
            View::Full => self.last(),
            View::Coalesced => self.coalesced_last(),
            View::Entries => self.last_shown.1,
            View::Status => self.last_shown.0,
        }
    }

    /// Returns the number of the last forgotten event that a view would show.
    pub(super) fn forgotten_in(&self, view: View) -> Seq {
        match view {
            View::Full | View::Coalesced => self.first - 1,
            View::Entries => self.last_forgotten.1,
            View::Status => self.last_forgotten.0,
        }
    }

    /// Tells whether a reader of a view lacks something after an event, which is retained or the one before.
    pub(super) fn is_lacking_after(&self, seq: Seq, view: View) -> bool {
        let lacks = match (seq + 1).checked_sub(self.first) {
            None | Some(0) => Some(self.lacks_before),
            Some(count) => self.slots.get(count as usize - 1).map(|slot| slot.lacks),
        };
        lacks.is_some_and(|lacks| lacks.is_any(view))
    }

    /// Returns the first event from `seq` on that a view shows.
    pub(super) fn next_in(&self, view: View, seq: Seq) -> Option<Seq> {
        let start = seq.max(self.first);
        let skipped = (start - self.first) as usize;
        let at = self.slots.iter().skip(skipped).position(|slot| slot.class.is_in(view))?;
        Some(start + at as Seq)
    }

    /// Numbers an event and keeps it. `merging` and `shortening` tell whether anybody reads merged frames, and short
    /// ones.
    pub(super) fn push(&mut self, event: Event, tick: u64, merging: bool, shortening: bool) {
        let seq = self.last() + 1;
        let class = Class::of(&event);
        self.growth.note(&event);
        note_shown(&mut self.last_shown, class, seq);
        if shortening && let Some(frame) = short_frame(&self.head, seq, &event) {
            self.bytes += size_of::<(Seq, Bytes)>() + frame.len();
            self.shorts.push_back((seq, frame));
        }
        let delta = delta_of(&event);
        if delta.is_some() {
            self.last_delta = seq;
        }
        match &delta {
            Some(delta) if merging => self.merge(seq, delta),
            _ => self.close_merge(),
        }
        let stored = match (&event, delta) {
            (_, Some(Delta { place, usage: None, text })) => Stored::Delta { place, text: text.clone() },
            (Event::MessageEnd(entry), _) if !matches!(*entry.message, Message::ToolResult(_)) => {
                Stored::Event(Box::new(event))
            }
            _ => Stored::Frame(self.encode(|out, head| event_frame(out, head, seq, &event))),
        };
        self.bytes += size_of::<Slot>() + stored.bytes();
        self.slots.push_back(Slot { stored, tick, class, lacks: self.growth.lacks() });
    }

    fn merge(&mut self, seq: Seq, delta: &Delta<'_>) {
        if self.open.as_ref().is_some_and(|open| open.place != delta.place || open.escaped.len() >= MAX_MERGED_BYTES) {
            self.close_merge();
        }
        let open = self.open.get_or_insert_with(|| OpenMerge {
            from: seq,
            to: seq,
            place: delta.place.clone(),
            usage: None,
            escaped: Vec::new(),
        });
        open.to = seq;
        open.usage = delta.usage.or(open.usage);
        escape(&mut open.escaped, delta.text);
    }

    /// Ends the open merge, if there is one, so that the `coalesced` view can be read up to the last event.
    pub(super) fn close_merge(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open.from == open.to {
            return; // the event's own frame serves
        }
        let range = (Some(open.from), open.to);
        let place = (&open.place, open.usage.as_ref());
        let frame =
            self.encode(|out, head| delta_frame(out, head, range, place, |out| out.extend_from_slice(&open.escaped)));
        self.bytes += size_of::<Merge>() + frame.len();
        self.merges.push_back(Merge { from: open.from, to: open.to, frame });
    }

    /// Forgets all merges: nobody reads them any more.
    pub(super) fn drop_merges(&mut self) {
        self.open = None;
        for merge in std::mem::take(&mut self.merges) {
            self.bytes -= size_of::<Merge>() + merge.frame.len();
        }
    }

    /// Forgets all short frames: nobody reads them any more.
    pub(super) fn drop_shorts(&mut self) {
        for (_, frame) in std::mem::take(&mut self.shorts) {
            self.bytes -= size_of::<(Seq, Bytes)>() + frame.len();
        }
    }

    /// Returns the short frame of a retained event if it has one, else its own.
    pub(super) fn short_frame(&mut self, seq: Seq) -> Bytes {
        let at = self.shorts.partition_point(|(short, _)| *short < seq);
        match self.shorts.get(at) {
            Some((short, frame)) if *short == seq => frame.clone(),
            _ => self.frame(seq),
        }
    }

    /// Returns the frame of a retained event.
    pub(super) fn frame(&mut self, seq: Seq) -> Bytes {
        let at = (seq - self.first) as usize;
        let frame = match &self.slots[at].stored {
            Stored::Frame(frame) => return frame.clone(),
            Stored::Delta { place, text } => {
                let (place, text) = (place.clone(), text.clone());
                self.encode(|out, head| {
                    delta_frame(out, head, (None, seq), (&place, None), |out| escape(out, &text));
                })
            }
            Stored::Event(event) => {
                let event = event.clone();
                self.encode(|out, head| event_frame(out, head, seq, &event))
            }
        };
        let slot = &mut self.slots[at];
        self.bytes -= slot.stored.bytes();
        slot.stored = Stored::Frame(frame.clone());
        self.bytes += slot.stored.bytes();
        frame
    }

    /// Returns the merged frame that begins with an event and the number it ends with, or the event's own frame.
    /// `None` while the event is in the open merge.
    pub(super) fn coalesced_frame(&mut self, seq: Seq) -> Option<(Bytes, Seq)> {
        if seq > self.coalesced_last() {
            return None;
        }
        let at = self.merges.partition_point(|merge| merge.from < seq);
        match self.merges.get(at) {
            Some(merge) if merge.from == seq => Some((merge.frame.clone(), merge.to)),
            _ => Some((self.frame(seq), seq)),
        }
    }

    /// Forgets events from the oldest on, as long as `needed` bytes are not free yet and events are no younger than
    /// `tick`.
    pub(super) fn evict(&mut self, tick: u64, needed: usize) {
        let target = self.bytes.saturating_sub(needed);
        while self.bytes > target && self.oldest_tick() <= tick && !self.slots.is_empty() {
            self.forget_first();
        }
        self.shrink();
    }

    /// Notes that the session is idle: the deltas up to now may leave some time later.
    pub(super) fn settle(&mut self, now: Instant) {
        let newest = self.settled.back().map_or(self.first - 1, |(_, seq)| *seq);
        if self.last_delta > newest {
            self.settled.push_back((now, self.last_delta));
        }
    }

    /// Returns when the oldest settled delta was settled.
    pub(super) fn oldest_settled(&self) -> Option<Instant> {
        self.settled.front().map(|(at, _)| *at)
    }

    /// Forgets deltas that were settled at or before `until`, and with them all older events: a cursor among those
    /// could not be replayed without the deltas.
    pub(super) fn drop_deltas(&mut self, until: Instant) {
        while let Some((at, seq)) = self.settled.front().copied() {
            if at > until {
                break;
            }
            self.settled.pop_front();
            while self.first <= seq {
                self.forget_first();
            }
        }
        self.shrink();
    }

    fn forget_first(&mut self) {
        let Some(slot) = self.slots.pop_front() else { return };
        self.bytes -= size_of::<Slot>() + slot.stored.bytes();
        note_shown(&mut self.last_forgotten, slot.class, self.first);
        self.lacks_before = slot.lacks;
        self.first += 1;
        while let Some((_, frame)) = self.shorts.pop_front_if(|(seq, _)| *seq < self.first) {
            self.bytes -= size_of::<(Seq, Bytes)>() + frame.len();
        }
        while let Some(merge) = self.merges.pop_front_if(|merge| merge.from < self.first) {
            self.bytes -= size_of::<Merge>() + merge.frame.len();
        }
    }

    fn shrink(&mut self) {
        if self.slots.capacity() > 64 && self.slots.capacity() > 4 * self.slots.len() {
            self.slots.shrink_to_fit();
        }
        if self.merges.is_empty() {
            self.merges.shrink_to_fit();
        }
    }

    fn encode(&mut self, write: impl FnOnce(&mut Vec<u8>, &[u8])) -> Bytes {
        self.scratch.clear();
        write(&mut self.scratch, &self.head);
        let frame = Bytes::copy_from_slice(&self.scratch);
        if self.scratch.capacity() > KEEP_SCRATCH_BYTES {
            self.scratch = Vec::new();
        }
        frame
    }
}

fn note_shown((status, entry): &mut (Seq, Seq), class: Class, seq: Seq) {
    if class <= Class::Entry {
        *entry = seq;
    }
    if class == Class::Status {
        *status = seq;
    }
}

impl Stored {
    /// Returns the bytes that are held besides the slot; of a shared message about what its text takes.
    fn bytes(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.len(),
            Self::Delta { text, .. } => text.len(),
            Self::Event(event) => size_of::<Event>() + event_bytes(event),
        }
    }
}

fn event_bytes(event: &Event) -> usize {
    let Event::MessageEnd(entry) = event else { return 0 };
    match &*entry.message {
        Message::User(message) => message.content.iter().map(block_bytes).sum(),
        Message::Assistant(message) => message.content.iter().map(block_bytes).sum(),
        _ => 0,
    }
}

fn block_bytes(block: &ContentBlock) -> usize {
    size_of::<ContentBlock>()
        + match block {
            ContentBlock::Text { text, .. } => text.len(),
            ContentBlock::Thinking { thinking, .. } => thinking.len(),
            ContentBlock::Image { data, .. } => data.len(),
            _ => 0,
        }
}
