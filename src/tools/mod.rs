//! The tools that a model can call, and what all of them share.
//!
//! A call goes through [`ToolRegistry::validate`] and [`ToolRegistry::run`]; whatever goes wrong is a [`ToolOutput`]
//! for the model, never an error of the run. `truncate`, `edit_match`, `edit_diff`, `schema`, `image`, `fit_image` and
//! `fold` are pure; `search` is what `grep` and `find` share; the rest touches the disk on blocking threads or starts
//! children through [`crate::exec`].

mod bash;
mod context;
mod edit;
mod edit_diff;
pub mod edit_match;
mod find;
mod fit_image;
mod fold;
mod full_output;
mod grep;
mod image;
mod kept_output;
mod known_files;
mod locks;
mod ls;
mod node_error;
mod open;
mod overwrite;
mod paths;
pub(crate) mod places;
mod preview;
mod prompt_images;
mod read;
mod registry;
mod replace;
mod schema;
pub mod search;
pub mod truncate;
mod work;
mod write;

pub use bash::shell_path;
pub use context::{EffectClass, Progress, ToolContext, ToolOutput};
pub use full_output::remove_old_outputs;
pub use known_files::KnownFiles;
pub use locks::{FileGuard, FileLocks};
pub use overwrite::mend_overwritten;
pub use prompt_images::FitImages;
pub use registry::{ToolInvocation, ToolRegistry, ToolUsage};

#[cfg(test)]
pub(crate) use registry::Tool;
#[cfg(test)]
pub(crate) use work::Workers;

#[cfg(test)]
mod test_support;
