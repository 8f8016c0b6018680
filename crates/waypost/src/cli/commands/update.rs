//! `way update`

use std::process::ExitCode;

use waypost_core::ledger::change::{self, Edit};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use crate::cli::Cx;
use crate::cli::issues::{priority, resolve_all, text_or_stdin};

/// Change fields of issues; an empty text takes a field out
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way update way-1a2b -p 0 --add-label urgent
  way update way-1a2b way-3c4d --status deferred --defer-until 2026-12-01")]
pub(crate) struct Args {
    /// The issues: ids, or the beginnings of ids
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
    /// One line that says what should be done
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What it is about; - for standard input
    #[arg(short, long, value_name = "TEXT")]
    description: Option<String>,
    /// How it is to be done
    #[arg(long, value_name = "TEXT")]
    design: Option<String>,
    /// When it is done
    #[arg(long, value_name = "TEXT")]
    acceptance: Option<String>,
    /// What was noted on the way
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    /// open, in_progress, blocked, deferred, closed
    #[arg(short, long, value_name = "STATUS")]
    status: Option<String>,
    /// 0 (highest) to 4
    #[arg(short, long, value_name = "N", value_parser = priority)]
    priority: Option<u8>,
    /// bug, feature, task, epic, chore, or your own
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Option<String>,
    /// Who does it
    #[arg(short, long, value_name = "NAME")]
    assignee: Option<String>,
    /// The issue it is a part of
    #[arg(long, value_name = "ISSUE")]
    parent: Option<String>,
    /// Its name in another tracker
    #[arg(long, value_name = "TEXT")]
    external_ref: Option<String>,
    /// Set it aside until a time or a day; an empty text ends that
    #[arg(long, value_name = "TIME")]
    defer_until: Option<String>,
    /// Put a label on; may be given several times
    #[arg(long = "add-label", value_name = "LABEL")]
    add_labels: Vec<String>,
    /// Take a label off; may be given several times
    #[arg(long = "remove-label", value_name = "LABEL")]
    remove_labels: Vec<String>,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let desk = cx.desk()?;
    let edit = Edit {
        title: args.title.clone(),
        description: args.description.as_deref().map(text_or_stdin).transpose()?,
        design: args.design.clone(),
        acceptance_criteria: args.acceptance.clone(),
        notes: args.notes.clone(),
        status: args.status.clone(),
        priority: args.priority,
        issue_type: args.issue_type.clone(),
        assignee: args.assignee.clone(),
        parent_id: args.parent.clone(),
        external_ref: args.external_ref.clone(),
        defer_until: args.defer_until.as_deref().map(moment).transpose()?,
        add_labels: args.add_labels.clone(),
        remove_labels: args.remove_labels.clone(),
    };
    if edit == Edit::default() {
        return Err(Error::invalid("nothing to change was given").hint("way update --help lists the fields"));
    }
    let records = desk.ledger.change(|draft| {
        let mut edit = edit.clone();
        if let Some(wanted) = edit.parent_id.as_mut().filter(|wanted| !wanted.is_empty()) {
            *wanted = draft.snapshot.find(wanted)?.issue.id.clone();
        }
        let mut records = Vec::new();
        for id in resolve_all(draft, &args.issues)? {
            if let Some(circle) = edit.parent_id.as_ref().and_then(|parent| draft.snapshot.parent_cycle(&id, parent)) {
                return Err(Error::conflict("they would be parts of each other").because(circle.join(" → ")));
            }
            records
                .push(draft.edit(&id, |record| change::update(record, &edit, &desk.ledger.statuses, desk.author()))?);
        }
        Ok(records)
    })?;
    cx.answer_changed(&desk, "Changed", &records)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a moment, or a day that begins at midnight UTC.
fn moment(text: &str) -> Result<Option<Timestamp>> {
    if text.is_empty() {
        return Ok(None);
    }
    let whole = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    let moment: jiff::Timestamp = whole.parse().map_err(|error| {
        Error::invalid(format!("{text:?} is not a time"))
            .because(error)
            .hint("write 2026-12-01 or 2026-12-01T09:00:00Z")
    })?;
    Ok(Some(Timestamp::from_millis(moment.as_millisecond())))
}
