//! Says where a text stops being JSON, in the words of V8 (node 22), which pi's users and models know.
//!
//! Pure and iterative: the text comes from models and may nest without end. Positions count UTF-16 units, as in
//! JavaScript.

/// Characters of the text shown on each side of an unexpected one.
const CONTEXT_CHARS: usize = 10;

/// Returns what is wrong with `text`, or `None` when it is JSON.
pub(super) fn explain(text: &str) -> Option<String> {
    let mut scanner = Scanner { bytes: text.as_bytes(), pos: 0 };
    let fault = scanner.document().err()?;
    Some(match fault {
        Fault::End => "Unexpected end of JSON input".to_owned(),
        Fault::Token => unexpected_token(text, scanner.pos),
        Fault::Expected(what) => format!("{what} in JSON at {}", place(text, scanner.pos)),
        Fault::After => format!("Unexpected non-whitespace character after JSON at {}", place(text, scanner.pos)),
    })
}

/// What the scanner stumbled over, at its position.
enum Fault {
    /// The text ended where a value was due.
    End,
    /// A character that begins no value.
    Token,
    /// Something else was due.
    Expected(&'static str),
    /// More text after the value.
    After,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    pos: usize,
}

/// What an open bracket waits for.
#[derive(Clone, Copy)]
enum Open {
    Object,
    Array,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        let mut open = Vec::new();
        loop {
            self.blank();
            let closed = match self.peek() {
                Some(b'{') => self.open_object(&mut open)?,
                Some(b'[') => self.open_array(&mut open),
                _ => {
                    self.scalar()?;
                    true
                }
            };
            if closed && self.after_value(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Steps into an object up to its first value. True when it is empty and so already closed.
    fn open_object(&mut self, open: &mut Vec<Open>) -> Result<bool, Fault> {
        self.pos += 1;
        self.blank();
        if self.eat(b'}') {
            return Ok(true);
        }
        open.push(Open::Object);
        self.property(true)?;
        Ok(false)
    }

    /// Steps into an array. True when it is empty and so already closed.
    fn open_array(&mut self, open: &mut Vec<Open>) -> bool {
        self.pos += 1;
        self.blank();
        if self.eat(b']') {
            return true;
        }
        open.push(Open::Array);
        false
    }

    /// Reads a property's name and colon.
    fn property(&mut self, is_first: bool) -> Result<(), Fault> {
        self.blank();
        if self.peek() != Some(b'"') {
            return Err(Fault::Expected(if is_first {
                "Expected property name or '}'"
            } else {
                "Expected double-quoted property name"
            }));
        }
        self.string()?;
        self.blank();
        if self.eat(b':') { Ok(()) } else { Err(self.no_colon(is_first)) }
    }

    /// V8 says what is missing only after an object's first name.
    fn no_colon(&self, is_first: bool) -> Fault {
        if is_first { Fault::Expected("Expected ':' after property name") } else { self.unexpected() }
    }

    /// Reads brackets that close and the comma before the next value. True when the document is complete.
    fn after_value(&mut self, open: &mut Vec<Open>) -> Result<bool, Fault> {
        loop {
            self.blank();
            let Some(innermost) = open.last() else {
                return if self.pos == self.bytes.len() { Ok(true) } else { Err(Fault::After) };
            };
            let (close, otherwise) = match innermost {
                Open::Object => (b'}', "Expected ',' or '}' after property value"),
                Open::Array => (b']', "Expected ',' or ']' after array element"),
            };
            if self.eat(close) {
                open.pop();
                continue;
            }
            if !self.eat(b',') {
                return Err(Fault::Expected(otherwise));
            }
            if matches!(open.last(), Some(Open::Object)) {
                self.property(false)?;
            }
            return Ok(false);
        }
    }

    fn scalar(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        for byte in word {
            match self.peek() {
                Some(found) if found == *byte => self.pos += 1,
                _ => return Err(self.unexpected()),
            }
        }
        Ok(())
    }

    /// The fault where V8 names what it found rather than what was due.
    fn unexpected(&self) -> Fault {
        match self.peek() {
            None => Fault::End,
            Some(b'"') => Fault::Expected("Unexpected string"),
            Some(b'-' | b'0'..=b'9') => Fault::Expected("Unexpected number"),
            Some(_) => Fault::Token,
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.eat(b'-') && !self.at_digit() {
            return Err(Fault::Expected("No number after minus sign"));
        }
        if self.eat(b'0') {
            if self.at_digit() {
                return Err(Fault::Expected("Unexpected number"));
            }
        } else {
            self.digits();
        }
        if self.eat(b'.') && !self.digits() {
            return Err(Fault::Expected("Unterminated fractional number"));
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            if !self.digits() {
                return Err(Fault::Expected("Exponent part is missing a number"));
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.pos += 1;
        loop {
            match self.peek() {
                None => return Err(Fault::Expected("Unterminated string")),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err(Fault::Expected("Bad control character in string literal")),
                Some(_) => self.pos += 1,
            }
        }
        self.pos += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Fault> {
        self.pos += 1;
        match self.peek() {
            None => return Err(Fault::End),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.pos += 1,
            Some(b'u') => {
                self.pos += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                        return Err(Fault::Expected("Bad Unicode escape"));
                    }
                    self.pos += 1;
                }
            }
            Some(_) => return Err(Fault::Expected("Bad escaped character")),
        }
        Ok(())
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.pos += 1;
        }
    }

    /// Skips digits; false when there is none.
    fn digits(&mut self) -> bool {
        let start = self.pos;
        while self.at_digit() {
            self.pos += 1;
        }
        self.pos > start
    }

    fn at_digit(&self) -> bool {
        self.peek().is_some_and(|b| b.is_ascii_digit())
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.pos += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }
}

/// `position 7 (line 1 column 8)`.
fn place(text: &str, byte_pos: usize) -> String {
    let before = &text[..byte_pos];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let column = before[line_start..].encode_utf16().count() + 1;
    format!("position {} (line {line} column {column})", before.encode_utf16().count())
}

/// Names the character and shows what stands around it.
fn unexpected_token(text: &str, byte_pos: usize) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    let pos = text[..byte_pos].encode_utf16().count();
    let token = text[byte_pos..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
    let (mut start, mut end) = (0, units.len());
    if units.len() > 2 * CONTEXT_CHARS {
        if pos >= CONTEXT_CHARS {
            start = pos - CONTEXT_CHARS;
        }
        if pos < CONTEXT_CHARS || pos < units.len() - CONTEXT_CHARS {
            end = pos + CONTEXT_CHARS;
        }
    }
    let before = if start > 0 || (pos >= CONTEXT_CHARS && units.len() > 2 * CONTEXT_CHARS) { "..." } else { "" };
    let after = if end < units.len() { "..." } else { "" };
    let shown = String::from_utf16_lossy(&units[start..end]);
    format!("Unexpected token '{token}', {before}\"{shown}\"{after} is not valid JSON")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(explain(text).as_deref(), Some(expected), "{text}");
    }

    // The messages are those of node 20 and 22 for the same texts.
    #[test]
    fn faults_are_named_as_v8_names_them() {
        for (text, expected) in [
            ("", "Unexpected end of JSON input"),
            ("{\"a\":", "Unexpected end of JSON input"),
            ("tru", "Unexpected end of JSON input"),
            ("{\"a\":\"\\", "Unexpected end of JSON input"),
            ("{", "Expected property name or '}' in JSON at position 1 (line 1 column 2)"),
            ("{a:1}", "Expected property name or '}' in JSON at position 1 (line 1 column 2)"),
            ("{\"a\"", "Expected ':' after property name in JSON at position 4 (line 1 column 5)"),
            ("{\"a\":1", "Expected ',' or '}' after property value in JSON at position 6 (line 1 column 7)"),
            ("{\"a\":1,", "Expected double-quoted property name in JSON at position 7 (line 1 column 8)"),
            ("[1 2]", "Expected ',' or ']' after array element in JSON at position 3 (line 1 column 4)"),
            ("{\"a\":\"x", "Unterminated string in JSON at position 7 (line 1 column 8)"),
            ("{\"a\":\n\"b\n\"}", "Bad control character in string literal in JSON at position 8 (line 2 column 3)"),
            ("{\"a\":\"\\u12\"}", "Bad Unicode escape in JSON at position 10 (line 1 column 11)"),
            ("{\"a\":\"\\q\"}", "Bad escaped character in JSON at position 7 (line 1 column 8)"),
            ("{\"é😀\":01}", "Unexpected number in JSON at position 8 (line 1 column 9)"),
            ("-", "No number after minus sign in JSON at position 1 (line 1 column 2)"),
            ("1.", "Unterminated fractional number in JSON at position 2 (line 1 column 3)"),
            ("1e", "Exponent part is missing a number in JSON at position 2 (line 1 column 3)"),
            ("{\"a\":1}\n\nfoo", "Unexpected non-whitespace character after JSON at position 9 (line 3 column 1)"),
            ("not json", "Unexpected token 'o', \"not json\" is not valid JSON"),
            ("[,]", "Unexpected token ',', \"[,]\" is not valid JSON"),
            ("xxxxxxxxxxxxxxxxxxxxxxxxx", "Unexpected token 'x', \"xxxxxxxxxx\"... is not valid JSON"),
            (
                "{\"aaaaaaaaaaaaaaaaaaaaaaa\": bbbbbbbbbbbbbbbbbbbb}",
                "Unexpected token 'b', ...\"aaaaaaa\": bbbbbbbbbb\"... is not valid JSON",
            ),
            ("{\"aaaaaaaaaaaaaaaaaaaaaaa\": b}", "Unexpected token 'b', ...\"aaaaaaa\": b}\" is not valid JSON"),
        ] {
            check(text, expected);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_what_is_json(text in "[{}\\[\\]\"\\\\unltrefas01.eE+\\-:, \t\n😀]{0,16}") {
            let is_json = match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
                Ok(_) => true,
                // V8 takes numbers that no f64 holds (as Infinity) and halves of surrogate pairs.
                Err(error) => ["number out of range", "surrogate", "unexpected end of hex"]
                    .iter()
                    .any(|known| error.to_string().contains(known)) && explain(&text).is_none(),
            };
            prop_assert_eq!(explain(&text).is_none(), is_json, "{}", text);
        }
    }
}
