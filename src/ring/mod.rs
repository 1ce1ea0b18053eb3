//! A session's encoded events: numbered, kept for replay within a budget of the whole daemon, and read by any number
//! of subscribers at their own pace.
//!
//! A subscriber is a position ([`Subscription`]), not a queue: a connection pulls when its socket is writable, so a
//! slow client costs nothing and holds nobody up. One that falls out of the ring is told so ([`Pull::Lagged`]) and
//! goes on from a snapshot. Every frame is encoded once and its bytes are shared.
//!
//! **Invariant**: whatever the view, the frames a subscriber pulls cover every number once and in order.

mod budget;
mod buffer;
mod encode;
mod shared;
mod wake;

pub use budget::RingBudget;
pub(crate) use encode::{detached_frame, lagged_frame};
pub use shared::{Pull, Ring, Subscription};
pub use wake::{Token, Wake};

#[cfg(test)]
mod tests;
