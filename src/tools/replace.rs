//! Gives a file new content: afterwards it holds the old or the new, never a mix.
//!
//! A file of one name is replaced by a new file (unnamed until it is whole, then linked and renamed over the old one),
//! with owner and mode kept. A file with further hard links, in a folder that we may not write to, or mounted as a
//! single file, is overwritten in place, since a rename would part it from its other names ([`super::overwrite`]). Symbolic
//! links are followed and stay.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

use super::open::{OpenError, check_kind, open};
use super::overwrite::{Overwritten, overwrite};
use super::work::Gate;

/// Links that are followed before a path counts as a loop (the kernel's limit).
const MAX_LINKS: usize = 40;

/// Why a file was left as it was.
#[derive(Debug)]
pub(crate) enum ReplaceError {
    /// The system says so, or it is no regular file.
    Open(OpenError),
    /// The call was given up before the change began.
    Stopped,
}

impl From<io::Error> for ReplaceError {
    fn from(error: io::Error) -> Self {
        Self::Open(OpenError::Io(error))
    }
}

/// Returns where writing to `path` really writes: all links followed, also one whose target does not exist yet, and
/// the folders that exist in canonical form.
pub(crate) fn final_target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return canonical_folder(&path),
        }
    }
    Err(io::Error::from_raw_os_error(Errno::ELOOP as i32))
}

fn canonical_folder(path: &Path) -> io::Result<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        // Ends in `..` below something that does not exist.
        return Err(io::Error::from_raw_os_error(Errno::ENOENT as i32));
    };
    Ok(canonical_folder(folder)?.join(name))
}

/// Makes the file at `target` (a [final target](final_target)) hold the pieces, one after the other. Returns what the
/// system says of the file then, if it does. `records` is where a write in place leaves its record.
pub(crate) fn replace_content(
    target: &Path,
    pieces: &[&[u8]],
    records: &Path,
    gate: &Gate,
) -> Result<Option<Metadata>, ReplaceError> {
    match target.symlink_metadata() {
        Ok(metadata) => replace_existing(target, &metadata, pieces, records, gate),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(target, pieces, gate),
        Err(error) => Err(error.into()),
    }
}

fn replace_existing(
    target: &Path,
    metadata: &Metadata,
    pieces: &[&[u8]],
    records: &Path,
    gate: &Gate,
) -> Result<Option<Metadata>, ReplaceError> {
    check_kind(metadata).map_err(ReplaceError::Open)?;
    // Opening it tells whether we may write at all: a rename would get around a read-only file.
    let open_target = |options: &mut OpenOptions| open(options, OFlag::O_NOFOLLOW, target, Some(gate));
    let old = open_target(OpenOptions::new().read(true).write(true))
        .or_else(|_| open_target(OpenOptions::new().write(true)))?;
    let metadata = old.metadata()?;
    check_kind(&metadata).map_err(ReplaceError::Open)?;
    if metadata.nlink() == 1
        && let Some(new) = Draft::beside(target, 0o600).ok().filter(|new| new.adopt(&metadata).is_ok())
    {
        new.fill(pieces)?;
        new.file.sync_data()?;
        match new.put(target, gate) {
            Err(ReplaceError::Open(OpenError::Io(error))) if is_rename_refused(&error) => {}
            done => return done,
        }
    }
    overwrite(&Overwritten { file: &old, path: target, metadata: &metadata }, pieces, records, gate)
}

/// A mount point, a sticky folder, a folder that may not be written to.
fn is_rename_refused(error: &io::Error) -> bool {
    let refused = [Errno::EBUSY, Errno::EXDEV, Errno::EPERM, Errno::EACCES];
    refused.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn create(target: &Path, pieces: &[&[u8]], gate: &Gate) -> Result<Option<Metadata>, ReplaceError> {
    // 0666 as any program asks for; the umask takes away from it.
    let new = Draft::beside(target, 0o666)?;
    new.fill(pieces)?;
    new.put(target, gate)
}

/// New content on its way: a file without a name where the file system can do that, else one with a name of its own.
struct Draft {
    file: File,
    name: Option<TempName>,
}

/// A temporary name that is removed unless it became the real one.
struct TempName(PathBuf);

impl Drop for TempName {
    fn drop(&mut self) {
        // Gone already when it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}

impl Draft {
    fn beside(target: &Path, mode: u32) -> io::Result<Self> {
        let folder = target.parent().unwrap_or(Path::new("/"));
        let unnamed = OpenOptions::new().write(true).mode(mode).custom_flags(OFlag::O_TMPFILE.bits()).open(folder);
        match unnamed {
            Ok(file) => Ok(Self { file, name: None }),
            Err(error) if is_unnamed_unsupported(&error) => {
                let name = TempName(temp_name(target));
                let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&name.0)?;
                Ok(Self { file, name: Some(name) })
            }
            Err(error) => Err(error),
        }
    }

    /// Takes over owner and mode.
    fn adopt(&self, old: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            fchown(&self.file, Some(old.uid()), Some(old.gid()))?;
        }
        // After the owner: changing that clears the set-user-id bit.
        self.file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))
    }

    fn fill(&self, pieces: &[&[u8]]) -> io::Result<()> {
        pieces.iter().try_for_each(|piece| (&self.file).write_all(piece))
    }

    fn put(self, target: &Path, gate: &Gate) -> Result<Option<Metadata>, ReplaceError> {
        let name = match self.name {
            Some(name) => name,
            None => {
                let name = TempName(temp_name(target));
                let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(AT_FDCWD, unnamed.as_str(), AT_FDCWD, &name.0, AtFlags::AT_SYMLINK_FOLLOW)
                    .map_err(io::Error::from)?;
                name
            }
        };
        if !gate.commit() {
            return Err(ReplaceError::Stopped);
        }
        fs::rename(&name.0, target)?;
        // Of this file, not of the path: another one may have taken its place already.
        Ok(self.file.metadata().ok())
    }
}

fn is_unnamed_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::EOPNOTSUPP, Errno::EISDIR, Errno::EINVAL, Errno::ENOENT];
    unsupported.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

fn temp_name(target: &Path) -> PathBuf {
    target.with_file_name(format!(".agentd-{}.tmp", uuid::Uuid::new_v4().simple()))
}

#[cfg(test)]
mod tests;
