//! Reads GitHub issues from the output of `gh issue list --json` or from the REST API, with any subset of the fields.

use serde_json::value::RawValue;
use waypost_core::ledger::record::Record;
use waypost_core::{Result, words};

use super::item::{Comment, Item, Status, finish};
use super::reader::{Reader, issue_type, priority};
use super::{Imported, Source, objects};
use crate::Note;

/// Fields that become fields of an issue, or that repeat other fields.
const KNOWN_KEYS: &[&str] = &[
    "number",
    "title",
    "body",
    "state",
    "labels",
    "assignees",
    "assignee",
    "author",
    "user",
    "createdAt",
    "created_at",
    "updatedAt",
    "updated_at",
    "closedAt",
    "closed_at",
    "closed",
    "comments",
    "milestone",
    "type",
    "issueType",
    "parent",
    "blockedBy",
    "url",
    "html_url",
    "stateReason",
    "state_reason",
    "id",
    "node_id",
    "labels_url",
    "comments_url",
    "events_url",
    "repository_url",
    "timeline_url",
];

pub(super) fn read(source: &Source) -> Result<Imported> {
    let mut notes = Vec::new();
    let mut items = Vec::new();
    for (place, record) in objects(source, &mut notes)? {
        items.extend(issue(place, &record, &mut notes));
    }
    finish("github", items, notes)
}

fn issue(place: String, record: &Record, notes: &mut Vec<Note>) -> Option<Item> {
    let mut reader = Reader { record, item: place, notes };
    let number = reader.text("number");
    let url = reader.text("html_url").or_else(|| reader.text("url")).filter(|url| url.starts_with("http"));
    let short = number.as_ref().map(|number| format!("gh-{number}"));
    let Some(name) = url.or_else(|| short.clone()) else {
        reader.note("no number and no url, so a later import could not recognise it");
        return None;
    };
    reader.item = short.unwrap_or_else(|| name.clone());
    if record.raw("pull_request").is_some_and(|raw| raw != "null") {
        reader.note("a pull request, not an issue");
        return None;
    }
    let mut item = Item { name, ..Item::default() };
    // An issue type of the organization; labels may name one too.
    let type_name = reader.name("issueType", "name").or_else(|| reader.name("type", "name"));
    item.issue_type = type_name.map(|word| issue_type(&word).map_or_else(|| word.to_lowercase(), str::to_owned));
    item.title = reader.line("title").unwrap_or_else(|| {
        reader.note("no title");
        reader.item.clone()
    });
    item.description = reader.text("body").map(|body| body.replace("\r\n", "\n")).unwrap_or_default();
    item.ended_at = reader.time("closedAt").or_else(|| reader.time("closed_at"));
    let state = reader.line("state").map(|state| state.to_lowercase());
    let ended = item.ended_at.map(|_| Status::Closed);
    item.status = match state.as_deref() {
        Some("open") => Some(Status::Open),
        Some("closed") => Some(Status::Closed),
        None => ended,
        Some(other) => {
            reader.note(format!("unknown state {other:?}"));
            ended
        }
    };
    let reason = reader.line("stateReason").or_else(|| reader.line("state_reason"));
    if item.status == Some(Status::Closed) {
        item.close_reason = reason.map(|reason| reason.to_lowercase().replace('_', " "));
    }
    for label in reader.names("labels", "name") {
        item.issue_type = item.issue_type.or_else(|| issue_type(&label).map(str::to_owned));
        let is_level = label.len() == 2 && label.starts_with(['p', 'P']);
        item.priority = item.priority.or_else(|| priority(&label).filter(|_| is_level));
        item.label(label);
    }
    if let Some(milestone) = reader.name("milestone", "title") {
        item.label(format!("milestone:{milestone}"));
        // An issue has no due date of its own.
        let milestone = record.raw("milestone").and_then(|raw| Record::parse(raw).ok()).unwrap_or_default();
        let mut of_milestone = Reader { record: &milestone, item: reader.item.clone(), notes: reader.notes };
        item.due_at = of_milestone.time("dueOn").or_else(|| of_milestone.time("due_on"));
    }
    let mut assignees = reader.names("assignees", "login");
    if assignees.is_empty() {
        assignees.extend(reader.name("assignee", "login"));
    }
    if assignees.len() > 1 {
        let others = assignees.split_off(1);
        reader.note(format!("an issue has one assignee: {} left out", others.join(", ")));
    }
    item.assignee = assignees.pop();
    item.created_by = reader.name("author", "login").or_else(|| reader.name("user", "login"));
    item.created_at = reader.time("createdAt").or_else(|| reader.time("created_at"));
    item.updated_at = reader.time("updatedAt").or_else(|| reader.time("updated_at"));
    item.parent = record.raw("parent").and_then(|raw| other_name(&item.name, raw));
    for blocker in blockers(record) {
        match other_name(&item.name, &blocker) {
            Some(name) if !item.blockers.contains(&name) => item.blockers.push(name),
            Some(_) => {}
            None => reader.note("an issue that blocks it has no number"),
        }
    }
    comments(&mut reader, &mut item);
    item.keep_rest(record, KNOWN_KEYS);
    Some(item)
}

/// Returns the issues that block one: a list, or an object with a list of nodes.
fn blockers(record: &Record) -> Vec<String> {
    let list = |raw: &str| serde_json::from_str::<Vec<Box<RawValue>>>(raw).ok();
    let raw = record.raw("blockedBy").unwrap_or("[]");
    let found = list(raw).or_else(|| list(Record::parse(raw).ok()?.raw("nodes")?));
    found.unwrap_or_default().iter().map(|item| item.get().to_owned()).collect()
}

/// Returns the name of another issue, an object with a URL or a number.
fn other_name(own: &str, raw: &str) -> Option<String> {
    let other = Record::parse(raw).ok()?;
    let url = other.text("url").filter(|url| url.starts_with("http"));
    let number = || other.raw("number").filter(|raw| raw.bytes().all(|byte| byte.is_ascii_digit()));
    // Issues of one repository differ in their numbers.
    let beside = || Some(format!("{}/issues/{}", own.rsplit_once("/issues/")?.0, number()?));
    url.or_else(beside).or_else(|| Some(format!("gh-{}", number()?)))
}

fn comments(reader: &mut Reader<'_>, item: &mut Item) {
    // The REST API returns only the number of comments.
    if let Some(count) = reader.record.raw("comments").and_then(|raw| raw.parse::<u64>().ok()) {
        if count > 0 {
            let comments = words::count(count, "comment");
            reader.note(format!("{comments} missing in the file: export comments with gh issue list --json comments"));
        }
        return;
    }
    for (number, record) in reader.objects("comments").iter().enumerate() {
        let name = format!("{}, comment {}", reader.item, number + 1);
        let id = format!("{}-{}", reader.item, number + 1);
        let mut reader = Reader { record, item: name, notes: reader.notes };
        let Some(text) = reader.text("body").or_else(|| reader.text("text")) else { continue };
        item.comments.push(Comment {
            id: reader.line("id").unwrap_or(id),
            author: reader.name("author", "login").or_else(|| reader.name("user", "login")).unwrap_or_default(),
            text: text.replace("\r\n", "\n"),
            created_at: reader.time("createdAt").or_else(|| reader.time("created_at")),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::source;
    use super::*;

    #[test]
    fn all_fields_are_imported() {
        let imported = read(&source(
            r#"[{"number":12,"title":"Login fails\n after a timeout","body":"Steps:\r\n- [ ] wait\r\n","state":"CLOSED",
                 "stateReason":"NOT_PLANNED","labels":[{"id":"L1","name":"bug","color":"red"},{"name":"P1"},{"name":"web ui"}],
                 "assignees":[{"login":"ann"},{"login":"bob"}],"author":{"login":"cid","is_bot":false},
                 "createdAt":"2025-01-02T03:04:05Z","updatedAt":"2025-02-02T03:04:05Z","closedAt":"2025-02-01T00:00:00Z",
                 "comments":[{"id":"IC_1","author":{"login":"dan"},"body":"me too","createdAt":"2025-01-03T00:00:00Z"},{"body":"no id"}],
                 "milestone":{"number":1,"title":"v1.0","dueOn":"2025-03-01T00:00:00Z"},"url":"https://github.com/o/r/issues/12","isPinned":true,"projectItems":[]}]"#,
        ))
        .unwrap();
        assert_eq!(
            imported.records[0].to_line(),
            concat!(
                r#"{"id":"https://github.com/o/r/issues/12","title":"Login fails after a timeout","description":"Steps:\n- [ ] wait","#,
                r#""status":"closed","priority":1,"issue_type":"bug","assignee":"ann","created_at":"2025-01-02T03:04:05.000Z","created_by":"cid","#,
                r#""updated_at":"2025-02-02T03:04:05.000Z","closed_at":"2025-02-01T00:00:00.000Z","close_reason":"not planned","due_at":"2025-03-01T00:00:00.000Z","#,
                r#""external_ref":"https://github.com/o/r/issues/12","labels":["bug","P1","web ui","milestone:v1.0"],"#,
                r#""comments":[{"id":"IC_1","author":"dan","text":"me too","created_at":"2025-01-03T00:00:00.000Z"},{"id":"gh-12-2","author":"","text":"no id"}],"#,
                r#""metadata":{"github":{"isPinned":true}}}"#
            )
        );
        assert_eq!(imported.notes, [Note::new("gh-12", "an issue has one assignee: bob left out")]);
    }

    #[test]
    fn issue_types_parents_and_blockers_are_imported() {
        let imported = read(&source(
            r#"[{"number":1,"title":"a","url":"https://github.com/o/r/issues/1","issueType":{"id":"IT_1","name":"Bug"},"labels":[{"name":"enhancement"}]},
                {"number":2,"title":"b","html_url":"https://github.com/o/r/issues/2","type":{"id":3,"name":"Spike","color":"red"}},
                {"number":3,"title":"c","url":"https://github.com/o/r/issues/3","issueType":null,"labels":[{"name":"enhancement"}],
                 "parent":{"number":1,"title":"a"},"blockedBy":{"nodes":[{"number":2,"url":"https://github.com/o/r/issues/2"},{}],"totalCount":2}}]"#,
        ))
        .unwrap();
        let types: Vec<String> = imported.records.iter().map(|record| record.text("issue_type").unwrap()).collect();
        assert_eq!(types, ["bug", "spike", "feature"], "a type counts more than a label");
        assert_eq!(imported.records[2].text("parent_id").as_deref(), Some("https://github.com/o/r/issues/1"));
        let edges = imported.records[2].raw("dependencies").unwrap();
        assert!(edges.contains("https://github.com/o/r/issues/2"), "{edges}");
        assert_eq!(imported.notes, [Note::new("gh-3", "an issue that blocks it has no number")]);
    }

    #[test]
    fn a_subset_of_fields_and_the_rest_api_are_accepted() {
        let imported = read(&source(
            r#"{"number":1,"title":"a"}
{"number":2,"html_url":"https://github.com/o/r/issues/2","url":"https://api.github.com/repos/o/r/issues/2","state":"open","user":{"login":"x"},"created_at":"2025-01-01T00:00:00Z","comments":3}
{"number":3,"title":"pull","pull_request":{"url":"u"}}
{"title":"nameless"}
{"number":1,"title":"again"}
[]"#,
        ))
        .unwrap();
        let names: Vec<String> = imported.records.iter().map(|record| record.text("id").unwrap()).collect();
        assert_eq!(names, ["gh-1", "https://github.com/o/r/issues/2"]);
        let notes: Vec<String> = imported.notes.iter().map(|note| format!("{}: {}", note.item, note.problem)).collect();
        assert_eq!(
            notes,
            [
                "line 6: not a record: invalid type: sequence, expected an object at line 1 column 0",
                "gh-2: no title",
                "gh-2: 3 comments missing in the file: export comments with gh issue list --json comments",
                "gh-3: a pull request, not an issue",
                "line 4: no number and no url, so a later import could not recognise it",
                "gh-1: duplicate id: only the first item is imported",
            ]
        );
    }

    #[test]
    fn wrong_types_are_reported_and_the_rest_is_imported() {
        let imported = read(&source(
            r#"[{"number":99999999999999999999999,"title":["x"],"body":5,"state":{},"labels":7,"assignees":[1,{}],"author":[],"createdAt":"soon","closedAt":1e999,"comments":[[],{"body":{}}],"milestone":true}]"#,
        ))
        .unwrap();
        let record = &imported.records[0];
        assert_eq!((record.text("description").as_deref(), record.text("status").as_deref()), (Some("5"), None));
        assert_eq!(record.text("external_ref").unwrap(), "gh-99999999999999999999999");
        let problems: Vec<&str> = imported.notes.iter().map(|note| note.problem.as_str()).collect();
        assert_eq!(
            problems,
            [
                "title is not a string",
                "no title",
                "closedAt is not a time: \"1e999\"",
                "state is not a string",
                "labels is not a list",
                "milestone has no name",
                "item 2 of assignees has no name",
                "author has no name",
                "createdAt is not a time: \"soon\"",
                "item 1 of comments is not an object",
                "body is not a string",
            ]
        );
    }
}
