//! Operations on jobs that the store alone cannot do: run a job, and read its log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::context::Authority;
use waypost_core::id::RepositoryId;
use waypost_core::model::{JobStatus, SandboxMode, Strategy};
use waypost_core::op::{Access, AddJobRecord, Effect, JobAccess, JobView, Operation, ShowJob};
use waypost_core::{Error, Result};
use waypost_workspace::{job_log, jobs as processes};

use crate::app::idempotency;
use crate::app::operation::{AppContext, AppEntry, AppOperation};
use crate::app::session::Session;
use crate::serving::tokens::hash_token;
use crate::work::jobs::{self, LogPlace, Request, Settings};
use crate::work::references;
use crate::work::workspaces;

/// Default size of a part of a log.
const DEFAULT_LOG_BYTES: u64 = 64 * 1024;
/// Maximum size of a part of a log.
const MAX_LOG_BYTES: u64 = 4 << 20;

/// All operations on jobs outside the store.
pub(crate) static TABLE: &[AppEntry] = &[AppEntry::of::<StartJob>(), AppEntry::of::<ShowLog>()];

/// Runs a command in its own workspace. The command has started when the server answers; if the workspace cannot be
/// created, nothing runs.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct StartJob {
    /// Command and its arguments.
    command: Vec<String>,
    /// Kind of work.
    #[serde(rename = "type", default = "default_kind")]
    kind: String,
    /// Description.
    #[serde(default)]
    description: String,
    /// Input for the command, written to its context directory. If it has `provider`, `owner` and `repo`, they choose the
    /// repository among those of the store, unless `workspace`, `repository` or `task` does.
    #[serde(default)]
    input: Value,
    /// Repository [default: that of the server].
    #[serde(default)]
    repository: Option<RepositoryId>,
    /// Machine that runs the job; a worker there takes it [default: that of the server, which starts it at once].
    #[serde(default)]
    machine: Option<String>,
    /// Whether to accept a machine that has not run a worker or a job in this store yet.
    #[serde(default)]
    new_machine: bool,
    /// Task to claim and work on.
    #[serde(default)]
    task: Option<String>,
    /// Workflow of the task, if the name of the task is ambiguous.
    #[serde(default)]
    workflow: Option<String>,
    /// Epoch of the lease, if the caller already holds the task.
    #[serde(default)]
    epoch: Option<u64>,
    /// Existing workspace to work in: its id, a prefix of it, or its job [default: a new one].
    #[serde(default)]
    workspace: Option<String>,
    /// How to create the workspace.
    #[serde(default)]
    strategy: Option<Strategy>,
    /// What to start from: `plan` (the work of the tasks that the task depends on), `head`, or a revision [default: as the
    /// task or its workflow says, else `plan`].
    #[serde(default)]
    base: Option<String>,
    /// Branch to work on.
    #[serde(default)]
    branch: Option<String>,
    /// Whether to take the uncommitted changes of the server's checkout along, including untracked files.
    #[serde(default)]
    include_changes: bool,
    /// Maximum run time, in milliseconds.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Maximum size of the workspace, in bytes.
    #[serde(default)]
    size_limit: Option<u64>,
    /// Whether to remove the workspace after the job has ended.
    #[serde(default)]
    cleanup: Option<bool>,
    /// Whether it can use only its own files, and by which means [default: as the server is configured, else on].
    #[serde(default)]
    sandbox: Option<SandboxMode>,
    /// Whether it can use the network [default: as the server is configured].
    #[serde(default)]
    network: Option<bool>,
    /// Maximum memory of its processes together, in bytes.
    #[serde(default)]
    memory_limit: Option<u64>,
    /// Maximum number of its processes and threads.
    #[serde(default)]
    process_limit: Option<u32>,
}

/// Reads the log of a job.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShowLog {
    /// Id of the job, or a unique prefix.
    job: String,
    /// Number of bytes from the end.
    #[serde(default)]
    tail: Option<u64>,
    /// First byte, counted from the beginning of the output; discarded bytes are skipped.
    #[serde(default)]
    from: Option<u64>,
}

/// A part of the log of a job.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct LogPart {
    /// Id of the job.
    job: String,
    /// Status of the job.
    status: JobStatus,
    /// Whether more output may follow.
    is_live: bool,
    /// Position of the first byte.
    from: u64,
    /// Position after the last byte; pass it as `from` to continue.
    next: u64,
    /// Output; bytes that are not UTF-8 are replaced.
    log: String,
}

fn default_kind() -> String {
    "agent".to_owned()
}

impl Operation for StartJob {
    const NAME: &'static str = "start_job";
    const SUMMARY: &'static str = "Run a command in its own workspace";
    const EFFECT: Effect = Effect::Write;
    type Answer = JobView;
}

impl AppOperation for StartJob {
    fn run(self, cx: &mut AppContext<'_>) -> Result<JobView> {
        // The key itself identifies the whole request.
        let key = cx.key.map(|key| format!("job-{}", hash_token(key)));
        create(cx.session()?, self, key.as_deref())
    }
}

impl Operation for ShowLog {
    const NAME: &'static str = "show_log";
    const SUMMARY: &'static str = "Read the log of a job";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnJob);
    type Answer = LogPart;
}

impl AppOperation for ShowLog {
    /// Clients that follow a log call this often.
    const IS_SHORT: bool = true;

    fn run(self, cx: &mut AppContext<'_>) -> Result<LogPart> {
        let session = cx.session()?;
        require_own_log(session, &self.job)?;
        read_log(session, &self)
    }
}

/// Runs a job. With a key it is recorded once; a retry returns the existing job.
fn create(session: &mut Session, mut request: StartJob, key: Option<&str>) -> Result<JobView> {
    if request.strategy == Some(Strategy::InPlace) {
        return Err(Error::refused("a server does not run jobs in its own checkout").hint("omit strategy"));
    }
    session.place.require_checkout()?;
    if let Some(known) = key.map(|key| idempotency::stored_answer::<AddJobRecord>(session, key)).transpose()?.flatten()
    {
        return jobs::wait_until_started(session, &known.job.id);
    }
    if request.workspace.is_none() && request.repository.is_none() && request.task.is_none() {
        // The caller of a command is in the repository that it means; a server is not.
        request.repository = references::named_in(session, &request.input)?;
    }
    if !request.include_changes && request.workspace.is_none() && request.repository.is_none() {
        let on = request.base.as_deref().or(request.task.as_ref().map(|_| "the base of its task"));
        let warning = workspaces::uncommitted_warning(session, request.strategy, on)?;
        session.warnings().add(warning.map(|warning| format!("{warning}; include_changes takes them along")));
    }
    let defaults = jobs::default_settings(session);
    let settings = Settings {
        strategy: request.strategy,
        base: request.base,
        branch: request.branch,
        include_changes: request.include_changes,
        workspace: request.workspace,
        timeout_ms: request.timeout_ms.or(defaults.timeout_ms),
        size_limit: request.size_limit.or(defaults.size_limit),
        cleanup: request.cleanup.or(defaults.cleanup),
        // The owner of the server did not type this command.
        sandbox: request.sandbox.or(defaults.sandbox).or(Some(SandboxMode::On)),
        network: request.network.or(defaults.network),
        memory_limit: request.memory_limit.or(defaults.memory_limit),
        process_limit: request.process_limit.or(defaults.process_limit),
        launcher: request.machine.is_none().then(processes::own_identity),
        ..defaults
    };
    let is_queued = request.machine.is_some();
    let machine = Some(request.machine.map_or_else(|| workspaces::machine(session), Ok)?);
    let job = jobs::create_once(
        session,
        Request {
            kind: request.kind,
            description: request.description,
            input: request.input,
            command: request.command,
            repository: request.repository,
            task: request.task,
            workflow: request.workflow,
            epoch: request.epoch,
            machine,
            new_machine: request.new_machine,
            settings,
            ..Request::default()
        },
        key,
    )?;
    if is_queued {
        return Ok(job);
    }
    jobs::launch(session, &job)?;
    jobs::wait_until_started(session, &job.job.id)
}

/// Refuses the log of another agent's job: output may show more than its author intended.
fn require_own_log(session: &mut Session, job: &str) -> Result<()> {
    let caller = session.caller().clone();
    if caller.authority == Authority::User {
        return Ok(());
    }
    let refused = || Error::refused("the log of a job is for admins and for the agent of the job");
    let agent = caller.agent.ok_or_else(refused)?;
    let owner = session.call(ShowJob { job: job.to_owned() })?.agent;
    if owner == Some(agent) { Ok(()) } else { Err(refused()) }
}

/// Reads a part of the log of a job. It does not split characters.
fn read_log(session: &mut Session, request: &ShowLog) -> Result<LogPart> {
    // The status is read before the log: if the job has ended by then, the log is complete.
    let (job, place) = jobs::job_and_log(session, &request.job)?;
    if request.from.is_some() && request.tail.is_some() {
        return Err(Error::invalid("from and tail exclude each other"));
    }
    let limit = request.tail.unwrap_or(DEFAULT_LOG_BYTES).min(MAX_LOG_BYTES);
    let (from, next, log) = match place {
        LogPlace::Store => {
            let part = jobs::read_stored(session, job.id.as_str(), request.from, limit)?;
            (part.from, part.from + part.text.len() as u64, part.text)
        }
        LogPlace::File(file) => {
            let mut part = match request.from {
                Some(from) => job_log::read_from(&file, from, limit),
                None => job_log::tail(&file, limit),
            };
            if !job.status.is_final() || part.bytes.len() as u64 == DEFAULT_LOG_BYTES {
                part.bytes.truncate(jobs::complete_characters(&part.bytes));
            }
            (part.from, part.next(), String::from_utf8_lossy(&part.bytes).into_owned())
        }
    };
    let is_live = !job.status.is_final();
    Ok(LogPart { job: job.id.to_string(), status: job.status, is_live, from, next, log })
}
