//! Shows a task.

use waypost_core::Result;
use waypost_core::model::TaskStatus;
use waypost_core::op::{ShowTask, TaskPage};
use waypost_core::time::Timestamp;

use crate::CommandContext;
use crate::commands::checkpoint;
use crate::places::{PlaceColumns, describe_repositories, describe_worktree};
use crate::ui::{BOLD, DIM, Text, cell, header, styled};
use crate::work::{TaskArg, format_deadline, format_duration, humanize};
use waypost::app::session::Session;

/// Show a task, its latest checkpoints and its history
#[derive(clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    task: TaskArg,
}

pub(super) fn show(cx: &mut CommandContext, args: &ShowArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ShowTask {
        task: args.task.task.clone(),
        workflow: args.task.within.workflow.clone(),
        repository: cx.repository_filter(&mut session)?,
    };
    let page = session.call(operation)?;
    let now = session.now()?;
    cx.ui.answer(&page, |text| write_page(text, &session, &page, now))
}

fn write_page(text: &mut Text, session: &Session, page: &TaskPage, now: Timestamp) {
    let (view, task) = (&page.task, &page.task.task);
    text.table(&[vec![styled(BOLD, &task.name), styled(DIM, &task.id)]]);
    let names = |names: &[String]| Some(names.join(", ")).filter(|names| !names.is_empty());
    let json = |value: &serde_json::Value| match value {
        serde_json::Value::Object(fields) if fields.is_empty() => None,
        serde_json::Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    };
    let held = view.holder.as_ref().zip(view.epoch);
    let duration = |millis: Option<u64>| millis.map(format_duration);
    let facts = [
        ("status", Some(humanize(task.status.as_str()))),
        ("workflow", Some(format!("{} ({})", view.workflow, task.workflow_id))),
        ("repository", describe_repositories(session, view)),
        ("worktree", describe_worktree(view)),
        ("priority", Some(format!("P{}", task.priority))),
        (
            "holder",
            held.map(|(holder, epoch)| {
                let end = view.expires_at.unwrap_or(Timestamp::NEVER);
                format!("{holder}, epoch {epoch}, expires {}", format_deadline(end, now))
            }),
        ),
        ("assigned to", view.assigned_to.clone()),
        ("needs", names(&view.depends_on)),
        ("waits for", names(&view.blocked_by)),
        ("context from", names(&task.context_from)),
        ("capabilities", names(&task.capabilities)),
        ("files", names(&task.files)),
        ("base", task.base.clone()),
        ("issue", task.issue.clone()),
        ("group", task.parallel_group.clone()),
        ("attempts", Some(format!("{} failed of {}", task.attempts, task.max_attempts))),
        (
            "next attempt",
            (task.status == TaskStatus::Failed).then_some(task.due_at).flatten().map(|due| format_deadline(due, now)),
        ),
        ("timeout", duration(task.run_timeout_ms)),
        ("stall timeout", duration(task.stall_timeout_ms)),
        ("queue timeout", duration(task.queue_timeout_ms)),
        ("evidence", task.needs_evidence.then(|| task.evidence.clone().unwrap_or_else(|| "required".to_owned()))),
        ("updated", Some(task.updated_at.ago(now))),
    ];
    let rows: Vec<_> =
        facts.into_iter().filter_map(|(name, value)| Some(vec![styled(DIM, name), cell(value?)])).collect();
    text.table(&rows);
    let bodies = [
        ("Description", Some(task.description.clone())),
        ("Acceptance", Some(task.acceptance.join("\n"))),
        ("Plan", json(&task.plan)),
        ("Context", json(&task.context)),
        ("Outcome", task.outcome.clone()),
        ("Evidence", task.evidence.clone().filter(|_| !task.needs_evidence)),
        ("Error", task.error.clone()),
        ("Question", task.question.clone()),
        ("Answer", task.answer.clone()),
    ];
    for (title, body) in
        bodies.into_iter().filter_map(|(title, body)| Some((title, body.filter(|body| !body.is_empty())?)))
    {
        text.gap();
        text.heading(title);
        for line in body.lines() {
            text.line(format!("  {line}"));
        }
    }
    if !page.checkpoints.is_empty() {
        text.gap();
        text.heading("Checkpoints");
        checkpoint::write(text, &page.checkpoints, now, PlaceColumns::of(session, &page.checkpoints));
    }
    text.gap();
    text.heading("History");
    let rows = page
        .events
        .iter()
        .map(|event| vec![cell(&event.kind), styled(DIM, &event.actor), styled(DIM, event.time.ago(now))]);
    text.list(header(["EVENT", "BY", "AGE"]), rows);
}
