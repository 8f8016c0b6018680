//! What the commands about issues have in common.

use std::io::Read as _;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use waypost_core::ledger::change::Author;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::{self, DependencyKind, Statuses};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};

use super::ui::{BOLD, Cell, DIM, GOOD, PLAIN, Style, WARN, cell, styled};
use super::{Cx, in_one_line};
use crate::ledger::{Draft, Ledger, Snapshot};
use crate::place::Place;
use crate::session::clock;

/// The ledger one stands in, and who is writing.
pub(crate) struct Desk {
    pub(crate) place: Place,
    pub(crate) ledger: Ledger,
    pub(crate) now: Timestamp,
    actor: String,
}

impl Desk {
    pub(crate) fn author(&self) -> Author<'_> {
        Author { name: &self.actor, now: self.now }
    }

    /// Changes several issues as one write, each in the same way, and returns them as they are then.
    pub(crate) fn edit_each(
        &self,
        wanted: &[String],
        edit: impl Fn(&mut Record, Author<'_>, &Statuses) -> Result<()>,
    ) -> Result<Vec<Record>> {
        self.ledger.change(|draft| {
            let ids = resolve_all(draft, wanted)?;
            ids.iter().map(|id| draft.edit(id, |record| edit(record, self.author(), &self.ledger.statuses))).collect()
        })
    }

    /// Returns a record as programs see it: all its fields as they are spelled, and where it is from.
    pub(crate) fn json(&self, record: &Record) -> Result<Box<RawValue>> {
        let mut shown = record.clone();
        let repository = self.place.checkout.as_ref().map(|checkout| path_text::to_text(checkout.repository_path()));
        shown.set("source_repo", &repository)?;
        RawValue::from_string(shown.to_line()).map_err(|error| Error::internal("a record is not JSON").because(error))
    }

    /// Returns several records as programs see them.
    pub(crate) fn json_list<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Result<Vec<Box<RawValue>>> {
        records.into_iter().map(|record| self.json(record)).collect()
    }
}

impl Cx {
    /// Reads the ledger, and says if a part of it could not be read.
    pub(crate) fn snapshot(&mut self, desk: &Desk) -> Result<Snapshot> {
        let snapshot = desk.ledger.snapshot()?;
        match snapshot.damage.len() {
            0 => {}
            1 => self.ui.warn("1 line of the ledger cannot be read: way doctor"),
            lines => self.ui.warn(&format!("{lines} lines of the ledger cannot be read: way doctor")),
        }
        Ok(snapshot)
    }

    /// Opens the ledger.
    pub(crate) fn desk(&mut self) -> Result<Desk> {
        let place = self.place()?;
        let ledger = Ledger::of(&place)?;
        let now = clock(&place.variables)?.now();
        let actor = place.actor();
        Ok(Desk { place, ledger, now, actor })
    }

    /// Answers with what became of several issues: one line each, with a verb.
    pub(crate) fn answer_changed(&self, desk: &Desk, verb: &str, records: &[Record]) -> Result<()> {
        let data = OneOrMany(desk.json_list(records)?);
        self.ui.answer(&data, |text| {
            for record in records {
                let title = record.text("title").unwrap_or_default();
                text.line(format!("{verb} {}  {title}", record.text("id").unwrap_or_default()));
            }
        })
    }
}

/// One thing is an object for programs, several are a list.
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => only.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

/// Reads a priority from the command line.
pub(crate) fn priority(text: &str) -> Result<u8, String> {
    vocabulary::priority(text).map_err(in_one_line)
}

/// Reads a kind of dependency from the command line.
pub(crate) fn dependency_kind(text: &str) -> Result<DependencyKind, String> {
    DependencyKind::parse(text).map_err(in_one_line)
}

/// Finds the ids that are meant, each once.
pub(crate) fn resolve_all(draft: &Draft<'_>, wanted: &[String]) -> Result<Vec<String>> {
    let mut ids: Vec<String> = Vec::new();
    for one in wanted {
        let id = draft.snapshot.find(one)?.issue.id.clone();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Returns a text that was given, or standard input for `-`.
pub(crate) fn text_or_stdin(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| Error::invalid("standard input cannot be read as text").because(error))?;
    Ok(input.trim_end().to_owned())
}

/// A row of a list of issues.
pub(crate) fn row(issue: &Issue) -> Vec<Cell> {
    vec![
        styled(BOLD, &issue.id),
        styled(if issue.priority <= 1 { WARN } else { PLAIN }, format!("P{}", issue.priority)),
        cell(&issue.issue_type),
        styled(status_style(&issue.status), &issue.status),
        styled(DIM, issue.assignee.as_deref().unwrap_or("-")),
        cell(&issue.title),
    ]
}

fn status_style(status: &str) -> Style {
    match status {
        "in_progress" => GOOD,
        "closed" | "tombstone" => DIM,
        _ => PLAIN,
    }
}
