//! Operations on issues. They are not in the table of the store: issues live in ledgers.
//!
//! Requests call them by name with JSON arguments. Commands use the same [`IssueContext`] and the same queries, and
//! print typed results.

pub mod batch;
mod budget;
mod changes;
mod proposals;
mod queries;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::ready::Reason;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Category;
use waypost_core::model::Lease;
use waypost_core::op::{Effect, Operation};
use waypost_core::page::Cursor;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result, path_text, words};
use waypost_ledger::{Index, Position, Summary, Window};

use crate::app::lazy_session::LazySession;
use crate::app::operation::{AppContext, AppEntry, AppOperation};
use crate::app::session::Warnings;
use crate::issues::claims::{self, Held};
use crate::issues::ledger::{Applied, Change, Ledger};
use crate::issues::merge_driver::ensure_driver;
use crate::issues::prune::prune_large;
use crate::machine::place::Place;
use changes::{
    AddComment, AddDependency, AddIssue, ClaimIssue, CloseIssue, ReleaseIssue, RemoveDependency, RemoveIssue,
    ReopenIssue, UpdateIssue,
};
use proposals::{AcceptIssue, ProposeIssue, RejectIssue, WithdrawIssue};
use queries::{ExplainIssue, ListBlockedIssues, ShowIssue};
pub use queries::{ListIssues, ListReadyIssues, SearchIssues};

/// All operations on issues.
pub static TABLE: &[AppEntry] = &[
    AppEntry::of::<AcceptIssue>(),
    AppEntry::of::<AddComment>(),
    AppEntry::of::<AddDependency>(),
    AppEntry::of::<AddIssue>(),
    AppEntry::of::<ClaimIssue>(),
    AppEntry::of::<CloseIssue>(),
    AppEntry::of::<ExplainIssue>(),
    AppEntry::of::<ListBlockedIssues>(),
    AppEntry::of::<ListIssues>(),
    AppEntry::of::<ListReadyIssues>(),
    AppEntry::of::<ProposeIssue>(),
    AppEntry::of::<RejectIssue>(),
    AppEntry::of::<ReleaseIssue>(),
    AppEntry::of::<RemoveDependency>(),
    AppEntry::of::<RemoveIssue>(),
    AppEntry::of::<ReopenIssue>(),
    AppEntry::of::<SearchIssues>(),
    AppEntry::of::<ShowIssue>(),
    AppEntry::of::<UpdateIssue>(),
    AppEntry::of::<WithdrawIssue>(),
];

/// The ledgers that a command or a request uses, with the state that all queries and changes need.
pub struct IssueContext {
    /// The place of the caller.
    pub place: Place,
    /// The ledgers.
    pub ledger: Ledger,
    /// The time of the request.
    pub now: Timestamp,
    /// The store.
    pub session: LazySession,
    /// The issues on which other agents hold a lease, once they are known.
    held: OnceCell<Held>,
    /// Whether pending notices were delivered.
    is_up_to_date: Cell<bool>,
    warnings: Warnings,
}

/// The outcome of changes to issues.
pub struct Changed {
    /// Each changed issue, with the number of its ledger.
    pub records: Vec<(Record, usize)>,
    /// The ids of issues that were to be closed, and were closed or deleted already.
    pub over: BTreeSet<String>,
    /// Number of closed issues that were pruned, because the ledger was too large.
    pub pruned: usize,
}

/// The issues that a query found.
pub struct FoundIssues {
    /// The issues as the index knows them.
    pub summaries: Vec<Summary>,
    /// Their records with the numbers of their ledgers, if the caller wanted them.
    pub records: Vec<(Record, usize)>,
    /// Whether there are more than the limit.
    pub has_more: bool,
    /// The position of the next page, if the caller wanted the records.
    pub next: Option<Position>,
}

/// An issue with its computed state and its related issues.
pub struct IssueDetails {
    /// Its record, with the number of its ledger.
    pub record: (Record, usize),
    /// Its fields.
    pub issue: Issue,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Reasons why it is not ready.
    pub reasons: Vec<String>,
    /// The issues it depends on, as far as they are in the ledgers.
    pub dependencies: Vec<Summary>,
    /// The issues that it blocks.
    pub waiting: Vec<Summary>,
    /// Its children.
    pub parts: Vec<Summary>,
}

/// Selects a part of a list of issues from the index.
pub type Selector<'a> = Box<dyn Fn(&Index, Window) -> Result<Vec<Summary>> + 'a>;

/// A query that lists issues.
pub trait IssueQuery {
    /// Returns the maximum number of issues.
    fn limit(&self) -> usize;

    /// Returns the position after which the list begins.
    fn after(&self) -> Option<Position> {
        None
    }

    /// Returns the position of an issue in the list; none if the list has no further pages.
    fn position(&self, _index: &Index, _issue: &Summary) -> Result<Option<Position>> {
        Ok(None)
    }

    /// Checks and prepares the query, and returns the function that runs it.
    fn selector<'a>(&'a self, context: &'a IssueContext) -> Result<Selector<'a>>;
}

impl IssueContext {
    /// Opens the ledgers of the session's place, or only that of `repo`, and those of the named repositories. Queries answer
    /// as if pending notices were delivered. Warnings are added to those of the session, also later ones.
    pub fn open(session: LazySession, repo: Option<&str>, named: &[Option<&str>]) -> Result<IssueContext> {
        let context = IssueContext::prepare(session, repo, named)?;
        context.held()?;
        Ok(context)
    }

    /// Opens ledgers, like [`IssueContext::open`], to change them: delivers pending notices first.
    pub fn open_to_change(session: LazySession, repo: Option<&str>, named: &[Option<&str>]) -> Result<IssueContext> {
        let context = IssueContext::prepare(session, repo, named)?;
        context.bring_up_to_date();
        Ok(context)
    }

    fn prepare(session: LazySession, repo: Option<&str>, named: &[Option<&str>]) -> Result<IssueContext> {
        let (place, warnings) = (session.place().clone(), session.warnings().clone());
        let (ledger, unreachable) = Ledger::narrowed(&place, repo, named)?;
        warnings.add(unreachable);
        let (now, held, is_up_to_date) = (ledger.now(), OnceCell::new(), Cell::new(false));
        Ok(IssueContext { place, ledger, now, session, held, is_up_to_date, warnings })
    }

    /// Returns the issues on which other agents hold a lease, and when it expires.
    pub fn held(&self) -> Result<&Held> {
        if let Some(held) = self.held.get() {
            return Ok(held);
        }
        let held = match self.session.open_existing()? {
            Some(mut session) => claims::held_by_others(&mut session, &self.ledger)?,
            None => Held::new(),
        };
        Ok(self.held.get_or_init(|| held))
    }

    /// Delivers pending notices to the ledgers, once.
    fn bring_up_to_date(&self) {
        if !self.is_up_to_date.replace(true) {
            claims::bring_up_to_date(&self.session, &self.ledger);
        }
    }

    /// Reads the index, and adds warnings about conflict markers and unreadable lines.
    pub fn with_index<T>(&self, read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let (answer, warnings) = read_index(&self.ledger, read)?;
        self.warnings.add(warnings);
        Ok(answer)
    }

    /// Runs a query. The records cost more than the summaries.
    pub fn find(&self, query: &impl IssueQuery, with_records: bool) -> Result<FoundIssues> {
        self.find_and(query, with_records, |_| Ok(())).map(|(found, ())| found)
    }

    /// Runs a query, and another read of the same snapshot of the index.
    pub fn find_and<T>(
        &self,
        query: &impl IssueQuery,
        with_records: bool,
        read: impl Fn(&Index) -> Result<T>,
    ) -> Result<(FoundIssues, T)> {
        let limit = query.limit();
        // One more than the limit shows whether there are more.
        let window = Window { limit: Some(limit.saturating_add(1)), after: query.after() };
        let select = query.selector(self)?;
        self.with_index(|index| {
            let mut summaries = select(index, window.clone())?;
            let has_more = summaries.len() > limit;
            summaries.truncate(limit);
            let shown = if with_records { summaries.as_slice() } else { &[] };
            let records = shown.iter().map(|summary| index.record(summary)).collect::<Result<_>>()?;
            let next = match shown.last() {
                Some(last) if has_more => query.position(index, last)?,
                _ => None,
            };
            Ok((FoundIssues { summaries, records, has_more, next }, read(index)?))
        })
    }

    /// Returns an issue with its computed state and its related issues. An issue that was removed from the ledger comes
    /// from the history of the repository.
    pub fn details(&self, id_or_prefix: &str) -> Result<IssueDetails> {
        let found = self.with_index(|index| {
            let entry = index.get_by_prefix(id_or_prefix)?;
            let id = &entry.issue.id;
            let summaries = |ids: Vec<String>| -> Result<Vec<Summary>> {
                Ok(ids.iter().map(|id| index.summary(id)).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
            };
            let reasons = self.reasons(id, entry.ledger, &index.obstacles(id, self.now)?)?;
            let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks").map(|(id, _)| id);
            Ok(IssueDetails {
                is_ready: reasons.is_empty(),
                reasons,
                dependencies: summaries(
                    entry.issue.dependencies.iter().map(|edge| edge.depends_on_id.clone()).collect(),
                )?,
                waiting: summaries(waiting.collect())?,
                parts: summaries(index.parts(id)?)?,
                record: (entry.record, entry.ledger),
                issue: entry.issue,
            })
        });
        found.or_else(|error| {
            let record = self.find_in_history(error, id_or_prefix)?;
            let (issue, _) = Issue::read(&record).ok_or_else(|| Error::internal("the record is not an issue"))?;
            let (reasons, dependencies, waiting, parts) = Default::default();
            Ok(IssueDetails { record: (record, 0), issue, is_ready: false, reasons, dependencies, waiting, parts })
        })
    }

    /// Returns the reasons why an issue of a ledger is not ready for the caller.
    pub fn reasons(&self, id: &str, ledger: usize, obstacles: &[Reason]) -> Result<Vec<String>> {
        Ok(claims::reasons(&self.ledger, ledger, self.held()?, id, obstacles))
    }

    /// Applies several changes: all or none. Each may have a position in a file, for error messages. A dry run only
    /// checks whether they are possible.
    ///
    /// The first change in a clone also configures git's merge driver for the ledger. Changes that only the holder of
    /// an issue may make are refused to others unless forced. Closing, deleting or releasing an issue ends its lease. A
    /// ledger that is too large is pruned.
    pub fn apply(&self, changes: &[(&str, &Change)], dry_run: bool) -> Result<Changed> {
        let (place, ledger) = (&self.place, &self.ledger);
        if !dry_run {
            self.bring_up_to_date();
        }
        let fence = |issues: &[String]| claims::require_claims(&self.session, issues);
        let applied = ledger.apply_placed(changes, dry_run, &self.session, fence);
        let Applied { records, over } = match applied {
            Err(error) if !dry_run => {
                Applied { records: vec![self.end_lease_without_claim(changes, error)?], ..Applied::default() }
            }
            applied => applied?,
        };
        let mut outcome = Changed { records, over, pruned: 0 };
        if dry_run {
            return Ok(outcome);
        }
        ensure_driver(place);
        self.warn_of_put_back();
        let statuses = &ledger.terms().statuses;
        let ends_lease = |change: &Change| match change {
            Change::Close(..) | Change::Delete(..) | Change::Release(..) => true,
            Change::Update(_, edit) => {
                let status = edit.status.as_ref().map(|status| statuses.spelled(status));
                status.is_some_and(|status| statuses.category(&status) != Category::Wip)
            }
            _ => false,
        };
        let ended: Vec<(String, bool)> = changes
            .iter()
            .zip(&outcome.records)
            .filter(|((_, change), _)| ends_lease(change.plain()))
            .filter_map(|((_, change), (record, _))| Some((record.text("id")?, change.is_forced())))
            .collect();
        if !ended.is_empty()
            && let Err(error) = claims::release(&self.session, &ended, "the issue was closed, deleted or released")
        {
            self.warn(format!("the lease was not ended, and expires later: {}", error.full_message()));
        }
        for pruned in prune_large(place, ledger) {
            match pruned {
                Ok(pruned) => outcome.pruned += pruned.issues.len(),
                Err(error) => self.warn(format!("the ledger could not be pruned: {}", error.full_message())),
            }
        }
        Ok(outcome)
    }

    /// Warns if this change wrote again what another program had taken back.
    fn warn_of_put_back(&self) {
        let put_back = self.ledger.take_put_back();
        if put_back > 0 {
            let changed = words::count(put_back, "issue");
            self.warn(format!("wrote changes of {changed} again that another program had taken back"));
        }
    }

    /// Ends the lease on an issue whose ledger shows no claim to release, because its status was changed or the file was
    /// restored. Returns the error if that is not the case.
    fn end_lease_without_claim(&self, changes: &[(&str, &Change)], error: Error) -> Result<(Record, usize)> {
        let [(_, change)] = changes else { return Err(error) };
        let (Kind::Conflict, Change::Release(id, force)) = (error.kind(), change.plain()) else { return Err(error) };
        let entry = self.with_index(|index| index.get_by_prefix(id))?;
        let released = [(entry.issue.id, *force || change.is_forced())];
        if claims::release(&self.session, &released, "the issue was released")? {
            Ok((entry.record, entry.ledger))
        } else {
            Err(error)
        }
    }

    /// Claims an issue, in its ledger and with a lease: the named one, else the first ready one.
    pub fn claim(&self, issue: Option<&str>, ttl_ms: Option<u64>) -> Result<((Record, usize), Lease)> {
        self.bring_up_to_date();
        let claimed = claims::claim(&self.session, &self.ledger, issue, ttl_ms)?;
        ensure_driver(&self.place);
        self.warn_of_put_back();
        Ok(claimed)
    }

    /// Returns a record for output: all its fields unchanged, and its repository as `source_repo`.
    pub fn shown(&self, record: &Record, ledger: usize) -> Result<IssueRecord> {
        let mut shown = record.clone();
        let repository = self.ledger.repos().get(ledger).map(|repo| path_text::to_text(repo.path()));
        shown.set("source_repo", &repository)?;
        Ok(IssueRecord(shown))
    }

    /// Returns records for output.
    pub fn shown_all<'a>(&self, records: impl IntoIterator<Item = &'a (Record, usize)>) -> Result<Vec<IssueRecord>> {
        records.into_iter().map(|(record, ledger)| self.shown(record, *ledger)).collect()
    }

    /// Runs a query of a request.
    fn list(&self, query: &impl IssueQuery) -> Result<IssueList> {
        check_limit(query.limit())?;
        let found = self.find(query, true)?;
        let next = found.next.map(Cursor);
        Ok(IssueList { issues: self.shown_all(&found.records)?, has_more: found.has_more, next })
    }

    /// Applies the change of a request, and returns the changed issue.
    fn change(&self, change: &Change) -> Result<IssueRecord> {
        match self.apply(&[("", change)], false)?.records.first() {
            Some((record, ledger)) => self.shown(record, *ledger),
            None => Err(Error::internal("the change returned no issue")),
        }
    }

    /// Returns an issue that was removed from the ledger, from the history of the repository.
    fn find_in_history(&self, error: Error, id: &str) -> Result<Record> {
        let (record, commit) = self.ledger.find_after_error(error, id)?;
        let how = if self.ledger.is_over(&record) { "was closed and pruned: it " } else { "" };
        self.warn(format!("{id} {how}is not in the ledger any more; last in commit {}", commit.short_id()));
        Ok(record)
    }

    fn warn(&self, warning: String) {
        self.warnings.add([warning]);
    }
}

/// Refuses a page without issues, for which no caller asks.
fn check_limit(limit: usize) -> Result<()> {
    if limit == 0 { Err(Error::invalid("limit must be at least 1")) } else { Ok(()) }
}

/// Reads the index. Returns warnings about conflict markers and unreadable lines too.
pub(super) fn read_index<T>(ledger: &Ledger, mut read: impl FnMut(&Index) -> Result<T>) -> Result<(T, Vec<String>)> {
    let (answer, damage) = ledger.with_index(|index| Ok((read(index)?, index.damage()?)))?;
    let mut warnings = Vec::new();
    if damage.conflicted_ledgers > 0 {
        warnings.push("the ledger has conflict markers and is read as if merged; run way resolve".to_owned());
    }
    if damage.taken_back > 0 {
        let changed = words::count(damage.taken_back, "issue");
        warnings.push(format!(
            "another program took back changes of {changed} that no commit has; they are shown, and the next change writes \
             them again (way restore --drop discards them)"
        ));
    }
    if damage.unread_lines > 0 {
        let lines = words::count(damage.unread_lines, "line");
        warnings.push(format!("{lines} of the ledger cannot be read; run way doctor"));
    }
    Ok((answer, warnings))
}

/// An operation on issues.
trait IssueOperation: Operation {
    /// Returns the repository to which it is restricted, if any.
    fn repo(&self) -> Option<&str>;

    fn run(self, context: &IssueContext) -> Result<Self::Answer>;
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
        let session = cx.take_session();
        session.warnings().add(cx.place.warnings.iter().cloned());
        let open = if O::EFFECT == Effect::Write { IssueContext::open_to_change } else { IssueContext::open };
        let mut context = open(session, self.repo(), &[])?;
        context.ledger = context.ledger.with_key(cx.key);
        let answer = IssueOperation::run(self, &context)?;
        cx.warnings.extend(context.warnings.take());
        Ok(answer)
    }
}

/// An issue: all its fields as spelled in its ledger, and its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueRecord(Record);

impl IssueRecord {
    /// Returns the issue as one line of JSON.
    pub fn to_line(&self) -> String {
        self.0.to_line()
    }
}

impl Serialize for IssueRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_line()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for IssueRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IssueRecord, D::Error> {
        let line = Box::<RawValue>::deserialize(deserializer)?;
        Record::parse(line.get()).map(IssueRecord).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for IssueRecord {
    fn schema_name() -> Cow<'static, str> {
        "Issue".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = |about: &str| json!({ "type": ["string", "null"], "description": about });
        let time = |about: &str| json!({ "type": ["string", "null"], "format": "date-time", "description": about });
        json_schema!({
            "type": "object",
            "description": "An issue: all its fields as in its ledger, also those of other tools, and its repository. \
                Fields without a value are left out.",
            "required": ["id", "title", "source_repo"],
            "properties": {
                "id": { "type": "string", "description": "The id, the same in all clones." },
                "title": { "type": "string", "description": "The title, one line." },
                "description": text("The problem or the goal."),
                "design": text("The planned solution."),
                "acceptance_criteria": text("The conditions for closing it."),
                "notes": text("Notes taken while working on it."),
                "status": { "type": "string", "description": "open, in_progress, blocked, closed or another word." },
                "priority": { "type": "integer", "description": "0 (highest) to 4." },
                "issue_type": { "type": "string", "description": "bug, feature, task, epic, chore or another word." },
                "assignee": text("The person or agent who works on it."),
                "owner": text("The person or agent who is responsible for it."),
                "created_at": time("Creation time."),
                "created_by": text("The author who created it."),
                "updated_at": time("Time of the last change."),
                "closed_at": time("Time of closing."),
                "close_reason": text("Reason for closing."),
                "due_at": time("Due time."),
                "defer_until": time("The time until which it is deferred."),
                "estimated_minutes": { "type": ["integer", "null"], "description": "Estimated effort." },
                "external_ref": text("The id in another tracker."),
                "labels": { "type": ["array", "null"], "items": { "type": "string" }, "description": "The labels." },
                "dependencies": {
                    "type": ["array", "null"],
                    "items": generator.subschema_for::<IssueDependency>(),
                    "description": "The issues it depends on.",
                },
                "comments": {
                    "type": ["array", "null"],
                    "items": generator.subschema_for::<IssueComment>(),
                    "description": "The comments.",
                },
                "parent_id": text("The parent issue."),
                "visibility": text("local or proposed; canonical issues have none."),
                "source_repo": text("The path of its repository."),
            },
            "additionalProperties": true,
        })
    }
}

/// A dependency in the record of an issue. Only for the description of [`IssueRecord`].
#[derive(JsonSchema)]
#[expect(dead_code, reason = "records keep the spelling of their ledger")]
struct IssueDependency {
    /// The issue itself.
    issue_id: Option<String>,
    /// The other issue.
    depends_on_id: String,
    /// blocks, parent-child, related, discovered-from or another word.
    r#type: Option<String>,
    /// Creation time.
    created_at: Option<Timestamp>,
    /// The author.
    created_by: Option<String>,
}

/// A comment in the record of an issue. Only for the description of [`IssueRecord`].
#[derive(JsonSchema)]
#[expect(dead_code, reason = "records keep the spelling of their ledger")]
struct IssueComment {
    /// Its id: text, or a number in ledgers of other tools.
    id: IssueCommentId,
    /// The author.
    author: Option<String>,
    /// The text.
    text: Option<String>,
    /// Creation time.
    created_at: Option<Timestamp>,
}

/// The id of a comment.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "records keep the spelling of their ledger")]
enum IssueCommentId {
    Text(String),
    Number(i64),
}

/// A page of issues.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IssueList {
    /// The issues.
    pub issues: Vec<IssueRecord>,
    /// Whether there are more.
    pub has_more: bool,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<Position>>,
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;
    use serde_json::Value;

    use super::*;

    fn run_named(name: &str, place: &Place, arguments: &Value, key: Option<&str>) -> Result<Value> {
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
        let place = crate::issues::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run = |name: &str, arguments: Value| run_named(name, &place, &arguments, None);
        let id = |answer: &Value| answer["id"].as_str().unwrap().to_owned();

        let first = id(&run("add_issue", json!({ "title": "Lay the base", "priority": 1 })).unwrap());
        let second = id(&run("add_issue", json!({ "title": "Build on it", "blocked_by": [first] })).unwrap());
        let ready = run("list_ready_issues", json!({})).unwrap();
        assert_eq!((ready["issues"].as_array().unwrap().len(), &ready["issues"][0]["id"]), (1, &json!(first)));
        let shown = run("explain_issue", json!({ "issue": second })).unwrap();
        assert_eq!((&shown["ready"], &shown["reasons"].as_array().unwrap().len()), (&json!(false), &1));
        assert_eq!(run("explain_issue", json!({ "issue": first })).unwrap()["waiting"], json!([second]));
        assert_eq!(run("show_issue", json!({ "issue": first })).unwrap()["title"], json!("Lay the base"));
        assert_eq!(run("list_blocked_issues", json!({})).unwrap()["issues"][0]["issue"]["id"], json!(second));
        assert_eq!(run("search_issues", json!({ "text": "build" })).unwrap()["issues"][0]["id"], json!(second));
        assert_eq!(run("list_issues", json!({ "limit": 1 })).unwrap()["has_more"], json!(true));

        let changed = run("update_issue", json!({ "issue": second, "labels": ["x"], "due_at": "2026-12-01" })).unwrap();
        assert_eq!((&changed["labels"], &changed["due_at"]), (&json!(["x"]), &json!("2026-12-01T00:00:00.000Z")));
        assert!(run("update_issue", json!({ "issue": second, "due_at": "" })).unwrap()["due_at"].is_null());
        let closed = run("close_issue", json!({ "issue": first, "reason": "done" })).unwrap();
        assert_eq!(closed["close_reason"], json!("done"));
        assert_eq!(run("list_ready_issues", json!({})).unwrap()["issues"][0]["id"], json!(second));
        let again = run("add_dependency", json!({ "issue": second, "on": first, "kind": "related" })).unwrap();
        assert_eq!(again["dependencies"].as_array().unwrap().len(), 2);

        for (name, arguments, message) in [
            (
                "list_ready_issues",
                json!({ "limmit": 1 }),
                "wrong arguments for list_ready_issues: unknown field `limmit`",
            ),
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
        let place = crate::issues::ledger::place_of(dir.path(), None).unwrap();
        let run = |agent: &str, name: &str, arguments: Value| {
            run_named(name, &place.used_by(agent, Some(agent)), &arguments, None)
        };
        let id = run("ann", "add_issue", json!({ "title": "Fix it" })).unwrap()["id"].clone();
        run("ann", "claim_issue", json!({ "issue": id })).unwrap();
        for (name, arguments) in [
            ("close_issue", json!({ "issue": id })),
            ("remove_issue", json!({ "issue": id })),
            ("reopen_issue", json!({ "issue": id })),
            ("release_issue", json!({ "issue": id })),
            ("update_issue", json!({ "issue": id, "status": "open" })),
        ] {
            let error = run("bob", name, arguments).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Conflict, "{name}: {}", error.full_message());
        }
        run("bob", "add_comment", json!({ "issue": id, "text": "soon?" })).unwrap();
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
        let place = crate::issues::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run = |name: &str, arguments: Value, key: &str| run_named(name, &place, &arguments, Some(key)).unwrap();
        let add = |title: &str, key: &str| run("add_issue", json!({ "title": title }), key);
        let first = add("Lay the base", "k1");
        assert_eq!(add("Lay the base", "k1"), first);
        assert_ne!(add("Lay the base", "k2")["id"], first["id"]);
        assert_ne!(add("Something else", "k1")["id"], first["id"], "another request with the same key gets another id");
        let comment = |key: &str| run("add_comment", json!({ "issue": first["id"], "text": "soon" }), key);
        assert_eq!(comment("k3"), comment("k3"));
        assert_eq!(comment("k4")["comments"].as_array().unwrap().len(), 2);
        let all = run_named("list_issues", &place, &json!({}), None).unwrap();
        assert_eq!(all["issues"].as_array().unwrap().len(), 3);
    }
}
