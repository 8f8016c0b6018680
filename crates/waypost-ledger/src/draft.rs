//! A change of one ledger while it is being made.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use foldhash::fast::RandomState;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::kept::KeptChange;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::{mark, moved};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::FileVersion;

use crate::file::{LedgerFile, Source};
use crate::index::{Index, IndexedIssue, KnownLines};

/// A ledger that is being changed. Its queries see the changes made so far.
pub struct Draft<'a> {
    index: &'a Index,
    number: usize,
    /// The version of the file that is being changed.
    seen: FileVersion,
    document: Document,
    known_lines: KnownLines,
    places: Places,
    /// The changed issues, by their ids.
    changes: BTreeMap<String, KeptChange>,
    /// Whether the document has changes that another program took back.
    is_restored: bool,
    /// The key of the whole change, if it must be made exactly once.
    key: Option<String>,
    is_changed: bool,
    is_discarded: bool,
    is_elsewhere: Cell<bool>,
}

/// The outcome of writing a draft.
pub(crate) enum Written {
    /// There was nothing to write.
    Nothing,
    /// The file has this version.
    Version(FileVersion),
    /// Another program changed the file since it was read, so nothing was written.
    Outdated,
}

/// Positions of lines by their hashes. The first search scans the file; from the second one on a map is worth its cost.
#[derive(Default)]
struct Places {
    searches: usize,
    by_hash: Option<HashMap<u64, usize>>,
}

impl Places {
    /// Drops the map, because lines have moved.
    fn invalidate(&mut self) {
        self.by_hash = None;
    }

    /// Returns the position of a line.
    fn find(&mut self, document: &Document, line: &[u8]) -> Option<usize> {
        let scan = || document.lines().position(|other| other == line);
        self.searches += 1;
        if self.searches == 1 {
            return scan();
        }
        let by_hash = self
            .by_hash
            .get_or_insert_with(|| document.lines().enumerate().map(|(place, line)| (hash(line), place)).collect());
        let place = by_hash.get(&hash(line)).copied();
        // One of several equal lines may be gone, and different lines may have the same hash.
        place.filter(|place| *place < document.len() && document.line(*place) == line).or_else(scan)
    }

    /// Records a line that was replaced.
    fn record_replacement(&mut self, document: &Document, place: usize) {
        if let Some(by_hash) = &mut self.by_hash {
            by_hash.insert(hash(document.line(place)), place);
        }
    }
}

fn hash(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}

impl<'a> Draft<'a> {
    pub(crate) fn new(index: &'a Index, number: usize, source: Source<'_>, known_lines: KnownLines) -> Draft<'a> {
        let Source { document, seen, restored, .. } = source;
        Draft {
            index,
            number,
            seen,
            document,
            known_lines,
            places: Places::default(),
            changes: BTreeMap::new(),
            is_restored: !restored.is_empty(),
            key: None,
            is_changed: false,
            is_discarded: false,
            is_elsewhere: Cell::new(false),
        }
    }

    /// Writes the changed lines to the file, if there are any.
    pub(crate) fn write(&self, file: &LedgerFile, now: Timestamp) -> Result<Written> {
        if !self.is_changed {
            return Ok(Written::Nothing);
        }
        self.key.iter().try_for_each(|key| file.begin_once(key, self.document.changed_lines()))?;
        let written = file.replace_and_keep(&self.seen, &self.document, self.changes.values(), now)?;
        Ok(written.map_or(Written::Outdated, Written::Version))
    }

    /// Records in the index which lines the file has now.
    pub(crate) fn record(&self, file: &Path, written: &FileVersion) -> Result<()> {
        self.index.record_write(self.number, file, written, &self.known_lines)
    }

    /// Has changes written that another program took back, even if there is no other change.
    pub fn put_back(&mut self) {
        self.is_changed |= self.is_restored;
    }

    /// Records the change of an issue, so that it is kept until a commit has it.
    fn note(&mut self, was: Option<Record>, is: Option<&Record>) {
        let Some(id) = is.or(was.as_ref()).and_then(|record| record.text("id")) else { return };
        self.changes.entry(id).or_insert(KeptChange { was, is: None }).is = is.cloned();
        self.is_changed = true;
    }

    /// Returns the ids of the changed issues, and how each was before, unless it is new.
    pub fn changed(&self) -> impl Iterator<Item = (&str, Option<&Record>)> {
        self.changes.iter().map(|(id, change)| (id.as_str(), change.was.as_ref()))
    }

    /// Discards the draft: nothing is written, whatever else happens to it.
    pub fn discard(&mut self) {
        self.is_discarded = true;
    }

    /// Returns whether the draft is discarded.
    pub fn is_discarded(&self) -> bool {
        self.is_discarded
    }

    /// Has the change recorded under a key before it is written: see [`LedgerFile::has_written`].
    pub fn record_as(&mut self, key: &str) {
        self.key = Some(key.to_owned());
    }

    /// Returns the index, which includes the changes made so far.
    pub fn issues(&self) -> &Index {
        self.index
    }

    /// Returns the prefix that most ids of this ledger have.
    pub fn common_prefix(&self) -> Result<Option<String>> {
        self.index.common_prefix(self.number)
    }

    /// Returns this ledger's copy of an issue.
    pub fn copy(&self, id: &str) -> Result<Option<IndexedIssue>> {
        self.index.in_ledger(id, self.number)
    }

    /// Adds an issue.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let place = self.document.insert(record)?;
        self.places.invalidate();
        let line = self.document.line(place);
        self.index.replace_line(self.number, &mut self.known_lines, place, false, Some(line))?;
        self.is_changed = true;
        self.note(None, Some(record));
        Ok(())
    }

    /// Adds many records unchanged.
    pub fn add_all(&mut self, records: &[Record]) -> Result<()> {
        self.places.invalidate();
        let places = self.document.insert_all(records)?;
        for place in &places {
            let line = self.document.line(*place);
            self.index.replace_line(self.number, &mut self.known_lines, *place, false, Some(line))?;
        }
        for record in records {
            self.note(None, Some(record));
        }
        self.is_changed |= !places.is_empty();
        Ok(())
    }

    /// Returns the current lines of the file.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.document.lines()
    }

    /// Returns whether an issue is in this ledger.
    pub fn has(&self, entry: &IndexedIssue) -> bool {
        entry.ledger == self.number
    }

    /// Changes one issue and returns the new record. Unites several versions of the issue into one.
    pub fn edit(&mut self, id: &str, edit: impl FnOnce(&mut Record) -> Result<()>) -> Result<Record> {
        let Some(IndexedIssue { record: before, .. }) = self.copy(id)? else { return Err(self.not_here_error(id)) };
        let mut record = before.clone();
        edit(&mut record)?;
        if record == before {
            return Ok(record);
        }
        self.unite(&self.index.lines_of(self.number, id)?, &record)?;
        self.note(Some(before), Some(&record));
        Ok(record)
    }

    /// Records in the ledger that issues closed before `to` may have been pruned.
    pub fn raise_mark(&mut self, to: Timestamp) -> Result<()> {
        let is_new = mark::raise(&mut self.document, to)?;
        self.places.invalidate();
        let line = self.document.line(0);
        self.index.replace_line(self.number, &mut self.known_lines, 0, !is_new, Some(line))?;
        self.is_changed = true;
        Ok(())
    }

    /// Records in the ledger that issues were moved to another one, so that no merge brings them back.
    pub fn mark_moved<'i>(&mut self, ids: impl IntoIterator<Item = &'i str>, at: Timestamp) -> Result<()> {
        let marks = ids.into_iter().map(|id| moved::mark(id, at)).collect::<Result<Vec<_>>>()?;
        for mark in marks {
            let place = self.document.insert(&mark)?;
            let line = self.document.line(place);
            self.index.replace_line(self.number, &mut self.known_lines, place, false, Some(line))?;
            self.is_changed = true;
        }
        self.places.invalidate();
        Ok(())
    }

    /// Removes the marks of issues that were moved away and come back.
    pub fn unmark_moved(&mut self, is_back: impl Fn(&str) -> bool) -> Result<()> {
        let is_mark = |line: &[u8]| moved::marked(line).is_some_and(|id| is_back(&id));
        let lines = self.document.lines().enumerate();
        let places: Vec<usize> = lines.filter(|(_, line)| is_mark(line)).map(|(place, _)| place).collect();
        if !places.is_empty() {
            self.index.remove_lines(self.number, &mut self.known_lines, &places)?;
            self.document.remove_all(&places);
            self.places.invalidate();
            self.is_changed = true;
        }
        Ok(())
    }

    /// Returns the current size of the file in bytes.
    pub fn size(&self) -> usize {
        self.document.parts().iter().map(|part| part.len()).sum()
    }

    /// Removes one issue with all its versions.
    pub fn remove(&mut self, id: &str) -> Result<()> {
        self.remove_all([id])
    }

    /// Removes issues with all their versions, in one pass over the file.
    pub fn remove_all<'i>(&mut self, ids: impl IntoIterator<Item = &'i str>) -> Result<()> {
        let mut gone: HashSet<Vec<u8>, RandomState> = HashSet::default();
        let mut removed = Vec::new();
        for id in ids {
            let versions = self.index.lines_of(self.number, id)?;
            let Some(entry) = self.copy(id)? else { return Err(self.not_here_error(id)) };
            removed.push(entry.record);
            gone.extend(versions.into_iter().map(String::into_bytes));
        }
        let lines = self.document.lines().enumerate();
        let places: Vec<usize> = lines.filter(|(_, line)| gone.contains(*line)).map(|(place, _)| place).collect();
        if places.len() < gone.len() {
            return Err(not_in_file());
        }
        self.index.remove_lines(self.number, &mut self.known_lines, &places)?;
        self.document.remove_all(&places);
        self.places.invalidate();
        for record in removed {
            self.note(Some(record), None);
        }
        Ok(())
    }

    /// Returns whether a change failed because another command moved its issue to another ledger.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.get()
    }

    fn not_here_error(&self, id: &str) -> Error {
        match self.index.get(id) {
            Ok(Some(_)) => {
                self.is_elsewhere.set(true);
                Error::unavailable(format!("another command is moving issue {id} to another ledger")).hint("retry")
            }
            _ => Error::not_found(format!("there is no issue {id:?}")),
        }
    }

    /// Replaces all versions of an issue by one record.
    fn unite(&mut self, versions: &[String], record: &Record) -> Result<()> {
        for version in versions.iter().skip(1) {
            let place = self.place_of(version)?;
            self.document.remove(place);
            self.places.invalidate();
            self.index.replace_line(self.number, &mut self.known_lines, place, true, None)?;
        }
        let place = self.place_of(versions.first().map_or("", String::as_str))?;
        self.document.replace(place, record)?;
        self.places.record_replacement(&self.document, place);
        let line = self.document.line(place);
        self.index.replace_line(self.number, &mut self.known_lines, place, true, Some(line))
    }

    /// Returns the position of a line, which must exist.
    fn place_of(&mut self, line: &str) -> Result<usize> {
        self.places.find(&self.document, line.as_bytes()).ok_or_else(not_in_file)
    }
}

fn not_in_file() -> Error {
    Error::internal("the index has a line that is not in the ledger")
}
