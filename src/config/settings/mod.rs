//! Settings: one table of keys, the places that set them, and what holds in the end.
//!
//! Pure: the text of files, variables and command lines is passed in; `config::live` reads them. [`KEYS`] is the table
//! from which the reading of all places, the page of `proto-docs/` and the answers of `get_config` are made. A place
//! gives a [`Layer`]; [`resolve()`] puts layers over one another, key by key; [`Settings`] is what comes out, in types.

mod edit;
mod file;
mod key;
pub mod keys;
mod kind;
mod layer;
mod lookup;
mod pi;
mod resolve;
mod typed;

pub use edit::edit;
pub use file::parse_file;
pub use key::{Applies, Key, Project, Scope};
pub use keys::KEYS;
pub use kind::{Kind, Raw, Value};
pub use layer::{Layer, read_assignment, read_json};
pub use lookup::key_named;
pub use pi::pi_layer;
pub use resolve::{Resolved, Settled, admit_project, assigned, resolve};
pub use typed::{Durability, ImageSettings, LocalModels, ProviderClocks, RequireRead, RetrySettings, Settings};
