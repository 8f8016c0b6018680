//! `way hook`

use std::collections::BTreeSet;
use std::io::{BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize as _;
use serde_json::{Value, json};
use waypost_core::op::{LeaseView, ListLeases};
use waypost_core::{Error, Result};
use waypost_fs::{create_private_dir, replace};
use waypost_workspace::surroundings;

use crate::CommandContext;
use crate::escape::escape;
use crate::setup::Agent;
use crate::ui::print;
use waypost::app::session::Session;
use waypost::machine::CLAUDE_ENV_FILE;
use waypost::machine::place::{Location, Place};
use waypost::ops::Prime;
use waypost::work::jobs;
use waypost::work::workspaces::{self, Force, UserWorkspaces};

/// Maximum size of the JSON that an agent writes to standard input.
const MAX_INPUT_BYTES: u64 = 64 << 20;
/// Characters of the session id that make it unique in practice.
const SESSION_ID_CHARS: usize = 8;
/// Maximum number of names that a session keeps.
const MAX_SESSION_NAMES: usize = 32;
/// Maximum size of a name that a session keeps.
const MAX_NAME_BYTES: usize = 100;

/// Run a hook of a coding agent; installed by way setup
///
/// Reads the agent's session description from standard input and derives the agent's name from it, unless --agent or
/// WAYPOST_AGENT is set. Renews the leases of that name, and of the names that the session's commands and tools used. Exits
/// with 0 even if it fails, because a failing hook must not interrupt the agent.
///
/// worktree-create and worktree-remove make workspaces of the worktrees of Claude Code: way ws list has them. They fail with
/// an error if the worktree cannot be created, or if its removal would lose work; the agent then keeps it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way hook start --for claude-code       print the context for a new or compacted session
  way hook compact --for claude-code     renew the leases and print a reminder of them
  way hook tool --for claude-code        renew the leases, after every use of a tool
  way hook stop --for claude-code        renew the leases, after every turn
  way hook worktree-create --for claude-code   create a workspace for a worktree of the agent, and print its path
  way hook worktree-remove --for claude-code   remove it, unless work in it would be lost")]
pub(crate) struct Args {
    /// Event: start, compact, tool, stop, worktree-create or worktree-remove; others are ignored
    #[arg(value_name = "MOMENT")]
    moment: String,
    /// Coding agent: claude-code, codex, copilot, cursor, gemini or qwen
    #[arg(long = "for", value_name = "AGENT")]
    target: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let agent = args.target.parse().unwrap_or(Agent::Generic);
    let input = input();
    match args.moment.as_str() {
        "worktree-create" => return create_worktree(cx, &input),
        "worktree-remove" => return remove_worktree(cx, &input),
        _ => {}
    }
    let moment = match args.moment.as_str() {
        // Gemini CLI runs this hook before every request, to decide whether it compacts.
        "compact" if agent == Agent::Gemini && input.trigger == "auto" => "tool",
        moment => moment,
    };
    let answer = answer(cx, moment, agent, &input).unwrap_or_else(|error| {
        log::debug!("the hook did nothing: {}", error.full_message());
        empty_output(agent)
    });
    // Printing ignores a closed pipe.
    if !answer.is_empty() {
        print(&format!("{answer}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The part of a session's description that is used. The output of a tool, which may be long, is skipped.
#[derive(Default, serde::Deserialize)]
struct HookEvent {
    #[serde(default)]
    session_id: Value,
    #[serde(default)]
    conversation_id: Value,
    #[serde(default)]
    tool_name: Value,
    #[serde(default)]
    tool_input: Value,
    /// The reason for a compaction.
    #[serde(default)]
    trigger: Value,
    /// The name of a new worktree.
    #[serde(default)]
    name: Value,
    /// The worktree to remove.
    #[serde(default)]
    worktree_path: Value,
}

/// Returns the description of the session that the agent wrote to standard input.
fn input() -> HookEvent {
    let stdin = surroundings::stdin();
    if stdin.is_terminal() {
        return HookEvent::default();
    }
    // Reads one JSON value and stops there, because not every agent closes the pipe.
    HookEvent::deserialize(&mut serde_json::Deserializer::from_reader(BufReader::new(stdin.take(MAX_INPUT_BYTES))))
        .unwrap_or_default()
}

/// Creates a workspace for a worktree of the agent, or finds the one with its name. Prints only its path, because the agent
/// reads the last line.
fn create_worktree(cx: &mut CommandContext, input: &HookEvent) -> Result<ExitCode> {
    let name = input.name.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Error::invalid("the agent named no worktree to create"))?;
    let mut session = cx.session_to_write()?;
    jobs::recover_interrupted_work(&mut session)?;
    let workspace = workspaces::create_named(&mut session, name, &mut |step| log::debug!("{step}"))?;
    print(&format!("{}\n", workspace.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the workspace of a worktree of the agent, unless work in it would be lost.
fn remove_worktree(cx: &mut CommandContext, input: &HookEvent) -> Result<ExitCode> {
    let path = input.worktree_path.as_str().filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| Error::invalid("the agent named no worktree to remove"))?;
    let (place, mut session) = cx.session_if_any()?;
    // The agent starts the hook in the worktree, and a directory that a process uses is not removed.
    std::env::set_current_dir("/").map_err(|error| Error::unavailable("cannot leave the worktree").because(error))?;
    if let Some(session) = &mut session {
        jobs::recover_interrupted_work(session)?;
    }
    let mut workspaces = UserWorkspaces::new(place, session.as_mut());
    let found = workspaces.find(path)?;
    workspaces.with_records(&found, |records| workspaces::remove(records, &found.view.workspace, Force::No))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the beginning of the session id.
fn session_id(input: &HookEvent) -> Option<String> {
    let id = input.session_id.as_str().or_else(|| input.conversation_id.as_str())?;
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(SESSION_ID_CHARS).collect();
    (!id.is_empty()).then_some(id)
}

fn answer(cx: &mut CommandContext, moment: &str, agent: Agent, input: &HookEvent) -> Result<String> {
    let session_name = session_id(input).map(|session| format!("{}-{session}", agent.name()));
    if let (None, Some(session_name)) = (cx.place()?.agent(), &session_name) {
        cx.global.agent = Some(session_name.clone());
    }
    let place = cx.place()?;
    // The use of a tool is no reason to create a store.
    if let ("tool", Location::UnnamedSqlite) = (moment, &place.store()?.location) {
        return Ok(empty_output(agent));
    }
    if let ("tool", Location::Sqlite(path)) = (moment, &place.store()?.location)
        && !path.exists()
    {
        return Ok(empty_output(agent));
    }
    let name = place.agent().unwrap_or_else(|| place.actor());
    let used = session_name.map(|session_name| used_names(&place, &session_name, input)).unwrap_or_default();
    let mut session = Session::open(place)?;
    let leases = session.call(ListLeases {})?.leases;
    for other in used.iter().filter(|other| **other != name) {
        let mut session = Session::open(session.place.used_by(other, Some(other)))?;
        renew(&mut session, leases.iter().filter(|seen| seen.holder_name == *other), moment)?;
    }
    let held: Vec<LeaseView> = leases.into_iter().filter(|seen| seen.holder_name == name).collect();
    renew(&mut session, held.iter(), moment)?;
    Ok(match moment {
        "start" => {
            let context = session.call_app(Prime::default())?;
            start_output(agent, &format!("{}{}", context.text, introduction(cx, &session, agent, &name)))
        }
        "compact" if !held.is_empty() => compact_output(agent, &reminder(&name, &held)),
        _ => empty_output(agent),
    })
}

/// Renews the caller's leases. After the use of a tool only if a third of a lease is used up: a session uses many tools.
fn renew<'a>(session: &mut Session, mut held: impl Iterator<Item = &'a LeaseView>, moment: &str) -> Result<()> {
    let now = session.now()?;
    if held.any(|seen| moment != "tool" || seen.lease.is_renewal_due(now)) {
        session.heartbeat()?;
    }
    Ok(())
}

/// Returns the names that commands and tools of a session used: an agent may call itself something else than the hook
/// does. A file of the session keeps them, because a hook sees only one use of a tool.
fn used_names(place: &Place, session_name: &str, input: &HookEvent) -> BTreeSet<String> {
    let Some(checkout) = &place.checkout else { return BTreeSet::new() };
    let file = checkout.private_dir.join("sessions").join(session_name);
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let mut names: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    let before = names.len();
    names.extend(names_in(input).into_iter().take(MAX_SESSION_NAMES.saturating_sub(before)));
    if names.len() > before {
        let text: String = names.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
        let sessions = checkout.private_dir.join("sessions");
        let written = checkout.private_dir.create().is_ok()
            && create_private_dir(&sessions).and_then(|()| replace(&file, text.as_bytes(), 0o600)).is_ok();
        if !written {
            log::debug!("cannot write {}", file.display());
        }
    }
    names
}

/// Returns the agent names in a use of a tool: the `agent` argument of one of our tools, and those of `way` commands.
fn names_in(input: &HookEvent) -> Vec<String> {
    let arguments = &input.tool_input;
    let is_ours = input.tool_name.as_str().is_some_and(|tool| tool.contains("waypost"));
    let mut names: Vec<String> =
        arguments["agent"].as_str().filter(|_| is_ours).map(str::to_owned).into_iter().collect();
    let command = match &arguments["command"] {
        Value::String(command) => command.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    let words: Vec<&str> = command.split(|char: char| char.is_whitespace() || ";|&()".contains(char)).collect();
    if words.iter().any(|word| *word == "way" || word.ends_with("/way")) {
        for (at, word) in words.iter().enumerate() {
            let name = match word.strip_prefix("--agent=").or_else(|| word.strip_prefix("WAYPOST_AGENT=")) {
                Some(name) => Some(name),
                None if *word == "--agent" => words.get(at + 1).copied(),
                None => None,
            };
            names.extend(name.map(|name| name.trim_matches(['"', '\'']).to_owned()));
        }
    }
    // A variable of the shell is not a name.
    names.retain(|name| !name.is_empty() && !name.contains(['$', '`', '\n']) && name.len() <= MAX_NAME_BYTES);
    names
}

/// Returns the sentence that tells a session its agent name and how to pass it.
fn introduction(cx: &CommandContext, session: &Session, agent: Agent, name: &str) -> String {
    if session.place.agent().is_none() {
        return String::new();
    }
    let file = cx.variables.path(CLAUDE_ENV_FILE).filter(|_| agent == Agent::ClaudeCode);
    let how = if file.is_some_and(|file| append_agent_name(&file, name).is_ok()) {
        "Commands use it automatically; pass it to every tool as agent."
    } else {
        "Pass it to every command as --agent, and to every tool as agent."
    };
    format!("\nYour name is {name}. {how}\n")
}

/// Exports the agent's name to the commands that the session runs.
fn append_agent_name(file: &Path, name: &str) -> std::io::Result<()> {
    let line = format!("export WAYPOST_AGENT='{}'\n", name.replace('\'', "'\\''"));
    let known = std::fs::read_to_string(file).unwrap_or_default();
    if known.contains(&line) {
        return Ok(());
    }
    let start = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
    std::fs::OpenOptions::new().append(true).create(true).open(file)?.write_all(format!("{start}{line}").as_bytes())
}

/// Returns the leases that a compacted session must remember.
fn reminder(name: &str, held: &[LeaseView]) -> String {
    // The id of an issue comes from the ledger, which others write.
    let line = |seen: &LeaseView| format!("{} (epoch {})", escape(&seen.lease.subject), seen.lease.epoch);
    let held: Vec<_> = held.iter().map(line).collect();
    format!(
        "Waypost: you are {name} and hold {}. Keep that and your progress in the summary; record your progress with way \
         task checkpoint as soon as you continue.",
        held.join(", ")
    )
}

/// Formats the context of a new session as its agent expects it.
fn start_output(agent: Agent, text: &str) -> String {
    match agent {
        Agent::Cursor => json!({ "additional_context": text }).to_string(),
        Agent::Copilot => json!({ "additionalContext": text }).to_string(),
        Agent::Generic => text.trim_end().to_owned(),
        Agent::ClaudeCode | Agent::Codex | Agent::Gemini | Agent::Qwen => {
            json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text } }).to_string()
        }
    }
}

/// Formats a message before compaction. No agent guarantees that its model reads it.
fn compact_output(agent: Agent, text: &str) -> String {
    match agent {
        Agent::ClaudeCode | Agent::Generic => text.to_owned(),
        Agent::Codex | Agent::Gemini | Agent::Qwen => json!({ "systemMessage": text }).to_string(),
        // It reads no answer to this event.
        Agent::Copilot => String::new(),
        Agent::Cursor => json!({ "user_message": text }).to_string(),
    }
}

/// Returns an empty answer: for agents that parse JSON, an empty object. Codex rejects anything else at the end of a turn.
fn empty_output(agent: Agent) -> String {
    match agent {
        Agent::Codex | Agent::Gemini | Agent::Cursor => "{}".to_owned(),
        Agent::ClaudeCode | Agent::Copilot | Agent::Qwen | Agent::Generic => String::new(),
    }
}
