//! Escapes text for the terminal.
//!
//! Names, paths and messages come from other users and programs. Characters that move the cursor, ring the bell, or
//! recolour, hide or reorder text are printed in escaped form.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with all control and invisible characters escaped.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ if needs_escape(char) => {
                write!(safe, "\\u{{{:x}}}", u32::from(char)).expect("writing to a string cannot fail");
            }
            _ => safe.push(char),
        }
    }
    Cow::Owned(safe)
}

fn needs_escape(char: char) -> bool {
    char.is_control()
        || matches!(char,
            // Line and paragraph separators, bidirectional controls, zero-width characters, byte order mark.
            '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{61c}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape("plain ü 漢"), "plain ü 漢");
        assert_eq!(escape("a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(escape("a\nb\r"), "a\\nb\\r");
        assert_eq!(escape("\u{202e}evil"), "\\u{202e}evil");
        assert_eq!(escape("\u{9b}31m"), "\\u{9b}31m");
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_control_characters(text in "\\PC*|.*|[\u{0}-\u{9f}\u{2000}-\u{2070}]*") {
            prop_assert!(!escape(&text).chars().any(needs_escape));
        }
    }
}
