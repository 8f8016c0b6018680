//! Reads the front matter of a Markdown file: keys with strings and lists of strings.
//!
//! People write front matter by hand, and not always as valid YAML. So each value is read by itself, and what is not a
//! string or a list of strings is returned as its source text.

use serde_json::Value as Yaml;
use waypost_core::yaml::read_texts;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
}

/// Parsed front matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Front {
    /// Keys and values, in order.
    pub(super) fields: Vec<(String, Value)>,
    /// Lines that could not be parsed.
    pub(super) unreadable: Vec<String>,
}

impl Front {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Returns a string, or the first item of a list.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Value::Text(text) => Some(text.clone()),
            Value::List(list) => list.first().cloned(),
        }
    }

    /// Returns a list; a string is split at its commas.
    pub(super) fn list(&self, key: &str) -> Vec<String> {
        match self.get(key) {
            None => Vec::new(),
            Some(Value::List(list)) => list.clone(),
            Some(Value::Text(text)) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        }
    }
}

/// Splits a file into its front matter and the rest. None if there is no front matter, or it is not closed.
pub(super) fn split(text: &str) -> Option<(Front, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut lines = Vec::new();
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        let bare = line.trim_end();
        if bare == "---" || bare == "..." {
            return Some((read(&lines), &rest[at..]));
        }
        lines.push(bare);
    }
    None
}

fn read(lines: &[&str]) -> Front {
    let mut front = Front::default();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let key = line.split_once(':').filter(|(key, rest)| {
            !key.is_empty() && !key.starts_with([' ', '\t', '-']) && (rest.is_empty() || rest.starts_with([' ', '\t']))
        });
        let Some((key, rest)) = key else {
            front.unreadable.push(line.to_owned());
            continue;
        };
        let rest = rest.trim();
        let is_open = rest.is_empty() || rest.starts_with('#');
        let belongs = |line: &&&str| {
            is_blank_or_indented(line) || (is_open && is_item(line)) || (rest.starts_with('[') && line.starts_with(']'))
        };
        let end = at + lines[at..].iter().take_while(belongs).count();
        front.fields.push((text(key.trim(), &[]), value(rest, &lines[at..end])));
        at = end;
    }
    front
}

/// Reads the value of a key: the rest of its line, and the lines after it.
fn value(first: &str, lines: &[&str]) -> Value {
    if first.starts_with('[') {
        return Value::List(bracketed_list(&source(first, lines)));
    }
    let is_open = first.is_empty() || first.starts_with('#');
    if is_open && lines.iter().find(|line| !line.trim().is_empty()).is_some_and(|line| is_item(line)) {
        return Value::List(block_list(lines));
    }
    Value::Text(text(first, lines))
}

fn block_list(mut lines: &[&str]) -> Vec<String> {
    let mut list = Vec::new();
    while let Some((first, rest)) = lines.split_first() {
        let end = rest.iter().take_while(|line| !is_item(line)).count();
        if is_item(first) {
            list.push(text(first.trim_start()[1..].trim(), &rest[..end]));
        }
        lines = &rest[end..];
    }
    list
}

fn bracketed_list(list: &str) -> Vec<String> {
    // A list that is never closed ends with its last line.
    let read = read_texts(list).or_else(|_| read_texts(&format!("{list}]")));
    let items: Option<Vec<String>> = match read {
        Ok(Yaml::Array(items)) => items.into_iter().map(string).collect(),
        _ => None,
    };
    let items = items.unwrap_or_else(|| {
        let inner = list.rsplit_once(']').map_or(list, |(inner, _)| inner).trim_start().trim_start_matches('[');
        inner.split(',').map(|item| text(item.trim(), &[])).collect()
    });
    items.into_iter().filter(|item| !item.is_empty()).collect()
}

/// Reads a string that may continue in further lines.
fn text(first: &str, lines: &[&str]) -> String {
    match read_texts(&source(first, lines)).ok().and_then(string) {
        Some(text) => text.trim_end().to_owned(),
        None if first.is_empty() => dedented(lines).join("\n").trim().to_owned(),
        None => {
            let words: Vec<&str> = std::iter::once(&first).chain(lines).map(|line| line.trim()).collect();
            let words = words.join(" ");
            words.split_once(" #").map_or(words.as_str(), |(words, _)| words).trim_end().to_owned()
        }
    }
}

/// Returns the text of a scalar. None for lists and objects.
fn string(value: Yaml) -> Option<String> {
    match value {
        Yaml::Null => Some(String::new()),
        Yaml::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the lines of a value as a document. Indented, so that none of them begins or ends a document.
fn source(first: &str, lines: &[&str]) -> String {
    std::iter::once(format!(" {first}")).chain(lines.iter().map(|line| format!("\n {line}"))).collect()
}

fn is_blank_or_indented(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with([' ', '\t'])
}

fn is_item(line: &str) -> bool {
    let bare = line.trim_start();
    bare == "-" || bare.starts_with("- ")
}

fn dedented<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let indent = |line: &&str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let by = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(by..).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, expected: &[(&str, &[&str])]) {
        let (front, rest) =
            split(&format!("---\n{yaml}\n---\nrest")).map(|(front, rest)| (front, rest.to_owned())).unwrap();
        assert_eq!(rest, "rest");
        let shown: Vec<(&str, Vec<&str>)> = front
            .fields
            .iter()
            .map(|(key, value)| {
                let value = match value {
                    Value::Text(text) => vec![text.as_str()],
                    Value::List(list) => list.iter().map(String::as_str).collect(),
                };
                (key.as_str(), value)
            })
            .collect();
        let expected: Vec<(&str, Vec<&str>)> = expected.iter().map(|(key, value)| (*key, value.to_vec())).collect();
        assert_eq!(shown, expected, "{yaml}");
    }

    #[test]
    fn strings_are_read_in_every_yaml_style() {
        check("a: plain text # why", &[("a", &["plain text"])]);
        check(
            "a: 'it''s: # no comment'\nb: \"x\\n\\u00e9\\\"\"",
            &[("a", &["it's: # no comment"]), ("b", &["x\né\""])],
        );
        check(
            "a: >-\n  one\n  two\n\n  three\nb: |\n    keep\n      this\n",
            &[("a", &["one two\nthree"]), ("b", &["keep\n  this"])],
        );
        check("a: one\n  two\nb:\nc: ~", &[("a", &["one two"]), ("b", &[""]), ("c", &[""])]);
        check("\"a\": http://x.y/#z", &[("a", &["http://x.y/#z"])]);
    }

    #[test]
    fn lists_are_read_in_every_yaml_style() {
        check("a: []\nb: [x, 'y, z', \"w\"]", &[("a", &[]), ("b", &["x", "y, z", "w"])]);
        check("a:\n  - x\n  - 'y'\nb:\n- z\n- it's\nc: 1", &[("a", &["x", "y"]), ("b", &["z", "it's"]), ("c", &["1"])]);
        check("a: [x,\n  y\n]\nb: 2", &[("a", &["x", "y"]), ("b", &["2"])]);
        check(
            "a:\n  - >-\n    one\n    two\n  - three\n    four\nb: x",
            &[("a", &["one two", "three four"]), ("b", &["x"])],
        );
        check("a: [don't, x", &[("a", &["don't", "x"])]);
    }

    #[test]
    fn values_that_are_not_yaml_are_texts() {
        check(
            "a: Fix: the thing # why\nb: @ann\nc: 'it's'",
            &[("a", &["Fix: the thing"]), ("b", &["@ann"]), ("c", &["'it's'"])],
        );
        check("a: [@ann, \"b\"] # c\nb: [@ann,\n  c", &[("a", &["@ann", "b"]), ("b", &["@ann", "c"])]);
        check(
            "a:\n- Fix: it\n- `code` here\n- [ ] x\n- *bold*",
            &[("a", &["Fix: it", "`code` here", "[ ] x", "*bold*"])],
        );
        check(
            "a: ---\nb: ... more\nc: %x\nd: 1.10\ne: !x y",
            &[("a", &["---"]), ("b", &["... more"]), ("c", &["%x"]), ("d", &["1.10"]), ("e", &["!x y"])],
        );
        check("a: x\n\ty\nb: \"c", &[("a", &["x y"]), ("b", &["\"c"])]);
    }

    #[test]
    fn nested_or_unreadable_lines_do_not_hide_the_rest() {
        check("a:\n  b: 1\n  c: 2\nd: 3", &[("a", &["b: 1\nc: 2"]), ("d", &["3"])]);
        let (front, _) = split("---\nodd line\n- item\na: 1\n---\n").unwrap();
        assert_eq!((front.unreadable.len(), front.fields.len()), (2, 1));
        for none in ["", "---", "--- x\n---\n", "a: 1\n", "---\na: 1\n"] {
            assert_eq!(split(none), None, "{none:?}");
        }
    }
}
