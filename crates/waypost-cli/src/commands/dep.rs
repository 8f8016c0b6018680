//! `way dep`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::Result;
use waypost_core::ledger::issue_id;
use waypost_core::ledger::vocabulary::DependencyKind;
use waypost_core::words::count;

use crate::CommandContext;
use crate::graph::{Bounds, Format, Graph};
use crate::issues::parse_dependency_kind;
use waypost::issues::ledger::Change;

/// Add, remove and show dependencies between issues
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way dep add way-1a2b --blocked-by way-3c4d     way-3c4d blocks way-1a2b
  way dep add way-1a2b way-3c4d --type related
  way dep tree way-1a2b --format mermaid
  way dep tree way-1a2b --depth 3")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Add a dependency; without --type, ON blocks ISSUE
    Add {
        /// Dependent issue
        issue: String,
        /// Issue that it depends on
        #[arg(required_unless_present = "blocked_by")]
        on: Option<String>,
        /// Issue that blocks it; an explicit form of ON
        #[arg(long, value_name = "ISSUE", conflicts_with_all = ["on", "kind"])]
        blocked_by: Option<String>,
        /// Type: blocks, parent-child, related, discovered-from, duplicates or supersedes
        #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse_dependency_kind)]
        kind: Option<DependencyKind>,
    },
    /// Remove a dependency
    #[command(visible_alias = "remove")]
    Rm {
        /// Dependent issue
        issue: String,
        /// Issue that it depends on
        on: String,
        /// Only dependencies of this type
        #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = parse_dependency_kind)]
        kind: Option<DependencyKind>,
    },
    /// Show the blockers and children of an issue, recursively
    Tree(Tree),
}

#[derive(clap::Args)]
struct Tree {
    /// Issue id, or a unique prefix of it [default: all open issues]
    #[arg(value_name = "ISSUE")]
    issue: Option<String>,
    /// Output format: text, mermaid or dot
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
    /// Show the issues that it blocks and its parent instead
    #[arg(long)]
    dependents: bool,
    /// Maximum depth; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    depth: usize,
    /// Maximum number of lines, or of issues in a graph; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

impl Args {
    /// Returns the changes; empty for a query.
    #[expect(clippy::unnecessary_wraps, reason = "same signature as the other commands")]
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
    let ledger_cx = cx.open_ledgers_to_change()?;
    let (before, other) = ledger_cx.with_index(|index| Ok((index.get_by_prefix(issue)?, index.find(on)?)))?;
    let id = before.issue.id;
    let after = cx.apply(&ledger_cx, &[Change::Depend(id.clone(), other.clone(), kind)])?;
    let is_new = after.iter().all(|(after, _)| *after != before.record);
    let words = match kind {
        DependencyKind::Blocks => "waits for",
        DependencyKind::ParentChild => "is a part of",
        DependencyKind::Related => "is related to",
        DependencyKind::DiscoveredFrom => "was discovered from",
        DependencyKind::Duplicates => "duplicates",
        DependencyKind::Supersedes => "supersedes",
    };
    let data = json!({ "issue_id": id, "depends_on_id": other, "type": kind.as_str(), "added": is_new });
    cx.ui.answer(&data, |text| text.line(format!("{id} {words} {other}")))?;
    Ok(ExitCode::SUCCESS)
}

fn rm(cx: &mut CommandContext, issue: &str, on: &str, kind: Option<DependencyKind>) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let before = ledger_cx.with_index(|index| index.get_by_prefix(issue))?.issue;
    // The other issue may be in no ledger. If it is not among the dependencies, the change is refused.
    let known = before.dependencies.iter().map(|edge| edge.depends_on_id.as_str()).chain(before.parent_id.as_deref());
    let other = issue_id::resolve(known, on).unwrap_or(on).to_owned();
    let id = before.id.clone();
    cx.apply(&ledger_cx, &[Change::Undepend(id.clone(), other.clone(), kind)])?;
    let data = json!({ "issue_id": id, "depends_on_id": other, "removed": true });
    cx.ui.answer(&data, |text| text.line(format!("{id} no longer depends on {other}")))?;
    Ok(ExitCode::SUCCESS)
}

fn tree(cx: &mut CommandContext, args: &Tree) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let graph = ledger_cx.with_index(|index| {
        let root = args.issue.as_deref().map(|issue| index.find(issue)).transpose()?;
        Graph::of(index, root, args.dependents)
    })?;
    let bound = |max: usize| Some(max).filter(|max| *max > 0);
    let bounds = Bounds { depth: bound(args.depth), limit: bound(args.limit) };
    let mut left_out = 0;
    cx.ui.answer(&graph, |text| left_out = graph.write(text, args.format, bounds))?;
    if left_out > 0 {
        let are = if left_out == 1 { "is" } else { "are" };
        let issues = count(left_out, "more issue");
        cx.ui.note(&format!("{issues} {are} not shown; --depth 0 --limit 0 shows all"));
    }
    Ok(ExitCode::SUCCESS)
}
