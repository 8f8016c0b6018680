//! `way dep`

use std::process::ExitCode;

use serde_json::json;
use waypost_core::ledger::vocabulary::DependencyKind;
use waypost_core::ledger::{change, issue_id};
use waypost_core::{Error, Result};

use crate::cli::Cx;
use crate::cli::issues::dependency_kind;

/// Say how issues depend on each other
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way dep add way-1a2b --blocked-by way-3c4d     way-1a2b waits for way-3c4d
  way dep add way-1a2b way-3c4d --type related")]
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
        #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = dependency_kind)]
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
        #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = dependency_kind)]
        kind: Option<DependencyKind>,
    },
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Add { issue, on, blocked_by, kind } => {
            let on = blocked_by.as_ref().or(on.as_ref()).map_or("", String::as_str);
            add(cx, issue, on, kind.unwrap_or(DependencyKind::Blocks))
        }
        Command::Rm { issue, on, kind } => rm(cx, issue, on, *kind),
    }
}

fn add(cx: &mut Cx, issue: &str, on: &str, kind: DependencyKind) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let (id, other, is_new) = desk.ledger.change(|draft| {
        let id = draft.snapshot.find(issue)?.issue.id.clone();
        let other = draft.snapshot.find(on)?.issue.id.clone();
        if id == other {
            return Err(Error::invalid(format!("issue {id} cannot depend on itself")));
        }
        if kind == DependencyKind::Blocks
            && let Some(circle) = draft.snapshot.cycle(&id, &other)
        {
            return Err(Error::conflict("they would wait for each other").because(circle.join(" → ")));
        }
        if kind == DependencyKind::ParentChild
            && let Some(circle) = draft.snapshot.parent_cycle(&id, &other)
        {
            return Err(Error::conflict("they would be parts of each other").because(circle.join(" → ")));
        }
        let mut is_new = false;
        draft.edit(&id, |record| {
            is_new = change::depend(record, &other, kind, desk.author())?;
            Ok(())
        })?;
        Ok((id, other, is_new))
    })?;
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

fn rm(cx: &mut Cx, issue: &str, on: &str, kind: Option<DependencyKind>) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let (id, other) = desk.ledger.change(|draft| {
        let entry = &draft.snapshot.find(issue)?.issue;
        let id = entry.id.clone();
        // What it depends on may be in no ledger, so only its own dependencies are asked.
        let own = entry.dependencies.iter().map(|edge| edge.depends_on_id.as_str()).chain(entry.parent_id.as_deref());
        let Ok(other) = issue_id::resolve(own, on).map(str::to_owned) else {
            return Err(Error::not_found(format!("issue {id} does not depend on {on}")));
        };
        draft.edit(&id, |record| {
            if change::undepend(record, &other, kind, desk.author())? {
                return Ok(());
            }
            Err(Error::not_found(format!("issue {id} does not depend on {other}")))
        })?;
        Ok((id, other))
    })?;
    let data = json!({ "issue_id": id, "depends_on_id": other, "removed": true });
    cx.ui.answer(&data, |text| text.line(format!("{id} no longer depends on {other}")))?;
    Ok(ExitCode::SUCCESS)
}
