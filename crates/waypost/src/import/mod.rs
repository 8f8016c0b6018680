//! Issues of other trackers become issues of the ledger, all in one write.
//!
//! An issue that came in before is known by its id or by its `external_ref`, so importing again adds nothing. What is in
//! the ledger is only changed if that is asked for, and only by what is newer.

mod sources;
pub mod workflows;

use std::collections::{BTreeMap, HashMap, HashSet};

use waypost_core::Result;
use waypost_core::ledger::issue::{Issue, parse_time};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Category;
use waypost_import::issues::{self, Imported, Note};
use waypost_ledger::{Filter, Index, IndexedIssue, Sort};

use crate::ledger::{Ledger, Transaction};

pub use sources::{project, sources};
pub use waypost_import::issues::{Format, read};

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where the records come from.
    pub format: Format,
    /// Whether issues that are known are brought up to date.
    pub update: bool,
    /// Whether nothing is written.
    pub is_rehearsal: bool,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Issues that are new.
    pub added: Vec<Taken>,
    /// Issues that were brought up to date.
    pub updated: Vec<Taken>,
    /// Issues that were known, and stayed as they are.
    pub skipped: Vec<Taken>,
    /// How many records of other kinds are new.
    pub others: usize,
    /// What could not be carried.
    pub notes: Vec<Note>,
}

/// An issue of another tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What it is called there.
    pub item: String,
    /// Its id here.
    pub id: String,
}

/// Says in the names of what was read of which project they are.
pub fn qualify(imported: &mut Imported, project: &str) -> Result<()> {
    for record in &mut imported.records {
        *record = issues::qualify(record, project)?;
    }
    Ok(())
}

/// Writes what was read into the ledger.
pub fn import(ledger: &Ledger, imported: &Imported, plan: Plan) -> Result<Outcome> {
    ledger.transaction(|transaction| {
        if plan.is_rehearsal {
            transaction.discard();
        }
        let mut outcome = Outcome { notes: imported.notes.clone(), ..Outcome::default() };
        if plan.format.is_ledger() {
            take_ours(transaction, &imported.records, plan, &mut outcome)?;
        } else {
            take_theirs(transaction, &imported.records, plan, &mut outcome)?;
        }
        Ok(outcome)
    })
}

/// Takes records of a ledger: with their ids, and as they are spelled.
fn take_ours(
    transaction: &mut Transaction<'_, '_>,
    records: &[Record],
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut issues: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    let mut new: Vec<Record> = Vec::new();
    let known: HashSet<&[u8]> = transaction.draft().lines().collect();
    let mut seen: HashSet<String> = HashSet::new();
    for record in records {
        let line = record.to_line();
        match Issue::read(record) {
            Some((issue, _)) => issues.entry(issue.id).or_default().push(record),
            None if known.contains(line.as_bytes()) || !seen.insert(line) => {}
            None => new.push(record.clone()),
        }
    }
    outcome.others = new.len();
    let mut older: Vec<(IndexedIssue, &Record)> = Vec::new();
    for (id, mut versions) in issues {
        // As in a ledger: of several versions the one that was changed last counts.
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
        bring_up_to_date(transaction, &entry, newest, &id, plan, outcome)?;
    }
    Ok(())
}

/// Takes records of another tracker: they get ids, and those they depend on are found among them or in the ledger.
fn take_theirs(
    transaction: &mut Transaction<'_, '_>,
    records: &[Record],
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut known = Known::of(transaction.issues())?;
    known.is_plain = known.has_taken(records, transaction.issues())?;
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut taken: HashSet<String> = HashSet::new();
    let mut fresh: Vec<(String, &Record)> = Vec::new();
    let mut older: Vec<(String, &Record)> = Vec::new();
    let mut gone: HashSet<String> = HashSet::new();
    for record in records {
        let name = record.text("id").unwrap_or_default();
        if let Some(id) = known.find(&name) {
            ids.insert(name.clone(), id);
            older.push((name, record));
        } else if record.text("status").as_deref() == Some("tombstone") {
            gone.insert(name);
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
        // What was deleted there holds nobody up.
        for other in unknown.into_iter().filter(|other| !gone.contains(other)) {
            notes.push(Note::new(name, format!("it depends on {other}, which is not there")));
        }
        Ok((id, record))
    };
    let mut new = Vec::with_capacity(fresh.len());
    for (name, record) in fresh {
        let (id, mut record) = adopt(&name, record, &mut outcome.notes)?;
        issues::complete(&mut record, transaction.author())?;
        new.push(record);
        outcome.added.push(Taken { item: name, id });
    }
    transaction.draft().add_all(&new)?;
    let mut timeless = 0;
    for (name, record) in older {
        let mut notes = Vec::new();
        let (id, record) = adopt(&name, record, &mut notes)?;
        let Some(entry) = transaction.issues().get(&id)? else { continue };
        timeless += usize::from(record.raw("updated_at").is_none());
        let before = outcome.updated.len();
        bring_up_to_date(transaction, &entry, &record, &name, plan, outcome)?;
        if outcome.updated.len() > before {
            outcome.notes.extend(notes);
        }
    }
    if plan.update && timeless > 0 {
        let problem = format!("{timeless} do not say when they were changed, so they stay as they are");
        outcome.notes.push(Note::new(plan.format.name(), problem));
    }
    if !gone.is_empty() {
        outcome
            .notes
            .push(Note::new(plan.format.name(), format!("{} that are deleted there are left out", gone.len())));
    }
    Ok(())
}

/// Changes an issue that is known to what comes in, if that is asked for and newer. What is deleted stays so.
fn bring_up_to_date(
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
        outcome.notes.push(Note::new(item, format!("issue {} is in another ledger, and stays as it is", taken.id)));
        outcome.skipped.push(taken);
        return Ok(());
    }
    if !plan.format.is_ledger() {
        open_circles(transaction.issues(), &entry.issue, &mut new, &mut outcome.notes)?;
    }
    transaction.draft().edit(&taken.id, |record| {
        *record = new;
        Ok(())
    })?;
    outcome.updated.push(taken);
    Ok(())
}

/// Takes out of a record what would make it wait for itself.
fn open_circles(index: &Index, before: &Issue, new: &mut Record, notes: &mut Vec<Note>) -> Result<()> {
    let Some((after, _)) = Issue::read(new) else { return Ok(()) };
    let is_old = |blocker: &str| before.blockers().any(|known| known == blocker);
    let closing: Vec<String> = after
        .blockers()
        .filter(|blocker| !is_old(blocker) && index.cycle(&after.id, blocker).is_some())
        .map(str::to_owned)
        .collect();
    for blocker in &closing {
        notes.push(Note::new(&after.id, format!("that it waits for {blocker} closes a circle")));
    }
    if !closing.is_empty() {
        let edges: Vec<serde_json::Value> =
            new.raw("dependencies").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        let is_open = |edge: &serde_json::Value| {
            !closing.iter().any(|blocker| edge["depends_on_id"] == blocker.as_str() && edge["type"] == "blocks")
        };
        new.set("dependencies", &edges.into_iter().filter(is_open).collect::<Vec<_>>())?;
    }
    let parent = after.parent_id.filter(|parent| before.parent_id.as_ref() != Some(parent));
    if let Some(parent) = parent.filter(|parent| index.parent_cycle(&after.id, parent).is_some()) {
        notes.push(Note::new(&after.id, format!("that it is a part of {parent} closes a circle")));
        match &before.parent_id {
            Some(parent) => new.set("parent_id", parent)?,
            None => drop(new.remove("parent_id")),
        }
    }
    Ok(())
}

/// The issues of the ledger that have a name elsewhere.
struct Known {
    ids: HashMap<String, String>,
    /// By their short names; none if several have the same.
    short: HashMap<String, Option<String>>,
    /// Whether names that do not say of which project they are, as they did not once, are of the one that comes in.
    is_plain: bool,
}

impl Known {
    fn of(index: &Index) -> Result<Known> {
        let mut known = Known { ids: HashMap::new(), short: HashMap::new(), is_plain: false };
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

    /// Tells whether the project that comes in was taken before under names that do not say which it is: of the items
    /// that have such names most are still called the same.
    fn has_taken(&self, records: &[Record], index: &Index) -> Result<bool> {
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
