use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_first_message_is_one_short_clean_line() {
    let line = |text: &str| one_line(&[ContentBlock::text(text)]);
    assert_eq!(line("  a\n\tb\u{1b}[31mc \u{2028} d\0 "), Some("a b [31mc d".to_owned()));
    assert_eq!(line(" \n "), None);
    assert_eq!(line(&"é".repeat(1000)), Some("é".repeat(FIRST_MESSAGE_CHARS)));
    let many = line(&"ab ".repeat(1000)).unwrap();
    assert_eq!(many.chars().count(), FIRST_MESSAGE_CHARS);
    assert_eq!(one_line(&[ContentBlock::text("a"), ContentBlock::text("b")]), Some("a b".to_owned()));
}
