//! Reads the output of `task export`.

use waypost_core::Result;
use waypost_core::ledger::record::Record;

use super::item::{Comment, Item, Status, finish};
use super::reader::{Reader, one_line, priority};
use super::{Imported, Source, objects};
use crate::Note;

/// Fields that become fields of an issue, or are derived from others.
const KNOWN_KEYS: &[&str] = &[
    "uuid",
    "id",
    "urgency",
    "description",
    "status",
    "priority",
    "tags",
    "project",
    "depends",
    "annotations",
    "due",
    "wait",
    "entry",
    "modified",
    "end",
];

pub(super) fn read(source: &Source) -> Result<Imported> {
    let mut notes = Vec::new();
    let mut items = Vec::new();
    for (place, record) in objects(source, &mut notes)? {
        items.extend(task(place, &record, &mut notes));
    }
    finish("taskwarrior", items, notes)
}

fn name(uuid: &str) -> String {
    format!("taskwarrior:{}", uuid.trim().to_lowercase())
}

fn task(place: String, record: &Record, notes: &mut Vec<Note>) -> Option<Item> {
    let mut reader = Reader { record, item: place, notes };
    let Some(uuid) = reader.line("uuid") else {
        reader.note("no uuid, so a later import could not recognise it");
        return None;
    };
    reader.item = name(&uuid);
    let mut item = Item { name: name(&uuid), ..Item::default() };
    let description = reader.text("description").unwrap_or_else(|| {
        reader.note("no description");
        uuid.clone()
    });
    item.title = one_line(&description);
    item.created_at = reader.time("entry");
    item.updated_at = reader.time("modified");
    item.ended_at = reader.time("end");
    item.due_at = reader.time("due");
    item.defer_until = reader.time("wait").or_else(|| reader.time("scheduled"));
    let status = reader.line("status").unwrap_or_default().to_lowercase();
    item.status = match status.as_str() {
        "" => None,
        "pending" if record.raw("start").is_some() => Some(Status::InProgress),
        "waiting" if item.defer_until.is_none() => Some(Status::Deferred),
        "pending" | "waiting" => Some(Status::Open),
        "completed" => Some(Status::Closed),
        "deleted" => Some(Status::Tombstone),
        "recurring" => {
            reader.note("issues do not recur: imported as deferred");
            item.label("recurring");
            Some(Status::Deferred)
        }
        other => {
            reader.note(format!("unknown status {other:?}"));
            Some(Status::Open)
        }
    };
    if let Some(word) = reader.line("priority") {
        item.priority = priority(&word);
        if item.priority.is_none() {
            reader.note(format!("unknown priority {word:?}"));
        }
    }
    for tag in reader.names("tags", "name") {
        item.label(tag);
    }
    if let Some(project) = reader.line("project") {
        item.label(format!("project:{project}"));
    }
    // Older versions write a comma-separated string.
    let on = match record.raw("depends") {
        Some(raw) if raw.starts_with('"') => {
            reader.text("depends").iter().flat_map(|list| list.split(',')).map(str::to_owned).collect()
        }
        _ => reader.names("depends", "uuid"),
    };
    for on in on.iter().filter(|on| !on.trim().is_empty()).map(|on| name(on)) {
        if !item.blockers.contains(&on) {
            item.blockers.push(on);
        }
    }
    for (number, annotation) in reader.objects("annotations").iter().enumerate() {
        let place = format!("{}, annotation {}", reader.item, number + 1);
        let mut reader = Reader { record: annotation, item: place, notes: reader.notes };
        let Some(text) = reader.text("description") else { continue };
        let entry = reader.line("entry").unwrap_or_default();
        item.comments.push(Comment {
            id: format!("tw-{entry}-{}", number + 1),
            author: "taskwarrior".to_owned(),
            text,
            created_at: reader.time("entry"),
        });
    }
    item.keep_rest(record, KNOWN_KEYS);
    Some(item)
}

#[cfg(test)]
mod tests {
    use super::super::tests::source;
    use super::*;

    #[test]
    fn tasks_are_imported_with_their_times() {
        let imported = read(&source(
            r#"[
{"id":1,"description":"Paint the  fence","entry":"20260101T000000Z","modified":"20260102T030405Z","status":"pending","uuid":"AAAA-1","priority":"H","project":"home.garden","tags":["out","next"],"depends":["bbbb-2"],"due":"20260201T000000Z","wait":"20260115T000000Z","annotations":[{"entry":"20260101T000001Z","description":"green"}],"urgency":12.3,"estimate":"PT2H"},
{"id":0,"description":"Buy paint","entry":"20251231T000000Z","end":"20260103T000000Z","status":"completed","uuid":"bbbb-2","depends":"cccc-3,dddd-4"},
{"description":"Gone","status":"deleted","uuid":"cccc-3","end":"20260103T000000Z"},
{"description":"Water","status":"recurring","recur":"weekly","uuid":"dddd-4","start":"20260101T000000Z"}
]"#,
        ))
        .unwrap();
        let lines: Vec<String> = imported.records.iter().map(Record::to_line).collect();
        assert_eq!(
            lines,
            [
                concat!(
                    r#"{"id":"taskwarrior:aaaa-1","title":"Paint the fence","status":"open","priority":1,"#,
                    r#""created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-02T03:04:05.000Z","due_at":"2026-02-01T00:00:00.000Z","#,
                    r#""defer_until":"2026-01-15T00:00:00.000Z","external_ref":"taskwarrior:aaaa-1","labels":["out","next","project:home.garden"],"#,
                    r#""dependencies":[{"issue_id":"taskwarrior:aaaa-1","depends_on_id":"taskwarrior:bbbb-2","type":"blocks"}],"#,
                    r#""comments":[{"id":"tw-20260101T000001Z-1","author":"taskwarrior","text":"green","created_at":"2026-01-01T00:00:01.000Z"}],"#,
                    r#""metadata":{"taskwarrior":{"estimate":"PT2H"}}}"#
                ),
                concat!(
                    r#"{"id":"taskwarrior:bbbb-2","title":"Buy paint","status":"closed","#,
                    r#""created_at":"2025-12-31T00:00:00.000Z","updated_at":"2026-01-03T00:00:00.000Z","closed_at":"2026-01-03T00:00:00.000Z","#,
                    r#""external_ref":"taskwarrior:bbbb-2","dependencies":[{"issue_id":"taskwarrior:bbbb-2","depends_on_id":"taskwarrior:cccc-3","type":"blocks"},"#,
                    r#"{"issue_id":"taskwarrior:bbbb-2","depends_on_id":"taskwarrior:dddd-4","type":"blocks"}]}"#
                ),
                concat!(
                    r#"{"id":"taskwarrior:cccc-3","title":"Gone","status":"tombstone","#,
                    r#""updated_at":"2026-01-03T00:00:00.000Z","external_ref":"taskwarrior:cccc-3","deleted_at":"2026-01-03T00:00:00.000Z"}"#
                ),
                concat!(
                    r#"{"id":"taskwarrior:dddd-4","title":"Water","status":"deferred","external_ref":"taskwarrior:dddd-4","#,
                    r#""labels":["recurring"],"metadata":{"taskwarrior":{"recur":"weekly","start":"20260101T000000Z"}}}"#
                ),
            ]
        );
        assert_eq!(imported.notes, [Note::new("taskwarrior:dddd-4", "issues do not recur: imported as deferred")]);
    }

    #[test]
    fn lines_without_brackets_and_odd_values_are_read() {
        let imported = read(&source(
            "{\"uuid\":\"a\",\"description\":\"one\",\"status\":\"waiting\"},\r\n{\"uuid\":\"b\",\"description\":7,\"status\":\"odd\",\"priority\":\"Z\",\"tags\":\"x\",\"depends\":5,\"entry\":\"20261301T000000Z\",\"annotations\":[7,{}]},\r\nnoise\r\n{\"description\":\"no uuid\"}\r\n{\"uuid\":\"c\",\"start\":\"20260101T000000Z\",\"status\":\"pending\"}\r\n",
        ))
        .unwrap();
        let status = |number: usize| imported.records[number].text("status").unwrap();
        assert_eq!(
            (status(0), status(1), status(2)),
            ("deferred".to_owned(), "open".to_owned(), "in_progress".to_owned())
        );
        let notes: Vec<String> = imported.notes.iter().map(|note| format!("{}: {}", note.item, note.problem)).collect();
        assert_eq!(
            notes[1..],
            [
                "taskwarrior:b: entry is not a time: \"20261301T000000Z\"",
                "taskwarrior:b: unknown status \"odd\"",
                "taskwarrior:b: unknown priority \"Z\"",
                "taskwarrior:b: tags is not a list",
                "taskwarrior:b: depends is not a list",
                "taskwarrior:b: item 1 of annotations is not an object",
                "line 4: no uuid, so a later import could not recognise it",
                "taskwarrior:c: no description",
            ]
        );
        assert!(notes[0].starts_with("line 3: not a record"), "{notes:?}");
    }
}
