//! The differences between two versions of a record, field by field, for people and for programs.
//!
//! Spelling does not count: an escape written differently, or an empty value instead of a missing one. Labels,
//! dependencies and comments are sets, so their order does not count either.

use std::fmt;

use serde::ser::{Error as _, Serialize, SerializeStruct, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::record::{KEYS, Record};

/// A longer value is cut in a description.
const MAX_SHOWN_CHARS: usize = 60;

/// Text fields that are too long for a one-line description.
const LONG_FIELDS: &[&str] = &["description", "design", "acceptance_criteria", "notes"];

/// Fields that every change of the status also sets.
const IMPLIED_BY_STATUS: &[&str] = &["closed_at", "deleted_at", "deleted_by"];

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    subject: Subject,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// The record as a whole.
    Issue,
    /// One of its comments.
    Comment,
    /// A field.
    Field(String),
}

/// Returns the differences from one version to the next. `None` means that the file had no such record.
pub fn between(before: Option<&Record>, after: Option<&Record>) -> Vec<Change> {
    let (Some(before), Some(after)) = (before, after) else {
        let whole =
            Change { subject: Subject::Issue, from: before.map(Record::to_line), to: after.map(Record::to_line) };
        return if whole.from == whole.to { Vec::new() } else { vec![whole] };
    };
    let mut keys: Vec<&str> = KEYS.to_vec();
    for (key, _) in after.fields().chain(before.fields()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut changes: Vec<Change> = keys.iter().flat_map(|key| of_field(key, before, after)).collect();
    if changes.iter().any(|change| change.field() == "status") {
        changes.retain(|change| !IMPLIED_BY_STATUS.contains(&change.field()));
    }
    // Every change sets `updated_at`, and merges write `changed_at`: listed only if nothing else changed.
    let is_substantial = |change: &Change| !["updated_at", "changed_at"].contains(&change.field());
    if changes.iter().any(is_substantial) {
        changes.retain(is_substantial);
    }
    changes
}

impl Change {
    /// A field that has this value now; the previous value is unknown.
    pub fn to_text(field: &str, text: &str) -> Change {
        let to = Some(Value::from(text).to_string());
        Change { subject: Subject::Field(field.to_owned()), from: None, to }
    }

    /// Returns the field's name; `issue` for the record as a whole.
    pub fn field(&self) -> &str {
        match &self.subject {
            Subject::Issue => "issue",
            Subject::Comment => "comments",
            Subject::Field(field) => field,
        }
    }

    /// Tells whether two changes set the same value, whatever the previous values were.
    pub fn ends_like(&self, other: &Change) -> bool {
        self.subject == other.subject && self.to == other.to
    }
}

/// One line of text: `status: open → closed`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (value(self.from.as_deref()), value(self.to.as_deref()));
        match &self.subject {
            Subject::Issue => f.write_str(if to.is_null() { "removed from the file" } else { "added" }),
            Subject::Comment => {
                let of = |comment: &Value, key: &str| shortened(comment[key].as_str().unwrap_or("-"));
                match (from.is_null(), to.is_null()) {
                    (true, _) => write!(f, "comment by {}: {}", of(&to, "author"), of(&to, "text")),
                    (_, true) => write!(f, "comment by {} removed: {}", of(&from, "author"), of(&from, "text")),
                    _ => write!(f, "comment by {} changed: {}", of(&to, "author"), of(&to, "text")),
                }
            }
            Subject::Field(field) => match field.as_str() {
                "status" if to == "tombstone" => f.write_str("deleted"),
                "labels" | "dependencies" => {
                    let (from, to) = (members(&from), members(&to));
                    let added = to.iter().filter(|member| !from.contains(member)).map(|member| format!(" +{member}"));
                    let gone = from.iter().filter(|member| !to.contains(member)).map(|member| format!(" -{member}"));
                    let moves: String = added.chain(gone).collect();
                    if moves.is_empty() { write!(f, "{field} changed") } else { write!(f, "{field}:{moves}") }
                }
                long if LONG_FIELDS.contains(&long) || !is_short(&from) || !is_short(&to) => {
                    match (from.is_null(), to.is_null()) {
                        (true, _) => write!(f, "{field} added"),
                        (_, true) => write!(f, "{field} removed"),
                        _ => write!(f, "{field} changed"),
                    }
                }
                _ => write!(f, "{field}: {} → {}", spelled(self.from.as_deref()), spelled(self.to.as_deref())),
            },
        }
    }
}

/// For programs: the field, and both values in their original spelling.
impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = |spelling: &Option<String>| {
            spelling.clone().map(RawValue::from_string).transpose().map_err(S::Error::custom)
        };
        let mut change = serializer.serialize_struct("Change", 3)?;
        change.serialize_field("field", self.field())?;
        change.serialize_field("from", &raw(&self.from)?)?;
        change.serialize_field("to", &raw(&self.to)?)?;
        change.end()
    }
}

fn of_field(key: &str, before: &Record, after: &Record) -> Vec<Change> {
    // Some tools write all their columns, with these for missing values.
    let set =
        |record: &Record| record.raw(key).filter(|raw| !["null", "\"\"", "[]", "{}"].contains(raw)).map(str::to_owned);
    let (from, to) = (set(before), set(after));
    if from == to || is_same(from.as_deref(), to.as_deref()) {
        return Vec::new();
    }
    if key == "comments"
        && let (Some(before), Some(after)) = (items(from.as_deref()), items(to.as_deref()))
    {
        return of_comments(&before, &after);
    }
    if key == "labels" || key == "dependencies" {
        let sorted = |spelling: Option<&str>| {
            let mut items = items(spelling)?;
            items.sort();
            Some(items)
        };
        if let (Some(before), Some(after)) = (sorted(from.as_deref()), sorted(to.as_deref()))
            && before == after
        {
            return Vec::new();
        }
    }
    vec![Change { subject: Subject::Field(key.to_owned()), from, to }]
}

fn of_comments(before: &[String], after: &[String]) -> Vec<Change> {
    // A comment without an id is identified by its whole value.
    let name = |comment: &String| match &value(Some(comment))["id"] {
        Value::Null => comment.clone(),
        id => id.to_string(),
    };
    let in_list = |list: &[String], comment: &String| list.iter().find(|known| name(known) == name(comment)).cloned();
    let mut changes = Vec::new();
    for comment in after {
        let from = in_list(before, comment);
        if !from.as_deref().is_some_and(|from| is_same(Some(from), Some(comment))) {
            changes.push(Change { subject: Subject::Comment, from, to: Some(comment.clone()) });
        }
    }
    for comment in before.iter().filter(|comment| in_list(after, comment).is_none()) {
        changes.push(Change { subject: Subject::Comment, from: Some(comment.clone()), to: None });
    }
    changes
}

/// Tells whether two spellings mean the same. Numbers are compared as text, because long ones fit no type.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one == other };
    let (read, other_read) = (value(Some(one)), value(Some(other)));
    one == other || (read == other_read && !read.is_number())
}

fn value(spelling: Option<&str>) -> Value {
    spelling.and_then(|spelling| serde_json::from_str(spelling).ok()).unwrap_or_default()
}

/// The spellings of the items of a list; a missing list is empty.
fn items(spelling: Option<&str>) -> Option<Vec<String>> {
    let Some(spelling) = spelling else { return Some(Vec::new()) };
    let items: Vec<&RawValue> = serde_json::from_str(spelling).ok()?;
    Some(items.iter().map(|item| item.get().to_owned()).collect())
}

/// The names of the members of a set: labels, or dependencies with their kind.
fn members(set: &Value) -> Vec<String> {
    let name = |item: &Value| match (item.as_str(), item["depends_on_id"].as_str()) {
        (Some(label), _) => label.to_owned(),
        (None, Some(on)) => format!("{} {on}", item["type"].as_str().unwrap_or("blocks")),
        (None, None) => item.to_string(),
    };
    set.as_array().map(|items| items.iter().map(name).collect()).unwrap_or_default()
}

fn is_short(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => !text.contains('\n'),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// A value for people: a string without quotes, `-` for a missing value.
fn spelled(spelling: Option<&str>) -> String {
    match (spelling, value(spelling)) {
        (None, _) => "-".to_owned(),
        (Some(_), Value::String(text)) => shortened(&text),
        (Some(spelling), _) => shortened(spelling),
    }
}

/// The beginning of a text as one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(line: &str) -> Record {
        Record::parse(line).unwrap()
    }

    fn words(before: &str, after: &str) -> Vec<String> {
        between(Some(&record(before)), Some(&record(after))).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_are_listed_in_our_order_with_unknown_fields_last() {
        let before = r#"{"theirs":1,"id":"a","title":"Old","status":"open","labels":["later","x"],"description":"d","priority":2,"odd":{"a":1}}"#;
        let after = r#"{"theirs":2,"id":"a","title":"New","status":"closed","labels":["x","urgent"],"description":"e","priority":0,"assignee":"me","odd":{"a":2},"closed_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","close_reason":"done"}"#;
        assert_eq!(
            words(before, after),
            [
                "title: Old → New",
                "description changed",
                "status: open → closed",
                "priority: 2 → 0",
                "assignee: - → me",
                "close_reason: - → done",
                "labels: +urgent -later",
                "theirs: 1 → 2",
                "odd changed",
            ]
        );
    }

    #[test]
    fn comments_and_dependencies_are_listed_one_by_one() {
        let before = r#"{"id":"a","comments":[{"id":1,"author":"x","text":"old"},{"id":2,"author":"y","text":"gone"}],"dependencies":[{"depends_on_id":"b","type":"related"}]}"#;
        let after = format!(
            r#"{{"id":"a","comments":[{{"id":1,"author":"x","text":"new"}},{{"author":"z","text":"{}\n!"}}],"dependencies":[{{"depends_on_id":"c"}}]}}"#,
            "ä".repeat(60)
        );
        assert_eq!(
            words(before, &after),
            [
                "dependencies: +blocks c -related b".to_owned(),
                "comment by x changed: new".to_owned(),
                format!("comment by z: {}…", "ä".repeat(60)),
                "comment by y removed: gone".to_owned(),
            ]
        );
    }

    #[test]
    fn spelling_and_order_are_not_changes() {
        let before = r#"{"id":"a","title":"ü<","labels":["x","y"],"metadata":{"k":1},"assignee":null}"#;
        let after = r#"{"id": "a", "title": "\u00fc\u003c", "labels": ["y", "x"], "metadata": { "k" : 1 }, "owner": "", "comments": []}"#;
        assert_eq!(words(before, after), Vec::<String>::new());
        let long = "123456789012345678901234567890";
        assert_eq!(words(&format!(r#"{{"n":{long}}}"#), &format!(r#"{{"n":{long}1}}"#)).len(), 1);
    }

    #[test]
    fn adding_deleting_and_removing_are_described_differently() {
        let one = record(r#"{"id":"a","status":"open"}"#);
        let describe = |before, after| between(before, after).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(describe(None, Some(&one)), ["added"]);
        assert_eq!(describe(Some(&one), None), ["removed from the file"]);
        assert_eq!(describe(None, None), Vec::<String>::new());
        let deleted =
            record(r#"{"id":"a","status":"tombstone","deleted_at":"x","deleted_by":"y","delete_reason":"twice"}"#);
        assert_eq!(describe(Some(&one), Some(&deleted)), ["deleted", "delete_reason: - → twice"]);
    }

    #[test]
    fn updated_at_is_listed_only_if_nothing_else_changed() {
        assert_eq!(words(r#"{"updated_at":"1"}"#, r#"{"updated_at":"2"}"#), ["updated_at: 1 → 2"]);
        assert_eq!(words(r#"{"updated_at":"1"}"#, r#"{"updated_at":"2","title":"t"}"#), ["title: - → t"]);
    }

    #[test]
    fn json_has_both_values_in_their_original_spelling() {
        let before = record(r#"{"id":"a","n":1.0,"comments":[]}"#);
        let after = record(r#"{"id":"a","n":1.00,"comments":[{"id":1}]}"#);
        let json = serde_json::to_string(&between(Some(&before), Some(&after))).unwrap();
        assert_eq!(json, r#"[{"field":"comments","from":null,"to":{"id":1}},{"field":"n","from":1.0,"to":1.00}]"#);
        let json = serde_json::to_string(&between(None, Some(&before))).unwrap();
        assert_eq!(json, r#"[{"field":"issue","from":null,"to":{"id":"a","n":1.0,"comments":[]}}]"#);
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let key = prop::sample::select(vec!["labels", "comments", "dependencies", "status", "notes", "theirs"]);
        let value = prop::sample::select(vec![
            "null",
            "1",
            "-2.5e3",
            "\"\"",
            r#""two\nlines""#,
            "[]",
            r#"[1,"a",{}]"#,
            "[null]",
            r#"[{"id":1}]"#,
            r#"[{"id":1,"text":5}]"#,
            r#"{"k":2}"#,
            "{}",
            r#""tombstone""#,
        ]);
        proptest::collection::btree_map(key, value, 0..6).prop_map(|fields| {
            let fields: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            record(&format!("{{{}}}", fields.join(",")))
        })
    }

    proptest! {
        #[test]
        fn any_two_records_can_be_compared_and_no_record_differs_from_itself(one in any_record(), other in any_record()) {
            prop_assert!(between(Some(&one), Some(&one)).is_empty());
            let there = between(Some(&one), Some(&other));
            let back = between(Some(&other), Some(&one));
            prop_assert_eq!(there.len(), back.len());
            for change in there {
                prop_assert!(!change.to_string().contains('\n'));
                serde_json::to_string(&change).unwrap();
            }
        }
    }
}
