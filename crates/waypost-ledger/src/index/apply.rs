//! Bringing the index up to date with changed lines.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use foldhash::quality::FixedState;
use waypost_core::Result;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_fs::{FileVersion, Stamp};

use super::Index;
use super::lines::{KnownLine, KnownLines, LineDiff, NO_ISSUE, ParsedLine, UNREADABLE, parse_line};
use super::rows::{Form, ledger_row, stored_stamp};
use crate::file::{LedgerFile, Source};

/// With at most this many new lines, updating the index is always faster than rebuilding it.
const MIN_REBUILD_LINES: usize = 500;

/// The outcome of bringing one ledger's part of the index up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Updated {
    Same,
    Changed,
    /// So many lines changed that rebuilding the index is faster.
    RebuildNeeded,
}

impl Index {
    /// Brings one ledger up to date with a version of its file.
    pub(crate) fn update(&self, number: usize, source: &Source<'_>) -> Result<Updated> {
        let mut diff = self.begin_diff(number)?;
        source.document.lines().for_each(|line| diff.feed(line));
        let form = Form { is_conflicted: source.is_conflicted, restored: source.restored.len() };
        self.apply_diff(number, diff, form, source.path, &source.seen)
    }

    /// Brings one ledger up to date with its file, and only holds the new lines in memory.
    pub(crate) fn update_from_file(&self, number: usize, file: &LedgerFile) -> Result<Updated> {
        if file.has_unsettled_changes() {
            return self.update(number, &file.source()?);
        }
        let diff = self.begin_diff(number)?;
        let (diff, seen) = file.scan(|| diff.clone(), LineDiff::feed)?;
        if diff.is_conflicted || diff.has_appended {
            // Merging the conflict, or putting changes in their places, needs the whole file.
            return self.update(number, &file.source()?);
        }
        self.apply_diff(number, diff, Form::default(), file.path(), &seen)
    }

    fn begin_diff(&self, number: usize) -> Result<LineDiff> {
        Ok(LineDiff::new(FixedState::with_seed(self.salt), self.known_lines(number)?.0))
    }

    fn apply_diff(
        &self,
        number: usize,
        mut diff: LineDiff,
        form: Form,
        path: &Path,
        seen: &FileVersion,
    ) -> Result<Updated> {
        // If a third of many lines is new, a rebuild is faster.
        if diff.added.len() > MIN_REBUILD_LINES && diff.added.len() * 3 > diff.prefix + diff.tail.len() {
            return Ok(Updated::RebuildNeeded);
        }
        let ledger = ledger_row(number);
        let removed = diff.take_removed();
        let is_changed = !removed.is_empty() || !diff.added.is_empty();
        let rows = self.apply(ledger, &removed, diff.added.iter().map(|(_, line)| line.as_slice()))?;
        for ((place, _), row) in diff.added.iter().zip(rows) {
            diff.tail[*place].row = row;
        }
        let mut lines = diff.old;
        let is_moved = diff.prefix < lines.len() || !diff.tail.is_empty();
        lines.truncate(diff.prefix);
        lines.append(&mut diff.tail);
        let stamp = stored_stamp(seen);
        if is_changed || is_moved || self.form(number)? != Some(form) {
            self.write_ledger(ledger, path, stamp, form, &KnownLines(lines))?;
        } else {
            self.execute("UPDATE ledger SET stamp = ?2 WHERE ledger = ?1", (ledger, stamp))?;
        }
        Ok(if is_changed { Updated::Changed } else { Updated::Same })
    }

    /// Replaces the line at a position within a change. Inserts the new line if `old` is false; removes the old line if `new`
    /// is `None`.
    pub(crate) fn replace_line(
        &self,
        number: usize,
        lines: &mut KnownLines,
        place: usize,
        old: bool,
        new: Option<&[u8]>,
    ) -> Result<()> {
        if place + usize::from(old) > lines.0.len() {
            return Err(self.inconsistent());
        }
        let removed: Vec<i64> = if old { vec![lines.0[place].row] } else { Vec::new() };
        let rows = self.apply(ledger_row(number), &removed, new)?;
        let line = match (new, rows.as_slice()) {
            (Some(new), [row]) => Some(KnownLine { hash: self.hash(new), row: *row }),
            _ => None,
        };
        match (old, line) {
            (true, Some(line)) => lines.0[place] = line,
            (true, None) => drop(lines.0.remove(place)),
            (false, Some(line)) => lines.0.insert(place, line),
            (false, None) => {}
        }
        Ok(())
    }

    /// Replaces all lines of an issue in one ledger by one record, within a transaction that is rolled back: the known lines
    /// of the ledger stay as they are.
    pub(crate) fn replace_record(&self, number: usize, record: &Record) -> Result<()> {
        let id = record.text("id").unwrap_or_default();
        let rows = self.all("SELECT line FROM line WHERE id = ?1 AND ledger = ?2", (id, number), |row| row.get(0))?;
        let line = record.to_line();
        self.apply(ledger_row(number), &rows, [line.as_bytes()]).map(drop)
    }

    /// Removes the lines at these sorted positions within a change.
    pub(crate) fn remove_lines(&self, number: usize, lines: &mut KnownLines, places: &[usize]) -> Result<()> {
        if places.last().is_some_and(|last| *last >= lines.0.len()) {
            return Err(self.inconsistent());
        }
        let removed: Vec<i64> = places.iter().map(|place| lines.0[*place].row).collect();
        self.apply(ledger_row(number), &removed, None)?;
        let mut place = 0..;
        lines.0.retain(|_| place.next().is_none_or(|place| places.binary_search(&place).is_err()));
        Ok(())
    }

    /// Records that we wrote a ledger's whole file, with these lines.
    pub(crate) fn record_write(
        &self,
        number: usize,
        path: &Path,
        written: &FileVersion,
        lines: &KnownLines,
    ) -> Result<()> {
        self.write_ledger(ledger_row(number), path, stored_stamp(written), Form::default(), lines)
    }

    /// Returns the lines of an issue in one ledger.
    pub(crate) fn lines_of(&self, number: usize, id: &str) -> Result<Vec<String>> {
        self.all("SELECT raw FROM line WHERE id = ?1 AND ledger = ?2", (id, number), |row| row.get(0))
    }

    /// Returns the form of a ledger's file. None if the index has no such ledger.
    fn form(&self, number: usize) -> Result<Option<Form>> {
        self.one("SELECT conflicted, restored FROM ledger WHERE ledger = ?1", [ledger_row(number)], |row| {
            Ok(Form { is_conflicted: row.get(0)?, restored: row.get(1)? })
        })
    }

    pub(crate) fn known_lines(&self, number: usize) -> Result<KnownLines> {
        let lines = self.one("SELECT marks FROM mark WHERE ledger = ?1", [ledger_row(number)], |row| {
            row.get_ref(0)?.as_blob().map(KnownLines::from_bytes).map_err(Into::into)
        })?;
        Ok(lines.unwrap_or_default())
    }

    /// Returns which files are unchanged since they were indexed; `None` if the index is of other files.
    pub(crate) fn freshness(&self, files: &[(&Path, Option<Stamp>)]) -> Result<Option<Vec<bool>>> {
        let stored = self.all("SELECT path, stamp FROM ledger ORDER BY ledger", [], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })?;
        let is_same_set = stored.len() == files.len()
            && stored.iter().zip(files).all(|((indexed, _), (path, _))| indexed == path.as_os_str().as_bytes());
        let is_fresh = |((_, stored), (_, now)): (&(_, Option<Vec<u8>>), &(_, Option<Stamp>))| {
            stored.as_ref().is_some_and(|stored| *stored == now.map(Stamp::to_bytes).unwrap_or_default())
        };
        Ok(is_same_set.then(|| stored.iter().zip(files).map(is_fresh).collect()))
    }

    /// Raises the revision after a change.
    pub(crate) fn raise_revision(&self, now: Timestamp) -> Result<()> {
        // The time keeps the revision growing across rebuilds of the index.
        self.execute("UPDATE about SET revision = max(revision + 1, ?1)", [now.as_millis()]).map(drop)
    }

    /// Removes rows of lines, and inserts other lines. Returns the rows of the new lines.
    pub(super) fn apply<'a>(
        &self,
        ledger: i64,
        removed: &[i64],
        added: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<i64>> {
        let mut touched = BTreeSet::new();
        let mut texts = Vec::new();
        for row in removed.iter().filter(|row| **row > 0) {
            let removed = self.one("DELETE FROM line WHERE line = ?1 RETURNING id, rank", [row], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            })?;
            let Some((id, rank)) = removed else { continue };
            touched.insert(id);
            texts.push((*row, rank));
        }
        self.remove_texts(&texts)?;
        let mut rows = Vec::new();
        for bytes in added {
            rows.push(match parse_line(bytes) {
                ParsedLine::Issue(issue, raw) => {
                    let row = self.insert_line(ledger, &issue, raw)?;
                    touched.insert(issue.id);
                    row
                }
                ParsedLine::NoIssue => NO_ISSUE,
                ParsedLine::Unreadable => UNREADABLE,
            });
        }
        self.refresh_issues(&touched)?;
        Ok(rows)
    }
}
