//! The meaning of a value, independent of its spelling.

use serde_json::value::RawValue;

use super::super::issue::parse_time;

/// Deeper values are compared by their spelling.
const MAX_DEPTH: usize = 60;

/// Values that count as missing: some tools write all their columns.
const EMPTY_VALUES: &[&str] = &["null", "\"\"", "[]", "{}"];

/// Returns the meaning of a field's value. Equal meanings are equal strings; a missing value is the empty string.
pub(super) fn of_field(key: &str, raw: Option<&str>) -> String {
    match raw {
        Some(raw) if !EMPTY_VALUES.contains(&raw.trim()) => {
            if let Some(at) = key.ends_with("_at").then(|| instant(raw)).flatten() {
                return at;
            }
            of_value(raw)
        }
        // A missing status means open.
        _ if key == "status" => "\"open\"".to_owned(),
        _ => String::new(),
    }
}

/// Returns the meaning of a value, whatever its key.
pub(super) fn of_value(raw: &str) -> String {
    let mut meaning = String::with_capacity(raw.len());
    write(raw.trim(), MAX_DEPTH, &mut meaning);
    meaning
}

/// A timestamp in one style, whatever its spelling.
fn instant(raw: &str) -> Option<String> {
    let text: String = serde_json::from_str(raw).ok()?;
    Some(format!("\"{}\"", parse_time(&text)?))
}

fn write(raw: &str, depth: usize, meaning: &mut String) {
    match raw.as_bytes().first() {
        Some(b'{') if depth > 0 => {
            let Ok(fields) = serde_json::from_str::<Object>(raw) else { return meaning.push_str(raw) };
            let mut fields = fields.0;
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            meaning.push('{');
            for (key, value) in fields {
                meaning.push_str(&serde_json::Value::from(key.as_str()).to_string());
                meaning.push(':');
                match key.ends_with("_at").then(|| instant(value.get())).flatten() {
                    Some(at) => meaning.push_str(&at),
                    None => write(value.get(), depth - 1, meaning),
                }
                meaning.push(',');
            }
            meaning.push('}');
        }
        Some(b'[') if depth > 0 => {
            let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw) else { return meaning.push_str(raw) };
            meaning.push('[');
            for item in items {
                write(item.get(), depth - 1, meaning);
                meaning.push(',');
            }
            meaning.push(']');
        }
        Some(b'"') => match serde_json::from_str::<String>(raw) {
            Ok(text) => meaning.push_str(&serde_json::Value::from(text).to_string()),
            Err(_) => meaning.push_str(raw),
        },
        Some(b'-' | b'0'..=b'9') => match raw.parse::<f64>() {
            // Longer numbers fit no type, so they are compared by their spelling.
            Ok(number) if raw.len() <= 15 => meaning.push_str(&number.to_string()),
            _ => meaning.push_str(raw),
        },
        _ => meaning.push_str(raw),
    }
}

/// The fields of an object in order, including duplicate keys.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Object<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> serde::de::Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_spellings_have_the_same_meaning() {
        for (one, other) in [
            (r#""\u00fc""#, "\"ü\""),
            ("[1, 2]", "[1,2]"),
            (r#"{"a":1,"b":[ ]}"#, r#"{ "b" : [], "a" : 1.0 }"#),
            ("100", "1e2"),
            ("-0.50", "-0.5"),
        ] {
            assert_eq!(of_value(one), of_value(other));
        }
        for (one, other) in
            [("1", "\"1\""), ("[1,2]", "[2,1]"), ("[12]", "[1,2]"), ("12345678901234567890", "12345678901234567891")]
        {
            assert_ne!(of_value(one), of_value(other));
        }
    }

    #[test]
    fn timestamps_are_compared_as_times_and_empty_values_count_as_missing() {
        let at = |raw| of_field("closed_at", Some(raw));
        assert_eq!(at("\"2026-01-01T01:00:00+01:00\""), at("\"2026-01-01T00:00:00.000Z\""));
        assert_ne!(
            of_field("title", Some("\"2026-01-01T01:00:00+01:00\"")),
            of_field("title", Some("\"2026-01-01T00:00:00Z\""))
        );
        for nothing in [None, Some("null"), Some("\"\""), Some("[]"), Some("{}")] {
            assert_eq!(of_field("assignee", nothing), "");
        }
        assert_eq!(of_field("status", None), of_field("status", Some("\"open\"")));
    }

    #[test]
    fn very_deep_values_do_not_overflow_the_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!of_value(&deep).is_empty());
        let objects = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
        assert!(!of_value(&objects).is_empty());
    }
}
