//! Functions that the commands about issues share.

use std::io::Read as _;

use serde::{Serialize, Serializer};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::{self, DependencyKind};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Result};
use waypost_ledger::{Index, Summary};
use waypost_workspace::surroundings;

use super::ui::{BOLD, Cell, DIM, GOOD, PLAIN, Style, WARN, cell, prose, styled};
use super::{CommandContext, in_one_line};
use waypost::app::lazy_session::LazySession;
use waypost::issues::Repo;
use waypost::issues::ledger::Change;
use waypost::ops::issue::{Changed, IssueContext, IssueQuery};

impl CommandContext {
    /// Opens the ledgers.
    pub(crate) fn open_ledgers(&mut self) -> Result<IssueContext> {
        self.open_ledgers_with(&[])
    }

    /// Opens the ledgers, including those of the named repositories.
    pub(crate) fn open_ledgers_with(&mut self, named: &[Option<&str>]) -> Result<IssueContext> {
        IssueContext::open(self.lazy_session()?, self.global.repo.as_deref(), named)
    }

    /// Opens the ledgers for a command that changes them, and brings them up to date.
    pub(crate) fn open_ledgers_to_change(&mut self) -> Result<IssueContext> {
        self.open_ledgers_to_change_with(&[], false)
    }

    /// Opens the ledgers for a command that changes them, unless it is a dry run, including those of the named repositories.
    pub(crate) fn open_ledgers_to_change_with(
        &mut self,
        named: &[Option<&str>],
        dry_run: bool,
    ) -> Result<IssueContext> {
        let open = if dry_run { IssueContext::open } else { IssueContext::open_to_change };
        open(self.lazy_session()?, self.global.repo.as_deref(), named)
    }

    /// Opens the ledgers to import issues; `takes_over` those of beads, which cannot be changed where they are.
    pub(crate) fn open_ledgers_to_import(&mut self, takes_over: bool, dry_run: bool) -> Result<IssueContext> {
        let place = self.place()?;
        let place = if takes_over { place.taking_over() } else { place };
        let session = LazySession::new(place, self.ui.pending.clone());
        let open = if dry_run { IssueContext::open } else { IssueContext::open_to_change };
        open(session, self.global.repo.as_deref(), &[])
    }

    fn lazy_session(&mut self) -> Result<LazySession> {
        Ok(LazySession::new(self.place()?, self.ui.pending.clone()))
    }

    /// Prints the issues that a query finds, with these columns or the usual ones. Returns whether there are any.
    pub(crate) fn list(
        &mut self,
        ledger_cx: &IssueContext,
        query: &impl IssueQuery,
        columns: &[Column],
    ) -> Result<bool> {
        self.list_and(ledger_cx, query, columns, |_| Ok(())).map(|(has_any, ())| has_any)
    }

    /// Prints issues like [`CommandContext::list`]. Also returns what another read of the index found.
    pub(crate) fn list_and<T>(
        &mut self,
        ledger_cx: &IssueContext,
        query: &impl IssueQuery,
        columns: &[Column],
        read: impl Fn(&Index) -> Result<T>,
    ) -> Result<(bool, T)> {
        let busy = self.ui.busy("Reading the ledger");
        let (found, other) = ledger_cx.find_and(query, self.ui.json, read)?;
        drop(busy);
        let more = format!("there are more than {}: --limit 0 lists all", query.limit());
        if found.has_more && self.ui.json {
            self.ui.warn(&more);
        }
        let data = ledger_cx.shown_all(&found.records)?;
        self.ui.answer(&data, |text| {
            let usual = Column::usual(&found.summaries);
            let columns = if columns.is_empty() { usual.as_slice() } else { columns };
            let titles = columns.iter().map(|column| styled(DIM, column.title())).collect();
            let row = |summary: &Summary| columns.iter().map(|column| column.cell(summary, ledger_cx)).collect();
            text.list(titles, found.summaries.iter().map(row));
        })?;
        if found.has_more {
            self.ui.note(&more);
        }
        Ok((!found.summaries.is_empty(), other))
    }

    /// Notes why a list is empty: the ledgers have no issues, or else `other`.
    pub(crate) fn note_none(&self, ledger_cx: &IssueContext, other: &str) -> Result<()> {
        let has_any = ledger_cx.with_index(|index| Ok(!index.with_prefix("", None, 1)?.is_empty()))?;
        self.ui.note(if has_any { other } else { "no issues yet; to add one: way add TITLE" });
        Ok(())
    }

    /// Applies changes and prints the changed issues, one line each, with a verb.
    pub(crate) fn change(&mut self, changes: &[Change], verb: &str) -> Result<()> {
        let ledger_cx = self.open_ledgers_to_change()?;
        let records = self.apply(&ledger_cx, changes)?;
        self.answer_changed(&ledger_cx, verb, &records)
    }

    /// Applies changes, and returns each issue afterwards with the number of its ledger.
    pub(crate) fn apply(&mut self, ledger_cx: &IssueContext, changes: &[Change]) -> Result<Vec<(Record, usize)>> {
        let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
        Ok(self.apply_placed(ledger_cx, &unplaced, false)?.records)
    }

    /// Applies changes, each with its position in a file, if it has one. A dry run only checks whether they are possible.
    pub(crate) fn apply_placed(
        &mut self,
        ledger_cx: &IssueContext,
        changes: &[(&str, &Change)],
        dry_run: bool,
    ) -> Result<Changed> {
        let outcome = ledger_cx.apply(changes, dry_run)?;
        if outcome.pruned > 0 {
            self.ui.note(&format!("pruned {}", count(outcome.pruned, "closed issue")));
        }
        Ok(outcome)
    }

    /// Prints changed issues, all with the same verb.
    pub(crate) fn answer_changed(
        &self,
        ledger_cx: &IssueContext,
        verb: &str,
        records: &[(Record, usize)],
    ) -> Result<()> {
        self.answer_each(ledger_cx, |_| verb, records)
    }

    /// Prints changed issues, with a verb for each id.
    pub(crate) fn answer_each<'a>(
        &self,
        ledger_cx: &IssueContext,
        verb: impl Fn(&str) -> &'a str,
        records: &[(Record, usize)],
    ) -> Result<()> {
        // The caller may have named the same issue twice.
        let mut shown: Vec<&(Record, usize)> = Vec::new();
        for record in records {
            match shown.iter_mut().find(|other| other.0.raw("id") == record.0.raw("id")) {
                Some(other) => *other = record,
                None => shown.push(record),
            }
        }
        let data = OneOrMany(ledger_cx.shown_all(shown.iter().copied())?);
        self.ui.answer(&data, |text| {
            for (record, _) in &shown {
                let title = record.text("title").unwrap_or_default();
                let id = record.text("id").unwrap_or_default();
                text.line(format!("{} {id}  {title}", verb(&id)));
            }
        })
    }
}

/// Serializes one element as an object, several as a list.
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => only.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

/// Parses a priority.
pub(crate) fn parse_priority(text: &str) -> Result<u8, String> {
    vocabulary::priority(text).map_err(in_one_line)
}

/// Parses a kind of dependency.
pub(crate) fn parse_dependency_kind(text: &str) -> Result<DependencyKind, String> {
    DependencyKind::parse(text).map_err(in_one_line)
}

/// Returns the ids of the arguments; `-` stands for the first word of each line of standard input, without the header
/// of a list.
pub(crate) fn ids(args: &[String]) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for arg in args {
        if arg == "-" {
            let input = read_stdin()?;
            let words = input.lines().filter_map(|line| line.split_whitespace().next());
            ids.extend(words.filter(|word| *word != ID_TITLE).map(str::to_owned));
        } else {
            ids.push(arg.clone());
        }
    }
    if ids.is_empty() {
        return Err(Error::invalid("no issue given").hint("name an issue, or pass ids on standard input"));
    }
    Ok(ids)
}

/// Returns the text, or standard input for `-`.
pub(crate) fn text_or_stdin(text: &str) -> Result<String> {
    if text == "-" { Ok(read_stdin()?.trim_end().to_owned()) } else { Ok(text.to_owned()) }
}

/// Returns the description, given as a text or as a file.
pub(crate) fn description(text: Option<&str>, file: Option<&std::path::Path>) -> Result<Option<String>> {
    match (text, file) {
        (Some(text), _) => text_or_stdin(text).map(Some),
        (None, Some(file)) => Ok(Some(file_or_stdin(file)?.trim_end().to_owned())),
        (None, None) => Ok(None),
    }
}

/// Returns the contents of a file, or standard input for `-`.
pub(crate) fn file_or_stdin(path: &std::path::Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return read_stdin();
    }
    std::fs::read_to_string(surroundings::resolve(path))
        .map_err(|error| Error::invalid(format!("cannot read {}", path.display())).because(error))
}

fn read_stdin() -> Result<String> {
    let mut input = String::new();
    surroundings::stdin()
        .read_to_string(&mut input)
        .map_err(|error| Error::invalid("cannot read standard input as text").because(error))?;
    Ok(input)
}

/// The title of the first column of a list. No issue has this id.
const ID_TITLE: &str = "ID";

/// A column of a list of issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Column {
    Id,
    Priority,
    Type,
    Status,
    Assignee,
    Title,
    Repo,
    Visibility,
    Author,
    Labels,
    Parent,
    Created,
    Updated,
    Closed,
    Due,
}

impl Column {
    /// Returns the columns without `--columns`: the repository, the visibility and the author only if they differ.
    fn usual(found: &[Summary]) -> Vec<Column> {
        let has_several =
            |differ: fn(&Summary, &Summary) -> bool| found.windows(2).any(|pair| differ(&pair[0], &pair[1]));
        let mut columns = vec![Column::Id, Column::Priority, Column::Type, Column::Status, Column::Assignee];
        if has_several(|one, other| one.ledger != other.ledger) {
            columns.push(Column::Repo);
        }
        if has_several(|one, other| one.visibility != other.visibility) {
            columns.push(Column::Visibility);
        }
        if has_several(|one, other| one.created_by != other.created_by) {
            columns.push(Column::Author);
        }
        columns.push(Column::Title);
        columns
    }

    fn title(self) -> &'static str {
        match self {
            Column::Id => ID_TITLE,
            Column::Priority => "PRIO",
            Column::Type => "TYPE",
            Column::Status => "STATUS",
            Column::Assignee => "ASSIGNEE",
            Column::Title => "TITLE",
            Column::Repo => "REPO",
            Column::Visibility => "VISIBILITY",
            Column::Author => "AUTHOR",
            Column::Labels => "LABELS",
            Column::Parent => "PARENT",
            Column::Created => "CREATED",
            Column::Updated => "UPDATED",
            Column::Closed => "CLOSED",
            Column::Due => "DUE",
        }
    }

    fn cell(self, summary: &Summary, ledger_cx: &IssueContext) -> Cell {
        let time =
            |moment: Option<Timestamp>| styled(DIM, moment.map_or_else(|| "-".to_owned(), |moment| moment.to_string()));
        let or_dash = |text: Option<&str>| styled(DIM, text.filter(|text| !text.is_empty()).unwrap_or("-"));
        match self {
            Column::Id => styled(BOLD, &summary.id),
            Column::Priority => {
                styled(if summary.priority <= 1 { WARN } else { PLAIN }, format!("P{}", summary.priority))
            }
            Column::Type => cell(&summary.issue_type),
            Column::Status => styled(status_style(&summary.status), &summary.status),
            Column::Assignee => or_dash(summary.assignee.as_deref()),
            Column::Title => prose(&summary.title),
            Column::Repo => or_dash(ledger_cx.ledger.repos().get(summary.ledger).map(Repo::name).as_deref()),
            Column::Visibility => styled(DIM, summary.visibility.as_deref().unwrap_or("canonical")),
            Column::Author => or_dash(summary.created_by.as_deref()),
            Column::Labels => or_dash(Some(&summary.labels.join(","))).cuttable(),
            Column::Parent => or_dash(summary.parent_id.as_deref()),
            Column::Created => time(summary.created_at),
            Column::Updated => time(summary.updated_at),
            Column::Closed => time(summary.closed_at),
            Column::Due => time(summary.due_at),
        }
    }
}

fn status_style(status: &str) -> Style {
    match status {
        "in_progress" => GOOD,
        "closed" | "tombstone" => DIM,
        _ => PLAIN,
    }
}

/// Returns the limit of a list: on the command line, 0 stands for no limit.
pub(crate) fn list_limit(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}
