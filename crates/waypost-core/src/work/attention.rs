//! Groups everything in a store by who has to act next, with the reason and since when it is so.
//!
//! [`group`] is pure: commands, the dashboard and programs all show its answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{TaskId, WorkflowId, WorktreeId};
use crate::model::text_enum::text_enum;
use crate::model::{Lease, Task, TaskStatus, Workflow, WorkflowStatus, Workspace, WorkspaceStatus};
use crate::op::MessageView;
use crate::time::Timestamp;

/// How long finished tasks stay in the group [`GroupKind::Done`].
pub(crate) const RECENT_MS: u64 = 24 * 60 * 60 * 1000;
/// The beginning of the note on a workspace that could not be removed.
pub const REMOVAL_FAILED: &str = "it could not be removed";
/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

text_enum! {
    /// Who has to act next.
    GroupKind: "a group of the status" {
        /// A person.
        NeedsYou = "needs_you",
        /// Work does not go on, and no one was asked yet.
        Stuck = "stuck",
        /// An agent works.
        Working = "working",
        /// It waits for its turn.
        Queued = "queued",
        /// It was finished within the last day.
        Done = "done",
    }
}

text_enum! {
    /// The kind of record that a row is about.
    SubjectKind: "a kind of record" {
        /// A task.
        Task = "task",
        /// A workflow.
        Workflow = "workflow",
        /// A workspace.
        Workspace = "workspace",
        /// A message.
        Message = "message",
    }
}

/// A group of rows, those that have waited longest first; of [`GroupKind::Done`], the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Who has to act next.
    pub group: GroupKind,
    /// The number of its rows, including those beyond the limit.
    pub total: u64,
    /// Whether there are more than `total`: of very many tasks, not all are read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more: bool,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A record, and why it is in its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The kind of record.
    pub kind: SubjectKind,
    /// Its id.
    pub id: String,
    /// Its name; that of a task follows the name of its workflow.
    pub name: String,
    /// The reason in a word or two.
    pub chip: String,
    /// The reason as a sentence.
    pub reason: String,
    /// Since when it is so.
    pub since: Timestamp,
    /// The workflow of a task.
    pub workflow_id: Option<WorkflowId>,
    /// The agent that works on it.
    pub agent: Option<String>,
    /// The worktree it belongs to.
    pub worktree_id: WorktreeId,
}

/// The facts that [`group`] decides by.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The store's time.
    pub now: Timestamp,
    /// Tasks of any status.
    pub tasks: &'a [Task],
    /// The statuses that more tasks have than are among these.
    pub partly_read: &'a [TaskStatus],
    /// The workflows of these tasks, and other live ones.
    pub workflows: &'a BTreeMap<WorkflowId, Workflow>,
    /// The held leases of tasks, with the names of their holders.
    pub leases: &'a BTreeMap<TaskId, (Lease, String)>,
    /// Pending tasks that wait, directly or not, for a dead task: its name, and when it died.
    pub blocked: &'a BTreeMap<TaskId, (String, Timestamp)>,
    /// Live workspaces.
    pub workspaces: &'a [Workspace],
    /// Messages waiting for the caller.
    pub messages: &'a [MessageView],
}

/// Sorts everything into groups, in the order of [`GroupKind`]. Each group is there, even if it is empty.
pub fn group(facts: &Facts<'_>, limit: usize) -> Vec<Group> {
    let mut rows: BTreeMap<GroupKind, Vec<Row>> = GroupKind::ALL.iter().map(|kind| (*kind, Vec::new())).collect();
    let mut partly_read: Vec<GroupKind> = Vec::new();
    let mut add = |(kind, row): (GroupKind, Row)| rows.entry(kind).or_default().push(row);
    for task in facts.tasks {
        let Some((kind, row)) = facts.task(task) else { continue };
        if facts.partly_read.contains(&task.status) {
            partly_read.push(kind);
        }
        add((kind, row));
    }
    facts.workflows.values().filter_map(workflow_row).for_each(&mut add);
    facts.workspaces.iter().filter_map(workspace_row).for_each(&mut add);
    facts.messages.iter().map(message_row).for_each(&mut add);
    let finish = |(kind, mut rows): (GroupKind, Vec<Row>)| {
        // Ids are random: rows of the same time are in the order of their names.
        rows.sort_by(|one, other| (one.since, &one.name, &one.id).cmp(&(other.since, &other.name, &other.id)));
        if kind == GroupKind::Done {
            rows.reverse();
        }
        let total = rows.len() as u64;
        rows.truncate(limit);
        Group { group: kind, total, has_more: partly_read.contains(&kind), rows }
    };
    rows.into_iter().map(finish).collect()
}

impl Facts<'_> {
    fn task(&self, task: &Task) -> Option<(GroupKind, Row)> {
        let workflow = self.workflows.get(&task.workflow_id)?;
        let held = self.leases.get(&task.id);
        let agent = held.map(|(_, holder)| holder.clone());
        let (kind, chip, reason, since) = self.reason(task, workflow, held)?;
        let name = format!("{}/{}", workflow.name, task.name);
        let row = Row {
            kind: SubjectKind::Task,
            id: task.id.to_string(),
            name,
            chip: chip.to_owned(),
            reason: shorten(&reason),
            since,
            workflow_id: Some(task.workflow_id.clone()),
            agent,
            worktree_id: task.worktree_id.clone(),
        };
        Some((kind, row))
    }

    /// Returns the group of a task, its chip, its reason, and since when it is so. None if it need not be shown.
    fn reason(
        &self,
        task: &Task,
        workflow: &Workflow,
        held: Option<&(Lease, String)>,
    ) -> Option<(GroupKind, &'static str, String, Timestamp)> {
        use GroupKind::{Done, NeedsYou, Queued, Stuck};
        let error = || task.error.clone().unwrap_or_else(|| "the last attempt failed".to_owned());
        Some(match task.status {
            TaskStatus::WaitingInput => {
                let question = task.question.clone().unwrap_or_default();
                let chip = if is_conflict(&question) { "conflict" } else { "asks" };
                (NeedsYou, chip, question, task.updated_at)
            }
            TaskStatus::Dead => (NeedsYou, "dead", error(), task.finished_at.unwrap_or(task.updated_at)),
            TaskStatus::InProgress => match held {
                Some((lease, holder)) => self.held(task, lease, holder),
                None => (Stuck, "no holder", "no agent holds its lease".to_owned(), task.updated_at),
            },
            TaskStatus::Failed => (Queued, "retry", error(), task.updated_at),
            TaskStatus::Paused => {
                (Queued, "paused", "paused until an agent claims it by name".to_owned(), task.updated_at)
            }
            TaskStatus::Pending => match self.blocked.get(&task.id) {
                Some((dead, since)) => (Stuck, "blocked", format!("it waits for {dead}, which is dead"), *since),
                None if workflow.status != WorkflowStatus::InProgress => return None,
                None if task.attempts > 0 && task.error.is_some() => (Queued, "again", error(), task.queued_at),
                None => (Queued, "ready", format!("priority {}", task.priority), task.queued_at),
            },
            TaskStatus::Completed => {
                let since = task.finished_at.filter(|moment| self.now.since(*moment) <= RECENT_MS)?;
                (Done, "done", task.outcome.clone().unwrap_or_default(), since)
            }
            TaskStatus::Skipped | TaskStatus::Cancelled => return None,
        })
    }

    fn held(&self, task: &Task, lease: &Lease, holder: &str) -> (GroupKind, &'static str, String, Timestamp) {
        let since = task.started_at.unwrap_or(lease.granted_at);
        if lease.expires_at <= self.now {
            let reason = format!("the lease of {holder} expired at {}", lease.expires_at);
            return (GroupKind::NeedsYou, "expired", reason, lease.expires_at);
        }
        // A lease is renewed three times before it ends: the holder has missed two of them.
        if is_silent(lease, self.now) {
            let reason = format!("no heartbeat from {holder}; the lease expires at {}", lease.expires_at);
            return (GroupKind::Stuck, "silent", reason, lease.expires_at.minus(lease.ttl_ms / 3));
        }
        let half_of_stall = task.stall_timeout_ms.unwrap_or_default() / 2;
        if let Some(stall_at) = lease.stall_at.filter(|moment| moment.since(self.now) < half_of_stall) {
            let reason = format!("no checkpoint from {holder}; the attempt fails at {stall_at}");
            return (GroupKind::Stuck, "no progress", reason, stall_at.minus(half_of_stall));
        }
        (GroupKind::Working, "working", format!("{holder} works on it"), since)
    }
}

/// Returns whether the holder of a lease has missed two of the three heartbeats that fit into it.
pub(crate) fn is_silent(lease: &Lease, now: Timestamp) -> bool {
    lease.holder.is_some() && lease.expires_at.since(now) < lease.ttl_ms / 3
}

/// Returns whether a question is about work that conflicts, which a supervisor asks with these words.
fn is_conflict(question: &str) -> bool {
    question.starts_with("The work of task ") && question.contains(" conflicts with that of ")
}

fn workflow_row(workflow: &Workflow) -> Option<(GroupKind, Row)> {
    let (kind, chip, reason) = match workflow.status {
        WorkflowStatus::AwaitingMerge => {
            (GroupKind::NeedsYou, "approve", "all tasks are done and delivered, but not merged")
        }
        WorkflowStatus::Paused => (GroupKind::Queued, "paused", "its tasks cannot be claimed until it is resumed"),
        WorkflowStatus::Ready => (GroupKind::Queued, "not started", "it has tasks and is not started"),
        _ => return None,
    };
    let row = Row {
        kind: SubjectKind::Workflow,
        id: workflow.id.to_string(),
        name: workflow.name.clone(),
        chip: chip.to_owned(),
        reason: reason.to_owned(),
        since: workflow.updated_at,
        workflow_id: Some(workflow.id.clone()),
        agent: None,
        worktree_id: workflow.worktree_id.clone(),
    };
    Some((kind, row))
}

/// Returns the row of a workspace whose removal was refused, or whose directory is missing.
fn workspace_row(workspace: &Workspace) -> Option<(GroupKind, Row)> {
    let note = workspace.note.as_deref().filter(|note| note.starts_with(REMOVAL_FAILED));
    let (chip, reason) = match (workspace.status, note) {
        (WorkspaceStatus::Lost, _) => ("lost", "its directory is missing"),
        (_, Some(note)) => ("not removed", note),
        _ => return None,
    };
    let row = Row {
        kind: SubjectKind::Workspace,
        id: workspace.id.to_string(),
        name: workspace.branch.clone().unwrap_or_else(|| workspace.id.to_string()),
        chip: chip.to_owned(),
        reason: shorten(reason),
        since: workspace.updated_at,
        workflow_id: None,
        agent: None,
        worktree_id: workspace.worktree_id.clone(),
    };
    Some((GroupKind::NeedsYou, row))
}

fn message_row(view: &MessageView) -> (GroupKind, Row) {
    let message = &view.message;
    let row = Row {
        kind: SubjectKind::Message,
        id: message.id.to_string(),
        name: format!("from {}", view.from),
        chip: "message".to_owned(),
        reason: shorten(&message.subject),
        since: message.created_at,
        workflow_id: message.workflow_id.clone(),
        agent: Some(view.from.clone()),
        worktree_id: message.worktree_id.clone(),
    };
    (GroupKind::NeedsYou, row)
}

/// Returns the first line of a text, of limited length.
fn shorten(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(MAX_REASON_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}
