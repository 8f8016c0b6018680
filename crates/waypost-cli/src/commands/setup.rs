//! `way setup`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Error, Kind, Result};
use waypost_workspace::surroundings;

use crate::setup::{Extras, PartStatus, Scope, Setup, State, Surroundings, Target};
use crate::ui::{BAD, DIM, GOOD, Style, WARN, cell, cell_keeping_end, header, styled};
use crate::work::parse_enum;
use crate::{CommandContext, ui};

/// Configure a coding agent to use Waypost
///
/// Writes a marked block to the agent's instructions, registers way mcp as an MCP server, and installs hooks that run
/// way hook when a session starts, when it is compacted and when a turn ends. Everything else in these files stays
/// unchanged; running it again changes nothing. Without AGENT, lists the agents with their state.
///
/// claude-code: CLAUDE.md, .mcp.json, .claude/settings.json. codex: AGENTS.md, .codex/config.toml, .codex/hooks.json.
/// copilot: AGENTS.md, .github/mcp.json, .github/hooks/waypost.json. cursor: .cursor/rules/waypost.mdc, .cursor/mcp.json,
/// .cursor/hooks.json. gemini: GEMINI.md, .gemini/settings.json. opencode: AGENTS.md, opencode.json or opencode.jsonc.
/// qwen: AGENTS.md, .qwen/settings.json. vscode: AGENTS.md, .vscode/mcp.json. zed: AGENTS.md, .zed/settings.json.
/// generic: AGENTS.md.
///
/// Codex runs commands in a sandbox that makes the repository's private directory read-only. Setup offers to add this
/// directory to the writable roots in the user's Codex settings.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way setup                        list the agents: found here? set up?
  way setup claude-code            write the files; commit them for the whole team
  way setup claude-code --allow    also let it use Waypost without asking
  way setup opencode --user        write your own files, for all repositories
  way setup codex --print          print what setup would write
  way setup gemini --check         exit with 4 if something is missing or outdated
  way setup cursor --remove        remove exactly what setup wrote")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// Coding agent: claude-code, codex, copilot, cursor, gemini, opencode, qwen, vscode, zed or generic
    #[arg(value_name = "AGENT", value_parser = parse_enum::<Target>)]
    target: Option<Target>,
    /// Use your own files, for all repositories, instead of the repository's
    #[arg(long, requires = "target")]
    user: bool,
    /// Also write rules that let the agent use Waypost without asking
    #[arg(long, requires = "target", conflicts_with = "remove")]
    allow: bool,
    /// Also let Waypost make the worktrees of Claude Code, for you only
    #[arg(long, requires = "target", conflicts_with = "remove")]
    worktrees: bool,
    /// Agree to changes of files outside of the repository
    #[arg(long, short, requires = "target")]
    yes: bool,
    /// Print what would be written, without writing
    #[arg(long, requires = "target", conflicts_with_all = ["remove", "check"])]
    print: bool,
    /// Remove what setup wrote
    #[arg(long, requires = "target", conflicts_with = "check")]
    remove: bool,
    /// Check whether everything is present and up to date, without writing
    #[arg(long, requires = "target")]
    check: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let Some(target) = args.target else { return list(cx) };
    if args.worktrees && target != Target::ClaudeCode {
        return Err(Error::invalid(format!("{} has no hooks that make worktrees", target.name()))
            .hint("use --worktrees with claude-code"));
    }
    let scope = if args.user { Scope::User } else { Scope::Repository };
    let around = match (scope, args.print) {
        (Scope::User, _) => Surroundings { variables: cx.variables.clone(), ..Surroundings::default() },
        (Scope::Repository, true) => surroundings(cx, true).unwrap_or_default(),
        (Scope::Repository, false) => surroundings(cx, false)?,
    };
    let extras = Extras { allow: args.allow, worktrees: args.worktrees, sandbox: false };
    let setup = Setup { target, scope, around: &around, extras };
    if args.print {
        return print(cx, &Setup { extras: Extras { sandbox: true, ..extras }, ..setup });
    }
    if args.check {
        return check(cx, args, &setup);
    }
    if args.remove {
        return remove(cx, &setup);
    }
    let sandbox = sandbox(cx, args, &setup)?;
    let is_agreed = sandbox.as_ref().is_some_and(|(_, is_agreed)| *is_agreed);
    if is_agreed {
        // A writable root that does not exist makes every command of the sandbox fail.
        cx.place()?.require_checkout()?.private_dir.create()?;
    }
    let found = Setup { extras: Extras { sandbox: is_agreed, ..extras }, ..setup }.set_up()?;
    let skipped = sandbox.filter(|(_, is_agreed)| !is_agreed).map(|(part, _)| part);
    // The entry for the sandbox is not shared.
    let is_complete = found.iter().all(|part| part.state == State::InOrder || part.what == "sandbox");
    let mut rows: Vec<Row> = found.into_iter().map(written).collect();
    rows.extend(skipped.iter().map(|part| Row { style: WARN, word: "left out", part: part.clone() }));
    answer(cx, target, &rows)?;
    if !is_complete {
        cx.ui.note(match scope {
            Scope::Repository => {
                "commit the files to share them with your team; agents read them in their next session"
            }
            Scope::User => "agents read the files in their next session",
        });
        for note in [target.condition(scope), target.permission().filter(|_| !args.allow)].into_iter().flatten() {
            cx.ui.note(note);
        }
    }
    if let Some(part) = skipped {
        cx.ui.note(&format!(
            "commands in Codex's sandbox cannot change issues, its tools can; --yes changes {}",
            part.path
        ));
    }
    if args.allow && !target.has_permissions_file() {
        let how = target.permission().unwrap_or("the agent has no file for rules; it remembers what you allow");
        cx.ui.note(how);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directories that a setup concerns. A setup of the repository needs one with files.
fn surroundings(cx: &mut CommandContext, is_repository_optional: bool) -> Result<Surroundings> {
    let variables = cx.variables.clone();
    let place = cx.place()?;
    let private_dir = place.checkout.as_ref().map(|checkout| checkout.private_dir.to_path_buf());
    let root = match place.work_checkout() {
        Ok(checkout) => checkout.root.clone(),
        Err(_) if is_repository_optional => None,
        Err(error) => return Err(error),
    };
    if root.is_none() && !is_repository_optional {
        return Err(Error::invalid("a bare repository has no files for an agent to read")
            .hint("run this in one of its worktrees"));
    }
    Ok(Surroundings { root, private_dir, variables })
}

/// Returns the missing entry for the agent's sandbox in the user's settings, and whether the user agrees to it.
fn sandbox(cx: &CommandContext, args: &Args, setup: &Setup) -> Result<Option<(PartStatus, bool)>> {
    if setup.scope == Scope::User {
        return Ok(None);
    }
    let with = Setup { extras: Extras { sandbox: true, ..setup.extras }, ..*setup };
    let Some(part) = with.check()?.into_iter().find(|part| part.what == "sandbox") else { return Ok(None) };
    if part.state != State::InOrder && args.allow && !args.yes {
        // With the rules, commands run outside of the sandbox.
        return Ok(None);
    }
    let is_interactive = !cx.ui.json && surroundings::stdin().is_terminal() && surroundings::stderr().is_terminal();
    let is_agreed = part.state == State::InOrder || args.yes || (is_interactive && ask(cx, setup, &part)?);
    Ok(Some((part, is_agreed)))
}

/// Asks on the terminal for consent to a writable root.
fn ask(cx: &CommandContext, setup: &Setup, part: &PartStatus) -> Result<bool> {
    let dir = setup.around.private_dir.clone().unwrap_or_default();
    cx.ui.note("commands with this right could also change which jobs run outside of the sandbox; --allow opens less");
    let question = format!("Let commands in Codex's sandbox change {}, with {}? [y/N] ", dir.display(), part.path);
    Ok(matches!(cx.ui.ask(&question)?.to_lowercase().as_str(), "y" | "yes"))
}

/// A part, and the word for what happened to it.
struct Row {
    style: Style,
    word: &'static str,
    part: PartStatus,
}

fn written(part: PartStatus) -> Row {
    let (style, word) = match part.state {
        State::InOrder => (DIM, "as it was"),
        State::Missing => (GOOD, "added"),
        State::Outdated => (GOOD, "updated"),
    };
    Row { style, word, part }
}

fn check(cx: &CommandContext, args: &Args, setup: &Setup) -> Result<ExitCode> {
    let found = setup.check()?;
    let is_complete = found.iter().all(|part| part.state == State::InOrder);
    let row = |part: PartStatus| {
        let (style, word) = match part.state {
            State::InOrder => (GOOD, "in order"),
            State::Missing => (BAD, "missing"),
            State::Outdated => (WARN, "outdated"),
        };
        Row { style, word, part }
    };
    answer(cx, setup.target, &found.into_iter().map(row).collect::<Vec<_>>())?;
    if is_complete {
        return Ok(ExitCode::SUCCESS);
    }
    let user = if args.user { " --user" } else { "" };
    cx.ui.note(&format!("run way setup {}{user} to fix it", setup.target.name()));
    Ok(ExitCode::from(Kind::Conflict.exit_code()))
}

fn remove(cx: &CommandContext, setup: &Setup) -> Result<ExitCode> {
    let found = setup.remove()?;
    let reader = found.iter().find_map(|(part, reader)| reader.map(|reader| (part.path.clone(), reader)));
    let row = |(part, reader): (PartStatus, Option<Target>)| {
        let (style, word) = match (part.state, reader) {
            (State::Missing, _) => (DIM, "not there"),
            (_, Some(_)) => (WARN, "kept"),
            (_, None) => (GOOD, "removed"),
        };
        Row { style, word, part }
    };
    answer(cx, setup.target, &found.into_iter().map(row).collect::<Vec<_>>())?;
    if let Some((path, reader)) = reader {
        cx.ui.note(&format!("{} is set up too, and reads {path}", reader.name()));
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(cx: &CommandContext, target: Target, rows: &[Row]) -> Result<()> {
    let part = |row: &Row| json!({ "path": row.part.path, "what": row.part.what, "state": row.word.replace(' ', "_") });
    let parts: Vec<Value> = rows.iter().map(part).collect();
    cx.ui.answer(&json!({ "agent": target.name(), "parts": parts }), |text| {
        let row = |row: &Row| vec![styled(row.style, row.word), cell(&row.part.path), styled(DIM, row.part.what)];
        text.list(header(["STATE", "FILE", "WHAT"]), rows.iter().map(row));
    })
}

fn print(cx: &CommandContext, setup: &Setup) -> Result<ExitCode> {
    let planned = setup.planned_parts()?;
    if cx.ui.json {
        cx.ui.answer(&json!({ "agent": setup.target.name(), "parts": planned }), |_| {})?;
        return Ok(ExitCode::SUCCESS);
    }
    for (number, part) in planned.iter().enumerate() {
        let gap = if number > 0 { "\n" } else { "" };
        ui::print(&format!("{gap}{} ({}):\n\n{}", part.path, part.what, part.content))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the agents: whether each is installed, and whether it is set up.
fn list(cx: &mut CommandContext) -> Result<ExitCode> {
    let around = surroundings(cx, true)?;
    let state = |target, scope| {
        if scope == Scope::Repository && around.root.is_none() {
            return None;
        }
        let setup = Setup { target, scope, around: &around, extras: Extras::default() };
        let parts = match setup.check() {
            Ok(parts) => parts,
            Err(_) if (target, scope) == (Target::Generic, Scope::User) => return None,
            Err(_) => return Some((BAD, "unreadable")),
        };
        let has = |state| parts.iter().any(|part| part.state == state);
        Some(match (has(State::InOrder), has(State::Missing), has(State::Outdated)) {
            (true, false, false) => (GOOD, "set up"),
            (false, true, false) => (DIM, "no"),
            (_, _, true) => (WARN, "outdated"),
            _ => (WARN, "partly"),
        })
    };
    let found: Vec<_> = Target::ALL
        .into_iter()
        .map(|target| {
            let program = target.program(&around.variables);
            (target, program, state(target, Scope::Repository), state(target, Scope::User))
        })
        .collect();
    let word = |state: Option<(Style, &'static str)>| state.map(|(_, word)| word.replace(' ', "_"));
    let agents: Vec<Value> = found
        .iter()
        .map(|(target, program, repository, user)| {
            json!({
                "agent": target.name(),
                "program": program.as_ref().map(|program| program.display().to_string()),
                "repository": word(*repository),
                "user": word(*user),
            })
        })
        .collect();
    cx.ui.answer(&json!({ "agents": agents }), |text| {
        let state = |state: &Option<(Style, &'static str)>| match state {
            Some((style, word)) => styled(*style, word),
            None => styled(DIM, "-"),
        };
        let row = |(target, program, repository, user): &(Target, Option<std::path::PathBuf>, _, _)| {
            let program = program.as_ref().map_or_else(|| "-".to_owned(), |program| program.display().to_string());
            vec![cell(target.name()), state(repository), state(user), cell_keeping_end(program)]
        };
        text.list(header(["AGENT", "HERE", "FOR YOU", "PROGRAM"]), found.iter().map(row));
    })?;
    Ok(ExitCode::SUCCESS)
}
