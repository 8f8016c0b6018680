//! Converts MessagePack to JSON.
//!
//! Values without a JSON form are described: bytes as base64, a Python object as its type and its constructor
//! arguments.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};

/// Values nested deeper are an error.
const MAX_DEPTH: usize = 64;
/// More values are an error: a value takes one byte of input and 32 bytes of memory or more.
const MAX_VALUES: usize = 4_000_000;

/// Reads one value, which must be the whole input.
pub(super) fn read(bytes: &[u8]) -> Result<Value, String> {
    read_up_to(bytes, MAX_VALUES)
}

fn read_up_to(bytes: &[u8], max_values: usize) -> Result<Value, String> {
    let mut reader = Reader { rest: bytes, values_left: max_values };
    let value = reader.value(0)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(format!("{} bytes after the value", reader.rest.len())) }
}

struct Reader<'a> {
    rest: &'a [u8],
    values_left: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("nested too deeply".to_owned());
        }
        self.values_left = self.values_left.checked_sub(1).ok_or("too many values")?;
        let tag = self.take(1)?[0];
        Ok(match tag {
            0x00..=0x7f => json!(tag),
            0x80..=0x8f => self.map(usize::from(tag & 0x0f), depth)?,
            0x90..=0x9f => self.array(usize::from(tag & 0x0f), depth)?,
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f))?,
            0xc0 => Value::Null,
            0xc1 => return Err("not MessagePack".to_owned()),
            0xc2 => json!(false),
            0xc3 => json!(true),
            0xc4..=0xc6 => {
                let length = self.length(1 << (tag - 0xc4))?;
                json!({ "base64": base64(self.take(length)?) })
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (tag - 0xc7))?;
                self.extension(length, depth)?
            }
            0xca => float(f64::from(f32::from_be_bytes(self.array_of()?))),
            0xcb => float(f64::from_be_bytes(self.array_of()?)),
            0xcc => json!(u8::from_be_bytes(self.array_of()?)),
            0xcd => json!(u16::from_be_bytes(self.array_of()?)),
            0xce => json!(u32::from_be_bytes(self.array_of()?)),
            0xcf => json!(u64::from_be_bytes(self.array_of()?)),
            0xd0 => json!(i8::from_be_bytes(self.array_of()?)),
            0xd1 => json!(i16::from_be_bytes(self.array_of()?)),
            0xd2 => json!(i32::from_be_bytes(self.array_of()?)),
            0xd3 => json!(i64::from_be_bytes(self.array_of()?)),
            0xd4..=0xd8 => self.extension(1 << (tag - 0xd4), depth)?,
            0xd9..=0xdb => {
                let length = self.length(1 << (tag - 0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(if tag == 0xdc { 2 } else { 4 })?;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(if tag == 0xde { 2 } else { 4 })?;
                self.map(length, depth)?
            }
            0xe0..=0xff => json!(tag.cast_signed()),
        })
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, String> {
        // Each item takes at least one byte, so a greater length is wrong and must not allocate memory.
        if length > self.rest.len() {
            return Err("unexpected end".to_owned());
        }
        (0..length).map(|_| self.value(depth + 1)).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, String> {
        let mut fields = Map::new();
        for _ in 0..length {
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            fields.insert(key, self.value(depth + 1)?);
        }
        Ok(Value::Object(fields))
    }

    fn text(&mut self, length: usize) -> Result<Value, String> {
        Ok(Value::String(super::clean(&String::from_utf8_lossy(self.take(length)?))))
    }

    /// A Python object is an array of its module, its class and its constructor arguments.
    fn extension(&mut self, length: usize, depth: usize) -> Result<Value, String> {
        let code = self.take(1)?[0].cast_signed();
        let bytes = self.take(length)?;
        let mut inner = Reader { rest: bytes, values_left: self.values_left };
        let content = inner.value(depth + 1).ok().filter(|_| inner.rest.is_empty());
        self.values_left = inner.values_left;
        Ok(match content.as_ref().and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::String(module), Value::String(class), arguments, ..]) if (0..=5).contains(&code) => {
                json!({ "type": format!("{module}.{class}"), "value": arguments })
            }
            _ => match content {
                Some(value) => json!({ "extension": code, "value": value }),
                None => json!({ "extension": code, "base64": base64(bytes) }),
            },
        })
    }

    fn length(&mut self, bytes: usize) -> Result<usize, String> {
        Ok(self.take(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "unexpected end".to_owned())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("unexpected end")?;
        self.rest = rest;
        Ok(taken)
    }
}

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| json!(number.to_string()), Value::Number)
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_value_is_read() {
        let check = |bytes: &[u8], value: Value| assert_eq!(read(bytes), Ok(value), "{bytes:x?}");
        check(
            b"\x83\xa1a\x01\xa1b\x92\xc0\xc3\xa1c\xcb\x3f\xf8\0\0\0\0\0\0",
            json!({"a": 1, "b": [null, true], "c": 1.5}),
        );
        check(b"\xc4\x03abc", json!({ "base64": "YWJj" }));
        check(b"\xc4\x01a", json!({ "base64": "YQ==" }));
        check(b"\xd1\xff\x00", json!(-256));
        check(b"\xff", json!(-1));
        check(b"\x81\x01\xa1x", json!({ "1": "x" }));
        check(b"\xc7\x07\x00\x93\xa1m\xa1c\xa1v", json!({ "type": "m.c", "value": "v" }));
        check(b"\xd4\x09\xc1", json!({ "extension": 9, "base64": "wQ==" }));
        check(b"\xcb\x7f\xf8\0\0\0\0\0\0", json!("NaN"));
    }

    #[test]
    fn truncated_too_deep_and_trailing_input_is_an_error() {
        for bad in
            [&b""[..], b"\xc1", b"\xa5abc", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff\x01\x01", b"\x01\x01"]
        {
            read(bad).unwrap_err();
        }
        read(&vec![0x91; 100_000]).unwrap_err();
    }

    #[test]
    fn input_that_would_expand_to_too_many_values_is_an_error() {
        let nulls = b"\x93\xc0\xc0\xc0";
        assert_eq!(read_up_to(nulls, 4), Ok(json!([null, null, null])));
        assert_eq!(read_up_to(nulls, 3), Err("too many values".to_owned()));
        // Python objects share the limit with the values around them.
        let objects = b"\x92\xd6\x09\x93\xc0\xc0\xc0\xd6\x09\x93\xc0\xc0\xc0";
        let [object, text] = [json!([null, null, null]), json!("k8DAwA==")];
        let expected = json!([{ "extension": 9, "value": object }, { "extension": 9, "base64": text }]);
        assert_eq!(read_up_to(objects, 10), Ok(expected), "the second object is not expanded");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
