//! How much of an answer is worth an agent's attention, and the same in words.
//!
//! Some clients show their model the structured answer, others the text. So each says what matters, and both say little.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use waypost_core::time::Timestamp;

/// What an agent is told.
pub(super) struct Answer {
    /// For programs.
    pub(super) data: Value,
    /// The same in words.
    pub(super) text: String,
}

/// What is told of a task.
const TASK: &[&str] =
    &["id", "name", "workflow", "status", "issue", "attempts", "max_attempts", "due_at", "question", "error"];
/// What is told of an issue in a list.
const ISSUE: &[&str] = &["id", "title", "status", "priority", "issue_type", "assignee", "labels", "parent_id"];
/// What is told of a lease.
const LEASE: &[&str] = &["subject", "epoch", "expires_at"];
/// What is told of a message.
const MESSAGE: &[&str] = &["id", "from", "priority", "subject", "body", "task_id", "reply_to", "created_at"];

/// What is told of a workspace.
const WORKSPACE: &[&str] =
    &["id", "job_id", "task", "status", "path", "branch", "base", "size", "snapshot", "pr_url", "merge_commit", "note"];

/// Returns what an agent is told of the answer of an operation.
pub(super) fn shown(operation: &str, answer: Value) -> Answer {
    let (data, text) = match operation {
        "prime" | "get_context" => context(&answer),
        "claim_task" => claimed(&answer),
        "checkpoint_task" => checkpointed(&answer),
        "finish_task" | "fail_task" | "ask_question" | "release_task" => ended(&answer),
        "heartbeat" => alive(&answer),
        "list_inbox" => inbox(&answer),
        "send_message" => (picked(&answer, &["id", "thread", "subject"]), format!("sent as {}", word(&answer["id"]))),
        "ack_message" => acked(&answer),
        "get_status" => status(&answer),
        "show_workspace" => (picked(&answer, WORKSPACE), workspace(&answer)),
        "list_workspaces" => workspaces(&answer),
        "explain_issue" => issue_page(answer),
        _ if answer["issues"].is_array() => issues(&answer),
        _ => issue(&answer),
    };
    Answer { data: compact(data), text: text.trim_end().to_owned() }
}

fn workspace(one: &Value) -> String {
    let of = |field: &str| one[field].as_str().map_or_else(String::new, |text| format!(", {field} {text}"));
    format!("{} {}: {}{}{}", word(&one["id"]), word(&one["status"]), word(&one["path"]), of("branch"), of("task"))
}

fn workspaces(answer: &Value) -> (Value, String) {
    let all: Vec<_> = answer["workspaces"].as_array().into_iter().flatten().collect();
    let text = if all.is_empty() { "no workspaces".to_owned() } else { String::new() };
    let lines: Vec<_> = all.iter().map(|one| workspace(one)).collect();
    let data: Vec<_> =
        all.iter().map(|one| picked(one, &["id", "job_id", "task", "status", "path", "branch"])).collect();
    (json!({ "workspaces": data }), text + &lines.join("\n"))
}

fn context(answer: &Value) -> (Value, String) {
    (picked(answer, &["text", "tokens", "left_out"]), word(&answer["text"]))
}

fn claimed(answer: &Value) -> (Value, String) {
    let (task, lease) = (&answer["task"], &picked(&answer["lease"], LEASE));
    let data = json!({
        "task": picked(task, &["id", "name", "workflow", "issue", "attempts"]),
        "epoch": lease["epoch"],
        "expires_at": lease["expires_at"],
        "context": answer["context"]["text"],
        "warnings": answer["warnings"],
    });
    let mut text = format!(
        "claimed {} {}/{}, epoch {} until {}\n",
        word(&task["id"]),
        word(&task["workflow"]),
        word(&task["name"]),
        lease["epoch"],
        word(&lease["expires_at"]),
    );
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "warning: {}", word(warning));
    }
    let _ = write!(text, "\n{}", word(&answer["context"]["text"]));
    (data, text)
}

fn checkpointed(answer: &Value) -> (Value, String) {
    let (number, lease) = (&answer["checkpoint"]["sequence"], &picked(&answer["lease"], LEASE));
    let until = &lease["expires_at"];
    let data = json!({ "number": number, "epoch": lease["epoch"], "expires_at": until, "unread": answer["unread"] });
    (data, format!("noted as number {number}, lease until {}{}", word(until), unread(answer)))
}

fn ended(answer: &Value) -> (Value, String) {
    let mut data = picked(answer, TASK);
    let mut text = format!("{}/{}: {}", word(&answer["workflow"]), word(&answer["name"]), word(&answer["status"]));
    for key in ["closed_issue", "warnings"] {
        let value = &answer[key];
        if !value.is_null() {
            data[key] = value.clone();
            let _ = write!(text, "\n{}: {}", key.replace('_', " "), listed(value));
        }
    }
    (data, text)
}

fn alive(answer: &Value) -> (Value, String) {
    let leases = each(&answer["leases"], |lease| picked(lease, LEASE));
    let mut text = format!(
        "{} held{}, next within {} s",
        leases.len(),
        unread(answer),
        answer["next_ms"].as_u64().unwrap_or(0) / 1000
    );
    if answer["is_cancelled"] == json!(true) {
        text.insert_str(0, "the task was called off: stop working on it; ");
    }
    let data = json!({
        "leases": leases,
        "is_cancelled": answer["is_cancelled"],
        "unread": answer["unread"],
        "next_ms": answer["next_ms"],
    });
    (data, text)
}

fn inbox(answer: &Value) -> (Value, String) {
    let messages = each(&answer["messages"], |message| picked(message, MESSAGE));
    let mut text = format!("{} unread", answer["unread"]);
    for message in &messages {
        let (id, from) = (word(&message["id"]), word(&message["from"]));
        let _ = write!(text, "\n{id} from {from} [{}] {}", word(&message["priority"]), word(&message["subject"]));
        if message["body"] != message["subject"] {
            let _ = write!(text, "\n   {}", word(&message["body"]).replace('\n', "\n   "));
        }
    }
    (json!({ "messages": messages, "unread": answer["unread"] }), text)
}

fn acked(answer: &Value) -> (Value, String) {
    let ids = each(&answer["messages"], |message| message["id"].clone());
    let text = format!("{} acknowledged, {} unread", ids.len(), answer["unread"]);
    (json!({ "acked": ids, "unread": answer["unread"] }), text)
}

fn issues(answer: &Value) -> (Value, String) {
    let issues = each(&answer["issues"], |issue| picked(issue, ISSUE));
    let mut text = if issues.is_empty() { "none".to_owned() } else { String::new() };
    for issue in &issues {
        let _ = writeln!(text, "{}", issue_line(issue));
    }
    if answer["has_more"] == json!(true) {
        text.push_str("and more\n");
    }
    warn(answer, &mut text);
    (json!({ "issues": issues, "has_more": answer["has_more"], "warnings": answer["warnings"] }), text)
}

fn issue_page(answer: Value) -> (Value, String) {
    let mut text = issue_line(&answer["issue"]);
    for key in ["description", "design", "acceptance_criteria", "notes", "close_reason"] {
        let part = word(&answer["issue"][key]);
        if !part.is_empty() {
            let _ = write!(text, "\n{}: {part}", key.replace('_', " "));
        }
    }
    let reasons = listed(&answer["reasons"]);
    let _ = match reasons.as_str() {
        "" => write!(text, "\nready: {}", answer["ready"]),
        reasons => write!(text, "\nnot ready: {reasons}"),
    };
    for comment in answer["issue"]["comments"].as_array().into_iter().flatten() {
        let _ = write!(text, "\ncomment by {}: {}", word(&comment["author"]), word(&comment["text"]));
    }
    text.push('\n');
    warn(&answer, &mut text);
    (answer, text)
}

/// An issue that was changed, or that is somebody's now.
fn issue(answer: &Value) -> (Value, String) {
    let issue = if answer["issue"].is_object() { &answer["issue"] } else { answer };
    let mut data = json!({ "issue": picked(issue, ISSUE), "warnings": answer["warnings"] });
    let mut text = issue_line(issue);
    if answer["lease"].is_object() {
        data["lease"] = picked(&answer["lease"], &["epoch", "expires_at"]);
        let _ = write!(text, "\nyours until {}", word(&data["lease"]["expires_at"]));
    }
    text.push('\n');
    warn(answer, &mut text);
    (data, text)
}

fn issue_line(issue: &Value) -> String {
    let who = word(&issue["assignee"]);
    let who = if who.is_empty() { who } else { format!(" {who}") };
    format!("{} P{} {}{who}: {}", word(&issue["id"]), issue["priority"], word(&issue["status"]), word(&issue["title"]))
}

fn status(answer: &Value) -> (Value, String) {
    let task = |seen: &Value| format!("{}/{}", word(&seen["workflow"]), word(&seen["name"]));
    let mut data = Map::new();
    let mut text = String::new();
    let mut part = |key: &str, items: Vec<Value>, said: &dyn Fn(&Value) -> String| {
        let total = answer["totals"][key].as_u64().unwrap_or(0);
        if total == 0 {
            return;
        }
        let words: Vec<String> = items.iter().map(said).collect();
        let _ = writeln!(text, "{key} ({total}): {}", words.join("; "));
        data.insert(key.to_owned(), json!({ "total": total, "first": items }));
    };
    let tasks = |key: &str, fields: &[&str]| {
        each(&answer[key], |seen| {
            let mut one = picked(seen, fields);
            one["task"] = json!(task(seen));
            one["id"] = seen["id"].clone();
            one
        })
    };
    let with = |key: &'static str| move |one: &Value| format!("{} {}", word(&one["task"]), word(&one[key]));
    part("questions", tasks("questions", &["question"]), &with("question"));
    part("dead", tasks("dead", &["error"]), &with("error"));
    part("stuck", tasks("stuck", &["holder", "expires_at"]), &with("holder"));
    part("working", tasks("working", &["holder"]), &with("holder"));
    part("ready", tasks("ready", &["priority"]), &|one| word(&one["task"]));
    part("waiting", tasks("waiting", &["status"]), &with("status"));
    let workflows = each(&answer["workflows"], |seen| picked(seen, &["id", "name", "status", "done", "total"]));
    part("workflows", workflows, &|one| {
        format!("{} {} {}/{}", word(&one["name"]), word(&one["status"]), one["done"], one["total"])
    });
    let agents = each(&answer["agents"], |seen| picked(seen, &["name", "role", "status"]));
    part("agents", agents, &|one| format!("{} {}", word(&one["name"]), word(&one["status"])));
    let messages = each(&answer["messages"], |seen| picked(seen, &["id", "from", "subject"]));
    part("messages", messages, &|one| format!("from {}: {}", word(&one["from"]), word(&one["subject"])));
    let issues = each(&answer["issues"], |seen| json!({ "id": seen["subject"], "holder": seen["holder_name"] }));
    part("issues", issues, &|one| format!("{} {}", word(&one["id"]), word(&one["holder"])));
    if text.is_empty() {
        text.push_str("nothing goes on\n");
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

fn warn(answer: &Value, text: &mut String) {
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "warning: {}", word(warning));
    }
}

/// Returns some fields of an object.
fn picked(object: &Value, fields: &[&str]) -> Value {
    let some = fields.iter().map(|field| ((*field).to_owned(), said(field, &object[*field])));
    Value::Object(some.filter(|(_, value)| !value.is_null()).collect())
}

/// Returns a value as an agent understands it: a moment as a date and a time, and not in milliseconds.
fn said(field: &str, value: &Value) -> Value {
    match value.as_i64() {
        Some(millis) if field.ends_with("_at") => json!(Timestamp::from_millis(millis).to_string()),
        _ => value.clone(),
    }
}

fn each(list: &Value, shown: impl FnMut(&Value) -> Value) -> Vec<Value> {
    list.as_array().into_iter().flatten().map(shown).collect()
}

/// Returns a text without its quotation marks.
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn listed(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join("; "),
        other => word(other),
    }
}

/// Leaves out what says nothing.
fn compact(value: Value) -> Value {
    fn says_nothing(value: &Value) -> bool {
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
            Value::Object(fields.filter(|(_, value)| !says_nothing(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(compact).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_left_out() {
        let value = json!({ "a": null, "b": { "c": [] }, "d": 0, "e": false, "f": [null, { "g": "" }], "h": "x" });
        assert_eq!(compact(value), json!({ "d": 0, "e": false, "f": [null, {}], "h": "x" }));
    }

    #[test]
    fn a_lost_cause_is_said_first() {
        let answer = json!({ "leases": [], "is_cancelled": true, "unread": 2, "next_ms": 60_000 });
        let answer = shown("heartbeat", answer);
        assert_eq!(
            answer.text,
            "the task was called off: stop working on it; 0 held, 2 unread messages, next within 60 s"
        );
        assert_eq!(answer.data, json!({ "is_cancelled": true, "unread": 2, "next_ms": 60_000 }));
    }
}
