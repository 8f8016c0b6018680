//! What can be asked about issues, by name and with JSON, for the ways in that carry JSON.
//!
//! They stand beside the operations of the store, and are not in its table: issues live in ledgers. Where both are
//! concerned, as when an issue is taken to work on, an operation here does what the command of that name does.

mod changes;
mod questions;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use waypost_core::ledger::record::Record;
use waypost_core::op::Effect;
use waypost_core::{Error, Result, path_text};
use waypost_ledger::{Index, Summary};

use crate::claims;
use crate::history;
use crate::ledger::{Change, Ledger};
use crate::merge_driver::ensure_driver;
use crate::place::Place;
use crate::prune::prune_large;
use changes::{
    AddIssue, ClaimIssue, CloseIssue, CommentIssue, DeleteIssue, DependIssue, ReleaseIssue, ReopenIssue, UndependIssue,
    UpdateIssue,
};
use questions::{BlockedIssues, ExplainIssue, ListIssues, ReadyIssues, SearchIssues, ShowIssue};

/// One row of the table of operations on issues.
pub struct AppEntry {
    /// Its name on every surface.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Whether it writes.
    pub effect: Effect,
    /// Runs it in the name of whoever uses the place, with its arguments and its answer as JSON. With a key, what it adds
    /// is added once.
    ///
    /// An answer is an object. If something was odd but not wrong, it has `warnings`.
    pub run: fn(&Place, Value, Option<&str>) -> Result<Value>,
    /// Describes its arguments.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Describes its answer.
    pub answer_schema: fn(&mut SchemaGenerator) -> Schema,
}

const fn entry<Q: Question>() -> AppEntry {
    AppEntry {
        name: Q::NAME,
        summary: Q::SUMMARY,
        effect: Q::EFFECT,
        run: run::<Q>,
        schema: SchemaGenerator::subschema_for::<Q>,
        answer_schema: SchemaGenerator::subschema_for::<Q::Answer>,
    }
}

/// All operations on issues.
pub static TABLE: &[AppEntry] = &[
    entry::<AddIssue>(),
    entry::<BlockedIssues>(),
    entry::<ClaimIssue>(),
    entry::<CloseIssue>(),
    entry::<CommentIssue>(),
    entry::<DeleteIssue>(),
    entry::<DependIssue>(),
    entry::<ExplainIssue>(),
    entry::<ListIssues>(),
    entry::<ReadyIssues>(),
    entry::<ReleaseIssue>(),
    entry::<ReopenIssue>(),
    entry::<SearchIssues>(),
    entry::<ShowIssue>(),
    entry::<UndependIssue>(),
    entry::<UpdateIssue>(),
];

/// Returns the operation with this name.
pub fn named(name: &str) -> Option<&'static AppEntry> {
    TABLE.iter().find(|entry| entry.name == name)
}

/// Makes several changes, and returns each issue as it is then, with the number of its ledger.
///
/// The first one in a clone also tells git how to merge the ledger. What belongs to the holder of an issue is refused to
/// others, unless it is forced. Leases end on what was given back or is over.
pub fn apply(place: &Place, ledger: &Ledger, changes: &[Change]) -> Result<Vec<(Record, usize)>> {
    let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
    apply_placed(place, ledger, &unplaced, false)
}

/// Does what [`apply`] does with changes that have a place in a file, or only sees whether they are possible.
pub fn apply_placed(
    place: &Place,
    ledger: &Ledger,
    changes: &[(&str, &Change)],
    rehearse: bool,
) -> Result<Vec<(Record, usize)>> {
    let records = ledger.apply_placed(changes, rehearse, |issues| claims::require_claims(place, issues))?;
    ensure_driver(place);
    if rehearse {
        return Ok(records);
    }
    let ends = |change: &Change| matches!(change, Change::Close(..) | Change::Delete(..) | Change::Release(..));
    let ended: Vec<(String, bool)> = changes
        .iter()
        .zip(&records)
        .filter(|((_, change), _)| ends(change.plain()))
        .filter_map(|((_, change), (record, _))| Some((record.text("id")?, change.is_forced())))
        .collect();
    if !ended.is_empty() {
        claims::release(place, &ended, "given back, or over")?;
    }
    Ok(records)
}

/// Returns a record as others see it: all its fields as they are spelled, and where it is from.
pub fn shown(ledger: &Ledger, record: &Record, number: usize) -> Result<Record> {
    let mut shown = record.clone();
    let repository = ledger.repos().get(number).map(|repo| path_text::to_text(repo.path()));
    shown.set("source_repo", &repository)?;
    Ok(shown)
}

/// The warning about a ledger with conflict markers.
pub const CONFLICTED: &str = "the ledger has conflict markers and is read as if merged; run way resolve";

/// Returns the warning about lines of the ledger that cannot be read, if there are any.
pub fn unread_warning(lines: usize) -> Option<String> {
    match lines {
        0 => None,
        1 => Some("1 line of the ledger cannot be read; run way doctor".to_owned()),
        lines => Some(format!("{lines} lines of the ledger cannot be read; run way doctor")),
    }
}

/// Something that can be asked about issues.
trait Question: DeserializeOwned + JsonSchema {
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const EFFECT: Effect;
    type Answer: Serialize + JsonSchema;

    /// Returns the only repository that it is about, if it is about one.
    fn repo(&self) -> Option<&str>;

    fn run(self, desk: &mut IssueContext<'_>) -> Result<Self::Answer>;
}

fn run<Q: Question>(place: &Place, arguments: Value, key: Option<&str>) -> Result<Value> {
    let question: Q = serde_json::from_value(arguments)
        .map_err(|error| Error::invalid(format!("wrong arguments for {}", Q::NAME)).because(error))?;
    let (ledger, unreachable) = Ledger::narrowed(place, question.repo(), &[])?;
    let warnings = place.warnings.iter().cloned().chain(unreachable).collect();
    let mut desk = IssueContext { place, ledger: ledger.once(key), warnings };
    let answer = question.run(&mut desk)?;
    let mut answer = serde_json::to_value(answer)
        .map_err(|error| Error::internal(format!("the answer of {} is not JSON", Q::NAME)).because(error))?;
    if let (false, Value::Object(fields)) = (desk.warnings.is_empty(), &mut answer) {
        fields.insert("warnings".to_owned(), desk.warnings.into());
    }
    Ok(answer)
}

/// The ledgers that a request is about, and what is odd about them.
struct IssueContext<'a> {
    place: &'a Place,
    ledger: Ledger,
    warnings: Vec<String>,
}

impl IssueContext<'_> {
    /// Asks about the issues, and notes if a part of the ledger could not be read.
    fn with_index<T>(&mut self, mut read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let (answer, unread, conflicted) =
            self.ledger.with_index(|index| Ok((read(index)?, index.unread()?, index.conflicted()?)))?;
        if conflicted > 0 {
            self.warnings.push(CONFLICTED.to_owned());
        }
        self.warnings.extend(unread_warning(unread));
        Ok(answer)
    }

    /// Lists what fits, at most so many, or all for 0. Tells whether there are more.
    fn list(
        &mut self,
        limit: usize,
        mut ask: impl FnMut(&Index, Option<usize>) -> Result<Vec<Summary>>,
    ) -> Result<IssueList> {
        let asked = (limit > 0).then(|| limit.saturating_add(1));
        let mut records = self.with_index(|index| {
            ask(index, asked)?.iter().map(|summary| index.record(summary)).collect::<Result<Vec<_>>>()
        })?;
        let has_more = limit > 0 && records.len() > limit;
        if has_more {
            records.truncate(limit);
        }
        let issues = records.iter().map(|(record, number)| self.shown(record, *number)).collect::<Result<_>>()?;
        Ok(IssueList { issues, has_more })
    }

    /// Makes a change, and returns the issue as it is then.
    fn change(&mut self, change: Change) -> Result<IssueRecord> {
        let records = apply(self.place, &self.ledger, &[change])?;
        for error in prune_large(self.place, &self.ledger).into_iter().filter_map(Result::err) {
            self.warnings.push(format!("the ledger could not be pruned: {}", error.full_message()));
        }
        match records.first() {
            Some((record, number)) => self.shown(record, *number),
            None => Err(Error::internal("a change was made to no issue")),
        }
    }

    /// Returns an issue that is in no ledger any more, but was.
    fn gone(&mut self, error: Error, id: &str) -> Result<IssueRecord> {
        let (record, commit) = history::find_after_error(error, self.place, id)?;
        let commit = commit.short_id();
        self.warnings.push(format!("{id} is not in the ledger any more; last in commit {commit}"));
        self.shown(&record, 0)
    }

    fn shown(&self, record: &Record, number: usize) -> Result<IssueRecord> {
        let line = shown(&self.ledger, record, number)?.to_line();
        let record = serde_json::from_str(&line);
        record.map(IssueRecord).map_err(|error| Error::internal("a record is not JSON").because(error))
    }
}

/// An issue: all its fields as they are spelled in its ledger, and where it is from.
#[derive(Clone, Debug, Serialize)]
struct IssueRecord(Map<String, Value>);

impl JsonSchema for IssueRecord {
    fn schema_name() -> Cow<'static, str> {
        "Issue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "An issue: all its fields as they are spelled in its ledger, and where it is from.",
            "required": ["id"],
            "properties": {
                "id": { "type": "string" },
                "title": { "type": "string" },
                "status": { "type": "string" },
                "source_repo": { "type": ["string", "null"] },
            },
            "additionalProperties": true,
        })
    }
}

/// Issues.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct IssueList {
    /// The issues.
    issues: Vec<IssueRecord>,
    /// Whether there are more.
    has_more: bool,
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_stand_once_and_are_not_those_of_the_store() {
        for (at, entry) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|other| other.name < entry.name), "{} is not in order", entry.name);
            assert!(waypost_core::op::named(entry.name).is_none(), "{} is of the store", entry.name);
        }
    }

    #[test]
    fn every_operation_describes_its_arguments_and_its_answer() {
        for entry in TABLE {
            let mut generator =
                SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
            for schema in [(entry.schema)(&mut generator), (entry.answer_schema)(&mut generator)] {
                assert_eq!(schema.get("type").and_then(Value::as_str), Some("object"), "{}", entry.name);
                assert!(schema.get("description").is_some(), "{}", entry.name);
            }
            let arguments = (entry.schema)(&mut generator);
            let properties = arguments.get("properties").and_then(Value::as_object).unwrap();
            assert!(properties.contains_key("repo") && !properties.contains_key("unknown"), "{}", entry.name);
        }
    }

    #[test]
    fn an_issue_lives_through_its_operations() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run = |name: &str, arguments: Value| (named(name).unwrap().run)(&place, arguments, None);
        let id = |answer: &Value| answer["id"].as_str().unwrap().to_owned();

        let first = id(&run("add_issue", json!({ "title": "Lay the base", "priority": 1 })).unwrap());
        let second = id(&run("add_issue", json!({ "title": "Build on it", "blocked_by": [first] })).unwrap());
        let ready = run("ready_issues", json!({})).unwrap();
        assert_eq!((ready["issues"].as_array().unwrap().len(), &ready["issues"][0]["id"]), (1, &json!(first)));
        let shown = run("explain_issue", json!({ "issue": second })).unwrap();
        assert_eq!((&shown["ready"], &shown["reasons"].as_array().unwrap().len()), (&json!(false), &1));
        assert_eq!(run("explain_issue", json!({ "issue": first })).unwrap()["waiting"], json!([second]));
        assert_eq!(run("show_issue", json!({ "issue": first })).unwrap()["title"], json!("Lay the base"));
        assert_eq!(run("blocked_issues", json!({})).unwrap()["issues"][0]["issue"]["id"], json!(second));
        assert_eq!(run("search_issues", json!({ "text": "build" })).unwrap()["issues"][0]["id"], json!(second));
        assert_eq!(run("list_issues", json!({ "limit": 1 })).unwrap()["has_more"], json!(true));

        let changed = run("update_issue", json!({ "issue": second, "labels": ["x"], "due_at": "2026-12-01" })).unwrap();
        assert_eq!((&changed["labels"], &changed["due_at"]), (&json!(["x"]), &json!("2026-12-01T00:00:00.000Z")));
        assert!(run("update_issue", json!({ "issue": second, "due_at": "" })).unwrap()["due_at"].is_null());
        let closed = run("close_issue", json!({ "issue": first, "reason": "done" })).unwrap();
        assert_eq!(closed["close_reason"], json!("done"));
        assert_eq!(run("ready_issues", json!({})).unwrap()["issues"][0]["id"], json!(second));
        let again = run("depend_issue", json!({ "issue": second, "on": first, "kind": "related" })).unwrap();
        assert_eq!(again["dependencies"].as_array().unwrap().len(), 2);

        for (name, arguments, message) in [
            ("ready_issues", json!({ "limmit": 1 }), "wrong arguments for ready_issues: unknown field `limmit`"),
            ("add_issue", json!({ "title": "x", "titel": "x" }), "add_issue takes no \"titel\""),
            ("add_issue", json!({ "title": "x", "priority": 7 }), "7"),
            ("add_issue", json!({}), "wrong arguments for add_issue: missing field `title`"),
            ("update_issue", json!({ "issue": second }), "nothing to change was given"),
            ("update_issue", json!({ "issue": second, "due_at": "soon" }), "\"soon\" is not a time"),
            ("search_issues", json!({ "text": " " }), "a search needs words"),
        ] {
            let error = run(name, arguments).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Invalid, "{message}");
            assert!(error.full_message().contains(message), "{}", error.full_message());
        }
        assert_eq!(run("show_issue", json!({ "issue": "nothing" })).unwrap_err().kind(), crate::Kind::NotFound);
    }

    /// HTTP and MCP carry these operations.
    #[test]
    fn operations_on_an_issue_that_another_agent_holds_are_refused() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap();
        let run = |agent: &str, name: &str, arguments: Value| {
            (named(name).unwrap().run)(&place.used_by(agent, Some(agent)), arguments, None)
        };
        let id = run("ann", "add_issue", json!({ "title": "Fix it" })).unwrap()["id"].clone();
        run("ann", "claim_issue", json!({ "issue": id })).unwrap();
        for (name, arguments) in [
            ("close_issue", json!({ "issue": id })),
            ("delete_issue", json!({ "issue": id })),
            ("reopen_issue", json!({ "issue": id })),
            ("release_issue", json!({ "issue": id })),
            ("update_issue", json!({ "issue": id, "status": "open" })),
        ] {
            let error = run("bob", name, arguments).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Conflict, "{name}: {}", error.full_message());
        }
        run("bob", "comment_issue", json!({ "issue": id, "text": "soon?" })).unwrap();
        run("bob", "release_issue", json!({ "issue": id, "force": true })).unwrap();
        run("bob", "claim_issue", json!({ "issue": id })).unwrap();
        let error = run("ann", "close_issue", json!({ "issue": id })).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::LeaseLost, "{}", error.full_message());
        run("bob", "close_issue", json!({ "issue": id })).unwrap();
    }

    /// As if the process had ended before anybody could remember the answer.
    #[test]
    fn what_is_added_with_a_key_is_added_once_whatever_is_remembered() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run =
            |name: &str, arguments: Value, key: &str| (named(name).unwrap().run)(&place, arguments, Some(key)).unwrap();
        let add = |title: &str, key: &str| run("add_issue", json!({ "title": title }), key);
        let first = add("Lay the base", "k1");
        assert_eq!(add("Lay the base", "k1"), first);
        assert_ne!(add("Lay the base", "k2")["id"], first["id"]);
        assert_ne!(add("Something else", "k1")["id"], first["id"], "ids can be the same by chance");
        let comment = |key: &str| run("comment_issue", json!({ "issue": first["id"], "text": "soon" }), key);
        assert_eq!(comment("k3"), comment("k3"));
        assert_eq!(comment("k4")["comments"].as_array().unwrap().len(), 2);
        let all = (named("list_issues").unwrap().run)(&place, json!({}), None).unwrap();
        assert_eq!(all["issues"].as_array().unwrap().len(), 3);
    }
}
