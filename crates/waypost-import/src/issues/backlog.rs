//! Reads the folder of Backlog.md: one file per task, with front matter and sections.
//!
//! Tasks name their milestones, by the titles that the files of the milestones have. Documents and decisions are not
//! issues and are reported.

use std::collections::HashMap;

use serde_json::Value;
use waypost_core::ledger::issue::parse_time;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::front_matter::{self, Front};
use super::item::{Comment, Item, Status, finish};
use super::reader::{issue_type, one_line, priority};
use super::{Imported, Source, text};
use crate::Note;

/// The keys that become fields of an issue.
const KNOWN_KEYS: &[&str] = &[
    "id",
    "title",
    "status",
    "assignee",
    "reporter",
    "labels",
    "dependencies",
    "parent_task_id",
    "parent",
    "priority",
    "created_date",
    "updated_date",
    "completed_date",
    "due_date",
    "milestone",
    "type",
];

/// Tells whether a file begins like a task.
pub(super) fn is_task(source: &Source) -> bool {
    let front = text(source).ok().and_then(front_matter::split);
    front.is_some_and(|(front, _)| front.get("id").is_some() || front.get("title").is_some())
}

pub(super) fn read(sources: &[Source]) -> Result<Imported> {
    let mut notes = Vec::new();
    let mut items = Vec::new();
    let milestones = milestones(sources);
    for source in sources {
        match folder(&source.name) {
            Folder::Tasks => match task(source, &milestones, &mut notes) {
                Ok(item) => items.push(item),
                Err(error) => notes.push(Note::new(&source.name, error.full_message())),
            },
            Folder::Milestones => {}
            Folder::Documents => notes.push(Note::new(&source.name, "a document, not an issue: it stays in its file")),
        }
    }
    if items.is_empty()
        && let Some(first) = notes.first()
    {
        return Err(Error::invalid(format!("{}: {}", first.item, first.problem))
            .hint("a Backlog.md task begins with front matter between two --- lines"));
    }
    // A subtask's id begins with its parent's id, even if no field names the parent.
    let names: std::collections::HashSet<String> = items.iter().map(|item| item.name.clone()).collect();
    for item in items.iter_mut().filter(|item| item.parent.is_none()) {
        let whole = item.name.rsplit_once('.').map(|(whole, _)| whole);
        item.parent = whole.filter(|whole| names.contains(*whole)).map(str::to_owned);
    }
    finish("backlog", items, notes)
}

/// The kind of a folder of Backlog.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    Tasks,
    Milestones,
    Documents,
}

fn folder(path: &str) -> Folder {
    let kind = |name: &str| match name {
        "tasks" | "completed" | "drafts" => Some(Folder::Tasks),
        "milestones" => Some(Folder::Milestones),
        "docs" | "decisions" => Some(Folder::Documents),
        _ => None,
    };
    // The innermost known folder counts: documents may be in folders of their own.
    path.split('/').rev().skip(1).find_map(kind).unwrap_or(Folder::Tasks)
}

/// Returns the titles of milestones by their ids.
fn milestones(sources: &[Source]) -> HashMap<String, String> {
    let mut titles = HashMap::new();
    for source in sources.iter().filter(|source| folder(&source.name) == Folder::Milestones) {
        let Some((front, _)) = text(source).ok().and_then(front_matter::split) else { continue };
        if let (Some(id), Some(title)) = (front.text("id"), front.text("title")) {
            titles.insert(id.trim().to_lowercase(), one_line(&title));
        }
    }
    titles
}

/// Returns the name of a task. Backlog.md ignores case.
fn name(id: &str) -> String {
    format!("backlog:{}", id.trim().to_lowercase())
}

fn task(source: &Source, milestones: &HashMap<String, String>, notes: &mut Vec<Note>) -> Result<Item> {
    let text = text(source)?.replace("\r\n", "\n");
    let Some((front, body)) = front_matter::split(&text) else {
        return Err(Error::invalid("no front matter"));
    };
    let one = |key: &str| front.text(key).map(|text| one_line(&text)).filter(|text| !text.is_empty());
    let file = source.name.rsplit('/').next().unwrap_or_default();
    // A file is named after its task: `task-7 - Title.md`.
    let id = one("id").or_else(|| file.split_once(" - ").map(|(id, _)| id.trim().to_owned()));
    let id = id.ok_or_else(|| Error::invalid("no id, so a later import could not recognise it"))?;
    let shown = id.clone();
    let mut note = |problem: String| notes.push(Note::new(&shown, problem));
    for line in &front.unreadable {
        note(format!("unreadable line in the front matter: {line:?}"));
    }
    let mut time = |key: &str| -> Option<Timestamp> {
        let text = one(key)?;
        let read = parse_time(&text);
        if read.is_none() {
            note(format!("{key} is not a time: {text:?}"));
        }
        read
    };
    let mut item = Item { name: name(&id), ..Item::default() };
    item.created_at = time("created_date");
    item.updated_at = time("updated_date");
    item.ended_at = time("completed_date");
    item.due_at = time("due_date");
    item.title = one("title").unwrap_or_else(|| {
        note("no title".to_owned());
        id.clone()
    });
    let person = |name: &str| name.trim().trim_start_matches('@').to_owned();
    let mut assignees: Vec<String> = front.list("assignee").iter().map(|name| person(name)).collect();
    assignees.retain(|name| !name.is_empty());
    if assignees.len() > 1 {
        let others = assignees.split_off(1);
        note(format!("an issue has one assignee: {} left out", others.join(", ")));
    }
    item.assignee = assignees.pop();
    item.created_by = one("reporter").map(|name| person(&name));
    for label in front.list("labels") {
        item.label(one_line(&label));
    }
    if let Some(milestone) = one("milestone") {
        let title = milestones.get(&milestone.to_lowercase()).unwrap_or(&milestone);
        item.label(format!("milestone:{title}"));
    }
    item.issue_type = one("type").map(|word| issue_type(&word).map_or(word, str::to_owned));
    if let Some(word) = one("priority") {
        item.priority = priority(&word);
        if item.priority.is_none() {
            note(format!("unknown priority {word:?}"));
        }
    }
    for on in front.list("dependencies").iter().filter(|on| !on.trim().is_empty()).map(|on| name(on)) {
        if !item.blockers.contains(&on) {
            item.blockers.push(on);
        }
    }
    item.parent = one("parent_task_id").or_else(|| one("parent")).map(|parent| name(&parent));
    set_status(&mut item, &one("status").unwrap_or_default(), &source.name);
    let comments = sections(&mut item, body);
    for (number, comment) in (1..).zip(comments) {
        item.comments.push(Comment { id: format!("backlog-{}-{number}", id.trim().to_lowercase()), ..comment });
    }
    keep_rest(&mut item, &front);
    Ok(item)
}

/// Sets the status. The file's folder may override it.
fn set_status(item: &mut Item, word: &str, path: &str) {
    let word = word.trim();
    item.status = match word.to_lowercase().as_str() {
        "" => None,
        "to do" | "todo" | "backlog" | "open" => Some(Status::Open),
        "in progress" | "doing" => Some(Status::InProgress),
        "done" | "completed" | "closed" => Some(Status::Closed),
        "blocked" => Some(Status::Blocked),
        "draft" => Some(Status::Deferred),
        _ => {
            item.label(format!("status:{word}"));
            Some(Status::Open)
        }
    };
    let mut folders = path.split('/').rev().skip(1);
    match folders.find(|folder| ["tasks", "completed", "archive", "drafts"].contains(folder)) {
        Some("completed") => item.status = Some(Status::Closed),
        Some("tasks" | "drafts") if path.contains("archive/tasks/") || path.contains("archive/drafts/") => {
            item.status = Some(Status::Closed);
            item.close_reason = Some("archived".to_owned());
        }
        Some("drafts") => item.status = Some(Status::Deferred),
        _ => {}
    }
}

/// Assigns the sections of a body to fields; unknown sections stay in the description. Returns the comments.
fn sections(item: &mut Item, body: &str) -> Vec<Comment> {
    let mut comments = Comments::default();
    let mut heading = String::new();
    let mut lines: Vec<&str> = Vec::new();
    // Inside a code fence or between section markers, a heading is part of the text.
    let (mut fence, mut is_marked) = (None, false);
    for line in body.lines() {
        let bare = line.trim();
        if comments.takes(bare, line) {
            continue;
        }
        if let Some(mark) = bare.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")).map(str::trim)
            && let Some((kind, end)) = mark.rsplit_once(':')
            && (kind.starts_with("SECTION:") || kind == "AC" || kind == "DOD" || kind.starts_with("AC:"))
            && (end == "BEGIN" || end == "END")
        {
            is_marked = end == "BEGIN";
            continue;
        }
        let tick = ["```", "~~~"].into_iter().find(|tick| bare.starts_with(tick));
        match (fence, tick) {
            (None, Some(_)) => fence = tick,
            (Some(open), Some(tick)) if open == tick => fence = None,
            _ => {}
        }
        match line.strip_prefix("## ").filter(|_| fence.is_none() && !is_marked) {
            Some(next) => {
                section(item, &heading, &lines);
                next.trim().clone_into(&mut heading);
                lines.clear();
            }
            None => lines.push(line),
        }
    }
    section(item, &heading, &lines);
    comments.found
}

/// The comments between `<!-- COMMENTS:BEGIN -->` and `<!-- COMMENTS:END -->`: fields, a line `---`, the text, and a line
/// `---`. Older files have each one between `<!-- COMMENT:BEGIN -->` and `<!-- COMMENT:END -->`, with an empty line after
/// the fields.
#[derive(Default)]
struct Comments {
    is_inside: bool,
    /// Whether the current comment has marks of its own.
    is_marked: bool,
    fields: Vec<String>,
    /// The lines of the current comment's text, once its fields have ended.
    lines: Option<Vec<String>>,
    found: Vec<Comment>,
}

impl Comments {
    /// Returns whether a line belongs to the comments.
    fn takes(&mut self, bare: &str, line: &str) -> bool {
        match bare {
            "<!-- COMMENTS:BEGIN -->" => self.is_inside = true,
            _ if !self.is_inside => return false,
            "<!-- COMMENTS:END -->" => {
                self.end();
                self.is_inside = false;
            }
            "<!-- COMMENT:BEGIN -->" => self.is_marked = true,
            "<!-- COMMENT:END -->" => {
                self.end();
                self.is_marked = false;
            }
            "---" if !self.is_marked && self.lines.is_some() => self.end(),
            "---" if !self.is_marked => self.lines = Some(Vec::new()),
            "" if self.lines.is_none() => {
                if self.is_marked {
                    self.lines = Some(Vec::new());
                }
            }
            _ => match &mut self.lines {
                Some(lines) => lines.push(line.to_owned()),
                None => self.fields.push(bare.to_owned()),
            },
        }
        true
    }

    fn end(&mut self) {
        let fields = std::mem::take(&mut self.fields);
        // A marked comment without an empty line has no fields.
        let lines = self.lines.take().unwrap_or_else(|| fields.clone());
        let text = lines.join("\n").trim().to_owned();
        if text.is_empty() {
            return;
        }
        let field = |name: &str| {
            let value = |line: &String| {
                let (key, value) = line.split_once(':')?;
                key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            };
            fields.iter().find_map(value).filter(|value| !value.is_empty())
        };
        self.found.push(Comment {
            id: String::new(),
            author: field("author").map(|name| name.trim_start_matches('@').to_owned()).unwrap_or_default(),
            text,
            created_at: field("created").and_then(|time| parse_time(&time)),
        });
    }
}

fn section(item: &mut Item, heading: &str, lines: &[&str]) {
    let text = lines.join("\n");
    let text = text.trim_matches('\n').trim_end();
    let is_only_title = heading.is_empty() && text.starts_with("# ") && !text.contains('\n');
    if text.trim().is_empty() || is_only_title {
        return;
    }
    let plain = heading.to_lowercase();
    let plain = plain.strip_suffix("(optional)").unwrap_or(&plain).trim();
    let (field, needs_heading) = match plain {
        "" | "description" => (&mut item.description, false),
        "acceptance criteria" => (&mut item.acceptance_criteria, false),
        "definition of done" => (&mut item.acceptance_criteria, true),
        "implementation plan" => (&mut item.design, false),
        "implementation notes" | "notes" | "notes & comments" => (&mut item.notes, false),
        "final summary" => (&mut item.notes, true),
        _ => (&mut item.description, true),
    };
    if !field.is_empty() {
        field.push_str("\n\n");
    }
    if needs_heading {
        field.push_str("## ");
        field.push_str(heading);
        field.push_str("\n\n");
    }
    field.push_str(text);
}

fn keep_rest(item: &mut Item, front: &Front) {
    for (key, value) in &front.fields {
        let value = match value {
            front_matter::Value::Text(text) if text.is_empty() => continue,
            front_matter::Value::Text(text) => Value::from(text.as_str()),
            front_matter::Value::List(list) if list.is_empty() => continue,
            front_matter::Value::List(list) => Value::from(list.as_slice()),
        };
        let is_kept = !KNOWN_KEYS.contains(&key.as_str()) && !item.rest.iter().any(|(known, _)| known == key);
        if is_kept {
            item.rest.push((key.clone(), value.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::ledger::record::Record;

    use super::*;

    fn file(name: &str, text: &str) -> Source {
        Source { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn a_task_is_imported_with_its_sections() {
        let text = "---\nid: TASK-7\ntitle: >-\n  Fold the long\n  title: twice\nstatus: In Progress\nassignee:\n  - '@ann'\nreporter: '@bob'\ncreated_date: '2026-01-02 03:04'\nupdated_date: 2026-01-03\nlabels: [web, \"a, b\"]\nmilestone: m-1\ndependencies:\n  - task-3\n  - TASK-4\nparent_task_id: task-1\npriority: high\ntype: enhancement\nordinal: 7000\nreferences:\n  - src/main.rs\n---\n\n## Description\n\n<!-- SECTION:DESCRIPTION:BEGIN -->\nWhy.\n\n## Not a section\n<!-- SECTION:DESCRIPTION:END -->\n\n## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 It folds\n- [x] #2 It holds\n<!-- AC:END -->\n\n## Implementation Plan\n\n1. Fold\n```\n## code\n```\n\n## Implementation Notes\n\nDone so far.\n\n## Extra\n\nMore.\n";
        let imported = read(&[file("backlog/tasks/task-7 - Fold.md", &text.replace('\n', "\r\n"))]).unwrap();
        assert_eq!(
            imported.records[0].to_line(),
            concat!(
                r##"{"id":"backlog:task-7","title":"Fold the long title: twice","description":"Why.\n\n## Not a section\n\n## Extra\n\nMore.","##,
                r##""design":"1. Fold\n```\n## code\n```","acceptance_criteria":"- [ ] #1 It folds\n- [x] #2 It holds","notes":"Done so far.","##,
                r##""status":"in_progress","priority":1,"issue_type":"feature","assignee":"ann","created_at":"2026-01-02T03:04:00.000Z","created_by":"bob","##,
                r##""updated_at":"2026-01-03T00:00:00.000Z","external_ref":"backlog:task-7","labels":["web","a, b","milestone:m-1"],"##,
                r##""dependencies":[{"issue_id":"backlog:task-7","depends_on_id":"backlog:task-3","type":"blocks"},"##,
                r##"{"issue_id":"backlog:task-7","depends_on_id":"backlog:task-4","type":"blocks"}],"parent_id":"backlog:task-1","##,
                r##""metadata":{"backlog":{"ordinal":"7000","references":["src/main.rs"]}}}"##
            )
        );
        assert_eq!(imported.notes, []);
    }

    #[test]
    fn comments_are_imported_with_their_authors_and_times() {
        let text = "---\nid: task-1\ntitle: t\n---\n\n## Description\n\nWhy.\n\n## Comments\n\n<!-- COMMENTS:BEGIN -->\nauthor: @ann\ncreated: 2026-01-02 03:04\n---\nFirst.\n\n## Not a section\n---\n\ncreated: soon\n---\nSecond.\n---\n\nauthor: empty\n---\n\n---\n<!-- COMMENTS:END -->\n\n## Extra\n\nMore.\n";
        let imported = read(&[file("backlog/tasks/task-1.md", text)]).unwrap();
        let record = &imported.records[0];
        assert_eq!(
            record.raw("comments").unwrap(),
            concat!(
                r###"[{"id":"backlog-task-1-1","author":"ann","text":"First.\n\n## Not a section","created_at":"2026-01-02T03:04:00.000Z"},"###,
                r###"{"id":"backlog-task-1-2","author":"","text":"Second."}]"###
            )
        );
        assert_eq!(record.text("description").as_deref(), Some("Why.\n\n## Extra\n\nMore."));
        let older = "---\nid: task-2\n---\n## Comments\n<!-- COMMENTS:BEGIN -->\n<!-- COMMENT:BEGIN -->\nindex: 1\nauthor: bob\ncreated: 2026-01-02\n\nOld\n---\nstyle.\n<!-- COMMENT:END -->\n<!-- COMMENT:BEGIN -->\nbare\n<!-- COMMENT:END -->\n<!-- COMMENTS:END -->\n";
        let imported = read(&[file("backlog/tasks/task-2.md", older)]).unwrap();
        assert_eq!(
            imported.records[0].raw("comments").unwrap(),
            concat!(
                r#"[{"id":"backlog-task-2-1","author":"bob","text":"Old\n---\nstyle.","created_at":"2026-01-02T00:00:00.000Z"},"#,
                r#"{"id":"backlog-task-2-2","author":"","text":"bare"}]"#
            )
        );
    }

    #[test]
    fn milestones_give_labels_their_titles_and_documents_are_reported() {
        let imported = read(&[
            file("tasks/a.md", "---\nid: t-1\ntitle: a\nmilestone: M-1\n---\n"),
            file("tasks/b.md", "---\nid: t-2\ntitle: b\nmilestone: Later\n---\n"),
            file(
                "milestones/m-1 - cli.md",
                "---\nid: m-1\ntitle: \"CLI Development\"\n---\n\n## Description\n\nText.\n",
            ),
            file("milestones/readme.md", "# Milestones\n"),
            file("docs/guides/doc-1 - Style.md", "---\nid: doc-1\ntitle: Style\n---\n"),
        ])
        .unwrap();
        let labels: Vec<_> = imported.records.iter().map(|record| record.raw("labels").unwrap()).collect();
        assert_eq!(labels, [r#"["milestone:CLI Development"]"#, r#"["milestone:Later"]"#]);
        assert_eq!(
            imported.notes,
            [Note::new("docs/guides/doc-1 - Style.md", "a document, not an issue: it stays in its file")]
        );
    }

    #[test]
    fn folders_statuses_and_subtask_ids_are_interpreted() {
        let task = |id: &str, status: &str| format!("---\nid: {id}\ntitle: t\nstatus: {status}\n---\n");
        let imported = read(&[
            file("backlog/tasks/a.md", &task("task-1", "To Do")),
            file("backlog/tasks/b.md", &task("task-1.01", "Done")),
            file("backlog/completed/c.md", &task("task-2", "To Do")),
            file("backlog/archive/tasks/d.md", &task("task-3", "To Do")),
            file("backlog/drafts/e.md", &task("draft-1", "")),
            file("tasks/f.md", &task("task-4", "In Review")),
            file("tasks/task-5 - No id.md", "\u{feff}---\ntitle: x\n---\n"),
        ])
        .unwrap();
        let shown: Vec<String> = imported
            .records
            .iter()
            .map(|record: &Record| {
                let text = |key| record.text(key).unwrap_or_default();
                format!(
                    "{} {} {}",
                    text("id"),
                    text("status"),
                    text("parent_id") + record.raw("labels").unwrap_or_default()
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "backlog:task-1 open ",
                "backlog:task-1.01 closed backlog:task-1",
                "backlog:task-2 closed ",
                "backlog:task-3 closed ",
                "backlog:draft-1 deferred ",
                "backlog:task-4 open [\"status:In Review\"]",
                "backlog:task-5  ",
            ]
        );
    }

    #[test]
    fn a_broken_file_does_not_prevent_importing_the_others() {
        let good = "---\nid: t-1\ntitle: a\npriority: some\ncreated_date: soon\ndependencies: t-1\nodd\n---\n";
        let imported = read(&[
            file("tasks/a.md", good),
            file("tasks/readme.md", "# Read me\n"),
            file("tasks/open.md", "---\nid: x\n"),
            Source { name: "tasks/latin.md".to_owned(), bytes: b"---\nid: \xe9\n---\n".to_vec() },
            file("tasks/again.md", good),
        ])
        .unwrap();
        assert_eq!(imported.records.len(), 1);
        let notes: Vec<String> = imported.notes.iter().map(|note| format!("{}: {}", note.item, note.problem)).collect();
        for expected in [
            "t-1: unreadable line in the front matter: \"odd\"",
            "t-1: created_date is not a time: \"soon\"",
            "t-1: unknown priority \"some\"",
            "tasks/readme.md: no front matter",
            "tasks/open.md: no front matter",
            "backlog:t-1: duplicate id: only the first item is imported",
            "backlog:t-1: its dependency on backlog:t-1 closes a cycle",
        ] {
            assert!(notes.contains(&expected.to_owned()), "{expected}: {notes:#?}");
        }
        assert!(read(&[file("a.md", "words")]).is_err());
    }
}
