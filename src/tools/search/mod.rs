//! Searching trees of files, for `grep` and `find`.
//!
//! Several threads go through a tree ([`walk`]) and results still come in the order of their paths ([`order`]), so that
//! a limit always keeps the same ones and ends the search as soon as it is reached. Folders are read by [`folder`],
//! what is left out is decided by [`rules`] and [`globs`], lines are found by [`lines`], and [`page`] and [`names`]
//! make the text. Links are never followed, and only regular files are opened.

pub(crate) mod folder;
pub(crate) mod globs;
pub(crate) mod lines;
mod measure;
pub(crate) mod names;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod root;
pub(crate) mod rules;
pub(crate) mod walk;

pub use measure::{MeasureError, count_lines, count_paths};
