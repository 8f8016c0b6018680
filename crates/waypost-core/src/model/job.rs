//! Jobs: runs of a command in a workspace.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::ProcessIdentity;
use super::text_enum::text_enum;
use crate::error::{Error, Result};
use crate::id::{AgentId, JobId, RepositoryId, TaskId, WorkspaceId, WorktreeId};
use crate::page::Cursor;
use crate::path_text;
use crate::time::Timestamp;

text_enum! {
    /// The status of a job.
    JobStatus: "a status of jobs" {
        /// Its command has not started.
        Pending = "pending",
        /// Its command runs.
        Running = "running",
        /// It succeeded.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// Its supervisor was ended.
        Interrupted = "interrupted",
    }
}

impl JobStatus {
    /// Returns the statuses it can change to.
    pub fn next(self) -> &'static [JobStatus] {
        use JobStatus::{Cancelled, Completed, Failed, Interrupted, Pending, Running};
        match self {
            Pending => &[Running, Failed, Cancelled, Interrupted],
            Running => &[Completed, Failed, Cancelled, Interrupted],
            Completed | Failed | Cancelled | Interrupted => &[],
        }
    }

    /// Returns whether it has ended.
    pub fn is_final(self) -> bool {
        self.next().is_empty()
    }
}

text_enum! {
    /// How the files that a job can use are restricted.
    SandboxMode: "a kind of sandbox" {
        /// Not at all.
        Off = "off",
        /// With bubblewrap and Landlock, or with the one of them that works on the machine.
        On = "on",
        /// With Landlock.
        Landlock = "landlock",
        /// With bubblewrap, and also with Landlock if the kernel has it.
        Bubblewrap = "bubblewrap",
    }
}

/// A phase of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Details.
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
    /// Its type of work, for example `builder` or `reviewer`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its purpose.
    pub description: String,
    /// Its input: any value its command understands.
    pub input: Value,
    /// Its status.
    pub status: JobStatus,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Settings of the run: limits, strategy, cleanup of its workspace.
    pub settings: Value,
    /// The repository it works on.
    pub repository_id: RepositoryId,
    /// The task it works on.
    pub task_id: Option<TaskId>,
    /// The epoch of the lease on its task.
    pub epoch: Option<u64>,
    /// The agent that it acts as.
    pub agent_id: Option<AgentId>,
    /// The workspace it works in.
    pub workspace_id: Option<WorkspaceId>,
    /// What its workspace started from, in words.
    #[serde(default)]
    pub started_from: Option<String>,
    /// The commit that it left for the tasks that depend on its task.
    #[serde(default)]
    pub result: Option<String>,
    /// The directory it was requested from.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub work_dir: PathBuf,
    /// The directory it works in.
    #[serde(with = "path_text::optional")]
    #[schemars(with = "Option<String>")]
    pub workspace_dir: Option<PathBuf>,
    /// The directory of its context and reports.
    #[serde(with = "path_text::optional")]
    #[schemars(with = "Option<String>")]
    pub context_dir: Option<PathBuf>,
    /// The log of its command's output.
    #[serde(with = "path_text::optional")]
    #[schemars(with = "Option<String>")]
    pub log: Option<PathBuf>,
    /// The machine it runs on, or must run on.
    pub machine: Option<String>,
    /// The process that supervises it.
    pub supervisor: Option<ProcessIdentity>,
    /// The process of its command, the leader of its own process group.
    pub process: Option<ProcessIdentity>,
    /// The hash of its token. Only the environment of its command has the token itself.
    #[serde(skip)]
    pub token_hash: Option<String>,
    /// Its phases so far.
    pub phases: Vec<Phase>,
    /// The outcome that it reported.
    pub output: Option<String>,
    /// The exit code of its command, as a shell gives it: 126 and 127 if it could not start, 128 and the number of the
    /// signal that ended it, 124 if it ran too long. None if Waypost ended it, or does not know.
    pub exit_code: Option<i32>,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Tokens used so far.
    pub tokens: Option<u64>,
    /// Cost so far, in the unit that the agents use.
    pub cost: Option<f64>,
    /// The job that this one retries.
    pub retry_of: Option<JobId>,
    /// When it was cancelled.
    pub cancelled_at: Option<Timestamp>,
    /// The worktree it was requested from.
    pub worktree_id: WorktreeId,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its command started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// Changes its status, if the transition is allowed.
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

/// A piece of the output of a job, kept in a store that several machines share.
///
/// Every byte of the output is one byte of the text, so that positions in both agree: bytes that are not UTF-8, and NUL, are
/// replaced by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// The job.
    pub job_id: JobId,
    /// The position of its first byte in the output.
    pub first_byte: u64,
    /// The output.
    pub text: String,
}

impl LogPiece {
    /// Returns the position after its last byte.
    pub fn next_byte(&self) -> u64 {
        self.first_byte + self.text.len() as u64
    }
}

/// A filter of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobQuery {
    /// Only jobs of this task.
    pub task_id: Option<TaskId>,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs that have not ended.
    pub is_live: bool,
    /// Only jobs that were requested from this worktree, or that work on its tasks.
    pub worktree_id: Option<WorktreeId>,
    /// Only jobs that work on one of these repositories; on any if empty.
    pub repositories: Vec<RepositoryId>,
    /// Only jobs after this one in the list: older ones.
    pub after: Option<Cursor<(Timestamp, JobId)>>,
    /// Maximum number of results, the newest first.
    pub limit: u32,
}
