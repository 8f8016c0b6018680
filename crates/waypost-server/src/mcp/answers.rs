//! Shortens answers for the context window of an agent, as JSON and as text.
//!
//! Some clients show their model the structured answer, others the text. So each has the essentials, and both are
//! short.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use waypost::app::Reply;
use waypost_core::Error;
use waypost_core::escape::{escape, escape_lines, quoted, word};
use waypost_core::words::count;

/// The answer of a tool.
pub(super) struct Answer {
    /// The structured content.
    pub(super) data: Value,
    /// The same as text.
    pub(super) text: String,
}

/// Fields of a task.
const TASK_FIELDS: &[&str] =
    &["id", "name", "workflow", "status", "issue", "attempts", "max_attempts", "due_at", "question", "error"];
/// Fields of an issue in a list.
const ISSUE_FIELDS: &[&str] = &["id", "title", "status", "priority", "issue_type", "assignee", "labels", "parent_id"];
/// Fields of a lease.
const LEASE_FIELDS: &[&str] = &["subject", "epoch", "expires_at"];
/// Fields of a message.
const MESSAGE_FIELDS: &[&str] = &["id", "from", "priority", "subject", "body", "task_id", "reply_to", "created_at"];

/// Fields of a workspace.
const WORKSPACE_FIELDS: &[&str] =
    &["id", "job_id", "task", "status", "path", "branch", "base", "size", "snapshot", "pr_url", "merge_commit", "note"];

/// Reduces an answer to the fields an agent needs, and says the same as text.
pub(super) type Shorten = fn(&Value) -> (Value, String);

/// Shortens a reply, and adds its warnings.
pub(super) fn answer(shorten: Shorten, Reply { answer, warnings }: &Reply) -> Answer {
    let (mut data, shown) = shorten(answer);
    let mut text = String::new();
    for warning in warnings {
        let _ = writeln!(text, "warning: {}", escape(warning));
    }
    if let (false, Value::Object(fields)) = (warnings.is_empty(), &mut data) {
        fields.insert("warnings".to_owned(), json!(warnings));
    }
    text.push_str(shown.trim_end());
    Answer { data: escape_all(compact(data)), text }
}

/// Says that there is no task, and offers ready issues instead.
pub(super) fn nothing_to_do(error: &Error, issues_reply: Option<&Reply>) -> Answer {
    let why = error.full_message();
    let mut data = json!({ "nothing_to_do": why });
    let mut text = format!("nothing_to_do: {}", escape(&why));
    let found = issues_reply.map(|reply| issues(&reply.answer));
    if let Some((found, lines)) =
        found.filter(|(found, _)| found["issues"].as_array().is_some_and(|all| !all.is_empty()))
    {
        data["ready_issues"] = found["issues"].clone();
        let _ = write!(text, "\nThese issues are ready. To work on one: tool issue, do claim, with its id.\n{lines}");
    }
    Answer { data: escape_all(compact(data)), text }
}

pub(super) fn workspace(answer: &Value) -> (Value, String) {
    (pick(answer, WORKSPACE_FIELDS), workspace_line(answer))
}

fn workspace_line(one: &Value) -> String {
    let of = |field: &str| one[field].as_str().map_or_else(String::new, |text| format!(", {field} {}", escape(text)));
    format!("{} {}: {}{}{}", line(&one["id"]), line(&one["status"]), line(&one["path"]), of("branch"), of("task"))
}

pub(super) fn workspaces(answer: &Value) -> (Value, String) {
    let all: Vec<_> = answer["workspaces"].as_array().into_iter().flatten().collect();
    let text = if all.is_empty() { "no workspaces".to_owned() } else { String::new() };
    let lines: Vec<_> = all.iter().map(|one| workspace_line(one)).collect();
    let data: Vec<_> = all.iter().map(|one| pick(one, &["id", "job_id", "task", "status", "path", "branch"])).collect();
    with_next(answer, json!({ "workspaces": data }), text + &lines.join("\n"))
}

pub(super) fn context(answer: &Value) -> (Value, String) {
    (pick(answer, &["text", "tokens", "left_out"]), plain(&answer["text"]))
}

pub(super) fn claimed(answer: &Value) -> (Value, String) {
    let (task, lease) = (&answer["task"], &pick(&answer["lease"], LEASE_FIELDS));
    let data = json!({
        "task": pick(task, &["id", "name", "workflow", "issue", "attempts"]),
        "epoch": lease["epoch"],
        "expires_at": lease["expires_at"],
        "context": answer["context"]["text"],
    });
    let mut text = format!(
        "claimed {} {}/{}, epoch {} until {}\n",
        line(&task["id"]),
        line(&task["workflow"]),
        line(&task["name"]),
        lease["epoch"],
        end_of(&lease["expires_at"]),
    );
    let _ = write!(text, "\n{}", plain(&answer["context"]["text"]));
    (data, text)
}

/// Describes the end of a lease: null means that it lasts until it is released.
fn end_of(expires_at: &Value) -> String {
    if expires_at.is_null() { "it is released".to_owned() } else { plain(expires_at) }
}

pub(super) fn checkpointed(answer: &Value) -> (Value, String) {
    let (number, lease) = (&answer["checkpoint"]["sequence"], &pick(&answer["lease"], LEASE_FIELDS));
    let until = &lease["expires_at"];
    let data = json!({ "number": number, "epoch": lease["epoch"], "expires_at": until, "unread": answer["unread"] });
    (data, format!("checkpoint {number} saved, lease until {}{}", end_of(until), unread(answer)))
}

pub(super) fn ended(answer: &Value) -> (Value, String) {
    let mut data = pick(answer, TASK_FIELDS);
    let mut text = format!("{}/{}: {}", line(&answer["workflow"]), line(&answer["name"]), line(&answer["status"]));
    if let Some(issue) = answer["closed_issue"].as_str() {
        data["closed_issue"] = json!(issue);
        let _ = write!(text, "\nclosed issue: {}", word(issue));
    }
    (data, text)
}

pub(super) fn alive(answer: &Value) -> (Value, String) {
    let leases = map_items(&answer["leases"], |lease| pick(lease, LEASE_FIELDS));
    let mut text = format!(
        "{} held{}, next heartbeat within {} s",
        count(leases.len(), "lease"),
        unread(answer),
        answer["next_ms"].as_u64().unwrap_or(0) / 1000
    );
    if answer["is_cancelled"] == json!(true) {
        text.insert_str(0, "the task was cancelled: stop working on it; ");
    }
    let data = json!({
        "leases": leases,
        "is_cancelled": answer["is_cancelled"],
        "unread": answer["unread"],
        "next_ms": answer["next_ms"],
    });
    (data, text)
}

pub(super) fn inbox(answer: &Value) -> (Value, String) {
    let messages = map_items(&answer["messages"], |message| pick(message, MESSAGE_FIELDS));
    let mut text = format!("{} unread", answer["unread"]);
    for message in &messages {
        let (id, from, priority) = (plain(&message["id"]), one_word(&message["from"]), plain(&message["priority"]));
        let mut said = plain(&message["subject"]);
        if message["body"] != message["subject"] {
            let _ = write!(said, "\n{}", plain(&message["body"]));
        }
        let _ = write!(text, "\n{}", quoted(&format!("{id} from {from} [{priority}]"), &said));
    }
    with_next(answer, json!({ "messages": messages, "unread": answer["unread"] }), text)
}

pub(super) fn sent(answer: &Value) -> (Value, String) {
    (pick(answer, &["id", "thread", "subject"]), format!("sent as {}", plain(&answer["id"])))
}

pub(super) fn acked(answer: &Value) -> (Value, String) {
    let ids = map_items(&answer["messages"], |message| message["id"].clone());
    let text = format!("{} acknowledged, {} unread", ids.len(), answer["unread"]);
    (json!({ "acked": ids, "unread": answer["unread"] }), text)
}

pub(super) fn issues(answer: &Value) -> (Value, String) {
    let issues = map_items(&answer["issues"], |issue| pick(issue, ISSUE_FIELDS));
    let mut text = if issues.is_empty() { "none".to_owned() } else { String::new() };
    for issue in &issues {
        let _ = writeln!(text, "{}", issue_line(issue));
    }
    if answer["has_more"] == json!(true) {
        text.push_str("more issues exist\n");
    }
    with_next(answer, json!({ "issues": issues, "has_more": answer["has_more"] }), text)
}

pub(super) fn issue_page(answer: &Value) -> (Value, String) {
    let mut text = issue_line(&answer["issue"]);
    for key in ["description", "design", "acceptance_criteria", "notes", "close_reason"] {
        let part = plain(&answer["issue"][key]);
        if !part.is_empty() {
            let _ = write!(text, "\n{}", quoted(&key.replace('_', " "), &part));
        }
    }
    let reasons = join(&answer["reasons"]);
    let _ = match reasons.as_str() {
        "" => write!(text, "\nready: {}", answer["ready"]),
        // They name other issues.
        reasons => write!(text, "\n{}", quoted("not ready", &escape(reasons))),
    };
    for comment in answer["issue"]["comments"].as_array().into_iter().flatten() {
        let said = format!("{}: {}", line(&comment["author"]), plain(&comment["text"]));
        let _ = write!(text, "\n{}", quoted("comment", &said));
    }
    let left_out = join(&answer["left_out"]);
    if !left_out.is_empty() {
        let _ = write!(text, "\nleft out: {}; a larger budget shows more", escape(&left_out));
    }
    with_next(answer, answer.clone(), text)
}

/// Shortens the answer of a change to an issue, or of a claim.
pub(super) fn issue(answer: &Value) -> (Value, String) {
    let issue = if answer["issue"].is_object() { &answer["issue"] } else { answer };
    let mut data = json!({ "issue": pick(issue, ISSUE_FIELDS) });
    let mut text = issue_line(issue);
    if answer["lease"].is_object() {
        data["lease"] = pick(&answer["lease"], &["epoch", "expires_at"]);
        let _ = write!(text, "\nclaimed until {}", end_of(&data["lease"]["expires_at"]));
    }
    text.push('\n');
    (data, text)
}

fn issue_line(issue: &Value) -> String {
    let assignee = plain(&issue["assignee"]);
    let assignee = if assignee.is_empty() { assignee } else { format!(" (assigned to {assignee})") };
    let about = format!("{} P{} {}", one_word(&issue["id"]), issue["priority"], one_word(&issue["status"]));
    quoted(&about, &escape(&format!("{}{assignee}", plain(&issue["title"]))))
}

pub(super) fn status(answer: &Value) -> (Value, String) {
    let task = |seen: &Value| format!("{}/{}", plain(&seen["workflow"]), plain(&seen["name"]));
    let mut data = Map::new();
    let mut text = String::new();
    let mut part = |key: &str, items: Vec<Value>, render: &dyn Fn(&Value) -> String| {
        let total = answer["totals"][key].as_u64().unwrap_or(0);
        if total == 0 {
            return;
        }
        let lines: Vec<String> = items.iter().map(render).collect();
        let _ = writeln!(text, "{key} ({total}): {}", escape(&lines.join("; ")));
        data.insert(key.to_owned(), json!({ "total": total, "first": items }));
    };
    let tasks = |key: &str, fields: &[&str]| {
        map_items(&answer[key], |seen| {
            let mut one = pick(seen, fields);
            one["task"] = json!(task(seen));
            one["id"] = seen["id"].clone();
            one
        })
    };
    let with = |key: &'static str| move |one: &Value| format!("{} {}", plain(&one["task"]), plain(&one[key]));
    let quoting = |key: &'static str| move |one: &Value| format!("{} | {}", plain(&one["task"]), plain(&one[key]));
    part("questions", tasks("questions", &["question"]), &quoting("question"));
    part("dead", tasks("dead", &["error"]), &quoting("error"));
    part("stuck", tasks("stuck", &["holder", "expires_at"]), &with("holder"));
    part("working", tasks("working", &["holder"]), &with("holder"));
    part("ready", tasks("ready", &["priority"]), &|one| plain(&one["task"]));
    part("waiting", tasks("waiting", &["status"]), &with("status"));
    let workflows = map_items(&answer["workflows"], |seen| pick(seen, &["id", "name", "status", "done", "total"]));
    part("workflows", workflows, &|one| {
        format!("{} {} {}/{}", plain(&one["name"]), plain(&one["status"]), one["done"], one["total"])
    });
    let agents = map_items(&answer["agents"], |seen| pick(seen, &["name", "role", "status"]));
    part("agents", agents, &|one| format!("{} {}", plain(&one["name"]), plain(&one["status"])));
    let messages = map_items(&answer["messages"], |seen| pick(seen, &["id", "from", "subject"]));
    part("messages", messages, &|one| format!("from {} | {}", plain(&one["from"]), plain(&one["subject"])));
    let issues =
        map_items(&answer["issues_in_work"], |seen| json!({ "id": seen["subject"], "holder": seen["holder_name"] }));
    part("issues", issues, &|one| format!("{} {}", one_word(&one["id"]), plain(&one["holder"])));
    if text.is_empty() {
        text.push_str("no tasks, agents or messages\n");
    }
    let row = |row: &Value| pick(row, &["kind", "id", "name", "chip", "reason", "since"]);
    let group = |group: &Value| {
        let rows = map_items(&group["rows"], row);
        json!({ "group": group["group"], "total": group["total"], "rows": rows })
    };
    // An agent pays for every word: groups without rows are left out.
    let groups = map_items(&answer["groups"], group);
    let groups: Vec<Value> = groups.into_iter().filter(|group| group["total"] != 0).collect();
    if !groups.is_empty() {
        let count = |group: &Value| format!("{} {}", plain(&group["group"]), group["total"]);
        let _ = writeln!(text, "groups: {}", groups.iter().map(count).collect::<Vec<_>>().join(", "));
        data.insert("groups".to_owned(), Value::Array(groups));
    }
    (Value::Object(data), text)
}

fn unread(answer: &Value) -> String {
    match answer["unread"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => ", 1 unread message".to_owned(),
        Some(count) => format!(", {count} unread messages"),
    }
}

/// Adds the position of the next page, if there is one.
fn with_next(answer: &Value, mut data: Value, mut text: String) -> (Value, String) {
    if let Some(next) = answer["next"].as_str() {
        data["next"] = json!(next);
        let _ = write!(text, "{}next page: after {next}", if text.ends_with('\n') { "" } else { "\n" });
    }
    (data, text)
}

/// Returns these fields of an object, without those that are null.
fn pick(object: &Value, fields: &[&str]) -> Value {
    let values = fields.iter().map(|field| ((*field).to_owned(), object[*field].clone()));
    Value::Object(values.filter(|(_, value)| !value.is_null()).collect())
}

fn map_items(list: &Value, convert: impl FnMut(&Value) -> Value) -> Vec<Value> {
    list.as_array().into_iter().flatten().map(convert).collect()
}

/// Formats a value, a string without quotation marks.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats a value in one line.
fn line(value: &Value) -> String {
    escape(&plain(value)).into_owned()
}

/// Formats a value as one word, for a line in which it stands before quoted text.
fn one_word(value: &Value) -> String {
    word(&plain(value)).into_owned()
}

/// Escapes the texts in a value; line breaks stay.
fn escape_all(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(escape_lines(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(escape_all).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (escape(&key).into_owned(), escape_all(value))).collect()
        }
        other => other,
    }
}

fn join(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        other => plain(other),
    }
}

/// Removes empty fields.
fn compact(value: Value) -> Value {
    fn is_empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, compact(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(compact).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_removed() {
        let value = json!({ "a": null, "b": { "c": [] }, "d": 0, "e": false, "f": [null, { "g": "" }], "h": "x" });
        assert_eq!(compact(value), json!({ "d": 0, "e": false, "f": [null, {}], "h": "x" }));
    }

    #[test]
    fn a_cancelled_task_is_reported_first() {
        let answer = json!({ "leases": [], "is_cancelled": true, "unread": 2, "next_ms": 60_000 });
        let answer = super::answer(alive, &Reply::of(answer));
        assert_eq!(
            answer.text,
            "the task was cancelled: stop working on it; 0 leases held, 2 unread messages, next heartbeat within 60 s"
        );
        assert_eq!(answer.data, json!({ "is_cancelled": true, "unread": 2, "next_ms": 60_000 }));
    }
}
