//! Pages of lists: limits, and cursors that say where the next page begins.
//!
//! A cursor holds the sort key of the last record of a page, not a number of records. So a walk over all pages returns
//! every record once, whatever is added or removed meanwhile. Only a record whose sort key changes can be missed or
//! returned twice.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{from_hex, hex};
use crate::error::{Error, Result};

/// The number of records of a page unless the caller sets a limit.
const DEFAULT_LIMIT: u32 = 100;

/// Returns the number of records of a page unless the caller sets a limit.
pub fn default_limit() -> u32 {
    DEFAULT_LIMIT
}

/// The position after a record with this sort key. In JSON it is opaque text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor<K>(pub K);

impl<K: Serialize> Serialize for Cursor<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let key = serde_json::to_vec(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&hex(&key))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Cursor<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cursor<K>, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        let key = from_hex(&text).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        key.map(Cursor).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a cursor of this list")))
    }
}

impl<K> JsonSchema for Cursor<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cursor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Returns how many records to read for a page: one more than its limit, which shows whether there is another page.
pub fn fetched(limit: u32) -> Result<u32> {
    if limit == 0 {
        return Err(Error::invalid("limit must be at least 1"));
    }
    Ok(limit.saturating_add(1))
}

/// Removes the records of earlier pages from a whole list that is sorted by `key`.
pub fn skip<T, K: Ord>(records: &mut Vec<T>, after: Option<&Cursor<K>>, key: impl Fn(&T) -> K) {
    if let Some(Cursor(last)) = after {
        records.retain(|record| key(record) > *last);
    }
}

/// Shortens records to one page. Returns the cursor of the next one, if there is one.
pub fn cut<T, K>(records: &mut Vec<T>, limit: u32, key: impl Fn(&T) -> K) -> Option<Cursor<K>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if records.len() <= limit {
        return None;
    }
    records.truncate(limit);
    records.last().map(|last| Cursor(key(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{JobId, WorkflowId};
    use crate::time::Timestamp;

    #[test]
    fn a_cursor_is_read_back_and_one_of_another_list_is_refused() {
        let id: JobId = "jb_0a1b2c3d4e5f".parse().unwrap();
        let cursor = Cursor((Timestamp::from_millis(7), id));
        let json = serde_json::to_value(&cursor).unwrap();
        assert!(json.as_str().unwrap().bytes().all(|byte| byte.is_ascii_hexdigit()), "{json}");
        assert_eq!(serde_json::from_value::<Cursor<(Timestamp, JobId)>>(json.clone()).unwrap(), cursor);
        let other = serde_json::from_value::<Cursor<(Timestamp, WorkflowId)>>(json).unwrap_err().to_string();
        assert!(other.ends_with("is not a cursor of this list"), "{other}");
        for text in ["", "5", "zz", "5b", "é"] {
            assert!(serde_json::from_value::<Cursor<u64>>(text.into()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn pages_together_have_every_record_once() {
        let all: Vec<u32> = (0..10).collect();
        let (mut walked, mut after) = (Vec::new(), None);
        loop {
            let mut page = all.clone();
            skip(&mut page, after.as_ref(), |number| *number);
            let next = cut(&mut page, 3, |number| *number);
            walked.extend(page);
            let Some(next) = next else { break };
            after = Some(next);
        }
        assert_eq!(walked, all);
        assert_eq!(fetched(0).unwrap_err().to_string(), "limit must be at least 1");
        assert_eq!((fetched(1).unwrap(), fetched(u32::MAX).unwrap()), (2, u32::MAX));
    }
}
