//! A marked block in a user's file. Nothing outside the marks changes.

use std::ops::Range;

use waypost_core::{Error, Result};

/// The lines that begin and end a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    begin: &'static str,
    end: &'static str,
}

/// The marks in Markdown documents.
pub(super) const MARKDOWN: Marks = Marks { begin: "<!-- waypost:begin -->", end: "<!-- waypost:end -->" };
/// The marks in TOML settings.
pub(super) const TOML: Marks = Marks { begin: "# waypost:begin", end: "# waypost:end" };
/// The marks around the part of Codex's settings that concerns its sandbox, which may be in the same file.
pub(super) const SANDBOX: Marks = Marks { begin: "# waypost:sandbox:begin", end: "# waypost:sandbox:end" };

impl Marks {
    /// Returns the text between the marks. None without a block.
    pub(super) fn body(self, text: &str) -> Result<Option<String>> {
        let Some(range) = self.find(text)? else { return Ok(None) };
        let lines: Vec<&str> = text[range].lines().collect();
        Ok(Some(lines[1..lines.len() - 1].join("\n")))
    }

    /// Returns the text with the block: at its former position, or at the end.
    ///
    /// If the text does not end with a newline, the block does not either, so that [`Marks::without`] restores the text.
    pub(super) fn with(self, text: &str, body: &str) -> Result<String> {
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let lines: Vec<&str> = std::iter::once(self.begin).chain(body.lines()).chain([self.end]).collect();
        let block = lines.join(line);
        Ok(match self.find(text)? {
            Some(range) => {
                let end = if text[range.clone()].ends_with('\n') { line } else { "" };
                format!("{}{block}{end}{}", &text[..range.start], &text[range.end..])
            }
            None if text.is_empty() => format!("{block}{line}"),
            None if text.ends_with('\n') => format!("{text}{line}{block}{line}"),
            None => format!("{text}{line}{line}{block}"),
        })
    }

    /// Returns the text without the block, and without the empty line before it. None without a block.
    pub(super) fn without(self, text: &str) -> Result<Option<String>> {
        let Some(range) = self.find(text)? else { return Ok(None) };
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let ends_line = text[range].ends_with('\n');
        let mut before = before.to_owned();
        let cut = |before: &mut String| {
            if before.ends_with('\n') {
                before.pop();
                if before.ends_with('\r') {
                    before.pop();
                }
            }
        };
        let follows_empty_line = before.ends_with("\n\n") || before.ends_with("\n\r\n") || before == "\n";
        if after.is_empty() && !ends_line {
            cut(&mut before);
            cut(&mut before);
        } else if follows_empty_line {
            cut(&mut before);
        }
        Ok(Some(before + after))
    }

    /// Returns the range of the block, including its last newline.
    fn find(self, text: &str) -> Result<Option<Range<usize>>> {
        let mut at = 0;
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for line in text.split_inclusive('\n') {
            match line.trim_end() {
                mark if mark == self.begin => begins.push(at),
                mark if mark == self.end => ends.push(at + line.len()),
                _ => {}
            }
            at += line.len();
        }
        match (begins.as_slice(), ends.as_slice()) {
            ([], []) => Ok(None),
            ([begin], [end]) if begin < end => Ok(Some(*begin..*end)),
            _ => Err(Error::invalid(format!(
                "the marks {:?} and {:?} must each appear once, in this order",
                self.begin, self.end
            ))
            .hint("remove them and the text between them by hand")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        let piece =
            prop_oneof!["[a-z#<>! ]{0,12}", Just("\n".to_owned()), Just("\r\n".to_owned()), Just("\n\n".to_owned())];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn adding_and_removing_a_block_restores_the_text(text in text()) {
            for marks in [MARKDOWN, TOML, SANDBOX] {
                let with = marks.with(&text, "one\n\ntwo").unwrap();
                prop_assert!(with.starts_with(&text));
                prop_assert_eq!(marks.body(&with).unwrap(), Some("one\n\ntwo".to_owned()));
                prop_assert_eq!(&marks.with(&with, "one\n\ntwo").unwrap(), &with, "adding is idempotent");
                let without = marks.without(&with).unwrap().unwrap();
                prop_assert_eq!(without, text.clone());
                let newer = marks.with(&with, "three").unwrap();
                prop_assert_eq!(newer, marks.with(&text, "three").unwrap(), "an update equals a first write");
            }
        }

        #[test]
        fn later_text_around_a_block_is_kept(before in "[a-z\n]{0,20}", after in "[a-z][a-z\n]{0,20}") {
            let with = MARKDOWN.with(&before, "ours").unwrap();
            let later = if with.ends_with('\n') { format!("{with}{after}") } else { format!("{with}\n{after}") };
            let without = MARKDOWN.without(&later).unwrap().unwrap();
            let rest = without.strip_suffix(&after);
            prop_assert_eq!(rest.map(str::trim_end), Some(before.trim_end()), "{:?}", without);
        }
    }

    #[test]
    fn unpaired_marks_are_refused() {
        let (begin, end) = (MARKDOWN.begin, MARKDOWN.end);
        for text in [format!("{begin}\n"), format!("{end}\n{begin}\n"), format!("{begin}\n{end}\n{begin}\n{end}\n")] {
            MARKDOWN.with(&text, "x").unwrap_err();
            MARKDOWN.without(&text).unwrap_err();
        }
        assert_eq!(MARKDOWN.without("nothing of ours").unwrap(), None);
    }
}
