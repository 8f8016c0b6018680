//! Reads the simple YAML at the beginning of a Markdown file: keys with strings and lists of strings.
//!
//! A lenient, hand-written parser. Values nested deeper are returned as their source text.

/// A list in brackets with more lines counts as never closed.
const MAX_LIST_LINES: usize = 1_000;

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
        let (value, next) = value(rest.trim(), lines, at);
        at = next;
        front.fields.push((scalar(key.trim()), value));
    }
    front
}

/// Parses the value of a key. Returns it and the number of the line after it.
fn value(rest: &str, lines: &[&str], at: usize) -> (Value, usize) {
    if rest.starts_with('[') {
        let mut list = rest.to_owned();
        let mut next = at;
        let belongs = |next: usize| lines.get(next).is_some_and(|line| indent(line) > 0 || line.starts_with(']'));
        while !is_closed(&list) && belongs(next) && next < at + MAX_LIST_LINES {
            list.push(' ');
            list.push_str(lines[next].trim());
            next += 1;
        }
        return (Value::List(items(&list)), next);
    }
    if rest.is_empty() || rest.starts_with('#') {
        let first = (at..lines.len()).find(|line| !lines[*line].trim().is_empty());
        if first.is_some_and(|first| is_item(lines[first])) {
            return block_list(lines, at);
        }
        let end = block_end(lines, at, 0);
        let text: Vec<&str> = lines[at..end].iter().map(|line| line.trim_end()).collect();
        return (Value::Text(dedented(&text).join("\n").trim().to_owned()), end);
    }
    let (text, next) = text(rest, lines, at, 0);
    (Value::Text(text), next)
}

fn block_list(lines: &[&str], mut at: usize) -> (Value, usize) {
    let mut list = Vec::new();
    while at < lines.len() {
        if lines[at].trim().is_empty() {
            at += 1;
            continue;
        }
        if !is_item(lines[at]) {
            break;
        }
        let inner = lines[at].trim_start()[1..].trim();
        let (item, next) = text(inner, lines, at + 1, indent(lines[at]) + 1);
        list.push(item);
        at = next;
    }
    (Value::List(list), at)
}

/// Parses a string that may continue in indented lines.
fn text(first: &str, lines: &[&str], at: usize, inside: usize) -> (String, usize) {
    let end = block_end(lines, at, inside);
    let rest = &lines[at..end];
    match first.chars().next() {
        Some('|') => (dedented(rest).join("\n").trim_end().to_owned(), end),
        Some('>') => (folded(&dedented(rest)), end),
        _ => {
            let whole: Vec<&str> = std::iter::once(first).chain(rest.iter().map(|line| line.trim())).collect();
            (scalar(&folded(&whole)), end)
        }
    }
}

/// Returns the first line after a block, whose lines are indented by at least `inside`.
fn block_end(lines: &[&str], at: usize, inside: usize) -> usize {
    let belongs = |line: &&&str| line.trim().is_empty() || indent(line) >= inside.max(1);
    at + lines[at..].iter().take_while(belongs).count()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

fn is_item(line: &str) -> bool {
    let bare = line.trim_start();
    bare == "-" || bare.starts_with("- ")
}

fn dedented<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let by = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(by..).unwrap_or_default()).collect()
}

/// Joins lines with spaces; an empty line becomes a line break.
fn folded(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines.iter().map(|line| line.trim()) {
        if line.is_empty() {
            text.push('\n');
        } else {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(line);
        }
    }
    text.trim().to_owned()
}

/// Returns the content of a plain or quoted string.
fn scalar(text: &str) -> String {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix('\'') {
        let mut content = String::new();
        let mut chars = quoted.chars().peekable();
        while let Some(char) = chars.next() {
            if char != '\'' {
                content.push(char);
            } else if chars.next_if_eq(&'\'').is_some() {
                content.push('\'');
            } else {
                break;
            }
        }
        return content;
    }
    if let Some(quoted) = text.strip_prefix('"') {
        return double_quoted(quoted);
    }
    let plain = text.split_once(" #").map_or(text, |(plain, _)| plain).trim_end();
    if plain == "null" || plain == "~" { String::new() } else { plain.to_owned() }
}

fn double_quoted(quoted: &str) -> String {
    let mut content = String::new();
    let mut chars = quoted.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => content.push('\n'),
                Some('t') => content.push('\t'),
                Some(code @ ('x' | 'u' | 'U')) => {
                    let digits = match code {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let number: String = chars.by_ref().take(digits).collect();
                    content.extend(u32::from_str_radix(&number, 16).ok().and_then(char::from_u32));
                }
                Some(other) => content.push(other),
                None => break,
            },
            other => content.push(other),
        }
    }
    content
}

/// Calls `each` for every character of a list in brackets, with whether it is quoted.
fn scan(list: &str, mut each: impl FnMut(usize, char, bool)) {
    let mut quote = None;
    let mut is_first = true;
    for (at, char) in list.char_indices().skip(1) {
        if let Some(open) = quote {
            each(at, char, true);
            if char == open {
                quote = None;
            }
            continue;
        }
        // A quote inside a plain string is an apostrophe.
        if is_first && matches!(char, '\'' | '"') {
            quote = Some(char);
        }
        each(at, char, quote.is_some());
        is_first = char == ',' || (is_first && char.is_whitespace());
    }
}

fn is_closed(list: &str) -> bool {
    let mut is_closed = false;
    scan(list, |_, char, is_quoted| is_closed |= !is_quoted && char == ']');
    is_closed
}

fn items(list: &str) -> Vec<String> {
    let mut items = Vec::new();
    let (mut start, mut is_over) = (1, false);
    scan(list, |at, char, is_quoted| {
        if !is_quoted && !is_over && (char == ',' || char == ']') {
            items.push(list[start..at].trim().to_owned());
            start = at + 1;
            is_over = char == ']';
        }
    });
    if !is_over {
        items.push(list[start.min(list.len())..].trim().to_owned());
    }
    items.into_iter().filter(|item| !item.is_empty()).map(|item| scalar(&item)).collect()
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
    fn nested_or_unreadable_lines_do_not_hide_the_rest() {
        check("a:\n  b: 1\n  c: 2\nd: 3", &[("a", &["b: 1\nc: 2"]), ("d", &["3"])]);
        let (front, _) = split("---\nodd line\n- item\na: 1\n---\n").unwrap();
        assert_eq!((front.unreadable.len(), front.fields.len()), (2, 1));
        for none in ["", "---", "--- x\n---\n", "a: 1\n", "---\na: 1\n"] {
            assert_eq!(split(none), None, "{none:?}");
        }
    }
}
