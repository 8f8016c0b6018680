//! Moving issues from one ledger to another.
//!
//! Both ledgers stay locked, so no edit falls between the two writes. The target is written before the source, so a crash
//! between them leaves an issue in both. Moving it again merges the copies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waypost_core::ledger::issue::Issue;
use waypost_core::{Error, Result};
use waypost_ledger::LedgerLocks;

use crate::ledger::{Filter, IndexedIssue, Ledger, Record, Sort};

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
pub fn migrate(
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
        if dry_run {
            ledger.transaction_under(&locks, to, |transaction| {
                transaction.discard();
                found.iter().try_for_each(|entry| transaction.merge_in(None, &entry.record).map(drop))
            })?;
        } else {
            transfer(ledger, &locks, source, to, found.clone())?;
        }
        moved.extend(found);
    }
    Ok(moved)
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
    while !remaining.is_empty() {
        if Instant::now() > deadline {
            return Err(Error::unavailable("another program keeps changing the issues to move")
                .hint("retry when that program is done; until then the issues are in both ledgers"));
        }
        ledger.transaction_under(locks, to, |transaction| {
            for entry in &remaining {
                transaction.merge_in(bases.get(&entry.issue.id), &entry.record)?;
            }
            Ok(())
        })?;
        bases = remaining.iter().map(|entry| (entry.issue.id.clone(), entry.record.clone())).collect();
        remaining = ledger.transaction_under(locks, source, |transaction| {
            let mut changed = Vec::new();
            for entry in &remaining {
                let id = &entry.issue.id;
                let Some(here) = transaction.copy_here(id)? else { continue };
                if here.record == entry.record && transaction.issues().in_ledger(id, to)?.is_some() {
                    transaction.remove_copy(id)?;
                } else {
                    changed.push(here);
                }
            }
            Ok(changed)
        })?;
    }
    Ok(())
}
