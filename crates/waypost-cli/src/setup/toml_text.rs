//! Edits a TOML text and preserves every other byte.
//!
//! A library parses the text and gives every key and value its range; the edits insert and cut ranges. The library's own
//! edits would change line endings. A table may be written in any of TOML's ways: under a header, inline, or with dotted
//! keys. The parser checks the result of each edit.

use std::ops::Range;

use toml_edit::{Document, Item, TableLike};
use waypost_core::{Error, Result};

use super::block::Marks;

/// A TOML text.
pub(super) struct TomlText<'a> {
    text: &'a str,
    document: Document<&'a str>,
    line: &'static str,
}

impl<'a> TomlText<'a> {
    /// Parses a text.
    pub(super) fn read(text: &'a str) -> Result<TomlText<'a>> {
        let document = Document::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let before = text.get(..at).unwrap_or_default();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let place = format!("on line {} column {column}", before.matches('\n').count() + 1);
            Error::invalid("not valid TOML").because(format!("{} {place}", error.message().replace('\n', ", ")))
        })?;
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Ok(TomlText { text, document, line })
    }

    /// Returns a table of the top level. None if it does not exist.
    pub(super) fn table(&self, name: &str) -> Result<Option<&dyn TableLike>> {
        let Some(item) = self.document.get(name) else { return Ok(None) };
        item.as_table_like().map(Some).ok_or_else(|| unexpected(name, "a table"))
    }

    /// Returns an entry of a table.
    pub(super) fn entry(&self, table: &str, key: &str) -> Result<Option<&Item>> {
        Ok(self.table(table)?.and_then(|table| table.get(key)))
    }

    /// Returns the strings of a list in a table. None if there is no list.
    pub(super) fn strings(&self, table: &str, key: &str) -> Result<Option<Vec<&str>>> {
        let Some(item) = self.entry(table, key)? else { return Ok(None) };
        let list = item.as_array().ok_or_else(|| unexpected(&format!("{table}.{key}"), "a list"))?;
        Ok(Some(list.iter().filter_map(toml_edit::Value::as_str).collect()))
    }

    /// Returns the text with a new entry of a table. `value` is TOML that fits on one line; `section` has the same entry
    /// under a header, and becomes a block between the marks if the table has no other form that excludes it.
    pub(super) fn with_entry(
        &self,
        table: &str,
        key: &str,
        value: &str,
        (marks, section): (Marks, &str),
    ) -> Result<String> {
        let with = match self.document.get(table) {
            Some(Item::Value(toml_edit::Value::InlineTable(inline))) => {
                let values = inline.iter().filter_map(|(_, value)| value.span()).max_by_key(|span| span.end);
                let span = inline.span().unwrap_or_default();
                self.insert_into_brackets(&span, values.as_ref(), &format!("{key} = {value}"), true)
            }
            Some(Item::Table(found)) if found.is_dotted() => {
                let last = ranges_of(self.document.get(table)).into_iter().map(|range| range.end).max();
                self.insert_line(self.end_of_line(last.unwrap_or_default()), &format!("{table}.{key} = {value}"))
            }
            // A header that is there already cannot be repeated.
            Some(Item::Table(found)) if !found.is_implicit() && !section.contains(&format!("[{table}.")) => {
                let header = found.span().unwrap_or_default();
                self.insert_line(self.end_of_line(header.end), &format!("{key} = {value}"))
            }
            Some(Item::Table(_)) | None => marks.with(self.text, section)?,
            Some(_) => return Err(unexpected(table, "a table")),
        };
        TomlText::read(&with)?;
        Ok(with)
    }

    /// Returns the text without an entry of a table. None if there is none. The table goes with its last entry if it has
    /// a header or dotted keys.
    pub(super) fn without_entry(&self, table: &str, key: &str) -> Result<Option<String>> {
        let Some(entry) = self.entry(table, key)? else { return Ok(None) };
        let without = match self.document.get(table) {
            Some(Item::Value(toml_edit::Value::InlineTable(inline))) => {
                let mut spans = Vec::new();
                for (name, value) in inline {
                    let start = inline.key(name).and_then(toml_edit::Key::span).map(|span| span.start);
                    let span = value.span().unwrap_or_default();
                    spans.push((name == key, start.unwrap_or(span.start)..span.end));
                }
                spans.sort_by_key(|(_, span)| span.start);
                let Some(at) = spans.iter().position(|(is_ours, _)| *is_ours) else { return Ok(None) };
                let spans: Vec<Range<usize>> = spans.into_iter().map(|(_, span)| span).collect();
                self.cut_part(&inline.span().unwrap_or_default(), &spans, at)
            }
            Some(found) => {
                let is_only = found.as_table_like().is_some_and(|found| found.len() == 1);
                let has_header = found.as_table().is_some_and(|found| !found.is_dotted() && !found.is_implicit());
                self.cut_lines(&ranges_of(Some(if is_only && has_header { found } else { entry })))
            }
            None => return Ok(None),
        };
        TomlText::read(&without)?;
        Ok(Some(without))
    }

    /// Returns the text with a string at the end of an existing list. None if there is no list.
    pub(super) fn with_string(&self, table: &str, key: &str, string: &str) -> Result<Option<String>> {
        let Some(list) = self.entry(table, key)?.and_then(Item::as_array) else { return Ok(None) };
        let span = list.span().unwrap_or_default();
        let end = list.iter().filter_map(toml_edit::Value::span).max_by_key(|span| span.end);
        let with = self.insert_into_brackets(&span, end.as_ref(), &quoted(string), false);
        TomlText::read(&with)?;
        Ok(Some(with))
    }

    /// Returns the text without a string of a list. None if the list does not have it.
    pub(super) fn without_string(&self, table: &str, key: &str, string: &str) -> Result<Option<String>> {
        let Some(list) = self.entry(table, key)?.and_then(Item::as_array) else { return Ok(None) };
        let Some(at) = list.iter().position(|item| item.as_str() == Some(string)) else { return Ok(None) };
        if list.len() == 1 {
            return self.without_entry(table, key);
        }
        let spans: Vec<Range<usize>> = list.iter().filter_map(toml_edit::Value::span).collect();
        let without = self.cut_part(&list.span().unwrap_or_default(), &spans, at);
        TomlText::read(&without)?;
        Ok(Some(without))
    }

    /// Inserts a part after the last one between brackets. A list with a line for each part gets another line.
    fn insert_into_brackets(
        &self,
        brackets: &Range<usize>,
        last: Option<&Range<usize>>,
        part: &str,
        has_spaces: bool,
    ) -> String {
        let Some(last) = last else {
            let part = if has_spaces { format!(" {part} ") } else { part.to_owned() };
            let (start, end) = (brackets.start + 1, brackets.end.saturating_sub(1));
            return [&self.text[..start], &part, &self.text[end..]].concat();
        };
        let line_start = self.start_of_line(last.start);
        let before = &self.text[line_start..last.start];
        let gap = if before.trim().is_empty() && line_start > brackets.start {
            format!(",{}{before}", self.line)
        } else {
            ", ".to_owned()
        };
        [&self.text[..last.end], &gap, part, &self.text[last.end..]].concat()
    }

    /// Cuts one of several parts between brackets, with one comma.
    fn cut_part(&self, brackets: &Range<usize>, parts: &[Range<usize>], at: usize) -> String {
        let cut = if at > 0 {
            parts[at - 1].end..parts[at].end
        } else if let Some(next) = parts.get(1) {
            parts[0].start..next.start
        } else {
            brackets.start + 1..brackets.end.saturating_sub(1)
        };
        [&self.text[..cut.start], &self.text[cut.end..]].concat()
    }

    /// Inserts a line at the end of another one.
    fn insert_line(&self, at: usize, line: &str) -> String {
        if self.text[..at].ends_with('\n') {
            [&self.text[..at], line, self.line, &self.text[at..]].concat()
        } else {
            [&self.text[..at], self.line, line, &self.text[at..]].concat()
        }
    }

    /// Cuts the lines in which the ranges are.
    fn cut_lines(&self, ranges: &[Range<usize>]) -> String {
        let mut lines: Vec<Range<usize>> =
            ranges.iter().map(|range| self.start_of_line(range.start)..self.end_of_line(range.end)).collect();
        lines.sort_by_key(|range| range.start);
        let mut rest = String::new();
        let mut at = 0;
        for range in lines {
            rest.push_str(&self.text[at..range.start.max(at)]);
            at = range.end.max(at);
        }
        rest.push_str(&self.text[at..]);
        let ends_without_line = !self.text.ends_with('\n') && rest.ends_with('\n') && at == self.text.len();
        if ends_without_line {
            rest.truncate(rest.trim_end_matches(['\r', '\n']).len());
        }
        rest
    }

    fn start_of_line(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// Returns the position after the newline that ends a line.
    fn end_of_line(&self, at: usize) -> usize {
        // A range may include the newline.
        if at > 0 && self.text[..at].ends_with('\n') {
            return at;
        }
        self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline + 1)
    }
}

/// Returns a string as TOML.
pub(super) fn quoted(string: &str) -> String {
    toml_edit::Value::from(string).to_string()
}

/// Returns the ranges of an item: headers, keys and values.
fn ranges_of(item: Option<&Item>) -> Vec<Range<usize>> {
    let Some(item) = item else { return Vec::new() };
    let Some(table) = item.as_table() else { return item.span().into_iter().collect() };
    let header = table.span().filter(|_| !table.is_dotted() && !table.is_implicit());
    header.into_iter().chain(table.iter().flat_map(|(_, child)| ranges_of(Some(child)))).collect()
}

fn unexpected(name: &str, expected: &str) -> Error {
    Error::invalid(format!("{name} is not {expected}"))
}

#[cfg(test)]
mod tests {
    use super::super::block::TOML;
    use super::*;

    const SECTION: &str = "[servers.ours]\ncommand = \"way\"";

    fn with(text: &str) -> String {
        let with = TomlText::read(text).unwrap();
        with.with_entry("servers", "ours", "{ command = \"way\" }", (TOML, SECTION)).unwrap()
    }

    fn without(text: &str) -> String {
        match TOML.without(text).unwrap() {
            Some(rest) => rest,
            None => TomlText::read(text).unwrap().without_entry("servers", "ours").unwrap().unwrap(),
        }
    }

    fn command(text: &str) -> String {
        let text = TomlText::read(text).unwrap();
        let entry = text.entry("servers", "ours").unwrap().unwrap();
        entry.get("command").unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn an_entry_is_added_in_the_form_of_its_table_and_removal_restores_the_text() {
        for text in [
            "",
            "a = 1\n",
            "a = 1",
            "servers = { other = { command = \"x\" } } # mine\n",
            "servers = { other = { command = \"x\" } }\r\nb = 1\r\n",
            "servers = {other={command=\"x\"}}",
            "servers.other = { command = \"x\" } # mine\n\nb = 1\n\n[t]\nc = 1\n",
            "servers.other.command = \"x\"\r\nservers.other.args = [\r\n  1,\r\n]\r\nb = 1\r\n",
            "servers.other.command = \"x\"",
            "[servers]\nother = { command = \"x\" }\n",
            "[servers.other]\ncommand = \"x\"\n\n[t]\nb = 1",
        ] {
            let after = with(text);
            assert_eq!(command(&after), "way", "{after}");
            assert_eq!(without(&after), text, "{after}");
        }
    }

    #[test]
    fn an_entry_that_the_user_wrote_can_be_removed() {
        for (before, after) in [
            ("[servers.ours]\ncommand = \"x\"\n\n[t]\nb = 1\n", "\n[t]\nb = 1\n"),
            ("[servers.ours]\ncommand = \"x\"\n[servers.ours.env]\nA = \"1\"\n# t\n[t]\n", "# t\n[t]\n"),
            ("servers = { ours = { command = \"x\" }, b = 1 }\n", "servers = { b = 1 }\n"),
            ("servers = { ours = { command = \"x\" } }\n", "servers = {}\n"),
            ("servers.ours.command = \"x\"\nservers.ours.args = [\n  1,\n]\nb = 1\n", "b = 1\n"),
            ("[servers]\nours = { command = \"x\" }\n[t]\n", "[t]\n"),
            ("[servers]\nb = 1\nours = { command = \"x\" }\n[t]\n", "[servers]\nb = 1\n[t]\n"),
        ] {
            assert_eq!(without(before), after);
        }
    }

    #[test]
    fn a_string_is_added_to_a_list_and_removal_restores_the_text() {
        for text in [
            "[t]\nlist = [\"a\"]\n",
            "[t]\nlist = [ \"a\", \"b\" ] # mine\n",
            "[t]\nlist = [\n  \"a\",\n  \"b\", # b\n]\n",
            "[t]\r\nlist = [\r\n\t\"a\"\r\n]\r\n",
            "t = { list = [\"a\"] }\n",
            "t.list = [\"a\"]\n",
        ] {
            let read = TomlText::read(text).unwrap();
            let with = read.with_string("t", "list", "/a b/\"c\"").unwrap().unwrap();
            let read = TomlText::read(&with).unwrap();
            assert_eq!(read.strings("t", "list").unwrap().unwrap().last(), Some(&"/a b/\"c\""), "{with}");
            assert_eq!(read.without_string("t", "list", "/a b/\"c\"").unwrap().as_deref(), Some(text));
            assert_eq!(read.without_string("t", "list", "/other").unwrap(), None);
        }
        let empty = TomlText::read("[t]\nlist = []\n").unwrap().with_string("t", "list", "a").unwrap().unwrap();
        assert_eq!(empty, "[t]\nlist = [\"a\"]\n");
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = TomlText::read("a = 1\nb = \n").err().unwrap().full_message();
        assert!(error.contains("line 2 column"), "{error}");
        for text in ["t = 1\n", "t = [1]\n", "[[t]]\na = 1\n"] {
            let text = TomlText::read(text).unwrap();
            text.with_entry("t", "a", "1", (TOML, "[t]\na = 1")).unwrap_err();
        }
    }
}
