//! The ledger file as lines, none of which is ever lost.
//!
//! A change rewrites only its own line. Every other line keeps its bytes, its ending and its place, whether it is an
//! issue, a record of another kind, a conflict marker or unreadable.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::appended::{self, Change};
use super::record::{Key, Keys, Record};
use crate::digest::fnv;
use crate::error::{Error, Result};
use crate::seeded::seeded_bug;

/// A longer line is kept but not parsed.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// An issue with this id.
    Issue(String),
    /// A record of another kind, or a comment.
    Other,
    /// Only white space.
    Blank,
    /// A conflict marker left by a merge.
    Marker,
    /// An unreadable line, and the reason.
    Damaged(String),
}

/// Refuses a file that stands in a ledger's place without its content, by its first line.
pub fn check_stand_in(first_line: &[u8]) -> Result<()> {
    if first_line.starts_with(b"version http") {
        return Err(Error::unavailable("this is a pointer of Git LFS, not the ledger").hint("git lfs pull"));
    }
    if first_line.starts_with(b"\0GITCRYPT\0") {
        return Err(Error::unavailable("this is a ledger that git-crypt has encrypted").hint("git-crypt unlock"));
    }
    Ok(())
}

/// The ledger file.
#[derive(Clone, Debug)]
pub struct Document {
    bytes: Vec<u8>,
    /// Offset of the first line: after the byte order mark, if there is one.
    start: usize,
    lines: Vec<Line>,
}

/// A line and its ending. It is parsed on demand, because most changes concern few of many lines.
#[derive(Clone, Debug)]
struct Line {
    text: Text,
    ending: &'static str,
}

#[derive(Clone, Debug)]
enum Text {
    /// Unchanged: a range of the document's bytes.
    Found(Range<usize>),
    /// New or changed text.
    Written(String),
}

/// The fields that tell what a record is. The other values are only checked for syntax.
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
                        "_type" => {
                            let kind = serde_json::from_str::<String>(map.next_value::<&RawValue>()?.get());
                            head.is_other = !kind.is_ok_and(|kind| kind == "issue");
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                    let shown = key.clone();
                    if !keys.insert(key) {
                        return Err(serde::de::Error::custom(format!("duplicate key {shown:?}")));
                    }
                }
                Ok(head)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl Document {
    /// Parses a file, and puts [appended changes](super::appended) in their places. This never fails: an unreadable line
    /// becomes [`Content::Damaged`].
    pub fn parse(bytes: Vec<u8>) -> Document {
        let start = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut lines = Vec::new();
        let mut has_appended = false;
        let mut at = start;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (length, step, ending) = match memchr::memchr(b'\n', rest) {
                Some(end) if end > 0 && rest[end - 1] == b'\r' => (end - 1, end + 1, "\r\n"),
                Some(end) => (end, end + 1, "\n"),
                None => (rest.len(), rest.len(), ""),
            };
            has_appended |= appended::is_appended(&rest[..length]);
            lines.push(Line { text: Text::Found(at..at + length), ending });
            at += step;
        }
        let mut document = Document { bytes, start, lines };
        // Between conflict markers, a change belongs to one of the sides.
        if has_appended && !document.lines().any(is_marker) {
            document.place_appended();
        }
        document
    }

    /// Puts appended changes in their places.
    fn place_appended(&mut self) {
        let mut changes = Vec::new();
        let mut gone = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            let Text::Found(range) = &line.text else { continue };
            let text = &self.bytes[range.clone()];
            if let Some(found) = changes_of(text) {
                gone.push(place);
                let moved = |to: Range<usize>| range.start + to.start..range.start + to.end;
                changes.extend(found.into_iter().map(|(id, Change { of, to })| (id, of, moved(to))));
            } else if line.ending.is_empty() && place > 0 && appended::is_appended(text) {
                // A crash cut it off.
                gone.push(place);
            }
        }
        let ids: HashSet<&str> = changes.iter().map(|(id, ..)| id.as_str()).collect();
        let mut versions: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, content) in self.contents().enumerate() {
            if let Content::Issue(id) = content
                && ids.contains(id.as_str())
            {
                versions.entry(id).or_default().push(place);
            }
        }
        let mut new: Vec<(String, Range<usize>)> = Vec::new();
        for (id, of, to) in changes {
            let has = |line: &[u8]| Some(fnv(line)) == of;
            let own = versions.get(&id).into_iter().flatten().copied();
            if let Some(place) = own.clone().find(|place| has(self.line(*place))) {
                self.lines[place].text = Text::Found(to);
            } else if let Some((_, earlier)) =
                new.iter_mut().find(|(new, earlier)| *new == id && has(&self.bytes[earlier.clone()]))
            {
                *earlier = to;
            } else if !own.clone().any(|place| self.line(place) == &self.bytes[to.clone()]) {
                // It is new, or another program has changed the line that it replaces.
                new.push((id, to));
            }
        }
        self.remove_all(&gone);
        self.insert_lines(new.into_iter().map(|(id, to)| (Some(id), Text::Found(to))).collect());
    }

    /// Puts appended changes in their places, if conflict markers kept [`Document::parse`] from it.
    #[must_use]
    pub fn with_appended_placed(mut self) -> Document {
        if self.lines().any(appended::is_appended) {
            self.place_appended();
        }
        self
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Tells whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the content of a line.
    pub fn content(&self, place: usize) -> Content {
        content_of(self.line(place))
    }

    /// Returns the content of each line, in order.
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

    /// Returns the ending of a line: empty for a last line without a line break.
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

    /// Replaces a line with a record.
    pub fn replace(&mut self, place: usize, record: &Record) -> Result<()> {
        self.lines[place].text = Text::Written(line_of(record)?);
        Ok(())
    }

    /// Inserts a record as a new line: in id order, or at the end if the file is not sorted by id. Returns its place.
    pub fn insert(&mut self, record: &Record) -> Result<usize> {
        let text = line_of(record)?;
        let place = self.place_for(id_of(text.as_bytes()).as_deref());
        let ending = self.lines.first().map(|line| line.ending).filter(|ending| !ending.is_empty()).unwrap_or("\n");
        if let Some(before) = place.checked_sub(1).and_then(|before| self.lines.get_mut(before))
            && before.ending.is_empty()
        {
            // The last line had no line break: the new line must not run into it.
            before.ending = ending;
        }
        self.lines.insert(place, Line { text: Text::Written(text), ending });
        Ok(place)
    }

    /// Inserts many records, each where [`Self::insert`] would put it. Returns their places in ascending order.
    pub fn insert_all(&mut self, records: &[Record]) -> Result<Vec<usize>> {
        let mut new: Vec<(Option<String>, Text)> = Vec::with_capacity(records.len());
        for record in records {
            let text = line_of(record)?;
            new.push((id_of(text.as_bytes()).map(Cow::into_owned), Text::Written(text)));
        }
        Ok(self.insert_lines(new))
    }

    /// Inserts lines by their ids. Returns their places in ascending order.
    fn insert_lines(&mut self, mut new: Vec<(Option<String>, Text)>) -> Vec<usize> {
        // Records without an id go to the end.
        new.sort_by(|(left, _), (right, _)| left.is_none().cmp(&right.is_none()).then_with(|| left.cmp(right)));
        let known = self.sorted_ids();
        let end = self.lines.len();
        let ending = self.lines.first().map(|line| line.ending).filter(|ending| !ending.is_empty()).unwrap_or("\n");
        let mut targets = Vec::with_capacity(new.len());
        let mut passed = 0;
        for (id, _) in &new {
            let place = match (&known, id) {
                (Some(known), Some(id)) if !known.is_empty() => {
                    passed += known[passed..].iter().take_while(|(_, known)| known <= id).count();
                    known.get(passed).map_or(known[known.len() - 1].0 + 1, |(place, _)| *place)
                }
                _ => end,
            };
            targets.push(place);
        }
        let mut lines = Vec::with_capacity(self.lines.len() + new.len());
        let mut places = Vec::with_capacity(new.len());
        let mut new = targets.into_iter().zip(new).peekable();
        let mut old = std::mem::take(&mut self.lines).into_iter();
        for place in 0..=end {
            while let Some((_, (_, text))) = new.next_if(|(target, _)| *target == place) {
                if let Some(before) = lines.last_mut().filter(|before: &&mut Line| before.ending.is_empty()) {
                    before.ending = ending;
                }
                places.push(lines.len());
                lines.push(Line { text, ending });
            }
            lines.extend(old.next());
        }
        self.lines = lines;
        places
    }

    /// Returns the ids and their places if the file is sorted by id; none if it is not.
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
        // A line between conflict markers would belong to one of the sides.
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

    /// Inserts a record as the first line.
    pub fn insert_first(&mut self, record: &Record) -> Result<()> {
        let text = line_of(record)?;
        let ending = self.lines.first().map(|line| line.ending).filter(|ending| !ending.is_empty()).unwrap_or("\n");
        self.lines.insert(0, Line { text: Text::Written(text), ending });
        Ok(())
    }

    /// Removes a line.
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

    /// Removes the lines at these places, which must be in ascending order.
    pub fn remove_all(&mut self, places: &[usize]) {
        let mut place = 0..;
        self.lines.retain(|_| place.next().is_none_or(|place| places.binary_search(&place).is_err()));
    }

    /// Returns the whole file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts().concat()
    }

    /// Returns the whole file in parts. Adjacent unchanged lines are one part.
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

/// Returns the changes in a line, with the ids of their issues. None if it is not a line of appended changes.
fn changes_of(line: &[u8]) -> Option<Vec<(String, Change)>> {
    let with_id = |change: Change| match content_of(&line[change.to.clone()]) {
        Content::Issue(id) => Some((id, change)),
        _ => None,
    };
    appended::changes(line)?.into_iter().map(with_id).collect()
}

/// Splits a file that arrives in pieces into the same lines as [`Document::parse`], without keeping the file in memory.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of a line whose end has not arrived yet.
    rest: Vec<u8>,
    has_begun: bool,
}

impl Splitter {
    /// Processes the next piece and passes every complete line to `each`.
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

    /// Passes the remaining bytes, if any, to `each` as the last line.
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

/// Returns the line of a record; an error if the line could not be parsed again.
pub fn line_of(record: &Record) -> Result<String> {
    let text = record.to_line();
    match content_of(text.as_bytes()) {
        Content::Damaged(why) => Err(Error::invalid("the issue cannot be written").because(why)),
        _ => Ok(text),
    }
}

/// Returns the id of a line that looks like an issue.
///
/// Fast path: nearly every line begins with its id and is not parsed further. So the result may only decide where a
/// line is inserted or searched for.
pub fn id_of(line: &[u8]) -> Option<Cow<'_, str>> {
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

/// Classifies a line.
fn content_of(line: &[u8]) -> Content {
    match text_of(line).map(serde_json::from_str::<Head>) {
        Err(content) => content,
        Ok(Ok(Head { id: Some(id), is_other: false })) if !id.is_empty() => Content::Issue(id),
        Ok(Ok(_)) => Content::Other,
        Ok(Err(error)) if error.is_eof() && seeded_bug("ignore_torn_line") => Content::Blank,
        Ok(Err(error)) => Content::Damaged(error.to_string()),
    }
}

/// Returns the text of a line that should be a record; otherwise the content of the line.
pub fn text_of(line: &[u8]) -> std::result::Result<&str, Content> {
    if line.len() > MAX_LINE_BYTES {
        return Err(Content::Damaged(format!("longer than {} MiB", MAX_LINE_BYTES / 1024 / 1024)));
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

/// Tells whether a line is a conflict marker of git, jj or Mercurial: seven or more repetitions of one sign.
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
    fn each_kind_of_line_is_recognised() {
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
    fn a_new_line_is_inserted_in_id_order() {
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
        fn insert_all_puts_records_where_insert_would(
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
    fn line_endings_byte_order_marks_and_torn_last_lines_are_kept() {
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
    fn f40_a_line_that_is_too_long_is_reported_kept_and_hides_no_other() {
        let long = "x".repeat(MAX_LINE_BYTES);
        let before = format!("{{\"id\":\"a\"}}\n{{\"id\":\"b\",\"title\":\"{long}\"}}\n{{\"id\":\"c\"}}\n");
        let mut document = parse(&before);
        let contents: Vec<Content> = document.contents().collect();
        assert!(matches!(&contents[1], Content::Damaged(why) if why == "longer than 16 MiB"), "it is not reported");
        let issue = |id: &str| Content::Issue(id.to_owned());
        assert_eq!((contents.len(), &contents[0], &contents[2]), (3, &issue("a"), &issue("c")));
        document.insert(&record("d")).unwrap();
        assert!(text(&document) == before + "{\"id\":\"d\"}\n", "another line changed");
    }

    #[test]
    fn no_line_is_inserted_between_conflict_markers_or_made_too_long() {
        let text_before =
            "{\"id\":\"a\"}\n<<<<<<< HEAD\n{\"id\":\"c\"}\n=======\n{\"id\":\"e\"}\n>>>>>>> x\n{\"id\":\"z\"}\n";
        let mut document = parse(text_before);
        document.insert(&record("b")).unwrap();
        assert_eq!(text(&document), format!("{text_before}{{\"id\":\"b\"}}\n"));
        let mut long = record("l");
        long.set("title", &"x".repeat(MAX_LINE_BYTES)).unwrap();
        assert!(document.insert(&long).is_err() && document.replace(0, &long).is_err());
        assert_eq!(document.len(), 8);
    }

    /// Files with all kinds of lines.
    fn file() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "[a-c]{1,2}".prop_map(|id| format!("{{\"id\":\"{id}\",\"title\":\"t\",\"z\":[1]}}").into_bytes()),
            Just(b"{\"_type\":\"memory\"}".to_vec()),
            Just(b"<<<<<<< HEAD".to_vec()),
            Just(Vec::new()),
            proptest::collection::vec(any::<u8>().prop_filter("one line", |byte| *byte != b'\n'), 0..12),
        ];
        (proptest::collection::vec((line, prop_oneof![Just("\n"), Just("\r\n")]), 0..10), any::<bool>())
            .prop_map(|(lines, ended)| {
                let mut bytes: Vec<u8> =
                    lines.iter().flat_map(|(line, ending)| [line.as_slice(), ending.as_bytes()].concat()).collect();
                if !ended {
                    // The last line without its ending. A lone carriage return would become part of the next line.
                    while bytes.last().is_some_and(|byte| b"\r\n".contains(byte)) {
                        bytes.pop();
                    }
                }
                bytes
            })
            .prop_filter("no appended change that was cut off", |bytes| {
                bytes.rsplit(|byte| *byte == b'\n').next().is_none_or(|last| !appended::is_appended(last))
            })
    }

    /// The sorted non-empty lines of a file: every byte counts here, the order does not.
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
        fn parsing_and_writing_keeps_every_byte(bytes in file()) {
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
        fn a_file_split_in_pieces_has_the_same_lines(bytes in file(), mark in any::<bool>(), size in 1..40_usize) {
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
        fn a_truncated_file_keeps_all_complete_lines(bytes in file(), cut in any::<prop::sample::Index>()) {
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
