//! A host with one session, for MCP over standard input and output.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::host::{Call, Host, Who};
use serde_json::{Value, json};
use waypost_core::nearest::nearest;
use waypost_core::op::{self, Effect};
use waypost_core::{Error, Kind, Result};

use crate::claims::{self, CLOSED, NoticeOutcome};
use crate::idempotency::once;
use crate::issue_ops;
use crate::job_ops;
use crate::jobs;
use crate::place::{Place, StoreChoice};
use crate::session::Session;

/// Operations that grant or end a lease on an issue, or on a task that may be linked to one.
pub(crate) const AFFECT_ISSUES: &[&str] = &["claim_task", "lease_issue", "finish_task", "create_job_record"];

/// Operations that show jobs. The store may still list a job as running whose supervisor is gone.
const SHOW_JOBS: &[&str] = &["get_status", "list_jobs", "list_workspaces", "show_job", "show_workspace"];

/// Returns whether orphaned jobs must be reaped before an operation, which would show them as running.
pub(crate) fn shows_jobs(operation: &str) -> bool {
    SHOW_JOBS.contains(&operation)
}

/// Returns the read that must succeed before a write: it fails if the write would find nothing to do, so idle workers
/// do not take the write lock. With a key there is none, since the write may have been made already.
pub(crate) fn read_before(
    operation: &str,
    arguments: &Value,
    key: Option<&str>,
) -> Option<(&'static op::OperationEntry, Value)> {
    if operation != "claim_task" || !arguments["task"].is_null() || key.is_some() {
        return None;
    }
    Some((op::named("next_tasks")?, json!({ "workflow": arguments["workflow"], "limit": 1 })))
}

/// A host with one session, for a client that sends one call at a time.
pub struct SingleHost {
    place: Place,
    session: Mutex<Option<Session>>,
    /// The store opened last. If its file is missing later, calls fail instead of creating a new store.
    opened: Mutex<Option<StoreChoice>>,
}

impl SingleHost {
    /// Creates a host for a place. The first call opens the store.
    pub fn new(place: Place) -> SingleHost {
        SingleHost { place, session: Mutex::new(None), opened: Mutex::new(None) }
    }

    /// Returns the current place: branch and settings can change while a client is connected.
    fn place(&self) -> Result<Place> {
        let place = self.place.again()?;
        let is_known = *lock(&self.opened) == Some(place.store()?);
        Ok(if is_known { place.with_existing_store() } else { place })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host for SingleHost {
    fn call(&self, call: Call) -> Result<Value> {
        let place = self.place()?.used_by(&call.who.actor, call.who.agent.as_deref());
        if issue_ops::named(&call.operation).is_some() {
            return run_on_issues(&place, call);
        }
        let mut kept = lock(&self.session);
        let mut session = match kept.take() {
            Some(session) if session.choice == place.store()? => session.moved_to(place)?,
            _ => Session::open(place)?,
        };
        *lock(&self.opened) = Some(session.choice.clone());
        let answer = run(&mut session, call);
        // Reopen a store that was unreachable.
        if !matches!(&answer, Err(error) if error.kind() == Kind::Unavailable) {
            *kept = Some(session);
        }
        answer
    }

    fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        Session::open(self.place()?)?.wait(last, timeout)
    }
}

/// Runs an operation on the store with the same side effects as its command: notices are delivered to the ledgers.
pub fn run(session: &mut Session, call: Call) -> Result<Value> {
    let Call { operation, arguments, who: Who { actor, agent }, key } = call;
    let Some(entry) = op::named(&operation) else { return Err(unknown_operation(&operation)) };
    session.act_as(actor, agent);
    if let Err(error) = claims::deliver_notices(session) {
        log::debug!("cannot deliver notices to the ledger: {}", error.full_message());
    }
    if AFFECT_ISSUES.contains(&entry.name) {
        claims::set_mark(&session.place)?;
    }
    if shows_jobs(entry.name) {
        jobs::reap_orphaned_jobs(session)?;
    }
    if let Some((read, read_arguments)) = read_before(entry.name, &arguments, key.as_deref()) {
        session.call(read, None, read_arguments)?;
    }
    let mut answer = session.call(entry, key.as_deref(), arguments)?;
    if AFFECT_ISSUES.contains(&entry.name) {
        complete_claim(session, entry.name, &mut answer)?;
    }
    if entry.name == "finish_task" {
        close_finished_issue(session, &mut answer);
    }
    Ok(answer)
}

/// Runs an operation on issues.
pub fn run_on_issues(place: &Place, call: Call) -> Result<Value> {
    let Some(entry) = issue_ops::named(&call.operation) else { return Err(unknown_operation(&call.operation)) };
    let Some(key) = call.key.filter(|_| entry.effect == Effect::Write) else {
        return (entry.run)(place, call.arguments, None);
    };
    let mut session = Session::open(place.clone())?;
    if session.is_served() {
        // A remote server saves only answers of its own operations. Additions stay idempotent: their ids derive from
        // the key.
        return (entry.run)(place, call.arguments, Some(&key));
    }
    let arguments = call.arguments.clone();
    once(
        |step| step.run(&mut session),
        &call.who,
        &key,
        entry.name,
        &call.arguments,
        || (entry.run)(place, arguments, Some(&key)),
    )
}

/// Returns whether an answer grants a lease on an issue, or on a task that may be linked to one.
pub(crate) fn is_claim(operation: &str, answer: &Value) -> bool {
    match operation {
        "lease_issue" => true,
        "claim_task" => answer["task"]["issue"].is_string(),
        "create_job_record" => answer["task_id"].is_string(),
        _ => false,
    }
}

/// Completes the claim of an operation before its answer is sent. Does nothing for other operations.
pub(crate) fn complete_claim(session: &mut Session, operation: &str, answer: &mut Value) -> Result<()> {
    let issue = match operation {
        "claim_task" => answer["task"]["issue"].as_str().map(str::to_owned),
        "lease_issue" => answer["subject"].as_str().map(str::to_owned),
        "create_job_record" => match answer["task_id"].as_str() {
            Some(task) => claims::issue_of(session, task)?,
            None => None,
        },
        _ => None,
    };
    if let Some(warning) = claims::complete_claim(&session.place, issue.as_deref())? {
        answer["warnings"] = json!([warning]);
    }
    Ok(())
}

/// Closes the issue of a finished task, and reports the result in the answer. The task is done in any case.
pub(crate) fn close_finished_issue(session: &mut Session, answer: &mut Value) {
    let Some(issue) = answer["issue"].as_str().map(str::to_owned) else { return };
    let mut warnings = Vec::new();
    match claims::deliver_notices(session) {
        Ok(outcomes) => {
            for NoticeOutcome { result, .. } in outcomes.into_iter().filter(|outcome| outcome.notice.issue == issue) {
                match result {
                    Ok(done) if done == CLOSED => answer["closed_issue"] = json!(issue),
                    Ok(reason) => warnings.push(format!("issue {issue} was not closed: {reason}")),
                    Err(error) => {
                        warnings.push(format!("issue {issue} was not closed yet: {}", error.full_message()));
                    }
                }
            }
        }
        Err(error) => warnings.push(format!("issue {issue} was not closed yet: {}", error.full_message())),
    }
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
}

/// Returns the error for an unknown operation, with the nearest name.
pub(crate) fn unknown_operation(operation: &str) -> Error {
    let app_operations = issue_ops::TABLE.iter().chain(job_ops::TABLE).map(|entry| entry.name);
    let names = op::TABLE.iter().map(|entry| entry.name).chain(app_operations);
    let error = Error::not_found(format!("unknown operation {operation:?}"));
    match nearest(operation, names) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error,
    }
}
