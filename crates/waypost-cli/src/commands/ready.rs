//! `way ready`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Kind, Result, words};
use waypost_ledger::{Filter, Index, Sort};

use crate::CommandContext;
use crate::issues::list_limit;
use crate::ui::{BOLD, GOOD, cell, header, prose, styled};
use waypost::issues::Repo;
use waypost::ops::issue::{IssueContext, ListReadyIssues};

/// List issues that can be worked on now, in order of priority; exits with 6 if there are none
///
/// Leaves out records with which other tools coordinate agents, such as those of type agent, gate or message, and ephemeral
/// ones; --type lists them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ready
  way ready --explain way-1a2b                    why it is ready or not")]
pub(crate) struct Args {
    /// Maximum number of issues; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Type, also of records that are not work; may be repeated
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    issue_type: Vec<String>,
    /// Explain why an issue is or is not ready; without ISSUE, explain all open issues
    #[arg(long, value_name = "ISSUE", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(id_or_prefix) = &args.explain {
        return explain(cx, id_or_prefix);
    }
    let ledger_cx = cx.open_ledgers()?;
    note_protected(cx, &ledger_cx)?;
    let query = ListReadyIssues {
        limit: Some(list_limit(args.limit)),
        types: args.issue_type.clone(),
        ..ListReadyIssues::default()
    };
    let (has_any, left_out) = cx.list_and(&ledger_cx, &query, &[], Index::left_out)?;
    if args.issue_type.is_empty() {
        note_left_out(cx, &left_out);
    }
    if has_any {
        return Ok(ExitCode::SUCCESS);
    }
    cx.note_none(&ledger_cx, "no issue is ready; way ready --explain shows why")?;
    Ok(ExitCode::from(Kind::NothingToDo.exit_code()))
}

/// Tells the user which records are left out because they are not work.
fn note_left_out(cx: &CommandContext, left_out: &[(String, usize)]) {
    if left_out.is_empty() {
        return;
    }
    let kinds: Vec<String> = left_out.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    cx.ui.note(&format!("not listed, because they are not work: {}; --type lists them", kinds.join(", ")));
}

/// Tells a contributor that ready issues are left out, because the user may not claim them.
fn note_protected(cx: &CommandContext, ledger_cx: &IssueContext) -> Result<()> {
    let Some(protected) = ledger_cx.ledger.protected() else { return Ok(()) };
    let ready = ledger_cx.with_index(|index| index.ready(ledger_cx.now, None))?;
    let count = ready.iter().filter(|issue| issue.ledger == protected).count();
    if count > 0 {
        let name = ledger_cx.ledger.repos().get(protected).map(Repo::name).unwrap_or_default();
        let issues = words::count(count, "ready issue");
        cx.ui.note(&format!("not listed: {issues} of {name}, whose ledger you may not write; see way list"));
    }
    Ok(())
}

fn explain(cx: &mut CommandContext, id_or_prefix: &str) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers()?;
    let explained = ledger_cx.with_index(|index| {
        let found = if id_or_prefix.is_empty() {
            index.list(&Filter::default(), Sort::Id, false, None)?
        } else {
            index.summary(&index.find(id_or_prefix)?)?.into_iter().collect()
        };
        let obstacles = index.all_obstacles(found.iter().map(|summary| summary.id.as_str()), ledger_cx.now)?;
        let explained = obstacles
            .iter()
            .zip(found)
            .map(|(obstacles, summary)| Ok((ledger_cx.reasons(&summary.id, summary.ledger, obstacles)?, summary)));
        explained.collect::<Result<Vec<_>>>()
    })?;
    let data: Vec<Value> = explained.iter().map(|(reasons, issue)| json!({ "id": issue.id, "title": issue.title, "ready": reasons.is_empty(), "reasons": reasons })).collect();
    let data = if id_or_prefix.is_empty() { Value::Array(data) } else { data.into_iter().next().unwrap_or_default() };
    cx.ui.answer(&data, |text| {
        let rows = explained.iter().map(|(reasons, issue)| {
            let verdict = if reasons.is_empty() { styled(GOOD, "ready") } else { cell(reasons.join("; ")) };
            vec![styled(BOLD, &issue.id), prose(&issue.title), verdict]
        });
        text.list(header(["ID", "TITLE", "STATE"]), rows);
    })?;
    Ok(ExitCode::SUCCESS)
}
