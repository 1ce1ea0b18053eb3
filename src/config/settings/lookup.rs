//! Finding a key by its name, and the one that is meant by a wrong name.

use super::key::Key;
use super::keys::KEYS;

/// Returns the key of a name.
///
/// # Errors
/// There is none; the text for people names one that looks like it.
pub fn key_named(name: &str) -> Result<&'static Key, String> {
    KEYS.iter().copied().find(|key| key.name == name).ok_or_else(|| unknown(name))
}

/// Says that there is no such key, and which one may be meant.
pub(super) fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(80).collect();
    match similar(name) {
        Some(key) => format!("no key {shown}; did you mean {key}?"),
        None => format!("no key {shown}; `agentctl config show` lists them"),
    }
}

/// Returns the key that looks most like a name, as a whole or in its last part.
fn similar(name: &str) -> Option<&'static str> {
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |key: &&Key| {
        let whole = strsim::damerau_levenshtein(key.name, &plain);
        let tail = 1 + strsim::damerau_levenshtein(&last(key.name), &last(&plain));
        whole.min(tail)
    };
    let nearest = KEYS.iter().copied().min_by_key(distance)?;
    // A third of the letters may be wrong.
    (distance(&nearest) <= plain.len().max(3) / 3).then_some(nearest.name)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_unknown_key_is_answered_with_the_one_that_is_meant() {
        for (name, meant) in [
            ("retry.max_retrys", Some("retry.max_retries")),
            ("retry.maxRetries", Some("retry.max_retries")),
            ("max-turns", Some("max_turns")),
            ("modell", Some("model")),
            ("max_retries", Some("retry.max_retries")),
            ("duarbility", Some("durability")),
            ("theme", None),
            ("", None),
        ] {
            assert_eq!(similar(name), meant, "{name}");
        }
        assert_eq!(key_named("modell").err().as_deref(), Some("no key modell; did you mean model?"));
        assert_eq!(key_named("theme").err().as_deref(), Some("no key theme; `agentctl config show` lists them"));
        assert_eq!(key_named("model").map(|key| key.name), Ok("model"));
    }
}
