//! A change to issues as data, from a command, a line of a batch or a request.

use serde_json::{Map, Value};
use waypost_core::ledger::vocabulary::DependencyKind;
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};

use super::Edit;

/// A change. It refers to an issue by its id, by a unique prefix of it, or by `$name` if the same transaction added the
/// issue under that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add an issue.
    Add(New),
    /// Set fields.
    Update(String, Edit),
    /// Close the issue, with an optional reason.
    Close(String, Option<String>),
    /// Reopen the issue.
    Reopen(String),
    /// Replace the issue by a tombstone, with an optional reason.
    Delete(String, Option<String>),
    /// Claim the issue, or the most urgent ready one.
    Claim(Option<String>),
    /// Release the issue; the flag also releases another agent's issue.
    Release(String, bool),
    /// Add a comment.
    Comment(String, String),
    /// Add a dependency on another issue.
    Depend(String, String, DependencyKind),
    /// Remove the dependency of one kind, or of every kind, on another issue.
    Undepend(String, String, Option<DependencyKind>),
    /// Make a change even if another agent holds the issue.
    Forced(Box<Change>),
}

/// An issue to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New {
    /// Its fields.
    pub edit: Edit,
    /// The issues it waits for.
    pub blocked_by: Vec<String>,
    /// The issue during which it was discovered.
    pub discovered_from: Option<String>,
    /// Its name in the rest of the transaction, used as `$name`.
    pub name: Option<String>,
}

impl From<Edit> for New {
    fn from(edit: Edit) -> New {
        New { edit, ..New::default() }
    }
}

impl Change {
    const VERBS: &[&str] =
        &["add", "update", "close", "reopen", "delete", "claim", "release", "comment", "depend", "undepend"];

    /// Returns the verb of the change.
    pub fn verb(&self) -> &'static str {
        match self {
            Change::Add(_) => "add",
            Change::Update(..) => "update",
            Change::Close(..) => "close",
            Change::Reopen(_) => "reopen",
            Change::Delete(..) => "delete",
            Change::Claim(_) => "claim",
            Change::Release(..) => "release",
            Change::Comment(..) => "comment",
            Change::Depend(..) => "depend",
            Change::Undepend(..) => "undepend",
            Change::Forced(change) => change.verb(),
        }
    }

    /// Wraps the change in [`Change::Forced`] if `force` is set.
    #[must_use]
    pub fn forced(self, force: bool) -> Change {
        if force { Change::Forced(Box::new(self)) } else { self }
    }

    /// Returns the change without [`Change::Forced`].
    pub fn plain(&self) -> &Change {
        match self {
            Change::Forced(change) => change.plain(),
            change => change,
        }
    }

    /// Returns whether the change is made even if another agent holds the issue.
    pub fn is_forced(&self) -> bool {
        matches!(self, Change::Forced(_) | Change::Release(_, true))
    }

    /// Returns the issue of a change that decides whether and how work on it continues. While an agent holds that issue, only
    /// that agent may make the change. Every agent may comment, label and connect issues.
    pub fn of_holder(&self) -> Option<&str> {
        match self {
            Change::Close(id, _) | Change::Reopen(id) | Change::Delete(id, _) | Change::Release(id, false) => Some(id),
            Change::Update(id, edit) if edit.status.is_some() => Some(id),
            _ => None,
        }
    }

    /// Decodes a change: `op` is the verb, `id` the issue, and the other keys are its fields.
    pub fn from_json(value: Value) -> Result<Change> {
        let Value::Object(mut fields) = value else {
            return Err(Error::invalid("a change is an object").hint(r#"{"op":"close","id":"way-1a2b"}"#));
        };
        let op: String = required(&mut fields, "op")?;
        let can_be_forced = ["update", "close", "reopen", "delete"].contains(&op.as_str());
        let force = can_be_forced && optional(&mut fields, "force")?.unwrap_or_default();
        let change = match op.as_str() {
            "add" => {
                return Ok(Change::Add(New {
                    blocked_by: optional(&mut fields, "blocked_by")?.unwrap_or_default(),
                    discovered_from: optional(&mut fields, "discovered_from")?,
                    name: optional(&mut fields, "as")?,
                    edit: edit(fields)?,
                }));
            }
            "update" => return Ok(Change::Update(required(&mut fields, "id")?, edit(fields)?).forced(force)),
            "close" => Change::Close(required(&mut fields, "id")?, optional(&mut fields, "reason")?),
            "reopen" => Change::Reopen(required(&mut fields, "id")?),
            "delete" => Change::Delete(required(&mut fields, "id")?, optional(&mut fields, "reason")?),
            "claim" => Change::Claim(optional(&mut fields, "id")?),
            "release" => {
                Change::Release(required(&mut fields, "id")?, optional(&mut fields, "force")?.unwrap_or_default())
            }
            "comment" => Change::Comment(required(&mut fields, "id")?, required(&mut fields, "text")?),
            "depend" => Change::Depend(
                required(&mut fields, "id")?,
                required(&mut fields, "on")?,
                kind(&mut fields)?.unwrap_or(DependencyKind::Blocks),
            ),
            "undepend" => {
                Change::Undepend(required(&mut fields, "id")?, required(&mut fields, "on")?, kind(&mut fields)?)
            }
            other => {
                let error = Error::invalid(format!("unknown change {other:?}"));
                return Err(match nearest(other, Self::VERBS.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("use one of {}", Self::VERBS.join(", "))),
                });
            }
        };
        match fields.keys().next() {
            Some(key) => Err(Error::invalid(format!("{op} has no field {key:?}"))),
            None => Ok(change.forced(force)),
        }
    }
}

fn optional<T: serde::de::DeserializeOwned>(fields: &mut Map<String, Value>, key: &str) -> Result<Option<T>> {
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            serde_json::from_value(value).map(Some).map_err(|error| Error::invalid(format!("{key}: {error}")))
        }
    }
}

fn required<T: serde::de::DeserializeOwned>(fields: &mut Map<String, Value>, key: &str) -> Result<T> {
    optional(fields, key)?.ok_or_else(|| Error::invalid(format!("the field {key:?} is missing")))
}

fn kind(fields: &mut Map<String, Value>) -> Result<Option<DependencyKind>> {
    optional::<String>(fields, "type")?.map(|name| DependencyKind::parse(&name)).transpose()
}

fn edit(fields: Map<String, Value>) -> Result<Edit> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| Error::invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_verb_is_decoded_to_a_change_with_that_verb() {
        for verb in Change::VERBS {
            let mut object = json!({ "op": verb, "id": "a", "on": "b", "text": "t", "title": "x" });
            let fields = object.as_object_mut().unwrap();
            let keys: &[&str] = match *verb {
                "add" => &["op", "title"],
                "update" => &["op", "id", "title"],
                "comment" => &["op", "id", "text"],
                "depend" | "undepend" => &["op", "id", "on"],
                _ => &["op", "id"],
            };
            fields.retain(|key, _| keys.contains(&key.as_str()));
            assert_eq!(Change::from_json(object).unwrap().verb(), *verb);
        }
    }

    #[test]
    fn an_invalid_change_gives_a_telling_error() {
        let message = |value: Value| Change::from_json(value).unwrap_err().full_message();
        assert_eq!(message(json!([])), "a change is an object");
        assert_eq!(message(json!({ "id": "a" })), "the field \"op\" is missing");
        assert_eq!(message(json!({ "op": "close" })), "the field \"id\" is missing");
        assert_eq!(message(json!({ "op": "close", "id": "a", "rason": "x" })), "close has no field \"rason\"");
        assert!(message(json!({ "op": "add", "titel": "x" })).starts_with("unknown field `titel`"));
        assert!(message(json!({ "op": "add", "title": "x", "priority": 7 })).contains("is not a priority"));
        assert_eq!(Change::from_json(json!({ "op": "clsoe" })).unwrap_err().hints(), ["did you mean close?"]);
    }

    #[test]
    fn the_fields_of_an_addition_are_those_of_a_record() {
        let change = Change::from_json(json!({
            "op": "add", "title": "t", "type": "bug", "priority": "P1", "labels": ["x"], "parent": "p",
            "defer_until": "2026-12-01", "blocked_by": ["$a"], "as": "b",
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
    }
}
