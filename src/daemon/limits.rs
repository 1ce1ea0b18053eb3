//! The limit of open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::constants::MAX_OPEN_FILES;

/// Raises the soft limit of open files: each client, session file and tool pipe is one, and the usual 1024 is soon
/// used up. Children get the old limit back from `exec`.
pub(super) fn raise_open_files() {
    let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok(limits) => limits,
        Err(error) => return tracing::warn!(%error, "cannot read the limit of open files"),
    };
    let wanted = MAX_OPEN_FILES.min(hard);
    if wanted <= soft {
        return;
    }
    match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => tracing::debug!(from = soft, to = wanted, "limit of open files raised"),
        Err(error) => tracing::warn!(%error, soft, "cannot raise the limit of open files"),
    }
}
