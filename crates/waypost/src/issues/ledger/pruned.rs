//! Blockers that were closed and then pruned: they are in no ledger, but in the history of one.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::mark;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_ledger::Index;
use waypost_workspace::history::Commit;

use super::Ledger;
use crate::issues::history::find_in_history;
use crate::issues::repos::Repo;

/// The file in the private directory with what the histories showed.
const FILE: &str = "ledger.pruned";

/// Maximum number of missing issues to search for at once, because each search is slow.
const MAX_HISTORY_SEARCHES: usize = 50;

/// Maximum size of the line with the mark.
const MAX_MARK_BYTES: u64 = 64 * 1024;

/// What the histories showed about issues that are in no ledger.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Past {
    /// They were closed when they left.
    closed: BTreeSet<String>,
    /// They were not found, or were open, while the ledgers had these marks.
    unknown: BTreeSet<String>,
    marks: Vec<Option<Timestamp>>,
}

impl Ledger {
    /// Returns what is known about pruned issues.
    pub(super) fn past(&self) -> Past {
        let file = self.past_file().and_then(|file| waypost_fs::read_small_file(&file).ok().flatten());
        file.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn past_file(&self) -> Option<std::path::PathBuf> {
        self.place.checkout.as_ref().map(|checkout| checkout.private_dir.join(FILE))
    }

    /// Returns the blockers to search for in the histories: pruning never takes the blocker of an open issue from its own
    /// ledger, but another ledger may wait for it, or its dependent may be reopened.
    pub(super) fn unknown_blockers(&self, index: &Index) -> Result<Vec<String>> {
        let revision = index.revision()?;
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if searched.replace(revision) == Some(revision) {
            return Ok(Vec::new());
        }
        let mut missing = index.unresolved()?;
        if missing.is_empty() {
            return Ok(missing);
        }
        let marks: Vec<_> = self.repos.iter().map(mark_of).collect();
        if marks.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let past = self.past();
        missing.retain(|id| past.marks != marks || !past.unknown.contains(id));
        Ok(missing)
    }

    /// Searches the histories for missing blockers, and remembers which of them were closed before they were pruned.
    pub(super) fn learn_pruned(&self, missing: Vec<String>) {
        let marks: Vec<_> = self.repos.iter().map(mark_of).collect();
        let mut past = self.past();
        if past.marks != marks {
            past = Past { closed: past.closed, unknown: BTreeSet::new(), marks };
        }
        let missing = missing.into_iter().filter(|id| !past.closed.contains(id)).collect::<Vec<_>>();
        for id in missing.into_iter().take(MAX_HISTORY_SEARCHES) {
            let was_closed = (0..self.repos.len()).any(|number| self.was_closed(number, &id));
            if was_closed { &mut past.closed } else { &mut past.unknown }.insert(id);
        }
        if self.writes_index
            && let (Some(file), Ok(bytes)) = (self.past_file(), serde_json::to_vec(&past))
            && let Err(error) = waypost_fs::replace(&file, &bytes, 0o600)
        {
            // Then the next command searches again.
            log::debug!("cannot write {}: {error}", file.display());
        }
        if self.terms().pruned.add(past.closed) {
            self.ledgers.close_index();
        }
    }

    /// Returns whether the history shows that an issue was closed when it left a ledger.
    fn was_closed(&self, number: usize, id: &str) -> bool {
        self.find_in_history(number, id).ok().flatten().is_some_and(|(record, _)| self.is_over(&record))
    }

    /// Returns whether a record is that of a closed or deleted issue.
    pub(crate) fn is_over(&self, record: &Record) -> bool {
        Issue::read(record).is_some_and(|(issue, _)| self.terms().statuses.category(&issue.status).is_over())
    }

    /// Searches the histories of all ledgers for an issue that none of them has. Returns the ledgers' `error` if no history
    /// has it either.
    pub fn find_after_error(&self, mut error: Error, id: &str) -> Result<(Record, Commit)> {
        if error.kind() != Kind::NotFound || id.is_empty() {
            return Err(error);
        }
        for number in 0..self.repos.len() {
            match self.find_in_history(number, id) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => error = error.hint(format!("its history cannot be searched: {}", why.full_message())),
            }
        }
        Err(error)
    }

    /// Finds the last version of a record that a ledger does not have any more, and the last commit that has it.
    fn find_in_history(&self, number: usize, id: &str) -> Result<Option<(Record, Commit)>> {
        if number == 0 {
            return find_in_history(&self.place, id);
        }
        find_in_history(&self.place_at(&self.repos[number].worktree())?, id)
    }
}

impl Past {
    pub(super) fn closed(self) -> BTreeSet<String> {
        self.closed
    }
}

/// Returns the mark that pruning left in a ledger. Reads only the first line.
pub(super) fn mark_of(repo: &Repo) -> Option<Timestamp> {
    let file = std::fs::File::open(repo.file.path()).ok()?;
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_MARK_BYTES)).read_until(b'\n', &mut line).ok()?;
    mark::of(&Document::parse(line))
}
