//! Records a checkpoint: the progress of a claimed task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::CheckpointId;
use crate::model::{Checkpoint, CheckpointKind, Lease, kind};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::seeded::seeded_bug;
use crate::work::{agents, find, lease};

/// Maximum size of a checkpoint.
const MAX_CHECKPOINT_BYTES: usize = 256 * 1024;
/// Maximum number of checkpoints of a task.
const MAX_CHECKPOINTS: u32 = 10_000;

/// Records a checkpoint: the progress of a claimed task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddCheckpoint {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// The kind of checkpoint.
    pub kind: CheckpointKind,
    /// The summary, one line.
    pub summary: String,
    /// The details.
    #[serde(default)]
    pub detail: Value,
    /// The changed files.
    #[serde(default)]
    pub files: Vec<String>,
    /// The number of tokens used so far.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The cost so far.
    #[serde(default)]
    pub cost: Option<f64>,
}

/// The answer to [`AddCheckpoint`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpointed {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The lease, renewed.
    pub lease: Lease,
    /// The number of waiting messages.
    pub unread: u64,
}

impl Operation for AddCheckpoint {
    const NAME: &'static str = "add_checkpoint";
    const SUMMARY: &'static str = "Record a checkpoint of a claimed task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = Checkpointed;
}

impl StoreOperation for AddCheckpoint {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Checkpointed> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        let leases = cx.tx.lease_list(Some(&agent.id))?;
        let mut held = lease::require_among(cx, &leases, &task, &agent, self.epoch)?;
        if self.summary.trim().is_empty() {
            return Err(Error::invalid("a checkpoint needs a summary").hint("--summary TEXT"));
        }
        if self.cost.is_some_and(|cost| !cost.is_finite()) {
            return Err(Error::invalid("cost must be a finite number"));
        }
        let size =
            self.summary.len() + self.detail.to_string().len() + self.files.iter().map(String::len).sum::<usize>();
        if size > MAX_CHECKPOINT_BYTES {
            return Err(Error::invalid(format!("a checkpoint of {size} bytes is too long"))
                .hint("put the details into a file, and name the file"));
        }
        let last = cx.tx.checkpoint_last(&task.id)?;
        if last >= MAX_CHECKPOINTS {
            return Err(Error::conflict(format!("task {} has {last} checkpoints, and cannot have more", task.name))
                .hint("way task release gives it to another agent; way agent heartbeat renews the lease"));
        }
        let checkpoint = Checkpoint {
            id: CheckpointId::generate(cx.entropy),
            task_id: task.id.clone(),
            sequence: last + 1,
            kind: self.kind,
            summary: self.summary,
            detail: if self.detail.is_null() { json!({}) } else { self.detail },
            files: self.files,
            tokens: self.tokens,
            cost: self.cost,
            agent_id: agent.id.clone(),
            epoch: held.epoch,
            worktree_id: cx.caller.worktree.id.clone(),
            created_at: cx.now,
        };
        if !seeded_bug("lose_checkpoint") {
            cx.tx.checkpoint_put(&checkpoint)?;
        }
        held.stall_at = task.stall_timeout_ms.map(|timeout| cx.now.plus(timeout));
        lease::renew(cx, &mut held)?;
        lease::renew_own(cx, &leases, false)?;
        agents::record_heartbeat(cx, &mut agent, &leases)?;
        let data = json!({
            "checkpoint": checkpoint.id, "sequence": checkpoint.sequence, "type": checkpoint.kind,
            "summary": checkpoint.summary, "agent": agent.id, "epoch": held.epoch, "expires_at": held.expires_at.unless_never(),
        });
        cx.event(kind::TASK_CHECKPOINTED, task.id.as_str(), data)?;
        Ok(Checkpointed { checkpoint, lease: held, unread: cx.tx.message_count(&agent.id, cx.now)? })
    }
}
