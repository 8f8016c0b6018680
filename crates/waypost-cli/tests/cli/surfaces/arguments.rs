//! Every field of an operation can be given on the command line, and every argument of its command is a field.
//!
//! Commands define their arguments themselves, because deriving them from operations costs start-up time. This test
//! compares the two definitions. A field and its argument have the same name (`--max-attempts` for `max_attempts`,
//! `<TASK>` for `task`), and both are required or neither. [`EXCEPTIONS`] lists the differences with their reasons. The
//! cases in `cases.rs` say which command stands for which operation.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};
use schemars::generate::SchemaSettings;
use serde_json::Value;
use waypost::app::operations;
use waypost_core::op::{Audience, Description};

use super::Surface;
use super::cases::{story, story_of_a_shared_store};
use super::differences::ABSENT;
use crate::support::work::words;

use Exception::{Absent, Extra, OneRequires, Renamed};

/// A difference between an operation and its command. The first text is an operation, or a command for [`Extra`]; `*` is
/// any. `query.limit` is the field `limit` in the object `query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exception<'a> {
    /// Operation, field, argument: the argument for the field has another name, or is a global option.
    Renamed(&'a str, &'a str, &'a str),
    /// Operation, field: no argument sets the field.
    Absent(&'a str, &'a str),
    /// Operation, field: either the operation or the command requires it, but not both.
    OneRequires(&'a str, &'a str),
    /// Command, argument: no field corresponds to the argument.
    Extra(&'a str, &'a str),
}

/// All differences with their reasons. A reason that starts with `missing:` names a gap to fill.
const EXCEPTIONS: &[(Exception<'_>, &str)] = &[
    // Any operation and any command.
    (Renamed("*", "body", "<TEXT|->"), "the usage line says that - reads standard input"),
    (Renamed("*", "capabilities", "--capability"), "repeatable, one value each"),
    (Renamed("*", "estimated_minutes", "--estimate"), "the short word"),
    (Renamed("*", "files", "--file"), "repeatable, one value each"),
    (Renamed("*", "issue_type", "--type"), "the short word"),
    (Renamed("*", "kind", "--type"), "the word that people use"),
    (Renamed("*", "message", "<MSG>"), "as in way msg"),
    (Renamed("*", "repo", "--repo"), "a global option"),
    (Renamed("*", "repository", "--repo"), "a global option, which also takes a relative path"),
    (Renamed("*", "statuses", "--status"), "repeatable, one value each"),
    (Renamed("*", "timeout_ms", "--timeout"), "a duration with its unit"),
    (Renamed("*", "ttl_ms", "--ttl"), "a duration with its unit"),
    (Renamed("*", "worktree_id", "--worktree"), "a global option, which also takes a name, branch or path"),
    (Absent("*", "after"), "pages are for programs: a command lists as many as its limit says"),
    (Absent("*", "query.after"), "pages are for programs: a command lists as many as its limit says"),
    (Extra("*", "--key"), "the idempotency key: a header over HTTP"),
    (Extra("*", "--description-file"), "another way to give the description"),
    (Extra("*", "--follow"), "waits for more: events and logs are streams over HTTP"),
    (Extra("*", "--wait"), "waits: HTTP clients follow the stream of events"),
    // Agents.
    (Renamed("register_agent", "process", "--pid"), "the command finds out the rest of the identity of a process"),
    (Renamed("list_agents", "retired", "--all"), "the same word on every list"),
    (Absent("list_agents", "limit"), "the command lists all"),
    // Issues.
    (Renamed("add_issue", "acceptance_criteria", "--acceptance"), "the short word"),
    (Renamed("add_issue", "due_at", "--due"), "also takes an offset from now"),
    (Renamed("add_issue", "labels", "--label"), "repeatable, one value each"),
    (Extra("add", "--as"), "the name of the new issue in the rest of a batch"),
    (Renamed("update_issue", "acceptance_criteria", "--acceptance"), "the short word"),
    (Renamed("update_issue", "due_at", "--due"), "also takes an offset from now"),
    (Renamed("update_issue", "labels", "--add-label"), "beside --remove-label"),
    (Renamed("update_issue", "remove_labels", "--remove-label"), "repeatable, one value each"),
    (OneRequires("add_dependency", "on"), "--blocked-by replaces it"),
    (Extra("dep add", "--blocked-by"), "an explicit form of <ON>"),
    (Renamed("list_issues", "types", "--type"), "repeatable, one value each"),
    (Renamed("list_ready_issues", "types", "--type"), "repeatable, one value each"),
    (Renamed("list_issues", "labels", "--label"), "repeatable, one value each"),
    (Renamed("list_issues", "priorities", "--priority"), "also takes a range"),
    (Renamed("list_issues", "closed", "--all"), "the same word on every list"),
    (Absent("list_blocked_issues", "limit"), "the command lists all"),
    (Extra("list", "--columns"), "only about the output"),
    (Renamed("search_issues", "text", "<WORD>"), "one word each, without quotation marks"),
    (Renamed("explain_issue", "issue", "--explain"), "way ready explains too"),
    (OneRequires("show_issue", "issue"), "way show lists the issues, as in other trackers"),
    (Extra("status", "<ISSUE>"), "way status ISSUE shows an issue, and sets its status, as in other trackers"),
    (Extra("status", "<STATUS>"), "way status ISSUE shows an issue, and sets its status, as in other trackers"),
    (Absent("explain_issue", "budget"), "for models; people page through the output"),
    (OneRequires("explain_issue", "issue"), "without --explain, way ready is another operation"),
    // Jobs and workspaces.
    (Extra("job start", "--detach"), "the operation always returns as soon as the job runs"),
    (Extra("job start", "--keep"), "sets cleanup to false"),
    (Extra("job start", "--env"), "names variables of the caller's environment, which a server does not have"),
    (Extra("job start", "--queue"), "the operation runs a job on the machine of the server"),
    (Renamed("start_job", "machine", "--on"), "reads better in a command"),
    (Renamed("start_job", "network", "--no-network"), "the command only takes the network away"),
    (OneRequires("update_job", "job"), "the default is WAYPOST_JOB, which every job has"),
    (Absent("update_job", "warning"), "missing: a job cannot record a warning about itself"),
    (
        Absent("show_log", "from"),
        "missing: with --json, --follow has no effect and a program cannot read on where it stopped",
    ),
    (Renamed("list_workspaces", "machine", "--everywhere"), "the command lists this machine or all machines"),
    (Absent("list_workspaces", "limit"), "the command lists all workspaces and sums up their sizes"),
    (Absent("list_machines", "limit"), "the command lists all"),
    (Extra("ws push", "--pr"), "the command opens a pull request with gh, as the user who types it"),
    (Extra("ws rm", "--dry-run"), "only about the output: a refusal says the same"),
    // Messages.
    (Renamed("send_message", "to", "<AGENT>"), "the recipient"),
    (OneRequires("send_message", "to"), "with --reply-to and one argument, the argument is the text"),
    (OneRequires("send_message", "body"), "with --reply-to and one argument, the argument is the text"),
    (Extra("msg inbox", "--timeout"), "limits --wait"),
    (Absent("show_thread", "limit"), "the command shows the whole thread"),
    (Renamed("ack_message", "messages", "<MSG>"), "repeatable, one value each"),
    // Repositories and worktrees.
    (Renamed("add_repository", "repository", "<PATH>"), "the command reads the record from the repository itself"),
    (Absent("list_repositories", "limit"), "the command lists all"),
    (Absent("list_worktrees", "limit"), "the command lists all"),
    (Renamed("remove_worktree", "id", "<WORKTREE>"), "the command finds it by name, branch and path, too"),
    (Extra("worktree rm", "--force"), "the command also removes the directory, and refuses if work would be lost"),
    // The store.
    (
        Renamed("list_events", "query.worktree_id", "--worktree"),
        "a global option, which also takes a name, branch or path",
    ),
    (Absent("prime", "tools"), "for MCP servers: the text then names tools instead of commands"),
    // Tasks.
    (OneRequires("add_task", "task.name"), "missing: the schema does not require the name, the operation does"),
    (Renamed("add_task", "task.depends_on", "--needs"), "the word of the short form of a plan"),
    (Renamed("add_task", "task.plan", "--how"), "--plan is the file with a plan on other commands"),
    (Renamed("add_task", "task.context", "--know"), "the background for the agent"),
    (Renamed("add_task", "task.capabilities", "--capability"), "repeatable, one value each"),
    (Renamed("add_task", "task.files", "--file"), "repeatable, one value each"),
    (Renamed("add_task", "task.repository", "--repo-of"), "--repo is a global option"),
    (Renamed("answer_question", "answer", "<TEXT>"), "the usual name of a text"),
    (OneRequires("ask_question", "question"), "the text may also stand after the task"),
    (Extra("task ask", "<TEXT>"), "another way to give the question"),
    (Extra("task assign", "--unassign"), "the operation unassigns a task if no agent is given"),
    (Extra("task claim", "--timeout"), "limits --wait"),
    // Templates.
    (Absent("list_templates", "limit"), "the command lists all"),
    (Renamed("save_template", "body", "--plan"), "a file with the plan"),
    (Renamed("save_template", "variables", "--var-default"), "repeatable, one default each"),
    (Renamed("apply_template", "values", "--var"), "repeatable, one value each"),
    (Absent("apply_template", "content"), "the command reads it from the file of the template"),
    // Workflows.
    (Renamed("show_graph", "subject", "<WORKFLOW|ISSUE>"), "the usage line says what it can be"),
    (Extra("graph", "--format"), "only about the output"),
    (Renamed("add_workflow", "repositories", "--repo-of"), "--repo is a global option"),
    (Renamed("add_workflow", "config", "--config-json"), "--config is a global option"),
    (Renamed("add_workflow_repository", "repository", "--add"), "way workflow repos lists them, too"),
    (OneRequires("add_workflow_repository", "repository"), "without --add, the command lists the repositories"),
    (Renamed("remove_workflow_repository", "repository", "--remove"), "way workflow repos lists them, too"),
    (OneRequires("remove_workflow_repository", "repository"), "without --remove, the command lists the repositories"),
    (Absent("record_merge", "merged"), "the command sets it; the setting awaits_merge does the rest"),
    (Renamed("list_workflows", "query.statuses", "--status"), "repeatable, one value each"),
    (
        Renamed("list_workflows", "query.worktree_id", "--worktree"),
        "a global option, which also takes a name, branch or path",
    ),
    (Renamed("list_workflows", "query.repository_id", "--repo"), "a global option, which also takes a name or a path"),
    (Absent("list_workflows", "query.name"), "way workflow show finds a workflow by its name"),
    (Extra("status", "--line"), "only about the output"),
    (Extra("workflow list", "--all"), "the operation lists all without statuses, the command live ones"),
];

/// A field of an operation.
struct Field {
    /// With the fields that contain it: `query.limit`.
    path: String,
    is_required: bool,
    schema: Value,
}

impl Field {
    /// The name without the fields that contain it.
    fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the fields of this object; none if it is not an object with known fields.
    fn fields(&self) -> Vec<Field> {
        let alternatives = self.schema.get("anyOf").and_then(Value::as_array);
        let schemas = alternatives.map_or_else(|| vec![&self.schema], |some| some.iter().collect());
        schemas.into_iter().flat_map(|schema| fields(&format!("{}.", self.path), schema)).collect()
    }
}

/// Returns the fields of an object.
fn fields(prefix: &str, schema: &Value) -> Vec<Field> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties
        .map(|(name, schema)| Field {
            path: format!("{prefix}{name}"),
            is_required: is_required(name),
            schema: schema.clone(),
        })
        .collect()
}

fn fields_of(operation: &Description) -> Vec<Field> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    fields("", (operation.schema)(&mut settings.into_generator()).as_value())
}

/// Returns an argument as in a usage line: `--name`, `-n`, or `<NAME>` if it is positional.
fn shown(argument: &Arg) -> String {
    match (argument.get_long(), argument.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => format!("<{}>", argument.get_value_names().unwrap_or_default().join(" ")),
    }
}

/// Returns whether an argument has the name of a field.
fn is_named_as(shown: &str, field: &Field) -> bool {
    shown.trim_matches(['-', '<', '>']).replace('-', "_").to_lowercase() == field.name()
}

/// Returns the command that a command line calls, and its name.
fn called<'a>(way: &'a Command, line: &str) -> (String, &'a Command) {
    let (mut names, mut command) = (Vec::new(), way);
    for word in words(line) {
        let Some(inner) = command.find_subcommand(&word) else { break };
        names.push(inner.get_name());
        command = inner;
    }
    assert!(!names.is_empty() && !command.has_subcommands(), "no command: way {line}");
    (names.join(" "), command)
}

/// The comparison of operations with commands.
#[derive(Default)]
struct Comparison {
    /// The rows of [`EXCEPTIONS`] that were needed.
    used: BTreeSet<usize>,
    /// The differences without a row.
    wrong: Vec<String>,
}

impl Comparison {
    /// Returns whether the table has this row.
    fn excepts(&mut self, row: Exception<'_>) -> bool {
        let at = EXCEPTIONS.iter().position(|(known, _)| *known == row);
        self.used.extend(at);
        at.is_some()
    }

    /// Returns the argument that sets a field: the one with its name, else the one that a row names. Global options need
    /// a row, because `--config` is no field `config`.
    fn argument<'a>(&mut self, operation: &str, field: &Field, all: &[&'a Arg]) -> Option<&'a Arg> {
        let mut own = all.iter().filter(|argument| !argument.is_global_set());
        if let Some(same) = own.find(|argument| is_named_as(&shown(argument), field)) {
            return Some(same);
        }
        let mut renamed = |operation: &str| {
            all.iter().find(|argument| self.excepts(Renamed(operation, &field.path, &shown(argument)))).copied()
        };
        renamed(operation).or_else(|| renamed("*"))
    }

    /// Compares the fields of an operation with the arguments of its command. Adds the arguments that set them to `given`.
    fn compare(&mut self, pair: (&str, &str), fields: &[Field], all: &[&Arg], given: &mut BTreeSet<String>) {
        let (operation, command) = pair;
        for field in fields {
            let path = field.path.as_str();
            if let Some(argument) = self.argument(operation, field, all) {
                given.insert(shown(argument));
                self.compare_requirement(pair, field, argument);
            } else if self.excepts(Absent(operation, path)) || self.excepts(Absent("*", path)) {
                // The row has the reason.
            } else if field.fields().is_empty() {
                self.wrong.push(format!("no argument of way {command} sets the field {path} of {operation}"));
            } else {
                self.compare(pair, &field.fields(), all, given);
            }
        }
    }

    fn compare_requirement(&mut self, (operation, command): (&str, &str), field: &Field, argument: &Arg) {
        let has_default = !argument.get_default_values().is_empty();
        let problem = match (field.is_required, argument.is_required_set()) {
            (true, false) if !has_default => "the operation requires it, the command does not",
            (false, true) => "the command requires it, the operation does not",
            _ => return,
        };
        if !self.excepts(OneRequires(operation, &field.path)) {
            let (path, shown) = (&field.path, shown(argument));
            self.wrong.push(format!("{path} of {operation}, {shown} of way {command}: {problem}"));
        }
    }
}

#[test]
fn operations_and_their_commands_take_the_same_arguments() {
    let way = waypost_cli::command();
    let global: Vec<&Arg> = way.get_arguments().filter(|argument| argument.is_global_set()).collect();
    let cases: Vec<_> = story().into_iter().chain(story_of_a_shared_store()).collect();
    let mut comparison = Comparison::default();
    // A command may stand for several operations, so its arguments are checked at the end.
    let mut commands: BTreeMap<String, (&Command, BTreeSet<String>)> = BTreeMap::new();
    for operation in operations().filter(|operation| operation.audience == Audience::Public) {
        let name = operation.name;
        let lines = cases.iter().filter(|case| case.operation == name).map(|case| case.cli);
        let called: BTreeMap<String, &Command> = lines.map(|line| called(&way, line)).collect();
        if called.is_empty() && !ABSENT.iter().any(|(absent, surface, _)| (*absent, *surface) == (name, Surface::Cli)) {
            comparison.wrong.push(format!("no case calls a command for {name}, and ABSENT has no row"));
        }
        for (path, command) in called {
            let all: Vec<&Arg> = command.get_arguments().chain(global.iter().copied()).collect();
            let (_, given) = commands.entry(path.clone()).or_insert((command, BTreeSet::new()));
            comparison.compare((name, &path), &fields_of(&operation), &all, given);
        }
    }
    for (path, (command, given)) in &commands {
        for argument in command.get_arguments().map(shown).filter(|argument| !given.contains(argument)) {
            if !comparison.excepts(Extra(path, &argument)) && !comparison.excepts(Extra("*", &argument)) {
                comparison.wrong.push(format!("{argument} of way {path} sets no field of its operation"));
            }
        }
    }
    let Comparison { used, mut wrong } = comparison;
    let unused = EXCEPTIONS.iter().enumerate().filter(|(at, _)| !used.contains(at));
    wrong.extend(unused.map(|(_, (row, _))| format!("no longer true, so the row goes: {row:?}")));
    assert!(wrong.is_empty(), "operations and commands differ from what EXCEPTIONS says:\n{}", wrong.join("\n"));
}
