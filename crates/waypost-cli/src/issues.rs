//! Functions that the commands about issues share.

use std::io::Read as _;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use waypost_core::ledger::issue;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::{self, DependencyKind};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_ledger::{Index, Summary};

use super::ui::{BOLD, Cell, DIM, GOOD, PLAIN, Style, WARN, cell, styled};
use super::{CommandContext, in_one_line};
use waypost::claims::{self, Held};
use waypost::ledger::{Change, Ledger};
use waypost::ops;
use waypost::ops::issue::{CONFLICTED, unread_warning};
use waypost::place::Place;
use waypost::repos::Repos;

/// The opened ledgers, with the state that commands about issues need.
pub(crate) struct LedgerContext {
    pub(crate) place: Place,
    pub(crate) ledger: Ledger,
    pub(crate) now: Timestamp,
    /// The issues on which other agents hold a lease.
    pub(crate) held: Held,
}

impl LedgerContext {
    /// Returns the number of a named repository; without a name, of the current one.
    pub(crate) fn target(&self, named: Option<&str>) -> Result<usize> {
        let Some(named) = named else { return Ok(0) };
        let mut repos = Repos { all: self.ledger.repos().to_vec(), unreachable: Vec::new() };
        match repos.find(&self.place, named)? {
            (number, false) => Ok(number),
            (_, true) => Err(Error::not_found(format!("the ledger of {named} is not configured"))
                .hint(format!("add it: way config --add-repo {named}"))),
        }
    }

    /// Returns a record as JSON: its fields as spelled in the ledger, and its origin.
    pub(crate) fn json(&self, record: &Record, ledger: usize) -> Result<Box<RawValue>> {
        let shown = ops::issue::shown(&self.ledger, record, ledger)?;
        RawValue::from_string(shown.to_line()).map_err(|error| Error::internal("a record is not JSON").because(error))
    }

    /// Returns several records as JSON.
    pub(crate) fn json_list<'a>(
        &self,
        records: impl IntoIterator<Item = &'a (Record, usize)>,
    ) -> Result<Vec<Box<RawValue>>> {
        records.into_iter().map(|(record, ledger)| self.json(record, *ledger)).collect()
    }
}

impl CommandContext {
    /// Opens the ledgers.
    pub(crate) fn open_ledgers(&mut self) -> Result<LedgerContext> {
        self.open_ledgers_with(&[])
    }

    /// Opens the ledgers, including those of the named repositories.
    pub(crate) fn open_ledgers_with(&mut self, named: &[Option<&str>]) -> Result<LedgerContext> {
        let place = self.place()?;
        let (ledger, unreachable) = Ledger::narrowed(&place, self.global.repo.as_deref(), named)?;
        for warning in unreachable {
            self.ui.warn(&warning);
        }
        let now = ledger.now();
        let held = claims::held_by_others(&place)?;
        Ok(LedgerContext { place, ledger, now, held })
    }

    /// Queries the index, and warns about unreadable lines and conflict markers of the ledger.
    pub(crate) fn with_index<T>(
        &mut self,
        ledger_cx: &LedgerContext,
        mut read: impl FnMut(&Index) -> Result<T>,
    ) -> Result<T> {
        let (answer, unread, conflicted) =
            ledger_cx.ledger.with_index(|index| Ok((read(index)?, index.unread()?, index.conflicted()?)))?;
        if conflicted > 0 {
            self.ui.warn(CONFLICTED);
        }
        if let Some(warning) = unread_warning(unread) {
            self.ui.warn(&warning);
        }
        Ok(answer)
    }

    /// Prints a list of at most `limit` issues; 0 means all. Returns whether there are any.
    pub(crate) fn list(
        &mut self,
        ledger_cx: &LedgerContext,
        limit: usize,
        columns: &[Column],
        mut query: impl FnMut(&Index, Option<usize>) -> Result<Vec<Summary>>,
    ) -> Result<bool> {
        let is_json = self.ui.json;
        // One more than the limit shows whether there are more.
        let query_limit = (limit > 0).then(|| limit.saturating_add(1));
        let (mut found, mut records) = self.with_index(ledger_cx, |index| {
            let found = query(index, query_limit)?;
            let records = if is_json { found.as_slice() } else { &[] };
            let records = records.iter().map(|summary| index.record(summary)).collect::<Result<Vec<_>>>()?;
            Ok((found, records))
        })?;
        let has_more = limit > 0 && found.len() > limit;
        if has_more {
            found.truncate(limit);
            records.truncate(limit);
        }
        let more = format!("there are more than {limit}: --limit 0 lists all");
        if has_more && is_json {
            self.ui.warn(&more);
        }
        let data = ledger_cx.json_list(&records)?;
        self.ui.answer(&data, |text| {
            let row = |summary: &Summary| columns.iter().map(|column| column.cell(summary)).collect();
            text.table(&found.iter().map(row).collect::<Vec<_>>());
        })?;
        if has_more {
            self.ui.note(&more);
        }
        Ok(!found.is_empty())
    }

    /// Applies changes and prints the changed issues, one line each, with a verb.
    pub(crate) fn change(&mut self, changes: &[Change], verb: &str) -> Result<()> {
        let ledger_cx = self.open_ledgers()?;
        let records = self.apply(&ledger_cx, changes)?;
        self.answer_changed(&ledger_cx, verb, &records)
    }

    /// Applies changes, and returns each issue afterwards with the number of its ledger.
    pub(crate) fn apply(&mut self, ledger_cx: &LedgerContext, changes: &[Change]) -> Result<Vec<(Record, usize)>> {
        let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
        self.apply_placed(ledger_cx, &unplaced, false)
    }

    /// Like [`apply`](Self::apply), for changes with a position in a file. A dry run only checks whether they are possible.
    pub(crate) fn apply_placed(
        &mut self,
        ledger_cx: &LedgerContext,
        changes: &[(&str, &Change)],
        dry_run: bool,
    ) -> Result<Vec<(Record, usize)>> {
        let outcome = ops::issue::apply(&ledger_cx.place, &ledger_cx.ledger, changes, dry_run)?;
        for warning in &outcome.warnings {
            self.ui.warn(warning);
        }
        if outcome.pruned > 0 {
            self.ui.note(&format!("pruned {} closed issues", outcome.pruned));
        }
        Ok(outcome.records)
    }

    /// Prints changed issues, all with the same verb.
    pub(crate) fn answer_changed(
        &self,
        ledger_cx: &LedgerContext,
        verb: &str,
        records: &[(Record, usize)],
    ) -> Result<()> {
        self.answer_each(ledger_cx, |_| verb, records)
    }

    /// Prints changed issues, with a verb for each id.
    pub(crate) fn answer_each<'a>(
        &self,
        ledger_cx: &LedgerContext,
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
        let data = OneOrMany(ledger_cx.json_list(shown.iter().copied())?);
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

/// Parses a time, a day or an offset into the future; an empty text is None.
pub(crate) fn parse_time_ahead(text: &str, now: Timestamp) -> Result<Option<Timestamp>> {
    if text.is_empty() {
        return Ok(None);
    }
    let ahead = text.strip_prefix('+').or_else(|| text.strip_prefix("in ")).unwrap_or(text);
    let found = parse_offset(ahead).map(|millis| offset(now, millis)).or_else(|| parse_named_day(text, now));
    found.or_else(|| issue::parse_time(text)).map(Some).ok_or_else(|| {
        Error::invalid(format!("{text:?} is not a time"))
            .hint("use 2026-12-01, 2026-12-01T09:00:00Z, tomorrow, or an offset from now: 14d, 36h, 2w")
    })
}

/// Parses a time, a day or an age; with a plus, an offset into the future.
pub(crate) fn parse_time_ago(text: &str, now: Timestamp) -> Result<Timestamp> {
    let (sign, age) = match text.strip_prefix('+') {
        Some(ahead) => (1, ahead),
        None => (-1, text.strip_prefix('-').or_else(|| text.strip_suffix(" ago")).unwrap_or(text)),
    };
    let found = parse_offset(age).map(|millis| offset(now, sign * millis)).or_else(|| parse_named_day(text, now));
    found.or_else(|| issue::parse_time(text)).ok_or_else(|| {
        Error::invalid(format!("{text:?} is not a time"))
            .hint("use 2026-12-01, 2026-12-01T09:00:00Z, or an age: 14d, 36h, 2w")
    })
}

/// Parses an offset such as `14d` or `2 weeks` to milliseconds.
fn parse_offset(text: &str) -> Option<i64> {
    const UNITS: &[(&[&str], i64)] = &[
        (&["s", "sec", "secs", "second", "seconds"], 1),
        (&["m", "min", "mins", "minute", "minutes"], 60),
        (&["h", "hour", "hours"], 3_600),
        (&["d", "day", "days"], 86_400),
        (&["w", "week", "weeks"], 7 * 86_400),
    ];
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
    let (_, seconds) = UNITS.iter().find(|(names, _)| names.contains(&unit.trim_start()))?;
    number.parse::<i64>().ok()?.checked_mul(*seconds)?.checked_mul(1_000)
}

/// Parses yesterday, today or tomorrow to the start of that day in UTC.
fn parse_named_day(text: &str, now: Timestamp) -> Option<Timestamp> {
    const DAY: i64 = 86_400_000;
    let days = match text {
        "yesterday" => -1,
        "today" => 0,
        "tomorrow" => 1,
        _ => return None,
    };
    Some(Timestamp::from_millis((now.as_millis().div_euclid(DAY) + days) * DAY))
}

fn offset(now: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_add(millis))
}

/// Returns the ids of the arguments; `-` stands for the first word of each line of standard input.
pub(crate) fn ids(args: &[String]) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for arg in args {
        if arg == "-" {
            let input = read_stdin()?;
            ids.extend(input.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned));
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
    std::fs::read_to_string(path)
        .map_err(|error| Error::invalid(format!("cannot read {}", path.display())).because(error))
}

fn read_stdin() -> Result<String> {
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| Error::invalid("cannot read standard input as text").because(error))?;
    Ok(input)
}

/// A column of a list of issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Column {
    Id,
    Priority,
    Type,
    Status,
    Assignee,
    Title,
    Labels,
    Parent,
    Created,
    Updated,
    Closed,
    Due,
}

impl Column {
    /// The columns without `--columns`.
    pub(crate) const DEFAULT: &[Column] =
        &[Column::Id, Column::Priority, Column::Type, Column::Status, Column::Assignee, Column::Title];

    fn cell(self, summary: &Summary) -> Cell {
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
            Column::Title => cell(&summary.title),
            Column::Labels => or_dash(Some(&summary.labels.join(","))),
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
