//! `way export`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Error, Result, path_text, words};
use waypost_ledger::{Filter, IndexedIssue, Sort};
use waypost_workspace::surroundings;

use crate::CommandContext;
use crate::filter::FilterArgs;
use crate::pages::{self, Field};
use crate::ui::print_document;
use waypost::ops::issue::{IssueContext, IssueRecord};

/// Export issues as JSONL, JSON, CSV or Markdown
///
/// Takes the filters of way list; by default it exports all issues that are not closed. --all includes closed and deleted
/// issues. In the jsonl format, --all without other filters copies the whole ledger, including lines that are not issues.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way export --all --output backup.jsonl
  way export --format csv --columns id,title,assignee --assignee ann
  way export --format markdown --label release > notes.md

Formats:
  jsonl     one record per line, byte for byte as in the ledger; way import beads reads it
  json      a list of issues, as printed by --json
  csv       a table with a header; a leading apostrophe disarms cells that look like formulas
  markdown  a page, grouped by status")]
pub(crate) struct Args {
    /// Output format: jsonl, json, csv or markdown [default: jsonl]
    #[arg(short, long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    format: Option<Format>,
    /// Output file; must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file
    #[arg(long, requires = "output")]
    force: bool,
    /// Columns of a csv, separated by commas [default: all fields]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_enum, hide_possible_values = true)]
    columns: Vec<Field>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Include closed and deleted issues
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Jsonl,
    Json,
    Csv,
    #[value(alias = "md")]
    Markdown,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Markdown => "markdown",
        }
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let format = args.format.unwrap_or(if cx.ui.json { Format::Json } else { Format::Jsonl });
    if !args.columns.is_empty() && format != Format::Csv {
        return Err(Error::invalid("--columns does not apply to this format").hint("use it with --format csv"));
    }
    let ledger_cx = cx.open_ledgers()?;
    let asked = args.filter.to_query().filter(&ledger_cx)?;
    let is_copy = format == Format::Jsonl && args.all && asked == Filter::default();
    let filter = Filter { deleted: args.all, ..asked };
    let busy = cx.ui.busy("Reading the ledger");
    let entries = ledger_cx.with_index(|index| {
        let found = index.list(&filter.with_full_parent(index)?, Sort::Id, false, None)?;
        let entries = found.iter().map(|summary| index.get(&summary.id));
        entries.filter_map(Result::transpose).collect::<Result<Vec<IndexedIssue>>>()
    })?;
    let content = match format {
        Format::Jsonl if is_copy => ledger_cx.ledger.copy()?,
        Format::Jsonl => entries.iter().flat_map(|entry| [entry.raw.as_str(), "\n"]).collect::<String>().into_bytes(),
        Format::Json => json_list(&ledger_cx, &entries)?.into_bytes(),
        Format::Csv => pages::csv(&entries, &args.columns).into_bytes(),
        Format::Markdown => pages::markdown(&entries, &ledger_cx.ledger.terms().statuses).into_bytes(),
    };
    drop(busy);
    match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            save(path, &content, args.force)?;
            let count = entries.len();
            let data = json!({ "path": path_text::to_text(path), "format": format.name(), "issues": count });
            cx.ui.answer(&data, |text| {
                text.line(format!("Wrote {} to {}", words::count(count, "issue"), path.display()));
            })?;
        }
        None if cx.ui.json && format == Format::Json => {
            cx.ui.answer(&shown(&ledger_cx, &entries)?, |_| {})?;
        }
        None if cx.ui.json => {
            let content = String::from_utf8_lossy(&content);
            cx.ui.answer(&json!({ "format": format.name(), "content": content }), |_| {})?;
        }
        None => print_document(&content)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns issues as JSON.
fn shown(ledger_cx: &IssueContext, entries: &[IndexedIssue]) -> Result<Vec<IssueRecord>> {
    entries.iter().map(|entry| ledger_cx.shown(&entry.record, entry.ledger)).collect()
}

fn json_list(ledger_cx: &IssueContext, entries: &[IndexedIssue]) -> Result<String> {
    let records = shown(ledger_cx, entries)?;
    let records: Vec<String> = records.iter().map(IssueRecord::to_line).collect();
    Ok(if records.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", records.join(",\n")) })
}

/// Writes a file durably. Replaces an existing file only with `force`.
fn save(path: &Path, content: &[u8], force: bool) -> Result<()> {
    let cannot = |error: std::io::Error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
    let target = &surroundings::resolve(path);
    if force {
        return waypost_fs::replace(target, content, 0o644).map_err(cannot);
    }
    let exists = || Error::refused(format!("{} already exists", path.display())).hint("use --force to overwrite it");
    let (mut file, temporary) = waypost_fs::create_beside(target, 0o644).map_err(cannot)?;
    let written = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| waypost_fs::rename_new(&temporary, target))
        .and_then(|()| waypost_fs::sync_dir(target));
    written.map_err(|error| {
        // After the rename the temporary name no longer exists; before it, no other process uses the file.
        let _ = std::fs::remove_file(&temporary);
        if error.kind() == std::io::ErrorKind::AlreadyExists { exists() } else { cannot(error) }
    })
}
