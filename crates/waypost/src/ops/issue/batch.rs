//! Lines of a batch: operations that change issues, as JSON.
//!
//! `{"op":"close","id":"way-1a2b","reason":"done"}` is the operation `close_issue`, which a line may also name in full. The
//! fields of a line are those of the operation's struct, and some have a short name.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use waypost_core::ledger::vocabulary;
use waypost_core::nearest::nearest;
use waypost_core::op::{current_name, decode};
use waypost_core::{Error, Result};

use super::IssueChange;
use super::changes::{
    AddComment, AddDependency, AddIssue, ClaimIssue, CloseIssue, ReleaseIssue, RemoveDependency, RemoveIssue,
    ReopenIssue, UpdateIssue,
};
use crate::issues::ledger::Change;

/// The operations that a line may contain.
static VERBS: [Verb; 10] = [
    Verb::of::<AddIssue>("add"),
    Verb::of::<UpdateIssue>("update"),
    Verb::of::<ClaimIssue>("claim"),
    Verb::of::<ReleaseIssue>("release"),
    Verb::of::<CloseIssue>("close"),
    Verb::of::<ReopenIssue>("reopen"),
    Verb::of::<RemoveIssue>("delete"),
    Verb::of::<AddComment>("comment"),
    Verb::of::<AddDependency>("depend"),
    Verb::of::<RemoveDependency>("undepend"),
];

/// Short names of fields, each with the field of an operation. Messages use them.
const SHORT_NAMES: &[(&str, &str)] = &[("id", "issue"), ("type", "issue_type"), ("type", "kind")];

/// Other accepted names of fields, each with the field of an operation.
const OTHER_NAMES: &[(&str, &str)] =
    &[("acceptance", "acceptance_criteria"), ("parent_id", "parent"), ("add_labels", "labels")];

/// Fields of operations that a line cannot have: each change goes to the ledger of its issue, and a claim in a batch has no
/// lease.
const EXCLUDED_FIELDS: &[&str] = &["repo", "ttl_ms"];

/// Returns every verb.
pub fn verbs() -> impl Iterator<Item = &'static str> + Clone {
    VERBS.iter().map(Verb::name)
}

/// Decodes a line: `op` is the verb, and the other keys are the fields of its operation.
pub fn decode_line(line: Value) -> Result<Change> {
    let Value::Object(mut fields) = line else {
        return Err(Error::invalid("a change is an object").hint(r#"{"op":"close","id":"way-1a2b"}"#));
    };
    let name = match fields.shift_remove("op") {
        Some(Value::String(name)) => name,
        None | Some(Value::Null) => return Err(missing("op")),
        Some(other) => return Err(Error::invalid(format!("the field \"op\" must be a string, not {other}"))),
    };
    match VERBS.iter().find(|verb| verb.has_name(&name)) {
        Some(verb) => (verb.change)(&verb.arguments(fields)?),
        None => Err(suggest(Error::invalid(format!("unknown change {name:?}")), &name, verbs())),
    }
}

/// An operation as a line of a batch.
struct Verb {
    /// Its short name, the word of the command.
    name: &'static str,
    /// The name of the operation.
    operation: &'static str,
    fields: LazyLock<LineFields>,
    /// Decodes the arguments of the operation and returns its change.
    change: fn(&Value) -> Result<Change>,
}

/// The fields of a line.
struct LineFields {
    /// The schema of each field; null for those that the operation's schema omits.
    schemas: Map<String, Value>,
    required: Vec<String>,
}

impl LineFields {
    fn of<O: IssueChange>() -> LineFields {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<O>();
        let mut schemas = match schema.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        schemas.retain(|name, _| !EXCLUDED_FIELDS.contains(&name.as_str()));
        schemas.extend(O::BATCH_FIELDS.iter().map(|name| ((*name).to_owned(), Value::Null)));
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        LineFields { schemas, required: required.filter_map(Value::as_str).map(str::to_owned).collect() }
    }
}

impl Verb {
    const fn of<O: IssueChange>(name: &'static str) -> Verb {
        Verb {
            name,
            operation: O::NAME,
            fields: LazyLock::new(LineFields::of::<O>),
            change: |arguments| decode::<O>(arguments)?.change(),
        }
    }

    fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether a line may name the operation so: by the word of its command, by its own name, also the one of the
    /// version before, or by its verb.
    fn has_name(&self, name: &str) -> bool {
        self.name == name
            || self.operation == current_name(name)
            || self.operation.strip_suffix("_issue").is_some_and(|verb| verb == name)
    }

    /// Returns the arguments of the operation for the fields of a line. A field that is null counts as absent, except
    /// that it removes a time. A priority may be text, e.g. `P1`.
    fn arguments(&self, fields: Map<String, Value>) -> Result<Value> {
        let mut arguments = Map::new();
        for (written, value) in fields {
            let (name, schema) = self.find_field(&written)?;
            let value = match (name.as_str(), value) {
                ("due_at" | "defer_until", Value::Null) => Value::from(""),
                (_, Value::Null) => continue,
                ("priority", Value::String(text)) => vocabulary::priority(&text)?.into(),
                ("priority", other) => vocabulary::priority(&other.to_string())?.into(),
                (_, value) => value,
            };
            check_type(&written, &value, schema)?;
            if arguments.insert(name.clone(), value).is_some() {
                return Err(Error::invalid(format!("{written:?} and another field set {name:?}")));
            }
        }
        match self.fields.required.iter().find(|name| !arguments.contains_key(*name)) {
            Some(name) => Err(missing(short_name(name))),
            None => Ok(Value::Object(arguments)),
        }
    }

    /// Returns the name and the schema of a field in the operation.
    fn find_field(&self, written: &str) -> Result<(&String, &Value)> {
        let names = SHORT_NAMES.iter().chain(OTHER_NAMES);
        let names = names.filter(|(other, _)| *other == written).map(|(_, name)| *name);
        let schemas = &self.fields.schemas;
        std::iter::once(written).chain(names).find_map(|name| schemas.get_key_value(name)).ok_or_else(|| {
            let error = Error::invalid(format!("{} has no field {written:?}", self.name()));
            suggest(error, written, schemas.keys().map(|name| short_name(name)))
        })
    }
}

fn short_name(name: &str) -> &str {
    SHORT_NAMES.iter().find(|(_, long)| *long == name).map_or(name, |(short, _)| short)
}

fn missing(field: &str) -> Error {
    Error::invalid(format!("the field {field:?} is missing"))
}

fn suggest<'a>(error: Error, word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Error {
    match nearest(word, known.clone()) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(format!("use one of {}", known.collect::<Vec<_>>().join(", "))),
    }
}

/// Names the field if its value has the wrong type: the errors of serde do not.
fn check_type(field: &str, value: &Value, schema: &Value) -> Result<()> {
    let types = schema.get("type").and_then(|types| types.get(0).or(Some(types)));
    let (is_expected, expected) = match types.and_then(Value::as_str) {
        Some("string") => (value.is_string(), "a string"),
        Some("boolean") => (value.is_boolean(), "true or false"),
        Some("array") => (value.is_array(), "a list"),
        _ => return Ok(()),
    };
    if is_expected {
        return Ok(());
    }
    Err(Error::invalid(format!("the field {field:?} must be {expected}, not {value}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use waypost_core::op::Effect;

    use super::super::TABLE;
    use super::*;
    use crate::issues::ledger::New;

    /// Operations that change issues but cannot be lines of a batch, each with the reason.
    const WITHOUT_VERB: &[(&str, &str)] = &[
        ("accept_issue", "a maintainer decides on one proposal at a time"),
        ("propose_issue", "it writes two ledgers, and a batch writes one"),
        ("reject_issue", "a maintainer decides on one proposal at a time"),
        ("withdraw_issue", "it writes two ledgers, and a batch writes one"),
    ];

    #[test]
    fn every_operation_that_changes_an_issue_has_a_verb_or_a_reason() {
        for entry in TABLE.iter().filter(|entry| entry.about.effect == Effect::Write) {
            let has_verb = VERBS.iter().any(|verb| verb.operation == entry.about.name);
            let has_reason = WITHOUT_VERB.iter().any(|(name, _)| *name == entry.about.name);
            assert!(has_verb != has_reason, "{} needs a verb in VERBS or a row in WITHOUT_VERB", entry.about.name);
        }
    }

    #[test]
    fn every_verb_is_decoded_to_a_change_with_that_verb() {
        let all = json!({ "op": null, "id": "a", "on": "b", "text": "t", "title": "x" });
        for verb in &VERBS {
            let mut line = all.clone();
            let fields = line.as_object_mut().unwrap();
            fields.retain(|name, _| verb.fields.required.iter().any(|required| short_name(required) == name));
            fields.insert("op".to_owned(), verb.name().into());
            assert_eq!(decode_line(line.clone()).unwrap().verb(), verb.name());
            line["op"] = verb.operation.into();
            assert_eq!(decode_line(line).unwrap().verb(), verb.name(), "by the name of the operation");
        }
        for (name, verb) in [("remove", "delete"), ("delete_issue", "delete"), ("undepend_issue", "undepend")] {
            let line = if verb == "delete" {
                json!({ "op": name, "id": "a" })
            } else {
                json!({ "op": name, "id": "a", "on": "b" })
            };
            assert_eq!(decode_line(line).unwrap().verb(), verb);
        }
    }

    #[test]
    fn an_invalid_line_gives_a_telling_error() {
        for (line, message, hint) in [
            (json!([]), "a change is an object", Some(r#"{"op":"close","id":"way-1a2b"}"#)),
            (json!({ "id": "a" }), "the field \"op\" is missing", None),
            (json!({ "op": 1 }), "the field \"op\" must be a string, not 1", None),
            (json!({ "op": "clsoe" }), "unknown change \"clsoe\"", Some("did you mean close?")),
            (
                json!({ "op": "elaborate" }),
                "unknown change \"elaborate\"",
                Some("use one of add, update, claim, release, close, reopen, delete, comment, depend, undepend"),
            ),
            (json!({ "op": "close" }), "the field \"id\" is missing", None),
            (json!({ "op": "close", "id": null }), "the field \"id\" is missing", None),
            (json!({ "op": "comment", "id": "a" }), "the field \"text\" is missing", None),
            (json!({ "op": "depend", "id": "a" }), "the field \"on\" is missing", None),
            (json!({ "op": "add" }), "the field \"title\" is missing", None),
            (
                json!({ "op": "close", "id": "a", "rason": "x" }),
                "close has no field \"rason\"",
                Some("did you mean reason?"),
            ),
            (
                json!({ "op": "reopen", "id": "a", "explanation": "x" }),
                "reopen has no field \"explanation\"",
                Some("use one of id, force"),
            ),
            (json!({ "op": "add", "titel": "x" }), "add has no field \"titel\"", Some("did you mean title?")),
            (
                json!({ "op": "close", "id": "a", "type": "x" }),
                "close has no field \"type\"",
                Some("use one of id, reason, force"),
            ),
            (json!({ "op": "claim", "ttl_ms": 1 }), "claim has no field \"ttl_ms\"", Some("use one of id")),
            (json!({ "op": "claim", "repo": "x" }), "claim has no field \"repo\"", Some("use one of id")),
            (json!({ "op": "close", "id": "a", "issue": "b" }), "\"issue\" and another field set \"issue\"", None),
            (json!({ "op": "close", "id": 5 }), "the field \"id\" must be a string, not 5", None),
            (
                json!({ "op": "close", "id": "a", "force": "no" }),
                "the field \"force\" must be true or false, not \"no\"",
                None,
            ),
            (
                json!({ "op": "add", "title": "x", "labels": "y" }),
                "the field \"labels\" must be a list, not \"y\"",
                None,
            ),
            (
                json!({ "op": "add", "title": "x", "priority": 7 }),
                "\"7\" is not a priority",
                Some("use 0 (highest) to 4, P0 to P4, or a word: critical, high, medium, low, backlog"),
            ),
            (
                json!({ "op": "add", "title": "x", "due_at": "soon" }),
                "\"soon\" is not a time",
                Some("expected e.g. 2026-12-01 or 2026-12-01T09:00:00Z"),
            ),
        ] {
            let error = decode_line(line.clone()).unwrap_err();
            assert_eq!(
                (error.full_message().as_str(), error.hints().first().map(String::as_str)),
                (message, hint),
                "{line}"
            );
        }
    }

    #[test]
    fn the_fields_of_an_addition_are_those_of_a_record() {
        let change = decode_line(json!({
            "op": "add", "title": "t", "type": "bug", "priority": "P1", "labels": ["x"], "parent": "p",
            "defer_until": "2026-12-01", "blocked_by": ["$a"], "as": "b", "owner": "o", "external_ref": "r",
            "estimated_minutes": 5, "remove_labels": [],
        }));
        let Change::Add(New { edit, blocked_by, name, .. }) = change.unwrap() else { panic!("not an addition") };
        assert_eq!(
            (edit.issue_type.as_deref(), edit.priority, edit.parent_id.as_deref()),
            (Some("bug"), Some(1), Some("p"))
        );
        assert_eq!(
            (edit.add_labels, blocked_by, name),
            (vec!["x".to_owned()], vec!["$a".to_owned()], Some("b".to_owned()))
        );
        assert_eq!(edit.defer_until.flatten().unwrap().to_string(), "2026-12-01T00:00:00.000Z");
        assert_eq!(
            (edit.owner.as_deref(), edit.external_ref.as_deref(), edit.estimated_minutes),
            (Some("o"), Some("r"), Some(5))
        );
    }

    #[test]
    fn short_and_long_names_mean_the_same() {
        for (short, long) in [
            (
                json!({
                    "op": "update", "id": "a", "type": "bug", "acceptance": "x", "parent_id": "p", "add_labels": ["l"],
                    "priority": "P0", "due_at": null, "notes": null, "force": null,
                }),
                json!({
                    "op": "update", "issue": "a", "issue_type": "bug", "acceptance_criteria": "x", "parent": "p",
                    "labels": ["l"], "priority": 0, "due_at": "",
                }),
            ),
            (
                json!({ "op": "depend", "id": "a", "on": "b", "type": "related" }),
                json!({ "op": "depend", "issue": "a", "on": "b", "kind": "related" }),
            ),
            (
                json!({ "op": "undepend", "id": "a", "on": "b", "type": "related" }),
                json!({ "op": "undepend", "issue": "a", "on": "b", "kind": "related" }),
            ),
            (json!({ "op": "claim", "id": "a" }), json!({ "op": "claim", "issue": "a" })),
        ] {
            assert_eq!(decode_line(short.clone()).unwrap(), decode_line(long).unwrap(), "{short}");
        }
        let Change::Update(_, edit) = decode_line(json!({ "op": "update", "id": "a", "due_at": null })).unwrap() else {
            panic!("not an update")
        };
        assert_eq!((edit.due_at, edit.defer_until), (Some(None), None));
    }
}
