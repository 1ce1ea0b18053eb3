//! Folding of look-alike characters: what a model types (`'`, `-`, a plain blank) against what files hold.
//!
//! Pure. Used to find text for an edit and names in a folder, never to change any.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// Folds one character that has no decomposition worth mentioning.
fn fold_char(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{00A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Appends the folded form of one [cluster](clusters).
pub(crate) fn fold_cluster(cluster: &str, out: &mut String) {
    if let [byte] = cluster.as_bytes()
        && byte.is_ascii()
    {
        out.push(*byte as char);
        return;
    }
    out.extend(cluster.chars().map(fold_char).collect::<String>().nfkc().map(fold_char));
}

/// Folds a whole text.
pub(crate) fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for cluster in clusters(text) {
        fold_cluster(cluster, &mut out);
    }
    out
}

/// Splits a text where normalisation may be cut: before every character that neither combines with the one before it
/// nor continues a Hangul syllable.
pub(crate) fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        chars.next()?;
        let end = chars.find(|(_, c)| !continues(*c)).map_or(rest.len(), |(at, _)| at);
        let (cluster, tail) = rest.split_at(end);
        rest = tail;
        Some(cluster)
    })
}

fn continues(c: char) -> bool {
    // The sign U+FF9E/F are width variants of combining marks: NFKC makes marks of them.
    !c.is_ascii()
        && (canonical_combining_class(c) != 0
            || is_combining_mark(c)
            || matches!(c, '\u{1160}'..='\u{11FF}' | '\u{FF9E}' | '\u{FF9F}'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn folds_look_alikes() {
        for (text, expected) in [
            ("it’s “x” – y", "it's \"x\" - y"),
            ("a\u{a0}b\u{202f}c", "a b c"),
            ("３.５", "3.5"),
            ("e\u{301}", "é"),
            ("plain\ttext\r\n", "plain\ttext\r\n"),
        ] {
            assert_eq!(fold(text), expected);
        }
    }

    proptest! {
        #[test]
        fn clusters_lose_nothing(text in any::<String>()) {
            prop_assert_eq!(clusters(&text).collect::<String>(), text);
        }

        #[test]
        fn folding_agrees_with_nfkc_up_to_look_alikes(text in any::<String>()) {
            let by_cluster: String = clusters(&text).flat_map(|c| c.nfkc().collect::<Vec<_>>()).collect();
            let whole: String = text.nfkc().collect();
            prop_assert_eq!(by_cluster, whole);
        }
    }
}
