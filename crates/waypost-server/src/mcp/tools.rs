//! The MCP tools: their descriptions, their arguments, and the operations they run.
//!
//! Every agent reads all of them at the beginning of every session, so descriptions are short.

use std::str::FromStr;

use serde_json::{Map, Value, json};
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};

/// Default budget of `prime`, in tokens.
const DEFAULT_PRIME_TOKENS: u32 = 350;
/// Default budget of the context of a claimed task, in tokens.
const DEFAULT_CLAIM_TOKENS: u32 = 800;
/// Default budget of `context`, in tokens.
const DEFAULT_CONTEXT_TOKENS: u32 = 2_000;

type Arguments = Map<String, Value>;

/// An MCP tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// Its arguments: each name with a JSON schema.
    properties: &'static [(&'static str, &'static str)],
    required: &'static [&'static str],
    pub(super) is_read_only: bool,
    pub(super) is_destructive: bool,
    pub(super) is_idempotent: bool,
    /// Translates its arguments into those of an operation.
    pub(super) translate: fn(Arguments) -> Result<ToolCall>,
}

/// The operation that a call of a tool runs.
pub(super) struct ToolCall {
    pub(super) operation: &'static str,
    pub(super) arguments: Value,
    pub(super) key: Option<String>,
}

const TEXT: &str = r#"{"type":"string"}"#;
const TEXTS: &str = r#"{"type":"array","items":{"type":"string"}}"#;
const NUMBER: &str = r#"{"type":"integer"}"#;
const BOOLEAN: &str = r#"{"type":"boolean"}"#;
const BUDGET: &str = r#"{"type":"integer","description":"tokens"}"#;
const KEY: &str = r#"{"type":"string","description":"idempotency key, safe to retry"}"#;

/// All tools.
pub(super) static TABLE: &[Tool] = &[
    Tool {
        name: "prime",
        description: "Your tasks, your unread messages, and how to work here. Call it first, and after your context was \
                      compacted.",
        properties: &[("agent", TEXT), ("budget", BUDGET)],
        required: &[],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        translate: |mut arguments| {
            arguments.insert("tools".to_owned(), json!(true));
            with_budget("prime", arguments, DEFAULT_PRIME_TOKENS)
        },
    },
    Tool {
        name: "next",
        description: "Claim a task and get its context: the named one, else the most urgent ready one. Remember its \
                      epoch. Claiming a task you hold renews the lease.",
        properties: &[
            ("agent", TEXT),
            ("task", r#"{"type":"string","description":"id, name or workflow/name"}"#),
            ("workflow", TEXT),
            ("minutes", r#"{"type":"integer","description":"lease duration, default 10"}"#),
            ("budget", BUDGET),
        ],
        required: &[],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: false,
        translate: |mut arguments| {
            if let Some(minutes) = arguments.remove("minutes") {
                let minutes = minutes.as_u64().filter(|minutes| *minutes > 0);
                let minutes = minutes.ok_or_else(|| Error::invalid("minutes must be at least 1"))?;
                arguments.insert("ttl_ms".to_owned(), json!(minutes.saturating_mul(60_000)));
            }
            with_budget("claim_task", arguments, DEFAULT_CLAIM_TOKENS)
        },
    },
    Tool {
        name: "context",
        description: "Context of a task: plan, checkpoints, outcomes of its dependencies, messages.",
        properties: &[("agent", TEXT), ("task", TEXT), ("budget", BUDGET)],
        required: &["task"],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        translate: |arguments| with_budget("get_context", arguments, DEFAULT_CONTEXT_TOKENS),
    },
    Tool {
        name: "checkpoint",
        description: "Record the progress of a task, so that another agent could continue. Renews the lease.",
        properties: &[
            ("agent", TEXT),
            ("task", TEXT),
            ("epoch", NUMBER),
            ("summary", r#"{"type":"string","description":"one line"}"#),
            ("type", r#"{"enum":["plan","replan","progress","decision","error","recovery","complete"]}"#),
            ("detail", r#"{"description":"text or JSON"}"#),
            ("files", r#"{"type":"array","items":{"type":"string"},"description":"changed"}"#),
            ("tokens", r#"{"type":"integer","description":"used so far"}"#),
            ("key", KEY),
        ],
        required: &["task", "epoch", "summary"],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: false,
        translate: |mut arguments| {
            let kind = arguments.remove("type").unwrap_or_else(|| json!("progress"));
            arguments.insert("kind".to_owned(), kind);
            tool_call("checkpoint_task", arguments)
        },
    },
    Tool {
        name: "finish",
        description: "End your work on a task: done with the outcome, fail with the error, ask a person a question, or \
                      release it unfinished.",
        properties: &[
            ("agent", TEXT),
            ("task", TEXT),
            ("epoch", NUMBER),
            ("how", r#"{"enum":["done","fail","ask","release"]}"#),
            ("text", r#"{"type":"string","description":"outcome, error, question or reason"}"#),
            ("evidence", r#"{"type":"string","description":"proof that it is done"}"#),
            ("hopeless", r#"{"type":"boolean","description":"fail: do not retry"}"#),
            ("key", KEY),
        ],
        required: &["task", "epoch", "how", "text"],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: true,
        translate: |mut arguments| {
            let (operation, name, takes): (_, _, &[&str]) = match take_choice(&mut arguments, "how", OUTCOMES)? {
                "done" => ("finish_task", "outcome", &["evidence"]),
                "fail" => ("fail_task", "error", &["hopeless"]),
                "ask" => ("ask_question", "question", &[]),
                _ => ("release_task", "reason", &[]),
            };
            require_only(&arguments, operation, &[&["task", "epoch", "text", "key"], takes].concat())?;
            rename(&mut arguments, "text", name);
            tool_call(operation, arguments)
        },
    },
    Tool {
        name: "heartbeat",
        description: "Renew your leases, or one task's. Returns whether the task was cancelled and how many messages are \
                      unread.",
        properties: &[("agent", TEXT), ("task", TEXT), ("epoch", NUMBER)],
        required: &[],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: true,
        translate: |arguments| tool_call("heartbeat", arguments),
    },
    Tool {
        name: "messages",
        description: "inbox: your messages until you ack them. send: text to an agent, or in reply_to a message. ack: \
                      mark ids as done.",
        properties: &[
            ("agent", TEXT),
            ("do", r#"{"enum":["inbox","send","ack"]}"#),
            ("to", TEXT),
            ("text", TEXT),
            ("subject", TEXT),
            ("priority", r#"{"enum":["low","normal","high","urgent"]}"#),
            ("task", TEXT),
            ("reply_to", TEXT),
            ("ids", TEXTS),
            ("limit", NUMBER),
            ("key", KEY),
        ],
        required: &["do"],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: false,
        translate: |mut arguments| match take_choice(&mut arguments, "do", MESSAGE_ACTIONS)? {
            "inbox" => {
                require_only(&arguments, "inbox", &["limit"])?;
                arguments.entry("limit").or_insert(json!(10));
                tool_call("list_inbox", arguments)
            }
            "ack" => {
                require_only(&arguments, "ack", &["ids", "key"])?;
                rename(&mut arguments, "ids", "messages");
                tool_call("ack_message", arguments)
            }
            _ => {
                require_only(&arguments, "send", &["to", "text", "subject", "priority", "task", "reply_to", "key"])?;
                rename(&mut arguments, "text", "body");
                tool_call("send_message", arguments)
            }
        },
    },
    Tool {
        name: "issues",
        description: "Read the project's issues. ready: can be started now. list: open ones. search: by words. show: id.",
        properties: &[
            ("agent", TEXT),
            ("do", r#"{"enum":["ready","list","search","show"]}"#),
            ("id", r#"{"type":"string","description":"or a unique prefix"}"#),
            ("words", TEXT),
            ("status", TEXTS),
            ("labels", TEXTS),
            ("parent", TEXT),
            ("limit", NUMBER),
            ("repo", TEXT),
        ],
        required: &["do"],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        translate: |mut arguments| {
            let (operation, takes): (_, &[&str]) = match take_choice(&mut arguments, "do", ISSUE_QUERIES)? {
                "ready" => ("ready_issues", &["limit"]),
                "list" => ("list_issues", &["status", "labels", "parent", "limit"]),
                "search" => ("search_issues", &["words", "limit"]),
                _ => ("explain_issue", &["id"]),
            };
            require_only(&arguments, operation, &[&["repo"], takes].concat())?;
            if operation != "explain_issue" {
                arguments.entry("limit").or_insert(json!(10));
            }
            for (from, to) in [("id", "issue"), ("status", "statuses"), ("words", "text")] {
                rename(&mut arguments, from, to);
            }
            tool_call(operation, arguments)
        },
    },
    Tool {
        name: "issue",
        description: "Change the project's issues. add: title and fields. update: id and fields. close: reason in text. \
                      comment: text. claim: work on it without a workflow. depend: id depends on on.",
        properties: &[
            ("agent", TEXT),
            ("do", r#"{"enum":["add","update","close","reopen","comment","claim","release","depend"]}"#),
            ("id", TEXT),
            ("title", TEXT),
            ("description", TEXT),
            ("acceptance", TEXT),
            ("type", r#"{"type":"string","description":"bug, feature, task, epic, chore"}"#),
            ("priority", r#"{"type":"integer","description":"0 (highest) to 4"}"#),
            ("status", TEXT),
            ("assignee", TEXT),
            ("labels", TEXTS),
            ("parent", TEXT),
            ("blocked_by", TEXTS),
            ("discovered_from", TEXT),
            ("on", TEXT),
            ("text", TEXT),
            ("force", BOOLEAN),
            ("repo", TEXT),
            ("key", KEY),
        ],
        required: &["do"],
        is_read_only: false,
        is_destructive: true,
        is_idempotent: false,
        translate: |mut arguments| {
            const FIELDS: &[&str] =
                &["title", "description", "acceptance", "type", "priority", "status", "assignee", "labels", "parent"];
            let (operation, takes): (_, &[&[&str]]) = match take_choice(&mut arguments, "do", ISSUE_CHANGES)? {
                "add" => ("add_issue", &[FIELDS, &["blocked_by", "discovered_from"]]),
                "update" => ("update_issue", &[FIELDS, &["id"]]),
                "close" => ("close_issue", &[&["id", "text"]]),
                "reopen" => ("reopen_issue", &[&["id"]]),
                "comment" => ("comment_issue", &[&["id", "text"]]),
                "claim" => ("claim_issue", &[&["id"]]),
                "release" => ("release_issue", &[&["id", "force"]]),
                _ => ("depend_issue", &[&["id", "on"]]),
            };
            require_only(&arguments, operation, &[takes.concat().as_slice(), &["repo", "key"]].concat())?;
            if operation == "close_issue" {
                rename(&mut arguments, "text", "reason");
            }
            for (from, to) in [("id", "issue"), ("type", "issue_type"), ("acceptance", "acceptance_criteria")] {
                rename(&mut arguments, from, to);
            }
            tool_call(operation, arguments)
        },
    },
    Tool {
        name: "workspace",
        description: "Path, branch and results of a job's workspace. Without workspace: list all.",
        properties: &[
            ("agent", TEXT),
            ("workspace", r#"{"type":"string","description":"id of the workspace or of its job"}"#),
            ("limit", NUMBER),
        ],
        required: &[],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        translate: |mut arguments| {
            if arguments.contains_key("workspace") {
                arguments.remove("limit");
                return tool_call("show_workspace", arguments);
            }
            arguments.entry("limit").or_insert(json!(10));
            tool_call("list_workspaces", arguments)
        },
    },
    Tool {
        name: "status",
        description: "Status of all agents and worktrees: tasks that need a person, are stuck, in progress or ready.",
        properties: &[("agent", TEXT), ("limit", r#"{"type":"integer","description":"per kind"}"#)],
        required: &[],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        translate: |mut arguments| {
            arguments.entry("limit").or_insert(json!(5));
            tool_call("get_status", arguments)
        },
    },
];

const OUTCOMES: &[&str] = &["done", "fail", "ask", "release"];
const MESSAGE_ACTIONS: &[&str] = &["inbox", "send", "ack"];
const ISSUE_QUERIES: &[&str] = &["ready", "list", "search", "show"];
const ISSUE_CHANGES: &[&str] = &["add", "update", "close", "reopen", "comment", "claim", "release", "depend"];

/// Returns the tool with this name.
pub(super) fn named(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Returns the schema of its arguments.
    pub(super) fn schema(&self) -> Arguments {
        let schema = |text: &str| Value::from_str(text).expect("schemas in the table are JSON");
        let properties: Arguments =
            self.properties.iter().map(|(name, text)| ((*name).to_owned(), schema(text))).collect();
        let mut whole = Arguments::new();
        whole.insert("type".to_owned(), json!("object"));
        whole.insert("properties".to_owned(), Value::Object(properties));
        if !self.required.is_empty() {
            whole.insert("required".to_owned(), json!(self.required));
        }
        whole
    }

    /// Rejects unknown arguments and missing required ones.
    pub(super) fn check(&self, arguments: &Arguments) -> Result<()> {
        let names = || self.properties.iter().map(|(name, _)| *name);
        if let Some(unknown) = arguments.keys().find(|key| !names().any(|name| name == key.as_str())) {
            let error = Error::invalid(format!("unknown field {unknown:?} for {}", self.name));
            return Err(match nearest(unknown, names()) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint(format!("expected one of: {}", names().collect::<Vec<_>>().join(", "))),
            });
        }
        match self.required.iter().find(|name| !arguments.contains_key(**name)) {
            Some(missing) => Err(Error::invalid(format!("missing field {missing:?} for {}", self.name))),
            None => Ok(()),
        }
    }
}

/// Removes an argument and checks that it is one of several words.
fn take_choice(arguments: &mut Arguments, name: &str, words: &[&'static str]) -> Result<&'static str> {
    let value = arguments.remove(name).unwrap_or_default();
    let known = words.iter().find(|word| value.as_str() == Some(word)).copied();
    known.ok_or_else(|| {
        let error = Error::invalid(format!("invalid value {value} for {name}"));
        match value.as_str().and_then(|value| nearest(value, words.iter().copied())) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("expected one of: {}", words.join(", "))),
        }
    })
}

/// Rejects arguments of other choices of the tool: they would be ignored.
fn require_only(arguments: &Arguments, choice: &str, allowed: &[&str]) -> Result<()> {
    match arguments.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(extra) => Err(Error::invalid(format!("unknown field {extra:?} for {choice}"))
            .hint(format!("expected one of: {}", allowed.join(", ")))),
        None => Ok(()),
    }
}

fn rename(arguments: &mut Arguments, from: &str, to: &str) {
    if let Some(value) = arguments.remove(from) {
        arguments.insert(to.to_owned(), value);
    }
}

fn with_budget(operation: &'static str, mut arguments: Arguments, default: u32) -> Result<ToolCall> {
    arguments.entry("budget").or_insert(json!(default));
    tool_call(operation, arguments)
}

fn tool_call(operation: &'static str, mut arguments: Arguments) -> Result<ToolCall> {
    let key = match arguments.remove("key") {
        None => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(Error::invalid("key must be a string")),
    };
    Ok(ToolCall { operation, arguments: Value::Object(arguments), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a value that fits a schema.
    fn sample(schema: &Value) -> Value {
        match (&schema["enum"], schema["type"].as_str()) {
            (Value::Array(words), _) => words[0].clone(),
            (_, Some("integer")) => json!(3),
            (_, Some("boolean")) => json!(true),
            (_, Some("array")) => json!(["x"]),
            _ => json!("x"),
        }
    }

    /// Returns a call for each choice of a tool, with all arguments that the choice allows.
    fn calls(tool: &Tool) -> Vec<ToolCall> {
        let schema = tool.schema();
        let properties = schema["properties"].as_object().unwrap();
        let choice = ["do", "how"].into_iter().find(|name| properties.contains_key(*name));
        let words = choice.map_or(vec![Value::Null], |name| properties[name]["enum"].as_array().unwrap().clone());
        let call = |word: &Value| {
            let all = properties.iter().filter(|(name, _)| *name != "agent");
            let mut arguments: Arguments = all.map(|(name, schema)| (name.clone(), sample(schema))).collect();
            if let Some(name) = choice {
                arguments.insert(name.to_owned(), word.clone());
            }
            // Remove the arguments of other choices, one error at a time.
            loop {
                match (tool.translate)(arguments.clone()) {
                    Ok(call) => return call,
                    Err(error) => {
                        let message = error.full_message();
                        let extra = message.split('"').nth(1).unwrap_or_else(|| panic!("{message}")).to_owned();
                        assert!(arguments.remove(&extra).is_some(), "{message}");
                    }
                }
            }
        };
        words.iter().map(call).collect()
    }

    #[test]
    fn tools_pass_only_arguments_that_operations_have() {
        for call in TABLE.iter().flat_map(calls) {
            let taken = fields_of(call.operation);
            for name in call.arguments.as_object().unwrap().keys() {
                assert!(taken.contains(name), "{} has no argument {name}", call.operation);
            }
        }
    }

    /// The arguments of an operation. Some operations ignore unknown arguments, so a wrong name would go unnoticed.
    fn fields_of(operation: &str) -> Vec<String> {
        let about = waypost::app::operations().find(|about| about.name == operation).unwrap();
        let settings = schemars::generate::SchemaSettings::draft2020_12();
        let mut generator = settings.with(|settings| settings.inline_subschemas = true).into_generator();
        let schema = (about.schema)(&mut generator).to_value();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn unknown_arguments_of_a_tool_are_rejected_with_a_hint() {
        let next = named("next").unwrap();
        let arguments = |value: Value| value.as_object().unwrap().clone();
        let error = next.check(&arguments(json!({ "taks": "a" }))).unwrap_err();
        assert_eq!(
            (error.full_message().as_str(), error.hints()),
            ("unknown field \"taks\" for next", &["did you mean task?".to_owned()][..])
        );
        let error = named("checkpoint").unwrap().check(&arguments(json!({ "task": "a" }))).unwrap_err();
        assert_eq!(error.full_message(), "missing field \"epoch\" for checkpoint");
        let finish = named("finish").unwrap();
        let error = (finish.translate)(arguments(json!({ "task": "a", "how": "dnoe", "text": "x" }))).err().unwrap();
        assert_eq!(error.hints(), ["did you mean done?"]);
        let ask = (finish.translate)(arguments(json!({ "task": "a", "how": "ask", "text": "x", "evidence": "y" })));
        assert!(ask.err().unwrap().full_message().contains("unknown field \"evidence\""));
    }
}
