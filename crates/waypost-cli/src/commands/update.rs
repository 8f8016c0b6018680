//! `way update`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use crate::CommandContext;
use crate::issues::{description, ids, parse_priority};
use waypost::issues::ledger::{Change, Edit};
use waypost_core::ledger::issue::parse_time_ahead;

/// Update fields of issues; '' clears a field
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way update way-1a2b -p 0 --add-label urgent
  way update way-1a2b way-3c4d --defer 3d
  way update way-1a2b --status deferred --defer-until 2026-12-01
  way list --label later | way update - -p 4")]
pub(crate) struct Args {
    /// Issue ids, or unique prefixes of them; - to read ids from standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// Title, in one line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
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
    /// Status: open, in_progress, blocked, deferred, closed, or your own
    #[arg(short, long, value_name = "STATUS")]
    status: Option<String>,
    /// Priority: 0 (highest) to 4
    #[arg(short, long, value_name = "N", value_parser = parse_priority)]
    priority: Option<u8>,
    /// Type: bug, feature, task, epic, chore, or your own
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Option<String>,
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
    /// Defer until a time, a day, or an offset from now, e.g. 3d; '' ends the deferral
    #[arg(long, visible_alias = "defer", value_name = "TIME")]
    defer_until: Option<String>,
    /// Due date: a time, a day, or an offset from now, e.g. 14d
    #[arg(long, value_name = "TIME")]
    due: Option<String>,
    /// Estimated minutes; 0 clears the estimate
    #[arg(long, value_name = "MINUTES")]
    estimate: Option<u32>,
    /// Label to add; repeatable
    #[arg(long = "add-label", value_name = "LABEL")]
    add_labels: Vec<String>,
    /// Label to remove; repeatable
    #[arg(long = "remove-label", value_name = "LABEL")]
    remove_labels: Vec<String>,
    /// Change the status even if another agent holds the issue
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(crate) fn changes(&self, now: Timestamp) -> Result<Vec<Change>> {
        let description = description(self.description.as_deref(), self.description_file.as_deref())?;
        let edit = Edit {
            title: self.title.clone(),
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
            defer_until: self.defer_until.as_deref().map(|text| parse_time_ahead(text, now)).transpose()?,
            due_at: self.due.as_deref().map(|text| parse_time_ahead(text, now)).transpose()?,
            estimated_minutes: self.estimate,
            add_labels: self.add_labels.clone(),
            remove_labels: self.remove_labels.clone(),
        };
        if edit == Edit::default() {
            return Err(Error::invalid("no field to update given").hint("way update --help lists the fields"));
        }
        Ok(ids(&self.issues)?.into_iter().map(|id| Change::Update(id, edit.clone()).forced(self.force)).collect())
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change()?;
    let records = cx.apply(&ledger_cx, &args.changes(ledger_cx.now)?)?;
    cx.answer_changed(&ledger_cx, "Changed", &records)?;
    Ok(ExitCode::SUCCESS)
}
