//! What can be asked about jobs, by name and with JSON, that the store alone cannot do: to run one, and to read what it
//! printed. Both are done on the machine of whoever serves.

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::id::RepositoryId;
use waypost_core::model::{JobStatus, Strategy};
use waypost_core::op::{CreateJobRecord, Effect, JobView};
use waypost_core::{Error, Result};
use waypost_workspace::{job_log, jobs as processes};

use crate::idempotency;
use crate::issue_ops::AppEntry;
use crate::jobs::{self, Request, Settings};
use crate::place::Place;
use crate::session::Session;
use crate::tokens::hash;
use crate::workspaces;

/// How much of a log is told if nobody says.
const USUAL: u64 = 64 * 1024;
/// How much of a log is told at most.
const MOST: u64 = 4 << 20;

/// All operations on jobs that are done here.
pub static TABLE: &[AppEntry] = &[
    AppEntry {
        name: "create_job",
        summary: "Run a command in a workspace of its own",
        effect: Effect::Write,
        run: |place, arguments, key| answer(create(place, arguments, key)?),
        schema: SchemaGenerator::subschema_for::<CreateJob>,
        answer_schema: SchemaGenerator::subschema_for::<JobView>,
    },
    AppEntry {
        name: "get_log",
        summary: "Read what a job printed",
        effect: Effect::Read,
        run: |place, arguments, _| read_log(&mut Session::open(place.clone())?, arguments),
        schema: SchemaGenerator::subschema_for::<GetLog>,
        answer_schema: SchemaGenerator::subschema_for::<Printed>,
    },
];

/// Returns the operation with this name.
pub fn named(name: &str) -> Option<&'static AppEntry> {
    TABLE.iter().find(|entry| entry.name == name)
}

/// Runs a command in a workspace of its own. When this is answered, the command was started; if the workspace cannot be
/// made, nothing runs.
#[derive(Deserialize, JsonSchema)]
struct CreateJob {
    /// The command and its arguments.
    command: Vec<String>,
    /// What kind of work it is.
    #[serde(rename = "type", default = "usual_kind")]
    kind: String,
    /// What it is for.
    #[serde(default)]
    description: String,
    /// What it is given; it finds it in its context directory.
    #[serde(default)]
    input: Value,
    /// The repository to work on; the server's own, if nobody says.
    #[serde(default)]
    repository: Option<RepositoryId>,
    /// The task to work on; it is claimed.
    #[serde(default)]
    task: Option<String>,
    /// The workflow it is in, if its name alone does not say.
    #[serde(default)]
    workflow: Option<String>,
    /// The epoch of the caller's lease, if it has one already.
    #[serde(default)]
    epoch: Option<u64>,
    /// How its workspace is made.
    #[serde(default)]
    strategy: Option<Strategy>,
    /// The commit to start from.
    #[serde(default)]
    base: Option<String>,
    /// The branch to work on.
    #[serde(default)]
    branch: Option<String>,
    /// How long it may run, in milliseconds.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// How large its workspace may become, in bytes.
    #[serde(default)]
    size_limit: Option<u64>,
    /// Whether its workspace goes when it has ended.
    #[serde(default)]
    cleanup: Option<bool>,
}

/// Reads what a job printed.
#[derive(Deserialize, JsonSchema)]
struct GetLog {
    /// Which one: its id, or the beginning of it.
    job: String,
    /// How much of its end, in bytes.
    #[serde(default)]
    tail: Option<u64>,
    /// From this byte on, counted from the first that it printed, and not its end. What is not kept any more is skipped.
    #[serde(default)]
    from: Option<u64>,
}

/// What a job printed.
#[derive(Serialize, JsonSchema)]
struct Printed {
    /// The job.
    job: String,
    /// How far it got.
    status: JobStatus,
    /// Whether more may come.
    is_live: bool,
    /// The number of the first byte that is told.
    from: u64,
    /// Where to go on.
    next: u64,
    /// What it printed; bytes that are no text are replaced.
    log: String,
}

fn usual_kind() -> String {
    "agent".to_owned()
}

/// Runs a job. With a key it is written down once; asked again, it is told how far that one got.
fn create(place: &Place, arguments: Value, key: Option<&str>) -> Result<JobView> {
    let wanted: CreateJob = decode("create_job", arguments)?;
    if wanted.strategy == Some(Strategy::InPlace) {
        return Err(Error::refused("a server runs nothing in its own checkout").hint("leave out the strategy"));
    }
    let mut session = Session::open(place.clone())?;
    let session = &mut session;
    session.place.require_checkout()?;
    // The key itself is that of the whole request.
    let key = key.map(|key| format!("job-{}", hash(key)));
    if let Some(known) =
        key.as_ref().map(|key| idempotency::of_store::<CreateJobRecord>(session, key)).transpose()?.flatten()
    {
        return jobs::wait_until_started(session, &known.job.id);
    }
    let usual = jobs::default_settings(session);
    let settings = Settings {
        strategy: wanted.strategy,
        base: wanted.base,
        branch: wanted.branch,
        timeout_ms: wanted.timeout_ms.or(usual.timeout_ms),
        size_limit: wanted.size_limit.or(usual.size_limit),
        cleanup: wanted.cleanup.or(usual.cleanup),
        launcher: Some(processes::own_identity()),
        ..usual
    };
    let machine = Some(workspaces::machine(session)?);
    let job = jobs::create_once(
        session,
        Request {
            kind: wanted.kind,
            description: wanted.description,
            input: wanted.input,
            command: wanted.command,
            repository: wanted.repository,
            task: wanted.task,
            workflow: wanted.workflow,
            epoch: wanted.epoch,
            next: false,
            repositories: Vec::new(),
            machine,
            settings,
            retry_of: None,
        },
        key.as_deref(),
    )?;
    jobs::launch(session, &job)?;
    jobs::wait_until_started(session, &job.job.id)
}

/// Reads what a job printed, from anywhere on. Texts are not cut within a character.
pub(crate) fn read_log(session: &mut Session, arguments: Value) -> Result<Value> {
    let wanted: GetLog = decode("get_log", arguments)?;
    // Looked at before the log is read: if it has ended, nothing comes after what is read.
    let (job, file) = jobs::job_and_log(session, &wanted.job)?;
    let mut part = match (wanted.from, wanted.tail) {
        (Some(_), Some(_)) => return Err(Error::invalid("either from a byte on, or the end of it")),
        (Some(from), None) => job_log::read_from(&file, from, USUAL),
        (None, tail) => job_log::tail(&file, tail.unwrap_or(USUAL).min(MOST)),
    };
    if !job.status.is_final() || part.bytes.len() as u64 == USUAL {
        part.bytes.truncate(whole_characters(&part.bytes));
    }
    answer(Printed {
        job: job.id.to_string(),
        status: job.status,
        is_live: !job.status.is_final(),
        from: part.from,
        next: part.next(),
        log: String::from_utf8_lossy(&part.bytes).into_owned(),
    })
}

/// Returns how many bytes there are without a character whose rest is still to come.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let begun = last.map_or(&[][..], |chunk| chunk.invalid());
    // More than three are no beginning of a character; these are, if what is wrong with them is only that they end.
    match std::str::from_utf8(begun) {
        Err(error) if error.error_len().is_none() => bytes.len() - begun.len(),
        _ => bytes.len(),
    }
}

fn decode<T: serde::de::DeserializeOwned>(name: &str, arguments: Value) -> Result<T> {
    serde_json::from_value(arguments)
        .map_err(|error| Error::invalid(format!("wrong arguments for {name}")).because(error))
}

fn answer(answer: impl Serialize) -> Result<Value> {
    serde_json::to_value(answer).map_err(|error| Error::internal("an answer is not JSON").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        for (text, whole) in [("", 0), ("ab", 2), ("aü", 3), ("a🙂", 5)] {
            assert_eq!(whole_characters(text.as_bytes()), whole, "{text}");
        }
        for (bytes, whole) in [(&b"a\xc3"[..], 1), (b"a\xf0\x9f\x99", 1), (b"a\xff", 2), (b"a\xffb", 3), (b"\xc3", 0)] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }
}
