//! A piece of configuration in a file of an agent: its state, and the text with and without it.

use std::path::Path;

use serde_json::{Value, json};
use toml_edit::{Array, InlineTable, Item};
use waypost_core::Result;

use super::block::{Marks, SANDBOX, TOML};
use super::files::{AgentFile, unreadable};
use super::json_text::JsonText;
use super::toml_text::TomlText;
use super::{PartStatus, State};

/// A piece of configuration, and its file.
pub(super) struct Part {
    pub(super) file: AgentFile,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// A block between marks. A new file begins with the header.
    Block { what: &'static str, marks: Marks, header: &'static str, body: String },
    /// An entry for the MCP server in JSON. A new file is `new`.
    Server { path: &'static [&'static str], value: Value, new: &'static str },
    /// An entry for the MCP server in Codex's TOML.
    CodexServer,
    /// A directory that commands in Codex's sandbox may change.
    CodexRoot(String),
    /// Hooks that run `way hook`.
    Hooks(Hooks),
    /// Strings in a list of JSON settings.
    Items { path: &'static [&'static str], items: &'static [&'static str] },
    /// Values in JSON settings.
    Values(Vec<(&'static [&'static str], Value)>),
}

/// The hooks of an agent.
pub(super) struct Hooks {
    /// The name of the agent, as `way hook` knows it.
    pub(super) agent: &'static str,
    /// The agent's names of the events, each with the moment as `way hook` names it.
    pub(super) events: Vec<(&'static str, &'static str)>,
    pub(super) shape: HookShape,
    /// The answer without `way`: an agent that expects JSON must get some.
    pub(super) otherwise: &'static str,
    /// A new file.
    pub(super) new: &'static str,
}

/// The form of one entry of a list of hooks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HookShape {
    /// A list of commands, for tools that match a pattern.
    Nested,
    /// A command.
    Flat,
    /// A command, with its type.
    Typed,
}

impl Content {
    pub(super) fn what(&self) -> &'static str {
        match self {
            Content::Block { what, .. } => what,
            Content::Server { .. } | Content::CodexServer => "MCP server",
            Content::CodexRoot(_) => "sandbox",
            Content::Hooks(_) => "hooks",
            Content::Items { .. } | Content::Values(_) => "permissions",
        }
    }
}

/// The kind of a part that describes Waypost to the model.
pub(super) const INSTRUCTIONS: &str = "instructions";

const ROOTS: (&str, &str) = ("sandbox_workspace_write", "writable_roots");
const CODEX_SERVER: (&str, &str) = ("mcp_servers", "waypost");

impl Part {
    pub(super) fn is_instructions(&self) -> bool {
        self.content.what() == INSTRUCTIONS
    }

    pub(super) fn is_server(&self) -> bool {
        matches!(self.content, Content::Server { .. } | Content::CodexServer)
    }

    pub(super) fn status(&self, text: Option<&str>) -> Result<PartStatus> {
        let state = match text {
            None => Ok(State::Missing),
            Some(text) => self.state(text).map_err(|error| unreadable(&self.file, error)),
        };
        Ok(PartStatus { path: self.file.shown.clone(), what: self.content.what(), state: state? })
    }

    fn state(&self, text: &str) -> Result<State> {
        let state_of = |is_there: bool, is_same: bool| match (is_there, is_same) {
            (_, true) => State::InOrder,
            (true, false) => State::Outdated,
            (false, false) => State::Missing,
        };
        match &self.content {
            Content::Block { marks, body, .. } => {
                let found = marks.body(text)?;
                Ok(state_of(found.is_some(), found.as_deref() == Some(body)))
            }
            Content::Server { path, .. } => {
                let server = JsonText::read(text)?.value(path)?;
                Ok(state_of(server.is_some(), server.as_ref().is_some_and(starts_server)))
            }
            Content::CodexServer => {
                let settings = TomlText::read(text)?;
                let server = settings.entry(CODEX_SERVER.0, CODEX_SERVER.1)?;
                Ok(state_of(server.is_some() || TOML.body(text)?.is_some(), server.is_some_and(starts_codex_server)))
            }
            Content::CodexRoot(root) => {
                let roots = TomlText::read(text)?;
                let is_listed = roots.strings(ROOTS.0, ROOTS.1)?.unwrap_or_default().contains(&root.as_str());
                Ok(state_of(is_listed, is_listed))
            }
            Content::Hooks(hooks) => hooks.state(&JsonText::read(text)?, state_of),
            Content::Items { path, items } => {
                let list = JsonText::read(text)?.value(path)?.unwrap_or_default();
                let is_there = |item: &&'static str| list.as_array().into_iter().flatten().any(|known| known == item);
                Ok(state_of(items.iter().any(is_there), items.iter().all(is_there)))
            }
            Content::Values(values) => {
                let text = JsonText::read(text)?;
                let (mut there, mut same) = (0, 0);
                for (path, value) in values {
                    let found = text.value(path)?;
                    there += usize::from(found.is_some());
                    same += usize::from(found.as_ref() == Some(value));
                }
                Ok(state_of(there > 0, same == values.len()))
            }
        }
    }

    /// Returns the text with Waypost's part added or updated.
    pub(super) fn with(&self, text: Option<&str>) -> Result<String> {
        match &self.content {
            Content::Block { marks, header, body, .. } => marks.with(text.unwrap_or(header), body),
            Content::Server { path, value, new } => {
                Ok(with_final_newline(JsonText::read(text.unwrap_or(new))?.with(path, value)?, text))
            }
            Content::CodexServer => {
                let text = text.unwrap_or_default();
                // An entry that the user wrote and that starts something else is replaced.
                let without = match TOML.body(text)? {
                    Some(_) => None,
                    None => TomlText::read(text)?.without_entry(CODEX_SERVER.0, CODEX_SERVER.1)?,
                };
                let settings = TomlText::read(without.as_deref().unwrap_or(text))?;
                let args = Array::from_iter(["mcp"]);
                let server =
                    InlineTable::from_iter([("command", "way".into()), ("args", toml_edit::Value::from(args))]);
                let section = "[mcp_servers.waypost]\ncommand = \"way\"\nargs = [\"mcp\"]";
                settings.with_entry(CODEX_SERVER.0, CODEX_SERVER.1, server, (TOML, section))
            }
            Content::CodexRoot(root) => {
                let text = text.unwrap_or_default();
                if let Some(with) = TomlText::read(text)?.with_string(ROOTS.0, ROOTS.1, root)? {
                    return Ok(with);
                }
                let list = Array::from_iter([root]);
                let section = format!("[{}]\n{} = {list}", ROOTS.0, ROOTS.1);
                TomlText::read(text)?.with_entry(ROOTS.0, ROOTS.1, list, (SANDBOX, &section))
            }
            Content::Hooks(hooks) => hooks.with(text),
            Content::Items { path, items } => {
                let mut with = text.unwrap_or("{}").to_owned();
                for item in *items {
                    with = JsonText::read(&with)?.with_item(path, &json!(item), |known| known == item)?;
                }
                Ok(with_final_newline(with, text))
            }
            Content::Values(values) => {
                let mut with = text.unwrap_or("{}").to_owned();
                for (path, value) in values {
                    with = JsonText::read(&with)?.with(path, value)?;
                }
                Ok(with_final_newline(with, text))
            }
        }
    }

    /// Returns the text without Waypost's part. None if there is none.
    pub(super) fn without(&self, text: &str) -> Result<Option<String>> {
        match &self.content {
            Content::Block { marks, .. } => marks.without(text),
            Content::Server { path, .. } => JsonText::read(text)?.without(path),
            Content::CodexServer => {
                let settings = TomlText::read(text)?;
                match TOML.without(text)? {
                    Some(rest) => Ok(Some(rest)),
                    None => settings.without_entry(CODEX_SERVER.0, CODEX_SERVER.1),
                }
            }
            Content::CodexRoot(root) => {
                let settings = TomlText::read(text)?;
                let roots = settings.strings(ROOTS.0, ROOTS.1)?.unwrap_or_default();
                match SANDBOX.body(text)? {
                    Some(_) if roots == [root.as_str()] => SANDBOX.without(text),
                    _ => settings.without_string(ROOTS.0, ROOTS.1, root),
                }
            }
            Content::Hooks(hooks) => {
                let mut without = None;
                for (event, _) in &hooks.events {
                    let rest = without.as_deref().unwrap_or(text);
                    without = JsonText::read(rest)?.without_item(&["hooks", event], is_our_hook)?.or(without);
                }
                Ok(without)
            }
            Content::Items { path, items } => {
                let mut without = None;
                for item in *items {
                    let rest = without.as_deref().unwrap_or(text);
                    without = JsonText::read(rest)?.without_item(path, |known| known == item)?.or(without);
                }
                Ok(without)
            }
            Content::Values(values) => {
                let mut without: Option<String> = None;
                for (path, value) in values {
                    let rest = JsonText::read(without.as_deref().unwrap_or(text))?;
                    if rest.value(path)?.as_ref() == Some(value) {
                        without = rest.without(path)?.or(without);
                    }
                }
                Ok(without)
            }
        }
    }

    /// Returns whether the remaining text is what an unused new file contains.
    pub(super) fn is_empty(&self, rest: &str) -> bool {
        match &self.content {
            Content::Block { header, .. } => rest.trim() == header.trim(),
            Content::CodexServer | Content::CodexRoot(_) => rest.trim().is_empty(),
            Content::Server { .. } | Content::Hooks(_) | Content::Items { .. } | Content::Values(_) => {
                // opencode and Qwen Code add the first two to files that have nothing else.
                let is_ours = |(key, value): (&String, &Value)| match key.as_str() {
                    "$schema" | "$version" => true,
                    key => key == "version" && value == 1,
                };
                serde_json::from_str::<serde_json::Map<String, Value>>(rest).is_ok_and(|rest| rest.iter().all(is_ours))
            }
        }
    }
}

impl Hooks {
    fn state(&self, text: &JsonText, state_of: impl Fn(bool, bool) -> State) -> Result<State> {
        let (mut there, mut same) = (0, 0);
        for (event, moment) in &self.events {
            let list = text.value(&["hooks", event])?.unwrap_or_default();
            there += usize::from(list.as_array().into_iter().flatten().any(is_our_hook));
            same += usize::from(self.is_run(&list, moment));
        }
        Ok(state_of(there > 0, same == self.events.len()))
    }

    fn with(&self, text: Option<&str>) -> Result<String> {
        let mut with = text.unwrap_or(self.new).to_owned();
        for (event, moment) in &self.events {
            let json = JsonText::read(&with)?;
            let path = ["hooks", event];
            if !self.is_run(&json.value(&path)?.unwrap_or_default(), moment) {
                with = json.with_item(&path, &self.entry(moment), is_our_hook)?;
            }
        }
        Ok(with_final_newline(with, text))
    }

    /// Returns whether a list of hooks runs the command of a moment. Beside other commands, where the user put it, it may
    /// be without the guard.
    fn is_run(&self, list: &Value, moment: &str) -> bool {
        let (command, plain) = (self.command(moment), self.plain_command(moment));
        list.as_array().into_iter().flatten().any(|item| {
            let is_mixed = !is_our_hook(item);
            commands(item).any(|known| known == command || (is_mixed && known == plain))
        })
    }

    fn plain_command(&self, moment: &str) -> String {
        format!("way hook {moment} --for {}", self.agent)
    }

    /// Returns the command of a hook, for the shell. It does nothing on a machine without `way`: others who use the
    /// repository need not have it.
    fn command(&self, moment: &str) -> String {
        let plain = self.plain_command(moment);
        if moment.starts_with("worktree-") {
            let otherwise = if moment == "worktree-create" { GIT_WORKTREE } else { "" };
            return format!("{GUARD}{LEAVE_WORKTREE}{plain}{otherwise}; fi");
        }
        let otherwise = match self.otherwise {
            "" => String::new(),
            answer => format!("; else echo '{answer}'"),
        };
        format!("{GUARD}{plain}{otherwise}; fi")
    }

    fn entry(&self, moment: &str) -> Value {
        let command = self.command(moment);
        match self.shape {
            HookShape::Nested => json!({ "hooks": [{ "type": "command", "command": command }] }),
            HookShape::Flat => json!({ "command": command }),
            HookShape::Typed => json!({ "type": "command", "command": command }),
        }
    }
}

/// The beginning of a command that runs only where `way` is.
const GUARD: &str = "if command -v way >/dev/null 2>&1; then ";

/// Leaves the worktree first: a directory in which a process works is not removed.
const LEAVE_WORKTREE: &str = "cd \"${CLAUDE_PROJECT_DIR:-.}\" && ";

/// Makes a worktree with git, as Claude Code does without a hook: it fails if the hook names no worktree.
const GIT_WORKTREE: &str = "; else cd \"${CLAUDE_PROJECT_DIR:-.}\" \
    && name=$(sed -n 's/.*\"name\" *: *\"\\([^\"]*\\)\".*/\\1/p') && root=$(git rev-parse --show-toplevel) \
    && dir=\"$root/.claude/worktrees/$name\" \
    && { [ -d \"$dir\" ] || git worktree add -q -b \"worktree-$name\" \"$dir\" >&2; } && echo \"$dir\"";

/// Returns whether an entry runs only Waypost's commands.
fn is_our_hook(item: &Value) -> bool {
    let is_ours = |command: &str| {
        let inner = command.strip_prefix(GUARD).unwrap_or(command);
        inner.strip_prefix(LEAVE_WORKTREE).unwrap_or(inner).starts_with("way hook ")
    };
    commands(item).next().is_some() && commands(item).all(is_ours)
}

fn commands(item: &Value) -> impl Iterator<Item = &str> {
    let inner = item["hooks"].as_array().into_iter().flatten().map(|hook| &hook["command"]);
    std::iter::once(&item["command"]).chain(inner).filter_map(Value::as_str)
}

/// Returns whether an entry starts Waypost's server. It may have further arguments or use a path.
fn starts_server(server: &Value) -> bool {
    match &server["command"] {
        Value::Array(words) => {
            is_way(words.first().and_then(Value::as_str)) && words.get(1).and_then(Value::as_str) == Some("mcp")
        }
        command => is_way(command.as_str()) && server["args"][0].as_str() == Some("mcp"),
    }
}

fn starts_codex_server(server: &Item) -> bool {
    let first = server.get("args").and_then(|args| args.as_array()?.get(0)?.as_str());
    is_way(server.get("command").and_then(Item::as_str)) && first == Some("mcp")
}

fn is_way(command: Option<&str>) -> bool {
    command.is_some_and(|command| Path::new(command).file_name().is_some_and(|name| name == "way"))
}

/// Ends a new file with a newline; leaves an existing one alone.
fn with_final_newline(text: String, before: Option<&str>) -> String {
    if before.is_none() { text + "\n" } else { text }
}
