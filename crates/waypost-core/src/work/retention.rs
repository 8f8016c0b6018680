//! Retention: removes old records, and keeps summaries of them.
//!
//! A record may be removed if it ended before a moment and nothing live refers to it. The store's lists of removable records
//! define this in detail. The history of every record that stays remains complete.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::{JobId, MessageId, WorkflowId, WorkspaceId};
use crate::model::{Job, Summary, SummaryKind, TaskStatus, Workflow, kind};
use crate::time::Timestamp;

/// Maximum number of workflows that one transaction removes, so that other writers do not wait for long.
const MAX_WORKFLOWS: u32 = 50;
/// Maximum number of jobs, workspaces and threads of messages that one transaction removes.
const MAX_RECORDS: u32 = 500;
/// Maximum number of events that one transaction removes.
const MAX_EVENTS: u32 = 10_000;

/// The number of removed or removable records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Garbage {
    /// Finished workflows.
    pub workflows: u64,
    /// Their tasks.
    pub tasks: u64,
    /// Ended jobs whose workspaces are removed.
    pub jobs: u64,
    /// Records of removed workspaces.
    pub workspaces: u64,
    /// Acknowledged and expired messages.
    pub messages: u64,
    /// Events about nothing that is kept.
    pub events: u64,
}

impl Garbage {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Garbage::default()
    }

    /// Adds another count.
    pub fn add(&mut self, other: Garbage) {
        self.workflows += other.workflows;
        self.tasks += other.tasks;
        self.jobs += other.jobs;
        self.workspaces += other.workspaces;
        self.messages += other.messages;
        self.events += other.events;
    }
}

/// Removable records, except events.
struct Records {
    messages: Vec<(MessageId, Timestamp)>,
    workflows: Vec<Workflow>,
    /// The number of their tasks, by status.
    tasks: Vec<(WorkflowId, TaskStatus, u64)>,
    /// The jobs of the workflows, and jobs of no task.
    jobs: Vec<Job>,
    workspaces: Vec<WorkspaceId>,
    /// Whether there may be more.
    has_more: bool,
}

impl Records {
    fn find(cx: &mut OpContext<'_>, before: Timestamp, limits: Limits) -> Result<Records> {
        let messages = cx.tx.message_list_handled(before, limits.records)?;
        let workflows = cx.tx.workflow_list_removable(before, limits.workflows)?;
        let ids: Vec<WorkflowId> = workflows.iter().map(|workflow| workflow.id.clone()).collect();
        let tasks = cx.tx.task_count_in_workflows(&ids)?;
        let mut jobs = cx.tx.job_list_removable(before, limits.records)?;
        let mut workspaces = cx.tx.workspace_list_removable(before, limits.records)?;
        let is_full = |length: usize, limit: u32| u32::try_from(length).is_ok_and(|length| length >= limit);
        // A thread has at least one message, so a full list of messages has at least as many.
        let has_more = is_full(messages.len(), limits.records)
            || is_full(workflows.len(), limits.workflows)
            || is_full(jobs.len(), limits.records)
            || is_full(workspaces.len(), limits.records);
        jobs.extend(cx.tx.job_list_in_workflows(&ids)?);
        let job_ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
        workspaces.extend(cx.tx.workspace_list_by_job(&job_ids)?);
        Ok(Records { messages, workflows, tasks, jobs, workspaces, has_more })
    }

    fn count(&self) -> Garbage {
        Garbage {
            workflows: self.workflows.len() as u64,
            tasks: self.tasks.iter().map(|(_, _, count)| count).sum(),
            jobs: self.jobs.len() as u64,
            workspaces: self.workspaces.len() as u64,
            messages: self.messages.len() as u64,
            events: 0,
        }
    }

    /// Returns all ids.
    fn ids(&self) -> Vec<String> {
        let messages = self.messages.iter().map(|(id, _)| id.to_string());
        let workflows = self.workflows.iter().map(|workflow| workflow.id.to_string());
        let jobs = self.jobs.iter().map(|job| job.id.to_string());
        messages.chain(workflows).chain(jobs).chain(self.workspaces.iter().map(WorkspaceId::to_string)).collect()
    }

    fn remove(&self, cx: &mut OpContext<'_>) -> Result<()> {
        let mut months = Months::new(SummaryKind::Messages);
        for (_, time) in &self.messages {
            months.add(*time, "messages");
        }
        months.store(cx)?;
        for workflow in &self.workflows {
            let tasks = self.tasks.iter().filter(|(id, ..)| *id == workflow.id);
            let tasks: Map<String, Value> =
                tasks.map(|(_, status, count)| (status.as_str().to_owned(), json!(count))).collect();
            cx.tx.summary_put(&of_workflow(workflow, &tasks, cx.now))?;
        }
        for job in &self.jobs {
            cx.tx.summary_put(&of_job(job, cx.now))?;
        }
        cx.tx.message_remove(&self.messages.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>())?;
        cx.tx.job_remove(&self.jobs.iter().map(|job| job.id.clone()).collect::<Vec<_>>())?;
        cx.tx.workspace_remove(&self.workspaces)?;
        cx.tx.workflow_remove(&self.workflows.iter().map(|workflow| workflow.id.clone()).collect::<Vec<_>>())
    }
}

/// How many records to find.
#[derive(Clone, Copy)]
struct Limits {
    workflows: u32,
    records: u32,
}

/// Counts all records that [`collect`] would remove in the end.
pub(crate) fn count(cx: &mut OpContext<'_>, before: Timestamp) -> Result<Garbage> {
    let records = Records::find(cx, before, Limits { workflows: u32::MAX, records: u32::MAX })?;
    let events = cx.tx.event_count_removable(before, &records.ids())?;
    Ok(Garbage { events, ..records.count() })
}

/// Removes a part of the old records. Returns how many, and whether there may be more. Events come last, because removed
/// records leave theirs behind.
pub(crate) fn collect(cx: &mut OpContext<'_>, before: Timestamp) -> Result<(Garbage, bool)> {
    let records = Records::find(cx, before, Limits { workflows: MAX_WORKFLOWS, records: MAX_RECORDS })?;
    let mut removed = records.count();
    if !removed.is_empty() {
        records.remove(cx)?;
    }
    let events = if records.has_more { Vec::new() } else { cx.tx.event_list_removable(before, MAX_EVENTS)? };
    removed.events = events.len() as u64;
    if removed.is_empty() {
        return Ok((removed, false));
    }
    let mut months = Months::new(SummaryKind::Events);
    for (_, time, kind) in &events {
        months.add(*time, kind);
    }
    months.store(cx)?;
    // The newest event always stays: with it the history goes on.
    cx.event(kind::STORE_COLLECTED, "store", json!({ "before": before.to_string(), "removed": removed }))?;
    let sequences: Vec<u64> = events.iter().map(|(sequence, ..)| *sequence).collect();
    cx.tx.event_remove(before, &sequences)?;
    let has_more = records.has_more || events.len() >= MAX_EVENTS as usize;
    Ok((removed, has_more))
}

fn of_workflow(workflow: &Workflow, tasks: &Map<String, Value>, now: Timestamp) -> Summary {
    let detail = json!({
        "summary": workflow.summary,
        "reason": workflow.reason,
        "source": workflow.source,
        "source_ref": workflow.source_ref,
        "awaits_merge": workflow.awaits_merge(),
        "tasks": tasks,
    });
    Summary {
        subject: workflow.id.to_string(),
        kind: SummaryKind::Workflow,
        name: workflow.name.clone(),
        status: Some(workflow.status.to_string()),
        detail,
        worktree_id: workflow.worktree_id.clone(),
        created_at: workflow.created_at,
        finished_at: workflow.finished_at.unwrap_or(workflow.updated_at),
        removed_at: now,
    }
}

fn of_job(job: &Job, now: Timestamp) -> Summary {
    let detail = json!({
        "description": job.description,
        "task": job.task_id,
        "exit_code": job.exit_code,
        "error": job.error,
        "result": job.result,
        "tokens": job.tokens,
        "cost": job.cost,
    });
    Summary {
        subject: job.id.to_string(),
        kind: SummaryKind::Job,
        name: job.kind.clone(),
        status: Some(job.status.to_string()),
        detail,
        worktree_id: job.worktree_id.clone(),
        created_at: job.created_at,
        finished_at: job.finished_at.unwrap_or(job.updated_at),
        removed_at: now,
    }
}

/// Counts of removed messages or events, by month.
struct Months {
    kind: SummaryKind,
    months: BTreeMap<String, Month>,
}

struct Month {
    first: Timestamp,
    last: Timestamp,
    counts: BTreeMap<String, u64>,
}

impl Months {
    fn new(kind: SummaryKind) -> Months {
        Months { kind, months: BTreeMap::new() }
    }

    /// Counts one record.
    fn add(&mut self, time: Timestamp, what: &str) {
        // A time is shown as 2026-01-31T…
        let name: String = time.to_string().chars().take(7).collect();
        let month = self.months.entry(name).or_insert(Month { first: time, last: time, counts: BTreeMap::new() });
        (month.first, month.last) = (month.first.min(time), month.last.max(time));
        *month.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Adds the counts to the summaries of the months.
    fn store(self, cx: &mut OpContext<'_>) -> Result<()> {
        for (name, mut month) in self.months {
            let subject = format!("{} {name}", self.kind);
            let known = cx.tx.summary_get(&subject)?;
            for (what, count) in known.iter().filter_map(|known| known.detail.as_object()).flatten() {
                *month.counts.entry(what.clone()).or_default() += count.as_u64().unwrap_or_default();
            }
            let own = cx.caller.worktree.id.clone();
            cx.tx.summary_put(&Summary {
                subject,
                kind: self.kind,
                name,
                status: None,
                detail: json!(month.counts),
                created_at: known.as_ref().map_or(month.first, |known| known.created_at.min(month.first)),
                finished_at: known.as_ref().map_or(month.last, |known| known.finished_at.max(month.last)),
                worktree_id: known.map_or(own, |known| known.worktree_id),
                removed_at: cx.now,
            })?;
        }
        Ok(())
    }
}
