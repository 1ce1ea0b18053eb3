//! Keys are kept out of what others see: known keys are looked for in texts, letter for letter, and a note of which key
//! it was stands in their place.
//!
//! This is done where text comes in: what a user sends, a model says, a tool prints, a provider complains about. So the
//! session file, the crash journal, events and everything made of them hold no key. A key that is written in another
//! way (encoded, or with other characters in between) is not found.

mod book;
mod keys;
mod stream;

pub use book::KeyBook;
pub use keys::Keys;
pub use stream::Redactor;
