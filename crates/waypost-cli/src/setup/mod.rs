//! Configures coding agents for Waypost, in the files that each agent reads.
//!
//! Waypost owns a marked block in documents and certain keys in settings, and preserves every other byte. All files are
//! checked before the first one is written.

mod block;
mod json_text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use toml_edit::DocumentMut;
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};
use waypost_fs::Replaced;

use block::{MARKDOWN, TOML};
use json_text::JsonText;

/// The instructions that agents read at the start of every session. They cost tokens each time, so they are short.
const BLOCK: &str = "\
## Waypost

Work in this repository is planned and remembered with Waypost: the command `way`, or the MCP tools of `waypost`.

- Begin with `way prime --agent NAME` (tool `prime`), also after your context was compacted. Choose a unique NAME and \
pass it every time, or set WAYPOST_AGENT.
- Claim work with `way task claim` (`next`), record progress with `way task checkpoint` (`checkpoint`), end with \
`way task done`, `fail` or `ask` (`finish`). Pass the lease epoch that claim printed; exit code 5 or `lease_lost` means: \
stop.
- Record new findings as issues: `way add TITLE`. List available issues: `way ready`.";

/// The header that makes Cursor read a rule in every session.
const CURSOR_HEADER: &str = "---\ndescription: How work is planned and remembered here\nalwaysApply: true\n---\n";

/// The settings with which Codex starts the MCP server.
const CODEX_SERVER: &str = "[mcp_servers.waypost]\ncommand = \"way\"\nargs = [\"mcp\"]";

/// A coding agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
    /// Any agent that reads AGENTS.md.
    Generic,
}

impl Agent {
    /// All supported agents.
    pub(crate) const ALL: [Agent; 5] = [Agent::ClaudeCode, Agent::Codex, Agent::Cursor, Agent::Gemini, Agent::Generic];

    /// Returns the name used on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude-code",
            Agent::Codex => "codex",
            Agent::Cursor => "cursor",
            Agent::Gemini => "gemini",
            Agent::Generic => "generic",
        }
    }

    /// Returns what the user must do before the agent reads a repository's settings, if anything.
    pub(crate) fn condition(self) -> Option<&'static str> {
        match self {
            Agent::Codex => {
                Some("Codex runs a repository's hooks after you trust the repository and the hooks; it prompts you")
            }
            Agent::Gemini => Some("Gemini CLI reads the settings of folders that you trust"),
            Agent::ClaudeCode | Agent::Cursor | Agent::Generic => None,
        }
    }

    fn parts(self) -> Vec<Part> {
        let document = |path| Part { path, content: Content::Document { header: "" } };
        let servers = |path| Part { path, content: Content::Server };
        let hooks = |path, events| Part { path, content: Content::Hooks(self, events) };
        match self {
            Agent::ClaudeCode => vec![
                document("CLAUDE.md"),
                servers(".mcp.json"),
                hooks(".claude/settings.json", ["SessionStart", "PreCompact", "Stop", "PostToolUse"]),
            ],
            Agent::Codex => vec![
                document("AGENTS.md"),
                Part { path: ".codex/config.toml", content: Content::CodexServer },
                hooks(".codex/hooks.json", ["SessionStart", "PreCompact", "Stop", "PostToolUse"]),
            ],
            Agent::Cursor => vec![
                Part { path: ".cursor/rules/waypost.mdc", content: Content::Document { header: CURSOR_HEADER } },
                servers(".cursor/mcp.json"),
                hooks(".cursor/hooks.json", ["sessionStart", "preCompact", "stop", "postToolUse"]),
            ],
            Agent::Gemini => vec![
                document("GEMINI.md"),
                servers(".gemini/settings.json"),
                hooks(".gemini/settings.json", ["SessionStart", "PreCompress", "AfterAgent", "AfterTool"]),
            ],
            Agent::Generic => vec![document("AGENTS.md")],
        }
    }
}

impl FromStr for Agent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Agent> {
        Agent::ALL.into_iter().find(|agent| agent.name() == text).ok_or_else(|| {
            let error = Error::invalid(format!("unknown coding agent {text:?}"));
            match nearest(text, Agent::ALL.into_iter().map(Agent::name)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("use claude-code, codex, cursor, gemini or generic"),
            }
        })
    }
}

/// The state of one part of a setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Present and up to date.
    InOrder,
    /// Not present.
    Missing,
    /// Present, but not up to date.
    Outdated,
}

/// A part of a setup, with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PartStatus {
    /// The file, relative to the root of the worktree.
    pub(crate) path: &'static str,
    /// The kind of part, such as "hooks".
    pub(crate) what: &'static str,
    /// Its state before any change.
    pub(crate) state: State,
}

/// A part of a setup, with the content that setup writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlannedPart {
    /// The file, relative to the root of the worktree.
    pub(crate) path: &'static str,
    /// The kind of part, such as "hooks".
    pub(crate) what: &'static str,
    /// The content of a new file.
    pub(crate) content: String,
}

/// Returns the files that setup would write in an empty repository.
pub(crate) fn planned_parts(agent: Agent) -> Result<Vec<PlannedPart>> {
    let shown = |part: &Part| Ok(PlannedPart { path: part.path, what: part.content.what(), content: part.with(None)? });
    agent.parts().iter().map(shown).collect()
}

/// Returns the state of an agent's setup.
pub(crate) fn check(root: &Path, agent: Agent) -> Result<Vec<PartStatus>> {
    let mut tree = Tree::new(root);
    agent.parts().iter().map(|part| part.status(tree.read(part.path)?.as_deref())).collect()
}

/// Writes missing and outdated parts, and returns their former states.
pub(crate) fn set_up(root: &Path, agent: Agent) -> Result<Vec<PartStatus>> {
    let mut tree = Tree::new(root);
    let mut found = Vec::new();
    for part in agent.parts() {
        let text = tree.read(part.path)?;
        let was = part.status(text.as_deref())?;
        if was.state != State::InOrder {
            tree.change(part.path, Some(part.with(text.as_deref()).map_err(|error| error.within(part.path))?));
        }
        found.push(was);
    }
    tree.write()?;
    Ok(found)
}

/// Removes all parts, and returns their former states.
pub(crate) fn remove(root: &Path, agent: Agent) -> Result<Vec<PartStatus>> {
    let mut tree = Tree::new(root);
    let mut found = Vec::new();
    for part in agent.parts() {
        let text = tree.read(part.path)?;
        found.push(part.status(text.as_deref())?);
        if let Some(text) = text
            && let Some(rest) = part.without(&text).map_err(|error| error.within(part.path))?
        {
            let is_unused = part.is_empty(&rest);
            tree.change(part.path, (!is_unused).then_some(rest));
        }
    }
    tree.write()?;
    Ok(found)
}

/// A piece of configuration, and its file.
struct Part {
    path: &'static str,
    content: Content,
}

enum Content {
    /// A block in a document. A new document begins with the header.
    Document { header: &'static str },
    /// An entry for the MCP server in JSON.
    Server,
    /// An entry for the MCP server in Codex's TOML.
    CodexServer,
    /// Hooks for the start of a session, its compaction and the end of a turn.
    Hooks(Agent, [&'static str; 4]),
}

impl Content {
    fn what(&self) -> &'static str {
        match self {
            Content::Document { .. } => "instructions",
            Content::Server | Content::CodexServer => "MCP server",
            Content::Hooks(..) => "hooks",
        }
    }
}

const SERVER: &[&str] = &["mcpServers", "waypost"];

impl Part {
    fn status(&self, text: Option<&str>) -> Result<PartStatus> {
        let state = match text {
            None => Ok(State::Missing),
            Some(text) => self.state(text).map_err(|error| unreadable(self.path, error)),
        };
        Ok(PartStatus { path: self.path, what: self.content.what(), state: state? })
    }

    fn state(&self, text: &str) -> Result<State> {
        let state_of = |is_there: bool, is_same: bool| match (is_there, is_same) {
            (_, true) => State::InOrder,
            (true, false) => State::Outdated,
            (false, false) => State::Missing,
        };
        match &self.content {
            Content::Document { .. } => {
                let body = MARKDOWN.body(text)?;
                Ok(state_of(body.is_some(), body.as_deref() == Some(BLOCK)))
            }
            Content::Server => {
                let server = JsonText::read(text)?.value(SERVER)?;
                let is_same = server
                    .as_ref()
                    .is_some_and(|server| starts_server(server["command"].as_str(), server["args"][0].as_str()));
                Ok(state_of(server.is_some(), is_same))
            }
            Content::CodexServer => {
                let settings: DocumentMut = parse_toml(text)?;
                let server = settings.get("mcp_servers").and_then(|servers| servers.get("waypost"));
                let is_same = server.is_some_and(|server| {
                    let first = server.get("args").and_then(|args| args.as_array()?.get(0)?.as_str());
                    starts_server(server.get("command").and_then(|command| command.as_str()), first)
                });
                Ok(state_of(server.is_some() || TOML.body(text)?.is_some(), is_same))
            }
            Content::Hooks(agent, events) => {
                let text = JsonText::read(text)?;
                let (mut there, mut same) = (0, 0);
                for (event, moment) in events.iter().zip(MOMENTS) {
                    let list = text.value(&["hooks", event])?.unwrap_or_default();
                    let items = || list.as_array().into_iter().flatten();
                    there += usize::from(items().any(is_our_hook));
                    same += usize::from(items().any(|item| runs(item, &hook_command(*agent, moment))));
                }
                Ok(state_of(there > 0, same == events.len()))
            }
        }
    }

    /// Returns the text with Waypost's part added or updated.
    fn with(&self, text: Option<&str>) -> Result<String> {
        match &self.content {
            Content::Document { header } => MARKDOWN.with(text.unwrap_or(header), BLOCK),
            Content::Server => {
                let server = json!({ "command": "way", "args": ["mcp"] });
                Ok(with_final_newline(JsonText::read(text.unwrap_or("{}"))?.with(SERVER, &server)?, text))
            }
            Content::CodexServer => {
                let with = TOML.with(text.unwrap_or_default(), CODEX_SERVER)?;
                // A block cannot extend an inline table; parsing detects that.
                parse_toml(&with)?;
                Ok(with)
            }
            Content::Hooks(agent, events) => {
                let new = if *agent == Agent::Cursor { "{\n  \"version\": 1\n}" } else { "{}" };
                let mut with = text.unwrap_or(new).to_owned();
                for (event, moment) in events.iter().zip(MOMENTS) {
                    let json = JsonText::read(&with)?;
                    let path = ["hooks", event];
                    let list = json.value(&path)?.unwrap_or_default();
                    let command = hook_command(*agent, moment);
                    if !list.as_array().into_iter().flatten().any(|item| runs(item, &command)) {
                        with = json.with_item(&path, &hook(*agent, &command), is_our_hook)?;
                    }
                }
                Ok(with_final_newline(with, text))
            }
        }
    }

    /// Returns the text without Waypost's part. None if there is none.
    fn without(&self, text: &str) -> Result<Option<String>> {
        match &self.content {
            Content::Document { .. } => MARKDOWN.without(text),
            Content::Server => JsonText::read(text)?.without(SERVER),
            Content::CodexServer => {
                parse_toml(text)?;
                TOML.without(text)
            }
            Content::Hooks(_, events) => {
                let mut without = None;
                for event in events {
                    let rest = without.as_deref().unwrap_or(text);
                    without = JsonText::read(rest)?.without_item(&["hooks", event], is_our_hook)?.or(without);
                }
                Ok(without)
            }
        }
    }

    /// Returns whether the remaining text is what an unused new file contains.
    fn is_empty(&self, rest: &str) -> bool {
        match &self.content {
            Content::Document { header } => rest.trim() == header.trim(),
            Content::CodexServer => rest.trim().is_empty(),
            Content::Server | Content::Hooks(..) => serde_json::from_str::<Value>(rest)
                .is_ok_and(|rest| rest == json!({}) || rest == json!({ "version": 1 })),
        }
    }
}

/// The moments of the hooks, as `way hook` names them.
const MOMENTS: [&str; 4] = ["start", "compact", "stop", "tool"];

fn hook_command(agent: Agent, moment: &str) -> String {
    format!("way hook {moment} --for {}", agent.name())
}

fn hook(agent: Agent, command: &str) -> Value {
    match agent {
        Agent::Cursor => json!({ "command": command }),
        _ => json!({ "hooks": [{ "type": "command", "command": command }] }),
    }
}

/// Returns whether an entry runs a command, possibly among others.
fn runs(item: &Value, command: &str) -> bool {
    commands(item).any(|known| known == command)
}

/// Returns whether an entry runs only Waypost's commands.
fn is_our_hook(item: &Value) -> bool {
    commands(item).next().is_some() && commands(item).all(|command| command.starts_with("way hook "))
}

fn commands(item: &Value) -> impl Iterator<Item = &str> {
    let inner = item["hooks"].as_array().into_iter().flatten().map(|hook| &hook["command"]);
    std::iter::once(&item["command"]).chain(inner).filter_map(Value::as_str)
}

/// Returns whether an entry starts Waypost's server. It may have further arguments or use a path.
fn starts_server(command: Option<&str>, first: Option<&str>) -> bool {
    command.is_some_and(|command| Path::new(command).file_name().is_some_and(|name| name == "way"))
        && first == Some("mcp")
}

/// Ends a new file with a newline; leaves an existing one alone.
fn with_final_newline(text: String, before: Option<&str>) -> String {
    if before.is_none() { text + "\n" } else { text }
}

fn parse_toml(text: &str) -> Result<DocumentMut> {
    text.parse().map_err(|error: toml_edit::TomlError| Error::invalid("not valid TOML").because(error.message()))
}

fn unreadable(path: &str, error: Error) -> Error {
    error.within(path).hint("nothing was changed; fix the file or move it away, then try again")
}

/// Files of a worktree, with pending changes.
struct Tree<'a> {
    root: &'a Path,
    files: BTreeMap<&'static str, File>,
}

struct File {
    target: PathBuf,
    seen: waypost_fs::FileVersion,
    text: Option<String>,
    is_changed: bool,
}

impl<'a> Tree<'a> {
    fn new(root: &'a Path) -> Self {
        Tree { root, files: BTreeMap::new() }
    }

    /// Returns the text of a file, pending changes included. None if it does not exist.
    fn read(&mut self, path: &'static str) -> Result<Option<String>> {
        if let Some(file) = self.files.get(path) {
            return Ok(file.text.clone());
        }
        let target = self.check_inside(path)?;
        let cannot = |error| Error::unavailable(format!("cannot read {path}")).because(error);
        let (bytes, seen) = waypost_fs::read_version(&target).map_err(cannot)?;
        let text = seen.exists().then(|| String::from_utf8(bytes)).transpose();
        let text = text.map_err(|error| unreadable(path, Error::invalid("not UTF-8 text").because(error)))?;
        self.files.insert(path, File { target, seen, text: text.clone(), is_changed: false });
        Ok(text)
    }

    fn change(&mut self, path: &'static str, text: Option<String>) {
        if let Some(file) = self.files.get_mut(path) {
            (file.text, file.is_changed) = (text, true);
        }
    }

    fn write(self) -> Result<()> {
        for (path, file) in self.files.iter().filter(|(_, file)| file.is_changed) {
            let cannot = |error| Error::unavailable(format!("cannot write {path}")).because(error);
            let Some(text) = &file.text else {
                self.delete(file).map_err(cannot)?;
                continue;
            };
            if let Some(parent) = file.target.parent() {
                std::fs::create_dir_all(parent).map_err(cannot)?;
            }
            match waypost_fs::replace_if_unchanged(&file.seen, &[text.as_bytes()], 0o644).map_err(cannot)? {
                Replaced::Durably(_) => {}
                Replaced::Changed => {
                    return Err(Error::conflict(format!("another program changed {path} meanwhile")).hint("try again"));
                }
                Replaced::Unsynced(error) => {
                    let problem = format!("{path} is written, but a power cut may undo it");
                    return Err(Error::unavailable(problem).because(error).hint("check the disk, then try again"));
                }
            }
        }
        Ok(())
    }

    /// Deletes a file, and the directories that become empty.
    fn delete(&self, file: &File) -> std::io::Result<()> {
        match std::fs::remove_file(&file.target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let root = std::fs::canonicalize(self.root)?;
        for dir in file.target.ancestors().skip(1).take_while(|dir| *dir != root && dir.starts_with(&root)) {
            if std::fs::remove_dir(dir).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the real path of a file. Symlinks in a repository must not make Waypost write outside of it.
    fn check_inside(&self, path: &str) -> Result<PathBuf> {
        let target = self.root.join(path);
        let refused = || {
            Error::refused(format!("{path} is a symlink that leads out of the repository"))
                .hint("replace the symlink with a file or directory")
        };
        let root = std::fs::canonicalize(self.root).map_err(|_| refused())?;
        for existing in target.ancestors().take_while(|dir| *dir != self.root) {
            if !existing.is_symlink() && !existing.exists() {
                continue;
            }
            let real = std::fs::canonicalize(existing).map_err(|_| refused())?;
            if !real.starts_with(&root) {
                return Err(refused());
            }
            return Ok(match target.strip_prefix(existing) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => real,
            });
        }
        Ok(root.join(path))
    }
}
