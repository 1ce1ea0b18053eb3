//! Child processes: started by a re-exec of our own binary, in a session and process group of their own, and ended as
//! a whole.
//!
//! The daemon starts `agentd __exec` from one thread and without code between fork and exec, so that starting costs
//! the same however much memory the daemon has. The helper ([`run_exec_helper`]) reads an [`ExecPolicy`] from stdin,
//! prepares the process and becomes the program.
//!
//! What happens to children:
//! - Ended calls (abort, time limit, daemon shutdown): the shell that we started is killed at once, so that it cannot
//!   go on to the next command of a list; everything else of the group gets SIGTERM, and SIGKILL after
//!   [`crate::constants::TERMINATE_GRACE`]. Processes that left the group are found by the variable [`CALL_MARKER`] in
//!   their environment. Only one that left the group *and* cleaned its environment gets away.
//! - Background processes of a command that ended by itself run on until the daemon ends ([`Spawner::end_all`]).
//! - If the daemon is killed, the kernel kills the shells (a parent-death signal, tied to the thread that starts them);
//!   what these had started is ended by the next daemon ([`end_leftovers`]).
//!
//! `unsafe` is allowed here and nowhere else in the daemon; each use says why it is sound.

mod group;
mod helper;
mod policy;
mod procfs;
mod spawner;

pub use group::{ProcessGroup, end_leftovers};
pub use helper::{HELPER_ARGUMENT, run_exec_helper};
pub use policy::ExecPolicy;
pub use procfs::{CALL_MARKER, MetProcess};
pub use spawner::{ExecCommand, Running, SpawnError, Spawner, SpawnerOptions};

#[cfg(test)]
pub(crate) mod test_support;
