//! Finding keys in text that comes in pieces. Pure.

use std::borrow::Cow;

use super::keys::{Found, Keys, MIN_PARTIAL_BYTES};

/// Looks for keys in one stream of text or bytes. What may be the beginning of a key is held back until more comes, so
/// that a key is found wherever the stream is cut; all other bytes go on at once, and as they came.
#[derive(Debug, Default)]
pub struct Redactor {
    /// The last bytes: first those that have gone on, then those that are held back.
    window: Vec<u8>,
    /// How many of them have gone on; fewer than [`MIN_PARTIAL_BYTES`].
    gone: usize,
}

impl Redactor {
    /// Takes the next piece and returns what can go on. What was whole characters, over all pieces, still is.
    pub fn push<'a>(&mut self, keys: &Keys, piece: &'a [u8]) -> Cow<'a, [u8]> {
        if keys.is_empty() && self.window.is_empty() {
            return Cow::Borrowed(piece);
        }
        let holds = self.window.len() > self.gone;
        self.window.extend_from_slice(piece);
        let mut out = Vec::new();
        // Up to here bytes have gone on, and up to there they can, except that a key ended before `free`.
        let (mut gone, mut end, mut free) = (self.gone, self.window.len(), 0);
        loop {
            match keys.find(&self.window, free, true) {
                None => break,
                Some(Found::Partial(at, _)) => {
                    end = at.max(gone);
                    break;
                }
                Some(Found::Whole(at, shown)) => {
                    out.extend_from_slice(&self.window[gone..at.start.max(gone)]);
                    out.extend_from_slice(shown.as_bytes());
                    (gone, free) = (at.end, at.end);
                }
            }
        }
        let is_as_it_came = !holds && free == 0 && end == self.window.len();
        if !is_as_it_came {
            out.extend_from_slice(&self.window[gone..end]);
        }
        let keep = (end.saturating_sub(MIN_PARTIAL_BYTES - 1)).max(free);
        self.window.drain(..keep);
        self.gone = end - keep;
        if is_as_it_came { Cow::Borrowed(piece) } else { Cow::Owned(out) }
    }

    /// Returns what is held back at the end of the stream: of a key that was cut, only a note.
    pub fn finish(&mut self, keys: &Keys) -> Vec<u8> {
        let window = std::mem::take(&mut self.window);
        let gone = std::mem::take(&mut self.gone);
        // What is held back may be a whole key, and at the same time the beginning of a longer one.
        if let Some(Found::Whole(at, shown)) = keys.find(&window, 0, false) {
            return [&window[gone..at.start.max(gone)], shown.as_bytes(), &window[at.end..]].concat();
        }
        match keys.find(&window, 0, true) {
            Some(Found::Partial(at, shown)) if window.len() - at >= 2 * MIN_PARTIAL_BYTES => {
                [&window[gone..at.max(gone)], shown.as_bytes()].concat()
            }
            _ => window[gone..].to_vec(),
        }
    }

    /// As [`Redactor::push`], for text.
    pub fn push_text<'a>(&mut self, keys: &Keys, piece: &'a str) -> Cow<'a, str> {
        match self.push(keys, piece.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(piece),
            Cow::Owned(bytes) => Cow::Owned(text(bytes)),
        }
    }

    /// As [`Redactor::finish`], for text.
    pub fn finish_text(&mut self, keys: &Keys) -> String {
        text(self.finish(keys))
    }
}

/// Keys are text, and so are their beginnings that end with a piece of text: nothing is lost here.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn keys() -> Keys {
        Keys::new([("A", "sk-CANARY1"), ("B", "sk-CANARY123"), ("C", "ééééé"), ("D", "aaaaaaaaB")])
    }

    fn pushed(pieces: &[&str]) -> (Vec<String>, String) {
        let mut redactor = Redactor::default();
        let gone = pieces.iter().map(|piece| redactor.push_text(&keys(), piece).into_owned()).collect();
        (gone, redactor.finish_text(&keys()))
    }

    #[track_caller]
    fn check(pieces: &[&str], gone: &[&str], rest: &str) {
        let expected = (gone.iter().map(|text| (*text).to_owned()).collect(), rest.to_owned());
        assert_eq!(pushed(pieces), expected, "{pieces:?}");
    }

    #[test]
    fn only_what_may_be_a_key_is_held_back() {
        check(&["plain", " text s", "k", "-", "x"], &["plain", " text s", "k", "-", "x"], "");
        check(&["a sk-C", "old"], &["a ", "sk-Cold"], "");
        check(&["a sk-CANARY", "123 b"], &["a ", "[redacted: B] b"], "");
        check(&["sk-CANARY1", "23"], &["", "[redacted: B]"], "");
        check(&["sk-CANARY1", "2x"], &["", "[redacted: A]2x"], "");
        check(&["sk-CANARY1"], &[""], "[redacted: A]");
        check(&["sk-CANARY12"], &[""], "[redacted: A]2");
        check(&["sk-CANAR"], &[""], "[redacted: B]");
        check(&["sk-CAN"], &[""], "sk-CAN");
        check(&["aaaaaaaaaa", "B"], &["aa", "[redacted: D]"], "");
    }

    #[test]
    fn of_a_key_in_pieces_at_most_three_bytes_go_on() {
        check(
            &["s", "k", "-", "C", "A", "N", "A", "R", "Y", "1", " "],
            &["s", "k", "-", "", "", "", "", "", "", "", "[redacted: A] "],
            "",
        );
        check(&["sk", "-CANARY123", "sk", "-CANARY1."], &["sk", "[redacted: B]", "sk", "[redacted: A]."], "");
    }

    #[test]
    fn a_piece_without_a_key_goes_on_as_it_came() {
        let mut redactor = Redactor::default();
        for piece in ["some ", "text, a", "", "nd more"] {
            assert!(matches!(redactor.push_text(&keys(), piece), Cow::Borrowed(gone) if gone == piece));
        }
    }

    proptest! {
        /// However a text is cut, no key is in what goes on, and without keys it is the text.
        #[test]
        fn any_cut_hides_every_key(parts in prop::collection::vec(
            prop::sample::select(vec!["sk-CANARY123", "sk-CANARY1", "ééééé", "sk-", "CANARY", "é", "a", "aaaa", "B", " x "]),
            0..12,
        ), cuts in prop::collection::vec(0_usize..100, 0..12)) {
            let whole = parts.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| whole.is_char_boundary(*at)).collect();
            cuts.sort_unstable();
            let mut redactor = Redactor::default();
            let (mut out, mut from) = (String::new(), 0);
            for at in cuts.into_iter().filter(|at| *at <= whole.len()).chain([whole.len()]) {
                out.push_str(&redactor.push_text(&keys(), &whole[from..at]));
                from = at;
            }
            let cut_short = redactor.finish_text(&keys());
            out.push_str(&cut_short);
            for key in ["sk-CANARY1", "ééééé", "aaaaaaaaB"] {
                prop_assert!(!out.contains(key), "{out}");
            }
            if keys().redact(&whole) == whole && cut_short.is_empty() {
                prop_assert_eq!(out, whole);
            }
        }
    }
}
