//! The coding agents that can be set up, and the files that each of them reads.
//!
//! How the formats were verified:
//!
//! | agent | how |
//! |---|---|
//! | Claude Code 2.1.197 | program: `claude mcp list` shows the server of `.mcp.json` and of `.claude.json`; sessions with a scripted model: hooks, permissions, a worktree that git makes because `way` is missing |
//! | Codex 0.166.0 | program: `codex mcp list`, `codex execpolicy check`, sessions of `codex exec` with a scripted model: instructions, tools, rules and writable roots |
//! | Copilot CLI 1.0.102 | program: `copilot mcp list`, `copilot instruction list`, sessions with a scripted model: tools, hooks and their input, the named rules |
//! | Gemini CLI 0.61.0 | program: `gemini mcp list`; its package contains its documents (settings, hooks); sessions with a scripted model: `tools.allowed`, `trust` |
//! | opencode 1.18.33 | program: `opencode mcp list`, `opencode debug config`, `opencode debug agent build` (permissions) |
//! | Qwen Code 0.24.4 | program: `qwen mcp list`; the schema of its settings is in its package (hooks, names of documents); sessions with a scripted model: `Stop`, `mcp__waypost` |
//! | Cursor | documents only (`mcp.json`, rules, hooks, permissions of its command line) |
//! | VS Code | documents only (`mcp.json`; it reads `AGENTS.md`) |
//! | Zed | documents only (`context_servers`; it reads `AGENTS.md`) |

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::json;
use waypost::machine::Variables;
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};

use super::block::{MARKDOWN, TOML};
use super::files::AgentFile;
use super::part::{Content, HookShape, Hooks, INSTRUCTIONS, Part};

/// The instructions that agents read at the start of every session. They cost tokens each time, so they are short. One
/// text for all agents: several of them read the same file.
const RULES: &str = "\
- Begin with `way prime --agent NAME` (tool `prime`), also after your context was compacted. Choose a unique NAME and \
pass it every time, or set WAYPOST_AGENT.
- Claim work with `way task claim` (`next`), record progress with `way task checkpoint` (`checkpoint`), end with \
`way task done`, `fail` or `ask` (`finish`). Pass the lease epoch that claim printed; exit code 5 or `lease_lost` means: \
stop.
- Record new findings as issues: `way add TITLE` (`issue`). List available issues: `way ready` (`issues`).";

/// The header that makes Cursor read a rule in every session.
const CURSOR_HEADER: &str = "---\ndescription: How work is planned and remembered here\nalwaysApply: true\n---\n";

/// Commands that Codex may run outside of its sandbox without a question: those that read and write issues, tasks and
/// messages. Commands that run programs or write other files are not among them.
const CODEX_RULES: &str = r#"prefix_rule(
    pattern = ["way", [
        "add", "agent", "assign", "blocked", "checkpoint", "claim", "close", "comment", "context", "dep", "label", "list",
        "msg", "prime", "ready", "release", "reopen", "search", "show", "stale", "stats", "status", "task", "update", "where",
    ]],
    decision = "allow",
    justification = "Waypost keeps its state in directories that the sandbox does not let commands write",
)"#;

/// An agent whose hooks `way hook` answers in the agent's own format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
    /// Any other agent.
    Generic,
}

impl Agent {
    const ALL: [Agent; 7] =
        [Agent::ClaudeCode, Agent::Codex, Agent::Copilot, Agent::Cursor, Agent::Gemini, Agent::Qwen, Agent::Generic];

    /// Returns the name used on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude-code",
            Agent::Codex => "codex",
            Agent::Copilot => "copilot",
            Agent::Cursor => "cursor",
            Agent::Gemini => "gemini",
            Agent::Qwen => "qwen",
            Agent::Generic => "generic",
        }
    }
}

impl FromStr for Agent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Agent> {
        let found = Agent::ALL.into_iter().find(|agent| agent.name() == text);
        found.ok_or_else(|| Error::invalid(format!("unknown coding agent {text:?}")))
    }
}

/// A coding agent that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    OpenCode,
    /// Qwen Code.
    Qwen,
    /// VS Code.
    VsCode,
    /// Zed.
    Zed,
    /// Any agent that reads AGENTS.md.
    Generic,
}

/// The files that a setup changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of the repository.
    Repository,
    /// Those of the user, for all repositories.
    User,
}

/// The parts of a setup that are written on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Rules that let the agent use Waypost without asking.
    pub(crate) allow: bool,
    /// Hooks that make the agent's worktrees.
    pub(crate) worktrees: bool,
    /// The entry in the user's settings that lets commands in the agent's sandbox write.
    pub(crate) sandbox: bool,
}

impl Extras {
    /// Everything that may have been written.
    pub(super) const ALL: Extras = Extras { allow: true, worktrees: true, sandbox: true };
}

/// The directories that a setup concerns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The root of the worktree.
    pub(crate) root: Option<PathBuf>,
    /// The private directory of the clone.
    pub(crate) private_dir: Option<PathBuf>,
    /// The environment, which names the directories of the user.
    pub(crate) variables: Variables,
}

impl Target {
    /// All agents that can be set up.
    pub(crate) const ALL: [Target; 10] = [
        Target::ClaudeCode,
        Target::Codex,
        Target::Copilot,
        Target::Cursor,
        Target::Gemini,
        Target::OpenCode,
        Target::Qwen,
        Target::VsCode,
        Target::Zed,
        Target::Generic,
    ];

    /// Returns the name used on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Target::ClaudeCode => "claude-code",
            Target::Codex => "codex",
            Target::Copilot => "copilot",
            Target::Cursor => "cursor",
            Target::Gemini => "gemini",
            Target::OpenCode => "opencode",
            Target::Qwen => "qwen",
            Target::VsCode => "vscode",
            Target::Zed => "zed",
            Target::Generic => "generic",
        }
    }

    /// Returns the programs of the agent.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Target::ClaudeCode => &["claude"],
            Target::Codex => &["codex"],
            Target::Copilot => &["copilot"],
            Target::Cursor => &["cursor-agent", "cursor"],
            Target::Gemini => &["gemini"],
            Target::OpenCode => &["opencode"],
            Target::Qwen => &["qwen"],
            Target::VsCode => &["code", "codium"],
            Target::Zed => &["zed", "zeditor"],
            Target::Generic => &[],
        }
    }

    /// Returns the path of the agent's program, if it is in PATH.
    pub(crate) fn program(self, variables: &Variables) -> Option<PathBuf> {
        let dirs: Vec<PathBuf> = std::env::split_paths(variables.get("PATH")?).collect();
        let candidates = self.programs().iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        candidates.into_iter().find(|path| path.is_absolute() && path.is_file())
    }

    /// Returns what the user must do before the agent reads the settings, if anything.
    pub(crate) fn condition(self, scope: Scope) -> Option<&'static str> {
        match (self, scope) {
            (Target::Codex, Scope::Repository) => {
                Some("Codex reads a repository's settings and runs its hooks after you trust both; it prompts you")
            }
            (Target::Codex, Scope::User) => Some("Codex runs hooks after you trust them; it prompts you"),
            (Target::ClaudeCode, Scope::Repository) => {
                Some("Claude Code asks whether you trust the repository, and once before it starts its MCP servers")
            }
            (Target::Copilot, Scope::Repository) => Some("Copilot CLI reads the settings of folders that you trust"),
            (Target::Gemini, Scope::Repository) => Some("Gemini CLI reads the settings of folders that you trust"),
            (Target::Qwen, Scope::Repository) => {
                Some("Qwen Code starts the servers of a project after your approval: qwen mcp approve waypost")
            }
            (Target::VsCode, _) => Some("VS Code asks once before it starts a new MCP server"),
            (Target::Zed, Scope::Repository) => Some("Zed starts the servers of worktrees that you trust"),
            _ => None,
        }
    }

    /// Returns what lets the agent use Waypost without asking, for people who did not request it to be written.
    pub(crate) fn permission(self) -> Option<&'static str> {
        match self {
            Target::ClaudeCode => Some("with --allow, Claude Code does not ask (mcp__waypost, Bash(way:*))"),
            Target::Codex => Some(
                "with --allow, Codex does not ask, and runs way outside of its sandbox, in linked worktrees too \
                 (.codex/rules/waypost.rules)",
            ),
            Target::Copilot => {
                Some("Copilot CLI does not ask if it is started with --allow-tool=waypost --allow-tool='shell(way:*)'")
            }
            Target::Cursor => Some("with --allow, Cursor's command line does not ask about way (Shell(way))"),
            Target::Gemini => {
                Some("with --allow, Gemini CLI does not ask (run_shell_command(way), and trust for the server)")
            }
            Target::OpenCode => Some("with --allow, opencode does not ask (waypost_*, and way * for bash)"),
            Target::Qwen => Some("with --allow, Qwen Code does not ask (mcp__waypost, Bash(way *))"),
            Target::VsCode | Target::Zed | Target::Generic => None,
        }
    }

    /// Returns whether `--allow` writes something.
    pub(crate) fn has_permissions_file(self) -> bool {
        !matches!(self, Target::Copilot | Target::VsCode | Target::Zed | Target::Generic)
    }

    /// Returns the parts of a setup.
    pub(super) fn parts(self, scope: Scope, around: &Surroundings, extras: Extras) -> Result<Vec<Part>> {
        match scope {
            Scope::Repository => self.repository_parts(around, extras),
            Scope::User => self.user_parts(around, extras),
        }
    }

    fn repository_parts(self, around: &Surroundings, extras: Extras) -> Result<Vec<Part>> {
        let part = |name: &str, content| Part { file: around.repository_file(name), content };
        let agents_md = || part("AGENTS.md", document("", Scope::Repository));
        let mut parts = match self {
            Target::ClaudeCode => vec![
                part("CLAUDE.md", document("", Scope::Repository)),
                part(".mcp.json", mcp_servers()),
                part(".claude/settings.json", claude_hooks()),
            ],
            Target::Codex => vec![
                agents_md(),
                part(".codex/config.toml", Content::CodexServer),
                part(".codex/hooks.json", codex_hooks()),
            ],
            Target::Copilot => vec![
                agents_md(),
                part(".github/mcp.json", copilot_server()),
                part(".github/hooks/waypost.json", copilot_hooks()),
            ],
            Target::Cursor => vec![
                part(".cursor/rules/waypost.mdc", document(CURSOR_HEADER, Scope::Repository)),
                part(".cursor/mcp.json", mcp_servers()),
                part(".cursor/hooks.json", cursor_hooks()),
            ],
            Target::Gemini => vec![
                part("GEMINI.md", document("", Scope::Repository)),
                part(".gemini/settings.json", mcp_servers()),
                part(".gemini/settings.json", gemini_hooks()),
            ],
            Target::OpenCode => vec![agents_md(), Part { file: around.opencode_file(), content: opencode_server() }],
            Target::Qwen => {
                vec![agents_md(), part(".qwen/settings.json", mcp_servers()), part(".qwen/settings.json", qwen_hooks())]
            }
            Target::VsCode => vec![agents_md(), part(".vscode/mcp.json", vscode_server())],
            Target::Zed => vec![agents_md(), part(".zed/settings.json", zed_server())],
            Target::Generic => vec![agents_md()],
        };
        if extras.allow {
            parts.extend(match self {
                Target::ClaudeCode => Some(part(".claude/settings.json", claude_permissions())),
                Target::Codex => Some(part(".codex/rules/waypost.rules", codex_rules())),
                Target::Cursor => Some(part(".cursor/cli.json", cursor_permissions())),
                Target::Gemini => Some(part(".gemini/settings.json", gemini_trust())),
                Target::OpenCode => Some(Part { file: around.opencode_file(), content: opencode_permissions() }),
                Target::Qwen => Some(part(".qwen/settings.json", qwen_permissions())),
                Target::Copilot | Target::VsCode | Target::Zed | Target::Generic => None,
            });
            parts.extend((self == Target::Gemini).then(|| part(".gemini/settings.json", gemini_permissions())));
        }
        if extras.worktrees && self == Target::ClaudeCode {
            // The file of one person: worktrees of other people stay as they are.
            parts.push(part(".claude/settings.local.json", claude_worktrees()));
        }
        if extras.sandbox
            && self == Target::Codex
            && let Some(root) = around.sandbox_root()
        {
            let file = around.user_file("CODEX_HOME", ".codex", "config.toml")?;
            parts.push(Part { file, content: Content::CodexRoot(root) });
        }
        Ok(parts)
    }

    fn user_parts(self, around: &Surroundings, extras: Extras) -> Result<Vec<Part>> {
        let file = |variable, dir, name| around.user_file(variable, dir, name);
        let part = |file: AgentFile, content| Part { file, content };
        let instructions = || document("", Scope::User);
        let claude = |name| file("CLAUDE_CONFIG_DIR", ".claude", name);
        let codex = |name| file("CODEX_HOME", ".codex", name);
        let copilot = |name| file("COPILOT_HOME", ".copilot", name);
        let cursor = |name| file("", ".cursor", name);
        let gemini = |name| file("", ".gemini", name);
        let qwen = |name| file("QWEN_HOME", ".qwen", name);
        let mut parts = match self {
            Target::ClaudeCode => {
                // Without the variable this file is beside the directory.
                let is_set = around.directory_variable("CLAUDE_CONFIG_DIR").is_some();
                let servers = if is_set { claude(".claude.json")? } else { file("", "", ".claude.json")? };
                vec![
                    part(claude("CLAUDE.md")?, instructions()),
                    part(servers, mcp_servers()),
                    part(claude("settings.json")?, claude_hooks()),
                ]
            }
            Target::Codex => vec![
                part(codex("AGENTS.md")?, instructions()),
                part(codex("config.toml")?, Content::CodexServer),
                part(codex("hooks.json")?, codex_hooks()),
            ],
            Target::Copilot => vec![
                part(copilot("copilot-instructions.md")?, instructions()),
                part(copilot("mcp-config.json")?, copilot_server()),
                part(copilot("hooks/waypost.json")?, copilot_hooks()),
            ],
            Target::Cursor => {
                vec![part(cursor("mcp.json")?, mcp_servers()), part(cursor("hooks.json")?, cursor_hooks())]
            }
            Target::Gemini => vec![
                part(gemini("GEMINI.md")?, instructions()),
                part(gemini("settings.json")?, mcp_servers()),
                part(gemini("settings.json")?, gemini_hooks()),
            ],
            Target::OpenCode => vec![
                part(around.config_file("opencode", "AGENTS.md")?, instructions()),
                part(around.user_opencode_file()?, opencode_server()),
            ],
            Target::Qwen => vec![
                part(qwen("AGENTS.md")?, instructions()),
                part(qwen("settings.json")?, mcp_servers()),
                part(qwen("settings.json")?, qwen_hooks()),
            ],
            Target::VsCode => vec![part(around.vscode_file("mcp.json")?, vscode_server())],
            Target::Zed => vec![part(around.config_file("zed", "settings.json")?, zed_server())],
            Target::Generic => {
                return Err(Error::invalid("there is no user file that all agents read")
                    .hint("name the agent instead of generic"));
            }
        };
        if extras.allow {
            match self {
                Target::ClaudeCode => parts.push(part(claude("settings.json")?, claude_permissions())),
                Target::Codex => parts.push(part(codex("rules/waypost.rules")?, codex_rules())),
                Target::Cursor => parts.push(part(cursor("cli-config.json")?, cursor_permissions())),
                Target::Gemini => {
                    parts.push(part(gemini("settings.json")?, gemini_trust()));
                    parts.push(part(gemini("settings.json")?, gemini_permissions()));
                }
                Target::OpenCode => parts.push(part(around.user_opencode_file()?, opencode_permissions())),
                Target::Qwen => parts.push(part(qwen("settings.json")?, qwen_permissions())),
                Target::Copilot | Target::VsCode | Target::Zed | Target::Generic => {}
            }
        }
        if extras.worktrees && self == Target::ClaudeCode {
            parts.push(part(claude("settings.json")?, claude_worktrees()));
        }
        Ok(parts)
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        Target::ALL.into_iter().find(|agent| agent.name() == text).ok_or_else(|| {
            let error = Error::invalid(format!("unknown coding agent {text:?}"));
            match nearest(text, Target::ALL.into_iter().map(Target::name)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint(format!("use one of {}", Target::ALL.map(Target::name).join(", "))),
            }
        })
    }
}

impl Surroundings {
    fn repository_file(&self, name: &str) -> AgentFile {
        let root = self.root.clone().unwrap_or_default();
        AgentFile { shown: name.to_owned(), path: root.join(name), root: Some(root) }
    }

    /// Returns a file of the user in the directory that a variable names, or else in one of the home directory.
    fn user_file(&self, variable: &str, dir: &str, name: &str) -> Result<AgentFile> {
        if let Some(named) = self.directory_variable(variable) {
            let path = named.join(name);
            return Ok(AgentFile { shown: path.display().to_string(), path, root: None });
        }
        let home = self.variables.home().ok_or_else(|| {
            Error::unavailable("the home directory is unknown").hint("set HOME, or set up the repository only")
        })?;
        let below = PathBuf::from(dir).join(name);
        Ok(AgentFile { shown: format!("~/{}", below.display()), path: home.join(below), root: None })
    }

    /// Returns a file of the user where desktop programs keep their settings.
    fn config_file(&self, program: &str, name: &str) -> Result<AgentFile> {
        match self.directory_variable("XDG_CONFIG_HOME") {
            Some(_) => self.user_file("XDG_CONFIG_HOME", "", &format!("{program}/{name}")),
            None => self.user_file("", &format!(".config/{program}"), name),
        }
    }

    fn vscode_file(&self, name: &str) -> Result<AgentFile> {
        if cfg!(target_os = "macos") {
            self.user_file("", "Library/Application Support/Code/User", name)
        } else {
            self.config_file("Code", &format!("User/{name}"))
        }
    }

    fn opencode_file(&self) -> AgentFile {
        existing([self.repository_file("opencode.json"), self.repository_file("opencode.jsonc")])
    }

    fn user_opencode_file(&self) -> Result<AgentFile> {
        let file = |name| self.config_file("opencode", name);
        Ok(existing([file("opencode.json")?, file("opencode.jsonc")?]))
    }

    fn directory_variable(&self, name: &str) -> Option<PathBuf> {
        let value = self.variables.get(OsStr::new(name)).filter(|_| !name.is_empty())?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    }

    /// Returns the directory that Codex's sandbox must let commands write. It makes the directories of version control
    /// read-only, and everything outside of the worktree.
    fn sandbox_root(&self) -> Option<String> {
        let (root, dir) = (self.root.as_deref()?, self.private_dir.as_deref()?);
        let is_writable =
            dir.strip_prefix(root).is_ok_and(|inside| inside.components().all(|part| part.as_os_str() != ".git"));
        if is_writable { None } else { dir.to_str().map(str::to_owned) }
    }
}

/// Returns the second file if only that one exists.
fn existing([first, second]: [AgentFile; 2]) -> AgentFile {
    if !first.path.exists() && second.path.exists() { second } else { first }
}

fn document(header: &'static str, scope: Scope) -> Content {
    let place = match scope {
        Scope::Repository => "this repository",
        Scope::User => "my repositories",
    };
    let body = format!(
        "## Waypost\n\nWork in {place} is planned and remembered with Waypost: the MCP tools of `waypost`, or the command \
         `way`. Use the tools where a sandbox does not let commands write, as Codex's does.\n\n{RULES}"
    );
    Content::Block { what: INSTRUCTIONS, marks: MARKDOWN, header, body }
}

fn mcp_servers() -> Content {
    let value = json!({ "command": "way", "args": ["mcp"] });
    Content::Server { path: &["mcpServers", "waypost"], value, new: "{}" }
}

fn copilot_server() -> Content {
    let value = json!({ "type": "local", "command": "way", "args": ["mcp"], "tools": ["*"] });
    Content::Server { path: &["mcpServers", "waypost"], value, new: "{}" }
}

fn opencode_server() -> Content {
    let value = json!({ "type": "local", "command": ["way", "mcp"] });
    // opencode adds the schema to a file that has none.
    Content::Server {
        path: &["mcp", "waypost"],
        value,
        new: "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}",
    }
}

fn vscode_server() -> Content {
    let value = json!({ "type": "stdio", "command": "way", "args": ["mcp"] });
    Content::Server { path: &["servers", "waypost"], value, new: "{}" }
}

fn zed_server() -> Content {
    let value = json!({ "command": "way", "args": ["mcp"] });
    Content::Server { path: &["context_servers", "waypost"], value, new: "{}" }
}

/// The names of the events in Claude Code, which Codex, Copilot CLI and Qwen Code share.
const EVENTS: [&str; 4] = ["SessionStart", "PreCompact", "Stop", "PostToolUse"];

fn hooks(agent: &'static str, [start, compact, stop, tool]: [&'static str; 4]) -> Hooks {
    let events = vec![(start, "start"), (compact, "compact"), (stop, "stop"), (tool, "tool")];
    Hooks { agent, events, shape: HookShape::Nested, otherwise: "", new: "{}" }
}

fn claude_hooks() -> Content {
    Content::Hooks(hooks("claude-code", EVENTS))
}

fn claude_worktrees() -> Content {
    let events = vec![("WorktreeCreate", "worktree-create"), ("WorktreeRemove", "worktree-remove")];
    Content::Hooks(Hooks { events, ..hooks("claude-code", EVENTS) })
}

fn codex_hooks() -> Content {
    Content::Hooks(Hooks { otherwise: "{}", ..hooks("codex", EVENTS) })
}

fn copilot_hooks() -> Content {
    let new = "{\n  \"version\": 1\n}";
    Content::Hooks(Hooks { shape: HookShape::Typed, new, ..hooks("copilot", EVENTS) })
}

fn cursor_hooks() -> Content {
    let events = ["sessionStart", "preCompact", "stop", "postToolUse"];
    let new = "{\n  \"version\": 1\n}";
    Content::Hooks(Hooks { shape: HookShape::Flat, otherwise: "{}", new, ..hooks("cursor", events) })
}

fn gemini_hooks() -> Content {
    let events = ["SessionStart", "PreCompress", "AfterAgent", "AfterTool"];
    Content::Hooks(Hooks { otherwise: "{}", ..hooks("gemini", events) })
}

fn qwen_hooks() -> Content {
    Content::Hooks(hooks("qwen", EVENTS))
}

fn claude_permissions() -> Content {
    Content::Items { path: &["permissions", "allow"], items: &["mcp__waypost", "Bash(way:*)"] }
}

fn codex_rules() -> Content {
    Content::Block { what: "permissions", marks: TOML, header: "", body: CODEX_RULES.to_owned() }
}

fn cursor_permissions() -> Content {
    Content::Items { path: &["permissions", "allow"], items: &["Shell(way)"] }
}

fn gemini_trust() -> Content {
    Content::Values(vec![(&["mcpServers", "waypost", "trust"], json!(true))])
}

fn gemini_permissions() -> Content {
    Content::Items { path: &["tools", "allowed"], items: &["run_shell_command(way)"] }
}

fn opencode_permissions() -> Content {
    Content::Values(vec![
        (&["permission", "bash", "way *"], json!("allow")),
        (&["permission", "waypost_*"], json!("allow")),
    ])
}

fn qwen_permissions() -> Content {
    Content::Items { path: &["permissions", "allow"], items: &["mcp__waypost", "Bash(way *)"] }
}
