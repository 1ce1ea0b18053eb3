//! What people see: events made into text, and text put on terminals and pipes.

pub(crate) mod clean;
pub(crate) mod question;
pub(crate) mod split;
pub(crate) mod style;
pub(crate) mod tool_text;
pub(crate) mod transcript;
pub(crate) mod wrap;
