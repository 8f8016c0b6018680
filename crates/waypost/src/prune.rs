//! The moving frontier: closed work leaves the ledger, and stays in version control.

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use crate::history::committed_lines;
use crate::ledger::{IndexedIssue, Ledger, place_of};
use crate::place::Place;

/// A ledger that is larger is worth pruning.
pub const LARGE: usize = 25 * 1024;

/// Which issues are taken out.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Those closed before.
    pub before: Timestamp,
    /// But not these many that were closed last.
    pub keep: usize,
    /// No more than bring the file down to this size.
    pub down_to: Option<usize>,
    /// Whether nothing is written.
    pub is_rehearsal: bool,
}

/// What was done.
#[derive(Debug)]
pub struct Pruned {
    /// The issues that were taken out.
    pub issues: Vec<IndexedIssue>,
    /// How many could be taken out, but are not committed.
    pub uncommitted: usize,
}

/// Takes closed issues out of a ledger that nothing open depends on, and that version control has as they are.
pub fn prune(ledger: &Ledger, number: usize, plan: Plan) -> Result<Pruned> {
    let place = place_of(&ledger.repos()[number].root, None)?;
    let Some(committed) = committed_lines(&place)? else {
        return Err(Error::refused("without version control a pruned issue would be gone")
            .hint("way delete leaves a tombstone, and way export a copy"));
    };
    ledger.transaction_in(number, |transaction| {
        if plan.is_rehearsal {
            transaction.discard();
        }
        transaction.issues().narrow(Some(number));
        let closed = transaction.issues().prunable(plan.before, plan.keep);
        transaction.issues().narrow(None);
        let closed = closed?;
        let is_saved = |entry: &IndexedIssue| committed.contains(entry.raw.as_bytes());
        let uncommitted = closed.iter().filter(|entry| !is_saved(entry)).count();
        let issues = transaction.prune(closed, plan.down_to, is_saved)?;
        Ok(Pruned { issues, uncommitted })
    })
}

/// Prunes ledgers that have become large, if the configuration says so. Returns what became of each that was.
pub fn prune_large(place: &Place, ledger: &Ledger) -> Vec<Result<Pruned>> {
    if place.config.text("prune.auto").as_deref() != Some("on") {
        return Vec::new();
    }
    let plan = Plan { before: ledger.now(), keep: 0, down_to: Some(LARGE), is_rehearsal: false };
    let is_large = |number: &usize| {
        let size = std::fs::metadata(ledger.repos()[*number].file.path()).map_or(0, |file| file.len());
        size > LARGE as u64 && ledger.may_write(*number)
    };
    (0..ledger.repos().len()).filter(is_large).map(|number| prune(ledger, number, plan)).collect()
}
