//! Globs: what a name has to look like.
//!
//! Pure. All globs hold below the folder that is searched and for nothing above it. Their size and depth are limited
//! before they are parsed, and matching takes time in proportion to the path: there is no expansion of braces.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};
use ignore::overrides::{Override, OverrideBuilder};

use crate::constants::{MAX_GLOB_BYTES, MAX_GLOB_DEPTH};

/// Why a glob is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GlobError {
    /// It is too long.
    #[error("it is longer than {MAX_GLOB_BYTES} bytes")]
    TooLong,
    /// Its braces are too deep.
    #[error("its braces are nested more than {MAX_GLOB_DEPTH} deep")]
    TooDeep,
    /// It cannot be read.
    #[error("{0}")]
    Syntax(String),
}

/// Checks that a glob can be parsed and matched at bounded cost.
///
/// # Errors
/// What is too much.
pub(crate) fn check_size(glob: &str) -> Result<(), GlobError> {
    if glob.len() > MAX_GLOB_BYTES {
        return Err(GlobError::TooLong);
    }
    let mut depth = 0_usize;
    for byte in glob.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_GLOB_DEPTH {
            return Err(GlobError::TooDeep);
        }
    }
    Ok(())
}

/// Which part of a path a pattern is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The name, at any depth: the pattern has no `/`.
    Name,
    /// The path below the folder that is searched.
    Below,
    /// The absolute path.
    Absolute,
}

/// The pattern of `find`.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    glob: GlobSet,
    part: Part,
    folders_only: bool,
}

impl PathPattern {
    /// Reads a pattern. Without capital letters it matches them too (as fd does); with a `/` at its end it is about
    /// folders alone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(pattern: &str) -> Result<Self, GlobError> {
        check_size(pattern)?;
        let mut text = without_dots(pattern);
        let folders_only = text.len() > 1 && text.ends_with('/');
        if folders_only {
            text = text.trim_end_matches('/');
        }
        let part = match text.find('/') {
            Some(0) => Part::Absolute,
            Some(_) => Part::Below,
            None => Part::Name,
        };
        let glob = GlobBuilder::new(text)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .case_insensitive(!text.contains(char::is_uppercase))
            .build()
            .and_then(|glob| GlobSet::new([glob]))
            .map_err(|error| GlobError::Syntax(error.kind().to_string()))?;
        Ok(Self { glob, part, folders_only })
    }

    /// Tells whether the pattern is about absolute paths.
    pub(crate) fn is_absolute(&self) -> bool {
        self.part == Part::Absolute
    }

    /// Tells whether something fits: its absolute path, its path below the folder that is searched, and what it is.
    pub(crate) fn is_match(&self, path: &Path, below: &Path, is_folder: bool) -> bool {
        if self.folders_only && !is_folder {
            return false;
        }
        match self.part {
            Part::Name => below.file_name().is_some_and(|name| self.glob.is_match(name)),
            Part::Below => self.glob.is_match(below),
            Part::Absolute => self.glob.is_match(path),
        }
    }
}

/// Globs that fit everything: who writes one does not ask for what is ignored, as the name of an ignored file would.
const EVERYTHING: [&str; 3] = ["*", "**", "**/*"];

/// Reads the glob of `grep`, which has the form of a line of `.gitignore`, `!` in front for what is to be left out.
/// `roots` are the spellings of the folder that is searched; the glob may begin with one of them.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn file_filter(root: &Path, roots: &[&Path], glob: Option<&str>) -> Result<Override, GlobError> {
    let Some(glob) = glob else { return Ok(Override::empty()) };
    check_size(glob)?;
    let syntax = |error: ignore::Error| GlobError::Syntax(error.to_string());
    let (sign, text) = glob.strip_prefix('!').map_or(("", glob), |rest| ("!", rest));
    let text = roots.iter().find_map(|root| below(text, root)).unwrap_or_else(|| without_dots(text));
    if sign.is_empty() && EVERYTHING.contains(&text) {
        return Ok(Override::empty());
    }
    // A `#` in front would make it a comment.
    let escape = if sign.is_empty() && text.starts_with('#') { "\\" } else { "" };
    let mut builder = OverrideBuilder::new(root);
    builder.add(&format!("{sign}{escape}{text}")).map_err(syntax)?;
    builder.build().map_err(syntax)
}

/// Returns what of an absolute glob comes after the folder, with the `/` that anchors it there.
fn below<'a>(glob: &'a str, root: &Path) -> Option<&'a str> {
    let rest = glob.strip_prefix(root.to_str()?.trim_end_matches('/'))?;
    (glob.starts_with('/') && rest.len() > 1 && rest.starts_with('/')).then_some(rest)
}

fn without_dots(mut glob: &str) -> &str {
    while let Some(rest) = glob.strip_prefix("./") {
        glob = rest.trim_start_matches('/');
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, fits: &[&str], others: &[&str]) {
        let read = PathPattern::new(pattern).unwrap();
        let is_match = |path: &&str| {
            let below = Path::new(path.trim_end_matches('/'));
            read.is_match(&Path::new("/home/src/app").join(below), below, path.ends_with('/'))
        };
        assert_eq!(fits.iter().filter(|path| !is_match(path)).count(), 0, "{pattern} fits {fits:?}");
        assert_eq!(others.iter().filter(|path| is_match(path)).count(), 0, "{pattern} fits none of {others:?}");
    }

    #[test]
    fn b133_patterns_hold_below_the_folder_that_is_searched() {
        check("*.ts", &["a.ts", "x/y/b.ts", ".c.ts"], &["a.tsx"]);
        check("src/**/*.ts", &["src/a.ts", "src/x/a.ts"], &["a.ts", "lib/src/a.ts", "app/a.ts"]);
        check("./a/*.ts", &["a/x.ts"], &["b/a/x.ts", "a/b/x.ts"]);
        check("**/a/*.ts", &["a/x.ts", "b/a/x.ts"], &["x.ts"]);
        check("/home/src/app/**/*.ts", &["a.ts", "x/y.ts"], &["a.js"]);
        check("/home/*/app/x/*", &["x/y.ts"], &["y.ts"]);
        check("/src/*.ts", &[], &["src/a.ts", "a.ts"]);
        check("../*.ts", &[], &["a.ts"]);
    }

    #[test]
    fn capitals_count_only_where_there_are_any() {
        check("readme*", &["README.md", "readme"], &["read"]);
        check("README*", &["README.md"], &["readme"]);
    }

    #[test]
    fn a_slash_at_the_end_means_folders() {
        check("src/", &["src/", "a/src/"], &["src"]);
        check("**", &["a", "a/b/"], &[]);
        check("{,x}.rs", &[".rs", "x.rs"], &["y.rs"]);
    }

    #[test]
    fn b137_glob_bombs_are_bounded() {
        let nested = (0..25).fold("a".to_owned(), |inner, _| format!("{{{inner},b}}"));
        check(&nested, &["a", "b", "x/b"], &["c"]);
        check(&"{a,b}".repeat(25), &["abababababababababababbbb"], &["a"]);
        let deep = "a/".repeat(200);
        check(&format!("{}x", "**/".repeat(50)), &["x", "a/b/x"], &["y", &format!("{deep}y")]);
        check(&format!("{}x", "*a".repeat(100)), &[], &["a".repeat(250).as_str()]);
        let error = |pattern: String| PathPattern::new(&pattern).unwrap_err();
        assert_eq!(error("{".repeat(2000)), GlobError::TooDeep);
        assert_eq!(error("{a,b}".repeat(2000)), GlobError::TooLong);
        assert!(matches!(error("[a".to_owned()), GlobError::Syntax(_)));
    }

    #[track_caller]
    fn check_filter(glob: &str, fits: &[&str], others: &[&str]) {
        let root = Path::new("/real/repo");
        let filter = file_filter(root, &[Path::new("/link/repo"), root], Some(glob)).unwrap();
        let ignored = |path: &&str| filter.matched(root.join(path), false).is_ignore();
        assert_eq!(fits.iter().filter(|path| ignored(path)).count(), 0, "{glob} fits {fits:?}");
        assert_eq!(others.iter().filter(|path| !ignored(path)).count(), 0, "{glob} fits none of {others:?}");
    }

    #[test]
    fn b133_filters_hold_below_the_folder_that_is_searched() {
        check_filter("m/*.js", &["m/a.js"], &["a.js", "x/m/a.js", "m/x/a.js"]);
        check_filter("*.js", &["a.js", "m/a.js"], &["a.ts"]);
        check_filter("./m/*.js", &["m/a.js"], &["x/m/a.js"]);
        check_filter("/link/repo/m/*.js", &["m/a.js"], &["x/m/a.js"]);
        check_filter("/real/repo/**/*.js", &["a.js", "x/m/a.js"], &["a.ts"]);
        check_filter("/other/**/*.js", &[], &["a.js"]);
        check_filter("!*.js", &["a.ts"], &["a.js", "x/b.js"]);
        check_filter("#*.js", &["#a.js"], &["a.js"]);
    }
}
