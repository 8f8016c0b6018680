//! Queries of the index.

use rusqlite::types::{ToSql, Value as SqlValue, ValueRef};
use serde_json::Value;
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::ready::{Explainer, Issues, NO_AUTO_CLAIM, Reason, Rules};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::{cycle, issue_id};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, words};

use super::counters::Kind;
use super::lines::label_to_text;
use super::rows::{labels_from_text, unite};
use super::{Failure, Index};

/// The fields of an issue that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: String,
    /// 0 (highest) to 4.
    pub priority: u8,
    /// Its type.
    pub issue_type: String,
    /// The agent or person who works on it.
    pub assignee: Option<String>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When it was last changed.
    pub updated_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// When it is due.
    pub due_at: Option<Timestamp>,
    /// The issue it is a part of.
    pub parent_id: Option<String>,
    /// Its labels.
    pub labels: Vec<String>,
    /// The number of the ledger it is in.
    pub ledger: usize,
    /// `local` or `proposed`; none for canonical issues.
    pub visibility: Option<String>,
    /// The agent or person who created it.
    pub created_by: Option<String>,
}

pub(super) const SUMMARY: &str = "issue.id, issue.title, status, priority, issue_type, assignee, created_at, updated_at, \
                                  closed_at, due_at, parent_id, labels, issue.ledger, visibility, created_by";

pub(super) fn summary(row: &rusqlite::Row<'_>) -> rusqlite::Result<Summary> {
    let moment = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis));
    Ok(Summary {
        id: row.get(0)?,
        title: row.get(1)?,
        status: row.get(2)?,
        priority: row.get(3)?,
        issue_type: row.get(4)?,
        assignee: row.get(5)?,
        created_at: moment(6)?,
        updated_at: moment(7)?,
        closed_at: moment(8)?,
        due_at: moment(9)?,
        parent_id: row.get(10)?,
        labels: labels_from_text(row.get_ref(11)?.as_str()?),
        ledger: row.get(12)?,
        visibility: row.get(13)?,
        created_by: row.get(14)?,
    })
}

/// Returns the SQL condition that an issue is not in a ledger.
fn except(ledger: Option<usize>) -> String {
    ledger.map(|ledger| format!(" AND issue.ledger <> {ledger}")).unwrap_or_default()
}

/// Returns a limit for SQL, in which a negative number means no limit.
pub(super) fn sql_limit(limit: Option<usize>) -> i64 {
    limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

/// A complete issue.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedIssue {
    /// The issue.
    pub issue: Issue,
    /// Its record.
    pub record: Record,
    /// The number of the ledger it is in.
    pub ledger: usize,
    /// Its line.
    pub raw: String,
}

/// If at least this many open issues have a label, a list in order soon finds enough of them. Otherwise the list starts
/// from the issues with the label.
const COMMON_LABEL: usize = 1_000;

/// Maximum number of values in a filter.
const MAX_FILTER_VALUES: usize = 500;

/// Selects issues for a list. An empty or `None` field does not restrict the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Has one of these statuses. If empty: is neither closed nor deleted.
    pub statuses: Vec<String>,
    /// Include closed issues. Deleted issues are only listed by their status.
    pub closed: bool,
    /// Include closed and deleted issues.
    pub deleted: bool,
    /// Has one of these types.
    pub types: Vec<String>,
    /// Has all of these labels.
    pub labels: Vec<String>,
    /// Has one of these labels.
    pub any_label: Vec<String>,
    /// Has none of these labels.
    pub without_labels: Vec<String>,
    /// Has one of these priorities.
    pub priorities: Vec<u8>,
    /// Is assigned to this agent or person. The empty text selects unassigned issues.
    pub assignee: Option<String>,
    /// Is a part of this issue. The empty text selects issues without a parent.
    pub parent: Option<String>,
    /// Has this visibility: `local`, `proposed` or `canonical`.
    pub visibility: Option<String>,
    /// Was created by this agent or person. The empty text selects issues without an author.
    pub author: Option<String>,
    /// Contains this text in its title or description, ignoring case.
    pub text: Option<String>,
    /// Was created in this range.
    pub created: Range,
    /// Was last changed in this range.
    pub updated: Range,
    /// Was closed in this range.
    pub closed_at: Range,
    /// Is due in this range.
    pub due: Range,
}

/// A range of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Start of the range, inclusive.
    pub from: Option<Timestamp>,
    /// End of the range, exclusive.
    pub until: Option<Timestamp>,
}

/// A field whose words a filter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The status.
    Status,
    /// The type.
    Type,
    /// The assignee.
    Assignee,
    /// The author.
    Author,
    /// The labels.
    Label,
}

/// The order of a list. Ties are broken by creation time, then by id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Highest priority first.
    #[default]
    Priority,
    /// Oldest first.
    Created,
    /// Last changed first.
    Updated,
    /// Last closed first.
    Closed,
    /// Earliest due date first.
    Due,
    /// By id.
    Id,
    /// By title.
    Title,
}

impl Field {
    fn column(self) -> &'static str {
        match self {
            Field::Status => "status",
            Field::Type => "issue_type",
            Field::Assignee => "assignee",
            Field::Author => "created_by",
            Field::Label => "labels",
        }
    }
}

impl Sort {
    /// Parses the name of a sort key.
    pub fn parse(name: &str) -> Result<Sort> {
        Ok(match name {
            "priority" => Sort::Priority,
            "created" => Sort::Created,
            "updated" => Sort::Updated,
            "closed" => Sort::Closed,
            "due" => Sort::Due,
            "id" => Sort::Id,
            "title" => Sort::Title,
            _ => {
                return Err(Error::invalid(format!("unknown sort key {name:?}"))
                    .hint("use priority, created, updated, closed, due, id or title"));
            }
        })
    }
}

impl Filter {
    /// Returns whether a list with this filter and order is faster with the indexes of [`crate::Ledgers::index_lists`].
    pub fn uses_lists(&self, sort: Sort) -> bool {
        let filters = [&self.statuses, &self.types, &self.labels, &self.any_label];
        filters.iter().any(|values| !values.is_empty())
            || self.assignee.is_some()
            || self.closed_at != Range::default()
            || matches!(sort, Sort::Created | Sort::Updated | Sort::Closed)
    }

    /// Returns the filter with the prefix of the parent's id expanded to the full id.
    pub fn with_full_parent(&self, index: &Index) -> Result<Filter> {
        let parent = match self.parent.as_deref() {
            Some(prefix) if !prefix.is_empty() => Some(index.find(prefix)?),
            other => other.map(str::to_owned),
        };
        Ok(Filter { parent, ..self.clone() })
    }
}

impl Sort {
    /// Returns the sort keys of a list.
    pub fn order(self, reverse: bool) -> Order {
        let (column, is_descending) = match self {
            Sort::Priority => ("priority", false),
            Sort::Created => ("created_at", false),
            Sort::Updated => ("updated_at", true),
            Sort::Closed => ("closed_at", true),
            Sort::Due => ("due_at", false),
            Sort::Id => ("issue.id", false),
            Sort::Title => ("issue.title COLLATE NOCASE", false),
        };
        let first = (self == Sort::Due).then_some(("(due_at IS NULL)", false));
        let key = (column, is_descending != reverse);
        // A key that is repeated would keep SQLite from using an index.
        let ties = [("created_at", false), ("issue.id", false)].into_iter().filter(|(tie, _)| *tie != column);
        Order(first.into_iter().chain([key]).chain(ties).collect())
    }
}

/// The order of a list: its sort keys, and whether each is descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(Vec<(&'static str, bool)>);

impl Order {
    /// Returns the order of ready issues.
    pub fn of_ready() -> Order {
        Order::ascending(&["urgency", "priority", "created_at", "issue.id"])
    }

    /// Returns the order of blocked issues.
    pub fn of_blocked() -> Order {
        Order::ascending(&["priority", "created_at", "issue.id"])
    }

    pub(super) fn ascending(keys: &[&'static str]) -> Order {
        Order(keys.iter().map(|key| (*key, false)).collect())
    }

    pub(super) fn sql(&self) -> String {
        let keys =
            self.0.iter().map(|(key, is_descending)| format!("{key}{}", if *is_descending { " DESC" } else { "" }));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// Returns the keys as columns.
    pub(super) fn columns(&self) -> String {
        self.0.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ")
    }
}

/// The values of the sort keys of an issue in a list.
pub type Position = Vec<Value>;

/// The part of a list that a caller wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The maximum number of issues; all without it.
    pub limit: Option<usize>,
    /// The position after which it begins.
    pub after: Option<Position>,
}

impl From<Option<usize>> for Window {
    fn from(limit: Option<usize>) -> Window {
        Window { limit, after: None }
    }
}

/// Reads one value of a position.
pub(super) fn position_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
        // No sort key has another type.
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
    }
}

/// Numbers of issues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All issues by status.
    pub by_status: Vec<(String, usize)>,
    /// Open issues by type.
    pub open_by_type: Vec<(String, usize)>,
    /// Open issues by priority.
    pub open_by_priority: Vec<(u8, usize)>,
    /// Ready issues.
    pub ready: usize,
    /// Issues that wait for others.
    pub blocked: usize,
}

/// What is wrong with the ledgers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Number of lines that could not be read.
    pub unread_lines: usize,
    /// Number of ledgers with conflict markers.
    pub conflicted_ledgers: usize,
    /// Number of issues that another program took back. Queries show them as they were.
    pub taken_back: usize,
}

/// A condition under construction, and its values.
#[derive(Default)]
pub(super) struct Condition {
    sql: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Condition {
    pub(super) fn value(&mut self, value: impl ToSql + 'static) -> String {
        self.values.push(Box::new(value));
        format!("?{}", self.values.len())
    }

    fn one_of<T: ToSql + Clone + 'static>(&mut self, column: &str, values: &[T]) {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|value| self.value(value.clone())).collect();
            self.sql.push(format!("{column} IN ({})", values.join(", ")));
        }
    }

    fn equal_or_null(&mut self, column: &str, value: Option<&String>) {
        match value.map(String::as_str) {
            None => {}
            Some("") => self.sql.push(format!("{column} IS NULL")),
            Some(value) => {
                let value = self.value(value.to_owned());
                self.sql.push(format!("{column} = {value}"));
            }
        }
    }

    /// Restricts a list to the issues after a position. Null comes first, as SQLite sorts it.
    pub(super) fn after(&mut self, order: &Order, position: Option<&Position>) -> Result<()> {
        let Some(position) = position else { return Ok(()) };
        if position.len() != order.0.len() {
            return Err(Error::invalid("the cursor is of another list"));
        }
        let (mut equal, mut any) = (String::new(), Vec::new());
        for ((key, is_descending), value) in order.0.iter().zip(position) {
            let value = match value {
                Value::Number(number) => self.value(SqlValue::from(number.as_i64())),
                Value::String(text) => self.value(text.clone()),
                _ => self.value(SqlValue::Null),
            };
            any.push(if *is_descending {
                format!("{equal}({key} < {value} OR ({key} IS NULL AND {value} IS NOT NULL))")
            } else {
                format!("{equal}({key} > {value} OR ({key} IS NOT NULL AND {value} IS NULL))")
            });
            equal = format!("{equal}{key} IS {value} AND ");
        }
        self.sql.push(format!("({})", any.join(" OR ")));
        Ok(())
    }

    /// Makes a list start from the issues that have one of these labels.
    fn start_from_labels(&mut self, labels: &[String]) {
        let labels: Vec<String> = labels.iter().map(|label| self.value(label_to_text(label))).collect();
        self.sql.push(format!("issue.id IN (SELECT issue_id FROM label WHERE label IN ({}))", labels.join(", ")));
    }

    fn has_label(&mut self, label: &str) -> String {
        let label = self.value(format!("\n{label}\n"));
        format!("instr(labels, {label}) > 0")
    }

    fn within(&mut self, column: &str, range: Range) {
        for (sign, moment) in [(">=", range.from), ("<", range.until)] {
            if let Some(moment) = moment {
                let moment = self.value(moment.as_millis());
                self.sql.push(format!("{column} {sign} {moment}"));
            }
        }
    }

    fn of(filter: &Filter, sort: Sort) -> Condition {
        let mut condition = Condition::default();
        match filter.statuses.as_slice() {
            [] if filter.deleted => condition.sql.push("TRUE".to_owned()),
            [] if filter.closed => condition.sql.push("category < 4".to_owned()),
            [] => condition.sql.push("category < 3".to_owned()),
            // The sign keeps SQLite from using the index on the status, which would need a sort.
            statuses if sort == Sort::Closed => condition.one_of("+status", statuses),
            statuses => condition.one_of("status", statuses),
        }
        condition.one_of("issue_type", &filter.types);
        condition.one_of("priority", &filter.priorities);
        for label in &filter.labels {
            let has = condition.has_label(label);
            condition.sql.push(has);
        }
        let any: Vec<String> = filter.any_label.iter().map(|label| condition.has_label(label)).collect();
        if !any.is_empty() {
            condition.sql.push(format!("({})", any.join(" OR ")));
        }
        for label in &filter.without_labels {
            let has = condition.has_label(label);
            condition.sql.push(format!("NOT {has}"));
        }
        condition.equal_or_null("assignee", filter.assignee.as_ref());
        condition.equal_or_null("parent_id", filter.parent.as_ref());
        condition.equal_or_null("created_by", filter.author.as_ref());
        // The index has null for canonical.
        let visibility =
            filter.visibility.as_deref().map(|name| if name == "canonical" { "" } else { name }.to_owned());
        condition.equal_or_null("visibility", visibility.as_ref());
        condition.within("created_at", filter.created);
        condition.within("updated_at", filter.updated);
        condition.within("closed_at", filter.closed_at);
        condition.within("due_at", filter.due);
        condition
    }

    pub(super) fn sql(&self) -> String {
        self.sql.join(" AND ")
    }

    /// Returns the condition as a further one of a statement; empty without one.
    pub(super) fn further(&self) -> String {
        self.sql.iter().flat_map(|sql| [" AND ", sql]).collect()
    }

    pub(super) fn values(&self) -> Vec<&dyn ToSql> {
        self.values.iter().map(AsRef::as_ref).collect()
    }
}

impl Index {
    /// Resolves an id or a unique prefix of one.
    pub fn find(&self, prefix: &str) -> Result<String> {
        // Another ledger's copy of the issue may be the one that counts.
        let ids = self.all(
            "SELECT id FROM issue WHERE id >= ?1 AND id < ?2 AND \
             (?3 IS NULL OR EXISTS (SELECT 1 FROM line WHERE line.id = issue.id AND line.ledger = ?3)) \
             ORDER BY id LIMIT 1000",
            // No id continues with the last character of Unicode.
            (prefix, format!("{prefix}\u{10ffff}"), self.only_ledger.get()),
            |row| row.get::<_, String>(0),
        )?;
        let found = issue_id::resolve(ids.iter().map(String::as_str), prefix).map(str::to_owned);
        found.map_err(|error| match self.damage() {
            Ok(Damage { unread_lines: 0, .. }) | Err(_) => error,
            Ok(Damage { unread_lines, .. }) => {
                error.hint(format!("{} of the ledger cannot be read: way doctor", words::count(unread_lines, "line")))
            }
        })
    }

    /// Returns issues whose ids begin with a text: open ones, closed ones, or all but deleted ones. Open ones come first.
    pub fn with_prefix(&self, prefix: &str, is_closed: Option<bool>, limit: usize) -> Result<Vec<Summary>> {
        let category = match is_closed {
            Some(true) => "category = 3",
            Some(false) => "category < 3",
            None => "category < 4",
        };
        let sql = format!(
            "SELECT {SUMMARY} FROM issue WHERE id >= ?1 AND id < ?2 AND {category}{} ORDER BY category = 3, id LIMIT ?3",
            self.only()
        );
        // No id continues with the last character of Unicode.
        self.all(&sql, (prefix, format!("{prefix}\u{10ffff}"), limit), summary)
    }

    /// Returns the prefix that most ids of a ledger have.
    pub fn common_prefix(&self, ledger: usize) -> Result<Option<String>> {
        let end = |order: &str| {
            let sql = format!("SELECT id FROM issue WHERE ledger = ?1 ORDER BY id {order} LIMIT 1");
            self.one(&sql, [ledger], |row| row.get::<_, String>(0))
        };
        let (first, last) = (end("ASC")?, end("DESC")?);
        let prefix = |id: &Option<String>| id.as_deref().and_then(issue_id::prefix_of).map(str::to_owned);
        // Ids are sorted, so those between two with the same prefix have it too.
        if let Some(common) = prefix(&first)
            && Some(&common) == prefix(&last).as_ref()
        {
            return Ok(Some(common));
        }
        let ids = self.all("SELECT id FROM issue WHERE ledger = ?1", [ledger], |row| row.get::<_, String>(0))?;
        Ok(issue_id::common_prefix(ids.iter().map(String::as_str)).map(str::to_owned))
    }

    /// Returns an issue by its full id. Several lines of the issue are united into one record.
    pub fn get(&self, id: &str) -> Result<Option<IndexedIssue>> {
        let found = self.one(
            "SELECT coalesce(united, raw), issue.ledger FROM issue JOIN line USING (line) WHERE issue.id = ?1",
            [id],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, usize>(1)?)),
        )?;
        found.map(|(raw, ledger)| self.entry(raw, ledger)).transpose()
    }

    /// Returns one ledger's copy of an issue by its full id. Unites several lines of the issue into one record.
    pub fn in_ledger(&self, id: &str, ledger: usize) -> Result<Option<IndexedIssue>> {
        let mut lines = self.versions(id, ledger)?;
        let united = if lines.len() > 1 { unite(lines.iter().map(String::as_str)) } else { lines.pop() };
        united.map(|raw| self.entry(raw, ledger)).transpose()
    }

    /// Returns the lines of an issue in one ledger.
    pub(crate) fn versions(&self, id: &str, ledger: usize) -> Result<Vec<String>> {
        self.all("SELECT raw FROM line WHERE id = ?1 AND ledger = ?2", (id, ledger), |row| row.get(0))
    }

    /// Returns one ledger's copies of its proposed issues.
    pub fn proposed_in(&self, ledger: usize) -> Result<Vec<IndexedIssue>> {
        // Every spelling of the field contains these letters, and few records have them.
        let lines =
            self.all("SELECT raw FROM line WHERE ledger = ?1 AND instr(raw, '\"visibility\"') > 0", [ledger], |row| {
                row.get::<_, String>(0)
            })?;
        let entries = lines.into_iter().map(|raw| self.entry(raw, ledger)).collect::<Result<Vec<IndexedIssue>>>()?;
        Ok(entries.into_iter().filter(|entry| entry.issue.visibility() == Visibility::Proposed).collect())
    }

    /// Returns an issue by its id or a unique prefix of it.
    pub fn get_by_prefix(&self, prefix: &str) -> Result<IndexedIssue> {
        let id = self.find(prefix)?;
        self.get(&id)?.ok_or_else(|| Error::not_found(format!("there is no issue {prefix:?}")))
    }

    /// Returns the summary of an issue by its full id.
    pub fn summary(&self, id: &str) -> Result<Option<Summary>> {
        self.one(&format!("SELECT {SUMMARY} FROM issue WHERE issue.id = ?1"), [id], summary)
    }

    /// Returns the record of a listed issue and the number of its ledger.
    pub fn record(&self, summary: &Summary) -> Result<(Record, usize)> {
        let found = self.one(
            "SELECT coalesce(united, raw), issue.ledger FROM issue JOIN line USING (line) WHERE issue.id = ?1",
            [&summary.id],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, usize>(1)?)),
        )?;
        let (raw, ledger) = found.ok_or_else(|| self.inconsistent())?;
        Ok((Record::parse(&raw).map_err(|_| self.inconsistent())?, ledger))
    }

    /// Returns the complete issue of a summary.
    pub fn issue(&self, summary: &Summary) -> Result<Issue> {
        let (record, _) = self.record(summary)?;
        Issue::read(&record).map(|(issue, _)| issue).ok_or_else(|| self.inconsistent())
    }

    /// Returns the position of an issue in a list with this order.
    pub fn position(&self, order: &Order, id: &str) -> Result<Position> {
        let sql = format!("SELECT {} FROM issue WHERE issue.id = ?1", order.columns());
        let count = order.0.len();
        let read = |row: &rusqlite::Row<'_>| (0..count).map(|key| row.get_ref(key).map(position_value)).collect();
        self.one(&sql, [id], read)?.ok_or_else(|| self.inconsistent())
    }

    /// Returns issues that match a filter.
    pub fn list(&self, filter: &Filter, sort: Sort, reverse: bool, window: impl Into<Window>) -> Result<Vec<Summary>> {
        let mut condition = Condition::of(filter, sort);
        if condition.values.len() > MAX_FILTER_VALUES {
            return Err(Error::invalid(format!("a filter takes at most {MAX_FILTER_VALUES} values")));
        }
        let (order, window) = (sort.order(reverse), window.into());
        condition.after(&order, window.after.as_ref())?;
        let (only, limit) = (self.only(), sql_limit(window.limit));
        if filter.text.is_none()
            && let Some(label) = self.label_in_order(filter, &order)?
        {
            let label = condition.value(label_to_text(label));
            // CROSS keeps SQLite from reading issues first.
            let sql = format!(
                "SELECT {SUMMARY} FROM label CROSS JOIN issue ON issue.id = issue_id \
                 WHERE label = {label} AND issue_is_open AND {}{only} \
                 ORDER BY issue_priority, issue_created_at, issue_id LIMIT {limit}",
                condition.sql()
            );
            return self.all(&sql, condition.values().as_slice(), summary);
        }
        if let Some(labels) = self.rare_labels(filter)? {
            condition.start_from_labels(labels);
        }
        let order = order.sql();
        let Some(text) = &filter.text else {
            let sql =
                format!("SELECT {SUMMARY} FROM issue WHERE {}{only} ORDER BY {order} LIMIT {limit}", condition.sql());
            return self.all(&sql, condition.values().as_slice(), summary);
        };
        let text = text.to_lowercase();
        let sql = format!("{}{} ORDER BY {order}", condition.sql(), self.only());
        self.scan(&sql, &condition.values(), limit, |issue| {
            [&issue.title, &issue.description].iter().any(|field| field.to_lowercase().contains(&text))
        })
    }

    /// Returns whether an issue has a word in a field, whatever its status.
    pub fn has_word(&self, field: Field, word: &str) -> Result<bool> {
        let mut condition = Condition::default();
        let has = match field {
            Field::Label => condition.has_label(word),
            field => format!("{} = {}", field.column(), condition.value(word.to_owned())),
        };
        let sql = format!("SELECT 1 FROM issue WHERE {has} LIMIT 1");
        Ok(self.one(&sql, condition.values().as_slice(), |_| Ok(()))?.is_some())
    }

    /// Returns the words that issues have in a field other than the labels.
    pub fn words_of(&self, field: Field) -> Result<Vec<String>> {
        let sql = format!("SELECT DISTINCT {0} FROM issue WHERE {0} IS NOT NULL ORDER BY 1", field.column());
        self.all(&sql, [], |row| row.get(0))
    }

    /// Returns labels of which every issue that a filter selects has one, if few issues have them.
    fn rare_labels<'a>(&self, filter: &'a Filter) -> Result<Option<&'a [String]>> {
        if filter.labels.is_empty() && filter.any_label.is_empty() || !self.has_lists()? {
            return Ok(None);
        }
        for label in &filter.labels {
            if self.counter(Kind::OpenLabel, &label_to_text(label))? < COMMON_LABEL {
                return Ok(Some(std::slice::from_ref(label)));
            }
        }
        let mut number = 0;
        for label in &filter.any_label {
            number += self.counter(Kind::OpenLabel, &label_to_text(label))?;
        }
        Ok(Some(filter.any_label.as_slice()).filter(|any| !any.is_empty() && number < COMMON_LABEL))
    }

    /// Returns at most `limit` issues that satisfy `fits`. Parses every record, which is slow.
    pub(super) fn scan(
        &self,
        condition: &str,
        values: &[&dyn ToSql],
        limit: i64,
        fits: impl Fn(&Issue) -> bool,
    ) -> Result<Vec<Summary>> {
        let sql = format!(
            "SELECT {SUMMARY}, coalesce(united, raw) AS raw FROM issue JOIN line USING (line) WHERE {condition}"
        );
        self.sql(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query(values)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                if i64::try_from(found.len()).unwrap_or(i64::MAX) == limit {
                    break;
                }
                let record = Record::parse(row.get_ref("raw")?.as_str()?).ok();
                if record.and_then(|record| Issue::read(&record)).is_some_and(|(issue, _)| fits(&issue)) {
                    found.push(summary(row)?);
                }
            }
            Ok(found)
        })
    }

    /// Returns ready issues, most urgent first.
    pub fn ready(&self, now: Timestamp, window: impl Into<Window>) -> Result<Vec<Summary>> {
        self.ready_except(None, now, window)
    }

    /// Returns ready issues that are not in a ledger, most urgent first.
    pub fn ready_except(
        &self,
        ledger: Option<usize>,
        now: Timestamp,
        window: impl Into<Window>,
    ) -> Result<Vec<Summary>> {
        self.ready_with("not_work IS NULL", Condition::default(), ledger, now, &window.into())
    }

    /// Returns ready issues of some types that are not in a ledger, most urgent first. A type may be the word for records
    /// that are not work.
    pub fn ready_of_types(
        &self,
        types: &[String],
        ledger: Option<usize>,
        now: Timestamp,
        window: impl Into<Window>,
    ) -> Result<Vec<Summary>> {
        let mut condition = Condition::default();
        let types = condition.value(format!("\n{}\n", types.join("\n")));
        let of_types = format!("instr({types}, char(10) || coalesce(not_work, issue_type) || char(10)) > 0");
        self.ready_with(&of_types, condition, ledger, now, &window.into())
    }

    fn ready_with(
        &self,
        filter: &str,
        mut condition: Condition,
        ledger: Option<usize>,
        now: Timestamp,
        window: &Window,
    ) -> Result<Vec<Summary>> {
        let (order, now) = (Order::of_ready(), condition.value(now.as_millis()));
        condition.after(&order, window.after.as_ref())?;
        let sql = format!(
            "SELECT {SUMMARY} FROM issue WHERE is_ready AND {filter} AND (wakes_at IS NULL OR wakes_at <= {now}){}{}{} \
             ORDER BY {} LIMIT {}",
            condition.further(),
            self.only(),
            except(ledger),
            order.sql(),
            sql_limit(window.limit)
        );
        self.all(&sql, condition.values().as_slice(), summary)
    }

    /// Returns the words for records that would be ready if they were work, and how many there are of each.
    pub fn left_out(&self) -> Result<Vec<(String, usize)>> {
        let sql = format!(
            "SELECT not_work, count(*) FROM issue WHERE is_ready AND not_work IS NOT NULL{} GROUP BY 1 ORDER BY 1",
            self.only()
        );
        self.all(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the issue that a caller gets who claims without naming one.
    pub fn next(&self, now: Timestamp) -> Result<Option<String>> {
        Ok(self.claimable_except(None, now, 1)?.pop())
    }

    /// Returns at most `limit` issues for a caller who claims without naming one and cannot write a ledger, most urgent
    /// first.
    pub fn claimable_except(&self, ledger: Option<usize>, now: Timestamp, limit: u32) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT id FROM issue WHERE is_ready AND not_work IS NULL AND (wakes_at IS NULL OR wakes_at <= ?1) \
             AND instr(labels, ?2) = 0{}{} ORDER BY urgency, priority, created_at, id LIMIT ?3",
            self.only(),
            except(ledger)
        );
        self.all(&sql, (now.as_millis(), format!("\n{NO_AUTO_CLAIM}\n"), limit), |row| row.get(0))
    }

    /// Returns the first time after `now` at which a deferred issue becomes ready.
    pub fn next_wake_time(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let sql = "SELECT min(wakes_at) FROM issue WHERE is_ready AND not_work IS NULL AND wakes_at > ?1";
        let next = self.one(sql, [now.as_millis()], |row| row.get::<_, Option<i64>>(0))?;
        Ok(next.flatten().map(Timestamp::from_millis))
    }

    /// Returns the issues that wait for others, and their parts.
    pub fn blocked(&self, now: Timestamp, window: impl Into<Window>) -> Result<Vec<Summary>> {
        let (order, window, mut condition) = (Order::of_blocked(), window.into(), Condition::default());
        let now = condition.value(now.as_millis());
        condition.after(&order, window.after.as_ref())?;
        let sql = format!(
            "SELECT {SUMMARY} FROM issue \
             WHERE category < 3 AND (waits_for > 0 OR is_held OR freed_at IS NOT NULL) \
             AND (waits_for > 0 OR is_held OR freed_at > {now}){}{} ORDER BY {} LIMIT {}",
            condition.further(),
            self.only(),
            order.sql(),
            sql_limit(window.limit)
        );
        self.all(&sql, condition.values().as_slice(), summary)
    }

    /// Returns open issues without a change since `since`, the longest unchanged first.
    pub fn stale(&self, since: Timestamp, limit: Option<usize>) -> Result<Vec<Summary>> {
        let sql = format!(
            "SELECT {SUMMARY} FROM issue WHERE category < 3 AND coalesce(updated_at, created_at, 0) < ?1{} \
             ORDER BY coalesce(updated_at, created_at), id LIMIT ?2",
            self.only()
        );
        self.all(&sql, (since.as_millis(), sql_limit(limit)), summary)
    }

    /// Returns the issues closed before `before` that no open issue depends on, first closed first. Leaves out the `keep`
    /// issues that were closed last.
    pub fn prunable(&self, before: Timestamp, keep: usize) -> Result<Vec<IndexedIssue>> {
        let found = self.all(
            &format!(
                "WITH last AS (SELECT id FROM issue WHERE category = 3{only} ORDER BY closed_at DESC, id LIMIT ?2) \
             SELECT raw, issue.ledger FROM issue JOIN line USING (line) \
             WHERE category = 3 AND closed_at < ?1 AND issue.id NOT IN last{only} \
             AND NOT EXISTS (SELECT 1 FROM issue AS part WHERE part.parent_id = issue.id AND part.category < 3) \
             AND NOT EXISTS (SELECT 1 FROM edge JOIN issue AS open ON open.id = edge.id \
                             WHERE edge.other = issue.id AND open.category < 3) \
             ORDER BY closed_at, issue.id",
                only = self.only()
            ),
            (before.as_millis(), i64::try_from(keep).unwrap_or(i64::MAX)),
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, usize>(1)?)),
        )?;
        found.into_iter().map(|(raw, ledger)| self.entry(raw, ledger)).collect()
    }

    /// Returns the ids that are in no ledger, but block an open issue.
    pub fn unresolved(&self) -> Result<Vec<String>> {
        let found: Vec<String> = self.all(
            "SELECT DISTINCT other FROM issue JOIN edge ON edge.id = issue.id AND kind = 'blocks' \
             WHERE category < 3 AND (waits_for > 0 OR is_held OR freed_at IS NOT NULL) AND waits_for > 0 \
             AND NOT EXISTS (SELECT 1 FROM issue AS known WHERE known.id = other)",
            [],
            |row| row.get(0),
        )?;
        Ok(found.into_iter().filter(|id| self.terms().pruned.category(id).is_none()).collect())
    }

    /// Returns the reasons why an issue is not ready.
    pub fn obstacles(&self, id: &str, now: Timestamp) -> Result<Vec<Reason>> {
        Ok(self.all_obstacles([id], now)?.pop().unwrap_or_default())
    }

    /// Returns for each of these issues why it is not ready. Reads each of their ancestors once.
    pub fn all_obstacles<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) -> Result<Vec<Vec<Reason>>> {
        let rules = Rules { now, ignore_unresolved: self.terms.ignore_unresolved };
        let mut explainer = Explainer::new(self, rules);
        let obstacles = |id: &str| {
            let facts = self.facts(id).ok_or_else(|| Error::not_found(format!("there is no issue {id:?}")))?;
            Ok(explainer.obstacles(&facts))
        };
        ids.into_iter().map(obstacles).collect()
    }

    /// Returns the issues that depend on an issue, and the kind of each dependency.
    pub fn dependents(&self, id: &str) -> Result<Vec<(String, String)>> {
        self.all("SELECT id, kind FROM edge WHERE other = ?1 ORDER BY kind, id", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }

    /// Returns the issues that an issue depends on, and the kind of each dependency.
    pub fn dependencies(&self, id: &str) -> Result<Vec<(String, String)>> {
        self.all("SELECT other, kind FROM edge WHERE id = ?1 ORDER BY kind, other", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }

    /// Returns the parts of an issue.
    pub fn parts(&self, id: &str) -> Result<Vec<String>> {
        self.all("SELECT id FROM issue WHERE parent_id = ?1 ORDER BY id", [id], |row| row.get(0))
    }

    /// Returns the cycle that would close if one issue waited for another.
    pub fn cycle(&self, waiting: &str, blocker: &str) -> Option<Vec<String>> {
        cycle::closed_by(waiting, blocker, |id| {
            self.facts(id).map(|facts| facts.into_owned().blockers).unwrap_or_default()
        })
    }

    /// Returns the cycle that would close if one issue were a part of another.
    pub fn parent_cycle(&self, part: &str, whole: &str) -> Option<Vec<String>> {
        cycle::closed_by(part, whole, |id| {
            self.facts(id).and_then(|facts| facts.into_owned().parent_id).into_iter().collect()
        })
    }

    /// Counts issues.
    pub fn counts(&self, now: Timestamp) -> Result<Counts> {
        let mut open_by_priority = Vec::new();
        for (priority, number) in self.counters(Kind::OpenPriority)? {
            open_by_priority.push((priority.parse().map_err(|_| self.inconsistent())?, number));
        }
        open_by_priority.sort_unstable();
        Ok(Counts {
            by_status: self.counters(Kind::Status)?,
            open_by_type: self.counters(Kind::OpenType)?,
            open_by_priority,
            ready: self.ready_count(now)?,
            blocked: self.blocked_count(now)?,
        })
    }

    /// Returns all labels of open issues, and how many issues have each.
    pub fn labels(&self) -> Result<Vec<(String, usize)>> {
        self.counters(Kind::OpenLabel)
    }

    /// Returns what is wrong with the ledgers.
    pub fn damage(&self) -> Result<Damage> {
        let sql =
            "SELECT coalesce(sum(unread), 0), coalesce(sum(conflicted), 0), coalesce(sum(restored), 0) FROM ledger";
        let damage = self.one(sql, [], |row| {
            Ok(Damage { unread_lines: row.get(0)?, conflicted_ledgers: row.get(1)?, taken_back: row.get(2)? })
        })?;
        Ok(damage.unwrap_or_default())
    }

    /// Returns a number that grows with every change of any ledger.
    pub fn revision(&self) -> Result<u64> {
        let revision = self.one("SELECT revision FROM about", [], |row| row.get::<_, i64>(0))?;
        Ok(revision.unwrap_or_default().cast_unsigned())
    }

    fn entry(&self, raw: String, ledger: usize) -> Result<IndexedIssue> {
        let record = Record::parse(&raw).map_err(|_| self.inconsistent())?;
        let (issue, _) = Issue::read(&record).ok_or_else(|| self.inconsistent())?;
        Ok(IndexedIssue { issue, record, ledger, raw })
    }

    /// Marks the index as damaged, because it contradicts itself.
    pub(super) fn inconsistent(&self) -> Error {
        self.failure.set(Some(Failure::Damaged));
        Error::unavailable("the index contradicts itself")
    }
}
