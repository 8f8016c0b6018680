//! `way add`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::time::Timestamp;

use crate::CommandContext;
use crate::issues::{description, parse_priority};
use waypost::issues::ledger::{Change, Edit, New};
use waypost_core::ledger::issue::parse_time_ahead;

/// Add an issue
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way add \"Login fails after a timeout\" -t bug -p 1
  way add \"Write the docs\" --blocked-by way-1a2b --label docs
  git log -1 --format=%b | way add \"Follow up\" --description -")]
pub(crate) struct Args {
    /// Title, in one line
    title: String,
    /// Priority: 0 (highest) to 4
    #[arg(short, long, value_name = "N", value_parser = parse_priority)]
    priority: Option<u8>,
    /// Type: bug, feature, task, epic, chore, or your own
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Option<String>,
    /// Label; repeatable
    #[arg(short, long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Description; - for standard input
    #[arg(short, long, value_name = "TEXT")]
    description: Option<String>,
    /// File with the description; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "description")]
    description_file: Option<PathBuf>,
    /// Design
    #[arg(long, value_name = "TEXT")]
    design: Option<String>,
    /// Acceptance criteria
    #[arg(long, value_name = "TEXT")]
    acceptance: Option<String>,
    /// Notes
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    /// Status: open, in_progress, blocked, deferred, closed, or your own [default: open]
    #[arg(short, long, value_name = "STATUS")]
    status: Option<String>,
    /// Assignee
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// Owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Parent issue
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Reference to the issue in another tracker
    #[arg(long, value_name = "TEXT")]
    external_ref: Option<String>,
    /// Estimated minutes
    #[arg(long, value_name = "MINUTES")]
    estimate: Option<u32>,
    /// Issue that blocks this one; repeatable
    #[arg(long, value_name = "ISSUE")]
    blocked_by: Vec<String>,
    /// Issue during which this one was discovered
    #[arg(long, value_name = "ISSUE")]
    discovered_from: Option<String>,
    /// Due date: a time, a day, or an offset from now, e.g. 14d
    #[arg(long, value_name = "TIME")]
    due: Option<String>,
    /// Defer until a time, a day, or an offset from now, e.g. 3d
    #[arg(long, visible_alias = "defer", value_name = "TIME")]
    defer_until: Option<String>,
    /// Name of the new issue in the rest of a batch, referred to as $NAME
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

impl Args {
    pub(crate) fn changes(&self, now: Timestamp) -> Result<Vec<Change>> {
        let description = description(self.description.as_deref(), self.description_file.as_deref())?;
        let edit = Edit {
            title: Some(self.title.clone()),
            description,
            design: self.design.clone(),
            acceptance_criteria: self.acceptance.clone(),
            notes: self.notes.clone(),
            status: self.status.clone(),
            priority: self.priority,
            issue_type: self.issue_type.clone(),
            assignee: self.assignee.clone(),
            owner: self.owner.clone(),
            parent_id: self.parent.clone(),
            external_ref: self.external_ref.clone(),
            estimated_minutes: self.estimate,
            due_at: self.due.as_deref().map(|text| parse_time_ahead(text, now)).transpose()?,
            defer_until: self.defer_until.as_deref().map(|text| parse_time_ahead(text, now)).transpose()?,
            add_labels: self.labels.clone(),
            ..Edit::default()
        };
        Ok(vec![Change::Add(New {
            edit,
            blocked_by: self.blocked_by.clone(),
            discovered_from: self.discovered_from.clone(),
            name: self.name.clone(),
        })])
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    for (record, ledger) in cx.apply(&ledger_cx, &args.changes(ledger_cx.now)?)? {
        // The user just typed the title, so the answer omits it.
        let id = record.text("id").unwrap_or_default();
        cx.ui.answer(&ledger_cx.shown(&record, ledger)?, |text| {
            let elsewhere = ledger_cx.ledger.repos().get(ledger).filter(|_| ledger != 0);
            let elsewhere = elsewhere.map(|repo| format!(" to {}", repo.path().display())).unwrap_or_default();
            text.line(format!("Added {id}{elsewhere}"));
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
