//! Leaving the terminal and everything else of the client that started the daemon in the background.

use std::os::fd::RawFd;

/// Makes a session of its own and closes every descriptor above stderr.
///
/// Must come before anything opens a file. The client that started us gave us the descriptors 0 to 2; whatever else
/// it left open (an editor's pipes, a build's job server) would be kept open for our whole life.
pub(super) fn detach() {
    // Fails only for the leader of a process group, which a spawned child is not: it has its parent's.
    if let Err(error) = nix::unistd::setsid() {
        tracing::warn!(%error, "no session of our own: a signal to the starter's group will reach us too");
    }
    for fd in inherited() {
        // One of them was the directory just read, closed already; the others are nobody's here.
        let _ = nix::unistd::close(fd);
    }
}

fn inherited() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|fd| *fd > 2).collect()
}
