//! Reads `tasks.json` of Task Master: one list of tasks, or one list per tag. Subtasks become child issues.

use std::collections::HashSet;

use serde_json::value::RawValue;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::item::{Item, Status, finish};
use super::reader::{Reader, issue_type, priority};
use super::{Imported, Source, text};
use crate::Note;

/// The tag of tasks without a tag.
const DEFAULT_TAG: &str = "master";

/// Subtasks nested deeper are left out.
const MAX_DEPTH: usize = 32;

/// Fields that become fields of an issue.
const KNOWN_KEYS: &[&str] = &[
    "id",
    "title",
    "description",
    "details",
    "testStrategy",
    "acceptanceCriteria",
    "status",
    "priority",
    "dependencies",
    "subtasks",
    "parentTaskId",
    "parentId",
    "updatedAt",
    "createdAt",
    "completedAt",
    "type",
    "assignee",
    "labels",
    "tags",
];

/// Tells whether an object has tasks, directly or under tags.
pub(super) fn has_tasks(record: &Record) -> bool {
    let is_list = |raw: Option<&str>| raw.is_some_and(|raw| raw.starts_with('['));
    let is_tag = |raw: &str| Record::parse(raw).is_ok_and(|tag| is_list(tag.raw("tasks")));
    is_list(record.raw("tasks")) || record.fields().any(|(_, raw)| is_tag(raw))
}

pub(super) fn read(source: &Source) -> Result<Imported> {
    let text = text(source)?.trim();
    let mut list = List { items: Vec::new(), notes: Vec::new() };
    if text.starts_with('[') {
        list.read(text, &Tag { name: DEFAULT_TAG, created_at: None }, None)?;
        return list.finish();
    }
    let file =
        Record::parse(text).map_err(|error| Error::invalid("not a JSON object").because(error.full_message()))?;
    if !has_tasks(&file) {
        return Err(Error::invalid("no tasks").hint("a tasks.json has tasks under \"tasks\" or under tags"));
    }
    for (key, raw) in file.fields() {
        if key == "tasks" {
            let created_at = created_at(&file, &mut list.notes);
            list.read(raw, &Tag { name: DEFAULT_TAG, created_at }, None)?;
        } else if let Ok(tag) = Record::parse(raw)
            && let Some(tasks) = tag.raw("tasks")
        {
            let created_at = created_at(&tag, &mut list.notes);
            match list.read(tasks, &Tag { name: key, created_at }, None) {
                Ok(()) => {}
                Err(error) => list.notes.push(Note::new(format!("tag {key}"), error.full_message())),
            }
        }
    }
    list.finish()
}

/// Returns when a list of tasks was created, according to its metadata.
fn created_at(list: &Record, notes: &mut Vec<Note>) -> Option<Timestamp> {
    let metadata = Record::parse(list.raw("metadata")?).ok()?;
    Reader { record: &metadata, item: "metadata".to_owned(), notes }.time("created")
}

/// A list of tasks.
struct Tag<'a> {
    name: &'a str,
    created_at: Option<Timestamp>,
}

/// The items read so far.
struct List {
    items: Vec<Item>,
    notes: Vec<Note>,
}

/// The task that subtasks belong to.
#[derive(Clone, Copy)]
struct Parent<'a> {
    id: &'a str,
    depth: usize,
}

impl List {
    fn finish(self) -> Result<Imported> {
        match self.notes.first() {
            Some(first) if self.items.is_empty() => {
                Err(Error::invalid("no readable task").because(format!("{}: {}", first.item, first.problem)))
            }
            _ => finish("taskmaster", self.items, self.notes),
        }
    }

    fn read(&mut self, raw: &str, tag: &Tag<'_>, parent: Option<Parent<'_>>) -> Result<()> {
        let tasks: Vec<&RawValue> =
            serde_json::from_str(raw).map_err(|error| Error::invalid("the tasks are not a list").because(error))?;
        let place = |number: usize| match parent {
            Some(parent) => format!("subtask {} of {}", number + 1, parent.id),
            None => format!("task {} of {}", number + 1, tag.name),
        };
        let mut read: Vec<(String, Record)> = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let task = Record::parse(task.get());
            let found = task.and_then(|task| Ok((full_id(&task, parent)?, task)));
            match found {
                Ok(found) => read.push(found),
                Err(error) => self.notes.push(Note::new(place(number), error.full_message())),
            }
        }
        let siblings: HashSet<&str> = read.iter().map(|(id, _)| id.as_str()).collect();
        for (id, task) in &read {
            self.task(id, task, tag, parent, &siblings);
        }
        Ok(())
    }

    fn task(&mut self, id: &str, task: &Record, tag: &Tag<'_>, parent: Option<Parent<'_>>, siblings: &HashSet<&str>) {
        let name = |id: &str| format!("taskmaster:{}/{id}", tag.name);
        let mut reader = Reader { record: task, item: name(id), notes: &mut self.notes };
        let mut item = Item { name: name(id), parent: parent.map(|parent| name(parent.id)), ..Item::default() };
        item.title = reader.line("title").unwrap_or_else(|| {
            reader.note("no title");
            format!("Task {id}")
        });
        item.description = reader.text("description").unwrap_or_default();
        item.design = reader.text("details").unwrap_or_default();
        item.acceptance_criteria =
            [criteria(&mut reader), reader.text("testStrategy")].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        item.list_created_at = tag.created_at;
        item.created_at = reader.time("createdAt");
        item.updated_at = reader.time("updatedAt");
        item.ended_at = reader.time("completedAt");
        item.assignee = reader.line("assignee");
        if let Some(word) = reader.line("priority") {
            item.priority = priority(&word);
            if item.priority.is_none() {
                reader.note(format!("unknown priority {word:?}"));
            }
        }
        if let Some(word) = reader.line("type") {
            item.issue_type = Some(issue_type(&word).map_or(word, str::to_owned));
        }
        for label in reader.names("labels", "name").into_iter().chain(reader.names("tags", "name")) {
            item.label(label);
        }
        if tag.name != DEFAULT_TAG {
            item.label(format!("tag:{}", tag.name));
        }
        let word = reader.line("status").unwrap_or_default().to_lowercase();
        item.status = match word.as_str() {
            "" => None,
            "pending" | "todo" | "open" => Some(Status::Open),
            "in-progress" | "in_progress" => Some(Status::InProgress),
            "done" | "completed" => Some(Status::Closed),
            "cancelled" | "canceled" => {
                item.close_reason = Some("cancelled".to_owned());
                Some(Status::Closed)
            }
            "deferred" => Some(Status::Deferred),
            "blocked" => Some(Status::Blocked),
            "review" => {
                item.label("status:review");
                Some(Status::InProgress)
            }
            other => {
                item.label(format!("status:{other}"));
                Some(Status::Open)
            }
        };
        for on in reader.names("dependencies", "id") {
            // A plain number in a subtask means another subtask of the same task.
            let sibling = parent
                .map(|parent| format!("{}.{on}", parent.id))
                .filter(|sibling| siblings.contains(sibling.as_str()));
            let on = name(&sibling.unwrap_or(on));
            if !item.blockers.contains(&on) {
                item.blockers.push(on);
            }
        }
        item.keep_rest(task, KNOWN_KEYS);
        self.items.push(item);
        let Some(subtasks) = task.raw("subtasks").filter(|raw| *raw != "null") else { return };
        let depth = parent.map_or(1, |parent| parent.depth + 1);
        if depth > MAX_DEPTH {
            self.notes.push(Note::new(name(id), "its subtasks are nested too deeply"));
        } else if let Err(error) = self.read(subtasks, tag, Some(Parent { id, depth })) {
            self.notes.push(Note::new(name(id), format!("its subtasks are left out: {}", error.full_message())));
        }
    }
}

/// Returns the acceptance criteria of a task: a text, or a list of texts.
fn criteria(reader: &mut Reader<'_>) -> Option<String> {
    if reader.record.raw("acceptanceCriteria")?.starts_with('[') {
        let list = reader.names("acceptanceCriteria", "description");
        return Some(list.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n"));
    }
    reader.text("acceptanceCriteria")
}

/// Returns the id of a task, after those of its parents: `7.2`.
fn full_id(task: &Record, parent: Option<Parent<'_>>) -> Result<String> {
    let id = task.raw("id").filter(|raw| raw.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned);
    let id = id.or_else(|| task.text("id")).map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Error::invalid("no id, so a later import could not recognise it"))?;
    Ok(match parent {
        Some(parent) if !id.starts_with(&format!("{}.", parent.id)) => format!("{}.{id}", parent.id),
        _ => id,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::source;
    use super::*;

    fn lines(imported: &Imported) -> Vec<String> {
        imported.records.iter().map(Record::to_line).collect()
    }

    #[test]
    fn tasks_and_subtasks_are_imported() {
        let imported = read(&source(
            r#"{"tasks":[
                {"id":1,"title":"Base","description":"What","details":"How","testStrategy":"Proof","status":"done","priority":"high","dependencies":[],"subtasks":[]},
                {"id":2,"title":"Next","status":"in-progress","priority":"low","dependencies":[1],"complexityScore":7,"subtasks":[
                    {"id":1,"title":"First part","status":"pending","dependencies":[]},
                    {"id":2,"title":"Second part","status":"cancelled","dependencies":[1,"1",9]},
                    {"id":"2.3","title":"Third part","dependencies":["2.1"],"updatedAt":"2026-01-01T00:00:00.000Z","status":"review"}]}]}"#,
        ))
        .unwrap();
        assert_eq!(
            lines(&imported),
            [
                r#"{"id":"taskmaster:master/1","title":"Base","description":"What","design":"How","acceptance_criteria":"Proof","status":"closed","priority":1,"external_ref":"taskmaster:master/1"}"#,
                r#"{"id":"taskmaster:master/2","title":"Next","status":"in_progress","priority":3,"external_ref":"taskmaster:master/2","dependencies":[{"issue_id":"taskmaster:master/2","depends_on_id":"taskmaster:master/1","type":"blocks"}],"metadata":{"taskmaster":{"complexityScore":7}}}"#,
                r#"{"id":"taskmaster:master/2.1","title":"First part","status":"open","external_ref":"taskmaster:master/2.1","parent_id":"taskmaster:master/2"}"#,
                r#"{"id":"taskmaster:master/2.2","title":"Second part","status":"closed","close_reason":"cancelled","external_ref":"taskmaster:master/2.2","dependencies":[{"issue_id":"taskmaster:master/2.2","depends_on_id":"taskmaster:master/2.1","type":"blocks"},{"issue_id":"taskmaster:master/2.2","depends_on_id":"taskmaster:master/9","type":"blocks"}],"parent_id":"taskmaster:master/2"}"#,
                r#"{"id":"taskmaster:master/2.3","title":"Third part","status":"in_progress","updated_at":"2026-01-01T00:00:00.000Z","external_ref":"taskmaster:master/2.3","labels":["status:review"],"dependencies":[{"issue_id":"taskmaster:master/2.3","depends_on_id":"taskmaster:master/2.1","type":"blocks"}],"parent_id":"taskmaster:master/2"}"#,
            ]
        );
        assert_eq!(imported.notes, []);
    }

    #[test]
    fn a_task_without_times_has_those_of_its_tag() {
        let imported = read(&source(
            r#"{"master":{"tasks":[{"id":1,"title":"a","status":"done"},{"id":2,"title":"b","updatedAt":"2025-08-01T00:00:00Z","subtasks":[{"id":1,"title":"c","acceptanceCriteria":"It works","testStrategy":"Try it"}]}],
                "metadata":{"created":"2025-06-13T23:52:56.848Z","updated":"2025-08-02T14:13:14.826Z"}}}"#,
        ))
        .unwrap();
        let times = |number: usize| {
            let record: &Record = &imported.records[number];
            (record.text("created_at"), record.text("updated_at"))
        };
        let (created, changed) = ("2025-06-13T23:52:56.848Z".to_owned(), "2025-08-01T00:00:00.000Z".to_owned());
        assert_eq!(times(0), (Some(created.clone()), None), "the tag does not tell when the task changed");
        assert_eq!(times(1), (Some(created.clone()), Some(changed)));
        assert_eq!(times(2), (Some(created), None));
        assert_eq!(imported.records[2].text("acceptance_criteria").as_deref(), Some("It works\n\nTry it"));
    }

    #[test]
    fn each_tag_has_its_own_list() {
        let imported = read(&source(
            r#"{"master":{"tasks":[{"id":"1","title":"a"}],"metadata":{"version":"1"}},"topic":{"tasks":[{"id":1,"title":"b","dependencies":[2]},{"id":2,"title":"c"}]},"broken":{"tasks":[7]}}"#,
        ))
        .unwrap();
        let names: Vec<String> = imported.records.iter().map(|record| record.text("id").unwrap()).collect();
        assert_eq!(names, ["taskmaster:master/1", "taskmaster:topic/1", "taskmaster:topic/2"]);
        assert_eq!(imported.records[1].raw("labels"), Some(r#"["tag:topic"]"#));
        assert!(imported.records[1].raw("dependencies").unwrap().contains("taskmaster:topic/2"));
        assert_eq!(imported.notes[0].item, "task 1 of broken");
    }

    #[test]
    fn cycles_duplicates_and_too_deep_subtasks_are_left_out_and_reported() {
        let mut deep = r#"{"id":1,"title":"x"}"#.to_owned();
        for _ in 0..2_000 {
            deep = format!(r#"{{"id":1,"title":"x","subtasks":[{deep}]}}"#);
        }
        let text = format!(
            r#"{{"tasks":[{deep},{{"id":2,"title":"a","dependencies":[3]}},{{"id":3,"title":"b","dependencies":[2,3]}},{{"id":2}},{{"title":"no id"}},{{"id":4,"priority":"some","dependencies":{{}},"subtasks":5}}]}}"#
        );
        let imported = read(&source(&text)).unwrap();
        assert_eq!(imported.records.len(), MAX_DEPTH + 1 + 3);
        let notes: Vec<String> = imported.notes.iter().map(|note| format!("{}: {}", note.item, note.problem)).collect();
        for expected in [
            "task 5 of master: no id, so a later import could not recognise it",
            "taskmaster:master/4: unknown priority \"some\"",
            "taskmaster:master/4: dependencies is not a list",
            "taskmaster:master/4: its subtasks are left out: the tasks are not a list: invalid type: integer `5`, expected a sequence at line 1 column 1",
            "taskmaster:master/2: duplicate id: only the first item is imported",
            "taskmaster:master/3: its dependency on taskmaster:master/2 closes a cycle",
            "taskmaster:master/3: its dependency on taskmaster:master/3 closes a cycle",
        ] {
            assert!(notes.contains(&expected.to_owned()), "{expected}: {notes:#?}");
        }
        assert!(notes.iter().any(|note| note.ends_with("its subtasks are nested too deeply")));
    }
}
