//! Reads issues of other trackers from the files that these write.
//!
//! This module knows no ledger. Items refer to each other by their tracker's names, and the caller assigns ids. An
//! unreadable item is reported and does not prevent importing the others.

mod adopt;
mod backlog;
mod beads;
mod csv;
mod front_matter;
mod github;
mod item;
mod reader;
mod taskmaster;
mod taskwarrior;
mod update;
pub mod vibe_kanban;

use std::fmt;

use serde_json::value::RawValue;
use waypost_core::ledger::document::MAX_LINE_BYTES;
use waypost_core::ledger::record::Record;
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};

use crate::Note;

pub use adopt::{adopt, complete, plain_name, qualify, short_name};
pub use csv::rename;
pub use update::updated;

/// The program that wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSONL of beads or of a ledger.
    Beads,
    /// `gh issue list --json ...`, or the REST API.
    Github,
    /// The folder of Backlog.md.
    Backlog,
    /// `tasks.json` of Task Master.
    Taskmaster,
    /// `task export`.
    Taskwarrior,
    /// The database of Vibe Kanban, or its tasks as JSON.
    VibeKanban,
    /// A table with a header, as Linear, Jira and GitHub export it.
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 7] = [
        Format::Beads,
        Format::Github,
        Format::Backlog,
        Format::Taskmaster,
        Format::Taskwarrior,
        Format::VibeKanban,
        Format::Csv,
    ];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Beads => "beads",
            Format::Github => "github",
            Format::Backlog => "backlog",
            Format::Taskmaster => "taskmaster",
            Format::Taskwarrior => "taskwarrior",
            Format::VibeKanban => "vibe-kanban",
            Format::Csv => "csv",
        }
    }

    /// Tells whether its records are ledger records, which keep their ids and spelling.
    pub const fn is_ledger(self) -> bool {
        matches!(self, Format::Beads)
    }

    /// Tells whether its names are unique only within a project: each project has a task 1.
    pub const fn has_project_names(self) -> bool {
        matches!(self, Format::Backlog | Format::Taskmaster)
    }

    /// Parses a name.
    pub fn parse(text: &str) -> Result<Format> {
        let known = Format::ALL.into_iter().find(|format| format.name() == text.to_lowercase());
        known.ok_or_else(|| {
            let error = Error::invalid(format!("there is no format {text:?}"));
            match nearest(text, Format::ALL.map(Format::name)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint(Format::list_names()),
            }
        })
    }

    /// Names all formats, for a hint.
    pub fn list_names() -> String {
        let names = Format::ALL.map(Format::name);
        format!("the formats are {} and {}", names[..names.len() - 1].join(", "), names[names.len() - 1])
    }

    /// Detects the format of some files; none if it is not clear.
    pub fn guess(sources: &[Source]) -> Option<Format> {
        let source = sources.first()?;
        if sources.iter().all(backlog::is_task) {
            return Some(Format::Backlog);
        }
        let text = text(source).ok()?.trim_start();
        if csv::is_table(text) {
            return Some(Format::Csv);
        }
        let first = if text.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            Record::parse(items.first()?.get()).ok()?
        } else {
            let record = |line: &str| Record::parse(line.trim_end().trim_end_matches(',')).ok();
            // A file of lines may begin with a conflict marker.
            Record::parse(text).ok().or_else(|| text.lines().take(100).find_map(record))?
        };
        let has = |keys: &[&str]| keys.iter().all(|key| first.raw(key).is_some());
        let is_text = |key: &str| first.text(key).is_some();
        match () {
            () if taskmaster::has_tasks(&first) => Some(Format::Taskmaster),
            () if is_text("uuid") && is_text("description") && has(&["status"]) => Some(Format::Taskwarrior),
            () if is_text("id") && is_text("project_id") && has(&["title", "status"]) => Some(Format::VibeKanban),
            () if has(&["number", "title"]) || has(&["number", "state"]) || has(&["title", "createdAt"]) => {
                Some(Format::Github)
            }
            () if is_text("id")
                && has(&["title"])
                && (has(&["issue_type"]) || has(&["priority"]) || has(&["status"])) =>
            {
                Some(Format::Beads)
            }
            () if has(&["_type"]) => Some(Format::Beads),
            () => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file to read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path, for messages; some formats interpret its folders.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The result of reading.
///
/// Records of other trackers have the tracker's name as `id` and `external_ref`, and name their dependencies the same
/// way; [`adopt()`] gives them ids.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The imported records.
    pub records: Vec<Record>,
    /// The items and fields that could not be imported.
    pub notes: Vec<Note>,
}

/// Reads files of a format. Fails only if a file as a whole is unreadable.
pub fn read(format: Format, sources: &[Source]) -> Result<Imported> {
    let mut imported = Imported::default();
    if format == Format::Backlog {
        imported = backlog::read(sources)?;
    } else if let (Format::Beads, [issues, tables @ ..]) = (format, sources) {
        imported = beads::read(issues).map_err(|error| error.within(&issues.name))?;
        beads::join(&mut imported, tables)?;
    } else {
        for source in sources {
            let one = match format {
                Format::Github => github::read(source),
                Format::Taskmaster => taskmaster::read(source),
                Format::Taskwarrior | Format::Backlog | Format::Beads => taskwarrior::read(source),
                Format::VibeKanban => vibe_kanban::read(source),
                Format::Csv => csv::read(source),
            };
            let one = one.map_err(|error| error.within(&source.name))?;
            imported.records.extend(one.records);
            imported.notes.extend(one.notes);
        }
    }
    // A record that gets a new id later needs room for it.
    let max_bytes = if format.is_ledger() { MAX_LINE_BYTES } else { MAX_LINE_BYTES / 2 };
    let notes = &mut imported.notes;
    imported.records.retain(|record| {
        let fits = record.to_line().len() <= max_bytes;
        if !fits {
            notes.push(Note::new(record.text("id").unwrap_or_default(), "too long for a ledger line"));
        }
        fits
    });
    Ok(imported)
}

/// Returns the text of a file, without a byte order mark.
fn text(source: &Source) -> Result<&str> {
    let text = std::str::from_utf8(&source.bytes).map_err(|error| Error::invalid("not UTF-8").because(error))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Returns the objects of a file, each with its place: a list, a single object, or one object per line. Unreadable ones
/// are reported.
fn objects(source: &Source, notes: &mut Vec<Note>) -> Result<Vec<(String, Record)>> {
    let text = text(source)?.trim();
    let mut items: Vec<(String, &str)> = Vec::new();
    if text.starts_with('[') {
        let list: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| Error::invalid("not a JSON list").because(error))?;
        items.extend(list.iter().enumerate().map(|(number, item)| (format!("item {}", number + 1), item.get())));
    } else if serde_json::from_str::<&RawValue>(text).is_ok() {
        items.push(("item 1".to_owned(), text));
    } else {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        items.extend(lines.map(|(number, line)| (format!("line {}", number + 1), line.trim().trim_end_matches(','))));
    }
    let count = items.len();
    let mut read = Vec::new();
    for (place, item) in items {
        match Record::parse(item) {
            Ok(record) => read.push((place, record)),
            Err(error) => notes.push(Note::new(place, error.full_message())),
        }
    }
    if read.is_empty() && count > 0 {
        return Err(
            Error::invalid("no readable item").because(notes.pop().map(|note| note.problem).unwrap_or_default())
        );
    }
    Ok(read)
}

/// Removes white space outside of strings from JSON. Everything else keeps its spelling.
fn compact(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    let (mut in_text, mut is_escaped) = (false, false);
    for char in json.chars() {
        if in_text {
            in_text = is_escaped || char != '"';
            is_escaped = !is_escaped && char == '\\';
        } else if char.is_ascii_whitespace() {
            continue;
        } else {
            in_text = char == '"';
        }
        line.push(char);
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn source(text: &str) -> Source {
        Source { name: "file".to_owned(), bytes: text.as_bytes().to_vec() }
    }

    fn guess(text: &str) -> Option<Format> {
        Format::guess(&[source(text)])
    }

    #[test]
    fn the_format_of_a_file_is_detected() {
        for (text, format) in [
            ("{\"id\":\"bd-1\",\"title\":\"x\",\"status\":\"open\"}\n{\"id\":\"bd-2\"}\n", Some(Format::Beads)),
            ("{\"_type\":\"memory\",\"key\":\"k\"}\n{\"id\":\"bd-1\"}", Some(Format::Beads)),
            ("[{\"id\":\"bd-1\",\"title\":\"x\",\"priority\":1}]", Some(Format::Beads)),
            ("\u{feff}[{\"number\":1,\"title\":\"x\"}]", Some(Format::Github)),
            ("[\n{\"title\":\"x\",\"createdAt\":\"2026-01-01T00:00:00Z\"}\n]", Some(Format::Github)),
            ("{\"tasks\":[]}", Some(Format::Taskmaster)),
            ("{\"master\":{\"tasks\":[],\"metadata\":{}}}", Some(Format::Taskmaster)),
            ("[{\"uuid\":\"u\",\"description\":\"d\",\"status\":\"pending\"}]", Some(Format::Taskwarrior)),
            (
                "{\"uuid\":\"u\",\"description\":\"d\",\"status\":\"pending\"},\n{\"uuid\":\"v\"}",
                Some(Format::Taskwarrior),
            ),
            ("[{\"id\":\"1\",\"project_id\":\"2\",\"title\":\"x\",\"status\":\"todo\"}]", Some(Format::VibeKanban)),
            ("ID,Title\nENG-1,x\n", Some(Format::Csv)),
            ("---\r\nid: task-1\r\ntitle: x\r\n---\r\n", Some(Format::Backlog)),
            ("", None),
            ("[]", None),
            ("{}", None),
            ("[1]", None),
            ("{\"id\":\"x\"}", None),
            ("# A page\n\n---\n", None),
        ] {
            assert_eq!(guess(text), format, "{text}");
        }
        assert_eq!(Format::guess(&[]), None);
        assert_eq!(Format::parse("GitHub").unwrap(), Format::Github);
        assert_eq!(Format::parse("bead").unwrap_err().hints(), ["did you mean beads?"]);
        assert!(Format::parse("jira").unwrap_err().hints()[0].ends_with("vibe-kanban and csv"));
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_never_an_empty_result() {
        for format in Format::ALL {
            for bad in ["plain words", "{", "[1", "[[]]", "\u{0}", "null", "7"] {
                assert!(read(format, &[source(bad)]).is_err(), "{format}: {bad:?}");
            }
            let latin = Source { name: "file".to_owned(), bytes: b"[{\"title\":\"\xe9\"}]".to_vec() };
            assert!(read(format, &[latin]).is_err(), "{format}");
        }
        for format in [Format::Beads, Format::Github, Format::Taskwarrior, Format::VibeKanban] {
            for empty in ["", "\n", "[]", "\u{feff}", "[ ]\r\n"] {
                let read = read(format, &[source(empty)]).unwrap();
                assert!(read.records.is_empty() && read.notes.is_empty(), "{format}: {empty:?}");
            }
        }
        assert!(read(Format::Taskmaster, &[source("{\"tasks\":[]}")]).unwrap().records.is_empty());
    }

    #[test]
    fn an_item_that_is_too_long_does_not_prevent_importing_the_others() {
        let text = format!(
            r#"[{{"number":1,"title":"a","body":"{}"}},{{"number":2,"title":"b"}}]"#,
            "x".repeat(MAX_LINE_BYTES)
        );
        let imported = read(Format::Github, &[source(&text)]).unwrap();
        assert_eq!((imported.records.len(), imported.notes[0].item.as_str()), (1, "gh-1"));
    }

    #[test]
    fn compact_json_is_one_line_and_keeps_its_spelling() {
        assert_eq!(compact("{ \"a b\" : [ 1.50 ,\n \"c\\\" d\\\\\" ] }"), r#"{"a b":[1.50,"c\" d\\"]}"#);
    }

    /// Text that resembles the formats.
    fn likely() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("id"),
            Just("uuid"),
            Just("title"),
            Just("number"),
            Just("tasks"),
            Just("master"),
            Just("depends"),
            Just("dependencies"),
            Just("subtasks"),
            Just("labels"),
            Just("status"),
            Just("annotations"),
            Just("entry"),
            Just("comments"),
            Just("metadata"),
            Just("description"),
            Just("---"),
            Just("- "),
            Just(": "),
            Just("## "),
            Just("'"),
            Just("|"),
            Just("[ "),
            Just("\n"),
            Just("\n  "),
        ];
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("1e999".to_owned()),
            Just("99999999999999999999999999".to_owned()),
            any::<i32>().prop_map(|number| number.to_string()),
            word.clone().prop_map(|word| serde_json::Value::from(word).to_string()),
            Just("\"20260101T000000Z\"".to_owned()),
        ];
        let json = leaf.prop_recursive(4, 30, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
                proptest::collection::vec((word.clone(), inner), 0..6).prop_map(|fields| {
                    let fields: Vec<String> = fields
                        .into_iter()
                        .map(|(key, value)| format!("{}:{value}", serde_json::Value::from(key)))
                        .collect();
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        });
        let yaml = proptest::collection::vec(
            prop_oneof![
                "(id|title|labels|dependencies|assignee|status): ?(\\[|'|\"|>-|\\||- )?[a-z0-9,'\"\\] ]{0,12}",
                " {0,3}- ?[a-z>'\"|]{0,5}",
                "## ?[A-Za-z ]{0,12}",
                Just("---".to_owned()),
                Just("<!-- SECTION:NOTES:BEGIN -->".to_owned()),
                "\\PC{0,10}",
            ],
            0..12,
        );
        prop_oneof![json, yaml.prop_map(|lines| format!("---\n{}", lines.join("\n")))]
    }

    fn never_panics(bytes: &[u8]) {
        let sources = [
            Source { name: "backlog/tasks/a.md".to_owned(), bytes: bytes.to_vec() },
            Source { name: "b".to_owned(), bytes: bytes.to_vec() },
        ];
        Format::guess(&sources);
        for format in Format::ALL {
            let Ok(imported) = read(format, &sources) else { continue };
            for record in &imported.records {
                let line = record.to_line();
                assert!(!line.contains('\n'), "{format}: a record is one line: {line}");
                assert_eq!(&Record::parse(&line).unwrap(), record, "{format}");
                if !format.is_ledger() {
                    let (adopted, _) = adopt(record, "x-1", |_| None).unwrap();
                    assert_eq!(adopted.text("id").unwrap(), "x-1");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            never_panics(&bytes);
        }

        #[test]
        fn no_plausible_text_makes_a_reader_panic(text in likely()) {
            never_panics(text.as_bytes());
        }
    }
}
