//! The tools: what each is for, what it takes, and which operation it asks for.
//!
//! All of them together are read by every agent at the beginning of every session, so each word counts.

use std::str::FromStr;

use serde_json::{Map, Value, json};
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};

/// What an agent gets of its first look, in tokens, if it does not say.
const PRIME: u32 = 350;
/// What an agent gets with a task, in tokens, if it does not say.
const NEXT: u32 = 800;
/// What an agent gets of a task's context, in tokens, if it does not say.
const CONTEXT: u32 = 2_000;

type Arguments = Map<String, Value>;

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// What it takes: a name and the schema of its value, as JSON.
    properties: &'static [(&'static str, &'static str)],
    required: &'static [&'static str],
    pub(super) is_read_only: bool,
    pub(super) is_destructive: bool,
    pub(super) is_idempotent: bool,
    /// Turns its arguments into those of an operation.
    pub(super) ask: fn(Arguments) -> Result<Asked>,
}

/// What a tool asks of the host.
pub(super) struct Asked {
    pub(super) operation: &'static str,
    pub(super) arguments: Value,
    pub(super) key: Option<String>,
}

const TEXT: &str = r#"{"type":"string"}"#;
const TEXTS: &str = r#"{"type":"array","items":{"type":"string"}}"#;
const NUMBER: &str = r#"{"type":"integer"}"#;
const YES_OR_NO: &str = r#"{"type":"boolean"}"#;
const BUDGET: &str = r#"{"type":"integer","description":"tokens"}"#;
const KEY: &str = r#"{"type":"string","description":"once per key, also after a crash"}"#;

/// All tools.
pub(super) static TABLE: &[Tool] = &[
    Tool {
        name: "prime",
        description: "What you hold, what waits for you, and how to work here. Call it first, and after your context was \
                      compacted.",
        properties: &[("agent", TEXT), ("budget", BUDGET)],
        required: &[],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        ask: |mut arguments| {
            arguments.insert("tools".to_owned(), json!(true));
            with_budget("prime", arguments, PRIME)
        },
    },
    Tool {
        name: "next",
        description: "Claim a task and get its context: the one named, else the most urgent you may have. Remember its \
                      epoch. Claiming what you hold renews the lease.",
        properties: &[
            ("agent", TEXT),
            ("task", r#"{"type":"string","description":"id, name or workflow/name"}"#),
            ("workflow", TEXT),
            ("minutes", r#"{"type":"integer","description":"of lease without a sign of life, default 10"}"#),
            ("budget", BUDGET),
        ],
        required: &[],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: false,
        ask: |mut arguments| {
            if let Some(minutes) = arguments.remove("minutes") {
                let minutes = minutes.as_u64().filter(|minutes| *minutes > 0);
                let minutes = minutes.ok_or_else(|| Error::invalid("minutes is a number above 0"))?;
                arguments.insert("ttl_ms".to_owned(), json!(minutes.saturating_mul(60_000)));
            }
            with_budget("claim_task", arguments, NEXT)
        },
    },
    Tool {
        name: "context",
        description: "What whoever works on a task has to know: plan, checkpoints, outcomes before it, messages.",
        properties: &[("agent", TEXT), ("task", TEXT), ("budget", BUDGET)],
        required: &["task"],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        ask: |arguments| with_budget("get_context", arguments, CONTEXT),
    },
    Tool {
        name: "checkpoint",
        description: "Note how far a task got, so that another agent could go on from there. Renews the lease.",
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
        ask: |mut arguments| {
            let kind = arguments.remove("type").unwrap_or_else(|| json!("progress"));
            arguments.insert("kind".to_owned(), kind);
            keyed("checkpoint_task", arguments)
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
            ("evidence", r#"{"type":"string","description":"what shows that it is done"}"#),
            ("hopeless", r#"{"type":"boolean","description":"fail: no attempt can succeed"}"#),
            ("key", KEY),
        ],
        required: &["task", "epoch", "how", "text"],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: true,
        ask: |mut arguments| {
            let (operation, name, takes): (_, _, &[&str]) = match chosen(&mut arguments, "how", HOW)? {
                "done" => ("finish_task", "outcome", &["evidence"]),
                "fail" => ("fail_task", "error", &["hopeless"]),
                "ask" => ("ask_question", "question", &[]),
                _ => ("release_task", "reason", &[]),
            };
            only(&arguments, "how", &[&["task", "epoch", "text", "key"], takes].concat())?;
            renamed(&mut arguments, "text", name);
            keyed(operation, arguments)
        },
    },
    Tool {
        name: "heartbeat",
        description: "Renew your leases, or one task's, and hear whether it was called off and how many messages wait.",
        properties: &[("agent", TEXT), ("task", TEXT), ("epoch", NUMBER)],
        required: &[],
        is_read_only: false,
        is_destructive: false,
        is_idempotent: true,
        ask: |arguments| keyed("heartbeat", arguments),
    },
    Tool {
        name: "messages",
        description: "inbox: what waits for you, until acked. send: text to an agent, or in reply_to a message. ack: done \
                      with ids.",
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
        ask: |mut arguments| match chosen(&mut arguments, "do", MESSAGES)? {
            "inbox" => {
                only(&arguments, "inbox", &["limit"])?;
                arguments.entry("limit").or_insert(json!(10));
                keyed("list_inbox", arguments)
            }
            "ack" => {
                only(&arguments, "ack", &["ids", "key"])?;
                renamed(&mut arguments, "ids", "messages");
                keyed("ack_message", arguments)
            }
            _ => {
                only(&arguments, "send", &["to", "text", "subject", "priority", "task", "reply_to", "key"])?;
                renamed(&mut arguments, "text", "body");
                keyed("send_message", arguments)
            }
        },
    },
    Tool {
        name: "issues",
        description: "Read the project's issues: ready to be worked on, list of open ones, search words, show id.",
        properties: &[
            ("agent", TEXT),
            ("do", r#"{"enum":["ready","list","search","show"]}"#),
            ("id", r#"{"type":"string","description":"or its beginning"}"#),
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
        ask: |mut arguments| {
            let (operation, takes): (_, &[&str]) = match chosen(&mut arguments, "do", ISSUES)? {
                "ready" => ("ready_issues", &["limit"]),
                "list" => ("list_issues", &["status", "labels", "parent", "limit"]),
                "search" => ("search_issues", &["words", "limit"]),
                _ => ("explain_issue", &["id"]),
            };
            only(&arguments, operation, &[&["repo"], takes].concat())?;
            if operation != "explain_issue" {
                arguments.entry("limit").or_insert(json!(10));
            }
            for (from, to) in [("id", "issue"), ("status", "statuses"), ("words", "text")] {
                renamed(&mut arguments, from, to);
            }
            keyed(operation, arguments)
        },
    },
    Tool {
        name: "issue",
        description: "Change the project's issues. add: title and fields. update: id and fields. close: reason in text. \
                      comment: text. claim: to work on it without a workflow. depend: id waits for on.",
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
            ("force", YES_OR_NO),
            ("repo", TEXT),
            ("key", KEY),
        ],
        required: &["do"],
        is_read_only: false,
        is_destructive: true,
        is_idempotent: false,
        ask: |mut arguments| {
            const FIELDS: &[&str] =
                &["title", "description", "acceptance", "type", "priority", "status", "assignee", "labels", "parent"];
            let (operation, takes): (_, &[&[&str]]) = match chosen(&mut arguments, "do", CHANGES)? {
                "add" => ("add_issue", &[FIELDS, &["blocked_by", "discovered_from"]]),
                "update" => ("update_issue", &[FIELDS, &["id"]]),
                "close" => ("close_issue", &[&["id", "text"]]),
                "reopen" => ("reopen_issue", &[&["id"]]),
                "comment" => ("comment_issue", &[&["id", "text"]]),
                "claim" => ("claim_issue", &[&["id"]]),
                "release" => ("release_issue", &[&["id", "force"]]),
                _ => ("depend_issue", &[&["id", "on"]]),
            };
            only(&arguments, operation, &[takes.concat().as_slice(), &["repo", "key"]].concat())?;
            if operation == "close_issue" {
                renamed(&mut arguments, "text", "reason");
            }
            for (from, to) in [("id", "issue"), ("type", "issue_type"), ("acceptance", "acceptance_criteria")] {
                renamed(&mut arguments, from, to);
            }
            keyed(operation, arguments)
        },
    },
    Tool {
        name: "workspace",
        description: "Where a job works, on which branch, and what was delivered. Without a name: all that are there.",
        properties: &[
            ("agent", TEXT),
            ("workspace", r#"{"type":"string","description":"its id, or its job's"}"#),
            ("limit", NUMBER),
        ],
        required: &[],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        ask: |mut arguments| {
            if arguments.contains_key("workspace") {
                arguments.remove("limit");
                return keyed("show_workspace", arguments);
            }
            arguments.entry("limit").or_insert(json!(10));
            keyed("list_workspaces", arguments)
        },
    },
    Tool {
        name: "status",
        description: "How everything stands, over all agents and worktrees: what needs a person, what is stuck, in work, \
                      ready.",
        properties: &[("agent", TEXT), ("limit", r#"{"type":"integer","description":"of each kind"}"#)],
        required: &[],
        is_read_only: true,
        is_destructive: false,
        is_idempotent: true,
        ask: |mut arguments| {
            arguments.entry("limit").or_insert(json!(5));
            keyed("get_status", arguments)
        },
    },
];

const HOW: &[&str] = &["done", "fail", "ask", "release"];
const MESSAGES: &[&str] = &["inbox", "send", "ack"];
const ISSUES: &[&str] = &["ready", "list", "search", "show"];
const CHANGES: &[&str] = &["add", "update", "close", "reopen", "comment", "claim", "release", "depend"];

/// Returns the tool with this name.
pub(super) fn named(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Returns the schema of its arguments.
    pub(super) fn schema(&self) -> Arguments {
        let schema = |text: &str| Value::from_str(text).expect("a schema in the table is JSON");
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

    /// Refuses arguments that it does not take, and the lack of those that it needs.
    pub(super) fn check(&self, arguments: &Arguments) -> Result<()> {
        let names = || self.properties.iter().map(|(name, _)| *name);
        if let Some(unknown) = arguments.keys().find(|key| !names().any(|name| name == key.as_str())) {
            let error = Error::invalid(format!("{} takes no {unknown:?}", self.name));
            return Err(match nearest(unknown, names()) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint(format!("it takes {}", names().collect::<Vec<_>>().join(", "))),
            });
        }
        match self.required.iter().find(|name| !arguments.contains_key(**name)) {
            Some(missing) => Err(Error::invalid(format!("{} needs {missing:?}", self.name))),
            None => Ok(()),
        }
    }
}

/// Takes one of several words from the arguments.
fn chosen(arguments: &mut Arguments, name: &str, words: &[&'static str]) -> Result<&'static str> {
    let said = arguments.remove(name).unwrap_or_default();
    let known = words.iter().find(|word| said.as_str() == Some(word)).copied();
    known.ok_or_else(|| {
        let error = Error::invalid(format!("{name} cannot be {said}"));
        match said.as_str().and_then(|said| nearest(said, words.iter().copied())) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("it is one of {}", words.join(", "))),
        }
    })
}

/// Refuses arguments that belong to something else that the tool does: they would be ignored.
fn only(arguments: &Arguments, what: &str, taken: &[&str]) -> Result<()> {
    match arguments.keys().find(|key| !taken.contains(&key.as_str())) {
        Some(extra) => {
            Err(Error::invalid(format!("{what} takes no {extra:?}")).hint(format!("it takes {}", taken.join(", "))))
        }
        None => Ok(()),
    }
}

fn renamed(arguments: &mut Arguments, from: &str, to: &str) {
    if let Some(value) = arguments.remove(from) {
        arguments.insert(to.to_owned(), value);
    }
}

fn with_budget(operation: &'static str, mut arguments: Arguments, usual: u32) -> Result<Asked> {
    arguments.entry("budget").or_insert(json!(usual));
    keyed(operation, arguments)
}

fn keyed(operation: &'static str, mut arguments: Arguments) -> Result<Asked> {
    let key = match arguments.remove("key") {
        None => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(Error::invalid("key is a text")),
    };
    Ok(Asked { operation, arguments: Value::Object(arguments), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that fits a schema.
    fn sample(schema: &Value) -> Value {
        match (&schema["enum"], schema["type"].as_str()) {
            (Value::Array(words), _) => words[0].clone(),
            (_, Some("integer")) => json!(3),
            (_, Some("boolean")) => json!(true),
            (_, Some("array")) => json!(["x"]),
            _ => json!("x"),
        }
    }

    /// All ways in which a tool can be called with everything that this way takes.
    fn calls(tool: &Tool) -> Vec<Asked> {
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
            // What another choice takes is refused, one by one.
            loop {
                match (tool.ask)(arguments.clone()) {
                    Ok(asked) => return asked,
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
    fn operations_of_the_store_take_what_tools_give_them() {
        for asked in TABLE.iter().flat_map(calls) {
            let Some(_) = waypost_core::op::named(asked.operation) else {
                assert!(asked.operation.ends_with("_issue") || asked.operation.ends_with("_issues"));
                continue;
            };
            let given = asked.arguments.as_object().unwrap().keys();
            let taken = fields_of(asked.operation);
            for name in given {
                assert!(taken.contains(&name.as_str()), "{} does not take {name}", asked.operation);
            }
        }
    }

    /// The arguments of the operations that tools ask for. Operations ignore what they do not know, so that a tool which
    /// gives something else would do so in silence.
    fn fields_of(operation: &str) -> &'static [&'static str] {
        match operation {
            "prime" => &["budget", "tools"],
            "claim_task" => &["task", "workflow", "ttl_ms", "budget"],
            "get_context" => &["task", "workflow", "budget"],
            "checkpoint_task" => &["task", "workflow", "epoch", "kind", "summary", "detail", "files", "tokens", "cost"],
            "finish_task" => &["task", "workflow", "epoch", "outcome", "evidence"],
            "fail_task" => &["task", "workflow", "epoch", "error", "hopeless"],
            "ask_question" => &["task", "workflow", "epoch", "question"],
            "release_task" => &["task", "workflow", "epoch", "force", "reason"],
            "heartbeat" => &["task", "workflow", "epoch"],
            "list_inbox" => &["limit", "peek"],
            "send_message" => &["to", "reply_to", "kind", "priority", "subject", "body", "workflow", "task", "ttl_ms"],
            "ack_message" => &["messages"],
            "get_status" => &["worktree_id", "limit"],
            "list_workspaces" => &["machine", "all", "limit"],
            "show_workspace" => &["workspace"],
            other => panic!("{other} is not known here"),
        }
    }

    #[test]
    fn what_a_tool_does_not_take_is_refused_with_what_it_takes() {
        let next = named("next").unwrap();
        let arguments = |value: Value| value.as_object().unwrap().clone();
        let error = next.check(&arguments(json!({ "taks": "a" }))).unwrap_err();
        assert_eq!(
            (error.full_message().as_str(), error.hints()),
            ("next takes no \"taks\"", &["did you mean task?".to_owned()][..])
        );
        let error = named("checkpoint").unwrap().check(&arguments(json!({ "task": "a" }))).unwrap_err();
        assert_eq!(error.full_message(), "checkpoint needs \"epoch\"");
        let finish = named("finish").unwrap();
        let error = (finish.ask)(arguments(json!({ "task": "a", "how": "dnoe", "text": "x" }))).err().unwrap();
        assert_eq!(error.hints(), ["did you mean done?"]);
        let ask = (finish.ask)(arguments(json!({ "task": "a", "how": "ask", "text": "x", "evidence": "y" })));
        assert!(ask.err().unwrap().full_message().contains("takes no \"evidence\""));
    }
}
