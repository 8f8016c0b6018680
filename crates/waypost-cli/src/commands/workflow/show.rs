//! Shows a workflow and its tasks, and summarizes its progress.

use waypost_core::Result;
use waypost_core::model::{Reach, Source};
use waypost_core::op::{ShowWorkflow, ShowWorkflowSummary, WorkflowSummary};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::work::timeline::SpanKind;
use waypost_core::work::view::WorkflowView;

use super::NamedArgs;
use crate::CommandContext;
use crate::places::{PlaceColumns, describe_repositories, describe_worktree};
use crate::ui::{BOLD, DIM, Text, cell, prose, styled};
use crate::work::{first_line, format_duration, humanize, progress, task_table};
use waypost::app::session::Session;

pub(super) fn show(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let mut session = cx.session()?;
    let page = session.call(ShowWorkflow { workflow: args.workflow.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&page, |text| {
        write_facts(text, &session, &page.workflow, now);
        if !page.tasks.is_empty() {
            text.gap();
            // The facts have the worktree.
            text.table(&task_table(&page.tasks, false, PlaceColumns::of(&session, &page.tasks).without_worktree()));
        }
    })
}

fn write_facts(text: &mut Text, session: &Session, view: &WorkflowView, now: Timestamp) {
    let workflow = &view.workflow;
    text.table(&[vec![styled(BOLD, &workflow.name), styled(DIM, &workflow.id), cell(progress(view))]]);
    let source = match &workflow.source_ref {
        Some(reference) => Some(format!("{} {reference}", workflow.source)),
        None => (workflow.source != Source::Prompt).then(|| workflow.source.to_string()),
    };
    let moment = |moment: Option<Timestamp>| moment.map(|moment| format!("{moment}, {}", moment.ago(now)));
    let facts = [
        ("summary", workflow.summary.clone()),
        ("reason", workflow.reason.clone()),
        ("source", source),
        ("repository", describe_repositories(session, view)),
        ("worktree", describe_worktree(view)),
        ("taken by", Some(humanize_reach(workflow.reach).to_owned())),
        ("max parallel", workflow.max_parallel.map(|max| count(max, "task"))),
        ("base", workflow.base.clone()),
        ("created", moment(Some(workflow.created_at))),
        ("started", moment(workflow.started_at)),
        ("ended", moment(workflow.finished_at)),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
}

/// Describes which worktrees take the tasks of a workflow.
fn humanize_reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Worktree => "its worktree only",
        Reach::Repository => "every worktree",
    }
}

pub(super) fn summary(cx: &mut CommandContext, args: &NamedArgs) -> Result<()> {
    let mut session = cx.session()?;
    let summary = session.call(ShowWorkflowSummary { workflow: args.workflow.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&summary, |text| write_summary(text, &summary, now))
}

fn write_summary(text: &mut Text, summary: &WorkflowSummary, now: Timestamp) {
    const WIDTH: usize = 20;
    let view = &summary.workflow;
    let full = usize::try_from(summary.percent).unwrap_or(0).min(100) * WIDTH / 100;
    let bar = format!("[{}{}]", "#".repeat(full), "-".repeat(WIDTH - full));
    text.table(&[vec![
        styled(BOLD, &view.workflow.name),
        styled(DIM, &view.workflow.id),
        cell(format!("{bar} {}%", summary.percent)),
        cell(progress(view)),
    ]]);
    let mut counts: Vec<_> =
        view.counts.iter().map(|(status, count)| format!("{count} {}", humanize(status.as_str()))).collect();
    for (count, label) in [(summary.claimable, "claimable"), (summary.blocked, "blocked")] {
        if count > 0 {
            counts.push(format!("{count} {label}"));
        }
    }
    let path = &summary.critical_path;
    let path_text = match path.len() {
        0 => None,
        1..=6 => Some(format!("{} left: {}", path.len(), path.join(" → "))),
        length => Some(format!("{length} left: {} → … → {}", path[..3].join(" → "), path[length - 2..].join(" → "))),
    };
    let oldest = summary.oldest.as_ref().map(|task| {
        let since = task.task.started_at.map_or(0, |started| now.since(started));
        let holder = task.holder.as_deref().unwrap_or("unknown agent");
        format!("{} by {holder} for {}", task.task.name, format_duration(since))
    });
    let mut rows = Vec::new();
    let facts = [
        ("tasks", Some(counts.join(", ")).filter(|counts| !counts.is_empty())),
        ("reason", view.workflow.reason.clone()),
        ("critical path", path_text),
        ("longest running", oldest),
        ("time", time_spent(summary, now)),
    ];
    rows.extend(facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])));
    for task in &summary.questions {
        let question = first_line(task.task.question.as_deref().unwrap_or_default());
        rows.push(vec![styled(DIM, "question"), prose(format!("{}: {question}", task.task.name))]);
    }
    for task in &summary.failed {
        let error = first_line(task.task.error.as_deref().unwrap_or_default());
        let (status, attempts) = (task.task.status, task.task.attempts);
        rows.push(vec![
            styled(DIM, status.as_str()),
            prose(format!(
                "{} after {attempts} of {}: {error}",
                task.task.name,
                count(task.task.max_attempts, "attempt")
            )),
        ]);
    }
    text.table(&rows);
}

/// Returns the time that all tasks together spent on each kind of span; none if there was none.
fn time_spent(summary: &WorkflowSummary, now: Timestamp) -> Option<String> {
    let spans = || summary.timeline.iter().flat_map(|task| &task.spans);
    let parts = SpanKind::ALL.iter().filter_map(|kind| {
        let of_kind = spans().filter(|span| span.kind == *kind);
        let millis: u64 = of_kind.map(|span| span.until.unwrap_or(now).since(span.from)).sum();
        let what = if *kind == SpanKind::Waiting { "waiting for a person" } else { kind.as_str() };
        (millis > 0).then(|| format!("{} {what}", format_duration(millis)))
    });
    Some(parts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}
