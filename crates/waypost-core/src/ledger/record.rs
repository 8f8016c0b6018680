//! One line of the ledger, in its original spelling.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// The order of the keys that Waypost writes. Keys of other tools keep their places.
pub const KEYS: &[&str] = &[
    "id",
    "title",
    "description",
    "design",
    "acceptance_criteria",
    "notes",
    "status",
    "priority",
    "issue_type",
    "assignee",
    "owner",
    "created_at",
    "created_by",
    "updated_at",
    "closed_at",
    "close_reason",
    "due_at",
    "defer_until",
    "estimated_minutes",
    "external_ref",
    "labels",
    "dependencies",
    "comments",
    "parent_id",
    "visibility",
    "metadata",
    "deleted_at",
    "deleted_by",
    "delete_reason",
];

/// A JSON object with its keys in their original order and each value in its original spelling.
///
/// Only values that a caller sets or removes change. Numbers of any length, escapes, nested spacing and keys of other
/// tools are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    fields: Vec<(String, String)>,
    /// Whether colons and commas between fields are followed by a space, as some tools write them.
    is_spaced: bool,
}

impl Record {
    /// Parses an object. A duplicate key is an error, because either value could be the right one.
    pub fn parse(line: &str) -> Result<Record> {
        let fields = Fields::parse(line)?.0.into_iter();
        let fields = fields.map(|(key, value)| (key.into_owned(), value.to_owned())).collect();
        Ok(Record { fields, is_spaced: is_spaced(line) })
    }

    /// Creates a record from keys and spellings.
    pub(super) fn of(fields: Vec<(String, String)>, is_spaced: bool) -> Record {
        Record { fields, is_spaced }
    }

    /// Tells whether colons and commas between fields are followed by a space.
    pub(super) fn is_spaced(&self) -> bool {
        self.is_spaced
    }

    /// Returns the spelling of a value.
    pub fn raw(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns a value if it is a string.
    pub fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.raw(key)?).ok()
    }

    /// Returns keys and spellings, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Sets a value. A new key is inserted according to [`KEYS`].
    pub fn set(&mut self, key: &str, value: &impl serde::Serialize) -> Result<()> {
        let spelling = serde_json::to_string(value)
            .map_err(|error| Error::internal(format!("{key} cannot be written")).because(error))?;
        self.put(key, spelling);
        Ok(())
    }

    /// Sets the spelling of a value.
    pub(super) fn put(&mut self, key: &str, spelling: String) {
        if let Some((_, old)) = self.fields.iter_mut().find(|(known, _)| known == key) {
            *old = spelling;
            return;
        }
        let rank = |key: &str| KEYS.iter().position(|known| *known == key);
        // After the last key that precedes it in `KEYS`; keys of other tools after that one stay after it.
        let at = match rank(key) {
            Some(own) => self
                .fields
                .iter()
                .rposition(|(known, _)| rank(known).is_some_and(|rank| rank < own))
                .map_or(0, |at| at + 1),
            None => self.fields.len(),
        };
        self.fields.insert(at, (key.to_owned(), spelling));
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(known, _)| known != key);
        self.fields.len() != before
    }

    /// Returns the record as a line, without a newline.
    pub fn to_line(&self) -> String {
        let mut line = String::from("{");
        for (number, (key, value)) in self.fields.iter().enumerate() {
            if number > 0 {
                line.push_str(if self.is_spaced { ", " } else { "," });
            }
            line.push_str(&serde_json::Value::from(key.as_str()).to_string());
            line.push_str(if self.is_spaced { ": " } else { ":" });
            line.push_str(value);
        }
        line.push('}');
        line
    }
}

/// A read-only view of the fields of a record, borrowed from its line.
#[derive(Clone, Debug)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Fields<'a> {
    /// Parses an object, as [`Record::parse`] does.
    pub fn parse(line: &'a str) -> Result<Fields<'a>> {
        serde_json::from_str(line).map_err(|error| Error::damaged("not a record").because(error))
    }
}

/// Read access to the fields of a record.
pub trait Raw {
    /// Returns the spelling of a value.
    fn raw(&self, key: &str) -> Option<&str>;

    /// Returns a value if it is a string.
    fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.raw(key)?).ok()
    }
}

impl Raw for Record {
    fn raw(&self, key: &str) -> Option<&str> {
        Record::raw(self, key)
    }
}

impl Raw for Fields<'_> {
    fn raw(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Fields<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de str)> = Vec::with_capacity(16);
                let mut keys = Keys::default();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    if !keys.insert(key.clone()) {
                        return Err(serde::de::Error::custom(format!("duplicate key {key:?}")));
                    }
                    fields.push((key, value.get()));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A key, borrowed from the line if it has no escapes.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// The keys of an object, to detect duplicates. A list is fastest for the few keys of most objects; the set keeps an
/// object with very many keys from taking quadratic time.
pub(super) struct Keys<K> {
    list: Vec<K>,
    rest: HashSet<K>,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Keys { list: Vec::new(), rest: HashSet::new() }
    }
}

impl<K: Eq + Hash> Keys<K> {
    const MAX_IN_LIST: usize = 48;

    /// Adds a key. Returns whether it is new.
    pub(super) fn insert(&mut self, key: K) -> bool {
        if self.list.contains(&key) {
            return false;
        }
        if self.list.len() < Self::MAX_IN_LIST {
            self.list.push(key);
            return true;
        }
        self.rest.insert(key)
    }
}

/// Tells whether a space follows the first colon that is not part of a key.
fn is_spaced(line: &str) -> bool {
    let (mut in_text, mut is_escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'\\' if in_text && !is_escaped => {
                is_escaped = true;
                continue;
            }
            b'"' if !is_escaped => in_text = !in_text,
            b':' if !in_text => return line.as_bytes().get(at + 1) == Some(&b' '),
            _ => {}
        }
        is_escaped = false;
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_keeps_the_spelling_of_every_other_value() {
        let line = r#"{"id":"a-1","title":"\u003cx\u003e","priority":2,"big":123456789012345678901234567890,"z":{"b": 1,"a":[ ]},"f":1.0e+2}"#;
        let mut record = Record::parse(line).unwrap();
        record.set("priority", &0).unwrap();
        assert_eq!(record.to_line(), line.replace("\"priority\":2", "\"priority\":0"));
    }

    #[test]
    fn spacing_between_fields_is_kept() {
        for line in
            [r#"{"id": "a-1", "x": [1,2], "y": "a:b"}"#, r#"{"a\":b":1,"id": 2}"#.replace(": 2", ":2").as_str(), "{}"]
        {
            assert_eq!(Record::parse(line).unwrap().to_line(), line);
        }
    }

    #[test]
    fn new_keys_are_inserted_in_our_order() {
        let mut record = Record::parse(r#"{"id":"a-1","theirs":1,"updated_at":"x","more":2}"#).unwrap();
        record.set("title", &"t").unwrap();
        record.set("labels", &["l"]).unwrap();
        record.set("unknown", &true).unwrap();
        assert_eq!(
            record.to_line(),
            r#"{"id":"a-1","title":"t","theirs":1,"updated_at":"x","labels":["l"],"more":2,"unknown":true}"#
        );
        assert!(record.remove("more") && !record.remove("more"));
    }

    #[test]
    fn a_line_that_is_not_one_object_is_an_error() {
        for bad in ["", "[]", "1", "{", "{}x", "{} {}", r#"{"a":1,"a":2}"#, r#"{"a":NaN}"#, "\u{feff}{}"] {
            assert!(Record::parse(bad).is_err(), "{bad:?}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_filter("JSON has no infinity", |number| number.is_finite()).prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::vec((".*", inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parsing_and_writing_any_object_keeps_its_spelling(value in proptest::collection::vec((".*", json()), 0..8)) {
            let object: serde_json::Map<_, _> = value.into_iter().collect();
            let line = serde_json::Value::Object(object).to_string();
            prop_assert_eq!(Record::parse(&line).unwrap().to_line(), line);
        }

        #[test]
        fn setting_changes_one_key_and_no_other(value in proptest::collection::vec(("[a-z]{1,8}", json()), 0..8), key in "[a-z]{1,8}", to in json()) {
            let object: serde_json::Map<_, _> = value.into_iter().collect();
            let before = Record::parse(&serde_json::Value::Object(object).to_string()).unwrap();
            let mut after = before.clone();
            after.set(&key, &to).unwrap();
            let spelling = to.to_string();
            prop_assert_eq!(after.raw(&key), Some(spelling.as_str()));
            let others = |record: &Record| record.fields().filter(|(known, _)| *known != key).map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>();
            prop_assert_eq!(others(&after), others(&before));
        }
    }
}
