//! `way dep`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::ledger::vocabulary::DependencyKind;

use crate::CommandContext;
use crate::graph::{Bounds, Format, Graph};
use crate::issues::parse_dependency_kind;
use waypost::ledger::Change;
use waypost::merge_driver::ensure_driver;

/// Say how issues depend on each other
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way dep add way-1a2b --blocked-by way-3c4d     way-1a2b waits for way-3c4d
  way dep add way-1a2b way-3c4d --type related
  way dep tree way-1a2b --format mermaid
  way dep tree way-1a2b --depth 3")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make an issue depend on another; it waits for it, if no type is given
    Add {
        /// The issue that depends
        issue: String,
        /// What it depends on
        #[arg(required_unless_present = "blocked_by")]
        on: Option<String>,
        /// What it waits for; the same as ON, but clearer
        #[arg(long, value_name = "ISSUE", conflicts_with_all = ["on", "kind"])]
        blocked_by: Option<String>,
        /// blocks, parent-child, related, discovered-from, duplicates or supersedes
        #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse_dependency_kind)]
        kind: Option<DependencyKind>,
    },
    /// End that an issue depends on another
    #[command(visible_alias = "remove")]
    Rm {
        /// The issue that depends
        issue: String,
        /// What it depends on
        on: String,
        /// Only dependencies of this type
        #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse_dependency_kind)]
        kind: Option<DependencyKind>,
    },
    /// Show what an issue waits for and consists of, and what that waits for in turn
    Tree(Tree),
}

#[derive(clap::Args)]
struct Tree {
    /// The issue; without one, all that are open
    #[arg(value_name = "ISSUE")]
    issue: Option<String>,
    /// text, mermaid or dot
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
    /// The other way: what waits for it, and what it is a part of
    #[arg(long)]
    dependents: bool,
    /// Draw at most this many levels; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    depth: usize,
    /// Draw at most this many lines, or issues of a graph; 0 for all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

impl Args {
    /// Returns what is to be changed; nothing, if something is only asked.
    #[expect(clippy::unnecessary_wraps, reason = "as the other commands")]
    pub(crate) fn changes(&self) -> Result<Vec<Change>> {
        Ok(match &self.command {
            Command::Add { issue, on, blocked_by, kind } => {
                let on = blocked_by.as_ref().or(on.as_ref()).cloned().unwrap_or_default();
                vec![Change::Depend(issue.clone(), on, kind.unwrap_or(DependencyKind::Blocks))]
            }
            Command::Rm { issue, on, kind } => vec![Change::Undepend(issue.clone(), on.clone(), *kind)],
            Command::Tree(_) => Vec::new(),
        })
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Add { issue, on, blocked_by, kind } => {
            let on = blocked_by.as_ref().or(on.as_ref()).map_or("", String::as_str);
            add(cx, issue, on, kind.unwrap_or(DependencyKind::Blocks))
        }
        Command::Rm { issue, on, kind } => rm(cx, issue, on, *kind),
        Command::Tree(args) => tree(cx, args),
    }
}

fn add(cx: &mut CommandContext, issue: &str, on: &str, kind: DependencyKind) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let (id, other, is_new) = ledger_cx.ledger.transaction_about(issue, |transaction| {
        let (id, other) = (transaction.find(issue)?, transaction.find(on)?);
        let before = transaction.issues().get(&id)?.map(|entry| entry.record);
        let after = transaction.depend(&id, &other, kind)?;
        Ok((id, other, before != Some(after)))
    })?;
    ensure_driver(&ledger_cx.place);
    let words = match kind {
        DependencyKind::Blocks => "waits for",
        DependencyKind::ParentChild => "is a part of",
        DependencyKind::Related => "is related to",
        DependencyKind::DiscoveredFrom => "was found during",
        DependencyKind::Duplicates => "is the same as",
        DependencyKind::Supersedes => "takes the place of",
    };
    let data = json!({ "issue_id": id, "depends_on_id": other, "type": kind.as_str(), "added": is_new });
    cx.ui.answer(&data, |text| text.line(format!("{id} {words} {other}")))?;
    Ok(ExitCode::SUCCESS)
}

fn rm(cx: &mut CommandContext, issue: &str, on: &str, kind: Option<DependencyKind>) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let (record, other) =
        ledger_cx.ledger.transaction_about(issue, |transaction| transaction.undepend(issue, on, kind))?;
    ensure_driver(&ledger_cx.place);
    let id = record.text("id").unwrap_or_default();
    let data = json!({ "issue_id": id, "depends_on_id": other, "removed": true });
    cx.ui.answer(&data, |text| text.line(format!("{id} no longer depends on {other}")))?;
    Ok(ExitCode::SUCCESS)
}

fn tree(cx: &mut CommandContext, args: &Tree) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let graph = cx.with_index(&ledger_cx, |index| {
        let root = args.issue.as_deref().map(|issue| index.find(issue)).transpose()?;
        Graph::of(index, root, args.dependents)
    })?;
    let bound = |max: usize| Some(max).filter(|max| *max > 0);
    let bounds = Bounds { depth: bound(args.depth), limit: bound(args.limit) };
    let mut left_out = 0;
    cx.ui.answer(&graph, |text| left_out = graph.write(text, args.format, bounds))?;
    if left_out > 0 {
        cx.ui.note(&format!("{left_out} more issues are not shown; --depth 0 --limit 0 shows all"));
    }
    Ok(ExitCode::SUCCESS)
}
