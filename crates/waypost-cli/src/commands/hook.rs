//! `way hook`

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize as _;
use serde_json::{Value, json};
use waypost_core::Result;
use waypost_core::op::{Heartbeat, LeaseView, ListLeases};

use crate::CommandContext;
use crate::setup::Agent;
use crate::ui::print;
use waypost::environment::CLAUDE_ENV_FILE;
use waypost::ops::agent::Prime;
use waypost::session::Session;

/// Maximum size of the JSON that an agent writes to standard input.
const MAX_INPUT_BYTES: u64 = 1 << 20;
/// Characters of the session id that make it unique in practice.
const SESSION_ID_CHARS: usize = 8;

/// Run a hook of a coding agent; installed by way setup
///
/// Reads the agent's session description from standard input and derives the agent's name from it, unless --agent or
/// WAYPOST_AGENT is set. Always exits with 0, because a failing hook must not interrupt the agent.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way hook start --for claude-code       print the context for a new or compacted session
  way hook compact --for claude-code     renew the leases and print a reminder of them
  way hook stop --for claude-code        renew the leases")]
pub(crate) struct Args {
    /// Event: start, compact or stop; others are ignored
    #[arg(value_name = "MOMENT")]
    moment: String,
    /// Coding agent: claude-code, codex, cursor or gemini
    #[arg(long = "for", value_name = "AGENT")]
    target: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let agent = args.target.parse().unwrap_or(Agent::Generic);
    let session = session_id();
    let session_name = session.map(|session| format!("{}-{session}", agent.name()));
    let answer = answer(cx, &args.moment, agent, session_name).unwrap_or_else(|error| {
        log::debug!("the hook did nothing: {}", error.full_message());
        empty_output(agent)
    });
    // Printing ignores a closed pipe.
    if !answer.is_empty() {
        print(&format!("{answer}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the beginning of the session id that the agent wrote to standard input, if any.
fn session_id() -> Option<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    // Reads one JSON value and stops there, because not every agent closes the pipe.
    let input =
        Value::deserialize(&mut serde_json::Deserializer::from_reader(stdin.lock().take(MAX_INPUT_BYTES))).ok()?;
    let id = ["session_id", "conversation_id"].iter().find_map(|key| input[*key].as_str())?;
    let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(SESSION_ID_CHARS).collect();
    (!id.is_empty()).then_some(id)
}

fn answer(cx: &mut CommandContext, moment: &str, agent: Agent, session_name: Option<String>) -> Result<String> {
    if let (None, Some(session_name)) = (cx.place()?.agent(), session_name) {
        cx.global.agent = Some(session_name);
    }
    let place = cx.place()?;
    let name = place.agent().unwrap_or_else(|| place.actor());
    let mut session = Session::open(place)?;
    let mut held = session.call(ListLeases {})?.leases;
    held.retain(|lease| lease.holder_name == name);
    if !held.is_empty() {
        session.call(Heartbeat { task: None, workflow: None, epoch: None })?;
    }
    Ok(match moment {
        "start" => {
            let context = session.call_app(Prime::default())?;
            start_output(agent, &format!("{}{}", context.text, introduction(cx, &session, agent, &name)))
        }
        "compact" if !held.is_empty() => compact_output(agent, &reminder(&name, &held)),
        _ => empty_output(agent),
    })
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
    let held: Vec<_> = held.iter().map(|seen| format!("{} (epoch {})", seen.lease.subject, seen.lease.epoch)).collect();
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
        Agent::Generic => text.trim_end().to_owned(),
        Agent::ClaudeCode | Agent::Codex | Agent::Gemini => {
            json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text } }).to_string()
        }
    }
}

/// Formats a message before compaction. No agent guarantees that its model reads it.
fn compact_output(agent: Agent, text: &str) -> String {
    match agent {
        Agent::ClaudeCode | Agent::Generic => text.to_owned(),
        Agent::Codex | Agent::Gemini => json!({ "systemMessage": text }).to_string(),
        Agent::Cursor => json!({ "user_message": text }).to_string(),
    }
}

/// Returns an empty answer: for agents that parse JSON, an empty object. Codex rejects anything else at the end of a turn.
fn empty_output(agent: Agent) -> String {
    match agent {
        Agent::Codex | Agent::Gemini | Agent::Cursor => "{}".to_owned(),
        Agent::ClaudeCode | Agent::Generic => String::new(),
    }
}
