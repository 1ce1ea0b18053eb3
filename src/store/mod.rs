//! Sessions on disk: lines and entries, the append-only session file, the crash journal, and the index.
//!
//! All IO here blocks; callers run it on the blocking pool or on a thread of their own. The session files are the
//! truth: the index and the journal can be deleted at any time without losing what was written.

pub mod crash_journal;
pub mod error;
pub mod index;
pub mod names;
#[cfg(test)]
mod projection_tests;
pub mod record;
pub mod recovery;
pub mod session_file;

pub use crash_journal::{CrashJournal, JournalRecord};
pub use error::StoreError;
pub use session_file::{Appended, SessionFile, SyncMode};
