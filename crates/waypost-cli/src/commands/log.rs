//! `way log`

use std::process::ExitCode;

use serde::Serialize;
use waypost_core::ledger::difference::{self, Change};
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use waypost_core::model::{Event, EventQuery};
use waypost_core::op::ListEvents;

use crate::CommandContext;
use crate::ui::{BOLD, DIM, cell, styled};
use waypost::issues::{Step, steps};
use waypost::ops::issue::IssueContext;

/// Maximum number of events that are shown.
const MAX_EVENTS: u32 = 10_000;

/// Show the history of an issue, newest first
///
/// Shows the commits that changed it, and the events of the store about it: claims, releases and expired claims.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way log way-1a2b")]
pub(crate) struct Args {
    /// Issue id, or a unique prefix of it; the full id if it is no longer in the ledger
    #[arg(value_name = "ISSUE")]
    issue: String,
    /// Maximum number of entries; 0 for no limit
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// One entry of the history.
#[derive(Serialize)]
struct Row {
    /// The short form of the commit in the text output.
    #[serde(skip)]
    mark: String,
    commit: Option<String>,
    when: Option<Timestamp>,
    who: Option<String>,
    subject: Option<String>,
    changes: Vec<Change>,
    /// The event of the store, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let limit = args.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (id, record) = match ledger_cx.with_index(|index| index.get_by_prefix(&args.issue)) {
        Ok(entry) => (entry.issue.id, Some(entry.record)),
        Err(error) => {
            let (record, _) = ledger_cx.ledger.find_after_error(error, &args.issue)?;
            (record.text("id").unwrap_or_default(), None)
        }
    };
    let mut rows: Vec<Row> = if let Some(steps) = steps(&ledger_cx.place, &id, record.as_ref(), limit)? {
        if steps.is_shallow {
            cx.ui.warn("this is a shallow clone, so the history before its oldest commit is unknown");
        }
        steps.steps.into_iter().map(Row::from).collect()
    } else {
        cx.ui.note("without version control, only the creation and closing of the issue are known");
        let record = record.ok_or_else(|| Error::internal("an issue outside the ledger needs a history"))?;
        rows_from_record(&record).into_iter().take(limit).collect()
    };
    let events = match events(&ledger_cx, &id, limit) {
        Ok(events) => events,
        Err(error) => {
            cx.ui.warn(&format!("events of the store are left out: {}", error.full_message()));
            Vec::new()
        }
    };
    if !events.is_empty() {
        rows.extend(events.into_iter().map(Row::from));
        // A change that is not committed is the newest.
        rows.sort_by_key(|row| std::cmp::Reverse(row.when.unwrap_or(Timestamp::NEVER)));
        rows.truncate(limit);
    }
    cx.ui.answer(&rows, |text| {
        for row in &rows {
            text.table(&[vec![
                styled(BOLD, &row.mark),
                styled(DIM, row.when.map(|when| when.to_string()).unwrap_or_default()),
                cell(row.who.as_deref().unwrap_or_default()),
                styled(DIM, row.subject.as_deref().unwrap_or_default()).cuttable(),
            ]]);
            for change in &row.changes {
                text.line(format!("  {change}"));
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl From<Step> for Row {
    fn from(step: Step) -> Row {
        let changes = step.changes;
        let Some(commit) = step.commit else {
            return Row {
                mark: "not committed".to_owned(),
                commit: None,
                when: None,
                who: None,
                subject: None,
                changes,
                event: None,
            };
        };
        Row {
            mark: commit.short_id().to_owned(),
            commit: Some(commit.id),
            when: Some(commit.time),
            who: Some(commit.author),
            subject: Some(commit.subject),
            changes,
            event: None,
        }
    }
}

impl From<Event> for Row {
    fn from(event: Event) -> Row {
        let detail = ["reason", "result"].iter().find_map(|key| event.data[*key].as_str());
        let what = event.kind.rsplit('.').next().unwrap_or_default().replace('_', " ");
        Row {
            mark: "event".to_owned(),
            commit: None,
            when: Some(event.time),
            who: Some(event.actor.clone()),
            subject: Some(detail.map_or_else(|| what.clone(), |detail| format!("{what}: {detail}"))),
            changes: Vec::new(),
            event: Some(event),
        }
    }
}

/// Returns the latest events of the store about an issue. Creates no store.
fn events(ledger_cx: &IssueContext, id: &str, limit: usize) -> Result<Vec<Event>> {
    let Some(mut session) = ledger_cx.session.open_existing()? else { return Ok(Vec::new()) };
    let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(MAX_EVENTS);
    let query = EventQuery { subject: Some(id.to_owned()), limit, ..EventQuery::default() };
    Ok(session.call(ListEvents { query })?.events)
}

/// Returns the entries that the record itself contains: its creation and its closing.
fn rows_from_record(record: &Record) -> Vec<Row> {
    let Some((issue, _)) = Issue::read(record) else { return Vec::new() };
    let row =
        |when, who, changes| Row { mark: "-".to_owned(), commit: None, when, who, subject: None, changes, event: None };
    let mut rows = Vec::new();
    if issue.closed_at.is_some() {
        let reason = issue.close_reason.iter().map(|reason| Change::to_text("close_reason", reason));
        let changes = std::iter::once(Change::to_text("status", &issue.status)).chain(reason).collect();
        rows.push(row(issue.closed_at, None, changes));
    }
    rows.push(row(issue.created_at, issue.created_by, difference::between(None, Some(record))));
    rows
}
