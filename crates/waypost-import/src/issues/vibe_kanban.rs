//! Reads the tasks of Vibe Kanban: rows of its database, or the same objects as JSON.

use std::collections::HashMap;

use serde_json::{Map, Value};
use waypost_core::Result;
use waypost_core::ledger::record::Record;
use waypost_core::tables::{Datum, Row, Tables};

use super::item::{Item, Status, finish};
use super::reader::{Reader, one_line};
use super::{Imported, Source, objects};
use crate::Note;

/// The tables, with their required columns. Versions differ in whether attempts or workspaces carry out a task.
pub const TABLES: &[(&str, &[&str])] = &[
    ("tasks", &["id", "title", "status"]),
    ("projects", &["id", "name"]),
    ("workspaces", &["id"]),
    ("task_attempts", &["id"]),
];

/// The name of its database.
pub const DATABASE: &str = "db.sqlite";

/// Fields that become fields of an issue, or are derived from others.
const KNOWN_KEYS: &[&str] = &[
    "id",
    "project_id",
    "project",
    "title",
    "description",
    "status",
    "parent_workspace_id",
    "parent_task_attempt",
    "parent",
    "created_at",
    "updated_at",
    "shared_task_id",
];

/// Converts the rows of the database to the JSON that the importer reads.
pub fn from_tables(name: String, tables: &Tables) -> Source {
    let rows = |table: &str| tables.get(table).into_iter().flatten();
    let names: HashMap<String, &Datum> =
        rows("projects").filter_map(|row| Some((uuid(row.get("id")?)?, row.get("name")?))).collect();
    let owners: HashMap<String, String> = rows("workspaces")
        .chain(rows("task_attempts"))
        .filter_map(|row| Some((uuid(row.get("id")?)?, uuid(row.get("task_id")?)?)))
        .collect();
    let task = |row: &Row| {
        let mut task: Map<String, Value> = row.iter().map(|(key, datum)| (key.clone(), json(datum))).collect();
        if let Some(Datum::Text(project)) = row.get("project_id").and_then(uuid).and_then(|id| names.get(&id).copied())
        {
            task.insert("project".to_owned(), project.as_str().into());
        }
        let run =
            row.get("parent_workspace_id").and_then(uuid).or_else(|| row.get("parent_task_attempt").and_then(uuid));
        if let Some(parent) = run.and_then(|run| owners.get(&run)) {
            task.insert("parent".to_owned(), parent.as_str().into());
        }
        Value::Object(task)
    };
    let tasks: Vec<Value> = rows("tasks").map(task).collect();
    Source { name, bytes: Value::Array(tasks).to_string().into_bytes() }
}

/// Ids are stored as 16 bytes or as text.
fn uuid(datum: &Datum) -> Option<String> {
    match datum {
        Datum::Text(text) => Some(text.to_lowercase()),
        Datum::Blob(bytes) if bytes.len() == 16 => {
            let number = bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
            let hex = format!("{number:032x}");
            Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
        }
        _ => None,
    }
}

fn json(datum: &Datum) -> Value {
    match datum {
        Datum::Null => Value::Null,
        Datum::Int(number) => (*number).into(),
        Datum::Real(number) => (*number).into(),
        Datum::Text(text) => text.as_str().into(),
        Datum::Blob(_) => uuid(datum).into(),
    }
}

pub(super) fn read(source: &Source) -> Result<Imported> {
    let mut notes = Vec::new();
    let mut items = Vec::new();
    for (place, record) in objects(source, &mut notes)? {
        items.extend(task(place, &record, &mut notes));
    }
    finish("vibe-kanban", items, notes)
}

fn name(id: &str) -> String {
    format!("vibe-kanban:{}", id.trim().to_lowercase())
}

fn task(place: String, record: &Record, notes: &mut Vec<Note>) -> Option<Item> {
    let mut reader = Reader { record, item: place, notes };
    let Some(id) = reader.line("id") else {
        reader.note("no id, so a later import could not recognise it");
        return None;
    };
    reader.item = name(&id);
    let mut item = Item { name: name(&id), ..Item::default() };
    let title = reader.text("title").unwrap_or_else(|| {
        reader.note("no title");
        id.clone()
    });
    item.title = one_line(&title);
    item.description = reader.text("description").unwrap_or_default();
    item.created_at = reader.time("created_at");
    item.updated_at = reader.time("updated_at");
    let status = reader.line("status").unwrap_or_default().to_lowercase();
    item.status = match status.replace(['_', '-', ' '], "").as_str() {
        "" => None,
        "todo" => Some(Status::Open),
        "inprogress" => Some(Status::InProgress),
        "inreview" => {
            item.label("in-review");
            Some(Status::InProgress)
        }
        "done" => Some(Status::Closed),
        "cancelled" => {
            item.close_reason = Some("cancelled".to_owned());
            Some(Status::Closed)
        }
        other => {
            reader.note(format!("unknown status {other:?}"));
            Some(Status::Open)
        }
    };
    if item.status == Some(Status::Closed) {
        item.ended_at = item.updated_at;
    }
    if let Some(project) = reader.line("project") {
        item.label(format!("project:{project}"));
    }
    item.parent = reader.line("parent").map(|parent| name(&parent)).filter(|parent| *parent != item.name);
    item.keep_rest(record, KNOWN_KEYS);
    Some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_database_become_issues_with_project_parent_and_status() {
        let row = |fields: &[(&str, Datum)]| -> Row {
            fields.iter().map(|(key, datum)| ((*key).to_owned(), datum.clone())).collect()
        };
        let text = |text: &str| Datum::Text(text.to_owned());
        let id = |byte: u8| Datum::Blob(vec![byte; 16]);
        let tables = Tables::from([
            ("projects".to_owned(), vec![row(&[("id", id(9)), ("name", text("shop"))])]),
            ("workspaces".to_owned(), vec![row(&[("id", id(5)), ("task_id", id(1))])]),
            (
                "tasks".to_owned(),
                vec![
                    row(&[
                        ("id", id(1)),
                        ("project_id", id(9)),
                        ("title", text("Fix\nthe login")),
                        ("description", Datum::Null),
                        ("status", text("inreview")),
                        ("created_at", text("2026-03-01 10:00:00")),
                    ]),
                    row(&[
                        ("id", id(2)),
                        ("title", text("Notes")),
                        ("status", text("cancelled")),
                        ("parent_workspace_id", id(5)),
                        ("updated_at", text("2026-03-02T10:00:00.000Z")),
                    ]),
                ],
            ),
        ]);
        let imported = read(&from_tables("db.sqlite".to_owned(), &tables)).unwrap();
        assert!(imported.notes.is_empty(), "{:?}", imported.notes);
        let lines: Vec<String> = imported.records.iter().map(Record::to_line).collect();
        let first = "vibe-kanban:01010101-0101-0101-0101-010101010101";
        assert!(lines[0].contains(first) && lines[0].contains(r#""title":"Fix the login""#), "{}", lines[0]);
        assert!(lines[0].contains(r#""labels":["in-review","project:shop"]"#), "{}", lines[0]);
        assert!(lines[0].contains(r#""created_at":"2026-03-01T10:00:00"#), "{}", lines[0]);
        assert!(lines[1].contains(first) && lines[1].contains(r#""close_reason":"cancelled""#), "{}", lines[1]);
    }
}
