//! Making any text safe to print on a terminal.
//!
//! Names, paths and messages come from others. What could move the cursor, ring, recolour, hide or reorder
//! is shown in escaped form instead of being obeyed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with everything a terminal would obey written out.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ if is_obeyed(char) => {
                write!(safe, "\\u{{{:x}}}", u32::from(char)).expect("writing to a string cannot fail");
            }
            _ => safe.push(char),
        }
    }
    Cow::Owned(safe)
}

fn is_obeyed(char: char) -> bool {
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
    fn what_a_terminal_obeys_is_written_out() {
        assert_eq!(escape("plain ü 漢"), "plain ü 漢");
        assert_eq!(escape("a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(escape("a\nb\r"), "a\\nb\\r");
        assert_eq!(escape("\u{202e}evil"), "\\u{202e}evil");
        assert_eq!(escape("\u{9b}31m"), "\\u{9b}31m");
    }

    proptest! {
        #[test]
        fn nothing_obeyed_is_left(text in "\\PC*|.*|[\u{0}-\u{9f}\u{2000}-\u{2070}]*") {
            prop_assert!(!escape(&text).chars().any(is_obeyed));
        }
    }
}
