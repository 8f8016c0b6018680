//! Edits a JSON text and preserves every other byte.

use std::ops::Range;

use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};
use waypost_core::{Error, Result};

/// A JSON text.
pub(super) struct JsonText<'a> {
    text: &'a str,
    root: Node,
    /// One step of indentation, as used in the text.
    indent: String,
    line: &'static str,
}

/// A value, and its range in the text.
struct Node {
    span: Range<usize>,
    parts: Vec<Part>,
}

/// A member of an object, or an item of a list.
struct Part {
    /// The key of a member.
    key: Option<String>,
    /// Where it begins, including its key.
    start: usize,
    node: Node,
}

impl<'a> JsonText<'a> {
    /// Parses a text.
    pub(super) fn read(text: &'a str) -> Result<JsonText<'a>> {
        serde_json::from_str::<Value>(text).map_err(|error| Error::invalid("not valid JSON").because(error))?;
        // The text is valid JSON, so the scanner below needs no error handling.
        let (root, _) = parse_node(text, skip_space(text, 0));
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = root.parts.first().map_or("", |part| &text[root.span.start + 1..part.start]);
        let indent = match first.rsplit_once('\n') {
            Some((_, indent)) if !indent.is_empty() => indent.to_owned(),
            _ => "  ".to_owned(),
        };
        Ok(JsonText { text, root, indent, line })
    }

    /// Returns the value at a path.
    pub(super) fn value(&self, path: &[&str]) -> Result<Option<Value>> {
        Ok(self.walk(path)?.map(|node| self.read_value(node)))
    }

    /// Returns the text with a value at a path, and creates the objects on the path.
    pub(super) fn with(&self, path: &[&str], value: &Value) -> Result<String> {
        let mut node = &self.root;
        for (depth, key) in path.iter().enumerate() {
            self.check_object(node, &path[..depth])?;
            let Some(part) = node.member(key) else {
                let wrap = |value: Value, key: &&str| Value::Object(Map::from_iter([((*key).to_owned(), value)]));
                let inner = path[depth + 1..].iter().rev().fold(value.clone(), wrap);
                return self.insert(node, Some(key), &inner, depth + 1);
            };
            node = &part.node;
        }
        if self.read_value(node) == *value {
            return Ok(self.text.to_owned());
        }
        self.replace(node.span.clone(), value, path.len())
    }

    /// Returns the text with a value in the list at a path: replaces the matching item, else appends.
    pub(super) fn with_item(&self, path: &[&str], value: &Value, is_match: impl Fn(&Value) -> bool) -> Result<String> {
        let Some(list) = self.walk(path)? else {
            return self.with(path, &Value::Array(vec![value.clone()]));
        };
        self.check_list(list, path)?;
        let existing = list.parts.iter().find(|part| is_match(&self.read_value(&part.node)));
        match existing {
            Some(part) if self.read_value(&part.node) == *value => Ok(self.text.to_owned()),
            Some(part) => self.replace(part.node.span.clone(), value, path.len() + 1),
            None => self.insert(list, None, value, path.len() + 1),
        }
    }

    /// Returns the text without the value at a path and without parents that become empty. None if there is no value.
    pub(super) fn without(&self, path: &[&str]) -> Result<Option<String>> {
        let Some((key, above)) = path.split_last() else { return Ok(None) };
        let Some(object) = self.walk(above)? else { return Ok(None) };
        match object.parts.iter().position(|part| part.key.as_deref() == Some(key)) {
            Some(at) => self.cut(object, at, above).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the text without the matching item of the list at a path. None if no item matches.
    pub(super) fn without_item(&self, path: &[&str], is_match: impl Fn(&Value) -> bool) -> Result<Option<String>> {
        let Some(list) = self.walk(path)? else { return Ok(None) };
        self.check_list(list, path)?;
        match list.parts.iter().position(|part| is_match(&self.read_value(&part.node))) {
            Some(at) => self.cut(list, at, path).map(Some),
            None => Ok(None),
        }
    }

    fn walk(&self, path: &[&str]) -> Result<Option<&Node>> {
        let mut node = &self.root;
        for (depth, key) in path.iter().enumerate() {
            self.check_object(node, &path[..depth])?;
            match node.member(key) {
                Some(part) => node = &part.node,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    fn check_object(&self, node: &Node, path: &[&str]) -> Result<()> {
        self.check(node, path, '{', "an object")
    }

    fn check_list(&self, node: &Node, path: &[&str]) -> Result<()> {
        self.check(node, path, '[', "a list")
    }

    fn check(&self, node: &Node, path: &[&str], begin: char, what: &str) -> Result<()> {
        if self.text[node.span.clone()].starts_with(begin) {
            return Ok(());
        }
        let name = if path.is_empty() { "the top level".to_owned() } else { path.join(".") };
        Err(Error::invalid(format!("{name} is not {what}")))
    }

    fn read_value(&self, node: &Node) -> Value {
        serde_json::from_str(&self.text[node.span.clone()]).unwrap_or_default()
    }

    fn replace(&self, span: Range<usize>, value: &Value, depth: usize) -> Result<String> {
        Ok(format!("{}{}{}", &self.text[..span.start], self.pretty(value, depth)?, &self.text[span.end..]))
    }

    fn insert(&self, into: &Node, key: Option<&str>, value: &Value, depth: usize) -> Result<String> {
        let name = key.map_or_else(String::new, |key| format!("{}: ", Value::from(key)));
        let line = format!("{}{}{name}{}", self.line, self.indent.repeat(depth), self.pretty(value, depth)?);
        let (at, comma) = match into.parts.last() {
            Some(last) => (last.node.span.end, ","),
            None => (into.span.start + 1, ""),
        };
        let is_bare = into.parts.is_empty() && into.span.len() == 2;
        let end = if is_bare { self.closing(depth) } else { String::new() };
        Ok(format!("{}{comma}{line}{end}{}", &self.text[..at], &self.text[at..]))
    }

    /// Returns the whitespace before the bracket that closes the parent of a depth.
    fn closing(&self, depth: usize) -> String {
        format!("{}{}", self.line, self.indent.repeat(depth - 1))
    }

    /// Removes a part of the object or list at a path.
    fn cut(&self, from: &Node, at: usize, path: &[&str]) -> Result<String> {
        let part = &from.parts[at];
        let next = from.parts.get(at + 1);
        let span = match (at.checked_sub(1).map(|before| &from.parts[before]), next) {
            (Some(before), _) => before.node.span.end..part.node.span.end,
            (None, Some(next)) => part.start..next.start,
            (None, None) => {
                if let Some((key, above)) = path.split_last() {
                    // The parent would be empty, so remove it as a whole.
                    let object = self.walk(above)?.filter(|object| object.member(key).is_some());
                    if let Some(object) = object {
                        let at = object.parts.iter().position(|part| part.key.as_deref() == Some(key));
                        return self.cut(object, at.unwrap_or_default(), above);
                    }
                }
                let rest = &self.text[part.node.span.end..from.span.end - 1];
                let is_ours = rest == self.closing(path.len() + 1);
                from.span.start + 1..part.node.span.end + if is_ours { rest.len() } else { 0 }
            }
        };
        Ok(format!("{}{}", &self.text[..span.start], &self.text[span.end..]))
    }

    fn pretty(&self, value: &Value, depth: usize) -> Result<String> {
        let mut bytes = Vec::new();
        let mut serializer =
            Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(self.indent.as_bytes()));
        serde::Serialize::serialize(value, &mut serializer)
            .map_err(|error| Error::internal("cannot serialize a value as JSON").because(error))?;
        let text =
            String::from_utf8(bytes).map_err(|error| Error::internal("serialized JSON is not UTF-8").because(error))?;
        Ok(text.replace('\n', &format!("{}{}", self.line, self.indent.repeat(depth))))
    }
}

impl Node {
    /// Returns the member with a key; of duplicates the last, as JSON parsers do.
    fn member(&self, key: &str) -> Option<&Part> {
        self.parts.iter().rev().find(|part| part.key.as_deref() == Some(key))
    }
}

/// Parses the value that begins at a byte, and returns it with its end.
fn parse_node(text: &str, start: usize) -> (Node, usize) {
    let bytes = text.as_bytes();
    let is_object = bytes[start] == b'{';
    if !is_object && bytes[start] != b'[' {
        let end = if bytes[start] == b'"' { skip_string(bytes, start) } else { skip_word(bytes, start) };
        return (Node { span: start..end, parts: Vec::new() }, end);
    }
    let mut parts = Vec::new();
    let mut at = skip_space(text, start + 1);
    while !matches!(bytes[at], b'}' | b']') {
        if bytes[at] == b',' {
            at = skip_space(text, at + 1);
            continue;
        }
        let start = at;
        let mut key = None;
        if is_object {
            let end = skip_string(bytes, at);
            key = serde_json::from_str(&text[at..end]).ok();
            // Past the colon.
            at = skip_space(text, skip_space(text, end) + 1);
        }
        let (node, end) = parse_node(text, at);
        parts.push(Part { key, start, node });
        at = skip_space(text, end);
    }
    (Node { span: start..at + 1, parts }, at + 1)
}

fn skip_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes()[at..].iter();
    at + rest.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

fn skip_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn skip_word(bytes: &[u8], start: usize) -> usize {
    let rest = bytes[start..].iter();
    start + rest.take_while(|byte| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const PATH: &[&str] = &["servers", "ours"];
    const LIST: &[&str] = &["hooks", "Stop"];

    fn ours() -> Value {
        json!({ "command": "way", "args": ["mcp"] })
    }

    fn is_ours(value: &Value) -> bool {
        value["command"] == "way"
    }

    /// Arbitrary values, including keys that Waypost uses.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\\n{}\\[\\],:ä]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c\"{]{1,3}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Formats a value in one of several styles.
    fn format(value: &Value, style: u8) -> String {
        match style {
            0 => value.to_string(),
            1 => serde_json::to_string_pretty(value).unwrap() + "\n",
            2 => serde_json::to_string_pretty(value).unwrap().replace('\n', "\r\n"),
            3 => serde_json::to_string_pretty(value).unwrap().replace("  ", "\t"),
            _ => format!("\n {} \n\n", value.to_string().replace("null", " null ")),
        }
    }

    proptest! {
        #[test]
        fn adding_is_idempotent_and_removing_restores_the_text(
            fields in proptest::collection::btree_map("[a-z\"]{1,5}", value(), 0..5),
            others in proptest::collection::btree_map("[a-z]{1,3}", value(), 1..3),
            items in proptest::collection::vec(value(), 1..3),
            style in 0_u8..5,
        ) {
            let mut root: Map<String, Value> = fields.into_iter().collect();
            root.remove("hooks");
            // Removing also removes parents that become empty, so keep them non-empty.
            root.insert("servers".to_owned(), Value::Object(others.into_iter().collect()));
            for with_list in [false, true] {
                if with_list {
                    root.insert("hooks".to_owned(), json!({ "Stop": items }));
                }
                let text = format(&Value::Object(root.clone()), style);
                let put = |text: &str| {
                    let text = JsonText::read(text).unwrap().with(PATH, &ours()).unwrap();
                    JsonText::read(&text).unwrap().with_item(LIST, &ours(), is_ours).unwrap()
                };
                let with = put(&text);
                prop_assert_eq!(put(&with), with.clone(), "adding is idempotent");
                let mut expected = Value::Object(root.clone());
                expected["servers"]["ours"] = ours();
                match expected["hooks"]["Stop"].as_array_mut() {
                    Some(list) => list.push(ours()),
                    None => expected["hooks"] = json!({ "Stop": [ours()] }),
                }
                prop_assert_eq!(serde_json::from_str::<Value>(&with).unwrap(), expected);
                let without = JsonText::read(&with).unwrap().without(PATH).unwrap().unwrap();
                let without = JsonText::read(&without).unwrap().without_item(LIST, is_ours).unwrap().unwrap();
                prop_assert_eq!(without, text);
            }
        }
    }

    #[test]
    fn a_bare_object_is_filled_and_emptied() {
        for text in ["{}", "{}\n", "{ }", " {}\n\n"] {
            let with = JsonText::read(text).unwrap().with(PATH, &json!(1)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&with).unwrap(), json!({ "servers": { "ours": 1 } }));
            assert_eq!(JsonText::read(&with).unwrap().without(PATH).unwrap().as_deref(), Some(text));
        }
        let with = JsonText::read("{}").unwrap().with(PATH, &json!(1)).unwrap();
        assert_eq!(with, "{\n  \"servers\": {\n    \"ours\": 1\n  }\n}");
    }

    #[test]
    fn an_older_value_is_replaced_in_place() {
        let text = r#"{ "servers": {"ours": {"command": "old"}, "b": 2}, "hooks": {"Stop": [{"command": "way", "x": 1}, 2]} }"#;
        let with = JsonText::read(text).unwrap().with(PATH, &json!("new")).unwrap();
        let with = JsonText::read(&with).unwrap().with_item(LIST, &json!({ "command": "way" }), is_ours).unwrap();
        let expected = json!({ "servers": { "ours": "new", "b": 2 }, "hooks": { "Stop": [{ "command": "way" }, 2] } });
        assert_eq!(serde_json::from_str::<Value>(&with).unwrap(), expected);
    }

    #[test]
    fn invalid_json_and_unexpected_types_are_refused() {
        for text in ["", "{", "{\"a\": 1,}", "// no\n{}", "{} {}"] {
            assert_eq!(JsonText::read(text).err().unwrap().kind(), waypost_core::Kind::Invalid, "{text}");
        }
        for text in ["[]", "1", r#"{"servers": []}"#, r#"{"hooks": {"Stop": {}}, "servers": 3}"#] {
            let text = JsonText::read(text).unwrap();
            text.with(PATH, &json!(1)).unwrap_err();
        }
        JsonText::read(r#"{"hooks": {"Stop": {}}}"#).unwrap().with_item(LIST, &json!(1), is_ours).unwrap_err();
    }
}
