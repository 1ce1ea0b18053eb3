//! What is found in a command line.

use std::fmt;

/// Everything that a command line may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its simple commands in the order of the text, also those inside of others.
    pub commands: Vec<Simple>,
    /// What else it may do, or what is not known of it: such a line is never harmless. Each completes "the command …".
    pub doubts: Vec<&'static str>,
}

impl Line {
    pub(super) fn doubt(&mut self, doubt: &'static str) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }
}

/// A simple command. One without words sets variables, or holds the redirections of a compound command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// Variables that it sets, for itself or for what follows.
    pub assignments: Vec<Assignment>,
    /// Its name and arguments.
    pub words: Vec<Word>,
    /// What it opens.
    pub redirects: Vec<Redirect>,
}

impl Simple {
    /// Returns its name, if that can be known.
    pub fn name(&self) -> Option<&str> {
        self.words.first().and_then(Word::literal)
    }
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the variable.
    pub name: String,
    /// What it is set to.
    pub value: Word,
}

/// A word after the quotes are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The parts of it that stand in the line; all of it if it is literal.
    pub text: String,
    /// What is known of it.
    pub kind: WordKind,
}

impl Word {
    /// Returns a word of which all is known.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: WordKind::Literal }
    }

    /// Returns its text if all of it is known.
    pub fn literal(&self) -> Option<&str> {
        (self.kind == WordKind::Literal).then_some(&self.text)
    }

    /// Tells whether it is none of the command's options, whatever it becomes.
    pub fn is_operand(&self) -> bool {
        match self.kind {
            WordKind::Literal => !self.text.starts_with('-'),
            WordKind::Bound => true,
            WordKind::Free => false,
        }
    }
}

/// What is known of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordKind {
    /// It is its text.
    Literal,
    /// It becomes one or more words that all begin with text of the line, which is not `-`.
    Bound,
    /// It may become anything: nothing, an option, several words.
    Free,
}

/// Something that is opened for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// How.
    pub access: Access,
    /// The file.
    pub target: Word,
}

/// How a file is opened. Duplicated descriptors, here-documents and here-strings open none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read.
    Read,
    /// To write.
    Write,
}

/// The line is none that can be read here. Completes "the command cannot be read: …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable(pub &'static str);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
