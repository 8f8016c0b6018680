//! A change of one ledger while it is being made.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use foldhash::fast::RandomState;
use waypost_core::ledger::document::{Document, line_of};
use waypost_core::ledger::mark;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::FileVersion;

use crate::file::{LedgerFile, LedgerLocks};
use crate::index::{Index, IndexedIssue, KnownLines};
use crate::patch::{LineChange, Patch};

/// With this many appended changes, all of them are put in their places.
const MAX_APPENDED: usize = 500;

/// A ledger that is being changed. Its queries see the changes made so far.
///
/// Most changes concern single lines, which need not read the others. A change that needs the whole file fails at first and
/// is made again with the whole file.
pub struct Draft<'a> {
    index: &'a Index,
    number: usize,
    body: Body,
    /// The key of the whole change, if it must be made exactly once.
    key: Option<String>,
    is_changed: bool,
    is_discarded: bool,
    needs_whole: Cell<bool>,
    is_elsewhere: Cell<bool>,
    /// Whether the change was appended to the file.
    is_appended: Cell<bool>,
}

/// The content of a ledger that is being changed.
pub(crate) struct Body {
    /// The version of the file that is being changed.
    seen: FileVersion,
    content: Content,
}

enum Content {
    /// The file, of which only changed lines are read, and the number of changes that were appended to it.
    Lines(File, Patch, usize),
    Whole(Box<Whole>),
}

/// The whole content of a file.
struct Whole {
    document: Document,
    known_lines: KnownLines,
    places: Places,
}

impl Body {
    pub(crate) fn lines(file: File, seen: FileVersion, appended: usize) -> Body {
        Body { seen, content: Content::Lines(file, Patch::default(), appended) }
    }

    pub(crate) fn whole(document: Document, seen: FileVersion, known_lines: KnownLines) -> Body {
        Body { seen, content: Content::Whole(Box::new(Whole { document, known_lines, places: Places::default() })) }
    }
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
    pub(crate) fn new(index: &'a Index, number: usize, body: Body) -> Draft<'a> {
        Draft {
            index,
            number,
            body,
            key: None,
            is_changed: false,
            is_discarded: false,
            needs_whole: Cell::new(false),
            is_elsewhere: Cell::new(false),
            is_appended: Cell::new(false),
        }
    }

    /// Writes the changed lines to the file, if there are any.
    pub(crate) fn write(&self, file: &LedgerFile, locks: &LedgerLocks) -> Result<Written> {
        if !self.is_changed {
            return Ok(Written::Nothing);
        }
        let seen = &self.body.seen;
        // That a change with a key was made is recorded as soon as it is in the file, so it must be durable then.
        let locks = Some(locks).filter(|_| self.key.is_none());
        let written = match &self.body.content {
            Content::Lines(source, patch, appended) => {
                if *appended < MAX_APPENDED && file.may_append(source, patch) {
                    self.key.iter().try_for_each(|key| file.begin_once(key, patch.lines()))?;
                    self.is_appended.set(true);
                    file.append_lines(seen, patch, locks)?
                } else {
                    // A file that cannot be read now, or is not as expected, is read as a whole. So is one with appended
                    // changes, which are put in their places.
                    let splices = patch.splices(source).ok().flatten().filter(|_| *appended == 0);
                    let Some(splices) = splices else { return Ok(Written::Outdated) };
                    self.key.iter().try_for_each(|key| file.begin_once(key, patch.lines()))?;
                    file.replace_lines(seen, source, patch, &splices, locks)?
                }
            }
            Content::Whole(whole) => {
                self.key.iter().try_for_each(|key| file.begin_once(key, whole.document.changed_lines()))?;
                file.replace(seen, &whole.document, locks)?
            }
        };
        Ok(written.map_or(Written::Outdated, Written::Version))
    }

    /// Records in the index which lines the file has now.
    pub(crate) fn record(&self, file: &Path, written: &FileVersion) -> Result<()> {
        match &self.body.content {
            Content::Lines(_, patch, _) => {
                self.index.record_patch(self.number, file, written, patch, self.is_appended.get())
            }
            Content::Whole(whole) => self.index.record_write(self.number, file, written, &whole.known_lines),
        }
    }

    /// Returns whether a change failed because it needs the whole file.
    pub(crate) fn needs_whole(&self) -> bool {
        self.needs_whole.get()
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
        let number = self.number;
        match &mut self.body.content {
            Content::Lines(_, patch, _) => {
                let (id, new) = (record.text("id"), line_of(record)?);
                let Some(id) = id else { return Err(self.whole_needed()) };
                let row = self.index.put_line(number, None, &new)?;
                patch.record(&id, LineChange { old: None, new, row });
            }
            Content::Whole(whole) => {
                let place = whole.document.insert(record)?;
                whole.places.invalidate();
                let line = whole.document.line(place);
                self.index.replace_line(number, &mut whole.known_lines, place, false, Some(line))?;
            }
        }
        self.is_changed = true;
        Ok(())
    }

    /// Adds many records unchanged.
    pub fn add_all(&mut self, records: &[Record]) -> Result<()> {
        let (index, number) = (self.index, self.number);
        let whole = self.whole()?;
        whole.places.invalidate();
        let places = whole.document.insert_all(records)?;
        for place in &places {
            let line = whole.document.line(*place);
            index.replace_line(number, &mut whole.known_lines, *place, false, Some(line))?;
        }
        self.is_changed |= !places.is_empty();
        Ok(())
    }

    /// Returns the current lines of the file.
    pub fn lines(&mut self) -> Result<impl Iterator<Item = &[u8]>> {
        Ok(self.whole()?.document.lines())
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
        let mut versions = self.index.rows_of(self.number, id)?;
        match &mut self.body.content {
            Content::Lines(_, patch, _) => {
                let (Some((row, old)), true) = (versions.pop(), versions.is_empty()) else {
                    return Err(self.whole_needed());
                };
                let new = line_of(&record)?;
                let new_row = self.index.put_line(self.number, Some(row), &new)?;
                patch.record(id, LineChange { old: Some((old, row)), new, row: new_row });
            }
            Content::Whole(whole) => whole.unite(self.index, self.number, &versions, &record)?,
        }
        self.is_changed = true;
        Ok(record)
    }

    /// Records in the ledger that issues closed before `to` may have been pruned.
    pub fn raise_mark(&mut self, to: Timestamp) -> Result<()> {
        let (index, number) = (self.index, self.number);
        let whole = self.whole()?;
        let is_new = mark::raise(&mut whole.document, to)?;
        whole.places.invalidate();
        index.replace_line(number, &mut whole.known_lines, 0, !is_new, Some(whole.document.line(0)))?;
        self.is_changed = true;
        Ok(())
    }

    /// Returns the current size of the file in bytes.
    pub fn size(&mut self) -> Result<usize> {
        Ok(self.whole()?.document.parts().iter().map(|part| part.len()).sum())
    }

    /// Removes one issue with all its versions.
    pub fn remove(&mut self, id: &str) -> Result<()> {
        self.remove_all([id])
    }

    /// Removes issues with all their versions, in one pass over the file.
    pub fn remove_all<'i>(&mut self, ids: impl IntoIterator<Item = &'i str>) -> Result<()> {
        let mut gone: HashSet<Vec<u8>, RandomState> = HashSet::default();
        for id in ids {
            let versions = self.index.rows_of(self.number, id)?;
            if versions.is_empty() {
                return Err(self.not_here_error(id));
            }
            gone.extend(versions.into_iter().map(|(_, line)| line.into_bytes()));
        }
        let (index, number) = (self.index, self.number);
        let whole = self.whole()?;
        let lines = whole.document.lines().enumerate();
        let places: Vec<usize> = lines.filter(|(_, line)| gone.contains(*line)).map(|(place, _)| place).collect();
        if places.len() < gone.len() {
            return Err(not_in_file());
        }
        index.remove_lines(number, &mut whole.known_lines, &places)?;
        whole.document.remove_all(&places);
        whole.places.invalidate();
        self.is_changed |= !places.is_empty();
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

    /// Returns the whole content. If only single lines can be accessed, the change fails and is made again.
    fn whole(&mut self) -> Result<&mut Whole> {
        match &mut self.body.content {
            Content::Whole(whole) => Ok(whole),
            Content::Lines(..) => {
                self.needs_whole.set(true);
                Err(whole_needed())
            }
        }
    }

    fn whole_needed(&self) -> Error {
        self.needs_whole.set(true);
        whole_needed()
    }
}

impl Whole {
    /// Replaces all versions of an issue by one record.
    fn unite(&mut self, index: &Index, number: usize, versions: &[(i64, String)], record: &Record) -> Result<()> {
        for (_, version) in versions.iter().skip(1) {
            let place = self.place_of(version)?;
            self.document.remove(place);
            self.places.invalidate();
            index.replace_line(number, &mut self.known_lines, place, true, None)?;
        }
        let place = self.place_of(versions.first().map_or("", |(_, line)| line))?;
        self.document.replace(place, record)?;
        self.places.record_replacement(&self.document, place);
        index.replace_line(number, &mut self.known_lines, place, true, Some(self.document.line(place)))
    }

    /// Returns the position of a line, which must exist.
    fn place_of(&mut self, line: &str) -> Result<usize> {
        self.places.find(&self.document, line.as_bytes()).ok_or_else(not_in_file)
    }
}

fn not_in_file() -> Error {
    Error::internal("the index has a line that is not in the ledger")
}

fn whole_needed() -> Error {
    Error::internal("the change needs the whole ledger")
}
