//! The life of the daemon: start-up order, the one instance, signals, the drain and the exit code.
//!
//! Order at start: detach → settings → logs → descriptor limit → instance lock → socket → the daemon's parts →
//! readiness → accepting. The socket listens before the parts exist, so that a client which comes early waits in the
//! system's queue instead of being refused; nothing is answered before all parts are there.
//!
//! What connections say and what sessions do is not known here, but in `parts`: the life-cycle drives any
//! `service::Service`.

mod accept;
mod detach;
mod instance;
mod lifecycle;
mod limits;
mod listen;
mod logging;
mod parts;
mod serve;
mod service;
mod signals;
mod systemd;

pub use serve::{ServeOptions, serve};
