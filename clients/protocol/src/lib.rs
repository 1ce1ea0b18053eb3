//! The wire of agentd: what a client and the daemon say to each other.
//!
//! Holds the shapes of every method and event, the table of error codes, the line framing and a small
//! typed client. It knows nothing of SQL, HTTP or the daemon's insides, so a client that links it stays small.
//!
//! The authority on the wire is `proto-docs/`; a test compares its pages with [`methods::REGISTRY`] and
//! [`error_code::ERROR_CODES`].

pub mod client;
pub mod connect;
pub mod error_code;
pub mod event;
pub mod framing;
pub mod ids;
pub mod message;
pub mod methods;
pub mod model;
pub mod paths;
pub mod session_view;
pub mod version;

pub use ids::{ApprovalId, Cursor, EntryId, Epoch, Seq, SessionId, ToolCallId};

/// Version of the native wire. A client that asks for another one is answered with this one.
pub const PROTOCOL_VERSION: u32 = 1;
