//! Changes of single lines of a sorted ledger, found and written without reading the whole file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;

use waypost_core::ledger::document::id_of;
use waypost_fs::Part;

/// Below this distance, reading every line is faster than halving the distance once more.
const MIN_DISTANCE: u64 = 4 * 1024;

/// Number of bytes that are read at once.
const PIECE: usize = 4 * 1024;

/// The new lines of a ledger, by id.
#[derive(Debug, Default)]
pub(crate) struct Patch(BTreeMap<String, LineChange>);

/// A changed line.
#[derive(Debug)]
pub(crate) struct LineChange {
    /// The line in the file, and its row in the index. None for a new issue.
    pub(crate) old: Option<(String, i64)>,
    pub(crate) new: String,
    /// The row of the new line in the index.
    pub(crate) row: i64,
}

impl Patch {
    /// Returns the changes, in the order of the ids.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&str, &LineChange)> {
        self.0.iter().map(|(id, change)| (id.as_str(), change))
    }

    /// Returns the new lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(|change| change.new.as_bytes())
    }

    /// Returns each old line, if there is one, and its new line.
    pub(crate) fn changed_lines(&self) -> impl Iterator<Item = (Option<&[u8]>, &[u8])> {
        self.0.values().map(|change| (change.old.as_ref().map(|(old, _)| old.as_bytes()), change.new.as_bytes()))
    }

    /// Records a change. A second change of an issue replaces the first.
    pub(crate) fn record(&mut self, id: &str, change: LineChange) {
        match self.0.get_mut(id) {
            Some(earlier) => (earlier.new, earlier.row) = (change.new, change.row),
            None => drop(self.0.insert(id.to_owned(), change)),
        }
    }

    /// Finds the places of the changes in the file. Returns None if the file does not have the expected lines, or has a
    /// form that only a whole read deals with.
    pub(crate) fn splices(&self, file: &File) -> io::Result<Option<Vec<Splice>>> {
        let lines = Lines { file, length: file.metadata()?.len(), piece: RefCell::default() };
        let Some(ending) = lines.ending()? else { return Ok(None) };
        let mut splices = Vec::with_capacity(self.0.len());
        for (id, change) in self.changes() {
            let at = lines.first_from(id)?;
            let found = lines.at(at)?;
            splices.push(match (&change.old, found) {
                (Some((old, _)), Some(found)) if found.text() == old.as_bytes() => {
                    Splice { at, removed: found.text().len() as u64, inserted: change.new.clone() }
                }
                (None, Some(found)) if found.id().is_some_and(|found| *found > *id) => {
                    Splice { at, removed: 0, inserted: format!("{}{ending}", change.new) }
                }
                (None, None) if lines.ends_with_an_id()? => {
                    Splice { at, removed: 0, inserted: format!("{}{ending}", change.new) }
                }
                _ => return Ok(None),
            });
        }
        Ok(Some(splices))
    }
}

/// A replaced range of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Splice {
    at: u64,
    removed: u64,
    inserted: String,
}

/// Returns the new content of a file. The splices are in ascending order.
pub(crate) fn parts<'a>(file: &'a File, splices: &'a [Splice]) -> io::Result<Vec<Part<'a>>> {
    let mut parts = Vec::with_capacity(2 * splices.len() + 1);
    let mut at = 0;
    for splice in splices {
        parts.extend([Part::Range(file, at, splice.at), Part::Bytes(splice.inserted.as_bytes())]);
        at = splice.at + splice.removed;
    }
    parts.push(Part::Range(file, at, file.metadata()?.len()));
    Ok(parts)
}

/// The lines of a file that is sorted by id.
struct Lines<'a> {
    file: &'a File,
    length: u64,
    /// The piece of the file that was read last, and its offset. Most lines are read one after the other.
    piece: RefCell<(u64, Vec<u8>)>,
}

/// A line with its ending.
struct Line(Vec<u8>);

impl Line {
    fn text(&self) -> &[u8] {
        let text = self.0.strip_suffix(b"\n").unwrap_or(&self.0);
        text.strip_suffix(b"\r").unwrap_or(text)
    }

    fn id(&self) -> Option<std::borrow::Cow<'_, str>> {
        id_of(self.text())
    }

    fn length(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Lines<'_> {
    /// Returns the line that begins at an offset. None at the end of the file.
    fn at(&self, offset: u64) -> io::Result<Option<Line>> {
        if offset >= self.length {
            return Ok(None);
        }
        let mut piece = self.piece.borrow_mut();
        let mut size = PIECE;
        loop {
            let (start, bytes) = &*piece;
            let rest = offset.checked_sub(*start).and_then(|skipped| bytes.get(usize::try_from(skipped).ok()?..));
            if let Some(rest) = rest {
                let is_last = *start + bytes.len() as u64 == self.length;
                let end =
                    rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1).or(is_last.then_some(rest.len()));
                if let Some(end) = end {
                    return Ok(Some(Line(rest[..end].to_vec())));
                }
            }
            let left = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
            *piece = (offset, vec![0; left.min(size)]);
            self.file.read_exact_at(&mut piece.1, offset)?;
            size *= 2;
        }
    }

    /// Returns the ending of the first line, which new lines get, too. None if the file has no line, begins with a byte
    /// order mark or does not end with a line break.
    fn ending(&self) -> io::Result<Option<&'static str>> {
        let mut last = [0];
        let Some(at) = self.length.checked_sub(1) else { return Ok(None) };
        self.file.read_exact_at(&mut last, at)?;
        let first = self.at(0)?.ok_or(ErrorKind::UnexpectedEof)?;
        if last != *b"\n" || first.0.starts_with(b"\xef") {
            return Ok(None);
        }
        Ok(Some(if first.0.ends_with(b"\r\n") { "\r\n" } else { "\n" }))
    }

    /// Returns the offset of the first line whose id is not less than `id`, or the end of the file.
    fn first_from(&self, id: &str) -> io::Result<u64> {
        // All lines before `low` have lesser ids. At `high` is a line with this id or a greater one, or the end.
        let (mut low, mut high) = (0, self.length);
        while high - low > MIN_DISTANCE {
            let middle = low + (high - low) / 2;
            let rest = self.at(middle)?.map_or(0, |rest| rest.length());
            let Some((at, line)) = self.first_with_id(middle + rest, high)? else { break };
            if line.id().is_some_and(|found| *found < *id) {
                low = at + line.length();
            } else {
                high = at;
            }
        }
        while let Some((at, line)) = self.first_with_id(low, high)? {
            if line.id().is_some_and(|found| *found >= *id) {
                return Ok(at);
            }
            low = at + line.length();
        }
        Ok(high)
    }

    /// Returns the first line with an id between two offsets, and its own offset.
    fn first_with_id(&self, mut at: u64, end: u64) -> io::Result<Option<(u64, Line)>> {
        while at < end
            && let Some(line) = self.at(at)?
        {
            if line.id().is_some() {
                return Ok(Some((at, line)));
            }
            at += line.length();
        }
        Ok(None)
    }

    /// Returns whether the last line has an id.
    fn ends_with_an_id(&self) -> io::Result<bool> {
        let mut from = self.length.saturating_sub(PIECE as u64);
        loop {
            let mut tail = vec![0; usize::try_from(self.length - from).map_err(|_| ErrorKind::OutOfMemory)?];
            self.file.read_exact_at(&mut tail, from)?;
            tail.pop_if(|last| *last == b'\n');
            if let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') {
                return Ok(Line(tail.split_off(end + 1)).id().is_some());
            }
            if from == 0 {
                return Ok(Line(tail).id().is_some());
            }
            from = from.saturating_sub(self.length - from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;
    use waypost_core::ledger::document::{Document, SortCheck};
    use waypost_core::ledger::record::Record;
    use waypost_fs::{Replaced, open_version, replace, replace_if_unchanged};

    use super::*;

    fn line(id: u16, size: usize) -> String {
        format!("{{\"id\":\"a-{id:05}\",\"title\":\"{}\"}}", "x".repeat(size))
    }

    /// Writes a file and applies a patch to it. Returns None if the patch cannot be applied.
    fn apply(content: &[u8], patch: &Patch) -> Option<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("file");
        replace(&name, content, 0o600).unwrap();
        let (file, seen) = open_version(&name).unwrap();
        let file = file.unwrap();
        let splices = patch.splices(&file).unwrap()?;
        let replaced = replace_if_unchanged(&seen, &parts(&file, &splices).unwrap(), 0o600).unwrap();
        assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
        let mut after = Vec::new();
        File::open(&name).unwrap().read_to_end(&mut after).unwrap();
        Some(after)
    }

    fn patch(changes: &[(u16, Option<usize>, usize)]) -> Patch {
        let mut patch = Patch::default();
        for (id, old, new) in changes {
            let old = old.map(|size| (line(*id, size), 1));
            patch.record(&format!("a-{id:05}"), LineChange { old, new: line(*id, *new), row: 2 });
        }
        patch
    }

    proptest! {
        #[test]
        fn a_patch_writes_what_a_whole_read_writes(
            ids in proptest::collection::btree_map(0_u16..2_000, 0_usize..300, 1..400),
            changed in proptest::collection::btree_map(0_u16..2_000, 0_usize..9_000, 1..5),
            others in proptest::collection::vec((0_usize..400, prop_oneof!["# note", "", "\\{\"_type\":\"x\"\\}"]), 0..4),
            ending in prop_oneof![Just("\n"), Just("\r\n")],
        ) {
            let mut lines: Vec<String> = ids.iter().map(|(id, size)| line(*id, *size)).collect();
            for (place, other) in others {
                lines.insert(place.min(lines.len()), other);
            }
            let content: String = lines.iter().flat_map(|line| [line.as_str(), ending]).collect();
            let mut document = Document::parse(content.clone().into_bytes());
            let mut changes = Vec::new();
            for (id, size) in changed {
                let record = Record::parse(&line(id, size)).unwrap();
                let old = ids.get(&id).copied();
                if let Some(old) = old {
                    let old = line(id, old);
                    let place = document.lines().position(|line| line == old.as_bytes()).unwrap();
                    document.replace(place, &record).unwrap();
                } else {
                    document.insert(&record).unwrap();
                }
                changes.push((id, old, size));
            }
            let mut check = SortCheck::default();
            document.lines().for_each(|line| check.feed(line));
            prop_assert!(check.is_sorted());
            let after = apply(content.as_bytes(), &patch(&changes));
            // A new last line after lines without an id is left to a whole read.
            let is_left = after.is_none() && !lines.last().unwrap().starts_with("{\"id");
            prop_assert!(is_left || after == Some(document.to_bytes()));
        }
    }

    #[test]
    fn a_file_that_does_not_have_the_expected_lines_is_left_to_a_whole_read() {
        let content = format!("{}\n{}\n", line(1, 3), line(3, 3));
        let change = patch(&[(3, Some(3), 4)]);
        assert_eq!(apply(content.as_bytes(), &change), Some(format!("{}\n{}\n", line(1, 3), line(3, 4)).into_bytes()));
        let cases: [(&str, &str, Patch); 6] = [
            ("another text", &content, patch(&[(3, Some(5), 4)])),
            ("a missing line", &content, patch(&[(2, Some(3), 4)])),
            ("a line that exists", &content, patch(&[(1, None, 4)])),
            ("no line break at the end", content.trim_end(), patch(&[(3, Some(3), 4)])),
            ("a byte order mark", &format!("\u{feff}{content}"), patch(&[(3, Some(3), 4)])),
            ("an empty file", "", patch(&[(3, None, 4)])),
        ];
        for (name, content, patch) in cases {
            assert_eq!(apply(content.as_bytes(), &patch), None, "{name}");
        }
    }

    #[test]
    fn finding_a_line_reads_few_pieces_of_a_large_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content: String = (0..20_000).map(|id| line(id, 200) + "\n").collect();
        replace(&path, content.as_bytes(), 0o600).unwrap();
        let file = File::open(&path).unwrap();
        let read_bytes = || {
            let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
            io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok()).unwrap()
        };
        let before = read_bytes();
        assert!(patch(&[(777, Some(200), 4)]).splices(&file).unwrap().is_some());
        let read = read_bytes() - before;
        assert!(read < content.len() as u64 / 20, "{read} of {} bytes", content.len());
    }
}
