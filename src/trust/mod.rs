//! Which folders the user trusts.
//!
//! What a repository brings along (settings, instructions, skills, prompts) is taken into account only where the folder
//! that holds it is trusted. A decision holds for a folder by its canonical path and for everything below it, unless a
//! folder in between has one of its own. Nobody but the user decides: decisions are made by a client, never by what a
//! repository, a model or a session file says.

mod decisions;
mod error;
mod place;
mod store;

pub use agentd_protocol::methods::TrustDecision as Decision;
pub use decisions::{Decided, Decisions, Standing, Trusted};
pub use error::TrustError;
pub use place::place_of;
pub use store::{Known, TrustStore};
