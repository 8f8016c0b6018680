//! Grants, renews, checks and ends leases.

use std::collections::BTreeMap;

use crate::context::OpContext;
use crate::error::{Error, Kind, Result};
use crate::id::{AgentId, TaskId};
use crate::model::{Agent, EventQuery, JobQuery, Lease, Role, Task, kind};
use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// Default duration of an agent's lease on a task after each renewal.
pub(crate) const DEFAULT_TASK_TTL_MS: u64 = 10 * 60 * 1000;
/// Default duration of an agent's lease on an issue after each renewal. Issues have no checkpoints, which renew a lease.
pub(crate) const DEFAULT_ISSUE_TTL_MS: u64 = 30 * 60 * 1000;
/// Minimum duration: a shorter lease would expire between two heartbeats of a busy machine.
const MIN_TTL_MS: u64 = 1_000;
/// Maximum number of claims of an issue that are read to find out whether an agent held it before.
const MAX_CLAIMS_READ: u32 = 1_000;
/// Maximum duration.
const MAX_TTL_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// Default time for which an agent may renew one lease.
const DEFAULT_MAX_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Grants a lease that no agent holds. Its epoch is higher than any before it. Without a duration, a person's lease lasts
/// until it is released, and an agent's for the default, unless the configuration says otherwise.
pub(crate) fn grant(
    cx: &mut OpContext<'_>,
    subject: &str,
    agent: &Agent,
    ttl_ms: Option<u64>,
    default_ms: u64,
) -> Result<Lease> {
    let times = cx.caller.lease_times;
    let ttl_ms = match agent.role {
        Role::Human => ttl_ms.or(times.person_ms),
        Role::Worker | Role::Coordinator => Some(ttl_ms.or(times.agent_ms).unwrap_or(default_ms)),
    };
    ttl_ms.map_or(Ok(()), check_ttl)?;
    let before = cx.tx.lease_get(subject)?.map_or(0, |before| before.epoch);
    let epoch = before.max(cx.tx.epoch_floor()?) + u64::from(!seeded_bug("reuse_epoch"));
    let lease = Lease {
        subject: subject.to_owned(),
        holder: Some(agent.id.clone()),
        epoch,
        granted_at: cx.now,
        expires_at: ttl_ms.map_or(Timestamp::NEVER, |ttl_ms| cx.now.plus(ttl_ms)),
        ttl_ms: ttl_ms.unwrap_or(0),
        run_until: None,
        stall_at: None,
        worktree_id: cx.caller.worktree.id.clone(),
    };
    cx.tx.lease_put(&lease)?;
    Ok(lease)
}

/// Refuses a duration that is too short or too long.
pub(crate) fn check_ttl(ttl_ms: u64) -> Result<()> {
    if (MIN_TTL_MS..=MAX_TTL_MS).contains(&ttl_ms) {
        return Ok(());
    }
    Err(Error::invalid(format!("a lease of {ttl_ms} ms is too short or too long")).hint("between 1 second and 7 days"))
}

/// Changes the duration of a lease and renews it.
pub(crate) fn renew_for(cx: &mut OpContext<'_>, lease: &mut Lease, ttl_ms: Option<u64>) -> Result<()> {
    if let Some(ttl_ms) = ttl_ms {
        check_ttl(ttl_ms)?;
        if lease.is_unlimited() {
            lease.expires_at = cx.now;
        }
        lease.ttl_ms = ttl_ms;
    }
    renew(cx, lease)
}

/// Renews the leases of an agent, except those on tasks that a job works on: the job's supervisor renews these, so that
/// they expire with it. Returns the renewed ones.
///
/// Without `all` it renews leases on issues that have used up a third of their time, and none on tasks: an agent that was
/// restarted under its name and works on other tasks must not keep those of its former process for ever.
pub(crate) fn renew_own(cx: &mut OpContext<'_>, held: &[Lease], all: bool) -> Result<Vec<Lease>> {
    let mut renewed = Vec::new();
    for lease in held {
        let is_due = !lease.is_on_task() && lease.is_renewal_due(cx.now);
        if (all || is_due) && !has_live_job(cx, lease)? {
            let mut lease = lease.clone();
            renew(cx, &mut lease)?;
            renewed.push(lease);
        }
    }
    Ok(renewed)
}

/// Returns whether a job works on the task of a lease.
fn has_live_job(cx: &mut OpContext<'_>, lease: &Lease) -> Result<bool> {
    let Ok(task_id) = lease.subject.parse::<TaskId>() else { return Ok(false) };
    let query = JobQuery { task_id: Some(task_id), is_live: true, limit: 1, ..JobQuery::default() };
    Ok(!cx.tx.job_list(&query)?.is_empty())
}

/// Renews a lease for its whole duration from now on. An agent's lease ends at the latest when its maximum time since it
/// was granted is over, or when the task times out: heartbeats alone must not keep others from the work for ever.
pub(crate) fn renew(cx: &mut OpContext<'_>, lease: &mut Lease) -> Result<()> {
    if !lease.is_unlimited() {
        let mut end = cx.now.plus(lease.ttl_ms);
        if let Some(last) = last_end(cx, lease).filter(|last| *last < end)
            && is_held_by_agent(cx, lease)?
            && !seeded_bug("renew_for_ever")
        {
            end = last;
        }
        lease.expires_at = lease.expires_at.max(end);
    }
    cx.tx.lease_renew(lease)
}

/// Returns when an agent's lease ends, however often it is renewed. The timeout of a task limits its lease by itself.
fn last_end(cx: &OpContext<'_>, lease: &Lease) -> Option<Timestamp> {
    let max_ms = cx.caller.lease_times.max_ms.unwrap_or(DEFAULT_MAX_MS);
    (lease.run_until.is_none() && max_ms > 0).then(|| lease.granted_at.plus(max_ms))
}

fn is_held_by_agent(cx: &mut OpContext<'_>, lease: &Lease) -> Result<bool> {
    let Some(holder) = &lease.holder else { return Ok(false) };
    Ok(cx.tx.agent_get(holder)?.is_some_and(|agent| agent.role != Role::Human))
}

/// Ends a lease. The row stays, because the next grant increments its epoch.
pub(crate) fn end(cx: &mut OpContext<'_>, mut lease: Lease) -> Result<()> {
    lease.holder = None;
    (lease.run_until, lease.stall_at) = (None, None);
    cx.tx.lease_put(&lease)
}

/// Returns the caller's lease on a task, or an error that names the holder. Every write of a holder passes here.
pub(crate) fn require(cx: &mut OpContext<'_>, task: &Task, agent: &Agent, epoch: Option<u64>) -> Result<Lease> {
    require_among(cx, &[], task, agent, epoch)
}

/// As [`require`], for a caller who has read the leases of the agent.
pub(crate) fn require_among(
    cx: &mut OpContext<'_>,
    held: &[Lease],
    task: &Task,
    agent: &Agent,
    epoch: Option<u64>,
) -> Result<Lease> {
    let lost = |why: String| Error::new(Kind::LeaseLost, why).hint("stop working on it: another agent may hold it");
    let known = held.iter().find(|lease| lease.subject == task.id.as_str()).cloned();
    let Some(lease) = known.map_or_else(|| cx.tx.lease_get(task.id.as_str()), |lease| Ok(Some(lease)))? else {
        return Err(not_held(task, agent, ""));
    };
    // No grant has a higher epoch than the lease: one that is higher was made up.
    let is_unknown = epoch.is_some_and(|epoch| epoch > lease.epoch) && !seeded_bug("skip_fence");
    if lease.holder.as_ref() != Some(&agent.id) {
        let now = match &lease.holder {
            Some(holder) => format!("{} does", name(cx, holder)?),
            None => format!("no agent does: it is {}", task.status),
        };
        if is_unknown || !was_claimed_by(cx, kind::TASK_CLAIMED, task.id.as_str(), agent)? {
            return Err(not_held(task, agent, &format!(", {now}")));
        }
        return Err(lost(format!("{} does not hold task {}, {now}", agent.name, task.name)));
    }
    if lease.deadline() <= cx.now {
        return Err(lost(format!("the lease of {} on task {} expired at {}", agent.name, task.name, lease.deadline())));
    }
    match epoch {
        Some(epoch) if is_unknown => {
            let (name, yours) = (&task.name, lease.epoch);
            Err(Error::new(Kind::LeaseLost, format!("no lease on task {name} has epoch {epoch}; yours has {yours}"))
                .hint("the epoch is in the answer to the claim"))
        }
        Some(epoch) if epoch != lease.epoch && !seeded_bug("skip_fence") => Err(lost(format!(
            "the lease on task {} has epoch {}, not {epoch}: it was lost and claimed again since",
            task.name, lease.epoch
        ))),
        _ => Ok(lease),
    }
}

/// The error for a caller who never held the task: work on it has not begun, so there is nothing to stop.
fn not_held(task: &Task, agent: &Agent, now: &str) -> Error {
    Error::new(Kind::LeaseLost, format!("{} holds no lease on task {}{now}", agent.name, task.name))
        .hint(format!("claim it first: way task claim {}", task.id))
}

/// Returns whether an agent claimed a task or an issue, as far as the newest claims say.
fn was_claimed_by(cx: &mut OpContext<'_>, kind: &str, subject: &str, agent: &Agent) -> Result<bool> {
    let (kind, subject) = (Some(kind.to_owned()), Some(subject.to_owned()));
    let query = EventQuery { since: None, worktree_id: None, kind, subject, limit: MAX_CLAIMS_READ, after: None };
    Ok(cx.tx.event_list(&query)?.iter().any(|event| event.data["agent"] == agent.id.as_str()))
}

/// Returns the lease of another agent on an issue, if one holds it.
pub(crate) fn of_another(cx: &mut OpContext<'_>, issue: &str, agent: &Agent) -> Result<Option<Lease>> {
    let now = cx.now;
    let is_anothers = |lease: &Lease| lease.holder.as_ref().is_some_and(|holder| *holder != agent.id);
    Ok(cx.tx.lease_get(issue)?.filter(|lease| is_anothers(lease) && lease.deadline() > now))
}

/// Returns the lease of another agent on a task that stands for an issue, if one holds such a task.
pub(crate) fn of_another_on_task(cx: &mut OpContext<'_>, issue: &str, agent: &Agent) -> Result<Option<Lease>> {
    let now = cx.now;
    let is_anothers = |lease: &Lease| lease.holder.as_ref() != Some(&agent.id) && lease.deadline() > now;
    let leases = cx.tx.lease_list(None)?.into_iter().filter(is_anothers);
    let on_tasks: Vec<(TaskId, Lease)> =
        leases.filter_map(|lease| Some((lease.subject.parse::<TaskId>().ok()?, lease))).collect();
    cx.tx.prefetch(&mut |tx| on_tasks.iter().try_for_each(|(id, _)| tx.task_get(id).map(drop)))?;
    for (id, lease) in on_tasks {
        if cx.tx.task_get(&id)?.is_some_and(|task| task.issue.as_deref() == Some(issue)) {
            return Ok(Some(lease));
        }
    }
    Ok(None)
}

/// Refuses an agent while another agent holds the issue.
pub(crate) fn require_issue(cx: &mut OpContext<'_>, issue: &str, agent: &Agent) -> Result<()> {
    let Some(lease) = of_another(cx, issue, agent)? else { return Ok(()) };
    let (holder, until) = (holder_name(cx, &lease)?, lease.end());
    let error = if was_claimed_by(cx, kind::ISSUE_CLAIMED, issue, agent)? {
        let message = format!("{} does not hold issue {issue} any more: {holder} does, until {until}", agent.name);
        Error::new(Kind::LeaseLost, message)
    } else {
        Error::conflict(format!("issue {issue} is held by {holder} until {until}"))
    };
    Err(error.hint(format!("a person can take it away: way release {issue} --force")))
}

/// Returns the name of an agent.
pub(crate) fn name(cx: &mut OpContext<'_>, id: &AgentId) -> Result<String> {
    Ok(cx.tx.agent_get(id)?.map_or_else(|| id.to_string(), |agent| agent.name))
}

/// Returns the tasks of leases.
pub(crate) fn tasks_of(cx: &mut OpContext<'_>, leases: &[Lease]) -> Result<BTreeMap<TaskId, Task>> {
    let ids: Vec<TaskId> = leases.iter().filter_map(|lease| lease.subject.parse().ok()).collect();
    Ok(cx.tx.task_list_by_id(&ids)?.into_iter().map(|task| (task.id.clone(), task)).collect())
}

/// The names of all agents.
pub(crate) struct Names(BTreeMap<AgentId, String>);

impl Names {
    pub(crate) fn of(agents: &[Agent]) -> Names {
        Names(agents.iter().map(|agent| (agent.id.clone(), agent.name.clone())).collect())
    }

    /// Returns the name of an agent.
    pub(crate) fn get(&self, id: &AgentId) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| id.to_string())
    }
}

/// Returns the name of a lease's holder.
pub(crate) fn holder_name(cx: &mut OpContext<'_>, lease: &Lease) -> Result<String> {
    lease.holder.as_ref().map_or_else(|| Ok("no agent".to_owned()), |holder| name(cx, holder))
}
