//! The gate that each tool call passes.
//!
//! Pure. Rules, modes and the sandbox are not built yet: every call is allowed, and the daemon says so
//! (`confinement: "none"` in `get_state`, in `initialize` and in the README).

/// What becomes of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
}

/// How tools are confined, in the word that clients are told.
pub const CONFINEMENT: &str = "none";

/// Decides about a call of `tool`.
pub fn decide(_tool: &str) -> Verdict {
    Verdict::Allow
}
