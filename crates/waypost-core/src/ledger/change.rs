//! The changes to an issue. Each sets all fields that belong together, and `updated_at`.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::issue::Issue;
use super::record::Record;
use super::vocabulary::{Category, DependencyKind, Statuses, name, words};
use crate::error::{Error, Result};
use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// The author of a change, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The name written into the record.
    pub name: &'a str,
    /// The time of the change.
    pub now: Timestamp,
}

/// The fields of an issue that a caller sets directly. `None` leaves a field alone; an empty string removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Edit {
    /// As in [`Issue`].
    pub title: Option<String>,
    /// As in [`Issue`].
    pub description: Option<String>,
    /// As in [`Issue`].
    pub design: Option<String>,
    /// As in [`Issue`].
    pub acceptance_criteria: Option<String>,
    /// As in [`Issue`].
    pub notes: Option<String>,
    /// As in [`Issue`].
    pub status: Option<String>,
    /// As in [`Issue`].
    pub priority: Option<u8>,
    /// As in [`Issue`].
    pub issue_type: Option<String>,
    /// As in [`Issue`].
    pub assignee: Option<String>,
    /// As in [`Issue`].
    pub owner: Option<String>,
    /// As in [`Issue`].
    pub parent_id: Option<String>,
    /// As in [`Issue`].
    pub external_ref: Option<String>,
    /// As in [`Issue`]; `Some(None)` removes it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub defer_until: Option<Option<Timestamp>>,
    /// As in [`Issue`]; `Some(None)` removes it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub due_at: Option<Option<Timestamp>>,
    /// As in [`Issue`]; 0 removes it.
    pub estimated_minutes: Option<u32>,
    /// Labels to add.
    pub add_labels: Vec<String>,
    /// Labels to remove.
    pub remove_labels: Vec<String>,
}

/// Reads a field that is present: null is a value, and not the same as no field.
#[expect(clippy::option_option, reason = "set, removed, or unchanged")]
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Option<Timestamp>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Creates the record of a new issue.
pub fn create(id: &str, edit: &Edit, statuses: &Statuses, author: Author<'_>) -> Result<Record> {
    let mut record = Record::default();
    record.set("id", &id)?;
    record.set("status", &"open")?;
    record.set("priority", &super::vocabulary::DEFAULT_PRIORITY)?;
    record.set("issue_type", &"task")?;
    record.set("created_at", &author.now.to_string())?;
    record.set("created_by", &author.name)?;
    update(&mut record, edit, statuses, author)?;
    Ok(record)
}

/// Sets the fields that `edit` names.
pub fn update(record: &mut Record, edit: &Edit, statuses: &Statuses, author: Author<'_>) -> Result<()> {
    if let Some(title) = &edit.title {
        let title = title.trim();
        if title.is_empty() || title.contains(['\n', '\r']) {
            return Err(Error::invalid("a title must be one non-empty line"));
        }
        record.set("title", &title)?;
    }
    for (key, value) in [
        ("description", &edit.description),
        ("design", &edit.design),
        ("acceptance_criteria", &edit.acceptance_criteria),
        ("notes", &edit.notes),
        ("issue_type", &edit.issue_type),
        ("assignee", &edit.assignee.as_deref().map(|text| name(text, author.name).to_owned())),
        ("owner", &edit.owner.as_deref().map(|text| name(text, author.name).to_owned())),
        ("external_ref", &edit.external_ref),
    ] {
        match value.as_deref() {
            Some("") => {
                record.remove(key);
            }
            Some(text) => record.set(key, &text)?,
            None => {}
        }
    }
    if let Some(priority) = edit.priority {
        record.set("priority", &priority)?;
    }
    for (key, moment) in [("defer_until", edit.defer_until), ("due_at", edit.due_at)] {
        match moment {
            Some(Some(moment)) => record.set(key, &moment.to_string())?,
            Some(None) => {
                record.remove(key);
            }
            None => {}
        }
    }
    match edit.estimated_minutes {
        Some(0) => {
            record.remove("estimated_minutes");
        }
        Some(minutes) => record.set("estimated_minutes", &minutes)?,
        None => {}
    }
    set_labels(record, edit)?;
    if let Some(parent) = &edit.parent_id {
        set_parent(record, parent)?;
    }
    if let Some(status) = edit.status.as_deref().map(|status| statuses.spelled(status)) {
        if statuses.category(&status) == Category::Deleted {
            return Err(Error::invalid(format!("{status} cannot be set as a status")).hint("use way delete"));
        }
        let current = Issue::read(record).map_or(Category::Active, |(issue, _)| statuses.category(&issue.status));
        if current == Category::Deleted {
            return Err(
                Error::conflict("the issue is deleted, so its status cannot be set").hint("use way reopen first")
            );
        }
        set_status(record, &status, statuses, author)?;
    }
    touch(record, author)
}

/// Closes an issue. Closing a closed issue changes nothing.
pub fn close(record: &mut Record, reason: Option<&str>, statuses: &Statuses, author: Author<'_>) -> Result<()> {
    let issue = read(record)?;
    match statuses.category(&issue.status) {
        Category::Deleted => return Err(Error::conflict(format!("issue {} is deleted", issue.id))),
        Category::Done => return Ok(()),
        Category::Active | Category::Wip | Category::Frozen => {}
    }
    set_status(record, "closed", statuses, author)?;
    if let Some(reason) = reason {
        record.set("close_reason", &reason)?;
    }
    touch(record, author)
}

/// Reopens a closed or deleted issue. Reopening an open issue changes nothing.
pub fn reopen(record: &mut Record, statuses: &Statuses, author: Author<'_>) -> Result<()> {
    let issue = read(record)?;
    if !statuses.category(&issue.status).is_over() {
        return Ok(());
    }
    for key in ["deleted_at", "deleted_by", "delete_reason"] {
        record.remove(key);
    }
    set_status(record, "open", statuses, author)?;
    touch(record, author)
}

/// Deletes an issue. Its record stays as a tombstone, so that a merge cannot bring the issue back.
pub fn delete(record: &mut Record, reason: Option<&str>, author: Author<'_>) -> Result<()> {
    if read(record)?.status == "tombstone" {
        return Ok(());
    }
    record.set("status", &"tombstone")?;
    record.set("deleted_at", &author.now.to_string())?;
    record.set("deleted_by", &author.name)?;
    if let Some(reason) = reason {
        record.set("delete_reason", &reason)?;
    }
    touch(record, author)
}

/// Claims an issue. Claiming it again as its holder changes nothing; for any other author, the error names the holder.
pub fn claim(record: &mut Record, statuses: &Statuses, author: Author<'_>) -> Result<()> {
    let issue = read(record)?;
    let holder = issue.assignee.as_deref();
    match statuses.category(&issue.status) {
        Category::Wip if holder == Some(author.name) => return Ok(()),
        Category::Wip if holder.is_some() => {
            let holder = holder.unwrap_or_default();
            return Err(Error::conflict(format!("{holder} already works on issue {}", issue.id)));
        }
        Category::Done | Category::Deleted | Category::Frozen => {
            return Err(Error::conflict(format!("issue {} is {} and cannot be claimed", issue.id, issue.status)));
        }
        // In progress without an assignee: any author may claim it.
        Category::Active | Category::Wip => {}
    }
    record.set("status", &"in_progress")?;
    record.set("assignee", &author.name)?;
    touch(record, author)
}

/// Releases an issue. Only its holder may release it, unless `force` is set.
pub fn release(record: &mut Record, force: bool, statuses: &Statuses, author: Author<'_>) -> Result<()> {
    let issue = read(record)?;
    if statuses.category(&issue.status) != Category::Wip {
        return Err(Error::conflict(format!(
            "issue {} is {}, so there is no claim to release",
            issue.id, issue.status
        )));
    }
    if let Some(holder) = issue.assignee.as_deref().filter(|holder| *holder != author.name && !force) {
        return Err(
            Error::refused(format!("{holder} works on issue {}", issue.id)).hint("release it anyway with --force")
        );
    }
    record.set("status", &"open")?;
    record.remove("assignee");
    touch(record, author)
}

/// Adds a comment.
pub fn comment(record: &mut Record, id: &str, text: &str, author: Author<'_>) -> Result<()> {
    let comment = json!({ "id": id, "author": author.name, "text": text, "created_at": author.now.to_string() });
    append(record, "comments", &comment.to_string())?;
    touch(record, author)
}

/// Adds a dependency on another issue. Returns false if it exists already. The caller checks for cycles.
pub fn depend(record: &mut Record, on: &str, kind: DependencyKind, author: Author<'_>) -> Result<bool> {
    if kind == DependencyKind::ParentChild {
        let is_new = read(record)?.parent_id.as_deref() != Some(on);
        set_parent(record, on)?;
        touch(record, author)?;
        return Ok(is_new);
    }
    depend_on_all(record, &[on.to_owned()], kind, author)
}

/// Adds dependencies on other issues, each once. Returns false if all of them exist already. The caller checks for cycles.
pub fn depend_on_all(record: &mut Record, on: &[String], kind: DependencyKind, author: Author<'_>) -> Result<bool> {
    let issue = read(record)?;
    let same = issue.dependencies.iter().filter(|edge| edge.kind == Some(kind));
    let mut known: HashSet<&str> = same.map(|edge| edge.depends_on_id.as_str()).collect();
    let new: Vec<&String> = on.iter().filter(|on| known.insert(on)).collect();
    if new.is_empty() {
        return Ok(false);
    }
    let edge = |on: &String| {
        let edge = json!({
            "issue_id": issue.id,
            "depends_on_id": on,
            "type": kind.as_str(),
            "created_at": author.now.to_string(),
            "created_by": author.name,
        });
        edge.to_string()
    };
    let edges: Vec<String> = items(record, "dependencies")?.into_iter().chain(new.into_iter().map(edge)).collect();
    record.set("dependencies", &raw_list(edges.iter().map(String::as_str))?)?;
    touch(record, author)?;
    Ok(true)
}

/// Removes the dependencies on another issue: all, or those of one kind. Returns whether there were any.
pub fn undepend(record: &mut Record, on: &str, kind: Option<DependencyKind>, author: Author<'_>) -> Result<bool> {
    let issue = read(record)?;
    let items = items(record, "dependencies")?;
    let is_removed = |item: &str| {
        let edge: serde_json::Value = serde_json::from_str(item).unwrap_or_default();
        let word = edge["type"].as_str().unwrap_or(DependencyKind::Blocks.as_str());
        edge["depends_on_id"].as_str() == Some(on) && kind.is_none_or(|kind| DependencyKind::read(word) == Some(kind))
    };
    let left: Vec<&String> = items.iter().filter(|item| !is_removed(item)).collect();
    let is_parent =
        issue.parent_id.as_deref() == Some(on) && kind.is_none_or(|kind| kind == DependencyKind::ParentChild);
    let had_parent = is_parent && record.remove("parent_id");
    if left.len() == items.len() && !had_parent {
        return Ok(false);
    }
    if left.is_empty() {
        record.remove("dependencies");
    } else {
        record.set("dependencies", &raw_list(left.into_iter().map(String::as_str))?)?;
    }
    touch(record, author)?;
    Ok(true)
}

/// Adds and removes labels. Other items of the list keep their spelling.
fn set_labels(record: &mut Record, edit: &Edit) -> Result<()> {
    if edit.add_labels.is_empty() && edit.remove_labels.is_empty() {
        return Ok(());
    }
    let added = words(&edit.add_labels);
    if added.iter().any(|label| label.trim().is_empty() || label.contains(['\n', '\r'])) {
        return Err(Error::invalid("a label must be one non-empty line"));
    }
    let before = items(record, "labels")?;
    let label_of = |item: &String| serde_json::from_str::<String>(item).ok();
    // A label of another tool may have a comma.
    let removed = words(&edit.remove_labels);
    let removed: HashSet<&str> = removed.iter().chain(&edit.remove_labels).map(String::as_str).collect();
    let mut known = HashSet::new();
    let mut after = Vec::new();
    for item in &before {
        let label = label_of(item);
        if seeded_bug("forget_removal") || label.as_deref().is_none_or(|label| !removed.contains(label)) {
            known.extend(label);
            after.push(item.clone());
        }
    }
    for label in added.iter().filter(|label| !removed.contains(label.as_str())) {
        if known.insert(label.clone()) {
            after.push(serde_json::Value::from(label.as_str()).to_string());
        }
    }
    if after == before {
        return Ok(());
    }
    if after.is_empty() {
        record.remove("labels");
        return Ok(());
    }
    record.set("labels", &raw_list(after.iter().map(String::as_str))?)
}

/// Sets the parent of an issue, or removes it. Other tools store a parent as a dependency; afterwards only `parent_id`
/// holds it.
fn set_parent(record: &mut Record, parent: &str) -> Result<()> {
    let is_parent_edge = |item: &String| {
        let edge: serde_json::Value = serde_json::from_str(item).unwrap_or_default();
        edge["type"].as_str().and_then(DependencyKind::read) == Some(DependencyKind::ParentChild)
    };
    let edges = items(record, "dependencies")?;
    let others: Vec<&str> = edges.iter().filter(|item| !is_parent_edge(item)).map(String::as_str).collect();
    if others.len() < edges.len() {
        if others.is_empty() {
            record.remove("dependencies");
        } else {
            record.set("dependencies", &raw_list(others.into_iter())?)?;
        }
    }
    if parent.is_empty() {
        record.remove("parent_id");
        return Ok(());
    }
    record.set("parent_id", &parent)
}

fn set_status(record: &mut Record, status: &str, statuses: &Statuses, author: Author<'_>) -> Result<()> {
    if !statuses.knows(status) {
        let known: Vec<&str> = Statuses::BUILT_IN.iter().map(|(known, _)| *known).collect();
        let error = Error::invalid(format!("there is no status {status:?}"));
        return Err(match crate::nearest::nearest(status, known) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint("use open, in_progress, blocked, deferred, closed or a custom status"),
        });
    }
    let before = Issue::read(record).map(|(issue, _)| (statuses.category(&issue.status), issue.closed_at));
    record.set("status", &status)?;
    if statuses.category(status) == Category::Done {
        // A `closed_at` left over from before the issue was reopened does not count.
        if !matches!(before, Some((Category::Done, Some(_)))) {
            record.set("closed_at", &author.now.to_string())?;
        }
    } else {
        record.remove("closed_at");
        record.remove("close_reason");
    }
    Ok(())
}

/// Sets `updated_at`. It grows with every change, even if the previous author's clock was ahead, so that a merge and a
/// reader see which version is newer.
pub fn touch(record: &mut Record, author: Author<'_>) -> Result<()> {
    let before = Issue::read(record).and_then(|(issue, _)| issue.updated_at);
    let now = before.map_or(author.now, |before| if before > author.now { before.plus(1) } else { author.now });
    record.set("updated_at", &now.to_string())
}

fn read(record: &Record) -> Result<Issue> {
    Issue::read(record).map(|(issue, _)| issue).ok_or_else(|| Error::internal("the record is not an issue"))
}

/// Appends to a list and keeps the spelling of its other items.
fn append(record: &mut Record, key: &str, item: &str) -> Result<()> {
    let items = items(record, key)?;
    record.set(key, &raw_list(items.iter().map(String::as_str).chain([item]))?)
}

fn items(record: &Record, key: &str) -> Result<Vec<String>> {
    match record.raw(key) {
        None | Some("null") => Ok(Vec::new()),
        Some(raw) => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(raw)
                .map_err(|error| Error::damaged(format!("{key} is not a list")).because(error))?;
            Ok(items.iter().map(|item| item.get().to_owned()).collect())
        }
    }
}

fn raw_list<'a>(items: impl Iterator<Item = &'a str>) -> Result<Box<RawValue>> {
    let list = format!("[{}]", items.collect::<Vec<_>>().join(","));
    RawValue::from_string(list).map_err(|error| Error::internal("a list cannot be written").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const NOW: Author<'_> = Author { name: "me", now: Timestamp::from_millis(1_767_225_600_000) };
    const LATER: Author<'_> = Author { name: "you", now: Timestamp::from_millis(1_767_225_601_000) };

    fn new() -> Record {
        create("a-1", &Edit { title: Some("Fix it".to_owned()), ..Edit::default() }, &statuses(), NOW).unwrap()
    }

    fn statuses() -> Statuses {
        Statuses::default()
    }

    #[test]
    fn a_new_issue_has_the_fields_that_other_tools_expect_in_our_order() {
        assert_eq!(
            new().to_line(),
            r#"{"id":"a-1","title":"Fix it","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-01T00:00:00.000Z","created_by":"me","updated_at":"2026-01-01T00:00:00.000Z"}"#
        );
        for bad in ["", "  ", "two\nlines"] {
            let edit = Edit { title: Some(bad.to_owned()), ..Edit::default() };
            assert_eq!(create("a-1", &edit, &statuses(), NOW).unwrap_err().kind(), Kind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn closed_at_is_set_exactly_while_an_issue_is_closed() {
        let mut record = new();
        close(&mut record, Some("done"), &statuses(), LATER).unwrap();
        assert_eq!(
            (record.text("status").unwrap().as_str(), record.text("close_reason").unwrap().as_str()),
            ("closed", "done")
        );
        assert_eq!(record.text("closed_at").unwrap(), "2026-01-01T00:00:01.000Z");
        let before = record.clone();
        close(&mut record, Some("again"), &statuses(), NOW).unwrap();
        assert_eq!(record, before, "closing a closed issue changes nothing");
        reopen(&mut record, &statuses(), LATER).unwrap();
        assert_eq!((record.raw("closed_at"), record.raw("close_reason")), (None, None));
        let edit = Edit { status: Some("closed".to_owned()), ..Edit::default() };
        update(&mut record, &edit, &statuses(), LATER).unwrap();
        assert!(record.raw("closed_at").is_some(), "an update that sets the status also sets closed_at");
    }

    #[test]
    fn a_second_claim_is_refused_and_names_the_holder() {
        let mut record = new();
        claim(&mut record, &statuses(), NOW).unwrap();
        claim(&mut record, &statuses(), NOW).unwrap();
        let error = claim(&mut record, &statuses(), LATER).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Conflict, "me already works on issue a-1"));
        assert_eq!(release(&mut record, false, &statuses(), LATER).unwrap_err().kind(), Kind::Refused);
        release(&mut record, true, &statuses(), LATER).unwrap();
        assert_eq!((record.text("status").unwrap().as_str(), record.raw("assignee")), ("open", None));
        close(&mut record, None, &statuses(), NOW).unwrap();
        assert_eq!(claim(&mut record, &statuses(), NOW).unwrap_err().kind(), Kind::Conflict);
    }

    #[test]
    fn a_deleted_issue_stays_as_a_tombstone_and_can_be_reopened() {
        let mut record = new();
        delete(&mut record, Some("mistake"), LATER).unwrap();
        assert_eq!(record.text("status").unwrap(), "tombstone");
        assert_eq!(close(&mut record, None, &statuses(), NOW).unwrap_err().kind(), Kind::Conflict);
        reopen(&mut record, &statuses(), LATER).unwrap();
        assert_eq!((record.text("status").unwrap().as_str(), record.raw("deleted_at")), ("open", None));
    }

    #[test]
    fn adding_to_and_removing_from_a_list_keeps_the_spelling_of_other_items() {
        let mut record = Record::parse(
            r#"{"id":"a-1","dependencies":[{ "depends_on_id":"b","type":"eats","n":1.50}],"comments":null}"#,
        )
        .unwrap();
        assert!(depend(&mut record, "c", DependencyKind::Blocks, NOW).unwrap());
        assert!(!depend(&mut record, "c", DependencyKind::Blocks, NOW).unwrap());
        assert!(
            record
                .raw("dependencies")
                .unwrap()
                .starts_with(r#"[{ "depends_on_id":"b","type":"eats","n":1.50},{"issue_id":"a-1""#)
        );
        assert!(undepend(&mut record, "c", None, NOW).unwrap());
        assert!(!undepend(&mut record, "c", None, NOW).unwrap());
        assert_eq!(record.raw("dependencies"), Some(r#"[{ "depends_on_id":"b","type":"eats","n":1.50}]"#));
        comment(&mut record, "c-1", "Hello", NOW).unwrap();
        assert_eq!(
            record.raw("comments"),
            Some(r#"[{"id":"c-1","author":"me","text":"Hello","created_at":"2026-01-01T00:00:00.000Z"}]"#)
        );
    }

    #[test]
    fn many_labels_and_dependencies_take_no_longer_than_reading_them() {
        let many: Vec<String> = (0..20_000).map(|number| format!("l{number}")).collect();
        let edit =
            Edit { title: Some("t".to_owned()), add_labels: [many.clone(), many.clone()].concat(), ..Edit::default() };
        let mut record = create("a", &edit, &Statuses::default(), NOW).unwrap();
        assert!(depend_on_all(&mut record, &many, DependencyKind::Blocks, NOW).unwrap());
        assert!(!depend_on_all(&mut record, &many, DependencyKind::Blocks, NOW).unwrap());
        let issue = read(&record).unwrap();
        assert_eq!((issue.labels.len(), issue.dependencies.len()), (many.len(), many.len()));
        let edit = Edit { remove_labels: many, ..Edit::default() };
        update(&mut record, &edit, &Statuses::default(), NOW).unwrap();
        assert_eq!(record.raw("labels"), None);
    }

    #[test]
    fn labels_are_a_set_and_unreadable_ones_stay() {
        let mut record = new();
        let edit = |add: &[&str], remove: &[&str]| Edit {
            add_labels: add.iter().map(|label| (*label).to_owned()).collect(),
            remove_labels: remove.iter().map(|label| (*label).to_owned()).collect(),
            ..Edit::default()
        };
        update(&mut record, &edit(&["b", "a", "b"], &[]), &statuses(), NOW).unwrap();
        assert_eq!(record.raw("labels"), Some(r#"["b","a"]"#));
        update(&mut record, &edit(&[], &["a", "b"]), &statuses(), NOW).unwrap();
        assert_eq!(record.raw("labels"), None);
        let mut odd = Record::parse(r#"{"id":"a","labels":["x", 1]}"#).unwrap();
        update(&mut odd, &edit(&["y"], &[]), &statuses(), NOW).unwrap();
        assert_eq!(odd.raw("labels"), Some(r#"["x",1,"y"]"#));
        let mut text = Record::parse(r#"{"id":"a","labels":"p,q"}"#).unwrap();
        assert_eq!(update(&mut text, &edit(&["y"], &[]), &statuses(), NOW).unwrap_err().kind(), Kind::Damaged);
        assert_eq!(update(&mut new(), &edit(&[" "], &[]), &statuses(), NOW).unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn setting_a_parent_removes_parent_dependencies() {
        let line = r#"{"id":"a","dependencies":[{"depends_on_id":"p","type":"child-of"},{"depends_on_id":"b","type":"blocks"}]}"#;
        let with = |parent: &str| Edit { parent_id: Some(parent.to_owned()), ..Edit::default() };
        let mut record = Record::parse(line).unwrap();
        update(&mut record, &with("q"), &statuses(), NOW).unwrap();
        assert_eq!(read(&record).unwrap().parent_id.as_deref(), Some("q"));
        assert_eq!(record.raw("dependencies"), Some(r#"[{"depends_on_id":"b","type":"blocks"}]"#));
        let mut record = Record::parse(line).unwrap();
        update(&mut record, &with(""), &statuses(), NOW).unwrap();
        assert_eq!(read(&record).unwrap().parent_id, None);
        assert!(depend(&mut record, "r", DependencyKind::ParentChild, NOW).unwrap());
        assert_eq!(read(&record).unwrap().parent_id.as_deref(), Some("r"));
    }

    #[test]
    fn delete_and_reopen_are_not_done_by_setting_a_status() {
        let status = |status: &str| Edit { status: Some(status.to_owned()), ..Edit::default() };
        assert_eq!(update(&mut new(), &status("tombstone"), &statuses(), NOW).unwrap_err().hints(), ["use way delete"]);
        let mut record = new();
        delete(&mut record, None, NOW).unwrap();
        assert_eq!(update(&mut record, &status("closed"), &statuses(), NOW).unwrap_err().kind(), Kind::Conflict);
        let mut stale = Record::parse(r#"{"id":"a","status":"open","closed_at":"2001-01-01T00:00:00Z"}"#).unwrap();
        close(&mut stale, None, &statuses(), NOW).unwrap();
        assert_eq!(stale.text("closed_at").unwrap(), "2026-01-01T00:00:00.000Z");
    }

    #[test]
    fn updated_at_grows_even_when_a_clock_is_behind() {
        let mut record = new();
        comment(&mut record, "c-1", "x", LATER).unwrap();
        comment(&mut record, "c-2", "y", NOW).unwrap();
        assert_eq!(record.text("updated_at").unwrap(), "2026-01-01T00:00:01.001Z");
    }

    #[test]
    fn an_unknown_status_is_refused_and_the_nearest_is_suggested() {
        let edit = Edit { status: Some("opne".to_owned()), ..Edit::default() };
        assert_eq!(update(&mut new(), &edit, &statuses(), NOW).unwrap_err().hints(), ["did you mean open?"]);
    }
}
