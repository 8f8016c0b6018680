//! One run of a command in a workspace.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::ProcessIdentity;
use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{AgentId, JobId, RepositoryId, TaskId, WorkspaceId, WorktreeId};
use crate::path_text;
use crate::time::Timestamp;

text_enum! {
    /// How far a job got.
    JobStatus: "a status of jobs" {
        /// Its command was not started yet.
        Pending = "pending",
        /// Its command runs.
        Running = "running",
        /// It ended well.
        Completed = "completed",
        /// It did not.
        Failed = "failed",
        /// Somebody called it off.
        Cancelled = "cancelled",
        /// Whoever watched over it was ended.
        Interrupted = "interrupted",
    }
}

impl JobStatus {
    /// Returns where it can go from here.
    pub fn next(self) -> &'static [JobStatus] {
        use JobStatus::{Cancelled, Completed, Failed, Interrupted, Pending, Running};
        match self {
            Pending => &[Running, Failed, Cancelled, Interrupted],
            Running => &[Completed, Failed, Cancelled, Interrupted],
            Completed | Failed | Cancelled | Interrupted => &[],
        }
    }

    /// Tells whether it has ended.
    pub fn is_final(self) -> bool {
        self.next().is_empty()
    }
}

/// A part of a job's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// What it is called.
    pub name: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// When it began.
    pub at: Timestamp,
}

/// One run of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What kind of work it is, for example `builder` or `reviewer`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is for.
    pub description: String,
    /// What it was given: anything its command understands.
    pub input: Value,
    /// How far it got.
    pub status: JobStatus,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How it is run: limits, strategy, what happens to its workspace.
    pub settings: Value,
    /// The repository it works on.
    pub repository_id: RepositoryId,
    /// The task it works on.
    pub task_id: Option<TaskId>,
    /// The epoch of the lease on its task.
    pub epoch: Option<u64>,
    /// The agent in whose name it works.
    pub agent_id: Option<AgentId>,
    /// The workspace it works in.
    pub workspace_id: Option<WorkspaceId>,
    /// The directory it was asked for from.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub work_dir: PathBuf,
    /// The directory it works in.
    #[serde(with = "path_text::optional")]
    #[schemars(with = "Option<String>")]
    pub workspace_dir: Option<PathBuf>,
    /// The directory of what it is told and tells.
    #[serde(with = "path_text::optional")]
    #[schemars(with = "Option<String>")]
    pub context_dir: Option<PathBuf>,
    /// What its command printed.
    #[serde(with = "path_text::optional")]
    #[schemars(with = "Option<String>")]
    pub log: Option<PathBuf>,
    /// The machine it runs on, or is to run on.
    pub machine: Option<String>,
    /// Who watches over it.
    pub supervisor: Option<ProcessIdentity>,
    /// The process of its command, which leads a group of its own.
    pub process: Option<ProcessIdentity>,
    /// What its token hashes to. The token is nowhere but in the environment of its command.
    #[serde(skip)]
    pub token_hash: Option<String>,
    /// What it went through.
    pub phases: Vec<Phase>,
    /// What came out, in its own words.
    pub output: Option<String>,
    /// What its command ended with; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// Why it did not end well.
    pub error: Option<String>,
    /// What somebody should know.
    pub warnings: Vec<String>,
    /// Tokens used so far.
    pub tokens: Option<u64>,
    /// Money spent so far, in whatever the agents count in.
    pub cost: Option<f64>,
    /// The job that this one is another try of.
    pub retry_of: Option<JobId>,
    /// When somebody called it off.
    pub cancelled_at: Option<Timestamp>,
    /// The worktree it was asked for from.
    pub worktree_id: WorktreeId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When something last happened to it.
    pub updated_at: Timestamp,
    /// When its command was started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// Moves it to a status, if that is allowed.
    pub fn move_to(&mut self, status: JobStatus, now: Timestamp) -> Result<()> {
        if !self.status.next().contains(&status) {
            return Err(Error::conflict(format!("job {} is {} and cannot become {status}", self.id, self.status)));
        }
        self.status = status;
        self.updated_at = now;
        if status == JobStatus::Running {
            self.started_at = Some(now);
        }
        self.finished_at = status.is_final().then_some(now);
        Ok(())
    }
}

/// Which jobs to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobQuery {
    /// Only those of this task.
    pub task_id: Option<TaskId>,
    /// Only those in this status.
    pub status: Option<JobStatus>,
    /// Only those that have not ended.
    pub is_live: bool,
    /// At most this many, the newest first.
    pub limit: u32,
}
