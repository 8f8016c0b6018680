//! Lines of ledgers: parsing, and comparing them with the indexed ones.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;
use waypost_core::ledger::appended::is_appended;
use waypost_core::ledger::document::{Content, is_marker, text_of};
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Fields;

/// The hash of an indexed line, and its row in `line`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownLine {
    pub(super) hash: u64,
    pub(super) row: i64,
}

/// The row of a line that is not an issue.
pub(super) const NO_ISSUE: i64 = 0;
/// The row of a line that cannot be read.
pub(super) const UNREADABLE: i64 = -1;

/// The indexed lines of a ledger, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownLines(pub(super) Vec<KnownLine>);

impl KnownLines {
    const SIZE: usize = 16;

    pub(super) fn from_bytes(bytes: &[u8]) -> KnownLines {
        let (lines, _) = bytes.as_chunks::<{ KnownLines::SIZE }>();
        let known = |bytes: &[u8; KnownLines::SIZE]| {
            let both = u128::from_le_bytes(*bytes);
            #[expect(clippy::cast_possible_truncation, reason = "the value packs two numbers")]
            let (hash, row) = (both as u64, (both >> 64) as u64);
            KnownLine { hash, row: row.cast_signed() }
        };
        KnownLines(lines.iter().map(known).collect())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * Self::SIZE);
        for line in &self.0 {
            bytes.extend_from_slice(&line.hash.to_le_bytes());
            bytes.extend_from_slice(&line.row.to_le_bytes());
        }
        bytes
    }

    pub(super) fn unreadable(&self) -> usize {
        self.0.iter().filter(|line| line.row == UNREADABLE).count()
    }
}

/// The difference between the lines of a file and the indexed lines.
#[derive(Clone)]
pub(super) struct LineDiff {
    hasher: FixedState,
    pub(super) old: Vec<KnownLine>,
    /// Number of unchanged lines at the start.
    pub(super) prefix: usize,
    /// Indexed lines after the prefix that the file did not repeat so far.
    unmatched: Option<UnmatchedLines>,
    /// The file's lines after the prefix.
    pub(super) tail: Vec<KnownLine>,
    /// New lines, with their positions in the tail.
    pub(super) added: Vec<(usize, Vec<u8>)>,
    /// Whether the file has conflict markers.
    pub(super) is_conflicted: bool,
    /// Whether the file has lines with appended changes.
    pub(super) has_appended: bool,
}

impl LineDiff {
    pub(super) fn new(hasher: FixedState, old: Vec<KnownLine>) -> LineDiff {
        LineDiff {
            hasher,
            old,
            prefix: 0,
            unmatched: None,
            tail: Vec::new(),
            added: Vec::new(),
            is_conflicted: false,
            has_appended: false,
        }
    }

    /// Compares the next line of the file.
    pub(super) fn feed(&mut self, line: &[u8]) {
        self.is_conflicted |= is_marker(line);
        self.has_appended |= is_appended(line);
        let hash = self.hasher.hash_one(line);
        if self.unmatched.is_none() && self.old.get(self.prefix).is_some_and(|known| known.hash == hash) {
            self.prefix += 1;
            return;
        }
        // A line that only moved keeps its row; lines with equal hashes are equal.
        let unmatched = self.unmatched.get_or_insert_with(|| UnmatchedLines::of(&self.old[self.prefix..]));
        let row = unmatched.0.get_mut(&hash).and_then(Vec::pop);
        if row.is_none() {
            self.added.push((self.tail.len(), line.to_vec()));
        }
        self.tail.push(KnownLine { hash, row: row.unwrap_or(NO_ISSUE) });
    }

    /// Returns the rows of the indexed lines that the file does not have any more. Call it after the last line.
    pub(super) fn take_removed(&mut self) -> Vec<i64> {
        let unmatched = self.unmatched.take().unwrap_or_else(|| UnmatchedLines::of(&self.old[self.prefix..]));
        unmatched.0.into_values().flatten().collect()
    }
}

/// Rows of lines, by the hashes of the lines.
#[derive(Clone)]
struct UnmatchedLines(HashMap<u64, Vec<i64>, RandomState>);

impl UnmatchedLines {
    fn of(lines: &[KnownLine]) -> UnmatchedLines {
        let mut unmatched: HashMap<u64, Vec<i64>, RandomState> = HashMap::default();
        for line in lines {
            unmatched.entry(line.hash).or_default().push(line.row);
        }
        UnmatchedLines(unmatched)
    }
}

/// A parsed line.
pub(super) enum ParsedLine<'a> {
    Issue(Box<Issue>, &'a str),
    NoIssue,
    Unreadable,
}

pub(super) fn parse_line(line: &[u8]) -> ParsedLine<'_> {
    let text = match text_of(line) {
        Ok(text) => text,
        // Conflict markers that still exist here could not be merged.
        Err(Content::Damaged(_) | Content::Marker) => return ParsedLine::Unreadable,
        Err(_) => return ParsedLine::NoIssue,
    };
    match Fields::parse(text).map(|fields| Issue::read(&fields)) {
        Ok(Some((issue, _))) => ParsedLine::Issue(Box::new(issue), text),
        Ok(None) => ParsedLine::NoIssue,
        Err(_) => ParsedLine::Unreadable,
    }
}

/// Returns a label as the index stores it: one with a line break must not become several labels.
pub(super) fn label_to_text(label: &str) -> String {
    label.replace('\n', "\r")
}
