//! Fits texts into a width. A width counts columns of the terminal: a wide character has two.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::escape::escape;

/// Columns from one tab stop to the next.
const TAB_WIDTH: usize = 8;

/// Returns a text in at most this width, with an ellipsis for the part that is left out.
pub(super) fn fitted(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    if width == 0 {
        return Cow::Borrowed("");
    }
    Cow::Owned(format!("{}…", beginning(text, width - 1)))
}

/// Returns the beginning of a text that fits into a width.
fn beginning(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, char)| {
        used += char.width().unwrap_or(0);
        used > width
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// Returns the end of a text that fits into a width.
pub(super) fn end_of(text: &str, width: usize) -> &str {
    let mut used = 0;
    let begin = text.char_indices().rev().find(|(_, char)| {
        used += char.width().unwrap_or(0);
        used > width
    });
    &text[begin.map_or(0, |(at, char)| at + char.len_utf8())..]
}

/// Breaks a line at spaces, so that each part fits into a width. A word that is longer than the width is broken, too.
pub(super) fn wrapped(line: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut parts = Vec::new();
    let mut part = String::new();
    for word in line.split_inclusive(' ') {
        if !part.is_empty() && part.width() + word.trim_end().width() > width {
            parts.push(part.trim_end().to_owned());
            part.clear();
        }
        let mut word = word;
        while word.trim_end().width() > width {
            let head = beginning(word, width);
            parts.push(head.to_owned());
            word = &word[head.len()..];
        }
        part.push_str(word);
    }
    parts.push(part.trim_end().to_owned());
    parts
}

/// Returns the lines of titled texts, each with its title in the first line, and the following ones indented below it.
pub(super) fn field_lines(fields: &[(&'static str, String)], width: usize) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (title, text) in fields {
        let mut title = if title.is_empty() { String::new() } else { format!("{title}: ") };
        let indent = if title.width() * 2 < width { title.width() } else { 0 };
        for line in text.lines() {
            let line = line.replace('\t', "    ");
            for part in wrapped(&escape(&line), width.saturating_sub(indent)) {
                lines.push((std::mem::replace(&mut title, " ".repeat(indent)), part));
            }
        }
    }
    lines
}

/// Returns a line of a program's output as a terminal would leave it, without colours: tabs are spaces, a carriage return
/// begins the line again, and a backspace removes a character. All other control characters are escaped.
pub(super) fn plain(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    if !line.contains(|char: char| char.is_control()) {
        return escape(line).into_owned();
    }
    let mut shown = String::new();
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        if let Some(length) = style_length(rest) {
            rest = &rest[length..];
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match char {
            '\t' => shown.push_str(&" ".repeat(TAB_WIDTH - shown.width() % TAB_WIDTH)),
            '\r' => shown.clear(),
            '\u{8}' => {
                shown.pop();
            }
            char => shown.push_str(&escape(char.encode_utf8(&mut [0; 4]))),
        }
    }
    shown
}

/// Returns the length of a sequence at the beginning of a text that sets a colour or clears a part of the line.
fn style_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\x1b[")?;
    let end = rest.find(|char: char| !char.is_ascii_digit() && !matches!(char, ';' | ':'))?;
    matches!(rest.as_bytes()[end], b'm' | b'K').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use waypost_core::escape::needs_escape;

    use super::*;

    #[test]
    fn texts_are_cut_at_characters_and_say_so() {
        assert_eq!(fitted("short", 5), "short");
        assert_eq!(fitted("longer", 5), "long…");
        assert_eq!(fitted("漢字漢字", 5), "漢字…");
        assert_eq!(fitted("漢字", 0), "");
        assert_eq!(end_of("the end", 3), "end");
        assert_eq!(end_of("漢字", 3), "字");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("  indented text", 10), ["  indented", "text"]);
        assert_eq!(wrapped("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrapped("", 4), [""]);
        let fields = [("asks", "Which one of\nthese?".to_owned()), ("", "text".to_owned())];
        let lines: Vec<String> = field_lines(&fields, 14).into_iter().map(|(title, text)| title + &text).collect();
        assert_eq!(lines, ["asks: Which", "      one of", "      these?", "text"]);
    }

    #[test]
    fn output_of_programs_is_shown_as_a_terminal_leaves_it() {
        assert_eq!(plain("\x1b[1;32mok\x1b[0m done\x1b[K\r"), "ok done");
        assert_eq!(plain("10%\r50%\r100%"), "100%");
        assert_eq!(plain("a\tb"), "a       b");
        assert_eq!(plain("ab\u{8}c"), "ac");
        assert_eq!(plain("\x1b[2J\x1b]0;title\x07"), "\\u{1b}[2J\\u{1b}]0;title\\u{7}", "others are visible");
        assert_eq!(plain("\u{202e}x"), "\\u{202e}x");
    }

    proptest! {
        #[test]
        fn every_part_fits_and_no_control_character_is_left(text in "\\PC*|.*|[ a漢\u{1b}\\[m\t\r\u{8}0-9]*", width in 2_usize..40) {
            let line = plain(&text);
            prop_assert!(!line.chars().any(needs_escape));
            for part in wrapped(&line, width) {
                prop_assert!(part.width() <= width, "{part:?}");
            }
            prop_assert!(fitted(&line, width).width() <= width);
            prop_assert!(end_of(&line, width).width() <= width);
        }
    }
}
