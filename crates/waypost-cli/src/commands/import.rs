//! `way import`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Error, Kind, Result};

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, styled};
use waypost::import::workflows::{self, Program};
use waypost::import::{self, Format, Plan, Taken};
use waypost::place::expand;
use waypost::transfer::Moved;

/// Import issues from another tracker, or workflows from another program
///
/// Writes issues to the ledger in one transaction and workflows to the store; never changes the source. Skips issues that
/// exist already, by id or external_ref; with --update it updates them if the imported version is newer. Lists everything
/// that it cannot import.
#[derive(clap::Args)]
#[command(
    // Clap cannot parse an optional argument before a required one with an option between them.
    override_usage = "way import [OPTIONS] [FORMAT] <FILE|DIR|->",
    after_help = "Examples:
  way import ../old/.beads/issues.jsonl
  gh issue list -s all -L 999 --json number,title,body,state,url,updatedAt | way import github -
  way import backlog . --dry-run
  way import taskmaster .taskmaster/tasks/tasks.json
  task export | way import taskwarrior - --update
  way import caw ~/.caw/workflows.db --dry-run
  way import langgraph ~/.agentos/issue_workflow.db

Formats of issues:
  beads        JSONL of beads or of a ledger; keeps ids and all fields
  github       output of gh issue list --json with any fields, including comments
  backlog      directory of Backlog.md, or one of its tasks
  taskmaster   tasks.json; subtasks become children
  taskwarrior  output of task export

Databases of workflows:
  caw          workflows, tasks, dependencies, checkpoints and messages; keeps ids
  langgraph    database of SqliteSaver; each thread becomes a paused workflow with its checkpoints"
)]
pub(crate) struct Args {
    /// Format: beads, github, backlog, taskmaster, taskwarrior, caw or langgraph [default: detected, for issues]
    #[arg(value_name = "FORMAT")]
    first: OsString,
    /// File or directory to import; - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    second: Option<PathBuf>,
    /// Update existing issues if the imported version is newer
    #[arg(long)]
    update: bool,
    /// Show what would be imported, without writing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(program) = Program::parse(&args.first.to_string_lossy()) {
        match &args.second {
            Some(path) => return workflows(cx, args, program, path),
            None if !Path::new(&args.first).exists() => {
                return Err(Error::invalid("no file given").hint(format!("way import {} FILE", program.name())));
            }
            None => {}
        }
    }
    let (path, format) = match &args.second {
        Some(path) => {
            let format = Format::parse(&args.first.to_string_lossy());
            (path.as_path(), Some(format.map_err(|error| error.hint("for workflows, use caw or langgraph"))?))
        }
        None => (Path::new(&args.first), None),
    };
    if format.is_none()
        && let Ok(format) = Format::parse(&args.first.to_string_lossy())
        && !path.exists()
    {
        return Err(Error::invalid("no file given").hint(format!("way import {format} FILE")));
    }
    let ledger_cx = cx.open_ledgers_to_change(&[], args.dry_run)?;
    let ledger = ledger_cx.place.ledger().map(|(ledger, _)| ledger);
    let (sources, format) = import::sources(path, format, ledger.as_deref())?;
    let mut imported = import::read(format, &sources)?;
    let into = &ledger_cx.ledger.repos()[ledger_cx.ledger.home()].checkout;
    if format.has_project_names()
        && let Some(project) = import::project(path, into, &ledger_cx.place.variables)?
    {
        import::qualify(&mut imported, &project)?;
    }
    if imported.records.is_empty() && imported.notes.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "the source contains nothing to import"));
    }
    let plan = Plan { format, update: args.update, dry_run: args.dry_run };
    let outcome = import::import(&ledger_cx.ledger, &imported, plan)?;
    let taken =
        |list: &[Taken]| list.iter().map(|taken| json!({ "id": taken.id, "item": taken.item })).collect::<Value>();
    let data = json!({
        "format": format.name(),
        "added": taken(&outcome.added),
        "updated": taken(&outcome.updated),
        "skipped": taken(&outcome.skipped),
        "other_records": outcome.others,
        "not_carried": outcome.notes,
        "counts": {
            "added": outcome.added.len(),
            "updated": outcome.updated.len(),
            "skipped": outcome.skipped.len(),
            "not_carried": outcome.notes.len(),
        },
        "written": !args.dry_run,
    });
    cx.ui.answer(&data, |text| {
        let counts = [
            (outcome.added.len(), "added"),
            (outcome.updated.len(), "updated"),
            (outcome.skipped.len(), "skipped"),
            (outcome.notes.len(), "not imported"),
        ];
        let counts: Vec<String> = counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
        text.line(counts.join(", "));
        match outcome.others {
            0 => {}
            1 => text.line("1 record that is not an issue imported"),
            others => text.line(format!("{others} records that are not issues imported")),
        }
        if !outcome.notes.is_empty() {
            text.gap();
            text.heading("Not imported");
            let rows: Vec<_> =
                outcome.notes.iter().map(|note| vec![styled(BOLD, &note.item), cell(&note.problem)]).collect();
            text.table(&rows);
        }
    })?;
    if args.dry_run {
        cx.ui.note("nothing was written");
    }
    Ok(ExitCode::SUCCESS)
}

/// Imports workflows.
fn workflows(cx: &mut CommandContext, args: &Args, program: Program, path: &Path) -> Result<ExitCode> {
    if args.update {
        return Err(Error::invalid("--update does not apply to workflows").hint("remove --update"));
    }
    if path.as_os_str() == "-" {
        return Err(Error::invalid("cannot read a database from standard input").hint("name the file"));
    }
    let mut session = if args.dry_run { cx.session()? } else { cx.session_to_write()? };
    let path = expand(path, &session.place.cwd, &session.place.variables)?;
    let outcome = workflows::import(&mut session, program, &path, args.dry_run)?;
    if outcome.added.is_empty() && outcome.skipped.is_empty() && outcome.notes.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "the source contains nothing to import"));
    }
    let sum = |count: fn(&Moved) -> usize| outcome.added.iter().map(count).sum::<usize>();
    let (tasks, checkpoints) = (sum(|one| one.tasks), sum(|one| one.checkpoints));
    let data = json!({
        "format": program.name(),
        "added": outcome.added,
        "skipped": outcome.skipped,
        "not_carried": outcome.notes,
        "counts": {
            "added": outcome.added.len(),
            "tasks": tasks,
            "checkpoints": checkpoints,
            "skipped": outcome.skipped.len(),
            "not_carried": outcome.notes.len(),
        },
        "written": !args.dry_run,
    });
    cx.ui.answer(&data, |text| {
        text.line(format!(
            "{} added with {} and {}, {} skipped, {} not imported",
            counted(outcome.added.len(), "workflow"),
            counted(tasks, "task"),
            counted(checkpoints, "checkpoint"),
            outcome.skipped.len(),
            outcome.notes.len()
        ));
        let rows: Vec<_> =
            outcome.added.iter().map(|one| vec![cell(""), cell(&one.name), styled(DIM, &one.id)]).collect();
        text.table(&rows);
        if !outcome.notes.is_empty() {
            text.gap();
            text.heading("Not imported");
            let rows: Vec<_> =
                outcome.notes.iter().map(|note| vec![styled(BOLD, &note.item), cell(&note.problem)]).collect();
            text.table(&rows);
        }
    })?;
    if args.dry_run {
        cx.ui.note("nothing was written");
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
