//! Lines of a session file and the entries they hold (pi's format v3; facts observed with pi 1.6.0).
//!
//! Pure. A bad line never fails a file: it is skipped and reported, and its bytes stay where they are. What this
//! build does not know of an entry stays in [`Entry::raw`](crate::session::Entry::raw). Versions 1 and 2 of the
//! format are migrated in memory.

mod decode;
mod encode;
mod loader;
mod migrate;
#[cfg(test)]
mod tests;
mod time;

pub use decode::{Line, decode_line};
pub use encode::{EncodeError, encode_entry, encode_header};
pub(in crate::store) use loader::lines_with_ends;
pub use loader::{Loaded, Loader, NotASession, load_bytes};
pub use migrate::migrate_bytes;
pub use time::{format_timestamp, parse_timestamp};

/// Version of the format that this build writes.
pub const CURRENT_VERSION: u32 = 3;

/// A line that could not be read as an entry. Its bytes stay in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedLine {
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// Its length without the line end.
    pub len: u64,
    /// What is wrong with it.
    pub damage: Damage,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is no JSON object: torn, or written by something else.
    #[error("not a JSON object")]
    NotJson,
    /// It is JSON, but lacks what makes it an entry.
    #[error("no entry: type or id missing")]
    NotAnEntry,
    /// It has bytes that are not UTF-8; it was read with U+FFFD in their place.
    #[error("not UTF-8, read with replacement characters")]
    NotUtf8,
    /// It is a second header.
    #[error("a second session header")]
    SecondHeader,
}
