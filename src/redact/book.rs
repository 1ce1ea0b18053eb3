//! All keys that the daemon has come across.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::keys::Keys;

/// Most keys that are remembered; beyond that the one learned first is forgotten. People have dozens.
const MAX_KEYS: usize = 1000;

/// All keys that the daemon has come across, those of every session: what one may not show, no other shows. Held in
/// memory only. Cheap to clone; clones are the same book.
#[derive(Clone, Default)]
pub struct KeyBook(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Names and keys, oldest first.
    all: VecDeque<(String, String)>,
    keys: Arc<Keys>,
}

impl fmt::Debug for KeyBook {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBook")
    }
}

impl KeyBook {
    /// Takes note of keys, each with a name that tells people which it is.
    pub fn learn(&self, found: impl IntoIterator<Item = (String, String)>) {
        let mut inner = self.lock();
        let before = inner.all.len();
        for (name, key) in found {
            if !key.is_empty() && !inner.all.iter().any(|(_, known)| *known == key) {
                inner.all.push_back((name, key));
            }
        }
        if inner.all.len() > before {
            let surplus = inner.all.len().saturating_sub(MAX_KEYS);
            inner.all.drain(..surplus);
            let named = inner.all.iter().map(|(name, key)| (name.as_str(), key.as_str()));
            inner.keys = Arc::new(Keys::new(named));
        }
    }

    /// Returns the keys known now.
    pub fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.lock().keys)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn keys_are_learned_once_and_the_oldest_is_forgotten_at_last() {
        let book = KeyBook::default();
        let learn = |number: usize| book.learn([(format!("K{number}"), format!("key-number-{number:04}"))]);
        learn(1);
        book.learn([("again".to_owned(), "key-number-0001".to_owned()), ("none".to_owned(), String::new())]);
        assert_eq!(book.keys().redact("key-number-0001"), "[redacted: K1]");
        (2..=MAX_KEYS + 1).for_each(learn);
        assert_eq!(book.keys().redact("key-number-0001"), "key-number-0001");
        assert_eq!(book.keys().redact("key-number-0002"), "[redacted: K2]");
    }
}
