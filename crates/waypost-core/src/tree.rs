//! Decodes records from JSON trees.
//!
//! serde compiles the code that decodes a record once for each format it is decoded from, and once more for records that are
//! given as arrays of their fields in order. Records outnumber everything else of this crate, so they are decoded from one
//! format, [`Value`], and from objects only.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
    value::BorrowedStrDeserializer,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Error, Map, Value};

/// Decodes a value from its JSON tree.
pub fn decode<'de, T: Deserialize<'de>>(tree: &'de Value) -> Result<T, Error> {
    T::deserialize(Tree(tree))
}

/// Decodes a record whose fields stand among those of another one: for `#[serde(flatten, deserialize_with)]`.
pub(crate) fn flattened<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Value::deserialize(deserializer)?;
    decode(&fields).map_err(D::Error::custom)
}

/// The format.
struct Tree<'de>(&'de Value);

impl Tree<'_> {
    #[cold]
    fn is_not(&self, expected: &dyn Expected) -> Error {
        let found = match self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Unexpected::Unsigned(number),
                (None, Some(number)) => Unexpected::Signed(number),
                (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }
}

/// Forwards to the format of serde_json what contains no other values.
macro_rules! forward_leaves {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
                self.0.$method(visitor)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Tree<'de> {
    type Error = Error;

    forward_leaves! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 deserialize_str deserialize_string deserialize_unit
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit_struct tuple_struct identifier
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visit_items(items, visitor),
            Value::Object(fields) => visitor.visit_map(Fields::of(fields)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => visit_items(items, visitor),
            _ => Err(self.is_not(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(fields) => visitor.visit_map(Fields::of(fields)),
            _ => Err(self.is_not(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        // serde_json has types of its own, which only its own format can decode.
        if name.starts_with("$serde_json") {
            return self.0.deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

fn visit_items<'de, V: Visitor<'de>>(items: &'de [Value], visitor: V) -> Result<V::Value, Error> {
    let mut rest = Items(items.iter());
    let value = visitor.visit_seq(&mut rest)?;
    if rest.0.len() == 0 { Ok(value) } else { Err(Error::invalid_length(items.len(), &"fewer elements in array")) }
}

struct Items<'de>(std::slice::Iter<'de, Value>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.0.next() else { return Ok(None) };
        Ok(Some(seed.deserialize(Tree(item))?))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Fields<'de> {
    rest: serde_json::map::Iter<'de>,
    value: Option<&'de Value>,
}

impl<'de> Fields<'de> {
    fn of(fields: &'de Map<String, Value>) -> Fields<'de> {
        Fields { rest: fields.iter(), value: None }
    }

    fn next(&mut self) -> Option<&'de str> {
        let (name, value) = self.rest.next()?;
        self.value = Some(value);
        Some(name)
    }

    fn value(&mut self) -> Tree<'de> {
        // A visitor that asks for a value before its name gets nothing.
        Tree(self.value.take().unwrap_or(&Value::Null))
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.next() else { return Ok(None) };
        Ok(Some(seed.deserialize(BorrowedStrDeserializer::new(name))?))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.value())
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::{json, value::RawValue};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        With(u8),
        Named { name: String },
    }

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Inner {
        flag: bool,
        pairs: BTreeMap<String, (i64, f64)>,
    }

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Outer {
        #[serde(flatten, deserialize_with = "flattened")]
        inner: Inner,
        text: Option<String>,
        #[serde(default)]
        kinds: Vec<Kind>,
        any: Value,
    }

    fn outer() -> Value {
        json!({
            "text": null, "flag": true, "unknown": [{ "a": [1] }], "pairs": { "a": [-1, 0.5], "b": [7, 2.0] },
            "kinds": ["plain", { "with": 3 }, { "named": { "name": "n" } }], "any": [null, { "x": 18_446_744_073_709_551_615_u64 }],
        })
    }

    #[test]
    fn a_tree_is_decoded_as_serde_json_does() {
        let tree = outer();
        assert_eq!(decode::<Outer>(&tree).unwrap(), serde_json::from_value::<Outer>(tree.clone()).unwrap());
        assert_eq!(decode::<Value>(&tree).unwrap(), tree);
        assert_eq!(decode::<Box<RawValue>>(&tree).unwrap().get(), tree.to_string());
    }

    #[test]
    fn an_error_says_what_serde_json_says() {
        let without = |name: &str| {
            let mut tree = outer();
            tree.as_object_mut().unwrap().remove(name);
            tree
        };
        let with = |name: &str, value: Value| {
            let mut tree = outer();
            tree[name] = value;
            tree
        };
        for wrong in [
            without("flag"),
            without("any"),
            with("flag", json!("yes")),
            with("flag", json!(1)),
            with("kinds", json!(1)),
            with("pairs", json!(-1)),
            with("pairs", json!(0.5)),
            with("text", json!([])),
            with("kinds", json!({})),
            with("kinds", json!(["other"])),
            with("pairs", json!({ "a": [1, 2.0, 3] })),
            with("pairs", json!([])),
            json!(null),
            json!("text"),
        ] {
            let expected = serde_json::from_value::<Outer>(wrong.clone()).unwrap_err().to_string();
            assert_eq!(decode::<Outer>(&wrong).unwrap_err().to_string(), expected, "{wrong}");
        }
    }

    #[test]
    fn a_record_is_not_decoded_from_an_array() {
        let error = decode::<Inner>(&json!([true, {}])).unwrap_err();
        assert_eq!(error.to_string(), "invalid type: sequence, expected struct Inner");
    }
}
