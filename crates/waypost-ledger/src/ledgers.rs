//! Ledgers that share one index, and changes to one of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use waypost_core::ledger::document::Document;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Terms;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, Stamp};

use crate::draft::{Draft, Written};
use crate::file::{LedgerFile, LedgerLocks, MAX_WRITE_ATTEMPTS, Source};
use crate::index::{self, Failure, Index, Updated};

/// How long to wait for a process that updates the index, before using an index in memory instead.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of attempts to read all files while other programs keep changing them. The last attempt counts in any case.
const MAX_READ_ATTEMPTS: usize = 5;

/// Adding this many lines to the full-text index takes noticeable time.
const SLOW_INDEXING_LINES: i64 = 5_000;

/// Ledgers that share one index.
pub struct Ledgers {
    files: Vec<LedgerFile>,
    /// The link to the index file.
    index: PathBuf,
    terms: Terms,
    /// Whether the index on disk stays as it is, even if it is not up to date.
    keeps_index: bool,
    open: Mutex<Option<Open>>,
    /// Number of issues that other programs took back and that were written again.
    put_back: AtomicUsize,
}

/// An index that is open.
struct Open {
    index: Index,
    /// The files' stamps when the index was found up to date; `None` if that must be checked again.
    stamps: Option<Vec<Option<Stamp>>>,
    /// Unique for each opened index.
    serial: u64,
}

impl Open {
    fn new(index: Index, stamps: Option<Vec<Option<Stamp>>>) -> Open {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        Open { index, stamps, serial: SERIAL.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Ledgers {
    /// Describes ledgers and the path of their index. None of the files need exist.
    pub fn new(files: Vec<LedgerFile>, index: PathBuf, terms: Terms) -> Ledgers {
        Ledgers { files, index, terms, keeps_index: false, open: Mutex::new(None), put_back: AtomicUsize::new(0) }
    }

    /// Answers queries without writing anything: an index that is not up to date is replaced by one in memory.
    #[must_use]
    pub fn keeping_index(self) -> Ledgers {
        Ledgers { keeps_index: true, ..self }
    }

    /// Returns the ledgers' files.
    pub fn files(&self) -> &[LedgerFile] {
        &self.files
    }

    /// Returns the vocabulary and rules of these ledgers.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Runs queries on an up-to-date index. All queries of `read` see one snapshot.
    ///
    /// `read` is called again if the index turns out to be damaged.
    pub fn with_index<T>(&self, now: Timestamp, mut read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let mut open = self.lock();
        self.freshen(&mut open, now)?;
        let outcome = opened(open.as_ref())?.query_snapshot(&mut read);
        match outcome {
            QueryOutcome::Answer(answer) => answer,
            QueryOutcome::Failed(failure) => {
                self.fall_back_to_memory(&mut open, failure, now)?;
                read(opened(open.as_ref())?)
            }
        }
    }

    /// Closes the index, because the meaning of its issues changed: the next query opens or builds one of the terms as they
    /// are now.
    pub fn close_index(&self) {
        *self.lock() = None;
    }

    /// Runs queries like [`Ledgers::with_index`], on an index in which issues have the records that `edit` returns, each with
    /// the number of its ledger. Neither the index nor a ledger keeps these records.
    pub fn with_edited_index<T>(
        &self,
        now: Timestamp,
        edit: impl Fn(&Index) -> Result<Vec<(Record, usize)>>,
        mut read: impl FnMut(&Index) -> Result<T>,
    ) -> Result<T> {
        let mut open = self.lock();
        self.freshen(&mut open, now)?;
        let lock = self.lock_index();
        if lock.is_none() {
            self.open_in_memory(&mut open, now)?;
        }
        match opened(open.as_ref())?.query_edited(&edit, &mut read) {
            QueryOutcome::Answer(answer) => answer,
            QueryOutcome::Failed(failure) => {
                drop(lock);
                self.fall_back_to_memory(&mut open, failure, now)?;
                match opened(open.as_ref())?.query_edited(&edit, &mut read) {
                    QueryOutcome::Answer(answer) => answer,
                    QueryOutcome::Failed(_) => Err(Error::internal("the index cannot be used")),
                }
            }
        }
    }

    /// Brings the full-text index up to date, so that [`Index::search`] answers at once. Calls `slow` first if that takes
    /// long, as it does the first time.
    pub fn make_searchable(&self, now: Timestamp, slow: impl FnOnce()) -> Result<()> {
        match self.with_index(now, Index::unsearched)? {
            None => return Ok(()),
            Some(SLOW_INDEXING_LINES..) => slow(),
            Some(_) => {}
        }
        let open = self.lock();
        let _lock = self.lock_index();
        let index = opened(open.as_ref())?;
        let indexed = index.begin_journaled_change().and_then(|()| index.index_texts()).and_then(|()| index.commit());
        if indexed.is_err() {
            // Each search then indexes the texts itself.
            index.end();
        }
        Ok(())
    }

    /// Creates the indexes for lists with filters and other orders, if there are many issues and they do not exist yet.
    pub fn index_lists(&self, now: Timestamp) -> Result<()> {
        if self.keeps_index || !self.with_index(now, Index::needs_lists)? {
            return Ok(());
        }
        let open = self.lock();
        let _lock = self.lock_index();
        let index = opened(open.as_ref())?;
        let created = index
            .begin_journaled_change()
            .and_then(|()| if index.needs_lists()? { index.create_lists() } else { Ok(()) });
        if created.and_then(|()| index.commit()).is_err() {
            // Each list then reads all issues.
            index.end();
        }
        Ok(())
    }

    /// Returns a number that grows with every change of any ledger. If nothing changed, this costs one `stat` per file.
    pub fn revision(&self, now: Timestamp) -> Result<u64> {
        self.with_index(now, Index::revision)
    }

    /// Returns a number that stays the same as long as no ledger changes, or `None` if that is uncertain. Costs one `stat`
    /// per file.
    pub fn state(&self) -> Option<u64> {
        let open = self.lock();
        let open = open.as_ref()?;
        (open.stamps.as_ref()? == &self.stamps()?).then_some(open.serial)
    }

    /// Changes one ledger, atomically and durably.
    ///
    /// `change` gets the current content, read under the lock. It is called again if a program that does not use our lock
    /// replaces the file meanwhile.
    pub fn change<T>(
        &self,
        number: usize,
        now: Timestamp,
        change: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let locks = LedgerLocks::acquire(&[&self.files[number]])?;
        self.change_under(&locks, number, now, change)
    }

    /// Changes one ledger like [`Ledgers::change`], under locks that the caller holds already.
    pub fn change_under<T>(
        &self,
        locks: &LedgerLocks,
        number: usize,
        now: Timestamp,
        mut change: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let file = &self.files[number];
        if !locks.cover(file) {
            return Err(Error::internal(format!("the ledger {} is not locked", file.path().display())));
        }
        // All code locks files before the index, so that threads that share the index never deadlock.
        let mut open = self.lock();
        let mut in_memory = false;
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let source = file.settled_source()?;
            let restored = source.restored.len();
            let index_lock = self.open_for_change(&mut open, number, &source, in_memory, now)?;
            let index = opened(open.as_ref())?;
            // The check of `index.failure()` below covers a failure here.
            let known_lines = index.known_lines(number).unwrap_or_default();
            let mut draft = Draft::new(index, number, source, known_lines);
            let answer = change(&mut draft);
            if let Some(failure) = index.failure() {
                // `change` may have seen wrong answers.
                index.end();
                drop(index_lock);
                self.drop_index(&mut open, failure);
                if in_memory {
                    // An index in memory, which no other process can touch, fails too.
                    return Err(Error::internal("the index cannot be used"));
                }
                in_memory = true;
                continue;
            }
            if draft.is_discarded() {
                index.end();
                return answer;
            }
            let outcome = answer.and_then(|answer| Ok((answer, draft.write(file, now)?)));
            let (answer, written) = outcome.inspect_err(|_| index.end())?;
            let recorded = match written {
                Written::Nothing => Ok(()),
                Written::Version(version) => {
                    self.put_back.fetch_add(restored, Ordering::Relaxed);
                    draft.record(file.path(), &version).and_then(|()| index.raise_revision(now))
                }
                Written::Outdated => {
                    index.end();
                    continue;
                }
            };
            // The ledger is written, and only the ledger counts. If this fails, the next reader finds the index stale.
            match recorded.and_then(|()| index.commit_change(&self.index)) {
                Ok(()) => open.as_mut().into_iter().for_each(|open| open.stamps = None),
                Err(_) => *open = None,
            }
            drop(index_lock);
            return Ok(answer);
        }
        Err(file.contended_error())
    }

    /// Returns the number of issues that other programs took back and that were written again since the last call.
    pub fn take_put_back(&self) -> usize {
        self.put_back.swap(0, Ordering::Relaxed)
    }

    /// Returns the issues of one ledger that another program took back.
    pub fn taken_back(&self, number: usize) -> Result<Vec<String>> {
        let _lock = self.files[number].lock()?;
        Ok(self.files[number].settled_source()?.restored)
    }

    /// Forgets the changes of one ledger that no commit has yet, so that its file counts as it is.
    pub fn drop_kept(&self, number: usize) -> Result<()> {
        let _lock = self.files[number].lock()?;
        let mut open = self.lock();
        self.files[number].drop_kept()?;
        // The index shows these changes.
        self.drop_index(&mut open, Failure::Damaged);
        Ok(())
    }

    /// Replaces the content of one ledger under the lock. `rewrite` gets the current content; the file stays as it is if
    /// `rewrite` returns `None`. Returns the second value that `rewrite` returned.
    pub fn rewrite<T>(
        &self,
        number: usize,
        rewrite: impl Fn(&Document) -> Result<Option<(Document, T)>>,
    ) -> Result<Option<T>> {
        let file = &self.files[number];
        let _lock = file.lock()?;
        let mut open = self.lock();
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let (document, seen) = file.read_version()?;
            let Some((document, answer)) = rewrite(&document)? else { return Ok(None) };
            if file.replace(&seen, &document)?.is_some() {
                // The next reader finds the index stale.
                *open = None;
                return Ok(Some(answer));
            }
        }
        Err(file.contended_error())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(|poisoned| {
            // The thread that panicked may have left a transaction open.
            let mut open = poisoned.into_inner();
            *open = None;
            self.open.clear_poison();
            open
        })
    }

    fn lock_path(&self) -> PathBuf {
        self.index.with_extension("lock")
    }

    /// Returns the stamps of all files. `None` if `stat` fails on one of them; reading it then fails too, and says why.
    fn stamps(&self) -> Option<Vec<Option<Stamp>>> {
        self.files.iter().map(|file| Stamp::of_path(file.path()).ok()).collect()
    }

    fn read(&self, number: usize) -> Result<Source<'_>> {
        self.files[number].source()
    }

    /// Reads all files, and repeats that if one changed meanwhile: otherwise an issue that moves from one file to another
    /// could appear in neither.
    fn read_all(&self) -> Result<Vec<Source<'_>>> {
        let read = || (0..self.files.len()).map(|number| self.read(number)).collect::<Result<Vec<_>>>();
        for _ in 1..MAX_READ_ATTEMPTS {
            let before = self.stamps();
            let sources = read()?;
            if self.is_unchanged_since(before.as_deref()) {
                return Ok(sources);
            }
        }
        read()
    }

    /// Returns whether no file changed since these stamps. A single file is always read as it was at one moment.
    fn is_unchanged_since(&self, stamps: Option<&[Option<Stamp>]>) -> bool {
        self.files.len() == 1 || stamps.is_some_and(|stamps| self.stamps().as_deref() == Some(stamps))
    }

    /// Opens the index and brings it up to date with the files.
    fn freshen(&self, open: &mut Option<Open>, now: Timestamp) -> Result<()> {
        let Some(stamps) = self.stamps() else { return self.open_in_memory(open, now) };
        for (file, _) in self.files.iter().zip(&stamps).filter(|(_, stamp)| stamp.is_none()) {
            file.check_absence()?;
        }
        if open.as_ref().is_some_and(|open| open.stamps.as_ref() == Some(&stamps)) {
            return Ok(());
        }
        if let Some(index) = self.open_index(open) {
            if self.freshness(&index, &stamps)?.is_some_and(|fresh| fresh.iter().all(|fresh| *fresh)) {
                *open = Some(Open::new(index, Some(stamps)));
                return Ok(());
            }
            index.end();
            *open = Some(Open::new(index, None));
        } else if stamps.iter().all(Option::is_none) {
            // Without files there is nothing to index.
            return self.open_in_memory(open, now);
        }
        if self.keeps_index {
            return self.open_in_memory(open, now);
        }
        for file in &self.files {
            // The index does not match the files. An interrupted write may be the reason.
            let _ = file.recover_displaced();
            let _ = file.try_to_settle_kept();
        }
        let lock = self.lock_index();
        if lock.is_some() && self.open_up_to_date(open, None, now)? {
            return Ok(());
        }
        self.open_in_memory(open, now)
    }

    /// Opens the index, brings it up to date with `source` and the other files, and begins a transaction. Returns the lock
    /// of the index, unless the index is in memory.
    fn open_for_change(
        &self,
        open: &mut Option<Open>,
        number: usize,
        source: &Source<'_>,
        in_memory: bool,
        now: Timestamp,
    ) -> Result<Option<FileLock>> {
        if !in_memory
            && let Some(lock) = self.lock_index()
            && self.open_up_to_date(open, Some((number, source)), now)?
        {
            return Ok(Some(lock));
        }
        self.open_in_memory(open, now)?;
        let index = opened(open.as_ref())?;
        index.begin_change()?;
        // The content that the index was built from may be older or newer than `source`.
        match index.update(number, source)? {
            Updated::Same | Updated::Changed => Ok(None),
            Updated::RebuildNeeded => Err(Error::unavailable("another program is replacing the ledger").hint("retry")),
        }
    }

    /// Opens the index on disk, unless it is open already: another process may have replaced it meanwhile. Begins a read
    /// transaction.
    fn open_index(&self, open: &mut Option<Open>) -> Option<Index> {
        let reopened = open.take().and_then(|open| open.index.reopen(&self.index));
        reopened.or_else(|| Index::open(&self.index, &self.terms))
    }

    fn lock_index(&self) -> Option<FileLock> {
        FileLock::acquire(&self.lock_path(), INDEX_LOCK_TIMEOUT).ok()
    }

    fn freshness(&self, index: &Index, stamps: &[Option<Stamp>]) -> Result<Option<Vec<bool>>> {
        let files: Vec<(&Path, Option<Stamp>)> =
            self.files.iter().map(LedgerFile::path).zip(stamps.iter().copied()).collect();
        match index.freshness(&files) {
            Err(_) if index.failure().is_some() => Ok(None),
            other => other,
        }
    }

    /// Brings the index on disk up to date, or rebuilds it if that is faster. The caller holds the lock of the index. Returns
    /// whether the index is usable; only an unreadable ledger is an error.
    ///
    /// If `given` is a ledger's content, the caller is about to change that ledger, and the transaction stays open.
    fn open_up_to_date(
        &self,
        open: &mut Option<Open>,
        given: Option<(usize, &Source<'_>)>,
        now: Timestamp,
    ) -> Result<bool> {
        if let Some(index) = self.open_index(open) {
            match self.update(&index, given, now) {
                Ok(true) => {
                    *open = Some(Open::new(index, None));
                    return Ok(true);
                }
                Ok(false) => index.end(),
                Err(error) if index.failure().is_none() => return Err(error),
                Err(_) => {}
            }
            if index.failure() == Some(Failure::Unavailable) {
                return Ok(false);
            }
        }
        let sources = self.read_all()?;
        *open = self.build(&sources, now).ok().flatten().map(|index| Open::new(index, None));
        let Some(open) = open else { return Ok(false) };
        // The caller changes the content that it read under the ledger's lock.
        let Some((number, source)) = given else { return Ok(true) };
        let updated = open.index.begin_change().and_then(|()| open.index.update(number, source));
        Ok(updated.is_ok_and(|updated| updated != Updated::RebuildNeeded))
    }

    /// Updates the index with all files whose stamps changed. Returns false if the index is of other files, or if so many
    /// lines changed that a rebuild is faster.
    ///
    /// Repeats that for files that changed meanwhile: otherwise an issue that moves from one file to another could appear in
    /// neither.
    fn update(&self, index: &Index, given: Option<(usize, &Source<'_>)>, now: Timestamp) -> Result<bool> {
        let mut is_changed = false;
        for attempt in 0..MAX_READ_ATTEMPTS {
            let Some(stamps) = self.stamps() else { return Ok(false) };
            if attempt == 0 {
                index.begin_change()?;
            }
            let Some(fresh) = self.freshness(index, &stamps)? else { return Ok(false) };
            for (number, is_fresh) in fresh.into_iter().enumerate() {
                let updated = match given {
                    Some((given, source)) if given == number => index.update(number, source)?,
                    _ if is_fresh => continue,
                    _ => index.update_from_file(number, &self.files[number])?,
                };
                match updated {
                    Updated::Same => {}
                    Updated::Changed => is_changed = true,
                    Updated::RebuildNeeded => return Ok(false),
                }
            }
            if self.is_unchanged_since(Some(&stamps)) {
                break;
            }
        }
        if is_changed {
            index.raise_revision(now)?;
        }
        if given.is_none() {
            index.commit_change(&self.index)?;
        }
        Ok(true)
    }

    /// Builds a new index beside the old one, then replaces the old one.
    fn build(&self, sources: &[Source<'_>], now: Timestamp) -> Result<Option<Index>> {
        let cannot = || Error::unavailable("cannot write the index");
        let file = index::new_file(&self.index).ok_or_else(cannot)?;
        let made = Index::create(&file, &self.terms).and_then(|index| {
            index.fill(sources, now)?;
            index.commit()
        });
        let made = made.and_then(|()| index::publish(&self.index, &file).map_err(|error| cannot().because(error)));
        if let Err(error) = made {
            let _ = std::fs::remove_file(&file);
            return Err(error);
        }
        Ok(Index::open(&self.index, &self.terms))
    }

    /// Builds an index in memory.
    fn open_in_memory(&self, open: &mut Option<Open>, now: Timestamp) -> Result<()> {
        let sources = self.read_all()?;
        let index = Index::in_memory(&self.terms)?;
        index.fill(&sources, now)?;
        index.commit()?;
        let stamps: Vec<Option<Stamp>> = sources.iter().map(|source| source.seen.stamp()).collect();
        let is_settled = sources.iter().zip(&stamps).all(|(source, stamp)| stamp.is_some() || !source.seen.exists());
        *open = Some(Open::new(index, is_settled.then_some(stamps)));
        Ok(())
    }

    /// Replaces an index that failed by one in memory.
    fn fall_back_to_memory(&self, open: &mut Option<Open>, failure: Failure, now: Timestamp) -> Result<()> {
        self.drop_index(open, failure);
        self.open_in_memory(open, now)
    }

    /// Closes an index that failed, and deletes it if it is damaged.
    fn drop_index(&self, open: &mut Option<Open>, failure: Failure) {
        *open = None;
        if failure == Failure::Damaged
            && let Some(_lock) = self.lock_index()
        {
            index::remove(&self.index);
        }
    }
}

fn opened(open: Option<&Open>) -> Result<&Index> {
    open.map(|open| &open.index).ok_or_else(|| Error::internal("no index is open"))
}

/// The outcome of queries on an index.
enum QueryOutcome<T> {
    Answer(Result<T>),
    Failed(Failure),
}

impl Index {
    /// Runs queries that see one snapshot.
    fn query_snapshot<T>(&self, read: &mut impl FnMut(&Index) -> Result<T>) -> QueryOutcome<T> {
        let answer = self.begin().and_then(|()| read(self));
        self.end();
        match self.failure() {
            None => QueryOutcome::Answer(answer),
            Some(failure) => QueryOutcome::Failed(failure),
        }
    }

    /// Runs queries that see other records of some issues, and then restores the index.
    fn query_edited<T>(
        &self,
        edit: &impl Fn(&Index) -> Result<Vec<(Record, usize)>>,
        read: &mut impl FnMut(&Index) -> Result<T>,
    ) -> QueryOutcome<T> {
        let answer = self.begin_change().and_then(|()| {
            for (record, number) in edit(self)? {
                self.replace_record(number, &record)?;
            }
            read(self)
        });
        self.end();
        match self.failure() {
            None => QueryOutcome::Answer(answer),
            Some(failure) => QueryOutcome::Failed(failure),
        }
    }
}
