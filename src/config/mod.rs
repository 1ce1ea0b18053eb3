//! Settings and where things are on disk.
//!
//! [`load()`] reads files and environment once, at start; the types and their parsing are pure.

pub mod env;
mod load;
mod paths;
mod settings;

pub use load::{Config, ConfigError, load};
pub use paths::Paths;
pub use settings::{Durability, ImageSettings, LocalModels, ProviderClocks, RequireRead, RetrySettings, SettingError};
