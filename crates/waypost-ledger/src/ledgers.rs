//! The ledgers that are read together, and changes to one of them.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use foldhash::fast::RandomState;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::mark;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Terms;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, Stamp, create_private_dir};

use crate::file::{ATTEMPTS, LedgerFile, LedgerLocks};
use crate::index::{self, Failure, Followed, Index, IndexedIssue, Marks, Source};

/// How long to wait for somebody who brings the index up to date, before doing without it.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often files are read while others keep changing them, before what was read counts.
const READS: usize = 5;

/// Ledgers that are read together.
pub struct Ledgers {
    files: Vec<LedgerFile>,
    /// Where the index is kept.
    index: PathBuf,
    terms: Terms,
    open: Mutex<Option<Open>>,
}

/// An index that is open.
struct Open {
    index: Index,
    /// What the files were when the index was found to be up to date; none if that must be looked at again.
    stamps: Option<Vec<Option<Stamp>>>,
    /// Is another one each time an index is opened.
    serial: u64,
}

impl Open {
    fn new(index: Index, stamps: Option<Vec<Option<Stamp>>>) -> Open {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        Open { index, stamps, serial: SERIAL.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Ledgers {
    /// Names ledgers, and the file their index is kept in. None of the files need exist.
    pub fn new(files: Vec<LedgerFile>, index: PathBuf, terms: Terms) -> Ledgers {
        Ledgers { files, index, terms, open: Mutex::new(None) }
    }

    /// Returns the ledgers' files.
    pub fn files(&self) -> &[LedgerFile] {
        &self.files
    }

    /// Returns what words and rules mean in them.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Asks about the issues as they are now. Everything `look` asks is about one moment.
    ///
    /// It is asked again if the index turns out to be damaged.
    pub fn with_index<T>(&self, now: Timestamp, mut read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let mut open = self.lock();
        self.freshen(&mut open, now)?;
        let answer = opened(open.as_ref())?.asked(&mut read);
        match answer {
            Asked::Answer(answer) => answer,
            Asked::Failed(failure) => {
                self.do_without(&mut open, failure, now)?;
                read(opened(open.as_ref())?)
            }
        }
    }

    /// Makes [`Index::search`] answer at once from now on. The first time the words of all issues are read; if there are
    /// many, `slow` is called before that.
    pub fn make_searchable(&self, now: Timestamp, slow: impl FnOnce()) -> Result<()> {
        match self.with_index(now, Index::unsearched)? {
            None => return Ok(()),
            Some(5_000..) => slow(),
            Some(_) => {}
        }
        let open = self.lock();
        let _lock = self.lock_index();
        let index = opened(open.as_ref())?;
        let taken = index.begin_change().and_then(|()| index.take_texts()).and_then(|()| index.commit());
        if taken.is_err() {
            // Then each search reads them for itself.
            index.end();
        }
        Ok(())
    }

    /// Returns a number that grows with every change of any ledger. When nothing changed, asking costs a look at the
    /// metadata of each file.
    pub fn revision(&self, now: Timestamp) -> Result<u64> {
        self.with_index(now, Index::revision)
    }

    /// Returns a number that stays the same as long as no answer can be different, but for the time. Asking costs a look
    /// at the metadata of each file; if in doubt, there is none.
    pub fn state(&self) -> Option<u64> {
        let open = self.lock();
        let open = open.as_ref()?;
        (open.stamps.as_ref()? == &self.stamps()?).then_some(open.serial)
    }

    /// Changes one ledger; all of it is on disk when this returns, or none of it.
    ///
    /// What `change` is given is what the file says at that moment, under the lock. It is asked again if a program that
    /// knows no lock swaps the file meanwhile.
    pub fn change<T>(
        &self,
        number: usize,
        now: Timestamp,
        change: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let locks = LedgerLocks::acquire(&[&self.files[number]])?;
        self.change_under(&locks, number, now, change)
    }

    /// Does what [`Ledgers::change`] does, under locks that the caller holds already.
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
        // Files are locked before the index everywhere, so that threads that share it never wait for each other.
        let mut open = self.lock();
        let mut in_memory = false;
        for _ in 0..ATTEMPTS {
            let source = self.read(number)?;
            let index_lock = self.open_for_change(&mut open, number, &source, in_memory, now)?;
            let index = opened(open.as_ref())?;
            let Source { document, seen, .. } = source;
            // If the index fails here or later, that is seen below.
            let marks = index.marks(number).unwrap_or_default();
            let places = Places::default();
            let (is_changed, is_discarded, is_elsewhere) = (false, false, Cell::new(false));
            let mut draft = Draft { index, number, document, marks, places, is_changed, is_discarded, is_elsewhere };
            let answer = change(&mut draft);
            let Draft { document, marks, is_changed, is_discarded, .. } = draft;
            if let Some(failure) = index.failure() {
                // What it answered meanwhile may have been wrong.
                index.end();
                drop(index_lock);
                self.drop_index(&mut open, failure);
                if in_memory {
                    // Not even one that nobody else can touch works.
                    return Err(Error::internal("the index cannot be used"));
                }
                in_memory = true;
                continue;
            }
            if is_discarded {
                index.end();
                return answer;
            }
            let written = answer.and_then(|answer| Ok((answer, !is_changed || file.replace(&seen, &document)?)));
            let (answer, is_written) = written.inspect_err(|_| index.end())?;
            if !is_written {
                index.end();
                continue;
            }
            let kept = if is_changed {
                index.wrote(number, file.path(), &marks).and_then(|()| index.raise_revision(now))
            } else {
                Ok(())
            };
            // The ledger is written, and that is what counts. If this fails, the next one who looks finds the index
            // behind.
            match kept.and_then(|()| index.commit()) {
                Ok(()) => open.as_mut().into_iter().for_each(|open| open.stamps = None),
                Err(_) => *open = None,
            }
            drop(index_lock);
            return Ok(answer);
        }
        Err(file.contended_error())
    }

    /// Writes one ledger anew, from what its file says at that moment, under the lock. Returns what `rewrite` returned with
    /// it, or none if that wants nothing written.
    pub fn rewrite<T>(
        &self,
        number: usize,
        rewrite: impl Fn(&Document) -> Result<Option<(Document, T)>>,
    ) -> Result<Option<T>> {
        let file = &self.files[number];
        let _lock = file.lock()?;
        let mut open = self.lock();
        for _ in 0..ATTEMPTS {
            let (document, seen) = file.read_version()?;
            let Some((document, answer)) = rewrite(&document)? else { return Ok(None) };
            if file.replace(&seen, &document)? {
                // The next one who looks finds the index behind.
                *open = None;
                return Ok(Some(answer));
            }
        }
        Err(file.contended_error())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(|poisoned| {
            // Whoever panicked may have left something begun.
            let mut open = poisoned.into_inner();
            *open = None;
            self.open.clear_poison();
            open
        })
    }

    fn lock_path(&self) -> PathBuf {
        self.index.with_extension("lock")
    }

    /// Returns the stamps of all files. None if one cannot be looked at: it cannot be read either, and reading says why.
    fn stamps(&self) -> Option<Vec<Option<Stamp>>> {
        self.files.iter().map(|file| Stamp::of_path(file.path()).ok()).collect()
    }

    fn read(&self, number: usize) -> Result<Source<'_>> {
        self.files[number].source()
    }

    /// Reads all files, again if one changed meanwhile: an issue that is moved from one to another would be in neither.
    fn read_all(&self) -> Result<Vec<Source<'_>>> {
        let read = || (0..self.files.len()).map(|number| self.read(number)).collect::<Result<Vec<_>>>();
        for _ in 1..READS {
            let before = self.stamps();
            let sources = read()?;
            if self.is_one_moment(before.as_deref()) {
                return Ok(sources);
            }
        }
        read()
    }

    /// Tells whether no file changed since these stamps were taken. One file alone is always read at one moment.
    fn is_one_moment(&self, stamps: Option<&[Option<Stamp>]>) -> bool {
        self.files.len() == 1 || stamps.is_some_and(|stamps| self.stamps().as_deref() == Some(stamps))
    }

    /// Opens the index and makes sure that it says what the files say now.
    fn freshen(&self, open: &mut Option<Open>, now: Timestamp) -> Result<()> {
        let Some(stamps) = self.stamps() else { return self.open_in_memory(open, now) };
        if open.as_ref().is_some_and(|open| open.stamps.as_ref() == Some(&stamps)) {
            return Ok(());
        }
        *open = None;
        if let Some(index) = Index::open(&self.index, &self.terms) {
            if self.freshness(&index, &stamps)?.is_some_and(|fresh| fresh.iter().all(|fresh| *fresh)) {
                *open = Some(Open::new(index, Some(stamps)));
                return Ok(());
            }
        } else if stamps.iter().all(Option::is_none) {
            // There is nothing to keep an index of.
            return self.open_in_memory(open, now);
        }
        for file in &self.files {
            // The file is not the one that was indexed. A write that was interrupted may be the reason.
            let _ = file.recover_displaced();
        }
        let lock = self.lock_index();
        if lock.is_some() && self.open_up_to_date(open, None, now)? {
            return Ok(());
        }
        self.open_in_memory(open, now)
    }

    /// Opens the index, up to date with what was read of one ledger and with the others, and begins a change of it.
    /// Returns the lock that keeps others from doing so.
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
        // What was read a moment ago to make it may be older or newer than what is to be changed.
        match index.follow(number, source)? {
            Followed::Same | Followed::Changed => Ok(None),
            Followed::TooFar => {
                Err(Error::unavailable("the ledger is being replaced at this moment").hint("try again"))
            }
        }
    }

    fn lock_index(&self) -> Option<FileLock> {
        create_private_dir(self.index.parent()?).ok()?;
        FileLock::acquire(&self.lock_path(), PATIENCE).ok()
    }

    fn freshness(&self, index: &Index, stamps: &[Option<Stamp>]) -> Result<Option<Vec<bool>>> {
        let files: Vec<(&Path, Option<Stamp>)> =
            self.files.iter().map(LedgerFile::path).zip(stamps.iter().copied()).collect();
        match index.freshness(&files) {
            Err(_) if index.failure().is_some() => Ok(None),
            other => other,
        }
    }

    /// Brings the index on disk up to date, under its lock; makes it anew if that is better. Returns whether it is there
    /// now. Only a ledger that cannot be read is an error.
    ///
    /// If one ledger is given as it was read, it is about to be changed, and a change of the index is left open.
    fn open_up_to_date(
        &self,
        open: &mut Option<Open>,
        given: Option<(usize, &Source<'_>)>,
        now: Timestamp,
    ) -> Result<bool> {
        // Somebody may have put another one in its place while we waited.
        *open = None;
        if let Some(index) = Index::open(&self.index, &self.terms) {
            match self.follow(&index, given, now) {
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
        // What is to be changed is what was read under its lock.
        let Some((number, source)) = given else { return Ok(true) };
        let followed = open.index.begin_change().and_then(|()| open.index.follow(number, source));
        Ok(followed.is_ok_and(|followed| followed != Followed::TooFar))
    }

    /// Follows all files whose stamps are not those that were read. Returns whether the index is of these files, and
    /// fewer lines changed than would be worth it.
    ///
    /// Files that changed while others were followed are followed again: an issue that is moved from one to another would
    /// be in neither.
    fn follow(&self, index: &Index, given: Option<(usize, &Source<'_>)>, now: Timestamp) -> Result<bool> {
        let mut is_changed = false;
        for read in 0..READS {
            let Some(stamps) = self.stamps() else { return Ok(false) };
            let Some(fresh) = self.freshness(index, &stamps)? else { return Ok(false) };
            if read == 0 {
                index.begin_change()?;
            }
            for (number, is_fresh) in fresh.into_iter().enumerate() {
                let followed = match given {
                    Some((wanted, source)) if wanted == number => index.follow(number, source)?,
                    _ if is_fresh => continue,
                    _ => index.follow_file(number, &self.files[number])?,
                };
                match followed {
                    Followed::Same => {}
                    Followed::Changed => is_changed = true,
                    Followed::TooFar => return Ok(false),
                }
            }
            if self.is_one_moment(Some(&stamps)) {
                break;
            }
        }
        if is_changed {
            index.raise_revision(now)?;
        }
        if given.is_none() {
            index.commit()?;
        }
        Ok(true)
    }

    /// Makes a new index beside the old one and puts it in its place.
    fn build(&self, sources: &[Source<'_>], now: Timestamp) -> Result<Option<Index>> {
        let cannot = || Error::unavailable("cannot keep the index");
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

    /// Makes an index that nobody else sees.
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

    /// Goes on in memory with an index that failed.
    fn do_without(&self, open: &mut Option<Open>, failure: Failure, now: Timestamp) -> Result<()> {
        self.drop_index(open, failure);
        self.open_in_memory(open, now)
    }

    /// Drops an index that failed, for good if it is damaged.
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

/// What came of asking an index.
enum Asked<T> {
    Answer(Result<T>),
    Failed(Failure),
}

impl Index {
    fn asked<T>(&self, look: &mut impl FnMut(&Index) -> Result<T>) -> Asked<T> {
        let answer = self.begin().and_then(|()| look(self));
        self.end();
        match self.failure() {
            None => Asked::Answer(answer),
            Some(failure) => Asked::Failed(failure),
        }
    }
}

/// A ledger that is being changed. What it is asked includes what was changed so far.
pub struct Draft<'a> {
    index: &'a Index,
    number: usize,
    document: Document,
    marks: Marks,
    places: Places,
    is_changed: bool,
    is_discarded: bool,
    is_elsewhere: Cell<bool>,
}

/// Where lines stand, by their hashes. Many changes would look through the whole file many times; one looks once.
#[derive(Default)]
struct Places {
    asked: usize,
    known: Option<HashMap<u64, usize>>,
}

impl Places {
    /// Forgets what is known: lines stand elsewhere now.
    fn forget(&mut self) {
        self.known = None;
    }

    /// Returns where a line stands.
    fn find(&mut self, document: &Document, line: &[u8]) -> Option<usize> {
        let first = || document.lines().position(|known| known == line);
        self.asked += 1;
        if self.asked == 1 {
            return first();
        }
        let known = self
            .known
            .get_or_insert_with(|| document.lines().enumerate().map(|(place, line)| (hash(line), place)).collect());
        let place = known.get(&hash(line)).copied();
        // Of lines that are alike one may be gone, and lines that differ may have one hash.
        place.filter(|place| *place < document.len() && document.line(*place) == line).or_else(first)
    }

    /// Remembers that another line stands there now.
    fn replaced(&mut self, document: &Document, place: usize) {
        if let Some(known) = &mut self.known {
            known.insert(hash(document.line(place)), place);
        }
    }
}

fn hash(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}

impl Draft<'_> {
    /// Makes sure that nothing is written, whatever else is done.
    pub fn discard(&mut self) {
        self.is_discarded = true;
    }

    /// Returns the issues as they are now, changes included.
    pub fn issues(&self) -> &Index {
        self.index
    }

    /// Returns the copy of an issue that is in this ledger.
    pub fn copy(&self, id: &str) -> Result<Option<IndexedIssue>> {
        self.index.in_ledger(id, self.number)
    }

    /// Adds an issue.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let place = self.document.insert(record)?;
        self.places.forget();
        self.is_changed = true;
        self.index.exchange(self.number, &mut self.marks, place, false, Some(self.document.line(place)))
    }

    /// Adds many records as they are.
    pub fn add_all(&mut self, records: &[Record]) -> Result<()> {
        self.places.forget();
        for place in self.document.insert_all(records)? {
            self.is_changed = true;
            self.index.exchange(self.number, &mut self.marks, place, false, Some(self.document.line(place)))?;
        }
        Ok(())
    }

    /// Returns the lines of the file as they are now.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.document.lines()
    }

    /// Tells whether an issue is in the ledger that is being changed.
    pub fn has(&self, entry: &IndexedIssue) -> bool {
        entry.ledger == self.number
    }

    /// Changes one issue, and returns it as it is now. Several versions of it become one.
    pub fn edit(&mut self, id: &str, edit: impl FnOnce(&mut Record) -> Result<()>) -> Result<Record> {
        let Some(IndexedIssue { record: before, .. }) = self.copy(id)? else { return Err(self.not_here_error(id)) };
        let mut record = before.clone();
        edit(&mut record)?;
        if record == before {
            return Ok(record);
        }
        let versions = self.index.versions(id, self.number)?;
        for version in versions.iter().skip(1) {
            let place = self.place_of(version)?;
            self.document.remove(place);
            self.places.forget();
            self.index.exchange(self.number, &mut self.marks, place, true, None)?;
        }
        let place = self.place_of(versions.first().map(String::as_str).unwrap_or_default())?;
        self.document.replace(place, &record)?;
        self.places.replaced(&self.document, place);
        self.is_changed = true;
        self.index.exchange(self.number, &mut self.marks, place, true, Some(self.document.line(place)))?;
        Ok(record)
    }

    /// Says that issues closed before a moment may have been taken out on purpose.
    pub fn raise_mark(&mut self, to: Timestamp) -> Result<()> {
        let is_new = mark::raise(&mut self.document, to)?;
        self.places.forget();
        self.is_changed = true;
        self.index.exchange(self.number, &mut self.marks, 0, !is_new, Some(self.document.line(0)))
    }

    /// Returns how many bytes the file has now.
    pub fn size(&self) -> usize {
        self.document.parts().iter().map(|part| part.len()).sum()
    }

    /// Takes one issue out of the file, and all its versions, if there are several.
    pub fn remove(&mut self, id: &str) -> Result<()> {
        self.remove_all([id])
    }

    /// Takes issues out of the file, and all their versions. The file is looked through once.
    pub fn remove_all<'i>(&mut self, ids: impl IntoIterator<Item = &'i str>) -> Result<()> {
        let mut gone: HashSet<Vec<u8>, RandomState> = HashSet::default();
        for id in ids {
            let versions = self.index.versions(id, self.number)?;
            if versions.is_empty() {
                return Err(self.not_here_error(id));
            }
            gone.extend(versions.into_iter().map(String::into_bytes));
        }
        let places: Vec<usize> = self
            .document
            .lines()
            .enumerate()
            .filter(|(_, line)| gone.contains(*line))
            .map(|(place, _)| place)
            .collect();
        if places.len() < gone.len() {
            return Err(Error::internal("a line of the index is not in the ledger"));
        }
        self.index.remove_lines(self.number, &mut self.marks, &places)?;
        self.document.remove_all(&places);
        self.places.forget();
        self.is_changed |= !places.is_empty();
        Ok(())
    }

    /// Tells whether a change failed because its issue is in another ledger by now.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.get()
    }

    fn not_here_error(&self, id: &str) -> Error {
        match self.index.get(id) {
            Ok(Some(_)) => {
                self.is_elsewhere.set(true);
                Error::unavailable(format!("issue {id} is being moved to another ledger")).hint("try again")
            }
            _ => Error::not_found(format!("there is no issue {id:?}")),
        }
    }

    /// Returns the place of a line.
    fn place_of(&mut self, line: &str) -> Result<usize> {
        let place = self.places.find(&self.document, line.as_bytes());
        place.ok_or_else(|| Error::internal("a line of the index is not in the ledger"))
    }
}
