//! One folder of a search: its entries in order, without those that are left out.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::rules::{Marks, Rules};

/// What an entry is; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A link, pipe, socket or device: it has a name and is never opened.
    Other,
}

/// Something in a tree that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Its absolute path.
    pub(crate) path: &'a Path,
    /// Its path below the folder that is searched.
    pub(crate) below: &'a Path,
    /// What it is.
    pub(crate) kind: Kind,
}

/// Whether a search looks at an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// No.
    None,
    /// Yes, unless a rule leaves it out.
    ByRules,
    /// Yes, whatever the rules say.
    Always,
}

/// What is never looked at below the folder that was asked for: the inside of a repository …
const NEVER: &[u8] = b".git";
/// … and, in the topmost folder, what is no files but the kernel's state, endless and different every time.
const KERNEL: [&[u8]; 2] = [b"proc", b"sys"];

/// A look at whether the search was given up comes after so many entries.
const ENTRIES_A_LOOK: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Item {
    start: usize,
    len: usize,
    kind: Kind,
}

/// A folder that was read.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    below: PathBuf,
    rules: Rules,
    /// All names, one after the other: a folder may have a million.
    names: Vec<u8>,
    /// Sorted by name, byte by byte.
    items: Vec<Item>,
}

impl Folder {
    /// Returns the folder that a search begins with, not read yet.
    pub(crate) fn root(path: PathBuf, rules: Rules) -> Self {
        Self { path, below: PathBuf::new(), rules, names: Vec::new(), items: Vec::new() }
    }

    /// Reads the entries that `interest` wants. `halted` says whether the search was given up; then what was read so
    /// far is worth nothing.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn read(
        &mut self,
        interest: impl Fn(Entry<'_>) -> Interest,
        halted: impl Fn() -> bool,
    ) -> io::Result<()> {
        let marks = self.read_names(&halted)?;
        if !self.below.as_os_str().is_empty() {
            // Those of the root came with it.
            self.rules = self.rules.with(&self.path, marks);
        }
        let mut path = self.path.clone();
        let mut below = self.below.clone();
        let mut items = std::mem::take(&mut self.items);
        let mut count = 0_usize;
        items.retain(|item| {
            count += 1;
            if count.is_multiple_of(ENTRIES_A_LOOK) && halted() {
                return false;
            }
            let name = OsStr::from_bytes(self.name(item));
            path.push(name);
            below.push(name);
            let is_wanted = self.is_wanted(&interest, Entry { path: &path, below: &below, kind: item.kind });
            path.pop();
            below.pop();
            is_wanted
        });
        items.sort_unstable_by(|one, other| self.name(one).cmp(self.name(other)));
        self.items = items;
        Ok(())
    }

    fn read_names(&mut self, halted: &impl Fn() -> bool) -> io::Result<Marks> {
        let mut marks = Marks::default();
        let is_topmost = self.path.parent().is_none();
        for (count, entry) in self.path.read_dir()?.enumerate() {
            if count.is_multiple_of(ENTRIES_A_LOOK) && halted() {
                break;
            }
            let entry = entry?;
            let Ok(kind) = entry.file_type() else { continue };
            let kind = match kind {
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File,
                _ => Kind::Other,
            };
            let name = entry.file_name().into_vec();
            self.rules.note(&mut marks, &name);
            if name != NEVER && !(is_topmost && KERNEL.contains(&name.as_slice())) {
                self.items.push(Item { start: self.names.len(), len: name.len(), kind });
                self.names.extend_from_slice(&name);
            }
        }
        Ok(marks)
    }

    fn is_wanted(&self, interest: &impl Fn(Entry<'_>) -> Interest, entry: Entry<'_>) -> bool {
        match interest(entry) {
            Interest::None => false,
            Interest::ByRules => !self.rules.is_ignored(entry.path, entry.kind == Kind::Folder),
            Interest::Always => true,
        }
    }

    fn name(&self, item: &Item) -> &[u8] {
        &self.names[item.start..item.start + item.len]
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the next entries to be looked at together: a folder alone, or at most `most` others.
    pub(crate) fn next(&self, start: usize, most: usize) -> Range<usize> {
        let is_folder = |item: &Item| item.kind == Kind::Folder;
        let rest = &self.items[start..];
        let others = rest.iter().take(most).take_while(|item| !is_folder(item)).count();
        start..start + others.max(1).min(rest.len())
    }

    /// Calls `look` with an entry.
    pub(crate) fn with_entry<T>(&self, index: usize, look: impl FnOnce(Entry<'_>) -> T) -> T {
        let item = &self.items[index];
        let name = OsStr::from_bytes(self.name(item));
        look(Entry { path: &self.path.join(name), below: &self.below.join(name), kind: item.kind })
    }

    /// Returns the folder that an entry is, not read yet.
    pub(crate) fn inner(&self, index: usize) -> Option<Self> {
        let item = self.items.get(index).filter(|item| item.kind == Kind::Folder)?;
        let name = OsStr::from_bytes(self.name(item));
        Some(Self {
            path: self.path.join(name),
            below: self.below.join(name),
            rules: self.rules.clone(),
            names: Vec::new(),
            items: Vec::new(),
        })
    }
}
