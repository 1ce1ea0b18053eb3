//! The limit of open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::constants::MAX_OPEN_FILES;

/// Raises the soft limit of open files: each client, session file and tool pipe is one, and the usual 1024 is soon
/// used up. Returns the soft and hard limit as they were, which children get back: some programs close or count
/// every descriptor there may be.
pub(super) fn raise_open_files() -> Option<(u64, u64)> {
    let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok(limits) => limits,
        Err(error) => {
            tracing::warn!(%error, "cannot read the limit of open files");
            return None;
        }
    };
    let wanted = MAX_OPEN_FILES.min(hard);
    if wanted > soft {
        raise(soft, wanted, hard);
    }
    Some((soft, hard))
}

fn raise(soft: u64, wanted: u64, hard: u64) {
    match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => tracing::debug!(from = soft, to = wanted, "limit of open files raised"),
        Err(error) => tracing::warn!(%error, soft, "cannot raise the limit of open files"),
    }
}
