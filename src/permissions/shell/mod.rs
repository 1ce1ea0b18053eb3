//! Reads a bash command line as bash does and names every command that it may run.
//!
//! Pure. This is a part of bash's grammar, kept small on purpose: what is read here is read as bash reads it, and
//! all else is [`Unreadable`], about which people are asked. So a reader that accepts less is safe, and one that guesses is
//! not. Commands inside of substitutions, here-documents, functions, loops and subshells are found as well. What a word
//! becomes is known only as far as [`Word`] says; what a line may do besides running commands is in its doubts.
//!
//! Recursion follows the nesting of the line, which [`crate::constants::SHELL_NESTING`] bounds.

mod compound;
mod dollar;
mod heredoc;
mod line;
mod list;
mod reader;
mod redirect;
mod simple;
mod word;

pub use self::line::{Access, Assignment, Line, Redirect, Simple, Unreadable, Word, WordKind};
pub use self::list::{read_line, read_nested_line};

#[cfg(test)]
mod tests;
