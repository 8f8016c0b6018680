//! JSON and TOML documents as one kind of value.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table};

use crate::Result;

/// Reads values whose absence means the same as an empty one.
pub(crate) trait Data {
    /// Returns the text of a key, or the empty one.
    fn text_of(&self, key: &str) -> &str;
    /// Returns the elements of the list of a key; a missing one has none.
    fn list_of(&self, key: &str) -> &[Value];
}

impl Data for Value {
    fn text_of(&self, key: &str) -> &str {
        self[key].as_str().unwrap_or_default()
    }

    fn list_of(&self, key: &str) -> &[Value] {
        self[key].as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

pub(crate) fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Reads TOML. Numbers, dates and truth values become texts.
pub(crate) fn toml(text: &str) -> Result<Value> {
    let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    Ok(table(document.as_table()))
}

fn table(table: &Table) -> Value {
    let entries = table.iter().map(|(key, item)| (key.to_owned(), of_item(item)));
    Value::Object(entries.collect::<Map<String, Value>>())
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value),
        Item::Table(found) => table(found),
        Item::ArrayOfTables(tables) => Value::Array(tables.iter().map(table).collect()),
    }
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::String(text.value().clone()),
        toml_edit::Value::Array(list) => Value::Array(list.iter().map(of_value).collect()),
        toml_edit::Value::InlineTable(found) => table(&found.clone().into_table()),
        other => Value::String(other.to_string().trim().to_owned()),
    }
}
