//! Rows of the index: which version of an issue is effective, and how it is stored.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use foldhash::quality::FixedState;
use waypost_core::Result;
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::merge;
use waypost_core::ledger::ready::{self, Facts, Hold, Standing};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::time::Timestamp;
use waypost_fs::{FileVersion, Stamp};

use super::Index;
use super::counters::Counted;
use super::lines::{KnownLines, ParsedLine, label_to_text, parse_line};

/// The form of a ledger's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// Whether it has conflict markers.
    pub(crate) is_conflicted: bool,
    /// Number of issues that another program took back. The index shows them as they were.
    pub(crate) restored: usize,
}

/// A row of `issue` without its standing, and the issue's edges.
pub(super) struct IssueRow {
    line: i64,
    ledger: i64,
    pub(super) facts: Facts,
    title: String,
    issue_type: String,
    assignee: Option<String>,
    updated_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    due_at: Option<Timestamp>,
    visibility: Option<&'static str>,
    created_by: Option<String>,
    edges: Vec<(String, String)>,
    /// The united record of several lines.
    united: Option<String>,
}

impl IssueRow {
    pub(super) fn of(issue: Issue, line: i64, ledger: i64, united: Option<String>, terms: &Terms) -> IssueRow {
        // Sorted like the table and without duplicates, which a file may have.
        let blockers: BTreeSet<&str> = issue.blockers().collect();
        let blockers = blockers.into_iter().map(str::to_owned).collect();
        let not_work = issue.not_work().map(str::to_owned);
        let edge = |edge: waypost_core::ledger::issue::Dependency| {
            let kind = edge.kind.map_or(edge.word, |kind| kind.as_str().to_owned());
            (edge.depends_on_id, kind)
        };
        IssueRow {
            line,
            ledger,
            visibility: issue.visibility().as_field(),
            created_by: issue.created_by,
            facts: Facts {
                id: issue.id,
                category: terms.statuses.category(&issue.status),
                status: issue.status,
                is_epic: issue.issue_type == "epic",
                is_pinned: issue.pinned,
                not_work,
                priority: issue.priority,
                created_at: issue.created_at,
                defer_until: issue.defer_until,
                labels: issue.labels,
                blockers,
                parent_id: issue.parent_id,
            },
            title: issue.title,
            issue_type: issue.issue_type,
            assignee: issue.assignee,
            updated_at: issue.updated_at,
            closed_at: issue.closed_at,
            due_at: issue.due_at,
            edges: issue.dependencies.into_iter().map(edge).collect(),
            united,
        }
    }

    /// Returns the issue for counters.
    pub(super) fn counted(&self, standing: Standing) -> Counted<'_> {
        Counted { ledger: self.ledger, issue_type: &self.issue_type, facts: &self.facts, standing }
    }
}

/// A line with one version of an issue.
#[derive(Clone, Copy)]
struct Version<'a> {
    line: i64,
    ledger: i64,
    raw: &'a str,
}

/// Orders versions of an issue. The effective version is the most visible one, then the one changed last, then the one
/// with the greater text.
fn precedence(raw: &str) -> Option<(Visibility, Option<Timestamp>, &str)> {
    let ParsedLine::Issue(issue, raw) = parse_line(raw.as_bytes()) else { return None };
    Some((issue.visibility(), issue.updated_at, raw))
}

/// Returns whether a copy is a rejected proposal: deleted, or closed while proposed.
fn is_rejected(issue: &Issue, terms: &Terms) -> bool {
    match terms.statuses.category(&issue.status) {
        Category::Deleted => issue.visibility() != Visibility::Local,
        category => category.is_over() && issue.visibility() == Visibility::Proposed,
    }
}

/// Unites several lines with one id into one record.
pub(super) fn unite<'a>(lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let records: Vec<Record> = lines.filter_map(|line| Record::parse(line).ok()).collect();
    (!records.is_empty()).then(|| merge::unite(&records.iter().collect::<Vec<_>>()).to_line())
}

/// An issue as stored in the index.
pub(super) struct StoredIssue {
    /// All facts except the blockers.
    pub(super) facts: Facts,
    pub(super) waits_for: usize,
    pub(super) above: Hold,
    ledger: i64,
    issue_type: String,
    is_ready: bool,
    wakes_at: Option<Timestamp>,
}

impl StoredIssue {
    const SELECT: &str = "SELECT category, status, issue_type, is_pinned, priority, created_at, defer_until, labels, \
                          parent_id, waits_for, is_held, freed_at, not_work, ledger, is_ready, wakes_at \
                          FROM issue WHERE id = ?1";

    fn read(id: &str, row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredIssue> {
        let moment = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis));
        Ok(StoredIssue {
            facts: Facts {
                id: id.to_owned(),
                category: category(row.get(0)?),
                status: row.get(1)?,
                is_epic: row.get_ref(2)?.as_str()? == "epic",
                is_pinned: row.get(3)?,
                not_work: row.get(12)?,
                priority: row.get(4)?,
                created_at: moment(5)?,
                defer_until: moment(6)?,
                labels: labels_from_text(row.get_ref(7)?.as_str()?),
                blockers: Vec::new(),
                parent_id: row.get(8)?,
            },
            waits_for: row.get(9)?,
            above: Hold { is_held: row.get(10)?, freed_at: moment(11)? },
            ledger: row.get(13)?,
            issue_type: row.get(2)?,
            is_ready: row.get(14)?,
            wakes_at: moment(15)?,
        })
    }

    /// Returns how the issue itself holds back its children, ignoring its ancestors.
    pub(super) fn hold(&self) -> Hold {
        Hold::by(&self.facts, self.waits_for)
    }

    pub(super) fn standing(&self) -> Standing {
        Standing { is_ready: self.is_ready, waits_for: self.waits_for, above: self.above, wakes_at: self.wakes_at }
    }

    /// Returns the issue for counters, with another standing.
    pub(super) fn counted(&self, standing: Standing) -> Counted<'_> {
        Counted { ledger: self.ledger, issue_type: &self.issue_type, facts: &self.facts, standing }
    }
}

impl Index {
    pub(super) fn stored_issue(&self, id: &str) -> Result<Option<StoredIssue>> {
        self.one(StoredIssue::SELECT, [id], |row| StoredIssue::read(id, row))
    }

    pub(super) fn write_waits_for(&self, id: &str, waits_for: usize) -> Result<()> {
        self.execute("UPDATE issue SET waits_for = ?2 WHERE id = ?1 AND waits_for != ?2", (id, waits_for)).map(drop)
    }

    /// Computes the row of an issue from its lines.
    pub(super) fn effective_row(&self, id: &str) -> Result<Option<IssueRow>> {
        let lines = self.all("SELECT line, ledger, raw FROM line WHERE id = ?1", [id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
        })?;
        let versions: Vec<Version<'_>> =
            lines.iter().map(|(line, ledger, raw)| Version { line: *line, ledger: *ledger, raw }).collect();
        Ok(self.choose_version(&versions))
    }

    /// Unites the versions of an issue in each ledger, then chooses one ledger's copy.
    fn choose_version(&self, versions: &[Version<'_>]) -> Option<IssueRow> {
        let mut ledgers: BTreeMap<i64, Vec<Version<'_>>> = BTreeMap::new();
        for version in versions {
            ledgers.entry(version.ledger).or_default().push(*version);
        }
        let copy = |versions: Vec<Version<'_>>| {
            let first = versions.iter().max_by_key(|version| precedence(version.raw))?;
            let united = (versions.len() > 1).then(|| unite(versions.iter().map(|version| version.raw))).flatten();
            let raw = united.as_deref().unwrap_or(first.raw);
            let ParsedLine::Issue(issue, _) = parse_line(raw.as_bytes()) else { return None };
            Some((*issue, first.line, first.ledger, united))
        };
        let copies: Vec<_> = ledgers.into_values().filter_map(copy).collect();
        let has_local_copy = copies.iter().any(|(issue, ..)| issue.visibility() == Visibility::Local);
        // Of equal copies the first ledger's is chosen.
        let (issue, line, ledger, united) = copies.into_iter().max_by_key(|(issue, line, ledger, _)| {
            let raw = versions.iter().find(|version| version.line == *line).map(|version| version.raw);
            // After a rejection the author's local copy counts again.
            let is_rejected = has_local_copy && is_rejected(issue, &self.terms);
            (!is_rejected, issue.visibility(), issue.updated_at, raw, Reverse(*ledger))
        })?;
        Some(IssueRow::of(issue, line, ledger, united, &self.terms))
    }

    pub(super) fn ids(&self, sql: &str, id: &str) -> Result<Vec<String>> {
        self.all(sql, [id], |row| row.get(0))
    }

    pub(super) fn hash(&self, line: &[u8]) -> u64 {
        FixedState::with_seed(self.salt).hash_one(line)
    }

    /// Inserts a line after all existing and all full-text indexed rows, so that a row number is never reused.
    pub(super) fn insert_line(&self, ledger: i64, issue: &Issue, raw: &str) -> Result<i64> {
        self.execute(
            "INSERT INTO line (line, ledger, id, rank, raw) VALUES (\
             1 + max((SELECT coalesce(max(line), 0) FROM line), (SELECT searched FROM about)), ?1, ?2, ?3, ?4)",
            (ledger, &issue.id, self.search_rank(issue), raw),
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    pub(super) fn write_ledger(
        &self,
        ledger: i64,
        path: &Path,
        stamp: Option<Vec<u8>>,
        form: Form,
        lines: &KnownLines,
    ) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO ledger (ledger, path, stamp, unread, conflicted, restored) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (ledger, path.as_os_str().as_bytes(), stamp, lines.unreadable(), form.is_conflicted, form.restored),
        )?;
        self.execute("INSERT OR REPLACE INTO mark (ledger, marks) VALUES (?1, ?2)", (ledger, lines.to_bytes()))
            .map(drop)
    }

    pub(super) fn write_row(&self, row: &IssueRow, standing: Standing) -> Result<()> {
        let facts = &row.facts;
        let millis = |moment: Option<Timestamp>| moment.map(Timestamp::as_millis);
        self.execute(
            "INSERT OR REPLACE INTO issue (id, line, ledger, title, status, category, priority, issue_type, assignee, created_at, \
             updated_at, closed_at, due_at, defer_until, parent_id, labels, is_pinned, urgency, is_ready, waits_for, \
             is_held, wakes_at, freed_at, united, visibility, created_by, not_work) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, \
             ?25, ?26, ?27)",
            rusqlite::params![
                facts.id,
                row.line,
                row.ledger,
                row.title,
                facts.status,
                code(facts.category),
                facts.priority,
                row.issue_type,
                row.assignee,
                millis(facts.created_at),
                millis(row.updated_at),
                millis(row.closed_at),
                millis(row.due_at),
                millis(facts.defer_until),
                facts.parent_id,
                labels_to_text(&facts.labels),
                facts.is_pinned,
                ready::urgency(&facts.labels),
                standing.is_ready,
                standing.waits_for,
                standing.above.is_held,
                millis(standing.wakes_at),
                millis(standing.above.freed_at),
                row.united,
                row.visibility,
                row.created_by,
                facts.not_work,
            ],
        )?;
        for (other, kind) in &row.edges {
            // A file may repeat an edge.
            self.execute("INSERT OR IGNORE INTO edge (id, other, kind) VALUES (?1, ?2, ?3)", (&facts.id, other, kind))?;
        }
        Ok(())
    }

    pub(super) fn write_standing(&self, id: &str, standing: Standing) -> Result<()> {
        self.execute(
            "UPDATE issue SET is_ready = ?2, waits_for = ?3, is_held = ?4, wakes_at = ?5, freed_at = ?6 \
             WHERE id = ?1 AND (is_ready, waits_for, is_held, wakes_at, freed_at) IS NOT (?2, ?3, ?4, ?5, ?6)",
            (
                id,
                standing.is_ready,
                standing.waits_for,
                standing.above.is_held,
                standing.wakes_at.map(Timestamp::as_millis),
                standing.above.freed_at.map(Timestamp::as_millis),
            ),
        )
        .map(drop)
    }
}

/// Returns a file's stamp for the index: empty without a file, `None` if a change might not alter the stamp.
pub(super) fn stored_stamp(seen: &FileVersion) -> Option<Vec<u8>> {
    if seen.exists() { seen.stamp().map(Stamp::to_bytes) } else { Some(Vec::new()) }
}

pub(super) fn ledger_row(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Categories in the order of their numbers in the index: below 3 is open.
const CATEGORIES: [Category; 5] =
    [Category::Active, Category::Wip, Category::Frozen, Category::Done, Category::Deleted];

fn code(category: Category) -> usize {
    CATEGORIES.iter().position(|known| *known == category).unwrap_or(0)
}

pub(super) fn category(code: usize) -> Category {
    CATEGORIES.get(code).copied().unwrap_or(Category::Frozen)
}

/// Joins labels to one text that `instr` can search.
fn labels_to_text(labels: &[String]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| label_to_text(label)).collect();
    if labels.is_empty() { String::new() } else { format!("\n{}\n", labels.join("\n")) }
}

pub(super) fn labels_from_text(text: &str) -> Vec<String> {
    let text = text.strip_prefix('\n').and_then(|text| text.strip_suffix('\n'));
    text.map(|text| text.split('\n').map(str::to_owned).collect()).unwrap_or_default()
}
