//! The routes of operations, derived from their names and arguments.
//!
//! Every operation answers at `POST /api/v1/op/NAME` with its arguments as the body. Public ones also have a REST path:
//! `list_tasks` is `GET /api/v1/tasks`, `show_task` is `GET /api/v1/tasks/{task}`, `finish_task` is `POST
//! /api/v1/tasks/{task}/finish`. [`ADDRESSES`] has those that do not follow from the name.

use axum::http::Method;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use waypost_core::op::{Audience, Description, Effect};
use waypost_core::{Error, Result, nearest};

/// The prefix of all paths of operations.
pub(crate) const ROOT: &str = "/api/v1";
/// The page size of a list unless the request sets `limit`.
const DEFAULT_LIMIT: u32 = 100;
/// The maximum `limit`; clients page through longer lists.
const MAX_LIMIT: u32 = 1_000;

/// Nouns with a path of their own.
const RESOURCES: &[&str] =
    &["task", "workflow", "issue", "message", "agent", "template", "worktree", "repository", "job", "workspace"];

/// Operations whose address does not follow from their name: changes of resources by the methods that HTTP has for them,
/// and parts of resources. The last name is the one from which the address of the version before follows; that address
/// stays valid for one version.
const ADDRESSES: &[(&str, Method, &str, Option<&str>)] = &[
    ("add_checkpoint", Method::POST, "tasks/{task}/checkpoints", Some("checkpoint_task")),
    ("add_comment", Method::POST, "issues/{issue}/comments", Some("comment_issue")),
    ("add_dependency", Method::POST, "issues/{issue}/dependencies", Some("depend_issue")),
    ("add_workflow_repository", Method::POST, "workflows/{workflow}/repositories", Some("add_workflow_repository")),
    ("answer_question", Method::POST, "tasks/{task}/answer", Some("answer_question")),
    ("ask_question", Method::POST, "tasks/{task}/ask", Some("ask_question")),
    ("list_blocked_issues", Method::GET, "issues/blocked", None),
    ("list_next_tasks", Method::GET, "tasks/next", None),
    ("list_ready_issues", Method::GET, "issues/ready", None),
    ("record_merge", Method::POST, "workflows/{workflow}/merge", Some("complete_merge")),
    ("register_agent", Method::POST, "agents", Some("register_agent")),
    ("remove_dependency", Method::DELETE, "issues/{issue}/dependencies/{on}", Some("undepend_issue")),
    ("remove_issue", Method::DELETE, "issues/{issue}", Some("delete_issue")),
    ("remove_repository", Method::DELETE, "repositories/{repository}", Some("remove_repository")),
    ("remove_task", Method::DELETE, "tasks/{task}", Some("remove_task")),
    (
        "remove_workflow_repository",
        Method::DELETE,
        "workflows/{workflow}/repositories/{repository}",
        Some("remove_workflow_repository"),
    ),
    ("remove_worktree", Method::DELETE, "worktrees/{id}", Some("remove_worktree")),
    ("remove_workspace", Method::DELETE, "workspaces/{workspace}", None),
    ("retire_agent", Method::DELETE, "agents/{agent}", Some("retire_agent")),
    ("show_workflow_summary", Method::GET, "workflows/{workflow}/summary", Some("summarize_workflow")),
    ("start_job", Method::POST, "jobs", None),
    ("update_issue", Method::PATCH, "issues/{issue}", Some("update_issue")),
    ("update_task", Method::PATCH, "tasks/{task}", None),
    ("update_job", Method::PATCH, "jobs/{job}", Some("note_job")),
];

/// An operation with its routes.
pub(crate) struct Op {
    pub(crate) about: Description,
    /// The schema of each argument.
    pub(crate) properties: Map<String, Value>,
    pub(crate) required: Vec<String>,
    pub(crate) rest: Rest,
}

/// The REST path of an operation.
pub(crate) struct Rest {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The path with the key in it, where the key is optional.
    pub(crate) named_path: Option<String>,
    /// The arguments that are part of the path, or of the path with the key in it.
    pub(crate) keys: Vec<String>,
    /// The method and the paths of the version before.
    pub(crate) former: Option<(Method, Vec<String>)>,
    /// The argument whose fields are query parameters: its name and its fields.
    pub(crate) nested: Option<(String, Map<String, Value>)>,
    /// Whether the answer is a list.
    pub(crate) is_list: bool,
}

impl Op {
    pub(crate) fn new(about: Description) -> Op {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let schema = (about.schema)(&mut settings.into_generator()).to_value();
        let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<String> = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let answer = answer_fields(&about);
        let rest = Rest::of(&about, &properties, &required, &answer);
        Op { about, properties, required, rest }
    }

    /// Returns whether it has a REST path.
    pub(crate) fn is_public(&self) -> bool {
        self.about.audience == Audience::Public
    }

    /// Rejects unknown arguments: the operation would ignore a misspelled name.
    pub(crate) fn check(&self, arguments: &Value) -> Result<()> {
        let name = self.about.name;
        let Value::Object(fields) = arguments else {
            return Err(Error::invalid(format!("the arguments of {name} must be an object")));
        };
        match fields.keys().find(|key| !self.properties.contains_key(*key)) {
            Some(unknown) => Err(unknown_argument(name, unknown, &self.properties)),
            None => Ok(()),
        }
    }

    /// Parses arguments from a query string.
    pub(crate) fn parse_query(&self, query: &[(String, String)]) -> Result<Map<String, Value>> {
        let (known, nested) = match &self.rest.nested {
            Some((name, fields)) => (fields, Some(name)),
            None => (&self.properties, None),
        };
        let mut arguments = Map::new();
        for (name, text) in query {
            let Some(schema) = known.get(name) else {
                return Err(unknown_argument(self.about.name, name, known));
            };
            let kind = kind(schema);
            if kind == Some("array") {
                let item = schema.get("items").and_then(self::kind);
                let list = serde_json::from_str::<Vec<String>>(text);
                let list = list.unwrap_or_else(|_| text.split(',').map(str::to_owned).collect());
                let items = list.iter().filter(|item| !item.is_empty());
                let items = items.map(|text| parse_value(name, text, item)).collect::<Result<Vec<_>>>()?;
                match arguments.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new())) {
                    Value::Array(all) => all.extend(items),
                    _ => unreachable!("the entry is an array"),
                }
            } else if arguments.insert(name.clone(), parse_value(name, text, kind)?).is_some() {
                return Err(Error::invalid(format!("duplicate parameter {name}")));
            }
        }
        if known.contains_key("limit") {
            let limit = arguments.entry("limit").or_insert_with(|| DEFAULT_LIMIT.into());
            if limit.as_u64().is_none_or(|limit| !(1..=u64::from(MAX_LIMIT)).contains(&limit)) {
                return Err(
                    Error::invalid(format!("limit must be 1 to {MAX_LIMIT}")).hint("request further pages for more")
                );
            }
        }
        Ok(match nested {
            Some(name) => Map::from_iter([(name.clone(), Value::Object(arguments))]),
            None => arguments,
        })
    }
}

impl Rest {
    fn of(
        about: &Description,
        properties: &Map<String, Value>,
        required: &[String],
        answer: &Map<String, Value>,
    ) -> Rest {
        let derived = Rest::derived(about, properties, required, answer);
        let address = ADDRESSES.iter().find(|(name, ..)| *name == about.name);
        let Some((_, method, path, former_name)) = address else { return derived };
        let keys = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let keys = keys.map(str::to_owned).collect();
        let former = former_name.map(|name| {
            let before = Rest::derived(&Description { name, ..*about }, properties, required, answer);
            (before.method, std::iter::once(before.path).chain(before.named_path).collect())
        });
        Rest { method: method.clone(), path: full_path(path), named_path: None, keys, former, ..derived }
    }

    /// Returns whether arguments are in the query string, not in the body.
    pub(crate) fn has_query(&self) -> bool {
        matches!(self.method, Method::GET | Method::DELETE)
    }

    /// Returns the noun that the path begins with.
    pub(crate) fn noun(&self) -> &str {
        let path = self.path.strip_prefix(ROOT).unwrap_or(&self.path).trim_start_matches('/');
        path.split('/').next().unwrap_or(path)
    }

    /// Derives the address from the name.
    fn derived(
        about: &Description,
        properties: &Map<String, Value>,
        required: &[String],
        answer: &Map<String, Value>,
    ) -> Rest {
        let is_read = about.effect == Effect::Read;
        let is_required_text = |name: &str| required.iter().any(|known| known == name) && is_text(&properties[name]);
        let mut named_path = None;
        let (path, key) = match about.name.split_once('_') {
            None => (about.name.to_owned(), None),
            Some((verb, noun)) => {
                let (noun, all) = (singular(noun), plural(noun));
                let is_resource = RESOURCES.contains(&noun.as_str());
                let key = [noun.as_str(), "name", "id"].into_iter().find(|name| is_resource && is_required_text(name));
                let key = key.map(str::to_owned);
                // A noun that is not a resource belongs to one.
                let owner = RESOURCES.iter().copied().find(|resource| !is_resource && is_required_text(resource));
                match (verb, key, owner) {
                    ("list", _, Some(owner)) => {
                        (format!("{}/{{{owner}}}/{all}", plural(owner)), Some(owner.to_owned()))
                    }
                    ("show", _, Some(owner)) => {
                        (format!("{}/{{{owner}}}/{noun}", plural(owner)), Some(owner.to_owned()))
                    }
                    (_, _, Some(owner)) => {
                        (format!("{}/{{{owner}}}/{verb}-{noun}", plural(owner)), Some(owner.to_owned()))
                    }
                    ("list", ..) if is_read => (all, None),
                    ("show", None, None) if !is_resource => (noun, None),
                    ("create" | "add" | "send" | "save", ..) => (all, None),
                    ("show", Some(key), _) => (format!("{all}/{{{key}}}"), Some(key)),
                    (_, Some(key), _) => (format!("{all}/{{{key}}}/{verb}"), Some(key)),
                    (_, None, None) if is_resource && properties.get(&noun).is_some_and(is_text) => {
                        named_path = Some(full_path(&format!("{all}/{{{noun}}}/{verb}")));
                        (format!("{all}/{verb}"), Some(noun))
                    }
                    (_, None, None) => (format!("{all}/{verb}"), None),
                }
            }
        };
        let nested = match properties.iter().collect::<Vec<_>>().as_slice() {
            [(name, schema)] if kind(schema) == Some("object") => {
                let fields = schema.get("properties").and_then(Value::as_object).cloned();
                fields.map(|fields| ((*name).clone(), fields))
            }
            _ => None,
        };
        let is_list = is_read && has_one_list(about, answer);
        let method = if is_read { Method::GET } else { Method::POST };
        let keys = key.into_iter().collect();
        Rest { method, path: full_path(&path), named_path, keys, former: None, nested, is_list }
    }
}

/// Returns the schema of each field of an answer.
fn answer_fields(about: &Description) -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = (about.answer_schema)(&mut settings.into_generator()).to_value();
    schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns whether an answer is one list, perhaps with a cursor.
fn has_one_list(about: &Description, answer: &Map<String, Value>) -> bool {
    let is_listing = about.name.starts_with("list_") || about.name.ends_with('s');
    is_listing && answer.values().filter(|field| kind(field) == Some("array")).count() == 1
}

/// Adds the prefix, and replaces underscores by dashes except in arguments.
fn full_path(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { part.to_owned() } else { part.replace('_', "-") };
    std::iter::once(ROOT.to_owned()).chain(path.split('/').map(part)).collect::<Vec<_>>().join("/")
}

fn unknown_argument(operation: &str, unknown: &str, known: &Map<String, Value>) -> Error {
    let error = Error::invalid(format!("unknown field {unknown:?} for {operation}"));
    match nearest::nearest(unknown, known.keys().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None if known.is_empty() => error.hint(format!("{operation} takes no arguments")),
        None => error.hint(format!("expected one of: {}", known.keys().cloned().collect::<Vec<_>>().join(", "))),
    }
}

/// Parses a query parameter according to its schema.
fn parse_value(name: &str, text: &str, kind: Option<&str>) -> Result<Value> {
    let mismatch = |expected: &str| Error::invalid(format!("{name} must be {expected}, not {text:?}"));
    match kind {
        Some("integer") => text.parse::<u64>().map(Value::from).map_err(|_| mismatch("a whole number")),
        Some("number") => text.parse::<f64>().map(Value::from).map_err(|_| mismatch("a number")),
        Some("boolean") => text.parse::<bool>().map(Value::from).map_err(|_| mismatch("true or false")),
        _ => Ok(Value::from(text)),
    }
}

/// Returns the type of a schema, ignoring `null`.
pub(crate) fn kind(schema: &Value) -> Option<&str> {
    let one = |value: &Value| -> Option<String> { value.as_str().filter(|kind| *kind != "null").map(str::to_owned) };
    let found = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().find_map(one),
        Some(kind) => one(kind),
        None => {
            let any = schema.get("anyOf").and_then(Value::as_array);
            return any.into_iter().flatten().find_map(kind);
        }
    };
    ["integer", "number", "boolean", "array", "object", "string"]
        .into_iter()
        .find(|kind| Some(*kind) == found.as_deref())
}

fn is_text(schema: &Value) -> bool {
    kind(schema) == Some("string")
}

fn singular(noun: &str) -> String {
    match noun.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None if noun.ends_with("us") => noun.to_owned(),
        None => noun.strip_suffix('s').unwrap_or(noun).to_owned(),
    }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with('s') || noun == "inbox" || noun == "maintenance" => noun.to_owned(),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn op(name: &str) -> Op {
        Op::new(waypost::app::operations().find(|about| about.name == name).expect("the operation exists"))
    }

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_operation_has_a_unique_path() {
        let ops: Vec<Op> = waypost::app::operations().map(Op::new).filter(Op::is_public).collect();
        let paths: BTreeSet<_> = ops.iter().map(|op| (op.rest.method.to_string(), op.rest.path.clone())).collect();
        assert_eq!(paths.len(), ops.len());
        for (name, ..) in ADDRESSES {
            assert!(ops.iter().any(|op| op.about.name == *name), "{name} is no public operation");
        }
    }

    #[test]
    fn paths_follow_from_names() {
        for (name, method, path) in [
            ("list_tasks", Method::GET, "/api/v1/tasks"),
            ("show_task", Method::GET, "/api/v1/tasks/{task}"),
            ("claim_task", Method::POST, "/api/v1/tasks/claim"),
            ("finish_task", Method::POST, "/api/v1/tasks/{task}/finish"),
            ("list_next_tasks", Method::GET, "/api/v1/tasks/next"),
            ("list_repositories", Method::GET, "/api/v1/repositories"),
            ("show_template", Method::GET, "/api/v1/templates/{name}"),
            ("show_status", Method::GET, "/api/v1/status"),
            ("list_inbox", Method::POST, "/api/v1/inbox/list"),
            ("heartbeat", Method::POST, "/api/v1/heartbeat"),
            ("show_context", Method::GET, "/api/v1/tasks/{task}/context"),
            ("list_checkpoints", Method::GET, "/api/v1/tasks/{task}/checkpoints"),
            ("update_issue", Method::PATCH, "/api/v1/issues/{issue}"),
            ("remove_worktree", Method::DELETE, "/api/v1/worktrees/{id}"),
            ("remove_dependency", Method::DELETE, "/api/v1/issues/{issue}/dependencies/{on}"),
            ("add_workflow", Method::POST, "/api/v1/workflows"),
            ("list_ready_issues", Method::GET, "/api/v1/issues/ready"),
            ("show_log", Method::GET, "/api/v1/jobs/{job}/log"),
            ("start_job", Method::POST, "/api/v1/jobs"),
            ("update_job", Method::PATCH, "/api/v1/jobs/{job}"),
        ] {
            let rest = op(name).rest;
            assert_eq!((rest.method, rest.path.as_str()), (method, path), "{name}");
        }
        assert_eq!(op("claim_task").rest.named_path.as_deref(), Some("/api/v1/tasks/{task}/claim"));
        assert_eq!(op("finish_task").rest.named_path, None);
        assert_eq!(op("remove_dependency").rest.keys, ["issue", "on"]);
        for (name, path) in [
            ("ask_question", "/api/v1/tasks/{task}/ask-question"),
            ("remove_issue", "/api/v1/issues/{issue}/delete"),
            ("record_merge", "/api/v1/workflows/{workflow}/complete-merge"),
            ("update_job", "/api/v1/jobs/{job}/note"),
        ] {
            assert_eq!(op(name).rest.former.unwrap(), (Method::POST, vec![path.to_owned()]), "{name}");
        }
    }

    #[test]
    fn query_parameters_are_parsed_according_to_their_schema() {
        let arguments = |name: &str, pairs: &[(&str, &str)]| op(name).parse_query(&query(pairs)).map(Value::Object);
        assert_eq!(arguments("list_tasks", &[("statuses", "[\"pending\"]")]).unwrap()["statuses"], json!(["pending"]));
        assert_eq!(
            arguments("list_tasks", &[("statuses", "pending,dead"), ("claimable", "true"), ("limit", "5")]).unwrap(),
            json!({ "statuses": ["pending", "dead"], "claimable": true, "limit": 5 })
        );
        assert_eq!(arguments("list_tasks", &[]).unwrap(), json!({ "limit": 100 }));
        assert_eq!(
            arguments("list_events", &[("since", "7"), ("subject", "7")]).unwrap(),
            json!({ "query": { "since": 7, "subject": "7", "limit": 100 } })
        );
        for (pairs, message) in [
            (&[("limt", "5")][..], "unknown field \"limt\" for list_tasks"),
            (&[("limit", "x")], "limit must be a whole number, not \"x\""),
            (&[("limit", "1001")], "limit must be 1 to 1000"),
            (&[("limit", "0")], "limit must be 1 to 1000"),
            (&[("limit", "1"), ("limit", "2")], "duplicate parameter limit"),
            (&[("claimable", "yes")], "claimable must be true or false, not \"yes\""),
        ] {
            assert_eq!(arguments("list_tasks", pairs).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn unknown_arguments_are_rejected() {
        let claim = op("claim_task");
        assert!(claim.check(&json!({ "workflow": "x" })).is_ok());
        let error = claim.check(&json!({ "worklow": "x" })).unwrap_err();
        assert_eq!(error.hints(), ["did you mean workflow?"]);
        assert!(claim.check(&json!([])).is_err());
    }
}
