//! The first append to a new session.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc::O_NOFOLLOW;

use super::super::error::{Owner, StoreError};
use super::super::record::CURRENT_VERSION;
use super::append::{undo, write_whole};
use super::lock::{OwnerRecord, try_lock};
use super::read::FileId;
use super::{Appended, Known, Open, SessionFile, SyncMode};

impl SessionFile {
    /// Creates the file with its first lines. After an error there is no file, and the next append tries again.
    pub(super) fn create_with(&mut self, lines: &[u8], sync: SyncMode) -> Result<Appended, StoreError> {
        let mut unsynced_dirs = create_dirs(self.path.parent().unwrap_or(Path::new(".")))?;
        let file = create_private(&self.path)?;
        match self.fill(&file, lines, sync, &mut unsynced_dirs) {
            Ok(known) => {
                let owner = OwnerRecord::write(&self.writer, known.id, &self.path);
                self.known = Some(known);
                self.open = Some(Open { file, unsynced_dirs, _owner: owner });
                Ok(Appended { offset: 0, foreign: Vec::new(), damaged: Vec::new() })
            }
            Err(error) => {
                // It was made by us a moment ago (exclusively), and holds nothing that anyone was told of.
                if is_same_file(&self.path, &file) {
                    let _ = fs::remove_file(&self.path);
                }
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        file: &File,
        lines: &[u8],
        sync: SyncMode,
        unsynced_dirs: &mut Vec<PathBuf>,
    ) -> Result<Known, StoreError> {
        let id = FileId::of(&file.metadata().map_err(StoreError::io(&self.path, "create"))?);
        if !try_lock(file).map_err(StoreError::io(&self.path, "lock"))? {
            return Err(StoreError::Locked { path: self.path.clone(), owner: Owner::default() });
        }
        write_whole(file, 0, lines).map_err(StoreError::io(&self.path, "write"))?;
        if sync == SyncMode::Data {
            file.sync_data().map_err(StoreError::io(&self.path, "sync")).inspect_err(|_| undo(file, 0, lines.len()))?;
            sync_dirs(unsynced_dirs)?;
        }
        let len = lines.len() as u64;
        Ok(Known { id, len, complete: len, tail_is_entry: false, version: CURRENT_VERSION })
    }
}

fn is_same_file(path: &Path, file: &File) -> bool {
    let named = fs::symlink_metadata(path).map(|metadata| FileId::of(&metadata));
    let opened = file.metadata().map(|metadata| FileId::of(&metadata));
    matches!((named, opened), (Ok(named), Ok(opened)) if named == opened)
}

/// Creates a file that did not exist, for its owner alone whatever the umask.
pub(in crate::store) fn create_private(path: &Path) -> Result<File, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(O_NOFOLLOW)
        .open(path)
        .map_err(StoreError::io(path, "create"))?;
    // The umask takes bits away, even the owner's.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(StoreError::io(path, "set the mode of"))?;
    Ok(file)
}

/// Makes the missing folders, for their owner alone. Returns the folders that have a new entry, deepest first.
pub(in crate::store) fn create_dirs(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut changed = vec![dir.to_owned()];
    let mut missing = Vec::new();
    let mut at = dir;
    while !at.as_os_str().is_empty() && !at.is_dir() {
        missing.push(at);
        let Some(parent) = at.parent() else { break };
        changed.push(parent.to_owned());
        at = parent;
    }
    for dir in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o700)),
            // Another session made it at the same moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(StoreError::io(dir, "create the folder"))?;
    }
    Ok(changed)
}

/// Writes the folders' new entries to the disk.
pub(in crate::store) fn sync_dirs(dirs: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    while let Some(dir) = dirs.last() {
        let path = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        match File::open(path).and_then(|dir| dir.sync_all()) {
            Ok(()) => {}
            // Some file systems cannot; the file itself is synced.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {}
            // A folder above that may only be passed through cannot be opened; it is not ours.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(StoreError::io(path, "sync the folder")(error)),
        }
        dirs.pop();
    }
    Ok(())
}
