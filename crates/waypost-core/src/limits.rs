//! The limits of requests: how many entries a list may have, and how long a text may be.
//!
//! One table, by the name of the field. [`describe`] writes the limits into the schema of a request, and [`check`] compares a
//! request with them. Every request passes [`check`] when its arguments are encoded or decoded (`op::arguments_json` and
//! `op::decode`), and every change of an issue when a ledger takes it. What a ledger or a store has already is read in any
//! size.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Maximum number of entries of a list for which `LISTS` has no row, and of fields of an object.
pub const MAX_ENTRIES: usize = 10_000;
/// Maximum number of characters of a text for which `TEXTS` has no row.
pub const MAX_TEXT: usize = 1 << 20;
/// Maximum number of labels, and of other lists that belong to one record.
const MAX_OF_RECORD: usize = 1_000;
/// Maximum number of characters of a text on one line: a title, a name, an id.
const MAX_LINE: usize = 10_000;

/// Lists with a limit of their own.
const LISTS: &[(&str, usize)] = &[
    ("acceptance", MAX_OF_RECORD),
    ("add_labels", MAX_OF_RECORD),
    ("any_label", MAX_OF_RECORD),
    ("blocked_by", MAX_OF_RECORD),
    ("capabilities", MAX_OF_RECORD),
    ("labels", MAX_OF_RECORD),
    ("no_label", MAX_OF_RECORD),
    ("priorities", MAX_OF_RECORD),
    ("remove_labels", MAX_OF_RECORD),
    ("repositories", MAX_OF_RECORD),
    ("statuses", MAX_OF_RECORD),
    ("types", MAX_OF_RECORD),
];

/// Texts with a limit of their own, also as entries of a list.
const TEXTS: &[(&str, usize)] = &[
    ("add_labels", MAX_LINE),
    ("agent", MAX_LINE),
    ("any_label", MAX_LINE),
    ("assignee", MAX_LINE),
    ("author", MAX_LINE),
    ("blocked_by", MAX_LINE),
    ("branch", MAX_LINE),
    ("capabilities", MAX_LINE),
    ("capability", MAX_LINE),
    ("context_from", MAX_LINE),
    ("depends_on", MAX_LINE),
    ("discovered_from", MAX_LINE),
    ("external_ref", MAX_LINE),
    ("informed_by", MAX_LINE),
    ("issue", MAX_LINE),
    ("issue_type", MAX_LINE),
    ("job", MAX_LINE),
    ("key", MAX_LINE),
    ("kind", MAX_LINE),
    ("labels", MAX_LINE),
    ("machine", MAX_LINE),
    ("name", MAX_LINE),
    ("no_label", MAX_LINE),
    ("on", MAX_LINE),
    ("owner", MAX_LINE),
    ("parallel_group", MAX_LINE),
    ("parent", MAX_LINE),
    ("parent_id", MAX_LINE),
    ("remove_labels", MAX_LINE),
    ("repo", MAX_LINE),
    ("repositories", MAX_LINE),
    ("repository", MAX_LINE),
    ("role", MAX_LINE),
    ("sort", MAX_LINE),
    // The text of a plan, as its author wrote it.
    ("source_content", 16 << 20),
    ("status", MAX_LINE),
    ("statuses", MAX_LINE),
    ("task", MAX_LINE),
    ("template", MAX_LINE),
    ("title", MAX_LINE),
    ("types", MAX_LINE),
    ("workflow", MAX_LINE),
    ("workspace", MAX_LINE),
    ("worktree_id", MAX_LINE),
];

fn of(table: &[(&str, usize)], field: &str, usual: usize) -> usize {
    table.iter().find(|(name, _)| *name == field).map_or(usual, |(_, limit)| *limit)
}

/// Refuses a request with a list or a text that exceeds its limit. The error names the field, the number and the limit.
pub fn check(request: &Value) -> Result<()> {
    check_field("the request", request)
}

/// Refuses a text of a field that exceeds its limit, for a caller that has no whole request.
pub fn check_text(field: &str, text: &str) -> Result<()> {
    let limit = of(TEXTS, field, MAX_TEXT);
    // Counting is only needed if the text may be too long.
    let count = if text.len() > limit { text.chars().count() } else { 0 };
    if count > limit { Err(exceeded(field, count, "characters", limit)) } else { Ok(()) }
}

fn check_field(field: &str, value: &Value) -> Result<()> {
    match value {
        Value::String(text) => check_text(field, text),
        Value::Array(items) => {
            let limit = of(LISTS, field, MAX_ENTRIES);
            if items.len() > limit {
                return Err(exceeded(field, items.len(), "entries", limit));
            }
            items.iter().try_for_each(|item| check_field(field, item))
        }
        Value::Object(fields) => {
            if fields.len() > MAX_ENTRIES {
                return Err(exceeded(field, fields.len(), "fields", MAX_ENTRIES));
            }
            fields.iter().try_for_each(|(name, value)| check_field(name, value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn exceeded(field: &str, number: usize, of_what: &str, limit: usize) -> Error {
    // The name of a field may be of any length here.
    let field: String = field.chars().take(60).collect();
    Error::invalid(format!("{field} has {number} {of_what}, and at most {limit} are allowed"))
}

/// Writes the limits into the schema of a request: `maxItems` of lists and `maxLength` of texts.
pub fn describe(generator: &mut SchemaGenerator, schema: Schema) -> Schema {
    let mut schema = schema.to_value();
    let mut definitions = generator.definitions().clone();
    describe_field("", &mut schema, &mut definitions, &mut Vec::new());
    *generator.definitions_mut() = definitions;
    Schema::try_from(schema).unwrap_or_default()
}

fn describe_field(field: &str, schema: &mut Value, definitions: &mut Map<String, Value>, seen: &mut Vec<String>) {
    let Value::Object(about) = schema else { return };
    if let Some(name) = about.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        let name = name.to_owned();
        if !seen.contains(&name)
            && let Some(mut definition) = definitions.get(&name).cloned()
        {
            seen.push(name.clone());
            describe_field(field, &mut definition, definitions, seen);
            definitions.insert(name, definition);
        }
        return;
    }
    let is = |kind: &str| match about.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    };
    let (is_text, is_list) = (is("string") && !about.contains_key("enum") && !about.contains_key("const"), is("array"));
    if is_text {
        about.entry("maxLength").or_insert(json!(of(TEXTS, field, MAX_TEXT)));
    }
    if is_list {
        about.entry("maxItems").or_insert(json!(of(LISTS, field, MAX_ENTRIES)));
    }
    for (key, inner) in about.iter_mut() {
        match (key.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    describe_field(name, property, definitions, seen);
                }
            }
            ("items" | "additionalProperties", item) => describe_field(field, item, definitions, seen),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(parts)) => {
                for part in parts {
                    describe_field(field, part, definitions, seen);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;

    use super::*;
    use crate::op::TABLE;

    #[test]
    fn the_error_names_the_field_the_number_and_the_limit() {
        let error = |request: Value| check(&request).unwrap_err().to_string();
        let labels = vec!["x"; MAX_OF_RECORD + 1];
        let expected = "labels has 1001 entries, and at most 1000 are allowed";
        assert_eq!(error(json!({ "labels": labels })), expected);
        assert_eq!(error(json!([{ "deep": { "labels": labels } }])), expected);
        let long = "ü".repeat(MAX_LINE + 1);
        assert_eq!(error(json!({ "title": long })), "title has 10001 characters, and at most 10000 are allowed");
        assert_eq!(error(json!({ "labels": [long] })), "labels has 10001 characters, and at most 10000 are allowed");
        assert!(error(json!({ "input": vec![0; MAX_ENTRIES + 1] })).starts_with("input has 10001 entries"));
        let fields: Map<String, Value> = (0..=MAX_ENTRIES).map(|number| (number.to_string(), json!(0))).collect();
        assert!(error(json!({ "context": fields })).starts_with("context has 10001 fields"));
        let name = "f".repeat(1_000);
        assert!(error(json!({ name: "x".repeat(MAX_TEXT + 1) })).len() < 200);
    }

    #[test]
    fn what_is_just_within_its_limits_is_accepted() {
        let text = "ü".repeat(MAX_TEXT);
        check(&json!({ "description": text, "labels": vec!["x"; MAX_OF_RECORD], "title": "t".repeat(MAX_LINE) }))
            .unwrap();
    }

    /// Returns the lists and texts of a schema that have no limit.
    fn unlimited(path: &str, schema: &Value, found: &mut Vec<String>) {
        // A field may be called `type`, too.
        let kinds = schema.get("type").filter(|kinds| !kinds.is_object()).cloned().unwrap_or_default().to_string();
        let is_chosen = schema.get("enum").is_some() || schema.get("const").is_some();
        if (kinds.contains("\"string\"") && schema.get("maxLength").is_none() && !is_chosen)
            || (kinds.contains("\"array\"") && schema.get("maxItems").is_none())
        {
            found.push(path.to_owned());
        }
        match schema {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, inner)| unlimited(&format!("{path}.{name}"), inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| unlimited(path, inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_list_and_every_text_of_a_request_has_a_limit_in_its_schema() {
        for entry in TABLE.iter().filter(|entry| entry.about.is_limited) {
            for is_inline in [true, false] {
                let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = is_inline);
                let mut generator = settings.into_generator();
                let schema = (entry.about.schema)(&mut generator).to_value();
                let mut found = Vec::new();
                unlimited(entry.about.name, &schema, &mut found);
                generator.definitions().values().for_each(|schema| unlimited(entry.about.name, schema, &mut found));
                assert_eq!(found, [""; 0]);
            }
        }
    }
}
