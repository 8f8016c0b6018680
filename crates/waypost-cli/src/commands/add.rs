//! `way add`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::time::Timestamp;

use crate::CommandContext;
use crate::issues::{description, parse_priority, parse_time_ahead};
use waypost::ledger::{Change, Edit, New};

/// Write down an issue
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way add \"Login fails after a timeout\" -t bug -p 1
  way add \"Write the docs\" --blocked-by way-1a2b --label docs
  git log -1 --format=%b | way add \"Follow up\" --description -")]
pub(crate) struct Args {
    /// One line that says what should be done
    title: String,
    /// Priority: 0 (highest) to 4
    #[arg(short, long, value_name = "N", value_parser = parse_priority)]
    priority: Option<u8>,
    /// Type: bug, feature, task, epic, chore, or your own
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Option<String>,
    /// A label; may be given several times
    #[arg(short, long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// What it is about; - for standard input
    #[arg(short, long, value_name = "TEXT")]
    description: Option<String>,
    /// A file that says what it is about; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "description")]
    description_file: Option<PathBuf>,
    /// When it is done
    #[arg(long, value_name = "TEXT")]
    acceptance: Option<String>,
    /// Who does it
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// The issue it is a part of
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// An issue it waits for; may be given several times
    #[arg(long, value_name = "ISSUE")]
    blocked_by: Vec<String>,
    /// The issue during which it was found
    #[arg(long, value_name = "ISSUE")]
    discovered_from: Option<String>,
    /// When it should be done: a time or a day, or in how long: 14d
    #[arg(long, value_name = "TIME")]
    due: Option<String>,
    /// Set it aside until a time or a day, or for so long: 3d
    #[arg(long, visible_alias = "defer", value_name = "TIME")]
    defer_until: Option<String>,
    /// What it is called in the rest of a batch, after a $
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

impl Args {
    pub(crate) fn changes(&self, now: Timestamp) -> Result<Vec<Change>> {
        let description = description(self.description.as_deref(), self.description_file.as_deref())?;
        let edit = Edit {
            title: Some(self.title.clone()),
            description,
            acceptance_criteria: self.acceptance.clone(),
            priority: self.priority,
            issue_type: self.issue_type.clone(),
            assignee: self.assignee.clone(),
            parent_id: self.parent.clone(),
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
    let ledger_cx = cx.open_ledgers()?;
    for (record, ledger) in ledger_cx.apply(&args.changes(ledger_cx.now)?)? {
        // The title was typed a moment ago.
        let id = record.text("id").unwrap_or_default();
        cx.ui.answer(&ledger_cx.json(&record, ledger)?, |text| {
            let elsewhere = ledger_cx.ledger.repos().get(ledger).filter(|_| ledger != 0);
            let elsewhere = elsewhere.map(|repo| format!(" to {}", repo.path().display())).unwrap_or_default();
            text.line(format!("Added {id}{elsewhere}"));
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
