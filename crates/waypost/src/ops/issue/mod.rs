//! Operations on issues, called by name with JSON arguments.
//!
//! They are not in the table of the store: issues live in ledgers. Commands make the same changes through [`apply`].

pub mod batch;
mod changes;
mod queries;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use waypost_core::ledger::record::Record;
use waypost_core::op::Operation;
use waypost_core::{Error, Result, path_text};
use waypost_ledger::{Index, Summary};

use crate::claims;
use crate::history;
use crate::ledger::{Change, Ledger};
use crate::merge_driver::ensure_driver;
use crate::operation::{AppContext, AppEntry, AppOperation};
use crate::place::Place;
use crate::prune::prune_large;
use changes::{
    AddIssue, ClaimIssue, CloseIssue, CommentIssue, DeleteIssue, DependIssue, ReleaseIssue, ReopenIssue, UndependIssue,
    UpdateIssue,
};
use queries::{BlockedIssues, ExplainIssue, ListIssues, ReadyIssues, SearchIssues, ShowIssue};

/// All operations on issues.
pub static TABLE: &[AppEntry] = &[
    AppEntry::of::<AddIssue>(),
    AppEntry::of::<BlockedIssues>(),
    AppEntry::of::<ClaimIssue>(),
    AppEntry::of::<CloseIssue>(),
    AppEntry::of::<CommentIssue>(),
    AppEntry::of::<DeleteIssue>(),
    AppEntry::of::<DependIssue>(),
    AppEntry::of::<ExplainIssue>(),
    AppEntry::of::<ListIssues>(),
    AppEntry::of::<ReadyIssues>(),
    AppEntry::of::<ReleaseIssue>(),
    AppEntry::of::<ReopenIssue>(),
    AppEntry::of::<SearchIssues>(),
    AppEntry::of::<ShowIssue>(),
    AppEntry::of::<UndependIssue>(),
    AppEntry::of::<UpdateIssue>(),
];

/// The outcome of changes to issues.
pub struct Changed {
    /// Each changed issue, with the number of its ledger.
    pub records: Vec<(Record, usize)>,
    /// Number of closed issues that were pruned, because the ledger was too large.
    pub pruned: usize,
    /// Warnings: the changes were made in any case.
    pub warnings: Vec<String>,
}

/// Applies several changes: all or none. Each may have a position in a file, for error messages. A dry run only checks
/// whether they are possible.
///
/// The first change in a clone also configures git's merge driver for the ledger. Changes that only the holder of an
/// issue may make are refused to others unless forced. Closing, deleting or releasing an issue ends its lease. A ledger
/// that is too large is pruned.
pub fn apply(place: &Place, ledger: &Ledger, changes: &[(&str, &Change)], dry_run: bool) -> Result<Changed> {
    let records = ledger.apply_placed(changes, dry_run, |issues| claims::require_claims(place, issues))?;
    ensure_driver(place);
    let mut outcome = Changed { records, pruned: 0, warnings: Vec::new() };
    if dry_run {
        return Ok(outcome);
    }
    let ends_lease = |change: &Change| matches!(change, Change::Close(..) | Change::Delete(..) | Change::Release(..));
    let ended: Vec<(String, bool)> = changes
        .iter()
        .zip(&outcome.records)
        .filter(|((_, change), _)| ends_lease(change.plain()))
        .filter_map(|((_, change), (record, _))| Some((record.text("id")?, change.is_forced())))
        .collect();
    if !ended.is_empty()
        && let Err(error) = claims::release(place, &ended, "the issue was closed, deleted or released")
    {
        outcome.warnings.push(format!("the lease was not ended, and expires later: {}", error.full_message()));
    }
    for pruned in prune_large(place, ledger) {
        match pruned {
            Ok(pruned) => outcome.pruned += pruned.issues.len(),
            Err(error) => {
                outcome.warnings.push(format!("the ledger could not be pruned: {}", error.full_message()));
            }
        }
    }
    Ok(outcome)
}

/// Returns a record for output: all its fields unchanged, and its repository as `source_repo`.
pub fn shown(ledger: &Ledger, record: &Record, number: usize) -> Result<Record> {
    let mut shown = record.clone();
    let repository = ledger.repos().get(number).map(|repo| path_text::to_text(repo.path()));
    shown.set("source_repo", &repository)?;
    Ok(shown)
}

/// The warning about a ledger with conflict markers.
pub const CONFLICTED: &str = "the ledger has conflict markers and is read as if merged; run way resolve";

/// Returns the warning about unreadable lines of the ledger, if there are any.
pub fn unread_warning(lines: usize) -> Option<String> {
    match lines {
        0 => None,
        1 => Some("1 line of the ledger cannot be read; run way doctor".to_owned()),
        lines => Some(format!("{lines} lines of the ledger cannot be read; run way doctor")),
    }
}

/// Reads the index, and adds warnings about conflict markers and unreadable lines.
pub(super) fn with_index<T>(
    ledger: &Ledger,
    warnings: &mut Vec<String>,
    mut read: impl FnMut(&Index) -> Result<T>,
) -> Result<T> {
    let (answer, unread, conflicted) =
        ledger.with_index(|index| Ok((read(index)?, index.unread()?, index.conflicted()?)))?;
    if conflicted > 0 {
        warnings.push(CONFLICTED.to_owned());
    }
    warnings.extend(unread_warning(unread));
    Ok(answer)
}

/// An operation on issues.
trait IssueOperation: Operation {
    /// Returns the repository to which it is restricted, if any.
    fn repo(&self) -> Option<&str>;

    fn run(self, context: &mut IssueContext<'_>) -> Result<Self::Answer>;
}

/// An operation that makes one change to an issue.
trait IssueChange: Operation {
    /// Fields that only lines of a batch have. The schema omits them.
    const BATCH_FIELDS: &'static [&'static str] = &[];

    /// Returns the change.
    fn change(self) -> Result<Change>;
}

impl<O: IssueOperation> AppOperation for O {
    fn run(self, cx: &mut AppContext<'_>) -> Result<O::Answer> {
        let (ledger, unreachable) = Ledger::narrowed(cx.place, self.repo(), &[])?;
        let warnings = cx.place.warnings.iter().cloned().chain(unreachable).collect();
        let mut context = IssueContext { place: cx.place, ledger: ledger.with_key(cx.key), warnings };
        let answer = IssueOperation::run(self, &mut context)?;
        cx.warnings.extend(context.warnings);
        Ok(answer)
    }
}

/// The ledgers of a request, and the warnings about them.
struct IssueContext<'a> {
    place: &'a Place,
    ledger: Ledger,
    warnings: Vec<String>,
}

impl IssueContext<'_> {
    /// Reads the index, and adds warnings about conflict markers and unreadable lines.
    fn with_index<T>(&mut self, read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        with_index(&self.ledger, &mut self.warnings, read)
    }

    /// Lists at most `limit` issues, or all for 0, and returns whether there are more.
    fn list(
        &mut self,
        limit: usize,
        mut query: impl FnMut(&Index, Option<usize>) -> Result<Vec<Summary>>,
    ) -> Result<IssueList> {
        let fetched = (limit > 0).then(|| limit.saturating_add(1));
        let mut records = self.with_index(|index| {
            query(index, fetched)?.iter().map(|summary| index.record(summary)).collect::<Result<Vec<_>>>()
        })?;
        let has_more = limit > 0 && records.len() > limit;
        if has_more {
            records.truncate(limit);
        }
        let issues = records.iter().map(|(record, number)| self.shown(record, *number)).collect::<Result<_>>()?;
        Ok(IssueList { issues, has_more })
    }

    /// Applies a change, and returns the changed issue.
    fn change(&mut self, change: &Change) -> Result<IssueRecord> {
        let changed = apply(self.place, &self.ledger, &[("", change)], false)?;
        self.warnings.extend(changed.warnings);
        match changed.records.first() {
            Some((record, number)) => self.shown(record, *number),
            None => Err(Error::internal("the change returned no issue")),
        }
    }

    /// Returns an issue that was removed from the ledger, from the history of the repository.
    fn find_in_history(&mut self, error: Error, id: &str) -> Result<IssueRecord> {
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

/// An issue: all its fields as in its ledger, and its repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct IssueRecord(Map<String, Value>);

impl JsonSchema for IssueRecord {
    fn schema_name() -> Cow<'static, str> {
        "Issue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "An issue: all its fields as in its ledger, and its repository.",
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

/// A page of issues.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct IssueList {
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

    fn run_named(name: &str, place: &Place, arguments: Value, key: Option<&str>) -> Result<Value> {
        let entry = TABLE.iter().find(|entry| entry.about.name == name).unwrap();
        entry.reply(AppContext::new(place, key), arguments).map(|reply| reply.answer)
    }

    #[test]
    fn names_are_sorted_unique_and_differ_from_store_operations() {
        for (at, entry) in TABLE.iter().enumerate() {
            assert!(
                TABLE[..at].iter().all(|other| other.about.name < entry.about.name),
                "{} is not sorted",
                entry.about.name
            );
            assert!(waypost_core::op::named(entry.about.name).is_none(), "{} is a store operation", entry.about.name);
        }
    }

    #[test]
    fn every_operation_describes_its_arguments_and_its_answer() {
        for entry in TABLE {
            let mut generator =
                SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
            for schema in [(entry.about.schema)(&mut generator), (entry.about.answer_schema)(&mut generator)] {
                assert_eq!(schema.get("type").and_then(Value::as_str), Some("object"), "{}", entry.about.name);
                assert!(schema.get("description").is_some(), "{}", entry.about.name);
            }
            let arguments = (entry.about.schema)(&mut generator);
            let properties = arguments.get("properties").and_then(Value::as_object).unwrap();
            assert!(properties.contains_key("repo") && !properties.contains_key("unknown"), "{}", entry.about.name);
        }
    }

    #[test]
    fn operations_cover_the_life_of_an_issue() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run = |name: &str, arguments: Value| run_named(name, &place, arguments, None);
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
            ("add_issue", json!({ "title": "x", "titel": "x" }), "unknown field \"titel\" for add_issue"),
            ("add_issue", json!({ "title": "x", "priority": 7 }), "7"),
            ("add_issue", json!({}), "wrong arguments for add_issue: missing field `title`"),
            ("update_issue", json!({ "issue": second }), "no fields to change"),
            ("update_issue", json!({ "issue": second, "due_at": "soon" }), "\"soon\" is not a time"),
            ("search_issues", json!({ "text": " " }), "text must contain at least one word"),
        ] {
            let error = run(name, arguments).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Invalid, "{message}");
            assert!(error.full_message().contains(message), "{}", error.full_message());
        }
        assert_eq!(run("show_issue", json!({ "issue": "nothing" })).unwrap_err().kind(), crate::Kind::NotFound);
    }

    #[test]
    fn operations_on_an_issue_that_another_agent_holds_are_refused() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap();
        let run = |agent: &str, name: &str, arguments: Value| {
            run_named(name, &place.used_by(agent, Some(agent)), arguments, None)
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

    /// Simulates a process that ends before the answer is saved.
    #[test]
    fn additions_with_a_key_are_idempotent_without_a_saved_answer() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run = |name: &str, arguments: Value, key: &str| run_named(name, &place, arguments, Some(key)).unwrap();
        let add = |title: &str, key: &str| run("add_issue", json!({ "title": title }), key);
        let first = add("Lay the base", "k1");
        assert_eq!(add("Lay the base", "k1"), first);
        assert_ne!(add("Lay the base", "k2")["id"], first["id"]);
        assert_ne!(add("Something else", "k1")["id"], first["id"], "another request with the same key gets another id");
        let comment = |key: &str| run("comment_issue", json!({ "issue": first["id"], "text": "soon" }), key);
        assert_eq!(comment("k3"), comment("k3"));
        assert_eq!(comment("k4")["comments"].as_array().unwrap().len(), 2);
        let all = run_named("list_issues", &place, json!({}), None).unwrap();
        assert_eq!(all["issues"].as_array().unwrap().len(), 3);
    }
}
