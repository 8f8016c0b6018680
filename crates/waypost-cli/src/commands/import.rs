//! `way import`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::model::Repository;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};
use waypost_workspace::surroundings;

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, cell_keeping_end, header, prose, styled};
use waypost::import::workflows::{self, Program, Request};
use waypost::import::{self, Format, Plan, Taken};
use waypost::work::transfer::Moved;

/// Import issues of another tracker, or workflows of a program
///
/// Writes issues to the ledger in one transaction, workflows and templates to the store, and settings to the configuration
/// of this clone; never changes the source. Skips issues that exist already, by id or external_ref; with --update it
/// updates them if the imported version is newer. Two clones that import the same issues write the same lines. Lists
/// everything that it cannot import.
///
/// Workflows that ended or failed in the other program are imported as such. The others are paused: way workflow resume
/// continues them. A thread that waits for an answer becomes a question: way task answer.
#[derive(clap::Args)]
#[command(
    // Clap cannot parse an optional argument before a required one with an option between them.
    override_usage = "way import [OPTIONS] [FORMAT] <FILE|DIR|->",
    after_help = "Examples:
  way import ../old/.beads/issues.jsonl
  gh issue list -s all -L 999 --json number,title,body,state,url,updatedAt | way import github -
  way import backlog . --dry-run
  way import csv jira.csv --map title=Summary
  way import taskmaster .taskmaster/tasks/tasks.json
  task export | way import taskwarrior - --update
  way import vibe-kanban ~/.local/share/vibe-kanban/db.sqlite
  way import caw ~/.caw/workflows.db --dry-run
  way import langgraph ~/.agentos/issue_workflow.db --thread fix-login
  way import pedrocli postgres://pedrocli@localhost/pedrocli
  duckdb .claude-state/agentdb.duckdb \"EXPORT DATABASE 'agentdb' (FORMAT json)\" && way import agentdb agentdb

Formats of issues:
  beads        JSONL of beads or of a ledger; keeps ids and all fields
  github       output of gh issue list --json with any fields, including comments
  backlog      directory of Backlog.md, or one of its tasks
  taskmaster   tasks.json; subtasks become children
  taskwarrior  output of task export
  vibe-kanban  its database, or its tasks as JSON
  csv          table with a header, as Linear, Jira and GitHub export it; --map names other columns

Programs with workflows:
  caw          its database; keeps ids. Templates are imported too, and in a shared store repositories
  langgraph    database of SqliteSaver; each thread becomes a workflow with its checkpoints
  pedrocli     URL of its PostgreSQL database, an SQLite file, or jobs as JSON; settings from .pedrocli.json
  agentdb      directory with the tables of agentdb.duckdb, which DuckDB exported as JSON"
)]
pub(crate) struct Args {
    /// Format: beads, github, backlog, taskmaster, taskwarrior, vibe-kanban, csv, caw, langgraph, pedrocli or agentdb [default: detected]
    #[arg(value_name = "FORMAT")]
    first: OsString,
    /// File or directory to import; - for standard input; for pedrocli also a postgres:// URL
    #[arg(value_name = "FILE|DIR|-")]
    second: Option<PathBuf>,
    /// Update existing issues if the imported version is newer; replace settings
    #[arg(long)]
    update: bool,
    /// Columns of a CSV table that have other names, e.g. title=Summary,id=Nr
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',', value_parser = column)]
    map: Vec<(String, String)>,
    /// Import only this thread of LangGraph; may be repeated
    #[arg(long, value_name = "ID")]
    thread: Vec<String>,
    /// Show what would be imported, without writing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(program) = Program::parse(&args.first.to_string_lossy()) {
        match &args.second {
            Some(path) => return workflows(cx, args, program, path),
            None if !surroundings::resolve(Path::new(&args.first)).exists() => {
                return Err(Error::invalid("no file given").hint(format!("way import {} FILE", program.name())));
            }
            None => {}
        }
    }
    if args.second.is_none()
        && let Some(program) = workflows::detect(&surroundings::resolve(Path::new(&args.first)))
    {
        return workflows(cx, args, program, Path::new(&args.first));
    }
    if !args.thread.is_empty() {
        return Err(Error::invalid("--thread applies to langgraph only").hint("remove --thread"));
    }
    let (path, format) = match &args.second {
        Some(path) => {
            let format = Format::parse(&args.first.to_string_lossy());
            let programs = Program::ALL.map(Program::name).join(", ");
            (path.as_path(), Some(format.map_err(|error| error.hint(format!("for workflows: {programs}")))?))
        }
        None => (Path::new(&args.first), None),
    };
    if format.is_none()
        && let Ok(format) = Format::parse(&args.first.to_string_lossy())
        && !surroundings::resolve(path).exists()
    {
        return Err(Error::invalid("no file given").hint(format!("way import {format} FILE")));
    }
    let ledger_cx = cx.open_ledgers_to_import(format == Some(Format::Beads), args.dry_run)?;
    let busy = cx.ui.busy("Importing issues");
    let ledger = ledger_cx.place.ledger().map(|(ledger, _)| ledger);
    let (mut sources, format) = import::sources(path, format, ledger.as_deref(), &ledger_cx.place.scratch_dir())?;
    if !args.map.is_empty() {
        if format != Format::Csv {
            return Err(Error::invalid("--map applies to csv only").hint("remove --map"));
        }
        sources.iter_mut().try_for_each(|source| import::rename(source, &args.map))?;
    }
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
    let outcome = import::import(&ledger_cx, &imported, plan)?;
    drop(busy);
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
            let rows = outcome.notes.iter().map(|note| vec![styled(BOLD, &note.item), prose(&note.problem)]);
            text.list(header(["ITEM", "PROBLEM"]), rows);
        }
    })?;
    if args.dry_run {
        cx.ui.note("nothing was written");
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a field and the column that has it.
fn column(text: &str) -> Result<(String, String), String> {
    let (field, column) = text.split_once('=').ok_or("expected FIELD=COLUMN")?;
    Ok((field.to_owned(), column.to_owned()))
}

/// Imports workflows, templates and settings of a program.
fn workflows(cx: &mut CommandContext, args: &Args, program: Program, path: &Path) -> Result<ExitCode> {
    if args.update && program != Program::Pedrocli {
        return Err(Error::invalid("--update does not apply to workflows").hint("remove --update"));
    }
    if !args.thread.is_empty() && program != Program::Langgraph {
        return Err(Error::invalid("--thread applies to langgraph only").hint("remove --thread"));
    }
    if path.as_os_str() == "-" {
        return Err(Error::invalid("cannot read workflows from standard input").hint("name the file"));
    }
    let mut session = if args.dry_run { cx.session()? } else { cx.session_to_write()? };
    let request = Request { program, source: path, threads: &args.thread, update: args.update, dry_run: args.dry_run };
    let busy = cx.ui.busy("Importing workflows");
    let outcome = workflows::import(&mut session, request)?;
    drop(busy);
    if outcome.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "the source contains nothing to import"));
    }
    let sum = |count: fn(&Moved) -> usize| outcome.added.iter().map(count).sum::<usize>();
    let (tasks, checkpoints) = (sum(|one| one.tasks), sum(|one| one.checkpoints));
    let data = json!({
        "format": program.name(),
        "added": outcome.added,
        "skipped": outcome.skipped,
        "repositories": outcome.repositories,
        "templates": outcome.templates,
        "settings": outcome.settings,
        "not_carried": outcome.notes,
        "counts": {
            "added": outcome.added.len(),
            "tasks": tasks,
            "checkpoints": checkpoints,
            "skipped": outcome.skipped.len(),
            "repositories": outcome.repositories.len(),
            "templates": outcome.templates.iter().filter(|one| one.is_new).count(),
            "settings": outcome.settings.iter().filter(|one| one.is_new).count(),
            "not_carried": outcome.notes.len(),
        },
        "written": !args.dry_run,
    });
    cx.ui.answer(&data, |text| {
        text.line(format!(
            "{} added with {} and {}, {} skipped, {} not imported",
            count(outcome.added.len(), "workflow"),
            count(tasks, "task"),
            count(checkpoints, "checkpoint"),
            outcome.skipped.len(),
            outcome.notes.len()
        ));
        let workflow = |one: &Moved| vec![styled(DIM, &one.id), cell(&one.name), cell(one.status)];
        text.list(header(["ID", "WORKFLOW", "STATUS"]), outcome.added.iter().map(workflow));
        let known = |is_new: bool| cell(if is_new { "added" } else { "exists already" });
        let repository = |one: &Repository| vec![cell(&one.name), cell_keeping_end(one.path.display())];
        for (title, titles, rows) in [
            ("Repositories", header(["NAME", "PATH"]), outcome.repositories.iter().map(repository).collect::<Vec<_>>()),
            (
                "Templates",
                header(["NAME", "STATE"]),
                outcome.templates.iter().map(|one| vec![cell(&one.name), known(one.is_new)]).collect::<Vec<_>>(),
            ),
            (
                "Settings",
                header(["KEY", "VALUE", "STATE"]),
                (outcome.settings.iter())
                    .map(|one| vec![cell(one.key), cell(&one.value), known(one.is_new)])
                    .collect::<Vec<_>>(),
            ),
            (
                "Not imported",
                header(["ITEM", "PROBLEM"]),
                outcome.notes.iter().map(|note| vec![styled(BOLD, &note.item), prose(&note.problem)]).collect(),
            ),
        ] {
            if !rows.is_empty() {
                text.gap();
                text.heading(title);
                text.list(titles, rows);
            }
        }
    })?;
    if args.dry_run {
        cx.ui.note("nothing was written");
    }
    Ok(ExitCode::SUCCESS)
}
