//! Moving issues from one ledger to another.
//!
//! Both ledgers stay locked, so no edit falls between the two writes. The target is written before the source, so a crash
//! between them leaves an issue in both. Moving it again merges the copies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waypost_core::ledger::issue::Issue;
use waypost_core::{Error, Result};
use waypost_ledger::LedgerLocks;

use crate::issues::forks::Committed;
use crate::issues::ledger::{Filter, IndexedIssue, Ledger, Record, Sort, Transaction, Visibility};

/// How long to retry while another program keeps changing the issues.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Selects the issues to move: those that match every part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    parts: Vec<(String, String)>,
}

impl Which {
    const KEYS: &[&str] = &["author", "status", "label", "type", "priority", "assignee", "id"];

    /// Parses `key=value` parts separated by spaces; `author=me` means the caller.
    pub fn parse(text: &str, actor: &str) -> Result<Which> {
        let mut parts = Vec::new();
        for part in text.split_whitespace() {
            let Some((key, value)) = part.split_once('=') else {
                return Err(Error::invalid(format!("{part:?} is not key=value"))
                    .hint(format!("the keys are {}", Self::KEYS.join(", "))));
            };
            if !Self::KEYS.contains(&key) {
                let error = Error::invalid(format!("unknown filter key {key:?}"));
                return Err(match waypost_core::nearest::nearest(key, Self::KEYS.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("the keys are {}", Self::KEYS.join(", "))),
                });
            }
            let value = if key == "author" && value == "me" { actor } else { value };
            parts.push((key.to_owned(), value.to_owned()));
        }
        if parts.is_empty() {
            return Err(Error::invalid("an empty filter would move every issue")
                .hint("name a condition, for example status=open or author=me"));
        }
        Ok(Which { parts })
    }

    fn matches(&self, issue: &Issue) -> bool {
        self.parts.iter().all(|(key, value)| match key.as_str() {
            "author" => issue.created_by.as_ref() == Some(value),
            "status" => issue.status == *value,
            "label" => issue.has_label(value),
            "type" => issue.issue_type == *value,
            "priority" => waypost_core::ledger::vocabulary::priority(value).is_ok_and(|value| value == issue.priority),
            "assignee" => issue.assignee.as_ref() == Some(value),
            _ => issue.id == *value,
        })
    }
}

/// Moves issues into a ledger from all others, or from one. Returns the moved issues; a dry run moves none.
pub fn migrate_issues(
    ledger: &Ledger,
    from: Option<usize>,
    to: usize,
    which: &Which,
    dry_run: bool,
) -> Result<Vec<IndexedIssue>> {
    let sources: Vec<usize> =
        (0..ledger.repos().len()).filter(|number| *number != to && from.is_none_or(|from| from == *number)).collect();
    let mut moved = Vec::new();
    for source in sources {
        if select(ledger, source, which)?.is_empty() {
            continue;
        }
        ledger.require_writable(source)?;
        ledger.require_writable(to)?;
        let locks = ledger.lock(&[source, to])?;
        // Select again under the locks, when no other command changes the issues.
        let found = select(ledger, source, which)?;
        if ledger.protected() == Some(source) {
            // The target is written first, so what must stay in the source is found out before.
            ledger.transaction_under(&locks, source, |transaction| {
                transaction.discard();
                transaction.draft().remove_all(found.iter().map(|entry| entry.issue.id.as_str()))
            })?;
        }
        if dry_run {
            ledger.transaction_under(&locks, to, |transaction| {
                transaction.discard();
                put_all(ledger, transaction, source, to, &found, &BTreeMap::new())
            })?;
        } else {
            transfer(ledger, &locks, source, to, found.clone())?;
        }
        moved.extend(found);
    }
    Ok(moved)
}

/// Moves a contributor's private issues out of the project's ledger into the planning, so that no pull request shows them.
/// Returns their number.
pub fn take_private(ledger: &Ledger) -> Result<usize> {
    let to = ledger.route().number;
    if to == 0 || ledger.private_issues()?.is_empty() {
        return Ok(0);
    }
    let locks = ledger.lock(&[0, to])?;
    let private = ledger.private_issues()?;
    let entries = private.iter().map(|id| ledger.with_index(|index| index.in_ledger(id, 0)));
    let entries: Vec<IndexedIssue> = entries.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    transfer(ledger, &locks, 0, to, entries)?;
    ledger.repos()[0].file.remove_if_empty(&locks);
    Ok(private.len())
}

/// Returns the matching issues of a ledger.
fn select(ledger: &Ledger, source: usize, which: &Which) -> Result<Vec<IndexedIssue>> {
    let all = Filter { closed: true, ..Filter::default() };
    ledger.with_index(|index| {
        let mut found = Vec::new();
        for summary in index.list(&all, Sort::Id, false, None)? {
            if let Some(entry) = index.in_ledger(&summary.id, source)?
                && which.matches(&entry.issue)
            {
                found.push(entry);
            }
        }
        Ok(found)
    })
}

/// Adds issues to the target, or merges them into its copies, with the visibility that they have there.
fn put_all(
    ledger: &Ledger,
    transaction: &mut Transaction<'_, '_>,
    source: usize,
    to: usize,
    issues: &[IndexedIssue],
    bases: &BTreeMap<String, Record>,
) -> Result<()> {
    for entry in issues {
        let (id, mut record) = (&entry.issue.id, entry.record.clone());
        let mut is_proposed = false;
        for other in (0..ledger.repos().len()).filter(|other| *other != source && *other != to) {
            let copy = transaction.issues().in_ledger(id, other)?;
            is_proposed |= copy.is_some_and(|copy| copy.issue.visibility() == Visibility::Proposed);
        }
        let is_private = ledger.new_visibility(to) == Some(Visibility::Local);
        match (entry.issue.visibility(), is_private) {
            (Visibility::Proposed, true) if is_proposed => {}
            // In a private ledger, issues are local to it.
            (_, true) => set_visibility(&mut record, Visibility::Local)?,
            // In the ledger of the project, an issue is not local any more.
            (Visibility::Local, false) if to == 0 => set_visibility(&mut record, Visibility::Canonical)?,
            (_, false) => {}
        }
        let mut merged = transaction.merge_in(bases.get(id), &record)?;
        if is_private && merged.text("visibility") != record.text("visibility") && !is_proposed {
            set_visibility(&mut merged, Visibility::Local)?;
            transaction.put(&merged)?;
        }
    }
    Ok(())
}

fn set_visibility(record: &mut Record, visibility: Visibility) -> Result<()> {
    if let Some(field) = visibility.as_field() {
        return record.set("visibility", &field);
    }
    record.remove("visibility");
    Ok(())
}

/// Copies issues to the target, then removes them from the source.
///
/// Git does not use our locks and may replace either file between the two writes. So an issue is removed only if it is
/// still the version that was copied and the target has it; otherwise it is copied again.
fn transfer(
    ledger: &Ledger,
    locks: &LedgerLocks,
    source: usize,
    to: usize,
    mut remaining: Vec<IndexedIssue>,
) -> Result<()> {
    let deadline = Instant::now() + RETRY_TIMEOUT;
    let mut bases: BTreeMap<String, Record> = BTreeMap::new();
    let committed = Committed::of(&ledger.repos()[source])?;
    while !remaining.is_empty() {
        if Instant::now() > deadline {
            return Err(Error::unavailable("another program keeps changing the issues to move")
                .hint("retry when that program is done; until then the issues are in both ledgers"));
        }
        ledger.transaction_under(locks, to, |transaction| {
            transaction.draft().unmark_moved(|id| remaining.iter().any(|entry| entry.issue.id == id))?;
            put_all(ledger, transaction, source, to, &remaining, &bases)
        })?;
        bases = remaining.iter().map(|entry| (entry.issue.id.clone(), entry.record.clone())).collect();
        remaining = ledger.transaction_under(locks, source, |transaction| {
            let (mut moved, mut changed) = (Vec::new(), Vec::new());
            for entry in &remaining {
                let id = &entry.issue.id;
                let Some(here) = transaction.copy_here(id)? else { continue };
                if here.record == entry.record && transaction.issues().in_ledger(id, to)?.is_some() {
                    moved.push(id.as_str());
                } else {
                    changed.push(here);
                }
            }
            transaction.draft().mark_moved(moved.iter().copied().filter(|id| committed.has(id)), ledger.now())?;
            transaction.draft().remove_all(moved)?;
            Ok(changed)
        })?;
    }
    Ok(())
}
