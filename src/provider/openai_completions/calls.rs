//! Which tool call a piece belongs to.
//!
//! Servers number the pieces (`index`), name the call in each (`id`), or do neither; some give every call the index
//! 0, some give every piece another id. What decides then is whether the arguments so far are complete: a piece with
//! a new id and a name after complete arguments begins a new call, anything else goes on with the one before.

use agentd_protocol::ToolCallId;

use super::chunk::CallPiece;
use crate::provider::call_ids::unique_in_response;

/// The calls of one response.
pub(super) struct Calls {
    /// Makes the ids of calls without one differ between responses.
    id_seed: String,
    calls: Vec<CallState>,
}

/// One call so far.
pub(super) struct CallState {
    /// Place of its block in the message.
    pub(super) block: usize,
    /// Its id, which no other call of the response has.
    pub(super) id: ToolCallId,
    /// Its tool; empty until it is named.
    pub(super) name: String,
    index: Option<i64>,
    /// The id that the server gives it; without one, its id is made up.
    wire_id: Option<String>,
    arguments: JsonExtent,
}

/// What a piece meant.
pub(super) enum Placed {
    /// It began the call at this place of the list.
    New(usize),
    /// It goes on with the call at this place.
    Known {
        /// The place.
        at: usize,
        /// It brought the id or the name that was missing.
        is_renamed: bool,
    },
}

impl Calls {
    pub(super) fn new(id_seed: String) -> Self {
        Self { id_seed, calls: Vec::new() }
    }

    pub(super) fn get(&self, at: usize) -> &CallState {
        &self.calls[at]
    }

    /// Takes a piece in. `block` is the place that a new call gets.
    pub(super) fn place(&mut self, piece: &CallPiece<'_>, arguments: &str, block: usize) -> Placed {
        let name = piece.function.as_ref().and_then(|function| function.name.get());
        let placed = match self.find(piece, name) {
            Some(at) => {
                let first_id = piece.id.get().filter(|_| self.calls[at].wire_id.is_none());
                let ids = first_id.map(|id| (id.to_owned(), self.unique(id, at)));
                Placed::Known { at, is_renamed: self.calls[at].rename(ids, name) }
            }
            None => self.begin(piece, name, block),
        };
        let (Placed::New(at) | Placed::Known { at, .. }) = placed;
        self.calls[at].arguments.extend(arguments);
        placed
    }

    fn begin(&mut self, piece: &CallPiece<'_>, name: Option<&str>, block: usize) -> Placed {
        let at = self.calls.len();
        let wire_id = piece.id.get().map(str::to_owned);
        let id = match &wire_id {
            Some(id) => self.unique(id, at),
            None => self.unique(&format!("call_{}_{at}", self.id_seed), at),
        };
        self.calls.push(CallState {
            block,
            id,
            name: name.unwrap_or_default().to_owned(),
            index: index(piece),
            wire_id,
            arguments: JsonExtent::default(),
        });
        Placed::New(at)
    }

    /// Makes an id for the call at this place that no other one has.
    fn unique(&self, id: &str, at: usize) -> ToolCallId {
        let others = self.calls.iter().enumerate().filter(|(other, _)| *other != at);
        unique_in_response(id, at, |unique| others.clone().any(|(_, call)| call.id == *unique))
    }

    /// Finds the call that a piece goes on with.
    fn find(&self, piece: &CallPiece<'_>, name: Option<&str>) -> Option<usize> {
        let id = piece.id.get();
        let last_where = |test: &dyn Fn(&CallState) -> bool| self.calls.iter().rposition(test);
        let same_id = last_where(&|call| id.is_some() && call.wire_id.as_deref() == id);
        if let Some(index) = index(piece) {
            if let Some(at) = last_where(&|call| call.index == Some(index)) {
                return Some(at).filter(|at| !self.calls[*at].ends_before(id, name, true));
            }
            // The number is new. An id that is known says that the server only counts oddly.
            return same_id.filter(|at| name.is_none() || !self.calls[*at].arguments.is_complete());
        }
        let last = || self.calls.len().checked_sub(1).filter(|at| !self.calls[*at].ends_before(id, name, false));
        same_id.or_else(last)
    }
}

impl CallState {
    /// Tells whether a piece with this id and name begins another call. `is_numbered` says that it carries the number
    /// of this one.
    fn ends_before(&self, id: Option<&str>, name: Option<&str>, is_numbered: bool) -> bool {
        let Some(name) = name else { return false };
        let is_other_id = id.is_some_and(|id| self.wire_id.as_deref().is_some_and(|known| known != id));
        let is_other_name = !self.name.is_empty() && name != self.name;
        let lacks_id = id.is_none() || self.wire_id.is_none();
        if self.arguments.is_complete() {
            return is_other_id || is_other_name || (lacks_id && !is_numbered);
        }
        // Without arguments yet, only another tool tells that this is another call: a server may repeat the name.
        self.arguments.is_empty() && is_other_name && (is_other_id || lacks_id)
    }

    /// Fills in what was missing: the server's id with the one made of it, and the name. A name that is known stays,
    /// whatever later pieces say.
    fn rename(&mut self, ids: Option<(String, ToolCallId)>, name: Option<&str>) -> bool {
        let mut is_renamed = false;
        if let Some((wire_id, id)) = ids {
            (self.wire_id, self.id) = (Some(wire_id), id);
            is_renamed = true;
        }
        if let Some(name) = name
            && self.name.is_empty()
        {
            self.name = name.to_owned();
            is_renamed = true;
        }
        is_renamed
    }
}

fn index(piece: &CallPiece<'_>) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates; any number will do as a label")]
    piece.index.0.map(|index| index as i64)
}

/// Follows JSON text to see where its value ends, without keeping it.
#[derive(Default)]
struct JsonExtent {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    has_started: bool,
}

impl JsonExtent {
    fn extend(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.has_started = true;
        }
    }

    fn is_empty(&self) -> bool {
        !self.has_started
    }

    fn is_complete(&self) -> bool {
        self.has_started && self.depth == 0 && !self.in_string
    }
}
