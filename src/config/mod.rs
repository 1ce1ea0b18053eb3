//! Settings and where things are on disk.
//!
//! [`load()`] reads what is needed at start; [`LiveSettings`] tells what holds for a session now. The types and their
//! parsing are pure.

pub mod env;
mod live;
mod load;
mod paths;
mod project;
pub mod settings;
mod write;

pub use live::{Effective, LiveSettings, SessionPlace};
pub use load::{Config, ConfigError, load};
pub use paths::Paths;
pub use project::{project_root, repository};
pub use settings::{Durability, ImageSettings, LocalModels, ProviderClocks, RequireRead, RetrySettings, Settings};
pub use write::{ConfigTarget, WriteError};
