//! Reads JSONL of beads in any dialect, and of ledgers. Records keep their spelling.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;
use waypost_core::ledger::document::{Content, Document};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::{mark, moved};
use waypost_core::{Error, Result, words};

use super::{Imported, Source, compact, objects, text};
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

/// Adds the rows of a backup's other tables to the issues they belong to. Rows of unknown tables and issues are reported.
pub(super) fn join(imported: &mut Imported, tables: &[Source]) -> Result<()> {
    let places: HashMap<String, usize> =
        imported.records.iter().enumerate().filter_map(|(place, record)| Some((record.text("id")?, place))).collect();
    for table in tables {
        let name = &table.name;
        let key = name.strip_suffix(".jsonl").unwrap_or(name);
        if !["dependencies", "labels", "comments"].contains(&key) {
            let rows = table.bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
            if rows > 0 {
                imported.notes.push(Note::new(name, format!("{} left out", words::count(rows, "row"))));
            }
            continue;
        }
        let mut rows: BTreeMap<usize, Vec<Box<RawValue>>> = BTreeMap::new();
        for (line, row) in objects(table, &mut imported.notes).map_err(|error| error.within(name))? {
            let item = || format!("{name}, {line}");
            let Some(place) = row.text("issue_id").and_then(|id| places.get(&id).copied()) else {
                imported.notes.push(Note::new(item(), "it belongs to no issue of the file"));
                continue;
            };
            match value_of(key, row)? {
                Some(value) => rows.entry(place).or_default().push(value),
                None => imported.notes.push(Note::new(item(), format!("it is not one of the {key}"))),
            }
        }
        for (place, rows) in rows {
            let record = &mut imported.records[place];
            let mut all: Vec<Box<RawValue>> =
                record.raw(key).and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
            for row in rows {
                if !all.iter().any(|known| same(key, known.get(), row.get())) {
                    all.push(row);
                }
            }
            record.set(key, &all)?;
        }
    }
    Ok(())
}

/// Returns the item of an issue's list that a row stands for; none if the row says nothing.
fn value_of(key: &str, mut row: Record) -> Result<Option<Box<RawValue>>> {
    if key == "dependencies" && row.text("depends_on_id").is_none() {
        let columns = ["depends_on_issue_id", "depends_on_wisp_id", "depends_on_external"];
        let Some(on) = columns.iter().find_map(|column| row.text(column)) else { return Ok(None) };
        row.set("depends_on_id", &on)?;
    }
    let value = match key {
        "labels" => row.text("label").map(|label| serde_json::Value::from(label).to_string()),
        "comments" => row.text("text").map(|_| row.to_line()),
        _ => Some(row.to_line()),
    };
    let value = value.map(RawValue::from_string).transpose();
    value.map_err(|error| Error::internal("a row is not JSON").because(error))
}

/// Returns whether two items of an issue's list are the same one.
fn same(key: &str, one: &str, other: &str) -> bool {
    let fields: &[&str] = match key {
        "dependencies" => &["depends_on_id", "type"],
        "comments" => &["id"],
        _ => return one == other,
    };
    let (one, other) = (Record::parse(one), Record::parse(other));
    one.is_ok_and(|one| other.is_ok_and(|other| fields.iter().all(|field| one.raw(field) == other.raw(field))))
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
    // In another ledger a mark would claim that issues left it which were never there.
    let is_mark = mark::is_mark(record) || moved::marked(record.to_line().as_bytes()).is_some();
    is_mark.then_some("the mark of pruned or moved issues belongs to its own ledger")
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
    fn the_tables_of_a_backup_are_joined_to_its_issues() {
        let table = |name: &str, text: &str| Source { name: name.to_owned(), ..source(text) };
        let mut imported = read(&source("{\"id\":\"a\",\"labels\":[\"x\"]}\n{\"id\":\"b\"}\n")).unwrap();
        let tables = [
            table(
                "labels.jsonl",
                r#"{"issue_id":"a","label":"x"}
{"issue_id":"a","label":"y"}
{"issue_id":"gone","label":"y"}"#,
            ),
            table(
                "dependencies.jsonl",
                r#"{"issue_id":"b","depends_on_id":"a","type":"blocks"}
{"issue_id":"b","depends_on_external":"ext:1","type":"blocks"}
{"issue_id":"b","type":"blocks"}"#,
            ),
            table("comments.jsonl", r#"{"id":"c1","issue_id":"b","author":"ann","text":"hi"}"#),
            table("events.jsonl", "{}\n{}\n"),
            table("config.jsonl", ""),
        ];
        join(&mut imported, &tables).unwrap();
        assert_eq!(imported.records[0].raw("labels"), Some(r#"["x","y"]"#));
        let edges = imported.records[1].raw("dependencies").unwrap();
        assert_eq!((edges.matches("depends_on_id").count(), edges.contains("\"ext:1\"")), (2, true));
        assert!(imported.records[1].raw("comments").unwrap().contains("\"hi\""));
        let notes: Vec<String> = imported.notes.iter().map(|note| format!("{}: {}", note.item, note.problem)).collect();
        assert_eq!(
            notes,
            [
                "labels.jsonl, line 3: it belongs to no issue of the file",
                "dependencies.jsonl, line 3: it is not one of the dependencies",
                "events.jsonl: 2 rows left out",
            ]
        );
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
