//! Lets the test binary be its own exec helper, so that tests need no other binary.

use super::helper::{HELPER_ARGUMENT, run_exec_helper};
use super::spawner::{Spawner, SpawnerOptions};

/// Returns a spawner that re-executes the test binary.
pub(crate) fn spawner() -> Spawner {
    Spawner::new(SpawnerOptions::default()).unwrap()
}

/// Runs before `main`, which belongs to the test harness.
extern "C" fn become_helper() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == HELPER_ARGUMENT) {
        run_exec_helper();
    }
}

// SAFETY: the section holds functions of this type, which the loader calls once before `main`; by then the standard
// library has seen the arguments, and the helper uses nothing else that `main` would have to set up.
#[expect(unsafe_code, reason = "the harness offers no place before its own main")]
#[used]
#[unsafe(link_section = ".init_array")]
static BECOME_HELPER: extern "C" fn() = become_helper;
