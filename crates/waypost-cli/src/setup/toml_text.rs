//! Edits a TOML text. Comments, order, formatting and line endings stay.
//!
//! A table may be written in any of TOML's ways: under a header, inline, or with dotted keys.

use toml_edit::{DocumentMut, Item, TableLike, Value};
use waypost_core::{Error, Result};

use super::block::Marks;

/// A TOML text.
pub(super) struct TomlText<'a> {
    text: &'a str,
    document: DocumentMut,
}

impl<'a> TomlText<'a> {
    /// Parses a text.
    pub(super) fn read(text: &'a str) -> Result<TomlText<'a>> {
        let document = text.parse().map_err(|error: toml_edit::TomlError| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let before = text.get(..at).unwrap_or_default();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let place = format!("on line {} column {column}", before.matches('\n').count() + 1);
            Error::invalid("not valid TOML").because(format!("{} {place}", error.message().replace('\n', ", ")))
        })?;
        Ok(TomlText { text, document })
    }

    /// Returns an entry of a table.
    pub(super) fn entry(&self, table: &str, key: &str) -> Result<Option<&Item>> {
        let Some(item) = self.document.get(table) else { return Ok(None) };
        let found = item.as_table_like().ok_or_else(|| unexpected(table, "a table"))?;
        Ok(found.get(key))
    }

    /// Returns the strings of a list in a table. None if there is no list.
    pub(super) fn strings(&self, table: &str, key: &str) -> Result<Option<Vec<&str>>> {
        let Some(item) = self.entry(table, key)? else { return Ok(None) };
        let list = item.as_array().ok_or_else(|| unexpected(&format!("{table}.{key}"), "a list"))?;
        Ok(Some(list.iter().filter_map(Value::as_str).collect()))
    }

    /// Returns the text with a new entry of a table. `section` has the same entry under a header, and becomes a block
    /// between the marks if the table has no other form that excludes it.
    pub(super) fn with_entry(
        mut self,
        table: &str,
        key: &str,
        value: impl Into<Value>,
        (marks, section): (Marks, &str),
    ) -> Result<String> {
        let found = match self.document.get_mut(table) {
            None => return marks.with(self.text, section),
            Some(Item::Table(found))
                if !found.is_dotted() && (found.is_implicit() || section.contains(&format!("[{table}."))) =>
            {
                return marks.with(self.text, section);
            }
            // A header that is there already cannot be repeated.
            Some(found) => found.as_table_like_mut().ok_or_else(|| unexpected(table, "a table"))?,
        };
        found.insert(key, Item::Value(value.into()));
        Ok(self.into_text())
    }

    /// Returns the text without an entry of a table. None if there is none. The table goes with its last entry if it has
    /// a header or dotted keys.
    pub(super) fn without_entry(mut self, table: &str, key: &str) -> Result<Option<String>> {
        if self.entry(table, key)?.is_none() {
            return Ok(None);
        }
        let Some(found) = self.document.get_mut(table) else { return Ok(None) };
        if let Some(entries) = found.as_table_like_mut() {
            entries.remove(key);
        }
        if found.as_table().is_some_and(TableLike::is_empty) {
            self.document.remove(table);
        }
        Ok(Some(self.into_text()))
    }

    /// Returns the text with a string at the end of an existing list. None if there is no list.
    pub(super) fn with_string(mut self, table: &str, key: &str, string: &str) -> Result<Option<String>> {
        self.entry(table, key)?;
        let Some(list) = self.document.get_mut(table).and_then(|found| found.get_mut(key)?.as_array_mut()) else {
            return Ok(None);
        };
        let mut value = Value::from(string);
        if let Some(last) = list.iter_mut().last() {
            // It is written as its neighbour is, on a line of its own or not.
            *value.decor_mut() = last.decor().clone();
            last.decor_mut().set_suffix("");
            if value.decor().prefix().and_then(|prefix| prefix.as_str()) == Some("") {
                value.decor_mut().set_prefix(" ");
            }
        }
        list.push_formatted(value);
        Ok(Some(self.into_text()))
    }

    /// Returns the text without a string of a list. None if the list does not have it.
    pub(super) fn without_string(mut self, table: &str, key: &str, string: &str) -> Result<Option<String>> {
        let found = self.strings(table, key)?.unwrap_or_default();
        let Some(at) = found.iter().position(|known| *known == string) else { return Ok(None) };
        if found.len() == 1 {
            return self.without_entry(table, key);
        }
        let Some(list) = self.document.get_mut(table).and_then(|found| found.get_mut(key)?.as_array_mut()) else {
            return Ok(None);
        };
        let decor = list.remove(at).decor().clone();
        if let Some(suffix) = decor.suffix().filter(|_| at == list.len())
            && let Some(last) = list.iter_mut().last()
        {
            last.decor_mut().set_suffix(suffix.clone());
        }
        if let Some(prefix) = decor.prefix().filter(|_| at == 0)
            && let Some(first) = list.iter_mut().next()
        {
            first.decor_mut().set_prefix(prefix.clone());
        }
        Ok(Some(self.into_text()))
    }

    /// Returns the text of the document, with the line endings of the text that was read.
    fn into_text(self) -> String {
        let mut text = self.document.to_string();
        if !self.text.ends_with('\n') && text.ends_with('\n') {
            text.pop();
        }
        if self.text.contains("\r\n") { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text }
    }
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
        let ours = toml_edit::InlineTable::from_iter([("command", "way")]);
        with.with_entry("servers", "ours", ours, (TOML, SECTION)).unwrap()
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
            assert_eq!(TomlText::read(&with).unwrap().without_string("t", "list", "/other").unwrap(), None);
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
            text.with_entry("t", "a", 1, (TOML, "[t]\na = 1")).unwrap_err();
        }
    }
}
