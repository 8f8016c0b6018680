//! Reads JSONL of beads in any dialect, and of ledgers. Records keep their spelling.

use serde_json::value::RawValue;
use waypost_core::ledger::document::{Content, Document};
use waypost_core::ledger::mark;
use waypost_core::ledger::record::Record;
use waypost_core::{Error, Result};

use super::{Imported, Source, compact, text};
use crate::Note;

pub(super) fn read(source: &Source) -> Result<Imported> {
    let is_list = source.bytes.trim_ascii_start().first() == Some(&b'[') || source.bytes.starts_with(b"\xef\xbb\xbf[");
    let imported = if is_list { read_list(text(source)?)? } else { read_lines(source) };
    if imported.records.is_empty()
        && let Some(first) = imported.notes.first()
    {
        return Err(Error::invalid("no line is a record").because(format!("{}: {}", first.item, first.problem)));
    }
    Ok(imported)
}

fn read_lines(source: &Source) -> Imported {
    let document = Document::parse(source.bytes.clone());
    let mut imported = Imported::default();
    for (place, content) in document.contents().enumerate() {
        let line = format!("line {}", place + 1);
        let problem = match content {
            Content::Blank => continue,
            Content::Marker => "a conflict marker".to_owned(),
            Content::Damaged(why) => format!("unreadable: {why}"),
            Content::Issue(_) | Content::Other => match document.record(place) {
                Ok(record) => match refusal(&record) {
                    None => {
                        imported.records.push(record);
                        continue;
                    }
                    Some(problem) => problem.to_owned(),
                },
                Err(_) => "a comment".to_owned(),
            },
        };
        imported.notes.push(Note::new(line, problem));
    }
    imported
}

/// Reads the output of beads with `--json`.
fn read_list(text: &str) -> Result<Imported> {
    let items: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| Error::invalid("not a JSON list").because(error))?;
    let mut imported = Imported::default();
    for (number, item) in items.iter().enumerate() {
        let problem = match Record::parse(&compact(item.get())) {
            Ok(record) => match refusal(&record) {
                None => {
                    imported.records.push(record);
                    continue;
                }
                Some(problem) => problem.to_owned(),
            },
            Err(error) => error.full_message(),
        };
        imported.notes.push(Note::new(format!("item {}", number + 1), problem));
    }
    Ok(imported)
}

/// Returns the reason why a record must not be imported into another ledger.
fn refusal(record: &Record) -> Option<&'static str> {
    // In another ledger the mark would claim that issues were pruned which were never there.
    mark::is_mark(record).then_some("the mark of pruned issues belongs to its own ledger")
}

#[cfg(test)]
mod tests {
    use super::super::tests::source;
    use super::*;

    #[test]
    fn records_keep_their_spelling_and_other_lines_are_reported() {
        let text = "\u{feff}{\"id\":\"a\",\"x\":1.50,\"z\":{\"b\": 1}}\r\n\r\n<<<<<<< HEAD\r\n{\"id\": \"a\", \"n\": 99999999999999999999}\r\n{\"id\":\r\n\
                    # note\r\n{\"_type\":\"memory\",\"key\":\"k\"}\r\n{\"_type\":\"waypost\",\"pruned_before\":\"2026-01-01\"}\r\n{\"no\":\"id\"}\r\n";
        let imported = read(&source(text)).unwrap();
        let lines: Vec<String> = imported.records.iter().map(Record::to_line).collect();
        assert_eq!(
            lines,
            [
                "{\"id\":\"a\",\"x\":1.50,\"z\":{\"b\": 1}}",
                "{\"id\": \"a\", \"n\": 99999999999999999999}",
                "{\"_type\":\"memory\",\"key\":\"k\"}",
                "{\"no\":\"id\"}",
            ]
        );
        let items: Vec<&str> = imported.notes.iter().map(|note| note.item.as_str()).collect();
        assert_eq!(items, ["line 3", "line 5", "line 6", "line 8"]);
    }

    #[test]
    fn a_json_list_becomes_lines() {
        let imported =
            read(&source("[\n  {\n    \"id\": \"a\",\n    \"labels\": [\n      \"x y\"\n    ]\n  },\n  7\n]")).unwrap();
        assert_eq!(imported.records[0].to_line(), r#"{"id":"a","labels":["x y"]}"#);
        assert_eq!(imported.notes[0].item, "item 2");
    }

    #[test]
    fn a_line_that_is_not_utf_8_does_not_prevent_importing_the_others() {
        let bytes = b"{\"id\":\"a\"}\n{\"id\":\"\xff\"}\n".to_vec();
        let imported = read(&Source { name: "file".to_owned(), bytes }).unwrap();
        assert_eq!((imported.records.len(), imported.notes[0].item.as_str()), (1, "line 2"));
    }
}
