//! Patterns of paths.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::rule::WrongRule;

/// Characters that make a name a pattern.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '\\'];

/// A pattern of places: it covers what it fits, and all that is below.
#[derive(Clone, Debug)]
pub(super) struct PathPattern {
    matcher: GlobMatcher,
    /// Where it begins: the folders before its first special character. Relative: in the working directory.
    beginning: PathBuf,
    is_relative: bool,
}

impl PathPattern {
    /// Reads a pattern. `*` and `?` stay within a name, `**` goes through folders.
    pub(super) fn new(pattern: &str, base: Option<&Path>, home: Option<&Path>) -> Result<Self, WrongRule> {
        let wrong = |why: &str| WrongRule::NoPattern { pattern: pattern.to_owned(), why: why.to_owned() };
        let whole = match pattern.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = home.and_then(Path::to_str).ok_or_else(|| wrong("there is no home directory"))?;
                format!("{}{rest}", literal(home))
            }
            Some(_) => return Err(wrong("only `~/` is known, not the homes of others")),
            None if pattern.starts_with('/') => pattern.to_owned(),
            None => match base {
                Some(base) => {
                    let base = base.to_str().ok_or_else(|| wrong("its folder is no text"))?;
                    format!("{}/{pattern}", literal(base))
                }
                None => pattern.to_owned(),
            },
        };
        // The working directory itself is all in it.
        let whole = if whole == "." || whole == "./" { "**" } else { &whole };
        let whole = whole.trim_start_matches("./").trim_end_matches('/');
        if whole.split('/').any(|part| part == "..") {
            return Err(wrong("places are compared without `..`"));
        }
        let glob = GlobBuilder::new(if whole.is_empty() { "/" } else { whole }).literal_separator(true).build();
        let matcher = glob.map_err(|error| wrong(&error.kind().to_string()))?.compile_matcher();
        let beginning = whole.split('/').take_while(|part| !part.contains(SPECIAL)).collect::<Vec<_>>().join("/");
        let is_relative = !whole.starts_with('/');
        let beginning = if is_relative { beginning.into() } else { Path::new("/").join(beginning) };
        Ok(Self { matcher, beginning, is_relative })
    }

    /// Tells whether a place is covered.
    pub(super) fn covers(&self, place: &Path, cwd: &Path) -> bool {
        let place = if self.is_relative { place.strip_prefix(cwd) } else { Ok(place) };
        place.is_ok_and(|place| place.ancestors().any(|part| self.matcher.is_match(part)))
    }

    /// Tells whether something below a folder may be covered.
    pub(super) fn reaches_below(&self, folder: &Path, cwd: &Path) -> bool {
        let beginning = cwd.join(&self.beginning);
        beginning.starts_with(folder) || folder.starts_with(&beginning)
    }
}

/// Writes a path as a pattern that fits only itself.
fn literal(path: &str) -> String {
    let escaped = path.chars().flat_map(|c| SPECIAL.contains(&c).then_some('\\').into_iter().chain([c]));
    escaped.collect()
}
