//! Ids of tool calls that every server accepts.
//!
//! An id that came from another dialect may hold bars, slashes and hundreds of characters, and servers reuse ids from
//! one response to the next. The same conversation always gets the same ids, so that a provider's prompt cache holds.

use std::collections::HashSet;

use agentd_protocol::ToolCallId;

/// Longest id that all servers accept.
const MAX_LEN: usize = 64;
/// Length of Mistral's ids.
const MISTRAL_LEN: usize = 9;
/// Digits of a hash in an id.
const HASH_LEN: usize = 16;

/// Returns the id for the call that came as number `number` of a response (from 0): the server's, with a number behind
/// it if another call has it, as `is_taken` tells. Some servers give all calls of a response the same id, and results
/// could not be told apart.
pub(super) fn unique_in_response(id: &str, number: usize, is_taken: impl Fn(&ToolCallId) -> bool) -> ToolCallId {
    let numbered = (number..).map(|number| ToolCallId::new(format!("{id}_{number}")));
    let mut ids = std::iter::once(ToolCallId::new(id)).chain(numbered);
    ids.find(|id| !is_taken(id)).unwrap_or_else(|| ToolCallId::new(id))
}

/// Gives out ids for one request.
pub(super) struct CallIds {
    is_mistral: bool,
    used: HashSet<String>,
}

impl CallIds {
    pub(super) fn new(is_mistral: bool) -> Self {
        Self { is_mistral, used: HashSet::new() }
    }

    /// Returns the id to send for `id`: itself where that is possible, and never the same one twice.
    pub(super) fn assign(&mut self, id: &str) -> String {
        let mut wire = self.legal(id);
        let mut repeat = 1;
        while !self.used.insert(wire.clone()) {
            repeat += 1;
            wire = self.made(&format!("{id}#{repeat}"));
        }
        wire
    }

    fn legal(&self, id: &str) -> String {
        if self.is_legal(id) {
            return id.to_owned();
        }
        // The Responses API joins the call's id and the item's with a bar; the first alone is enough.
        match id.split_once('|') {
            Some((call, _)) if self.is_legal(call) => call.to_owned(),
            _ => self.made(id),
        }
    }

    fn is_legal(&self, id: &str) -> bool {
        if self.is_mistral {
            return id.len() == MISTRAL_LEN && id.bytes().all(|b| b.is_ascii_alphanumeric());
        }
        (1..=MAX_LEN).contains(&id.len()) && id.bytes().all(is_id_byte)
    }

    /// Makes a legal id out of one that is not.
    fn made(&self, id: &str) -> String {
        let hash = format!("{:0HASH_LEN$x}", fnv1a(id.as_bytes()));
        if self.is_mistral {
            return hash[..MISTRAL_LEN].to_owned();
        }
        let head: String = id.bytes().filter(|b| is_id_byte(*b)).take(MAX_LEN - HASH_LEN - 1).map(char::from).collect();
        format!("{head}_{hash}")
    }
}

/// Returns a tool name that every server accepts; models make up others, and would be held to them for ever.
pub(super) fn legal_name(name: &str) -> String {
    if name.is_empty() {
        return "unknown".to_owned();
    }
    name.chars().take(MAX_LEN).map(|c| if c.is_ascii() && is_id_byte(c as u8) { c } else { '_' }).collect()
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// FNV-1a: short, and the same in every build, unlike the standard hasher.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn legal_ids_stay_and_others_are_made_legal() {
        let mut ids = CallIds::new(false);
        assert_eq!(ids.assign("call_1"), "call_1");
        assert_eq!(ids.assign("call_x|fc_68b+/aa=="), "call_x");
        assert!(ids.assign("call_1").starts_with("call_12_"));
        assert!(ids.assign("a b").starts_with("ab_"));
        assert_eq!(CallIds::new(true).assign("abcDEF123"), "abcDEF123");
    }

    #[test]
    fn names() {
        for (name, expected) in [("read", "read"), ("", "unknown"), ("functions.read é", "functions_read__")] {
            assert_eq!(legal_name(name), expected);
        }
    }

    proptest! {
        #[test]
        fn all_ids_are_legal_unique_and_stable(
            ids in prop::collection::vec("[a-z|+/]{0,4}|\\PC{0,80}|[a-z]{60,250}", 0..12),
            is_mistral in any::<bool>(),
        ) {
            let assign = || {
                let mut assigned = CallIds::new(is_mistral);
                ids.iter().map(|id| assigned.assign(id)).collect::<Vec<_>>()
            };
            let first = assign();
            prop_assert_eq!(&assign(), &first);
            prop_assert_eq!(first.iter().collect::<HashSet<_>>().len(), first.len());
            for id in &first {
                let legal = if is_mistral { id.len() == 9 } else { (1..=64).contains(&id.len()) };
                prop_assert!(legal && id.bytes().all(is_id_byte), "{}", id);
            }
        }
    }
}
