//! Pruning: closed issues leave the ledger and stay in version control.

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use crate::issues::history::committed_lines;
use crate::issues::ledger::{IndexedIssue, Ledger};
use crate::machine::place::Place;

/// Size from which a ledger is worth pruning.
pub const LARGE_LEDGER_BYTES: usize = 25 * 1024;

/// Selects the issues to prune.
#[derive(Clone, Copy, Debug)]
pub struct PrunePlan {
    /// Prune issues closed before this time.
    pub before: Timestamp,
    /// Keep this many issues that were closed last.
    pub keep: usize,
    /// Stop when the file has at most this many bytes.
    pub down_to: Option<usize>,
    /// Only report the issues, and write nothing.
    pub dry_run: bool,
}

/// The outcome of pruning.
#[derive(Debug)]
pub struct Pruned {
    /// The pruned issues.
    pub issues: Vec<IndexedIssue>,
    /// Number of issues that stay only because they are not committed.
    pub uncommitted: usize,
}

/// Removes closed issues from a ledger if no open issue depends on them and their lines are committed.
pub fn prune(ledger: &Ledger, number: usize, plan: PrunePlan) -> Result<Pruned> {
    let place = ledger.place_at(&ledger.repos()[number].root)?;
    let Some(committed) = committed_lines(&place)? else {
        return Err(Error::refused("without version control a pruned issue would be lost")
            .hint("way delete leaves a tombstone, and way export writes a copy"));
    };
    ledger.transaction_in(number, |transaction| {
        if plan.dry_run {
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

/// Prunes large ledgers if `prune.auto` is on. Returns the outcome for each of them.
pub(crate) fn prune_large(place: &Place, ledger: &Ledger) -> Vec<Result<Pruned>> {
    if place.config.text("prune.auto").as_deref() != Some("on") {
        return Vec::new();
    }
    let plan = PrunePlan { before: ledger.now(), keep: 0, down_to: Some(LARGE_LEDGER_BYTES), dry_run: false };
    let is_large = |number: &usize| {
        let size = std::fs::metadata(ledger.repos()[*number].file.path()).map_or(0, |file| file.len());
        size > LARGE_LEDGER_BYTES as u64 && ledger.may_write(*number)
    };
    (0..ledger.repos().len()).filter(is_large).map(|number| prune(ledger, number, plan)).collect()
}
