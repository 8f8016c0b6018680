//! Reads tables that Linear, Jira, GitHub and others export as CSV (RFC 4180). The header says what a column is.

use waypost_core::ledger::issue::parse_time;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, words};

use super::item::{Comment, Item, Status, finish};
use super::reader::{Reader, issue_type, priority};
use super::{Imported, Source, text};
use crate::Note;

/// The fields of an issue, each with the columns of Linear, Jira and GitHub that have it, in lower case.
const FIELDS: &[(&str, &[&str])] = &[
    ("id", &["issue key", "url", "number", "key", "identifier"]),
    ("title", &["summary", "name"]),
    ("description", &["body"]),
    ("status", &["state"]),
    ("priority", &[]),
    ("type", &["issue type", "issue_type"]),
    ("assignee", &["assignees"]),
    ("author", &["creator", "reporter", "created_by"]),
    ("created", &["created at", "created_at", "createdat"]),
    ("updated", &["updated at", "updated_at", "updatedat"]),
    ("closed", &["completed", "resolved", "closed at", "closed_at", "closedat", "canceled"]),
    ("due", &["due date", "due_at"]),
    ("labels", &["label", "tags"]),
    ("parent", &["parent issue", "parent key", "parent_id"]),
    ("blocked_by", &["inward issue link (blocks)", "blocked by"]),
    ("comments", &["comment"]),
];

/// Formats of times that are none of ISO 8601: Jira's, and that of JavaScript, which Linear writes.
const TIME_FORMATS: &[&str] = &["%d/%b/%y %I:%M %p", "%a %b %d %Y %H:%M:%S GMT%z"];
const DAY_FORMATS: &[&str] = &["%d/%b/%y", "%m/%d/%Y"];

/// Tells whether a text begins with a header that names an issue's id and title.
pub(super) fn is_table(text: &str) -> bool {
    let header = rows(text.lines().next().unwrap_or_default()).ok().and_then(|mut rows| rows.pop());
    let fields: Vec<_> = header.iter().flatten().filter_map(|column| field_of(column)).collect();
    fields.contains(&"id") && fields.contains(&"title")
}

/// Renames columns of a table to fields.
pub fn rename(source: &mut Source, names: &[(String, String)]) -> Result<()> {
    let table = text(source)?;
    let mut rows = rows(table)?;
    let Some(header) = rows.first_mut() else { return Ok(()) };
    for (field, column) in names {
        if !FIELDS.iter().any(|(known, _)| known == field) {
            let known: Vec<_> = FIELDS.iter().map(|(known, _)| *known).collect();
            return Err(
                Error::invalid(format!("there is no field {field:?}")).hint(format!("use {}", known.join(", ")))
            );
        }
        let Some(place) = header.iter().position(|known| known.trim().eq_ignore_ascii_case(column.trim())) else {
            return Err(Error::invalid(format!("the table has no column {column:?}"))
                .hint(format!("its columns are {}", header.join(", "))));
        };
        // Another column of the same meaning would be read, too.
        for other in header.iter_mut().filter(|other| field_of(other) == Some(field)) {
            other.insert_str(0, "other ");
        }
        header[place].clone_from(field);
    }
    let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
    let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n";
    source.bytes = rows.iter().map(line).collect::<String>().into_bytes();
    Ok(())
}

fn field_of(column: &str) -> Option<&'static str> {
    let column = column.trim().to_lowercase();
    let found = FIELDS.iter().find(|(field, names)| *field == column || names.contains(&column.as_str()));
    found.map(|(field, _)| *field)
}

pub(super) fn read(source: &Source) -> Result<Imported> {
    let mut rows = rows(text(source)?)?.into_iter();
    let Some(header) = rows.next() else { return Ok(Imported::default()) };
    if !header.iter().any(|column| field_of(column) == Some("title")) {
        return Err(Error::invalid("no column has the title")
            .because(format!("the columns are {}", header.join(", ")))
            .hint("name it: way import csv FILE --map title=COLUMN"));
    }
    let has = |name: &str| header.iter().any(|column| column.trim().eq_ignore_ascii_case(name));
    let tracker = match () {
        () if has("issue key") => "jira",
        () if has("cycle number") || has("team") && has("identifier") || has("team") && has("id") => "linear",
        () => "csv",
    };
    let (mut items, mut notes) = (Vec::new(), Vec::new());
    for (number, row) in rows.enumerate() {
        let place = format!("row {}", number + 2);
        if row.len() > header.len() {
            notes.push(Note::new(
                &place,
                format!("it has {}, and the header {}", words::count(row.len(), "cell"), header.len()),
            ));
        }
        let cells = header.iter().zip(&row).filter(|(_, cell)| !cell.trim().is_empty());
        items.extend(issue(tracker, place, cells, &mut notes)?);
    }
    finish(tracker, items, notes)
}

fn issue<'a>(
    tracker: &str,
    place: String,
    cells: impl Iterator<Item = (&'a String, &'a String)>,
    notes: &mut Vec<Note>,
) -> Result<Option<Item>> {
    let (mut fields, mut rest) = (Record::default(), Record::default());
    let (mut labels, mut blockers, mut comments) = (Vec::new(), Vec::new(), Vec::new());
    for (column, cell) in cells {
        match field_of(column) {
            Some("labels") => labels.extend(cell.split([',', ';'])),
            Some("blocked_by") => blockers.extend(cell.split([',', ';', ' '])),
            Some("comments") => comments.push(cell),
            // The first one of several columns with a meaning, in the order of the table.
            Some(field) if fields.raw(field).is_none() => fields.set(field, cell)?,
            _ => rest.set(column, cell)?,
        }
    }
    let mut reader = Reader { record: &fields, item: place, notes };
    let Some(id) = reader.line("id") else {
        reader.note("no id, so a later import could not recognise it");
        return Ok(None);
    };
    let name = |id: &str| if id.starts_with("http") { id.to_owned() } else { format!("{tracker}:{}", id.trim()) };
    reader.item.clone_from(&id);
    let mut item = Item { name: name(&id), ..Item::default() };
    item.title = reader.line("title").unwrap_or_else(|| {
        reader.note("no title");
        id.clone()
    });
    item.description = reader.text("description").unwrap_or_default();
    item.issue_type =
        reader.line("type").map(|word| issue_type(&word).map_or_else(|| word.to_lowercase(), str::to_owned));
    item.assignee = reader.line("assignee");
    item.created_by = reader.line("author");
    item.created_at = time(&mut reader, "created");
    item.updated_at = time(&mut reader, "updated");
    item.ended_at = time(&mut reader, "closed");
    item.due_at = time(&mut reader, "due");
    item.parent = reader.line("parent").map(|parent| name(&parent));
    if let Some(word) = reader.line("priority") {
        item.priority = priority(&word);
        let is_none = ["no priority", "none", "0"].contains(&word.to_lowercase().as_str());
        if item.priority.is_none() && !is_none {
            reader.note(format!("unknown priority {word:?}"));
        }
    }
    item.status = reader.line("status").map(|word| {
        status(&word).unwrap_or_else(|| {
            reader.note(format!("unknown status {word:?}"));
            if item.ended_at.is_some() { Status::Closed } else { Status::Open }
        })
    });
    for label in labels {
        item.label(label.trim());
    }
    for blocker in blockers.into_iter().filter(|blocker| !blocker.trim().is_empty()).map(name) {
        if !item.blockers.contains(&blocker) {
            item.blockers.push(blocker);
        }
    }
    for (number, comment) in comments.into_iter().enumerate() {
        item.comments.push(Comment {
            id: format!("{id}-{}", number + 1),
            author: tracker.to_owned(),
            text: comment.clone(),
            created_at: None,
        });
    }
    item.keep_rest(&rest, &[]);
    Ok(Some(item))
}

fn status(word: &str) -> Option<Status> {
    Some(match word.to_lowercase().replace(['_', '-'], " ").as_str() {
        "open" | "to do" | "todo" | "backlog" | "triage" | "new" | "reopened" | "selected for development" => {
            Status::Open
        }
        "in progress" | "in review" | "started" | "doing" => Status::InProgress,
        "blocked" | "on hold" => Status::Blocked,
        "deferred" | "icebox" => Status::Deferred,
        "done" | "closed" | "completed" | "resolved" | "canceled" | "cancelled" | "duplicate" | "won't do" => {
            Status::Closed
        }
        _ => return None,
    })
}

fn time(reader: &mut Reader<'_>, field: &str) -> Option<Timestamp> {
    use jiff::civil::{Date, DateTime};
    let written = reader.line(field)?;
    // JavaScript appends the name of the time zone.
    let text = written.split(" (").next().unwrap_or_default().trim();
    let utc = |moment: DateTime| jiff::tz::TimeZone::UTC.to_timestamp(moment).ok();
    let other = || {
        let moment = TIME_FORMATS.iter().find_map(|format| {
            jiff::Timestamp::strptime(format, text).ok().or_else(|| utc(DateTime::strptime(format, text).ok()?))
        });
        let day = || DAY_FORMATS.iter().find_map(|format| utc(Date::strptime(format, text).ok()?.at(0, 0, 0, 0)));
        moment.or_else(day).map(|moment| Timestamp::from_millis(moment.as_millisecond()))
    };
    let found = parse_time(text).or_else(other);
    if found.is_none() {
        reader.note(format!("{field} is not a time: {written:?}"));
    }
    found
}

/// Returns the rows of a table that are not blank.
fn rows(text: &str) -> Result<Vec<Vec<String>>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' if is_quoted => is_quoted = false,
            '"' if cell.is_empty() => is_quoted = true,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            char => cell.push(char),
        }
    }
    if is_quoted {
        return Err(Error::invalid("a quoted cell does not end"));
    }
    row.push(cell);
    rows.push(row);
    rows.retain(|row| row.iter().any(|cell| !cell.trim().is_empty()));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::super::tests::source;
    use super::*;

    #[test]
    fn tables_of_linear_jira_and_github_are_read() {
        let linear = read(&source(
            "ID,Team,Title,Description,Status,Priority,Assignee,Labels,Created,Due Date,Parent issue,Cycle Number\r\n\
             ENG-2,Core,\"Fix, at \"\"last\"\"\",\"two\nlines\",In Review,Urgent,ann@x.org,\"Bug, web\",Tue Nov 12 2024 03:04:05 GMT+0000 (GMT),2024-12-01,ENG-1,4\r\n",
        ))
        .unwrap();
        assert_eq!(
            linear.records[0].to_line(),
            concat!(
                r#"{"id":"linear:ENG-2","title":"Fix, at \"last\"","description":"two\nlines","status":"in_progress","priority":0,"#,
                r#""assignee":"ann@x.org","created_at":"2024-11-12T03:04:05.000Z","updated_at":"2024-11-12T03:04:05.000Z","due_at":"2024-12-01T00:00:00.000Z","#,
                r#""external_ref":"linear:ENG-2","labels":["Bug","web"],"parent_id":"linear:ENG-1","metadata":{"linear":{"Team":"Core","Cycle Number":"4"}}}"#
            )
        );
        assert!(linear.notes.is_empty(), "{:?}", linear.notes);
        let jira = read(&source(
            "Summary,Issue key,Issue id,Issue Type,Status,Priority,Created,Labels,Labels,Inward issue link (Blocks),Comment,Comment\n\
             Login,OPS-2,1,Bug,Done,Highest,12/Nov/24 3:04 PM,a,b,OPS-1,one,two\nNo key,,3,Task,Odd,Lowest,,,,,,\n",
        ))
        .unwrap();
        let record = &jira.records[0];
        assert_eq!((record.text("id").as_deref(), record.raw("labels")), (Some("jira:OPS-2"), Some(r#"["a","b"]"#)));
        assert_eq!(
            (record.text("created_at").as_deref(), record.raw("priority")),
            (Some("2024-11-12T15:04:00.000Z"), Some("0"))
        );
        assert!(
            record.raw("dependencies").unwrap().contains("jira:OPS-1")
                && record.raw("comments").unwrap().contains("two")
        );
        assert_eq!(jira.notes, [Note::new("row 3", "no id, so a later import could not recognise it")]);
        let github = read(&source("Title,URL,Assignees,Status\nA,https://github.com/o/r/issues/4,ann,Todo\n")).unwrap();
        assert_eq!(github.records[0].text("external_ref").as_deref(), Some("https://github.com/o/r/issues/4"));
    }

    #[test]
    fn columns_are_named_by_the_user() {
        let mut table = source("Nr,What,Title\n7,Real title,Old\n");
        let names = [("id", "nr"), ("title", "What")].map(|(field, column)| (field.to_owned(), column.to_owned()));
        rename(&mut table, &names).unwrap();
        let record = read(&table).unwrap().records.remove(0);
        assert_eq!(
            (record.text("id").as_deref(), record.text("title").as_deref()),
            (Some("csv:7"), Some("Real title"))
        );
        let wrong = |field: &str, column: &str| {
            rename(&mut source("a,b\n"), &[(field.to_owned(), column.to_owned())]).unwrap_err().full_message()
        };
        assert_eq!(wrong("titel", "a"), "there is no field \"titel\"");
        assert_eq!(wrong("title", "c"), "the table has no column \"c\"");
        assert!(read(&source("a,\"b")).is_err() && read(&source("a,b\n1,2\n")).is_err());
    }
}
