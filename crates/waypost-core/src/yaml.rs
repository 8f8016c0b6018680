//! Reads the subset of YAML that JSON can express, with limits on depth and size.
//!
//! The parser emits events, so every value is counted before it is built. References to anchors are copies, and copies
//! count: a few lines that expand to billions of values are refused.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Number, Value};

use crate::{Error, Result};

/// Maximum nesting depth. Plans are flat, so deeper documents are not written by hand.
const MAX_DEPTH: usize = 64;
/// Maximum size of a document: bytes of text plus [`VALUE_BYTES`] per value, including copies.
const MAX_EXPANDED_BYTES: usize = 32 * 1024 * 1024;
/// Size of a value in addition to its text.
const VALUE_BYTES: usize = 64;

/// Reads one YAML document.
pub fn read(text: &str) -> Result<Value> {
    build(text, Builder::default())
}

/// Reads one YAML document whose scalars stay as they are written: `1.10` is a text, and only null is none.
pub fn read_texts(text: &str) -> Result<Value> {
    build(text, Builder { keeps_texts: true, ..Builder::default() })
}

fn build(text: &str, mut builder: Builder) -> Result<Value> {
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| malformed(&error))?;
        builder.handle(event).map_err(|error| at(error, &span.start))?;
    }
    Ok(builder.document.unwrap_or(Value::Null))
}

fn malformed(error: &ScanError) -> Error {
    at(Error::invalid("this is not YAML").because(error.info()), error.marker())
}

fn at(error: Error, marker: &Marker) -> Error {
    error.within(format!("line {}", marker.line()))
}

#[derive(Default)]
struct Builder {
    document: Option<Value>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Value, usize)>,
    size: usize,
    keeps_texts: bool,
}

/// A list or an object that is not complete.
struct Open {
    anchor: usize,
    /// The size of the document before it.
    size_before: usize,
    items: Items,
}

enum Items {
    List(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

impl Builder {
    fn handle(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::DocumentStart(_) if self.document.is_some() => {
                Err(Error::invalid("a second document begins, but only one is allowed"))
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, Items::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(anchor, Items::Object(Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Scalar(text, style, anchor, tag) => {
                let size_before = self.size;
                self.count(text.len() + VALUE_BYTES)?;
                // A key is always a text, even if it looks like a number.
                let value = match scalar(&text, style, tag.as_deref()) {
                    _ if self.expects_key() => Value::String(text.into_owned()),
                    Ok(value) if self.keeps_texts && !value.is_null() => Value::String(text.into_owned()),
                    value => value?,
                };
                self.complete(anchor, size_before, value)
            }
            Event::Alias(anchor) => {
                let Some((value, size)) = self.anchors.get(&anchor) else {
                    return Err(Error::invalid("an anchor refers to itself"));
                };
                let (value, size) = (value.clone(), *size);
                self.count(size)?;
                self.put(value)
            }
        }
    }

    fn count(&mut self, size: usize) -> Result<()> {
        self.size = self.size.saturating_add(size);
        if self.size <= MAX_EXPANDED_BYTES {
            Ok(())
        } else {
            Err(Error::invalid(format!("the document expands to more than {MAX_EXPANDED_BYTES} bytes")))
        }
    }

    fn begin(&mut self, anchor: usize, items: Items) -> Result<()> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Error::invalid(format!("the document is nested deeper than {MAX_DEPTH} levels")));
        }
        if self.expects_key() {
            return Err(Error::invalid("a key must be a text, not a list or an object"));
        }
        let size_before = self.size;
        self.count(VALUE_BYTES)?;
        self.open.push(Open { anchor, size_before, items });
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(Open { anchor, size_before, items }) = self.open.pop() else { return Ok(()) };
        let value = match items {
            Items::List(list) => Value::Array(list),
            Items::Object(object, _) => Value::Object(object),
        };
        self.complete(anchor, size_before, value)
    }

    /// Adds a complete value to its parent, and stores it if it has an anchor.
    fn complete(&mut self, anchor: usize, size_before: usize, value: Value) -> Result<()> {
        if anchor > 0 {
            let size = self.size - size_before;
            self.count(size)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        self.put(value)
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { items: Items::Object(_, None), .. }))
    }

    fn put(&mut self, value: Value) -> Result<()> {
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.document = Some(value),
            Some(Items::List(list)) => list.push(value),
            Some(Items::Object(object, name)) => match (name.take(), value) {
                (Some(name), value) => {
                    object.insert(name, value);
                }
                (None, Value::String(new)) if object.contains_key(&new) => {
                    return Err(Error::invalid(format!("the key {new:?} occurs twice")));
                }
                (None, Value::String(new)) => *name = Some(new),
                (None, _) => return Err(Error::invalid("a key must be a text, not a list or an object")),
            },
        }
        Ok(())
    }
}

/// Decodes a scalar by the core schema of YAML 1.2, in which `yes` is a text.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(Value::String(text.to_owned())),
        Some(tag) if tag.is_yaml_core_schema() => {}
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => return Ok(Value::String(text.to_owned())),
        Some(tag) => return Err(Error::invalid(format!("the tag {}{} is not supported", tag.handle, tag.suffix))),
        None if style != ScalarStyle::Plain => return Ok(Value::String(text.to_owned())),
        None => {}
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    })
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with(['+', '-'])).map(Number::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8).ok().filter(|_| !octal.starts_with(['+', '-'])).map(Number::from);
    }
    if !digits.starts_with(|char: char| char.is_ascii_digit() || char == '.') {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
        return whole.ok();
    }
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    text.parse().ok().filter(|_| is_plain).and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_read_as_the_equivalent_json() {
        let text = "a: 1\nb: [true, ~, 'x', \"y\\n\", 1.5, -3, 0x10]\nc:\n  - d: |\n      two\n      lines\n  - yes\n1: *nothing";
        assert!(read(text).unwrap_err().to_string().contains("line 8"), "an undefined anchor");
        let text = &text[..text.rfind('\n').unwrap()];
        let value =
            json!({ "a": 1, "b": [true, null, "x", "y\n", 1.5, -3, 16], "c": [{ "d": "two\nlines\n" }, "yes"] });
        assert_eq!(read(text).unwrap(), value);
        assert_eq!(read("").unwrap(), Value::Null);
        assert_eq!(read("a: &x [1]\nb: *x").unwrap(), json!({ "a": [1], "b": [1] }));
        assert_eq!(read("1: one\nnull: two").unwrap(), json!({ "1": "one", "null": "two" }));
        assert_eq!(read("a: 1_000\nb: 1:30\nc: .\nd: 12e\nf: !!str 5").unwrap()["f"], "5");
    }

    #[test]
    fn texts_stay_as_they_are_written() {
        let text = "a: 1.10\nb: [true, ~, 'null', 007]\nc: {d: 0x10}";
        let value = json!({ "a": "1.10", "b": ["true", null, "null", "007"], "c": { "d": "0x10" } });
        assert_eq!(read_texts(text).unwrap(), value);
    }

    #[test]
    fn invalid_yaml_is_refused_with_its_line() {
        for (text, expected) in [
            ("a: 1\na: 2", "line 2: the key \"a\" occurs twice"),
            ("a: 1\n---\nb: 2", "line 2: a second document begins, but only one is allowed"),
            ("a: &x [*x]", "line 1: an anchor refers to itself"),
            ("[1, 2]: 3", "line 1: a key must be a text, not a list or an object"),
            ("a: !lua print", "line 1: the tag !lua is not supported"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(read("a: [1").unwrap_err().full_message().contains("this is not YAML"));
    }

    #[test]
    fn documents_that_expand_too_much_or_nest_too_deep_are_refused() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let previous = format!("*a{}", level - 1);
            writeln!(laughs, "a{level}: &a{level} [{}]", [previous.as_str(); 9].join(", ")).unwrap();
        }
        assert!(read(&laughs).unwrap_err().to_string().contains("expands to more than"));
        for deep in ["- ".repeat(200_000), "[".repeat(200_000), "? ".repeat(200_000), "{a: ".repeat(100_000)] {
            read(&deep).unwrap_err();
        }
    }
}
