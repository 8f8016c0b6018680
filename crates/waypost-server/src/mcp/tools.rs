//! The MCP tools: each is a name, one or more operations, and a choice of their fields.
//!
//! Types, enums and required fields come from the operations. Every agent reads all tools at the beginning of every
//! session, so descriptions are short, and a field has one only where its name is not enough.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use waypost_core::nearest::nearest;
use waypost_core::op::{Description, Effect};
use waypost_core::{Error, Result};

use super::answers::{self, Shorten};

type Arguments = Map<String, Value>;

/// An MCP tool.
#[derive(Clone, Copy)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// The argument whose word names the action. Without one, the first action whose required fields are given runs.
    choice: Option<&'static str>,
    actions: &'static [Action],
    /// Whether repeating a write changes nothing more.
    repeats_safely: bool,
}

/// An operation of a tool.
#[derive(Clone, Copy)]
struct Action {
    /// The word that names it; empty if the tool has no choice.
    word: &'static str,
    operation: &'static str,
    /// Shortens the answer.
    shorten: Shorten,
    fields: &'static [Field],
    /// Further fields, the same as those of another action.
    shared: &'static [Field],
}

/// A field of an operation, as an argument of a tool.
#[derive(Clone, Copy)]
struct Field {
    /// The name of the argument.
    name: &'static str,
    /// The name in the operation.
    target: &'static str,
    description: &'static str,
    /// The value unless the caller gives one.
    default: Option<fn() -> Value>,
    /// The operation gets the argument multiplied by it.
    factor: Option<u64>,
    /// Whether the tool requires it although the operation does not.
    is_required: bool,
    /// Whether it always has the default and is not an argument.
    is_fixed: bool,
}

/// The operation that a call of a tool runs.
pub(super) struct ToolCall {
    pub(super) operation: &'static str,
    pub(super) arguments: Value,
    pub(super) key: Option<String>,
    /// Shortens the answer.
    pub(super) shorten: Shorten,
}

/// The argument with the name of the calling agent. Every tool has it.
pub(super) const AGENT: &str = "agent";
/// The idempotency key. It belongs to the call, not to the operation.
const KEY: Field = field("key").described("idempotency key, safe to retry");
const BUDGET: Field = field("budget").described("tokens");
const LIMIT: Field = field("limit").or(|| json!(10));
const AFTER: Field = field("after").described("next of the page before");
const REPO: Field = field("repo");
const TASK: Field = field("task");
const EVIDENCE: Field = field("evidence").described("proof that it is done");
const HOPELESS: Field = field("hopeless").described("fail: do not retry");
const EPOCH: Field = field("epoch").required();
const WORKSPACE: Field = field("workspace").described("id of the workspace or of its job");
const ISSUE: Field = field("id").of("issue");
/// Models also write it as P1.
const PRIORITY: Field = field("priority").described("0 (highest) to 4");
const ISSUE_FIELDS: &[Field] = &[
    field("title"),
    field("description"),
    field("acceptance").of("acceptance_criteria"),
    field("type").of("issue_type").described("bug, feature, task, epic, chore"),
    PRIORITY,
    field("status"),
    field("assignee"),
    field("labels"),
    field("parent"),
];

/// All tools.
pub(super) static TABLE: &[Tool] = &[
    tool(
        "prime",
        "Your tasks, your unread messages, and how to work here. Call it first, and after your context was compacted.",
        &[only("prime", answers::context, &[BUDGET.or(|| json!(350)), field("tools").fixed(|| json!(true))])],
    ),
    tool(
        "next",
        "Claim a task and get its context: the named one, else the most urgent ready one. Remember its epoch. Claiming \
         a task you hold renews the lease.",
        &[only(
            "claim_task",
            answers::claimed,
            &[
                TASK.described("id, name or workflow/name"),
                field("workflow"),
                field("repo").of("repository").described("in a shared store; all for any"),
                field("minutes").of("ttl_ms").times(60_000).described("lease duration, default 10"),
                BUDGET.or(|| json!(800)),
            ],
        )],
    ),
    tool(
        "context",
        "Context of a task: plan, checkpoints, outcomes of its dependencies, messages.",
        &[only("show_context", answers::context, &[TASK, BUDGET.or(|| json!(2_000))])],
    ),
    tool(
        "checkpoint",
        "Record the progress of a task, so that another agent could continue. Renews the lease.",
        &[only(
            "add_checkpoint",
            answers::checkpointed,
            &[
                TASK,
                EPOCH,
                field("summary").described("one line"),
                field("type").of("kind").or(|| json!("progress")),
                field("detail").described("text, or JSON as text"),
                field("files").described("changed"),
                field("tokens").described("used so far"),
                KEY,
            ],
        )],
    ),
    tool(
        "finish",
        "End your work on a task: done with the outcome, fail with the error, ask a person a question, or release it \
         unfinished.",
        &[
            action("done", "finish_task", answers::ended, &[TASK, EPOCH, text_of("outcome"), EVIDENCE, KEY]),
            action("fail", "fail_task", answers::ended, &[TASK, EPOCH, text_of("error"), HOPELESS, KEY]),
            action("ask", "ask_question", answers::ended, &[TASK, EPOCH, text_of("question"), KEY]),
            action("release", "release_task", answers::ended, &[TASK, EPOCH, text_of("reason"), KEY]),
        ],
    )
    .chosen_by("how")
    .repeatable(),
    tool(
        "heartbeat",
        "Renew your leases, or one task's. Returns whether the task was cancelled and how many messages are unread.",
        &[only("heartbeat", answers::alive, &[TASK, field("epoch")])],
    )
    .repeatable(),
    tool(
        "messages",
        "inbox: your messages until you ack them. send: text to an agent, or in reply_to a message. ack: mark ids as \
         done.",
        &[
            action("inbox", "list_inbox", answers::inbox, &[LIMIT, AFTER]),
            action(
                "send",
                "send_message",
                answers::sent,
                &[
                    field("to"),
                    field("text").of("body"),
                    field("subject"),
                    field("priority"),
                    TASK,
                    field("reply_to"),
                    KEY,
                ],
            ),
            action("ack", "ack_message", answers::acked, &[field("ids").of("messages"), KEY]),
        ],
    )
    .chosen_by("do"),
    tool(
        "issues",
        "Read the project's issues. ready: can be started now. list: open ones. search: by words. show: id.",
        &[
            action("ready", "list_ready_issues", answers::issues, &[LIMIT, AFTER, REPO]),
            action(
                "list",
                "list_issues",
                answers::issues,
                &[field("status").of("statuses"), field("labels"), field("parent"), LIMIT, AFTER, REPO],
            ),
            action("search", "search_issues", answers::issues, &[field("words").of("text"), LIMIT, AFTER, REPO]),
            action(
                "show",
                "explain_issue",
                answers::issue_page,
                &[ISSUE, field("budget").or(|| json!(2_000)), AFTER, REPO],
            ),
        ],
    )
    .chosen_by("do"),
    tool(
        "issue",
        "Change the project's issues. add: title and fields. update: id and fields. close: reason in text. comment: \
         text. claim: work on it without a workflow. depend: id depends on on.",
        &[
            action("add", "add_issue", answers::issue, &[field("blocked_by"), field("discovered_from"), REPO, KEY])
                .and(ISSUE_FIELDS),
            action("update", "update_issue", answers::issue, &[ISSUE, REPO, KEY]).and(ISSUE_FIELDS),
            action("close", "close_issue", answers::issue, &[ISSUE, field("text").of("reason"), REPO, KEY]),
            action("reopen", "reopen_issue", answers::issue, &[ISSUE, REPO, KEY]),
            action("comment", "add_comment", answers::issue, &[ISSUE, field("text"), REPO, KEY]),
            action("claim", "claim_issue", answers::issue, &[ISSUE, REPO, KEY]),
            action("release", "release_issue", answers::issue, &[ISSUE, field("force"), REPO, KEY]),
            action("depend", "add_dependency", answers::issue, &[ISSUE, field("on"), REPO, KEY]),
        ],
    )
    .chosen_by("do"),
    tool(
        "workspace",
        "Path, branch and results of a job's workspace. Without workspace: list all.",
        &[
            only("show_workspace", answers::workspace, &[WORKSPACE]),
            only("list_workspaces", answers::workspaces, &[LIMIT, AFTER]),
        ],
    ),
    tool(
        "status",
        "Status of all agents and worktrees: tasks that need a person, are stuck, in progress or ready.",
        &[only("show_status", answers::status, &[field("limit").or(|| json!(5)).described("per kind")])],
    ),
];

const fn tool(name: &'static str, description: &'static str, actions: &'static [Action]) -> Tool {
    Tool { name, description, choice: None, actions, repeats_safely: false }
}

/// An action that needs no word.
const fn only(operation: &'static str, shorten: Shorten, fields: &'static [Field]) -> Action {
    action("", operation, shorten, fields)
}

const fn action(word: &'static str, operation: &'static str, shorten: Shorten, fields: &'static [Field]) -> Action {
    Action { word, operation, shorten, fields, shared: &[] }
}

const fn field(name: &'static str) -> Field {
    Field { name, target: name, description: "", default: None, factor: None, is_required: false, is_fixed: false }
}

/// The argument `text` of `finish`.
const fn text_of(target: &'static str) -> Field {
    field("text").of(target).required().described("outcome, error, question or reason")
}

impl Field {
    const fn of(self, target: &'static str) -> Field {
        Field { target, ..self }
    }

    const fn described(self, description: &'static str) -> Field {
        Field { description, ..self }
    }

    const fn or(self, default: fn() -> Value) -> Field {
        Field { default: Some(default), ..self }
    }

    const fn fixed(self, value: fn() -> Value) -> Field {
        Field { default: Some(value), is_fixed: true, ..self }
    }

    const fn times(self, factor: u64) -> Field {
        Field { factor: Some(factor), ..self }
    }

    const fn required(self) -> Field {
        Field { is_required: true, ..self }
    }

    /// Returns the value of the operation's field.
    fn convert(&self, value: Value) -> Result<Value> {
        let Some(factor) = self.factor else { return Ok(value) };
        let number = value.as_u64().filter(|number| *number > 0);
        let number = number.ok_or_else(|| Error::invalid(format!("{} must be at least 1", self.name)))?;
        Ok(json!(number.saturating_mul(factor)))
    }
}

/// The operations of all tools, each with the schema of its fields.
static OPERATIONS: LazyLock<BTreeMap<&'static str, (Description, Value)>> = LazyLock::new(|| {
    let schema = |about: &Description| {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        (about.schema)(&mut settings.into_generator()).to_value()
    };
    let used: Vec<_> = TABLE.iter().flat_map(|tool| tool.actions).map(|action| action.operation).collect();
    let operations = waypost::app::operations().filter(|about| used.contains(&about.name));
    operations.map(|about| (about.name, (about, schema(&about)))).collect()
});

impl Action {
    const fn and(self, shared: &'static [Field]) -> Action {
        Action { shared, ..self }
    }

    /// Returns the schema of its operation.
    fn schema(&self) -> &'static Value {
        OPERATIONS.get(self.operation).map_or(&Value::Null, |(_, schema)| schema)
    }

    fn is_read(&self) -> bool {
        OPERATIONS.get(self.operation).is_some_and(|(about, _)| about.effect == Effect::Read)
    }

    fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().chain(self.shared)
    }

    /// Returns the fields that are arguments of the tool.
    fn arguments(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields().filter(|field| !field.is_fixed)
    }

    /// Returns the arguments that the caller must give.
    fn required(&self) -> impl Iterator<Item = &'static str> + use<> {
        let by_operation = self.schema()["required"].as_array().map_or(&[][..], Vec::as_slice);
        let is_required =
            move |field: &&Field| field.is_required || by_operation.iter().any(|name| name == field.target);
        self.arguments().filter(|field| field.default.is_none()).filter(is_required).map(|field| field.name)
    }

    /// Returns the schema of an argument.
    fn schema_of(&self, field: &Field) -> Value {
        let mut schema = match field.target {
            target if target == KEY.target => json!({ "type": "string" }),
            target => simplify(&self.schema()["properties"][target]),
        };
        if !field.description.is_empty() {
            schema["description"] = json!(field.description);
        }
        schema
    }
}

/// Reduces a schema to what a model needs: the words of an enum, or the type and that of its items. Clients reject a field
/// without a type, so one that takes any value is shown as text.
fn simplify(schema: &Value) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return enum_of(words.iter().filter(|word| !word.is_null()).cloned());
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap_or(&Value::Null),
        kind => kind,
    };
    match (kind, &schema["items"]) {
        (Value::Null, _) => json!({ "type": "string" }),
        (kind, Value::Null) => json!({ "type": kind }),
        (kind, items) => json!({ "type": kind, "items": simplify(items) }),
    }
}

fn enum_of<W: Into<Value>>(words: impl Iterator<Item = W>) -> Value {
    json!({ "type": "string", "enum": words.map(Into::into).collect::<Vec<Value>>() })
}

/// Returns whether a field of an operation takes any value.
fn takes_any(schema: &Value) -> bool {
    ["type", "enum", "anyOf", "oneOf", "$ref"].iter().all(|key| schema[key].is_null())
}

/// Converts a value to the type of its argument, where the meaning is clear: models write numbers as text, and one element
/// instead of a list.
fn coerce(name: &str, schema: &Value, value: Value) -> Result<Value> {
    let wrong = |expected: &str| Err(Error::invalid(format!("{name} must be {expected}, not {value}")));
    match (schema["type"].as_str().unwrap_or_default(), &value) {
        ("integer", Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(value),
        ("integer", _) => {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
            let digits = if name == PRIORITY.name { text.trim_start_matches(['P', 'p']) } else { &text };
            // Some clients send every number as a float.
            let digits = digits.strip_suffix(".0").unwrap_or(digits);
            digits.parse::<i64>().map_or_else(|_| wrong("a number"), |number| Ok(json!(number)))
        }
        ("boolean", Value::Bool(_)) => Ok(value),
        ("boolean", Value::String(text)) if text == "true" || text == "false" => Ok(json!(text == "true")),
        ("boolean", _) => wrong("true or false"),
        ("array", Value::Array(_)) => {
            let Value::Array(items) = value else { return Ok(value) };
            let items = items.into_iter().map(|item| coerce(name, &schema["items"], item));
            items.collect::<Result<Vec<_>>>().map(Value::Array)
        }
        ("array", Value::String(text)) => match serde_json::from_str(text) {
            Ok(list @ Value::Array(_)) => coerce(name, schema, list),
            _ => Ok(json!([value])),
        },
        ("array", _) => wrong("a list"),
        ("string", Value::String(word)) => match schema["enum"].as_array() {
            Some(words) if !words.contains(&value) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                Err(suggest(Error::invalid(format!("invalid value {value} for {name}")), word, &words))
            }
            _ => Ok(value),
        },
        ("string", Value::Number(number)) if schema["enum"].is_null() => Ok(json!(number.to_string())),
        ("string", _) => wrong("a text"),
        _ => Ok(value),
    }
}

/// Returns the tool with this name.
pub(super) fn named(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}

impl Tool {
    const fn chosen_by(self, argument: &'static str) -> Tool {
        Tool { choice: Some(argument), ..self }
    }

    const fn repeatable(self) -> Tool {
        Tool { repeats_safely: true, ..self }
    }

    /// Returns whether all its operations only read.
    pub(super) fn is_read_only(&self) -> bool {
        self.actions.iter().all(Action::is_read)
    }

    /// Returns whether repeating a call changes nothing more.
    pub(super) fn is_idempotent(&self) -> bool {
        self.repeats_safely || self.is_read_only()
    }

    fn words(&self) -> Vec<&'static str> {
        self.actions.iter().map(|action| action.word).collect()
    }

    /// Returns its arguments, each with a schema.
    fn properties(&self) -> Arguments {
        let agent = json!({ "type": "string", "description": "your own name" });
        let mut properties = Arguments::from_iter([(AGENT.to_owned(), agent)]);
        if let Some(choice) = self.choice {
            properties.insert(choice.to_owned(), enum_of(self.words().into_iter()));
        }
        for action in self.actions {
            for field in action.arguments() {
                properties.entry(field.name).or_insert_with(|| action.schema_of(field));
            }
        }
        properties
    }

    /// Returns the arguments that every action requires.
    fn required(&self) -> Vec<&'static str> {
        let [first, others @ ..] = self.actions else { return Vec::new() };
        let by_all = |name: &&'static str| others.iter().all(|action| action.required().any(|other| other == *name));
        self.choice.into_iter().chain(first.required().filter(by_all)).collect()
    }

    /// Returns the schema of its arguments. A write needs the name of an agent, unless the caller has one already.
    pub(super) fn schema(&self, has_agent: bool) -> Arguments {
        let mut schema = Arguments::from_iter([("type".to_owned(), json!("object"))]);
        schema.insert("properties".to_owned(), Value::Object(self.properties()));
        let agent = (!has_agent && !self.is_read_only()).then_some(AGENT);
        let required: Vec<_> = agent.into_iter().chain(self.required()).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema
    }

    /// Converts arguments to the types of the schema. Rejects unknown arguments and missing required ones.
    pub(super) fn accept(&self, arguments: Arguments) -> Result<Arguments> {
        let properties = self.properties();
        if let Some(unknown) = arguments.keys().find(|key| !properties.contains_key(*key)) {
            let error = Error::invalid(format!("unknown field {unknown:?} for {}", self.name));
            return Err(suggest(error, unknown, &properties.keys().map(String::as_str).collect::<Vec<_>>()));
        }
        require(&arguments, self.required(), self.name)?;
        let coerced = arguments.into_iter().map(|(name, value)| {
            let value = if self.takes_any(&name) { value } else { coerce(&name, &properties[&name], value)? };
            Ok((name, value))
        });
        coerced.collect()
    }

    /// Returns whether an argument may have any value.
    fn takes_any(&self, name: &str) -> bool {
        let mut uses = self.actions.iter().flat_map(|action| action.arguments().map(move |field| (action, field)));
        let found = uses.find(|(_, field)| field.name == name && field.target != KEY.target);
        found.is_some_and(|(action, field)| takes_any(&action.schema()["properties"][field.target]))
    }

    /// Translates its arguments into those of an operation.
    pub(super) fn translate(&self, mut arguments: Arguments) -> Result<ToolCall> {
        let action = self.take_action(&mut arguments)?;
        let mut passed = Arguments::new();
        for field in action.fields() {
            let value = match arguments.remove(field.name) {
                Some(value) => Some(field.convert(value)?),
                None => field.default.map(|default| default()),
            };
            if let Some(value) = value {
                passed.insert(field.target.to_owned(), value);
            }
        }
        let key = match passed.remove(KEY.target) {
            None => None,
            Some(Value::String(key)) => Some(key),
            Some(_) => return Err(Error::invalid("key must be a string")),
        };
        let Action { operation, shorten, .. } = *action;
        Ok(ToolCall { operation, arguments: Value::Object(passed), key, shorten })
    }

    /// Finds the action of a call, and removes the argument that names it.
    fn take_action(&self, arguments: &mut Arguments) -> Result<&'static Action> {
        let Some(choice) = self.choice else {
            let fits = |action: &&Action| action.required().all(|name| arguments.contains_key(name));
            let action = self.actions.iter().find(fits);
            return action.ok_or_else(|| Error::invalid(format!("missing fields for {}", self.name)));
        };
        let word = arguments.remove(choice).unwrap_or_default();
        let Some(action) = self.actions.iter().find(|action| word == action.word) else {
            let error = Error::invalid(format!("invalid value {word} for {choice}"));
            return Err(suggest(error, word.as_str().unwrap_or_default(), &self.words()));
        };
        // An argument of another action would be ignored.
        let names: Vec<_> = action.arguments().map(|field| field.name).collect();
        if let Some(extra) = arguments.keys().find(|key| !names.contains(&key.as_str())) {
            return Err(Error::invalid(format!("unknown field {extra:?} for {}", action.word))
                .hint(format!("expected one of: {}", names.join(", "))));
        }
        require(arguments, action.required(), action.word)?;
        Ok(action)
    }
}

/// Adds the word nearest to an unknown one, or all words, as a hint.
fn suggest(error: Error, unknown: &str, words: &[&str]) -> Error {
    match nearest(unknown, words.iter().copied()) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(format!("expected one of: {}", words.join(", "))),
    }
}

/// Rejects missing arguments.
fn require(arguments: &Arguments, required: impl IntoIterator<Item = &'static str>, of: &str) -> Result<()> {
    match required.into_iter().find(|name| !arguments.contains_key(*name)) {
        Some(missing) => Err(Error::invalid(format!("missing field {missing:?} for {of}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use waypost_core::op::Audience;

    use super::*;

    /// Returns the contradictions between a tool and its operations.
    fn problems(tool: &Tool) -> Vec<String> {
        let words: BTreeSet<_> = tool.words().into_iter().collect();
        let is_named = words.len() == tool.actions.len() && !words.contains("");
        let is_unnamed = words.into_iter().eq([""]);
        let mut problems = Vec::new();
        if !(if tool.choice.is_some() { is_named } else { is_unnamed }) {
            problems.push("the words of its actions".to_owned());
        }
        for action in tool.actions {
            match OPERATIONS.get(action.operation) {
                None => problems.push(format!("no operation {}", action.operation)),
                Some((about, _)) if about.audience != Audience::Public => {
                    problems.push(format!("{} is internal", about.name));
                }
                Some(_) => problems.extend(field_problems(tool, action)),
            }
        }
        problems
    }

    fn field_problems(tool: &Tool, action: &Action) -> Vec<String> {
        let (schema, properties) = (action.schema(), tool.properties());
        let mut problems = Vec::new();
        let mut targets = BTreeSet::new();
        for field in action.fields().filter(|field| field.target != "key") {
            let (name, target) = (field.name, field.target);
            let (whole, simple) = (&schema["properties"][target], simplify(&schema["properties"][target]));
            for (is_wrong, problem) in [
                (!whole.is_object(), format!("no field {target}")),
                (!targets.insert(target), format!("{target} twice")),
                (
                    whole["type"].is_null() && whole["enum"].is_null() && !takes_any(whole),
                    format!("{target} has no type"),
                ),
                (!field.is_fixed && properties[name] != action.schema_of(field), format!("two kinds of {name}")),
                (field.factor.is_some() && simple["type"] != "integer", format!("{target} is no number")),
                (field.default.is_some_and(|default| !fits(&default(), &simple)), format!("the default of {target}")),
            ] {
                problems.extend(is_wrong.then_some(problem));
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        problems.extend(required.filter(|name| !targets.contains(name)).map(|name| format!("{name} is missing")));
        problems
    }

    fn fits(value: &Value, schema: &Value) -> bool {
        match value {
            Value::Bool(_) => schema["type"] == "boolean",
            Value::Number(_) => schema["type"] == "integer",
            _ => schema["enum"].as_array().is_some_and(|words| words.contains(value)),
        }
    }

    #[test]
    fn every_argument_has_a_type_and_no_further_ones_are_allowed() {
        for tool in TABLE {
            let schema = Value::Object(tool.schema(false));
            assert_eq!(schema["additionalProperties"], json!(false), "{}", tool.name);
            for (name, schema) in schema["properties"].as_object().unwrap() {
                assert!(schema["type"].is_string(), "{} {name}: {schema}", tool.name);
            }
        }
    }

    #[test]
    fn values_are_converted_where_their_meaning_is_clear() {
        for (tool, given, accepted) in [
            ("heartbeat", json!({ "epoch": "7" }), json!({ "epoch": 7 })),
            ("heartbeat", json!({ "epoch": 7.0 }), json!({ "epoch": 7 })),
            ("issue", json!({ "do": "add", "priority": "P1" }), json!({ "do": "add", "priority": 1 })),
            ("issue", json!({ "do": "add", "labels": "a" }), json!({ "do": "add", "labels": ["a"] })),
            ("issue", json!({ "do": "add", "labels": "[\"a\",\"b\"]" }), json!({ "do": "add", "labels": ["a", "b"] })),
            ("issue", json!({ "do": "release", "force": "true" }), json!({ "do": "release", "force": true })),
            ("context", json!({ "task": 12 }), json!({ "task": "12" })),
            (
                "checkpoint",
                json!({ "task": "a", "epoch": 1, "summary": "s", "detail": { "any": 1 } }),
                json!({ "task": "a", "epoch": 1, "summary": "s", "detail": { "any": 1 } }),
            ),
        ] {
            assert_eq!(Value::Object(named(tool).unwrap().accept(arguments(given)).unwrap()), accepted);
        }
        for (tool, given, message) in [
            ("heartbeat", json!({ "epoch": "one" }), "epoch must be a number, not \"one\""),
            ("heartbeat", json!({ "epoch": 1.5 }), "epoch must be a number, not 1.5"),
            ("context", json!({ "task": ["a"] }), "task must be a text, not [\"a\"]"),
            ("issue", json!({ "do": "add", "labels": 7 }), "labels must be a list, not 7"),
            ("issue", json!({ "do": "release", "force": 1 }), "force must be true or false, not 1"),
            ("issue", json!({ "do": "ad" }), "invalid value \"ad\" for do"),
        ] {
            assert_eq!(named(tool).unwrap().accept(arguments(given)).unwrap_err().full_message(), message);
        }
    }

    #[test]
    fn every_tool_agrees_with_its_operations() {
        for tool in TABLE {
            assert_eq!(problems(tool), [""; 0], "{}", tool.name);
        }
    }

    #[test]
    fn a_row_that_contradicts_its_operation_is_found() {
        static WRONG: &[(&[Action], &str)] = &[
            (&[only("finsh_task", answers::ended, &[])], "no operation finsh_task"),
            (&[finish(&[TASK, text_of("outcom")])], "no field outcom"),
            (&[finish(&[TASK, text_of("outcome"), field("evidnce")])], "no field evidnce"),
            (&[finish(&[text_of("outcome")])], "task is missing"),
            (&[finish(&[TASK, TASK, text_of("outcome")])], "task twice"),
            (&[finish(&[TASK.times(2), text_of("outcome")])], "task is no number"),
            (&[finish(&[TASK.or(|| json!(1)), text_of("outcome")])], "the default of task"),
            (&[finish(RIGHT), action("x", "prime", answers::context, &[])], "the words of its actions"),
            (&[finish(RIGHT), only("prime", answers::context, &[TASK.of("budget")])], "two kinds of task"),
        ];
        static RIGHT: &[Field] = &[TASK, text_of("outcome"), KEY];
        const fn finish(fields: &'static [Field]) -> Action {
            only("finish_task", answers::ended, fields)
        }
        for (actions, problem) in WRONG {
            assert_eq!(problems(&tool("t", "", actions)).first().map(String::as_str), Some(*problem));
        }
    }

    fn arguments(value: Value) -> Arguments {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_schema_of_a_tool_comes_from_its_operations() {
        let schema = Value::Object(named("messages").unwrap().schema(true));
        let properties = &schema["properties"];
        assert_eq!(schema["required"], json!(["do"]), "no field is required by every action");
        assert_eq!(properties["do"], json!({ "type": "string", "enum": ["inbox", "send", "ack"] }));
        let priorities = json!({ "type": "string", "enum": ["low", "normal", "high", "urgent"] });
        assert_eq!(properties["priority"], priorities, "nullable");
        assert_eq!(properties["ids"], json!({ "type": "array", "items": { "type": "string" } }), "a list of ids");
        assert_eq!(properties["reply_to"], json!({ "type": "string" }), "a nullable id");
        let schema = Value::Object(named("checkpoint").unwrap().schema(false));
        assert_eq!(schema["required"], json!(["agent", "task", "epoch", "summary"]), "the type has a default");
        let any = json!({ "type": "string", "description": "text, or JSON as text" });
        assert_eq!(schema["properties"]["detail"], any, "any value");
        let prime = named("prime").unwrap().schema(false);
        assert!(!prime.contains_key("required"), "a read needs no agent");
        assert_eq!(prime["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["agent", "budget"]);
    }

    #[test]
    fn hints_follow_from_the_operations() {
        let all =
            |is: fn(&Tool) -> bool| TABLE.iter().filter(|tool| is(tool)).map(|tool| tool.name).collect::<Vec<_>>();
        assert_eq!(all(Tool::is_read_only), ["prime", "context", "issues", "workspace", "status"]);
        let idempotent = ["prime", "context", "finish", "heartbeat", "issues", "workspace", "status"];
        assert_eq!(all(Tool::is_idempotent), idempotent);
    }

    #[test]
    fn a_call_is_translated_into_the_fields_of_its_operation() {
        for (tool, given, operation, passed) in [
            ("prime", json!({}), "prime", json!({ "budget": 350, "tools": true })),
            ("next", json!({ "minutes": 2, "budget": 9 }), "claim_task", json!({ "ttl_ms": 120_000, "budget": 9 })),
            ("issues", json!({ "do": "show", "id": "a" }), "explain_issue", json!({ "issue": "a", "budget": 2_000 })),
            ("issues", json!({ "do": "list" }), "list_issues", json!({ "limit": 10 })),
            (
                "issue",
                json!({ "do": "close", "id": "a", "text": "b" }),
                "close_issue",
                json!({ "issue": "a", "reason": "b" }),
            ),
            ("workspace", json!({}), "list_workspaces", json!({ "limit": 10 })),
            ("workspace", json!({ "workspace": "a", "limit": 3 }), "show_workspace", json!({ "workspace": "a" })),
        ] {
            let call = named(tool).unwrap().translate(arguments(given)).unwrap();
            assert_eq!((call.operation, call.arguments, call.key), (operation, passed, None));
        }
        let ack = json!({ "do": "ack", "ids": ["m"], "key": "k" });
        let ack = named("messages").unwrap().translate(arguments(ack)).unwrap();
        assert_eq!((ack.arguments, ack.key.as_deref()), (json!({ "messages": ["m"] }), Some("k")));
        let none = named("next").unwrap().translate(arguments(json!({ "minutes": 0 }))).err().unwrap();
        assert_eq!(none.full_message(), "minutes must be at least 1");
    }

    #[test]
    fn unknown_and_missing_arguments_of_a_tool_are_rejected() {
        let next = named("next").unwrap();
        let error = next.accept(arguments(json!({ "taks": "a" }))).unwrap_err();
        assert_eq!(
            (error.full_message().as_str(), error.hints()),
            ("unknown field \"taks\" for next", &["did you mean task?".to_owned()][..])
        );
        assert!(named("prime").unwrap().accept(arguments(json!({ "tools": false }))).is_err(), "not an argument");
        let error = named("checkpoint").unwrap().accept(arguments(json!({ "task": "a" }))).unwrap_err();
        assert_eq!(error.full_message(), "missing field \"epoch\" for checkpoint");
        let refused = |tool: &str, value: Value| named(tool).unwrap().translate(arguments(value)).err().unwrap();
        let error = refused("finish", json!({ "task": "a", "how": "dnoe", "text": "x" }));
        assert_eq!(error.hints(), ["did you mean done?"]);
        let error = refused("finish", json!({ "task": "a", "how": "ask", "text": "x", "evidence": "y" }));
        assert_eq!(error.full_message(), "unknown field \"evidence\" for ask");
        assert_eq!(refused("issue", json!({ "do": "close" })).full_message(), "missing field \"id\" for close");
    }
}
