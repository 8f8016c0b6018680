//! What a value means, apart from how it is spelled.

use serde_json::value::RawValue;

use super::super::issue::moment;

/// Deeper values are compared as they are spelled.
const DEEPEST: usize = 60;

/// What goes for nothing: tools that write all their columns write these.
const NOTHING: &[&str] = &["null", "\"\"", "[]", "{}"];

/// Returns what the value of a key means. Two values mean the same if these are equal; nothing is the empty text.
pub(super) fn of_field(key: &str, raw: Option<&str>) -> String {
    match raw {
        Some(raw) if !NOTHING.contains(&raw.trim()) => {
            if let Some(at) = key.ends_with("_at").then(|| instant(raw)).flatten() {
                return at;
            }
            of_value(raw)
        }
        // One without a status is open.
        _ if key == "status" => "\"open\"".to_owned(),
        _ => String::new(),
    }
}

/// Returns what a value means, of whatever key.
pub(super) fn of_value(raw: &str) -> String {
    let mut meaning = String::with_capacity(raw.len());
    write(raw.trim(), DEEPEST, &mut meaning);
    meaning
}

/// A moment, in whichever style it is spelled.
fn instant(raw: &str) -> Option<String> {
    let text: String = serde_json::from_str(raw).ok()?;
    Some(format!("\"{}\"", moment(&text)?))
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
            // Longer ones do not fit any type, so there the spelling counts.
            Ok(number) if raw.len() <= 15 => meaning.push_str(&number.to_string()),
            _ => meaning.push_str(raw),
        },
        _ => meaning.push_str(raw),
    }
}

/// The fields of an object, in order, also if a key stands twice.
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

/// A number made of a text that stays the same for ever: it becomes part of what is written.
pub(super) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_not_meaning() {
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
    fn moments_are_compared_as_moments_and_nothing_is_nothing() {
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
    fn very_deep_values_do_not_take_the_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!of_value(&deep).is_empty());
        let objects = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
        assert!(!of_value(&objects).is_empty());
    }

    #[test]
    fn a_digest_is_the_same_for_ever() {
        assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
