//! Ends attempts: failure and completion.

use serde_json::json;

use super::{lease, progress};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Lease, News, Notice, Task, TaskStatus, kind};
use crate::seeded::seeded_bug;

/// Maximum pause between two attempts.
const MAX_BACKOFF_MS: u64 = 60 * 60 * 1000;

/// Why an attempt did not succeed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The holder reported a failure.
    Failed,
    /// The holder reported that no attempt can succeed, or no agent claimed the task in time.
    Hopeless,
    /// The holder fell silent, or the attempt took too long.
    Expired,
}

/// Ends a failed attempt. The task is requeued, at once or after a pause, or it dies if no attempts remain.
pub(crate) fn fail(cx: &mut OpContext<'_>, task: &Task, held: Option<Lease>, end: End, error: &str) -> Result<Task> {
    let holder = held.as_ref().and_then(|lease| lease.holder.clone());
    let epoch = held.as_ref().map(|lease| lease.epoch);
    if let Some(held) = held {
        lease::end(cx, held)?;
    }
    let mut after = task.clone();
    after.move_to(TaskStatus::Failed, cx.now)?;
    after.attempts += if seeded_bug("count_attempt_twice") { 2 } else { 1 };
    after.error = Some(error.to_owned());
    let is_last = after.attempts >= after.max_attempts || end == End::Hopeless;
    let pause = match end {
        End::Expired => 0,
        End::Failed | End::Hopeless => {
            let doublings = after.attempts.saturating_sub(1).min(20);
            after.backoff_ms.saturating_mul(1 << doublings).min(MAX_BACKOFF_MS.max(after.backoff_ms))
        }
    };
    after.due_at = Some(cx.now.plus(pause)).filter(|_| !is_last);
    let kind = if end == End::Expired { kind::TASK_EXPIRED } else { kind::TASK_FAILED };
    cx.change_task(kind, task, &after, json!({ "agent": holder, "epoch": epoch, "error": error }))?;
    let after = if is_last {
        let failed = after.clone();
        after.move_to(TaskStatus::Dead, cx.now)?;
        cx.change_task(kind::TASK_DIED, &failed, &after, json!({ "error": error }))?;
        after
    } else if pause == 0 {
        requeue(cx, &after)?
    } else {
        after
    };
    progress::complete_or_fail_workflow(cx, &after.workflow_id)?;
    Ok(after)
}

/// Makes a failed task claimable again.
pub(crate) fn requeue(cx: &mut OpContext<'_>, failed: &Task) -> Result<Task> {
    let mut after = failed.clone();
    after.move_to(TaskStatus::Pending, cx.now)?;
    cx.change_task(kind::TASK_REQUEUED, failed, &after, json!({}))?;
    Ok(after)
}

/// Ends an attempt that succeeded.
pub(crate) fn complete(
    cx: &mut OpContext<'_>,
    task: &Task,
    held: Lease,
    outcome: &str,
    evidence: Option<String>,
) -> Result<Task> {
    let (holder, epoch) = (held.holder.clone(), held.epoch);
    lease::end(cx, held)?;
    let mut after = task.clone();
    after.move_to(TaskStatus::Completed, cx.now)?;
    after.outcome = Some(outcome.to_owned());
    after.evidence = evidence;
    after.error = None;
    cx.change_task(kind::TASK_COMPLETED, task, &after, json!({ "agent": holder, "epoch": epoch }))?;
    if let Some(issue) = after.issue.as_ref().filter(|_| !seeded_bug("forget_notice")) {
        // The notice is delivered to the ledger after the commit. If that fails, the next command delivers it.
        cx.tx.notice_put(&Notice {
            issue: issue.clone(),
            news: News::Finished,
            reason: outcome.to_owned(),
            actor: cx.caller.actor.clone(),
            task_id: Some(after.id.clone()),
            worktree_id: after.worktree_id.clone(),
            created_at: cx.now,
        })?;
        cx.event(kind::ISSUE_FINISHED, issue, json!({ "task": after.id, "reason": outcome }))?;
        // It must not expire later and make the finished issue claimable again.
        if let Some(own) = cx.tx.lease_get(issue)?.filter(|own| own.holder.is_some() && own.holder == holder) {
            lease::end(cx, own)?;
        }
    }
    progress::complete_or_fail_workflow(cx, &after.workflow_id)?;
    Ok(after)
}
