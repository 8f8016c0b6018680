//! Escapes text for the terminal: as [`waypost_core::escape`] does it for models too.

pub(crate) use waypost_core::escape::escape;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use waypost_core::escape::needs_escape;

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
