//! `way show`

use std::collections::BTreeMap;
use std::process::ExitCode;

use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_ledger::{Index, Summary};

use crate::CommandContext;
use crate::issues::{OneOrMany, ids};
use crate::ui::{BOLD, DIM, Text, cell, styled};
use waypost::history;

/// Show issues with all details
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Issue ids, or unique prefixes of them; full ids for pruned issues; - to read ids from standard input
    #[arg(required = true, value_name = "ISSUE")]
    issues: Vec<String>,
}

/// An issue with its related issues.
struct Page {
    /// Its record, and the number of its ledger.
    record: (Record, usize),
    issue: Issue,
    is_ready: bool,
    /// Its dependencies that are in the ledger.
    others: BTreeMap<String, Summary>,
    /// The issues that it blocks.
    waiting: Vec<Summary>,
    /// Its children.
    parts: Vec<Summary>,
}

impl Page {
    /// Creates the page of an issue that is no longer in a ledger.
    fn gone(record: Record) -> Result<Page> {
        let (issue, _) = Issue::read(&record).ok_or_else(|| Error::internal("the record is not an issue"))?;
        let record = (record, 0);
        Ok(Page { record, issue, is_ready: false, others: BTreeMap::new(), waiting: Vec::new(), parts: Vec::new() })
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let ids = ids(&args.issues)?;
    let mut pages = Vec::new();
    for id_or_prefix in &ids {
        pages.push(match cx.with_index(&ledger_cx, |index| load_page(index, id_or_prefix, ledger_cx.now)) {
            Ok(page) => page,
            Err(error) => {
                let (record, commit) = history::find_after_error(error, &ledger_cx.place, id_or_prefix)?;
                cx.ui.warn(&format!(
                    "{id_or_prefix} is not in the ledger any more; last in commit {}",
                    commit.short_id()
                ));
                Page::gone(record)?
            }
        });
    }
    let data = OneOrMany(ledger_cx.json_list(pages.iter().map(|page| &page.record))?);
    cx.ui.answer(&data, |text| {
        for (number, page) in pages.iter().enumerate() {
            if number > 0 {
                text.gap();
            }
            write(text, page);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn load_page(index: &Index, id_or_prefix: &str, now: Timestamp) -> Result<Page> {
    let entry = index.get_by_prefix(id_or_prefix)?;
    let id = entry.issue.id.clone();
    let summaries = |ids: Vec<String>| -> Result<Vec<Summary>> {
        Ok(ids.iter().map(|id| index.summary(id)).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    };
    let others = summaries(entry.issue.dependencies.iter().map(|edge| edge.depends_on_id.clone()).collect())?;
    let waiting = index.dependents(&id)?.into_iter().filter(|(_, kind)| kind == "blocks").map(|(id, _)| id).collect();
    Ok(Page {
        is_ready: index.obstacles(&id, now)?.is_empty(),
        others: others.into_iter().map(|other| (other.id.clone(), other)).collect(),
        waiting: summaries(waiting)?,
        parts: summaries(index.parts(&id)?)?,
        record: (entry.record, entry.ledger),
        issue: entry.issue,
    })
}

fn write(text: &mut Text, page: &Page) {
    let issue = &page.issue;
    text.table(&[vec![styled(BOLD, &issue.id), styled(BOLD, &issue.title)]]);
    let time = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
    let facts = [
        ("status", Some(issue.status.clone())),
        ("priority", Some(format!("P{}", issue.priority))),
        ("type", Some(issue.issue_type.clone())),
        ("assignee", issue.assignee.clone()),
        ("owner", issue.owner.clone()),
        ("labels", Some(issue.labels.join(", ")).filter(|labels| !labels.is_empty())),
        ("parent", issue.parent_id.clone()),
        ("created", time(issue.created_at)),
        ("updated", time(issue.updated_at)),
        ("due", time(issue.due_at)),
        ("closed", time(issue.closed_at)),
        ("because", issue.close_reason.clone()),
        ("set aside", time(issue.defer_until)),
        ("estimate", issue.estimated_minutes.map(|minutes| format!("{minutes} minutes"))),
        ("elsewhere", issue.external_ref.clone()),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
    for (name, body) in [
        ("Description", &issue.description),
        ("Design", &issue.design),
        ("Done when", &issue.acceptance_criteria),
        ("Notes", &issue.notes),
    ] {
        if !body.is_empty() {
            text.gap();
            text.heading(name);
            body.lines().for_each(|line| text.line(line));
        }
    }
    if !issue.dependencies.is_empty() {
        text.gap();
        text.heading("Depends on");
        let rows: Vec<_> = issue
            .dependencies
            .iter()
            .map(|edge| {
                let other = page.others.get(&edge.depends_on_id);
                vec![
                    styled(DIM, &edge.word),
                    cell(&edge.depends_on_id),
                    cell(other.map_or("not in this ledger", |other| other.status.as_str())),
                    cell(other.map_or("", |other| other.title.as_str())),
                ]
            })
            .collect();
        text.table(&rows);
    }
    for (title, others) in [("Waiting for it", &page.waiting), ("Parts", &page.parts)] {
        if !others.is_empty() {
            text.gap();
            text.heading(title);
            let row = |other: &Summary| vec![cell(&other.id), cell(&other.status), cell(&other.title)];
            text.table(&others.iter().map(row).collect::<Vec<_>>());
        }
    }
    if !issue.comments.is_empty() {
        text.gap();
        text.heading("Comments");
        for comment in &issue.comments {
            let when = time(comment.created_at).unwrap_or_default();
            text.table(&[vec![styled(BOLD, &comment.author), styled(DIM, when)]]);
            comment.text.lines().for_each(|line| text.line(line));
        }
    }
    if page.is_ready {
        text.line("It is ready.");
    }
}
