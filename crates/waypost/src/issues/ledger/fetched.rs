//! What a contributor sees of a project before pulling it: the ledger that the last sync fetched.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use waypost_core::Result;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::record::Record;
use waypost_fs::Stamp;
use waypost_ledger::Index;

use super::Ledger;
use super::pruned::mark_of;

/// The fetched records that the checkout does not have, and the files that were compared.
#[derive(Default)]
pub(super) struct Fetched {
    stamps: Option<[Option<Stamp>; 2]>,
    records: Arc<Vec<Record>>,
}

impl Ledger {
    /// Returns the records that the project has in its fetched ledger and not in the checkout. Only contributors have such a
    /// ledger: maintainers merge it.
    pub(super) fn fetched_records(&self) -> Arc<Vec<Record>> {
        let Some(repo) = self.protected().and_then(|number| self.repos.get(number)) else { return Arc::default() };
        let (file, ledger) = (repo.fetched_file(), repo.file.path());
        let stamp = |path: &Path| Stamp::of_path(path).ok().flatten();
        let stamps = [stamp(&file), stamp(ledger)];
        if stamps[0].is_none() {
            return Arc::default();
        }
        let mut known = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if known.stamps != Some(stamps) {
            let read = |path: &Path| std::fs::read(path).unwrap_or_default();
            let (fetched, here) = (Document::parse(read(&file)), Document::parse(read(ledger)));
            let here: HashSet<&[u8]> = here.lines().collect();
            let is_new = |place: &usize| !here.contains(fetched.line(*place));
            let records = (0..fetched.len()).filter(is_new).filter_map(|place| fetched.record(place).ok()).collect();
            *known = Fetched { stamps: Some(stamps), records: Arc::new(records) };
        }
        Arc::clone(&known.records)
    }

    /// Returns whether queries show a fetched record: the checkout has an older version of the issue, or a proposal of it, or
    /// none. It was not pruned from the checkout meanwhile.
    pub(super) fn is_news(&self, index: &Index, number: usize, record: &Record) -> Result<bool> {
        let Some((fetched, _)) = Issue::read(record) else { return Ok(false) };
        if let Some(here) = index.in_ledger(&fetched.id, number)? {
            let is_accepted = |issue: &Issue| issue.visibility() == Visibility::Canonical;
            return Ok(
                here.issue.updated_at < fetched.updated_at || (is_accepted(&fetched) && !is_accepted(&here.issue))
            );
        }
        let mark = self.repos.get(number).and_then(mark_of);
        Ok(fetched.closed_at.is_none_or(|closed| mark.is_none_or(|mark| closed >= mark)))
    }
}
