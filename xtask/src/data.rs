//! Reads JSON, and the part of TOML that deny.toml, Cargo.lock and advisories use.

use std::collections::BTreeMap;

use crate::Result;

/// A value of either format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    /// A number, a date, `true`, `false` or `null`, as written.
    Word(String),
    List(Vec<Value>),
    Table(BTreeMap<String, Value>),
}

impl Value {
    /// Returns the value of a key, or an empty table.
    pub(crate) fn get(&self, key: &str) -> &Value {
        static NONE: Value = Value::Table(BTreeMap::new());
        match self {
            Value::Table(table) => table.get(key).unwrap_or(&NONE),
            _ => &NONE,
        }
    }

    /// Returns the text. None if it is another type.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a key, or the empty one.
    pub(crate) fn text_of(&self, key: &str) -> &str {
        self.get(key).text().unwrap_or_default()
    }

    /// Returns the elements of a list; another type has none.
    pub(crate) fn list(&self) -> &[Value] {
        match self {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// Returns the texts in the list of a key.
    pub(crate) fn texts_of(&self, key: &str) -> Vec<&str> {
        self.get(key).list().iter().filter_map(Value::text).collect()
    }
}

pub(crate) fn json(text: &str) -> Result<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value()?;
    reader.skip_space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.error("the end")) }
}

pub(crate) fn toml(text: &str) -> Result<Value> {
    let mut reader = Reader { text, at: 0 };
    let mut root = Value::Table(BTreeMap::new());
    let mut section: Vec<String> = Vec::new();
    loop {
        reader.skip_space();
        if reader.at == text.len() {
            return Ok(root);
        }
        if reader.eat("[[") {
            section = reader.path()?;
            reader.expect("]]")?;
            let Value::List(list) = entry(&mut root, &section, &Value::List(Vec::new()))? else {
                return Err(reader.error("a list"));
            };
            list.push(Value::Table(BTreeMap::new()));
        } else if reader.eat("[") {
            section = reader.path()?;
            reader.expect("]")?;
            entry(&mut root, &section, &Value::Table(BTreeMap::new()))?;
        } else {
            let path = [section.clone(), reader.path()?].concat();
            reader.expect("=")?;
            let value = reader.value()?;
            entry(&mut root, &path, &value)?;
        }
    }
}

/// Returns the value at a path, which is created if it is missing. A list on the way stands for its last element.
fn entry<'a>(root: &'a mut Value, path: &[String], new: &Value) -> Result<&'a mut Value> {
    let mut value = root;
    for (number, key) in path.iter().enumerate() {
        let table = match value {
            Value::List(list) => list.last_mut(),
            other => Some(other),
        };
        let Some(Value::Table(table)) = table else { return Err(format!("{key} is in no table")) };
        let is_last = number + 1 == path.len();
        let missing = || if is_last { new.clone() } else { Value::Table(BTreeMap::new()) };
        value = table.entry(key.clone()).or_insert_with(missing);
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, expected: &str) -> String {
        let line = self.text[..self.at].matches('\n').count() + 1;
        format!("line {line}: {expected} is expected")
    }

    /// Skips spaces, ends of lines and comments.
    fn skip_space(&mut self) {
        loop {
            let trimmed = self.rest().trim_start();
            self.at = self.text.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn eat(&mut self, mark: &str) -> bool {
        self.skip_space();
        let is_there = self.rest().starts_with(mark);
        self.at += if is_there { mark.len() } else { 0 };
        is_there
    }

    fn expect(&mut self, mark: &str) -> Result {
        if self.eat(mark) { Ok(()) } else { Err(self.error(mark)) }
    }

    /// Reads the name of a section or a key, which may have several parts.
    fn path(&mut self) -> Result<Vec<String>> {
        let mut path = vec![self.key()?];
        while self.eat(".") {
            path.push(self.key()?);
        }
        Ok(path)
    }

    fn key(&mut self) -> Result<String> {
        self.skip_space();
        match self.rest().chars().next() {
            Some('"' | '\'') => self.string(),
            _ => self.word("-_"),
        }
    }

    fn word(&mut self, also: &str) -> Result<String> {
        let rest = self.rest();
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && !also.contains(char)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("a word"));
        }
        let word = rest[..end].to_owned();
        self.at += end;
        Ok(word)
    }

    fn value(&mut self) -> Result<Value> {
        self.skip_space();
        match self.rest().chars().next() {
            Some('"' | '\'') => self.string().map(Value::Text),
            Some('[') => {
                self.at += 1;
                let mut list = Vec::new();
                while !self.eat("]") {
                    list.push(self.value()?);
                    if !self.eat(",") {
                        self.expect("]")?;
                        break;
                    }
                }
                Ok(Value::List(list))
            }
            Some('{') => {
                self.at += 1;
                let mut table = BTreeMap::new();
                while !self.eat("}") {
                    let key = self.key()?;
                    if !self.eat(":") {
                        self.expect("=")?;
                    }
                    table.insert(key, self.value()?);
                    if !self.eat(",") {
                        self.expect("}")?;
                        break;
                    }
                }
                Ok(Value::Table(table))
            }
            _ => self.word("-+.:_").map(Value::Word),
        }
    }

    fn string(&mut self) -> Result<String> {
        for quotes in ["\"\"\"", "'''"] {
            if self.eat(quotes) {
                let end = self.rest().find(quotes).ok_or_else(|| self.error(quotes))?;
                let text = self.rest()[..end].to_owned();
                self.at += end + quotes.len();
                return Ok(text);
            }
        }
        let is_literal = self.rest().starts_with('\'');
        let quote = if is_literal { '\'' } else { '"' };
        self.at += 1;
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((offset, char)) = chars.next() {
            match char {
                _ if char == quote => {
                    self.at += offset + 1;
                    return Ok(text);
                }
                '\\' if !is_literal => match chars.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('u') => {
                        let digits: String = chars.by_ref().take(4).map(|(_, digit)| digit).collect();
                        let code = u32::from_str_radix(&digits, 16).unwrap_or(0xfffd);
                        // Halves of a pair do not matter to any reader of this.
                        text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                    }
                    Some(escaped) => text.push(escaped),
                    None => break,
                },
                _ => text.push(char),
            }
        }
        Err(self.error("the end of a text"))
    }
}

/// Writes a text as JSON.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\n' => quoted.push_str("\\n"),
            _ if char.is_control() => quoted.extend(format!("\\u{:04x}", u32::from(char)).chars()),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_with_escapes_and_nesting() {
        let value = json(r#"{"a": [1, "x\"\u00e4\n", {"b": null}], "c": {}, "d": []}"#).unwrap();
        assert_eq!(value.get("a").list()[1].text(), Some("x\"ä\n"));
        assert_eq!(value.get("a").list()[2].get("b"), &Value::Word("null".to_owned()));
        assert_eq!(json(&quote("a\"\\\n\u{1}ü")).unwrap().text(), Some("a\"\\\n\u{1}ü"));
        for wrong in ["", "[1", "{\"a\" 1}", "\"a", "[] x"] {
            json(wrong).unwrap_err();
        }
    }

    #[test]
    fn toml_is_read_with_sections_lists_and_comments() {
        let text = "# first\ntop = 1\n[a.b]\nc = [ # inside\n  \"x\", 'y',\n]\nd.e = { f = \"g\", h = true }\n\
            [[p]]\nname = \"one\"\n[[p]]\nname = \"two\"\ndate = 2026-01-02\nlong = \"\"\"\nmany\nlines\"\"\"\n";
        let value = toml(text).unwrap();
        assert_eq!(value.get("a").get("b").texts_of("c"), ["x", "y"]);
        assert_eq!(value.get("a").get("b").get("d").get("e").text_of("f"), "g");
        let names: Vec<&str> = value.get("p").list().iter().map(|one| one.text_of("name")).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(value.get("p").list()[1].get("date"), &Value::Word("2026-01-02".to_owned()));
        toml("x 1").unwrap_err();
    }
}
