//! A session's encoded events: numbered, kept for replay within a budget of the whole daemon, and read by any number
//! of subscribers at their own pace.
//!
//! A subscriber is a position ([`Subscription`]), not a queue: a connection pulls when its socket is writable, so a
//! slow client costs nothing and holds nobody up. One that falls out of the ring is told so ([`Pull::Lagged`]) and
//! goes on from a snapshot. Every frame is encoded once and its bytes are shared.
//!
//! The changes of the list of sessions are read in the same way; [`ListLog`] keeps them.
//!
//! **Invariant**: in the views `full` and `coalesced` the frames a subscriber pulls cover every number once and in order;
//! in `entries` and `status`, every event that the view shows, once and in order.

mod budget;
mod buffer;
mod encode;
mod list_log;
mod shared;
mod short;
mod shown;
mod wake;

pub use budget::RingBudget;
pub(crate) use encode::{detached_frame, lagged_frame};
pub use list_log::{Doing, ListLog, ListWatch, RowChange};
pub use shared::{Pull, Ring, Subscription};
pub use wake::{Token, Wake};

#[cfg(test)]
mod tests;
