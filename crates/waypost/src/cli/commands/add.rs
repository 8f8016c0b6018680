//! `way add`

use std::process::ExitCode;

use waypost_core::ledger::change::{self, Edit};
use waypost_core::ledger::issue_id;
use waypost_core::ledger::vocabulary::DependencyKind;
use waypost_core::{Error, Result};

use crate::cli::Cx;
use crate::cli::issues::{priority, resolve_all, text_or_stdin};
use crate::session::SystemEntropy;

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
    #[arg(short, long, value_name = "N", value_parser = priority)]
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
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let description = args.description.as_deref().map(text_or_stdin).transpose()?;
    let mut entropy = SystemEntropy;
    let record = desk.ledger.change(|draft| {
        let parent = args.parent.as_ref().map(|id| resolve_all(draft, std::slice::from_ref(id))).transpose()?;
        let edit = Edit {
            title: Some(args.title.clone()),
            description: description.clone(),
            priority: args.priority,
            issue_type: args.issue_type.clone(),
            assignee: args.assignee.clone(),
            parent_id: parent.and_then(|mut ids| ids.pop()),
            add_labels: args.labels.clone(),
            ..Edit::default()
        };
        let text = description.as_deref().unwrap_or_default();
        let id = (0..100)
            .map(|_| issue_id::generate(&desk.ledger.prefix, &args.title, text, desk.now, &mut entropy))
            .find(|id| draft.snapshot.get(id).is_none())
            .ok_or_else(|| Error::internal("no id could be found that is not taken"))?;
        let mut record = change::create(&id, &edit, desk.author())?;
        for blocker in resolve_all(draft, &args.blocked_by)? {
            change::depend(&mut record, &blocker, DependencyKind::Blocks, desk.author())?;
        }
        if let Some(origin) = &args.discovered_from {
            let origin = draft.snapshot.find(origin)?.issue.id.clone();
            change::depend(&mut record, &origin, DependencyKind::DiscoveredFrom, desk.author())?;
        }
        draft.add(&record)?;
        Ok(record)
    })?;
    cx.ui.answer(&desk.json(&record)?, |text| text.line(format!("Added {}", record.text("id").unwrap_or_default())))?;
    Ok(ExitCode::SUCCESS)
}
