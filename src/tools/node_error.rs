//! Texts of file system errors in Node's form (`ENOENT: no such file or directory, access '/x'`), which models know
//! well and pi's results show.

use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

/// Returns the error's name, such as `ENOENT`.
pub(crate) fn code(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{:?}", Errno::from_raw(number)),
        None => match error.kind() {
            io::ErrorKind::InvalidInput => "EINVAL".to_owned(),
            io::ErrorKind::WriteZero => "EIO".to_owned(),
            _ => "UNKNOWN".to_owned(),
        },
    }
}

/// Returns the whole text; `path` is left out where Node has none (reading from an open file).
pub(crate) fn text(error: &io::Error, action: &str, path: Option<&Path>) -> String {
    let code = code(error);
    let message = message(error);
    match path {
        Some(path) => format!("{code}: {message}, {action} '{}'", normalize(path).display()),
        None => format!("{code}: {message}, {action}"),
    }
}

fn message(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return error.to_string() };
    let known = match Errno::from_raw(number) {
        Errno::EACCES => "permission denied",
        Errno::EAGAIN => "resource temporarily unavailable",
        Errno::EBUSY => "resource busy or locked",
        Errno::EDQUOT => "disk quota exceeded",
        Errno::EEXIST => "file already exists",
        Errno::EFBIG => "file too large",
        Errno::EINVAL => "invalid argument",
        Errno::EIO => "i/o error",
        Errno::EISDIR => "illegal operation on a directory",
        Errno::ELOOP => "too many symbolic links encountered",
        Errno::EMFILE => "too many open files",
        Errno::ENAMETOOLONG => "name too long",
        Errno::ENFILE => "file table overflow",
        Errno::ENODEV => "no such device",
        Errno::ENOENT => "no such file or directory",
        Errno::ENOMEM => "not enough memory",
        Errno::ENOSPC => "no space left on device",
        Errno::ENOTDIR => "not a directory",
        Errno::ENXIO => "no such device or address",
        Errno::EPERM => "operation not permitted",
        Errno::EROFS => "read-only file system",
        Errno::ETXTBSY => "text file is busy",
        other => other.desc(),
    };
    known.to_owned()
}

/// Drops `.` and resolves `..` by text alone, as Node shows paths. For messages only: with links the kernel may see
/// another file.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_node() {
        let enoent = io::Error::from_raw_os_error(Errno::ENOENT as i32);
        assert_eq!(
            text(&enoent, "access", Some(Path::new("/w/./a/../missing.txt"))),
            "ENOENT: no such file or directory, access '/w/missing.txt'"
        );
        let eisdir = io::Error::from_raw_os_error(Errno::EISDIR as i32);
        assert_eq!(text(&eisdir, "read", None), "EISDIR: illegal operation on a directory, read");
        assert_eq!(code(&io::Error::from_raw_os_error(Errno::EACCES as i32)), "EACCES");
    }
}
