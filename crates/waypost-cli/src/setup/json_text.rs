//! Edits a JSON text with comments and preserves every other byte.
//!
//! A library parses the text and gives every value its range; the edits replace ranges. The library's own edits would
//! put each member of a changed object on a line of its own, and so change more than was asked for.

use std::ops::Range;

use jsonc_parser::ast::{self, ObjectProp};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};
use waypost_core::{Error, Result};

/// JSON with comments and trailing commas, and no other extension.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A JSON text.
pub(super) struct JsonText<'a> {
    text: &'a str,
    root: ast::Value<'a>,
    tokens: Vec<TokenAndRange<'a>>,
    /// One step of indentation, as used in the text.
    indent: String,
    line: &'static str,
}

/// The ranges of the members of an object, or of the items of a list.
fn parts(node: &ast::Value) -> Vec<Range<usize>> {
    match node {
        ast::Value::Object(object) => object.properties.iter().map(span).collect(),
        ast::Value::Array(array) => array.elements.iter().map(span).collect(),
        _ => Vec::new(),
    }
}

fn span(node: &impl jsonc_parser::common::Ranged) -> Range<usize> {
    node.start()..node.end()
}

/// Returns the position of the member with a key; of duplicates the last, as JSON parsers do.
fn position(node: &ast::Value, key: &str) -> Option<usize> {
    node.as_object()?.properties.iter().rposition(|member| member.name.as_str() == key)
}

fn member<'n, 'a>(node: &'n ast::Value<'a>, key: &str) -> Option<&'n ObjectProp<'a>> {
    node.as_object()?.properties.get(position(node, key)?)
}

impl<'a> JsonText<'a> {
    /// Parses a text.
    pub(super) fn read(text: &'a str) -> Result<JsonText<'a>> {
        let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed =
            parse_to_ast(text, &collect, &OPTIONS).map_err(|error| Error::invalid("not valid JSON").because(error))?;
        let root = parsed.value.ok_or_else(|| Error::invalid("not valid JSON").because("it has no value"))?;
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = parts(&root).first().map_or("", |part| &text[root.start() + 1..part.start]);
        let indent = match first.rsplit_once('\n') {
            Some((_, indent)) if !indent.is_empty() && indent.trim().is_empty() => indent.to_owned(),
            _ => "  ".to_owned(),
        };
        Ok(JsonText { text, root, tokens: parsed.tokens.unwrap_or_default(), indent, line })
    }

    /// Returns the value at a path.
    pub(super) fn value(&self, path: &[&str]) -> Result<Option<Value>> {
        Ok(self.walk(path)?.map(read_value))
    }

    /// Returns the text with a value at a path, and creates the objects on the path.
    pub(super) fn with(&self, path: &[&str], value: &Value) -> Result<String> {
        let mut node = &self.root;
        for (depth, key) in path.iter().enumerate() {
            check_object(node, &path[..depth])?;
            let Some(found) = member(node, key) else {
                let wrap = |value: Value, key: &&str| Value::Object(Map::from_iter([((*key).to_owned(), value)]));
                let inner = path[depth + 1..].iter().rev().fold(value.clone(), wrap);
                return self.insert(node, Some(key), &inner, depth + 1);
            };
            node = &found.value;
        }
        if read_value(node) == *value {
            return Ok(self.text.to_owned());
        }
        self.replace(span(node), value, path.len())
    }

    /// Returns the text with a value in the list at a path: replaces the matching item, else appends.
    pub(super) fn with_item(&self, path: &[&str], value: &Value, is_match: impl Fn(&Value) -> bool) -> Result<String> {
        let Some(list) = self.walk(path)? else {
            return self.with(path, &Value::Array(vec![value.clone()]));
        };
        match items(list, path)?.iter().find(|item| is_match(&read_value(item))) {
            Some(item) if read_value(item) == *value => Ok(self.text.to_owned()),
            Some(item) => self.replace(span(item), value, path.len() + 1),
            None => self.insert(list, None, value, path.len() + 1),
        }
    }

    /// Returns the text without the value at a path and without parents that become empty. None if there is no value.
    pub(super) fn without(&self, path: &[&str]) -> Result<Option<String>> {
        let Some((key, above)) = path.split_last() else { return Ok(None) };
        let Some(object) = self.walk(above)? else { return Ok(None) };
        position(object, key).map(|at| self.cut(object, at, above)).transpose()
    }

    /// Returns the text without the matching item of the list at a path. None if no item matches.
    pub(super) fn without_item(&self, path: &[&str], is_match: impl Fn(&Value) -> bool) -> Result<Option<String>> {
        let Some(list) = self.walk(path)? else { return Ok(None) };
        let at = items(list, path)?.iter().position(|item| is_match(&read_value(item)));
        at.map(|at| self.cut(list, at, path)).transpose()
    }

    fn walk(&self, path: &[&str]) -> Result<Option<&ast::Value<'a>>> {
        let mut node = &self.root;
        for (depth, key) in path.iter().enumerate() {
            check_object(node, &path[..depth])?;
            match member(node, key) {
                Some(found) => node = &found.value,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    fn replace(&self, span: Range<usize>, value: &Value, depth: usize) -> Result<String> {
        Ok(format!("{}{}{}", &self.text[..span.start], self.pretty(value, depth)?, &self.text[span.end..]))
    }

    fn insert(&self, into: &ast::Value, key: Option<&str>, value: &Value, depth: usize) -> Result<String> {
        let name = key.map_or_else(String::new, |key| format!("{}: ", Value::from(key)));
        let line = format!("{}{}{name}{}", self.line, self.indent.repeat(depth), self.pretty(value, depth)?);
        let last = parts(into).last().cloned();
        let trailing = last.as_ref().map(|last| self.comma(last.end..into.end() - 1)).filter(|comma| !comma.is_empty());
        // The new part is written as its neighbours are: with a comma after each, or between them.
        let (at, before, behind) = match (&last, &trailing) {
            (Some(_), Some(comma)) => (comma.end, "", ","),
            (Some(last), None) => (last.end, ",", ""),
            (None, _) => (into.start() + 1, "", ""),
        };
        let after = self.after_comments(at, into.end(), last.is_none());
        let is_bare = into.end() - into.start() == 2;
        let end = if is_bare { self.closing(depth) } else { String::new() };
        Ok(format!("{}{before}{}{line}{behind}{end}{}", &self.text[..at], &self.text[at..after], &self.text[after..]))
    }

    /// Returns the whitespace before the bracket that closes the parent of a depth.
    fn closing(&self, depth: usize) -> String {
        format!("{}{}", self.line, self.indent.repeat(depth - 1))
    }

    /// Returns the comments in a range.
    fn comments(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &TokenAndRange<'a>> {
        self.tokens.iter().filter(move |found| {
            range.contains(&found.range.start) && matches!(found.token, Token::CommentLine(_) | Token::CommentBlock(_))
        })
    }

    /// Returns the end of the last comment in a range; without `all`, of the last one in the first line.
    fn after_comments(&self, start: usize, end: usize, all: bool) -> usize {
        let belongs = |found: &&TokenAndRange| all || !self.text[start..found.range.start].contains('\n');
        self.comments(start..end).take_while(belongs).last().map_or(start, |found| found.range.end)
    }

    /// Removes a part of the object or list at a path. Comments around it stay.
    fn cut(&self, from: &ast::Value, at: usize, path: &[&str]) -> Result<String> {
        let all = parts(from);
        let part = all[at].clone();
        if let Some(next) = all.get(at + 1) {
            let comma = self.comma(part.end..next.start);
            let (before, between) = (&self.text[..part.start], &self.text[part.end..comma.start]);
            return Ok([before, between, self.text[comma.end..].trim_start()].concat());
        }
        let is_only = at == 0;
        if is_only
            && self.comments(span(from)).next().is_none()
            && let Some((key, above)) = path.split_last()
            && let Some(object) = self.walk(above)?
            && let Some(at) = position(object, key)
        {
            // The parent would be empty, so remove it as a whole.
            return self.cut(object, at, above);
        }
        let start = if is_only { from.start() + 1 } else { all[at - 1].end };
        let comma = if is_only { start..start } else { self.comma(start..part.start) };
        let trailing = self.comma(part.end..from.end() - 1);
        let last = self.comments(start..part.start).next_back();
        let mut keep_until = last.map_or(comma.end, |last| last.range.end.max(comma.end));
        // One comma goes with the part: the one after it, or else the one before it.
        let (before, comma_end, between, mut end) = if trailing.is_empty() {
            (comma.start, comma.end, "", part.end)
        } else {
            (comma.end, comma.end, &self.text[part.end..trailing.start], trailing.end)
        };
        let rest = &self.text[end..from.end() - 1];
        if last.is_some_and(|last| matches!(last.token, Token::CommentLine(_)))
            && !rest.trim_start_matches([' ', '\t']).starts_with(['\r', '\n'])
        {
            // Without its line break the comment would swallow the rest of the line.
            keep_until = part.start;
        }
        if is_only && last.is_none() && rest == self.closing(path.len() + 1) {
            end += rest.len();
        }
        Ok([&self.text[..before], &self.text[comma_end..keep_until], between, &self.text[end..]].concat())
    }

    /// Returns the range of the comma in a range.
    fn comma(&self, range: Range<usize>) -> Range<usize> {
        let inside = |found: &&TokenAndRange| range.contains(&found.range.start) && found.token == Token::Comma;
        self.tokens.iter().find(inside).map_or(range.start..range.start, |found| span(&found.range))
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

fn check_object(node: &ast::Value, path: &[&str]) -> Result<()> {
    node.as_object().map(drop).ok_or_else(|| unexpected(path, "an object"))
}

fn items<'n, 'a>(node: &'n ast::Value<'a>, path: &[&str]) -> Result<&'n [ast::Value<'a>]> {
    node.as_array().map(|list| list.elements.as_slice()).ok_or_else(|| unexpected(path, "a list"))
}

fn unexpected(path: &[&str], expected: &str) -> Error {
    let name = if path.is_empty() { "the top level".to_owned() } else { path.join(".") };
    Error::invalid(format!("{name} is not {expected}"))
}

fn read_value(node: &ast::Value) -> Value {
    node.clone().into()
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
        let annotated = |before: &str, after: &str| -> String {
            let pretty = serde_json::to_string_pretty(value).unwrap();
            pretty.lines().flat_map(|line| [before, line, after, "\n"]).collect()
        };
        match style {
            0 => value.to_string(),
            1 => serde_json::to_string_pretty(value).unwrap() + "\n",
            2 => serde_json::to_string_pretty(value).unwrap().replace('\n', "\r\n"),
            3 => serde_json::to_string_pretty(value).unwrap().replace("  ", "\t"),
            4 => annotated("", " // a, \"b\" }"),
            5 => annotated("/* c */", " /* d, { \n */ // e").replace('\n', "\r\n"),
            6 => with_trailing_commas(&serde_json::to_string_pretty(value).unwrap()),
            7 => with_trailing_commas(&annotated("", " // f")).replace('\n', "\r\n"),
            _ => format!("\n {} \n\n", value.to_string().replace("null", " null ")),
        }
    }

    /// Puts a comma after the last part of each object and list that has one line for each part.
    fn with_trailing_commas(pretty: &str) -> String {
        let lines: Vec<&str> = pretty.lines().collect();
        let ends_part = |at: usize| {
            let closes_next = lines.get(at + 1).is_some_and(|next| next.trim_start().starts_with(['}', ']']));
            let code = lines[at].split(" // f").next().unwrap_or_default();
            closes_next && !code.ends_with(['{', '[', ','])
        };
        let line = |at: usize| match (ends_part(at), lines[at].split_once(" // f")) {
            (true, Some((code, rest))) => format!("{code}, // f{rest}\n"),
            (true, None) => format!("{},\n", lines[at]),
            (false, _) => format!("{}\n", lines[at]),
        };
        (0..lines.len()).map(line).collect()
    }

    proptest! {
        #[test]
        fn adding_is_idempotent_and_removing_restores_the_text(
            fields in proptest::collection::btree_map("[a-z\"]{1,5}", value(), 0..5),
            others in proptest::collection::btree_map("[a-z]{1,3}", value(), 1..3),
            items in proptest::collection::vec(value(), 1..3),
            style in 0_u8..9,
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
                prop_assert_eq!(JsonText::read(&with).unwrap().value(&[]).unwrap(), Some(expected));
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
    fn comments_stay_where_they_are() {
        let with = |text: &str| JsonText::read(text).unwrap().with(PATH, &json!(1)).unwrap();
        let without = |text: &str| JsonText::read(text).unwrap().without(PATH).unwrap().unwrap();
        for (before, after) in [
            ("// a\n{ // b\n}\n", "// a\n{ // b\n  \"servers\": {\n    \"ours\": 1\n  }\n}\n"),
            ("{\"servers\": {/* a */}}", "{\"servers\": {/* a */\n    \"ours\": 1}}"),
            (
                "{\n\t\"servers\": {\n\t\t\"b\": 2 // b\n\t\t// end\n\t}\n}",
                "{\n\t\"servers\": {\n\t\t\"b\": 2, // b\n\t\t\"ours\": 1\n\t\t// end\n\t}\n}",
            ),
        ] {
            assert_eq!(with(before), after);
            assert_eq!(without(after), before);
        }
        // The user moved the entry and added comments to it.
        for (before, after) in [
            ("{\"servers\": { // a\n\"ours\": 1}}", "{\"servers\": { // a\n}}"),
            ("{\"servers\": {\"a\": 1, // a\n\"ours\": 1}}", "{\"servers\": {\"a\": 1 // a\n}}"),
            ("{\"servers\": {\"a\": 1, /* b */ \"ours\": 1 /* c */}}", "{\"servers\": {\"a\": 1 /* b */ /* c */}}"),
            ("{\"servers\": { // a\n\"ours\": 1, // b\n\"c\": 1}}", "{\"servers\": { // a\n// b\n\"c\": 1}}"),
            ("{\"servers\": {\"ours\": 1 // a\n, \"c\": 1}}", "{\"servers\": { // a\n\"c\": 1}}"),
        ] {
            assert_eq!(without(before), after);
            JsonText::read(after).unwrap();
        }
    }

    #[test]
    fn trailing_commas_stay_and_new_parts_have_one_too() {
        let with = |text: &str| JsonText::read(text).unwrap().with(PATH, &json!(1)).unwrap();
        let without = |text: &str| JsonText::read(text).unwrap().without(PATH).unwrap().unwrap();
        for (before, after) in [
            ("{\n  \"a\": 1,\n}\n", "{\n  \"a\": 1,\n  \"servers\": {\n    \"ours\": 1\n  },\n}\n"),
            ("{\"servers\": {\"a\": 1, }, }", "{\"servers\": {\"a\": 1,\n    \"ours\": 1, }, }"),
            (
                "{\n  \"servers\": {\n    \"a\": 1, // a\n  },\n}",
                "{\n  \"servers\": {\n    \"a\": 1, // a\n    \"ours\": 1,\n  },\n}",
            ),
        ] {
            assert_eq!(with(before), after);
            assert_eq!(without(after), before);
        }
        assert_eq!(without("{\"servers\": {\"ours\": 1, /* a */}, \"b\": 1,}"), "{\"servers\": { /* a */}, \"b\": 1,}");
        assert_eq!(without("{\"servers\": {\"ours\": 1,},}"), "{}");
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
    fn of_duplicate_keys_the_last_counts() {
        let text = r#"{"servers": {"ours": 1}, "servers": {"ours": 2}}"#;
        assert_eq!(JsonText::read(text).unwrap().value(PATH).unwrap(), Some(json!(2)));
        let with = JsonText::read(text).unwrap().with(PATH, &json!(3)).unwrap();
        assert_eq!(with, r#"{"servers": {"ours": 1}, "servers": {"ours": 3}}"#);
    }

    #[test]
    fn invalid_json_and_unexpected_types_are_refused() {
        for text in ["", "{", "{,}", "{\"a\": 1,,}", "// no", "{} {}", "{a: 1}", "{'a': 1}", "[0x1]", "[1 2]"] {
            assert_eq!(JsonText::read(text).err().unwrap().kind(), waypost_core::Kind::Invalid, "{text}");
        }
        for text in ["[]", "1", r#"{"servers": []}"#, r#"{"hooks": {"Stop": {}}, "servers": 3}"#] {
            let text = JsonText::read(text).unwrap();
            text.with(PATH, &json!(1)).unwrap_err();
        }
        JsonText::read(r#"{"hooks": {"Stop": {}}}"#).unwrap().with_item(LIST, &json!(1), is_ours).unwrap_err();
    }
}
