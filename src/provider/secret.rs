//! Keys, in a type that never prints.

use std::fmt;
use std::sync::Arc;

/// What stands where a key was.
pub const REDACTED: &str = "[redacted]";
/// Keys shorter than this are not looked for in texts: they would match ordinary words. Real keys are longer.
const MIN_REDACTABLE_LEN: usize = 6;

/// A key. Shown as `[redacted]`; only [`Secret::expose`] gives its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key, without the white space around it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref().trim()))
    }

    /// Wraps text whose white space matters: a piece of a value.
    pub(super) fn verbatim(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref()))
    }

    /// Returns the key itself, for the one request header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the value of an `Authorization` header that carries it.
    pub(super) fn bearer(&self) -> Self {
        Self::new(format!("Bearer {}", self.0))
    }

    /// Returns `text` with each occurrence of the key replaced.
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < MIN_REDACTABLE_LEN { text.to_owned() } else { text.replace(&*self.0, REDACTED) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let key = Secret::new(" sk-CANARY123\n");
        assert_eq!(key.expose(), "sk-CANARY123");
        assert_eq!(format!("{key:?}"), "[redacted]");
        assert_eq!(key.redact("bad key sk-CANARY123!"), "bad key [redacted]!");
    }

    #[test]
    fn a_short_key_does_not_garble_texts() {
        assert_eq!(Secret::new("key").redact("no such key"), "no such key");
        assert_eq!(Secret::new("").redact("abc"), "abc");
    }
}
