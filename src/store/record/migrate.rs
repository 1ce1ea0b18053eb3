//! Versions 1 and 2 of the format → 3.
//!
//! Version 1 is a plain list: entries have no ids, and a compaction names the first kept entry by its place in the
//! file (the header is place 0, lines that cannot be read have none). Version 2 has the tree; version 3 renamed the
//! role `hookMessage` to `custom`. The ids made up for version 1 depend on the file alone, so that they are the same
//! each time until the first append writes them down.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::decode::replace_lone_surrogates;
use super::loader::lines_with_ends;
use super::{CURRENT_VERSION, NotASession};
use crate::session::Header;
use crate::store::names::fnv1a;

/// Goes through the lines of an old file.
#[derive(Debug)]
pub(super) struct Migration {
    version: u32,
    seed: u64,
    /// Ids in the order of the file; the header's place has none.
    ids: Vec<Option<String>>,
    taken: HashSet<String>,
}

impl Migration {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            version: header.version,
            seed: fnv1a(header.id.as_str().as_bytes()),
            ids: vec![None],
            taken: HashSet::new(),
        }
    }

    /// Returns the line in the current version, or `None` to leave it as it is.
    pub(super) fn migrate_line(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let mut object = parse_object(line)?;
        if object.get("type").and_then(Value::as_str) == Some("session") {
            return None;
        }
        let linked = self.version < 2 && self.link(&mut object);
        let renamed = rename_role(&mut object);
        (linked || renamed).then(|| serde_json::to_vec(&object).ok()).flatten()
    }

    fn link(&mut self, object: &mut Map<String, Value>) -> bool {
        let parent = self.ids.last().cloned().flatten();
        let id = self.next_id();
        object.insert("id".to_owned(), json!(id));
        object.insert("parentId".to_owned(), json!(parent));
        if let Some(kept) = object.shift_remove("firstKeptEntryIndex").and_then(|index| index.as_u64()) {
            let kept = usize::try_from(kept).ok().and_then(|kept| self.ids.get(kept).cloned().flatten());
            // A place that is not in the file keeps nothing, as an unknown id does.
            object.insert("firstKeptEntryId".to_owned(), json!(kept.unwrap_or_default()));
        }
        self.ids.push(Some(id));
        true
    }

    fn next_id(&mut self) -> String {
        let mut salt = 0_u32;
        loop {
            let place = self.ids.len();
            let hash = fnv1a(format!("{:x}/{place}/{salt}", self.seed).as_bytes());
            let id = format!("{:08x}", (hash >> 32) as u32 ^ hash as u32);
            if self.taken.insert(id.clone()) {
                return id;
            }
            salt += 1;
        }
    }
}

fn parse_object(line: &[u8]) -> Option<Map<String, Value>> {
    let text = std::str::from_utf8(line).ok()?;
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&replace_lone_surrogates(text)?).ok())
}

fn rename_role(object: &mut Map<String, Value>) -> bool {
    match object.get_mut("message").and_then(|message| message.get_mut("role")) {
        Some(role) if role == "hookMessage" => {
            *role = json!("custom");
            true
        }
        _ => false,
    }
}

/// Returns the content of an old file in the current version. Lines that cannot be read stay as they are, and the
/// last line gets its line end.
///
/// # Errors
/// The bytes are no session.
pub fn migrate_bytes(bytes: &[u8]) -> Result<Vec<u8>, NotASession> {
    let header = super::load_bytes(bytes)?.header;
    let mut migration = Migration::new(&header);
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
    let mut header_seen = false;
    for line in lines_with_ends(bytes) {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let new = if header_seen { migration.migrate_line(content) } else { current_header(content) };
        header_seen |= new.is_some();
        out.extend_from_slice(new.as_deref().unwrap_or(content));
        out.push(b'\n');
    }
    Ok(out)
}

/// Returns the header line with the current version, its other fields unchanged.
fn current_header(line: &[u8]) -> Option<Vec<u8>> {
    let mut object = parse_object(line)?;
    if object.get("type").and_then(Value::as_str) != Some("session") {
        return None;
    }
    object.insert("version".to_owned(), json!(CURRENT_VERSION));
    if let Some(parent) = object.shift_remove("branchedFrom") {
        object.entry("parentSession").or_insert(parent);
    }
    serde_json::to_vec(&object).ok()
}
