//! Creates the record of a job and claims its task. The command does not run yet.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{JobId, RepositoryId, WorktreeId};
use crate::model::{Job, JobStatus, SandboxMode, kind};
use crate::op::{Audience, Effect, IssueEffect, IssuesOf, Operation, StoreOperation};
use crate::path_text;
use crate::work::claim::{self, Scope};
use crate::work::{agents, check_name, find, jobs, lease, machines};

/// Creates the record of a job and claims its task. The command does not run yet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddJobRecord {
    /// The type of job.
    #[serde(rename = "type", default = "default_kind")]
    pub kind: String,
    /// The purpose of the job.
    #[serde(default)]
    pub description: String,
    /// The input of the job.
    #[serde(default)]
    pub input: Value,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How to run the command.
    #[serde(default)]
    pub settings: Value,
    /// The repository to work on [default: the caller's].
    #[serde(default)]
    pub repository: Option<RepositoryId>,
    /// The task to work on. The operation claims it, or renews the caller's claim.
    #[serde(default)]
    pub task: Option<String>,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease, if the caller already holds one.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// Claim the most urgent task that the caller may claim, limited to `workflow` if it is set.
    #[serde(default)]
    pub next: bool,
    /// With `next`, only a task planned in this worktree.
    #[serde(default)]
    pub next_worktree: Option<WorktreeId>,
    /// With `next`, only a task of this repository: its id, name or path, or `all` [default: in a shared store, the
    /// caller's].
    #[serde(default)]
    pub next_repository: Option<String>,
    /// How long the lease lasts after each renewal, in milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// The machine to run on [default: the first one that accepts the job].
    #[serde(default)]
    pub machine: Option<String>,
    /// Accept a machine that has not run a worker or a job in this store yet.
    #[serde(default)]
    pub new_machine: bool,
    /// The directory in which the caller requested the job.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub work_dir: PathBuf,
    /// The job that this one retries.
    #[serde(default)]
    pub retry_of: Option<JobId>,
}

impl AddJobRecord {
    /// Sets the default of jobs that come over HTTP in the arguments of [`AddJobRecord`], if the job waits for a worker. A
    /// job that its caller starts is not the server's.
    pub fn sandbox_if_queued(arguments: &mut Value) {
        let settings = &mut arguments["settings"];
        if settings.is_null() {
            *settings = Value::Object(serde_json::Map::new());
        }
        let Some(settings) = settings.as_object_mut() else { return };
        if settings.get("launcher").is_none_or(Value::is_null) && settings.get("sandbox").is_none_or(Value::is_null) {
            settings.insert("sandbox".to_owned(), SandboxMode::On.as_str().into());
        }
    }
}

fn default_kind() -> String {
    "agent".to_owned()
}

impl Operation for AddJobRecord {
    const NAME: &'static str = "add_job_record";
    const SUMMARY: &'static str = "Create the record of a job";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobView;
}

impl StoreOperation for AddJobRecord {
    const DEPENDS_ON_JOBS: bool = true;
    const ISSUES: Option<IssuesOf<JobView>> = Some(|added| added.job.task_id.as_ref().map(IssueEffect::ClaimedTask));

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Error::invalid("a job needs a command").hint("way job start -- COMMAND ARGUMENTS"));
        }
        check_name("type of job", &self.kind)?;
        if let Some(machine) = self.machine.as_ref().filter(|_| !self.new_machine) {
            machines::check_known(cx, machine)?;
        }
        let mut agent = agents::caller(cx)?;
        // Also a person's job must lose its task when its machine is lost.
        let ttl_ms = self.ttl_ms.or(cx.caller.lease_times.agent_ms).unwrap_or(lease::DEFAULT_TASK_TTL_MS);
        let (mut task_id, mut epoch, mut repository_id) = (None, None, self.repository);
        if let Some(reference) = &self.task {
            let task = find::task_to_change(cx, reference, self.workflow.as_deref())?;
            if self.epoch.is_some() {
                lease::require(cx, &task, &agent, self.epoch)?;
            }
            jobs::check_no_live_job(cx, &task, &agent)?;
            let (task, lease) = claim::task(cx, &task, &mut agent, Some(ttl_ms))?;
            repository_id = match repository_id {
                Some(id) => Some(id),
                None => find::repository_of(cx, &task)?,
            };
            (task_id, epoch) = (Some(task.id), Some(lease.epoch));
        } else if self.next {
            let (worktree, repository) = (self.next_worktree.as_ref(), self.next_repository.as_deref());
            let scope = Scope::of(cx, self.workflow.as_deref(), worktree, repository)?;
            let (task, lease) = claim::next(cx, &scope, &mut agent, Some(ttl_ms))?;
            repository_id = match repository_id {
                Some(id) => Some(id),
                None => find::repository_of(cx, &task)?,
            };
            (task_id, epoch) = (Some(task.id), Some(lease.epoch));
        }
        let repository_id = repository_id.unwrap_or_else(|| cx.caller.repository.id.clone());
        if cx.tx.repository_get(&repository_id)?.is_none() {
            return Err(Error::not_found(format!("no repository {repository_id}")).hint("way repo list"));
        }
        let mut job = Job {
            id: JobId::generate(cx.entropy),
            kind: self.kind,
            description: self.description,
            input: self.input,
            status: JobStatus::Pending,
            command: self.command,
            settings: self.settings,
            repository_id,
            task_id,
            epoch,
            agent_id: Some(agent.id),
            workspace_id: None,
            started_from: None,
            result: None,
            work_dir: self.work_dir,
            workspace_dir: None,
            context_dir: None,
            log: None,
            machine: self.machine,
            supervisor: None,
            process: None,
            token_hash: None,
            phases: Vec::new(),
            output: None,
            exit_code: None,
            error: None,
            warnings: Vec::new(),
            tokens: None,
            cost: None,
            retry_of: self.retry_of,
            cancelled_at: None,
            worktree_id: cx.caller.worktree.id.clone(),
            created_at: cx.now,
            updated_at: cx.now,
            started_at: None,
            finished_at: None,
        };
        jobs::push_phase(&mut job, "pending", None, cx);
        cx.tx.job_put(&job)?;
        cx.event(kind::JOB_CREATED, job.id.as_str(), json!({ "after": job }))?;
        JobView::of(cx, job)
    }
}
