//! Applies transitions that are due by time. There is no daemon: every write applies them first.

use serde_json::json;

use super::{attempt, find, lease};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{AgentStatus, DependencyKind, Lease, News, Notice, Task, TaskStatus, WorkflowStatus, kind};
use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// Maximum number of agents, leases and tasks of each kind that one call handles.
const MAX_BATCH: u32 = 1_000;

/// Marks silent agents offline, expires leases, requeues failed tasks and fails tasks that waited too long.
pub(crate) fn expire_due(cx: &mut OpContext<'_>) -> Result<()> {
    if cx.tx.due_count(cx.now)? == 0 || seeded_bug("ignore_expiry") {
        return Ok(());
    }
    for mut agent in cx.tx.agent_list_silent(cx.now, MAX_BATCH)? {
        // A person may be silent for longer than that.
        let held = cx.tx.lease_list(Some(&agent.id))?.into_iter().filter(|lease| !lease.is_unlimited());
        for held in held {
            expire(cx, held, &format!("no heartbeat from {} since {}", agent.name, agent.last_heartbeat))?;
        }
        agent.status = AgentStatus::Offline;
        agent.silent_at = None;
        cx.tx.agent_put(&agent)?;
        cx.event(kind::AGENT_OFFLINE, agent.id.as_str(), json!({ "last_heartbeat": agent.last_heartbeat }))?;
    }
    for held in cx.tx.lease_list_due(cx.now, MAX_BATCH)? {
        let why = expiry_reason(cx, &held)?;
        let holder = held.holder.clone();
        expire(cx, held, &why)?;
        if let Some(mut agent) = holder.map(|holder| cx.tx.agent_get(&holder)).transpose()?.flatten()
            && agent.status == AgentStatus::Busy
            && cx.tx.lease_list(Some(&agent.id))?.is_empty()
        {
            agent.status = AgentStatus::Online;
            cx.tx.agent_put(&agent)?;
        }
    }
    for task in cx.tx.task_list_due(cx.now, MAX_BATCH)? {
        match task.status {
            TaskStatus::Failed => {
                attempt::requeue(cx, &task)?;
            }
            TaskStatus::Pending => {
                let timeout = task.queue_timeout_ms.unwrap_or_default();
                match claimable_since(cx, &task)? {
                    Some(since) if since.plus(timeout) <= cx.now => {
                        let error = format!("no agent claimed it within {timeout} ms");
                        attempt::fail(cx, &task, None, attempt::End::Hopeless, &error)?;
                    }
                    since => {
                        let mut after = task.clone();
                        after.due_at = Some(since.unwrap_or(cx.now).plus(timeout));
                        cx.change_task(kind::TASK_CHANGED, &task, &after, json!({}))?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns since when a task is claimable: since its last blocker finished. None if it is not claimable.
fn claimable_since(cx: &mut OpContext<'_>, task: &Task) -> Result<Option<Timestamp>> {
    if find::workflow_of(cx, task)?.status != WorkflowStatus::InProgress {
        return Ok(None);
    }
    let mut since = task.queued_at;
    for dependency in cx.tx.dependency_list_of(&task.id)? {
        if dependency.kind == DependencyKind::Blocks
            && let Some(blocker) = cx.tx.task_get(&dependency.depends_on)?
        {
            if !blocker.status.satisfies() {
                return Ok(None);
            }
            since = since.max(blocker.finished_at.unwrap_or(since));
        }
    }
    // If the store's time was set back, a blocker may have finished later than now.
    Ok(Some(since.min(cx.now)))
}

fn expiry_reason(cx: &mut OpContext<'_>, held: &Lease) -> Result<String> {
    let has_passed = |moment: Option<Timestamp>| moment.is_some_and(|moment| moment <= cx.now);
    let (ran_long, stalled) = (has_passed(held.run_until), has_passed(held.stall_at));
    let holder = lease::holder_name(cx, held)?;
    Ok(if ran_long {
        format!("the attempt of {holder} exceeded its timeout")
    } else if stalled {
        format!("{holder} made no checkpoint within the stall timeout")
    } else {
        format!("the lease of {holder} expired at {}", held.expires_at)
    })
}

/// Expires a lease: the attempt on its task fails, or the ledger gets a notice about its issue.
pub(crate) fn expire(cx: &mut OpContext<'_>, held: Lease, why: &str) -> Result<()> {
    let task = match held.subject.parse() {
        Ok(id) => cx.tx.task_get(&id)?,
        Err(_) => None,
    };
    match task {
        Some(task) if task.status == TaskStatus::InProgress => {
            attempt::fail(cx, &task, Some(held), attempt::End::Expired, why)?;
        }
        Some(_) => lease::end(cx, held)?,
        None => {
            let (subject, holder, epoch) = (held.subject.clone(), held.holder.clone(), held.epoch);
            abandon_issue(cx, held, why)?;
            cx.event(kind::ISSUE_EXPIRED, &subject, json!({ "agent": holder, "epoch": epoch, "reason": why }))?;
        }
    }
    Ok(())
}

/// Ends a lease on an issue, and leaves a notice, so that the ledger makes the issue claimable again.
pub(crate) fn abandon_issue(cx: &mut OpContext<'_>, held: Lease, why: &str) -> Result<()> {
    let (issue, worktree_id) = (held.subject.clone(), held.worktree_id.clone());
    let actor = lease::holder_name(cx, &held)?;
    lease::end(cx, held)?;
    // An agent finished the issue, and the ledger has not been told yet.
    if cx.tx.notice_list()?.iter().any(|notice| notice.issue == issue && notice.news == News::Finished) {
        return Ok(());
    }
    let (reason, created_at) = (why.to_owned(), cx.now);
    let notice = Notice { issue, news: News::Abandoned, reason, actor, task_id: None, worktree_id, created_at };
    cx.tx.notice_put(&notice)
}
