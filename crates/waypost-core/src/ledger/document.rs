//! The ledger's file as lines, none of which is ever lost.
//!
//! A change touches the line it is about. Every other line keeps its bytes, its ending and its place, whether it is an
//! issue, a record of another kind, a conflict marker or something nobody can read.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::record::{Key, Keys, Record};
use crate::error::{Error, Result};

/// A longer line is kept, but not read.
pub const LONGEST_LINE: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What stands in a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// An issue of this id.
    Issue(String),
    /// A record of another kind, or a comment.
    Other,
    /// Nothing.
    Blank,
    /// A conflict marker that a merge left.
    Marker,
    /// Something that cannot be read, and why.
    Damaged(String),
}

/// The ledger's file.
#[derive(Clone, Debug)]
pub struct Document {
    bytes: Vec<u8>,
    /// Where the first line begins: after a byte order mark, if there is one.
    start: usize,
    lines: Vec<Line>,
}

/// A line and its ending. What it says is read when somebody asks: most changes are about few lines of many.
#[derive(Clone, Debug)]
struct Line {
    text: Text,
    ending: &'static str,
}

#[derive(Clone, Debug)]
enum Text {
    /// As it was found, in the document's bytes.
    Found(Range<usize>),
    /// As it was written now.
    Written(String),
}

/// As much of a record as says what it is. The rest is only looked through.
#[derive(Default)]
struct Head {
    id: Option<String>,
    is_other: bool,
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Head;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Head, A::Error> {
                let mut head = Head::default();
                let mut keys: Keys<Cow<'de, str>> = Keys::default();
                while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
                    match &*key {
                        "id" => head.id = serde_json::from_str(map.next_value::<&RawValue>()?.get()).ok(),
                        "_type" => head.is_other = map.next_value::<&RawValue>()?.get() != "\"issue\"",
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                    let shown = key.clone();
                    if !keys.insert(key) {
                        return Err(serde::de::Error::custom(format!("the key {shown:?} stands twice")));
                    }
                }
                Ok(head)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl Document {
    /// Reads a file. Nothing is refused: what cannot be understood is [`Content::Damaged`].
    pub fn parse(bytes: Vec<u8>) -> Document {
        let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut lines = Vec::new();
        let mut at = start;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (length, step, ending) = match memchr::memchr(b'\n', rest) {
                Some(end) if end > 0 && rest[end - 1] == b'\r' => (end - 1, end + 1, "\r\n"),
                Some(end) => (end, end + 1, "\n"),
                None => (rest.len(), rest.len(), ""),
            };
            lines.push(Line { text: Text::Found(at..at + length), ending });
            at += step;
        }
        Document { bytes, start, lines }
    }

    /// Returns how many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Tells whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns what stands in a line.
    pub fn content(&self, place: usize) -> Content {
        content_of(self.line(place))
    }

    /// Returns what stands in each line, in order.
    pub fn contents(&self) -> impl Iterator<Item = Content> {
        (0..self.lines.len()).map(|place| self.content(place))
    }

    /// Returns all lines, in order, without their endings.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.lines.len()).map(|place| self.line(place))
    }

    /// Returns the bytes of a line, without its ending.
    pub fn line(&self, place: usize) -> &[u8] {
        match &self.lines[place].text {
            Text::Found(range) => &self.bytes[range.clone()],
            Text::Written(text) => text.as_bytes(),
        }
    }

    /// Returns how a line ends: with nothing, if it is the last and was not ended.
    pub(super) fn ending(&self, place: usize) -> &'static str {
        self.lines[place].ending
    }

    /// Tells whether the file begins with a byte order mark.
    pub(super) fn has_byte_order_mark(&self) -> bool {
        self.start > 0
    }

    /// Returns the record of a line.
    pub fn record(&self, place: usize) -> Result<Record> {
        let line = std::str::from_utf8(self.line(place)).map_err(|error| Error::damaged("not UTF-8").because(error))?;
        Record::parse(line)
    }

    /// Writes a record in the place of a line.
    pub fn replace(&mut self, place: usize, record: &Record) -> Result<()> {
        self.lines[place].text = Text::Written(written(record)?);
        Ok(())
    }

    /// Adds a record as a line of its own: where the order of ids has it, or at the end of a file without order.
    /// Returns its place.
    pub fn insert(&mut self, record: &Record) -> Result<usize> {
        let text = written(record)?;
        let place = self.place_for(id_of(text.as_bytes()).as_deref());
        let ending = self.lines.first().map(|line| line.ending).filter(|ending| !ending.is_empty()).unwrap_or("\n");
        if let Some(before) = place.checked_sub(1).and_then(|before| self.lines.get_mut(before))
            && before.ending.is_empty()
        {
            // A file whose last line was not ended: the new line must not run into it.
            before.ending = ending;
        }
        self.lines.insert(place, Line { text: Text::Written(text), ending });
        Ok(place)
    }

    /// Adds many records, each where [`Self::insert`] would put it. Returns their places, from the first on.
    pub fn insert_all(&mut self, records: &[Record]) -> Result<Vec<usize>> {
        let mut new: Vec<(Option<String>, String)> = Vec::with_capacity(records.len());
        for record in records {
            let text = written(record)?;
            new.push((id_of(text.as_bytes()).map(Cow::into_owned), text));
        }
        // What has no id goes to the end.
        new.sort_by(|(left, _), (right, _)| left.is_none().cmp(&right.is_none()).then_with(|| left.cmp(right)));
        let known = self.sorted_ids();
        let end = self.lines.len();
        let ending = self.lines.first().map(|line| line.ending).filter(|ending| !ending.is_empty()).unwrap_or("\n");
        let mut wanted = Vec::with_capacity(new.len());
        let mut passed = 0;
        for (id, _) in &new {
            let place = match (&known, id) {
                (Some(known), Some(id)) if !known.is_empty() => {
                    passed += known[passed..].iter().take_while(|(_, known)| known <= id).count();
                    known.get(passed).map_or(known[known.len() - 1].0 + 1, |(place, _)| *place)
                }
                _ => end,
            };
            wanted.push(place);
        }
        let mut lines = Vec::with_capacity(self.lines.len() + new.len());
        let mut places = Vec::with_capacity(new.len());
        let mut new = wanted.into_iter().zip(new).peekable();
        let mut found = std::mem::take(&mut self.lines).into_iter();
        for place in 0..=end {
            while let Some((_, (_, text))) = new.next_if(|(wanted, _)| *wanted == place) {
                if let Some(before) = lines.last_mut().filter(|before: &&mut Line| before.ending.is_empty()) {
                    before.ending = ending;
                }
                places.push(lines.len());
                lines.push(Line { text: Text::Written(text), ending });
            }
            lines.extend(found.next());
        }
        self.lines = lines;
        Ok(places)
    }

    /// Returns the ids of a file that is in their order, and where they stand; none if it is not.
    fn sorted_ids(&self) -> Option<Vec<(usize, String)>> {
        let mut ids: Vec<(usize, String)> = Vec::new();
        for (place, line) in self.lines().enumerate() {
            if is_marker(line) {
                return None;
            }
            let Some(id) = id_of(line) else { continue };
            if ids.last().is_some_and(|(_, last)| **last > *id) {
                return None;
            }
            ids.push((place, id.into_owned()));
        }
        Some(ids)
    }

    fn place_for(&self, id: Option<&str>) -> usize {
        let end = self.lines.len();
        let Some(id) = id else { return end };
        // Between conflict markers it would go with one of the sides.
        if self.lines().any(is_marker) {
            return end;
        }
        let mut last: Option<Cow<'_, str>> = None;
        let (mut after_last, mut before_next) = (end, None);
        for (place, line) in self.lines().enumerate() {
            let Some(known) = id_of(line) else { continue };
            if last.is_some_and(|last| last > known) {
                return end;
            }
            if before_next.is_none() && &*known > id {
                before_next = Some(place);
            }
            after_last = place + 1;
            last = Some(known);
        }
        before_next.unwrap_or(after_last)
    }

    /// Adds a record as the first line.
    pub fn insert_first(&mut self, record: &Record) -> Result<()> {
        let text = written(record)?;
        let ending = self.lines.first().map(|line| line.ending).filter(|ending| !ending.is_empty()).unwrap_or("\n");
        self.lines.insert(0, Line { text: Text::Written(text), ending });
        Ok(())
    }

    /// Takes a line out.
    pub fn remove(&mut self, place: usize) {
        self.lines.remove(place);
    }

    /// Returns the lines that were added or changed since the document was parsed.
    pub fn changed_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter_map(|line| match &line.text {
            Text::Found(_) => None,
            Text::Written(text) => Some(text.as_bytes()),
        })
    }

    /// Takes out the lines at these places, which are in order.
    pub fn remove_all(&mut self, places: &[usize]) {
        let mut place = 0..;
        self.lines.retain(|_| place.next().is_none_or(|place| places.binary_search(&place).is_err()));
    }

    /// Returns the whole file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts().concat()
    }

    /// Returns the whole file in parts: everything that was found and still stands side by side is one of them.
    pub fn parts(&self) -> Vec<&[u8]> {
        let mut parts = Vec::new();
        let mut found = 0..self.start;
        let mut take = |next: Range<usize>, parts: &mut Vec<_>| {
            if next.start == found.end {
                found.end = next.end;
            } else {
                parts.push(&self.bytes[std::mem::replace(&mut found, next)]);
            }
        };
        for line in &self.lines {
            let ending = line.ending.as_bytes();
            match &line.text {
                Text::Found(range) if self.bytes[range.end..].starts_with(ending) => {
                    take(range.start..range.end + ending.len(), &mut parts);
                }
                Text::Found(range) => {
                    take(range.clone(), &mut parts);
                    take(0..0, &mut parts);
                    parts.push(ending);
                }
                Text::Written(text) => {
                    take(0..0, &mut parts);
                    parts.extend([text.as_bytes(), ending]);
                }
            }
        }
        take(0..0, &mut parts);
        parts
    }
}

/// Splits a file that comes in pieces into the lines that a [`Document`] of it has, without keeping it.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
    has_begun: bool,
}

impl Splitter {
    /// Takes the next piece.
    pub fn feed(&mut self, mut piece: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            if self.rest.is_empty() {
                let line = self.without_mark(&piece[..end]);
                each(line.strip_suffix(b"\r").unwrap_or(line));
            } else {
                let mut line = std::mem::take(&mut self.rest);
                line.extend_from_slice(&piece[..end]);
                let whole = self.without_mark(&line);
                each(whole.strip_suffix(b"\r").unwrap_or(whole));
                line.clear();
                self.rest = line;
            }
            piece = &piece[end + 1..];
        }
        self.rest.extend_from_slice(piece);
    }

    /// Takes what is left as the last line.
    pub fn finish(mut self, mut each: impl FnMut(&[u8])) {
        let rest = std::mem::take(&mut self.rest);
        let line = self.without_mark(&rest);
        if !line.is_empty() {
            each(line);
        }
    }

    fn without_mark<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }
    }
}

/// Returns the line of a record. One that could not be read again is not written.
fn written(record: &Record) -> Result<String> {
    let text = record.to_line();
    match content_of(text.as_bytes()) {
        Content::Damaged(why) => Err(Error::invalid("the issue cannot be written").because(why)),
        _ => Ok(text),
    }
}

/// Returns the id of a line that looks like an issue's.
///
/// Nearly every line begins with its id. Such a one is not read further, so this decides where a line is put and
/// nothing else.
fn id_of(line: &[u8]) -> Option<Cow<'_, str>> {
    let id = line.strip_prefix(b"{\"id\":\"").or_else(|| line.strip_prefix(b"{\"id\": \""));
    if let Some(id) = id.filter(|_| line.ends_with(b"}"))
        && let Some(end) = memchr::memchr2(b'"', b'\\', id)
        && id[end] == b'"'
        && let Ok(id) = std::str::from_utf8(&id[..end])
    {
        return Some(Cow::Borrowed(id));
    }
    match content_of(line) {
        Content::Issue(id) => Some(Cow::Owned(id)),
        _ => None,
    }
}

/// Tells what stands in a line.
fn content_of(line: &[u8]) -> Content {
    match text_of(line).map(serde_json::from_str::<Head>) {
        Err(content) => content,
        Ok(Ok(Head { id: Some(id), is_other: false })) if !id.is_empty() => Content::Issue(id),
        Ok(Ok(_)) => Content::Other,
        Ok(Err(error)) => Content::Damaged(error.to_string()),
    }
}

/// Returns the text of a line that should be a record, or what the line is instead.
pub fn text_of(line: &[u8]) -> std::result::Result<&str, Content> {
    if line.len() > LONGEST_LINE {
        return Err(Content::Damaged(format!("longer than {} MiB", LONGEST_LINE / 1024 / 1024)));
    }
    if line.trim_ascii().is_empty() {
        return Err(Content::Blank);
    }
    if is_marker(line) {
        return Err(Content::Marker);
    }
    if line.starts_with(b"#") {
        return Err(Content::Other);
    }
    std::str::from_utf8(line).map_err(|_| Content::Damaged("not UTF-8".to_owned()))
}

/// The lines that git, jj and Mercurial put around the versions of a conflict: seven or more of one sign.
pub fn is_marker(line: &[u8]) -> bool {
    let Some(first) = line.first().filter(|first| b"<>=|%+-\\".contains(first)) else {
        return false;
    };
    let run = line.iter().take_while(|byte| *byte == first).count();
    run >= 7 && line.get(run).is_none_or(|next| *next == b' ' || *next == b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(text.as_bytes().to_vec())
    }

    fn text(document: &Document) -> String {
        String::from_utf8(document.to_bytes()).unwrap()
    }

    fn record(id: &str) -> Record {
        Record::parse(&format!("{{\"id\":\"{id}\"}}")).unwrap()
    }

    #[test]
    fn lines_are_told_apart() {
        let document = parse(
            "{\"id\":\"a\"}\n\n{\"_type\":\"memory\",\"key\":\"k\"}\n<<<<<<< HEAD\n# note\n{\"id\":\nplain\n{\"id\":7}\n=======\n{\"_type\":[1]}\n{\"id\":\"a\",\"x\":1,\"x\":2}\n[\"a\"]\n",
        );
        let damaged = |content: &Content| matches!(content, Content::Damaged(_));
        let contents: Vec<Content> = document.contents().collect();
        assert_eq!(contents[0], Content::Issue("a".to_owned()));
        assert_eq!(contents[1..5], [Content::Blank, Content::Other, Content::Marker, Content::Other]);
        assert!(damaged(&contents[5]) && damaged(&contents[6]));
        assert_eq!(contents[7..10], [Content::Other, Content::Marker, Content::Other]);
        assert!(damaged(&contents[10]) && damaged(&contents[11]));
    }

    #[test]
    fn a_new_line_stands_where_the_order_has_it() {
        let mut document = parse("{\"_type\":\"waypost\"}\n{\"id\":\"a\"}\n{\"id\":\"c\"}\nnoise\n");
        document.insert(&record("b")).unwrap();
        document.insert(&record("d")).unwrap();
        assert_eq!(
            text(&document),
            "{\"_type\":\"waypost\"}\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n{\"id\":\"d\"}\nnoise\n"
        );
        let mut unsorted = parse("{\"id\":\"c\"}\n{\"id\":\"a\"}\n");
        unsorted.insert(&record("b")).unwrap();
        assert_eq!(text(&unsorted), "{\"id\":\"c\"}\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    }

    proptest! {
        #[test]
        fn many_records_at_once_stand_where_each_would(
            lines in proptest::collection::vec("(\\{\"id\":\"[a-e]\"\\}|noise|=======|)\r?\n?", 0..6),
            ids in proptest::collection::vec("[a-f]", 0..6),
        ) {
            let file = lines.concat();
            let (mut one_by_one, mut at_once) = (parse(&file), parse(&file));
            let mut sorted = ids.clone();
            sorted.sort();
            for id in &sorted {
                one_by_one.insert(&record(id)).unwrap();
            }
            let places = at_once.insert_all(&ids.iter().map(|id| record(id)).collect::<Vec<_>>()).unwrap();
            prop_assert_eq!(text(&at_once), text(&one_by_one));
            prop_assert_eq!(places.len(), ids.len());
            prop_assert!(places.is_sorted());
            for (place, id) in places.iter().zip(&sorted) {
                prop_assert_eq!(at_once.content(*place), Content::Issue(id.clone()));
            }
        }
    }

    #[test]
    fn endings_marks_and_torn_tails_are_kept() {
        let mut document = parse("\u{feff}{\"id\":\"a\"}\r\n{\"id\":\"c\"}\r\n{\"id\":\"d\",\"ti");
        document.insert(&record("b")).unwrap();
        assert_eq!(text(&document), "\u{feff}{\"id\":\"a\"}\r\n{\"id\":\"b\"}\r\n{\"id\":\"c\"}\r\n{\"id\":\"d\",\"ti");
        document.insert(&record("e")).unwrap();
        assert_eq!(
            text(&document),
            "\u{feff}{\"id\":\"a\"}\r\n{\"id\":\"b\"}\r\n{\"id\":\"c\"}\r\n{\"id\":\"e\"}\r\n{\"id\":\"d\",\"ti"
        );
        let mut empty = parse("");
        empty.insert(&record("a")).unwrap();
        assert_eq!(text(&empty), "{\"id\":\"a\"}\n");
        let mut torn = parse("{\"id\":\"a\"");
        torn.insert(&record("b")).unwrap();
        assert_eq!(text(&torn), "{\"id\":\"a\"\n{\"id\":\"b\"}\n");
    }

    #[test]
    fn nothing_is_put_between_conflict_markers_or_made_too_long_to_read() {
        let text_before =
            "{\"id\":\"a\"}\n<<<<<<< HEAD\n{\"id\":\"c\"}\n=======\n{\"id\":\"e\"}\n>>>>>>> x\n{\"id\":\"z\"}\n";
        let mut document = parse(text_before);
        document.insert(&record("b")).unwrap();
        assert_eq!(text(&document), format!("{text_before}{{\"id\":\"b\"}}\n"));
        let mut long = record("l");
        long.set("title", &"x".repeat(LONGEST_LINE)).unwrap();
        assert!(document.insert(&long).is_err() && document.replace(0, &long).is_err());
        assert_eq!(document.len(), 8);
    }

    /// Files of all kinds of lines.
    fn file() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "[a-c]{1,2}".prop_map(|id| format!("{{\"id\":\"{id}\",\"title\":\"t\",\"z\":[1]}}").into_bytes()),
            Just(b"{\"_type\":\"memory\"}".to_vec()),
            Just(b"<<<<<<< HEAD".to_vec()),
            Just(Vec::new()),
            proptest::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 0..12),
        ];
        (proptest::collection::vec((line, prop_oneof![Just("\n"), Just("\r\n")]), 0..10), any::<bool>()).prop_map(
            |(lines, ended)| {
                let mut bytes: Vec<u8> =
                    lines.iter().flat_map(|(line, ending)| [line.as_slice(), ending.as_bytes()].concat()).collect();
                if !ended {
                    // The last line without its ending. A lone carriage return would be taken into the next one.
                    while bytes.last().is_some_and(|byte| b"\r\n".contains(byte)) {
                        bytes.pop();
                    }
                }
                bytes
            },
        )
    }

    /// The lines of a file that are not empty, sorted: order does not matter here, every byte does.
    fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
        let line = |line: &[u8]| match line.strip_suffix(b"\n") {
            Some(ended) => ended.strip_suffix(b"\r").unwrap_or(ended).to_vec(),
            None => line.to_vec(),
        };
        let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(line).collect();
        lines.retain(|line| !line.is_empty());
        lines.sort();
        lines
    }

    proptest! {
        #[test]
        fn a_file_read_and_written_is_the_same(bytes in file()) {
            prop_assert_eq!(Document::parse(bytes.clone()).to_bytes(), bytes);
        }

        #[test]
        fn inserting_adds_one_line_and_changes_no_other(bytes in file(), id in "[a-c]{1,3}") {
            let mut document = Document::parse(bytes.clone());
            let new = record(&id);
            document.insert(&new).unwrap();
            let mut expected = lines_of(&bytes);
            expected.push(new.to_line().into_bytes());
            expected.sort();
            prop_assert_eq!(lines_of(&document.to_bytes()), expected);
        }

        #[test]
        fn replacing_changes_one_line_and_no_other_byte(bytes in file(), pick in any::<prop::sample::Index>()) {
            let mut document = Document::parse(bytes.clone());
            let places: Vec<usize> = (0..document.len()).filter(|place| matches!(document.content(*place), Content::Issue(_))).collect();
            if !places.is_empty() {
                let place = places[pick.index(places.len())];
                let old = document.line(place).to_vec();
                let mut changed = document.record(place).unwrap();
                changed.set("title", &"new").unwrap();
                document.replace(place, &changed).unwrap();
                let written = document.to_bytes();
                let common = bytes.iter().zip(&written).take_while(|(one, other)| one == other).count();
                let tail = bytes.iter().rev().zip(written.iter().rev()).take_while(|(one, other)| one == other).count();
                prop_assert!(bytes.len() - common.min(bytes.len()) - tail.min(bytes.len() - common) <= old.len());
                prop_assert_eq!(Document::parse(written).len(), Document::parse(bytes).len());
            }
        }

        #[test]
        fn a_file_in_pieces_has_the_same_lines(bytes in file(), mark in any::<bool>(), size in 1..40_usize) {
            let bytes = if mark { [BYTE_ORDER_MARK, &bytes].concat() } else { bytes };
            let mut splitter = Splitter::default();
            let mut lines = Vec::new();
            for piece in bytes.chunks(size) {
                splitter.feed(piece, |line| lines.push(line.to_vec()));
            }
            splitter.finish(|line| lines.push(line.to_vec()));
            let document = Document::parse(bytes);
            prop_assert_eq!(lines, document.lines().map(<[u8]>::to_vec).collect::<Vec<_>>());
        }

        #[test]
        fn a_file_cut_anywhere_loads_all_whole_lines(bytes in file(), cut in any::<prop::sample::Index>()) {
            let end = cut.index(bytes.len() + 1);
            let whole = Document::parse(bytes.clone());
            let part = Document::parse(bytes[..end].to_vec());
            let complete = bytes[..end].split(|byte| *byte == b'\n').count() - 1;
            for place in 0..complete {
                prop_assert_eq!(part.content(place), whole.content(place));
            }
        }
    }
}
