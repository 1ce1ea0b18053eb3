//! Replacing a file of an old version by its migration.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::super::error::{Change, NotASessionReason, StoreError};
use super::super::record::{CURRENT_VERSION, migrate_bytes};
use super::create::{create_private, sync_dirs};
use super::lock::{OwnerRecord, try_lock};
use super::read::FileId;
use super::{Known, Open, SessionFile};

impl SessionFile {
    /// Writes the migration beside the file, keeps the original as `.bak`, and puts the new one in its place. At
    /// every moment the name stands for a whole session.
    pub(super) fn migrate(&mut self, old: Open, known: Known) -> Result<Open, StoreError> {
        let mut bytes = Vec::new();
        (&old.file).read_to_end(&mut bytes).map_err(StoreError::io(&self.path, "read"))?;
        if bytes.len() as u64 != known.len {
            // Migrated ids go by place: read it again with what was added.
            return Err(self.changed(Change::Rewritten));
        }
        let migrated = migrate_bytes(&bytes)
            .map_err(|why| StoreError::NotASession { path: self.path.clone(), why: NotASessionReason::Content(why) })?;
        let temporary = sibling(&self.path, &format!(".{}.tmp", std::process::id()));
        // A leftover of a crash under the same process id.
        let _ = fs::remove_file(&temporary);
        let file = create_private(&temporary)?;
        let replaced = self.replace(&file, &temporary, &migrated);
        if replaced.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        let id = replaced?;
        let len = migrated.len() as u64;
        self.known = Some(Known { id, len, complete: len, tail_is_entry: false, version: CURRENT_VERSION });
        drop(old);
        Ok(Open { file, unsynced_dirs: Vec::new(), _owner: OwnerRecord::write(&self.writer, id, &self.path) })
    }

    fn replace(&self, mut file: &File, temporary: &Path, migrated: &[u8]) -> Result<FileId, StoreError> {
        // Locked before it has the name, so that nobody comes between.
        try_lock(file).map_err(StoreError::io(temporary, "lock"))?;
        file.write_all(migrated).map_err(StoreError::io(temporary, "write"))?;
        file.sync_all().map_err(StoreError::io(temporary, "sync"))?;
        let id = FileId::of(&file.metadata().map_err(StoreError::io(temporary, "look at"))?);
        keep_original(&self.path)?;
        fs::rename(temporary, &self.path).map_err(StoreError::io(&self.path, "replace"))?;
        sync_dirs(&mut vec![self.path.parent().unwrap_or(Path::new("")).to_owned()])?;
        Ok(id)
    }
}

/// Gives the original a second name that is free: `.bak`, `.bak2` …
fn keep_original(path: &Path) -> Result<(), StoreError> {
    for number in 1_u32.. {
        let suffix = if number == 1 { ".bak".to_owned() } else { format!(".bak{number}") };
        let backup = sibling(path, &suffix);
        let kept = match fs::hard_link(path, &backup) {
            // Not all file systems have hard links.
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => {
                copy_to_new(path, &backup)
            }
            other => other,
        };
        match kept {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map_err(StoreError::io(&backup, "keep the original as")),
        }
    }
    unreachable!("there are more names than files")
}

fn copy_to_new(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = fs::OpenOptions::new().write(true).create_new(true).open(to)?;
    io::copy(&mut File::open(from)?, &mut target)?;
    target.sync_all()
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
