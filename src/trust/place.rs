//! Where a folder really is.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::error::TrustError;

/// Returns the canonical path of a folder, by which decisions are kept: links, `..` and doubled or final slashes are
/// resolved. A folder that is gone is named by its nearest ancestor that is there.
///
/// # Errors
/// The path is relative, or cannot be followed.
pub fn place_of(path: &Path) -> Result<PathBuf, TrustError> {
    if !path.is_absolute() {
        return Err(TrustError::Relative(path.to_owned()));
    }
    let mut gone = Vec::new();
    let mut at = path;
    loop {
        let error = match fs::canonicalize(at) {
            Ok(found) => return Ok(gone.iter().rev().fold(found, |place, name| place.join(name))),
            Err(error) => error,
        };
        // Where `..` leads from a folder that is gone, nobody can tell.
        match (error.kind(), at.components().next_back(), at.parent()) {
            (io::ErrorKind::NotFound, Some(Component::Normal(name)), Some(parent)) => {
                gone.push(name);
                at = parent;
            }
            _ => return Err(TrustError::Place { path: path.to_owned(), source: error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_spelling_of_a_folder_is_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("p/sub")).unwrap();
        symlink(root.join("p"), root.join("link")).unwrap();
        symlink("link/sub", root.join("deep")).unwrap();
        for (spelling, place) in [
            ("p", "p"),
            ("p/", "p"),
            ("p//.//", "p"),
            ("link", "p"),
            ("link/", "p"),
            ("deep/..", "p"),
            ("p/sub/../../link/sub", "p/sub"),
            ("p/gone", "p/gone"),
            ("link/gone/deeper/", "p/gone/deeper"),
        ] {
            assert_eq!(place_of(&root.join(spelling)).unwrap(), root.join(place), "{spelling}");
        }
    }

    #[test]
    fn what_leads_nowhere_has_no_place() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(matches!(place_of(Path::new("p")), Err(TrustError::Relative(_))));
        for path in ["gone/../p", "loop", "loop/p", "file/p"] {
            assert!(matches!(place_of(&dir.path().join(path)), Err(TrustError::Place { .. })), "{path}");
        }
    }
}
