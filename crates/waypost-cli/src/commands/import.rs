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

/// Take over the issues of another tracker, or the workflows of another program
///
/// Issues go into the ledger as one write, workflows into the store. The file is only read. An issue that is known already, by its id or its external_ref, is skipped; with --update it is brought up to date if
/// what comes in was changed later. What cannot be carried is listed.
#[derive(clap::Args)]
#[command(
    // An optional argument before a required one is not understood with an option between them.
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
  beads        JSONL of beads or of a ledger; ids and all fields are kept
  github       what gh issue list --json prints, with any of its fields; comments too
  backlog      the folder of Backlog.md, or one task of it
  taskmaster   tasks.json; subtasks become parts
  taskwarrior  what task export prints

Databases of workflows:
  caw          workflows, tasks, dependencies, checkpoints and messages; ids are kept
  langgraph    of SqliteSaver: a thread becomes a workflow, with its checkpoints; it is paused until it is resumed"
)]
pub(crate) struct Args {
    /// beads, github, backlog, taskmaster, taskwarrior, caw or langgraph; may be left out for issues, if the file clearly
    /// is of one format
    #[arg(value_name = "FORMAT")]
    first: OsString,
    /// A file or a folder; - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    second: Option<PathBuf>,
    /// Bring issues up to date that are known
    #[arg(long)]
    update: bool,
    /// Show what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(program) = Program::parse(&args.first.to_string_lossy()) {
        match &args.second {
            Some(path) => return workflows(cx, args, program, path),
            None if !Path::new(&args.first).exists() => {
                return Err(Error::invalid("no file was named").hint(format!("way import {} FILE", program.name())));
            }
            None => {}
        }
    }
    let (path, format) = match &args.second {
        Some(path) => {
            let format = Format::parse(&args.first.to_string_lossy());
            (path.as_path(), Some(format.map_err(|error| error.hint("workflows are read from caw and langgraph"))?))
        }
        None => (Path::new(&args.first), None),
    };
    if format.is_none()
        && let Ok(format) = Format::parse(&args.first.to_string_lossy())
        && !path.exists()
    {
        return Err(Error::invalid("no file was named").hint(format!("way import {format} FILE")));
    }
    let ledger_cx = cx.open_ledgers()?;
    let ledger = ledger_cx.place.ledger().map(|(ledger, _)| ledger);
    let (sources, format) = import::sources(path, format, ledger.as_deref())?;
    let mut imported = import::read(format, &sources)?;
    let into = &ledger_cx.ledger.repos()[ledger_cx.ledger.home()].checkout;
    if format.is_of_project()
        && let Some(project) = import::project(path, into, &ledger_cx.place.variables)?
    {
        import::qualify(&mut imported, &project)?;
    }
    if imported.records.is_empty() && imported.notes.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "there is nothing to import in it"));
    }
    let plan = Plan { format, update: args.update, is_rehearsal: args.dry_run };
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
            (outcome.notes.len(), "not carried"),
        ];
        let counts: Vec<String> = counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
        text.line(counts.join(", "));
        match outcome.others {
            0 => {}
            1 => text.line("1 record that is no issue came along"),
            others => text.line(format!("{others} records that are no issues came along")),
        }
        if !outcome.notes.is_empty() {
            text.gap();
            text.heading("Not carried");
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

/// Takes over workflows.
fn workflows(cx: &mut CommandContext, args: &Args, program: Program, path: &Path) -> Result<ExitCode> {
    if args.update {
        return Err(
            Error::invalid("workflows are taken over once, and not brought up to date").hint("leave out --update")
        );
    }
    if path.as_os_str() == "-" {
        return Err(Error::invalid("a database is a file, and is not read from standard input"));
    }
    let mut session = cx.session()?;
    let path = expand(path, &session.place.cwd, &session.place.variables)?;
    let outcome = workflows::import(&mut session, program, &path, args.dry_run)?;
    if outcome.added.is_empty() && outcome.skipped.is_empty() && outcome.notes.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "there is nothing to import in it"));
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
            "{} added with {} and {}, {} skipped, {} not carried",
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
            text.heading("Not carried");
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
