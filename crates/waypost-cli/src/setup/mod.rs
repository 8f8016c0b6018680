//! What coding agents are told about Waypost, in the files that each of them reads.
//!
//! Of a document it is a marked block, of settings certain keys. Everything else in them is left as it is, byte for byte.
//! Nothing is written unless all of it can be.

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

/// What agents read at the beginning of every session. It is paid for each time, so it says only how to begin.
const BLOCK: &str = "\
## Waypost

Work in this repository is planned and remembered with Waypost: the command `way`, or the MCP tools of `waypost`.

- Begin with `way prime --agent NAME` (tool `prime`), also after your context was compacted. NAME is yours alone; say it \
every time, or set WAYPOST_AGENT.
- Take work with `way task claim` (`next`), note how far you got with `way task checkpoint` (`checkpoint`), end with \
`way task done`, `fail` or `ask` (`finish`). Say the lease epoch you were told; exit code 5 or `lease_lost` means: stop.
- What you find on the way becomes an issue: `way add TITLE`. What can be done now: `way ready`.";

/// What makes Cursor read a rule in every session.
const CURSOR_HEADER: &str = "---\ndescription: How work is planned and remembered here\nalwaysApply: true\n---\n";

/// How Codex starts the server.
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
    /// Any that reads AGENTS.md.
    Generic,
}

impl Agent {
    /// All of them.
    pub(crate) const ALL: [Agent; 5] = [Agent::ClaudeCode, Agent::Codex, Agent::Cursor, Agent::Gemini, Agent::Generic];

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude-code",
            Agent::Codex => "codex",
            Agent::Cursor => "cursor",
            Agent::Gemini => "gemini",
            Agent::Generic => "generic",
        }
    }

    /// What its user has to do before it obeys what stands in a repository, if anything.
    pub(crate) fn condition(self) -> Option<&'static str> {
        match self {
            Agent::Codex => Some("Codex runs hooks of a repository once you trust it and them, which it asks for"),
            Agent::Gemini => Some("Gemini CLI obeys the settings of folders that you trust"),
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
                hooks(".claude/settings.json", ["SessionStart", "PreCompact", "Stop"]),
            ],
            Agent::Codex => vec![
                document("AGENTS.md"),
                Part { path: ".codex/config.toml", content: Content::CodexServer },
                hooks(".codex/hooks.json", ["SessionStart", "PreCompact", "Stop"]),
            ],
            Agent::Cursor => vec![
                Part { path: ".cursor/rules/waypost.mdc", content: Content::Document { header: CURSOR_HEADER } },
                servers(".cursor/mcp.json"),
                hooks(".cursor/hooks.json", ["sessionStart", "preCompact", "stop"]),
            ],
            Agent::Gemini => vec![
                document("GEMINI.md"),
                servers(".gemini/settings.json"),
                hooks(".gemini/settings.json", ["SessionStart", "PreCompress", "AfterAgent"]),
            ],
            Agent::Generic => vec![document("AGENTS.md")],
        }
    }
}

impl FromStr for Agent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Agent> {
        Agent::ALL.into_iter().find(|agent| agent.name() == text).ok_or_else(|| {
            let error = Error::invalid(format!("there is no agent {text:?}"));
            match nearest(text, Agent::ALL.into_iter().map(Agent::name)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint("it is claude-code, codex, cursor, gemini or generic"),
            }
        })
    }
}

/// How a part of a setup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// As it should be.
    InOrder,
    /// Not there.
    Missing,
    /// There, but not as it should be by now.
    Outdated,
}

/// A part of a setup, as it is or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PartStatus {
    /// The file, from the root of the worktree.
    pub(crate) path: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
    /// How it is, or was before it was changed.
    pub(crate) state: State,
}

/// A part of a setup as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlannedPart {
    /// The file, from the root of the worktree.
    pub(crate) path: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
    /// What stands in it.
    pub(crate) content: String,
}

/// Returns what would be written.
pub(crate) fn planned_parts(agent: Agent) -> Result<Vec<PlannedPart>> {
    let shown = |part: &Part| Ok(PlannedPart { path: part.path, what: part.content.what(), content: part.with(None)? });
    agent.parts().iter().map(shown).collect()
}

/// Tells how the setup of an agent is.
pub(crate) fn check(root: &Path, agent: Agent) -> Result<Vec<PartStatus>> {
    let mut tree = Tree::new(root);
    agent.parts().iter().map(|part| part.status(tree.read(part.path)?.as_deref())).collect()
}

/// Writes what is missing or outdated, and tells how it was.
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

/// Takes away what is there, and tells how it was.
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

/// Something that an agent is told, and where.
struct Part {
    path: &'static str,
    content: Content,
}

enum Content {
    /// A block in a document. A new one begins with a header.
    Document { header: &'static str },
    /// The server among others, as most have it.
    Server,
    /// The server among others, as Codex has it.
    CodexServer,
    /// What is run when a session begins, is compacted, and has done its turn.
    Hooks(Agent, [&'static str; 3]),
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

    /// Returns the text with what is ours in it.
    fn with(&self, text: Option<&str>) -> Result<String> {
        match &self.content {
            Content::Document { header } => MARKDOWN.with(text.unwrap_or(header), BLOCK),
            Content::Server => {
                let server = json!({ "command": "way", "args": ["mcp"] });
                Ok(with_final_newline(JsonText::read(text.unwrap_or("{}"))?.with(SERVER, &server)?, text))
            }
            Content::CodexServer => {
                let with = TOML.with(text.unwrap_or_default(), CODEX_SERVER)?;
                // Tables that were written in another way cannot be added to by a block.
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

    /// Returns the text without what is ours. None if nothing is.
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

    /// Tells whether what is left was there only for us.
    fn is_empty(&self, rest: &str) -> bool {
        match &self.content {
            Content::Document { header } => rest.trim() == header.trim(),
            Content::CodexServer => rest.trim().is_empty(),
            Content::Server | Content::Hooks(..) => serde_json::from_str::<Value>(rest)
                .is_ok_and(|rest| rest == json!({}) || rest == json!({ "version": 1 })),
        }
    }
}

/// When hooks are run, as `way hook` calls it.
const MOMENTS: [&str; 3] = ["start", "compact", "stop"];

fn hook_command(agent: Agent, moment: &str) -> String {
    format!("way hook {moment} --for {}", agent.name())
}

fn hook(agent: Agent, command: &str) -> Value {
    match agent {
        Agent::Cursor => json!({ "command": command }),
        _ => json!({ "hooks": [{ "type": "command", "command": command }] }),
    }
}

/// Tells whether an entry runs a command, whatever else it does.
fn runs(item: &Value, command: &str) -> bool {
    commands(item).any(|known| known == command)
}

/// Tells whether an entry runs commands of ours and nothing else.
fn is_our_hook(item: &Value) -> bool {
    commands(item).next().is_some() && commands(item).all(|command| command.starts_with("way hook "))
}

fn commands(item: &Value) -> impl Iterator<Item = &str> {
    let inner = item["hooks"].as_array().into_iter().flatten().map(|hook| &hook["command"]);
    std::iter::once(&item["command"]).chain(inner).filter_map(Value::as_str)
}

/// Tells whether a server is ours: with further arguments, or by a path, it still is.
fn starts_server(command: Option<&str>, first: Option<&str>) -> bool {
    command.is_some_and(|command| Path::new(command).file_name().is_some_and(|name| name == "way"))
        && first == Some("mcp")
}

/// A new file ends with a new line.
fn with_final_newline(text: String, before: Option<&str>) -> String {
    if before.is_none() { text + "\n" } else { text }
}

fn parse_toml(text: &str) -> Result<DocumentMut> {
    text.parse().map_err(|error: toml_edit::TomlError| Error::invalid("it is not TOML").because(error.message()))
}

fn unreadable(path: &str, error: Error) -> Error {
    error.within(path).hint("nothing was changed: put it in order first, or move it away")
}

/// Files of a worktree, as they are and as they will be.
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

    /// Returns what a file says, changes included. None if there is none.
    fn read(&mut self, path: &'static str) -> Result<Option<String>> {
        if let Some(file) = self.files.get(path) {
            return Ok(file.text.clone());
        }
        let target = self.check_inside(path)?;
        let cannot = |error| Error::unavailable(format!("cannot read {path}")).because(error);
        let (bytes, seen) = waypost_fs::read_version(&target).map_err(cannot)?;
        let text = seen.exists().then(|| String::from_utf8(bytes)).transpose();
        let text = text.map_err(|error| unreadable(path, Error::invalid("it is not text").because(error)))?;
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
                    return Err(
                        Error::conflict(format!("{path} was changed by another program meanwhile")).hint("try again")
                    );
                }
                Replaced::Unsynced(error) => {
                    let problem = format!("{path} is written, but a power cut may undo it");
                    return Err(Error::unavailable(problem).because(error).hint("check the disk, then try again"));
                }
            }
        }
        Ok(())
    }

    /// Deletes a file, and the directories that are empty then.
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

    /// Returns where a file really is. Who writes the repository does not choose where we write outside of it.
    fn check_inside(&self, path: &str) -> Result<PathBuf> {
        let target = self.root.join(path);
        let refused = || {
            Error::refused(format!("{path} is a link that leads out of the repository"))
                .hint("replace the link with what it should be")
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
