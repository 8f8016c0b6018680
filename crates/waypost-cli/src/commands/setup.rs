//! `way setup`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Error, Kind, Result};

use crate::setup::{self, Agent, PartStatus, State};
use crate::ui::{BAD, DIM, GOOD, WARN, cell, styled};
use crate::work::parse_enum;
use crate::{CommandContext, ui};

/// Configure a coding agent to use Waypost
///
/// Writes a marked block to the agent's instructions, registers way mcp as an MCP server, and installs hooks that run
/// way hook when a session starts, when it is compacted and when a turn ends. Everything else in these files stays
/// unchanged; running it again changes nothing.
///
/// claude-code: CLAUDE.md, .mcp.json, .claude/settings.json. codex: AGENTS.md, .codex/config.toml, .codex/hooks.json.
/// cursor: .cursor/rules/waypost.mdc, .cursor/mcp.json, .cursor/hooks.json. gemini: GEMINI.md, .gemini/settings.json.
/// generic: AGENTS.md.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way setup claude-code            write the files; commit them for the whole team
  way setup codex --print          print what setup would write
  way setup gemini --check         exit with 4 if something is missing or outdated
  way setup cursor --remove        remove exactly what setup wrote")]
pub(crate) struct Args {
    /// Coding agent: claude-code, codex, cursor, gemini or generic
    #[arg(value_name = "AGENT", value_parser = parse_enum::<Agent>)]
    target: Agent,
    /// Print what would be written, without writing
    #[arg(long, conflicts_with_all = ["remove", "check"])]
    print: bool,
    /// Remove what setup wrote
    #[arg(long, conflicts_with = "check")]
    remove: bool,
    /// Check whether everything is present and up to date, without writing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if args.print {
        return print(cx, args.target);
    }
    let place = cx.place()?;
    let Some(root) = place.work_checkout()?.root.clone() else {
        return Err(Error::invalid("a bare repository has no files for an agent to read")
            .hint("run this in one of its worktrees"));
    };
    let found = match (args.check, args.remove) {
        (true, _) => setup::check(&root, args.target),
        (false, true) => setup::remove(&root, args.target),
        (false, false) => setup::set_up(&root, args.target),
    }?;
    let verb = |found: &PartStatus| match (found.state, args.check, args.remove) {
        (State::InOrder, true, _) => (GOOD, "in order"),
        (State::Missing, true, _) => (BAD, "missing"),
        (State::Outdated, true, _) => (WARN, "outdated"),
        (State::Missing, false, true) => (DIM, "not there"),
        (_, false, true) => (GOOD, "removed"),
        (State::InOrder, false, false) => (DIM, "as it was"),
        (State::Missing, false, false) => (GOOD, "added"),
        (State::Outdated, false, false) => (GOOD, "updated"),
    };
    let parts: Vec<_> = found
        .iter()
        .map(|part| json!({ "path": part.path, "what": part.what, "state": verb(part).1.replace(' ', "_") }))
        .collect();
    cx.ui.answer(&json!({ "agent": args.target.name(), "parts": parts }), |text| {
        let row = |part: &PartStatus| {
            let (style, word) = verb(part);
            vec![styled(style, word), cell(part.path), styled(DIM, part.what)]
        };
        text.table(&found.iter().map(row).collect::<Vec<_>>());
    })?;
    let is_complete = found.iter().all(|part| part.state == State::InOrder);
    if args.check && !is_complete {
        cx.ui.note(&format!("run way setup {} to fix it", args.target.name()));
        return Ok(ExitCode::from(Kind::Conflict.exit_code()));
    }
    if !args.check && !args.remove && !is_complete {
        cx.ui.note("commit the files to share them with your team; agents read them in their next session");
        if let Some(condition) = args.target.condition() {
            cx.ui.note(condition);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(cx: &CommandContext, agent: Agent) -> Result<ExitCode> {
    let planned = setup::planned_parts(agent)?;
    if cx.ui.json {
        cx.ui.answer(&json!({ "agent": agent.name(), "parts": planned }), |_| {})?;
        return Ok(ExitCode::SUCCESS);
    }
    for (number, part) in planned.iter().enumerate() {
        let gap = if number > 0 { "\n" } else { "" };
        ui::print(&format!("{gap}{} ({}):\n\n{}", part.path, part.what, part.content))?;
    }
    Ok(ExitCode::SUCCESS)
}
