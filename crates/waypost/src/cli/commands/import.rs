//! `way import`

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Error, Kind, Result};

use crate::cli::Cx;
use crate::cli::ui::{BOLD, cell, styled};
use crate::import::{self, Format, Plan, Taken};

/// Take over the issues of another tracker, as one write
///
/// An issue that is known already, by its id or its external_ref, is skipped; with --update it is brought up to date if
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

Formats:
  beads        JSONL of beads or of a ledger; ids and all fields are kept
  github       what gh issue list --json prints, with any of its fields; comments too
  backlog      the folder of Backlog.md, or one task of it
  taskmaster   tasks.json; subtasks become parts
  taskwarrior  what task export prints"
)]
pub(crate) struct Args {
    /// beads, github, backlog, taskmaster or taskwarrior; may be left out if the file clearly is one of them
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

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let (path, format) = match &args.second {
        Some(path) => (path.as_path(), Some(Format::parse(&args.first.to_string_lossy())?)),
        None => (Path::new(&args.first), None),
    };
    if format.is_none()
        && let Ok(format) = Format::parse(&args.first.to_string_lossy())
        && !path.exists()
    {
        return Err(Error::invalid("no file was named").hint(format!("way import {format} FILE")));
    }
    let desk = cx.desk()?;
    let ledger = desk.place.ledger().map(|(ledger, _)| ledger);
    let (sources, format) = import::sources(path, format, ledger.as_deref())?;
    let imported = import::read(format, &sources)?;
    if imported.records.is_empty() && imported.notes.is_empty() {
        return Err(Error::new(Kind::NothingToDo, "there is nothing to import in it"));
    }
    let plan = Plan { format, update: args.update, is_rehearsal: args.dry_run };
    let outcome = import::import(&desk.ledger, &imported, plan)?;
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
