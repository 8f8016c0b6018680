//! Imports issues of other trackers into the ledger, in one write.
//!
//! An issue that was imported before is found by its id or its `external_ref`, so a repeated import adds nothing. Existing
//! issues are only updated on request, and only with newer content.

mod program_sources;
mod sources;
pub mod workflows;

use std::collections::{BTreeMap, HashMap, HashSet};

use waypost_core::ledger::issue::{Issue, parse_time};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Category;
use waypost_core::{Result, words};
use waypost_import::Note;
use waypost_import::issues::{self, Imported};
use waypost_ledger::{Filter, Index, IndexedIssue, Sort};

use crate::issues::ledger::{Ledger, Transaction};
use crate::issues::merge_driver::ensure_driver;
use crate::ops::issue::IssueContext;

pub use sources::{project, sources};
pub use waypost_import::issues::{Format, read, rename};

/// Options of an import.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The format of the source.
    pub format: Format,
    /// Whether to update issues that exist already.
    pub update: bool,
    /// Whether to write nothing and only report.
    pub dry_run: bool,
}

/// The outcome of an import.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// New issues.
    pub added: Vec<Taken>,
    /// Updated issues.
    pub updated: Vec<Taken>,
    /// Existing issues that were not updated.
    pub skipped: Vec<Taken>,
    /// Number of new records of other kinds.
    pub others: usize,
    /// Notes about content that could not be imported.
    pub notes: Vec<Note>,
}

/// An issue of another tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its name there.
    pub item: String,
    /// Its id here.
    pub id: String,
}

/// Adds the project to the names of imported issues.
pub fn qualify(imported: &mut Imported, project: &str) -> Result<()> {
    for record in &mut imported.records {
        *record = issues::qualify(record, project)?;
    }
    Ok(())
}

/// Writes imported records into the ledger.
pub fn import(issues: &IssueContext, imported: &Imported, plan: Plan) -> Result<Outcome> {
    let outcome = write(&issues.ledger, imported, plan)?;
    if !plan.dry_run {
        ensure_driver(&issues.place);
    }
    Ok(outcome)
}

fn write(ledger: &Ledger, imported: &Imported, plan: Plan) -> Result<Outcome> {
    ledger.transaction(|transaction| {
        if plan.dry_run {
            transaction.discard();
        }
        let mut outcome = Outcome { notes: imported.notes.clone(), ..Outcome::default() };
        if plan.format.is_ledger() {
            import_ledger_records(transaction, &imported.records, plan, &mut outcome)?;
        } else {
            import_foreign_records(transaction, &imported.records, plan, &mut outcome)?;
        }
        Ok(outcome)
    })
}

/// Imports records of a ledger with their ids and their bytes.
fn import_ledger_records(
    transaction: &mut Transaction<'_, '_>,
    records: &[Record],
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut issues: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    let mut new: Vec<Record> = Vec::new();
    let existing: HashSet<&[u8]> = transaction.draft().lines().collect();
    let mut seen: HashSet<String> = HashSet::new();
    for record in records {
        let line = record.to_line();
        match Issue::read(record) {
            Some((issue, _)) => issues.entry(issue.id).or_default().push(record),
            None if existing.contains(line.as_bytes()) || !seen.insert(line) => {}
            None => new.push(record.clone()),
        }
    }
    outcome.others = new.len();
    let mut older: Vec<(IndexedIssue, &Record)> = Vec::new();
    for (id, mut versions) in issues {
        // As in a ledger, the version changed last wins.
        versions.sort_by_key(|record| (record.text("updated_at").and_then(|text| parse_time(&text)), record.to_line()));
        versions.dedup();
        match transaction.issues().get(&id)? {
            None => {
                new.extend(versions.into_iter().cloned());
                outcome.added.push(Taken { item: id.clone(), id });
            }
            Some(entry) => older.extend(versions.last().map(|newest| (entry, *newest))),
        }
    }
    transaction.draft().add_all(&new)?;
    for (entry, newest) in older {
        let id = entry.issue.id.clone();
        update_existing(transaction, &entry, newest, &id, plan, outcome)?;
    }
    Ok(())
}

/// Imports records of another tracker: assigns ids, and resolves dependencies among them and in the ledger.
fn import_foreign_records(
    transaction: &mut Transaction<'_, '_>,
    records: &[Record],
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut known = ExternalNames::of(transaction.issues())?;
    known.is_plain = known.was_imported_without_project(records, transaction.issues())?;
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut taken: HashSet<String> = HashSet::new();
    let mut fresh: Vec<(String, &Record)> = Vec::new();
    let mut older: Vec<(String, &Record)> = Vec::new();
    let mut deleted: HashSet<String> = HashSet::new();
    for record in records {
        let name = record.text("id").unwrap_or_default();
        if let Some(id) = known.find(&name) {
            ids.insert(name.clone(), id);
            older.push((name, record));
        } else if record.text("status").as_deref() == Some("tombstone") {
            deleted.insert(name);
        } else {
            let id = transaction.id_for(&name, |id| taken.contains(id))?;
            taken.insert(id.clone());
            ids.insert(name.clone(), id);
            fresh.push((name, record));
        }
    }
    let adopt = |name: &str, record: &Record, notes: &mut Vec<Note>| -> Result<(String, Record)> {
        let id = ids.get(name).cloned().unwrap_or_default();
        let find = |other: &str| ids.get(other).cloned().or_else(|| known.find(other));
        let (record, unknown) = issues::adopt(record, &id, find)?;
        // A deleted issue blocks no other.
        for other in unknown.into_iter().filter(|other| !deleted.contains(other)) {
            notes.push(Note::new(name, format!("it depends on {other}, which was not found")));
        }
        Ok((id, record))
    };
    let mut new = Vec::with_capacity(fresh.len());
    for (name, record) in fresh {
        let (id, mut record) = adopt(&name, record, &mut outcome.notes)?;
        issues::complete(&mut record, plan.format)?;
        new.push(record);
        outcome.added.push(Taken { item: name, id });
    }
    transaction.draft().add_all(&new)?;
    let mut undated = 0;
    for (name, record) in older {
        let mut notes = Vec::new();
        let (id, record) = adopt(&name, record, &mut notes)?;
        let Some(entry) = transaction.issues().get(&id)? else { continue };
        undated += usize::from(record.raw("updated_at").is_none());
        let before = outcome.updated.len();
        update_existing(transaction, &entry, &record, &name, plan, outcome)?;
        if outcome.updated.len() > before {
            outcome.notes.extend(notes);
        }
    }
    if plan.update && undated > 0 {
        let problem = format!("{} not updated: the source has no time of change", words::count(undated, "issue"));
        outcome.notes.push(Note::new(plan.format.name(), problem));
    }
    if !deleted.is_empty() {
        outcome
            .notes
            .push(Note::new(plan.format.name(), format!("{} left out", words::count(deleted.len(), "deleted issue"))));
    }
    Ok(())
}

/// Updates an existing issue if the plan asks for it and the incoming record is newer. A deleted issue stays deleted.
fn update_existing(
    transaction: &mut Transaction<'_, '_>,
    entry: &IndexedIssue,
    incoming: &Record,
    item: &str,
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let id = entry.issue.id.clone();
    let is_deleted = transaction.issues().terms().statuses.category(&entry.issue.status) == Category::Deleted;
    let new = if plan.update && !is_deleted { issues::updated(&entry.record, incoming, plan.format)? } else { None };
    let taken = Taken { item: item.to_owned(), id };
    let Some(mut new) = new else {
        outcome.skipped.push(taken);
        return Ok(());
    };
    if !transaction.draft().has(entry) {
        outcome.notes.push(Note::new(item, format!("issue {} is in another ledger and is not updated", taken.id)));
        outcome.skipped.push(taken);
        return Ok(());
    }
    if !plan.format.is_ledger() {
        break_cycles(transaction.issues(), &entry.issue, &mut new, &mut outcome.notes)?;
    }
    transaction.draft().edit(&taken.id, |record| {
        *record = new;
        Ok(())
    })?;
    outcome.updated.push(taken);
    Ok(())
}

/// Removes dependencies and parents from a record that would close a cycle.
fn break_cycles(index: &Index, before: &Issue, new: &mut Record, notes: &mut Vec<Note>) -> Result<()> {
    let Some((after, _)) = Issue::read(new) else { return Ok(()) };
    let is_old = |blocker: &str| before.blockers().any(|known| known == blocker);
    let closing: Vec<String> = after
        .blockers()
        .filter(|blocker| !is_old(blocker) && index.cycle(&after.id, blocker).is_some())
        .map(str::to_owned)
        .collect();
    for blocker in &closing {
        notes.push(Note::new(&after.id, format!("its dependency on {blocker} would close a cycle")));
    }
    if !closing.is_empty() {
        let edges: Vec<serde_json::Value> =
            new.raw("dependencies").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        let is_kept = |edge: &serde_json::Value| {
            !closing.iter().any(|blocker| edge["depends_on_id"] == blocker.as_str() && edge["type"] == "blocks")
        };
        new.set("dependencies", &edges.into_iter().filter(is_kept).collect::<Vec<_>>())?;
    }
    let parent = after.parent_id.filter(|parent| before.parent_id.as_ref() != Some(parent));
    if let Some(parent) = parent.filter(|parent| index.parent_cycle(&after.id, parent).is_some()) {
        notes.push(Note::new(&after.id, format!("its parent {parent} would close a cycle")));
        match &before.parent_id {
            Some(parent) => new.set("parent_id", parent)?,
            None => drop(new.remove("parent_id")),
        }
    }
    Ok(())
}

/// The ids of issues by their names in other trackers.
struct ExternalNames {
    ids: HashMap<String, String>,
    /// Ids by short name; `None` if several issues share it.
    short: HashMap<String, Option<String>>,
    /// Whether names without a project, which older versions wrote, belong to the imported project.
    is_plain: bool,
}

impl ExternalNames {
    fn of(index: &Index) -> Result<ExternalNames> {
        let mut known = ExternalNames { ids: HashMap::new(), short: HashMap::new(), is_plain: false };
        for summary in index.list(&Filter { deleted: true, ..Filter::default() }, Sort::Id, false, None)? {
            let (record, _) = index.record(&summary)?;
            let Some(name) = record.text("external_ref").filter(|name| !name.is_empty()) else { continue };
            if let Some(short) = issues::short_name(&name) {
                known.short.entry(short).and_modify(|id| *id = None).or_insert(Some(summary.id.clone()));
            }
            known.ids.entry(name).or_insert(summary.id);
        }
        Ok(known)
    }

    /// Returns whether the project was imported before under names without a project: most issues with such names still have
    /// the same title.
    fn was_imported_without_project(&self, records: &[Record], index: &Index) -> Result<bool> {
        let (mut same, mut others) = (0, 0);
        for record in records {
            let plain = record.text("id").and_then(|name| issues::plain_name(&name));
            let Some(id) = plain.and_then(|plain| self.ids.get(&plain)) else { continue };
            let Some(entry) = index.get(id)? else { continue };
            if record.text("title").as_deref() == Some(entry.issue.title.as_str()) {
                same += 1;
            } else {
                others += 1;
            }
        }
        Ok(same > others)
    }

    fn find(&self, name: &str) -> Option<String> {
        let by_number = || self.ids.get(&issues::short_name(name)?);
        let plain = || self.ids.get(&issues::plain_name(name).filter(|_| self.is_plain)?);
        let found = self.ids.get(name).or_else(by_number).or_else(plain).cloned();
        found.or_else(|| self.short.get(name).cloned().flatten())
    }
}
