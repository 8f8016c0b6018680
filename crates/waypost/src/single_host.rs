//! A store and the ledgers beside it, asked by name and with JSON: what stands behind the ways in over a wire.

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

/// Operations that grant a lease on an issue or on a task that can stand for one, and one that ends it.
pub(crate) const CONCERN_ISSUES: &[&str] = &["claim_task", "lease_issue", "finish_task", "create_job_record"];

/// Operations that show what jobs do. A job whose supervisor is gone runs no more, whatever the store says.
const SHOW_JOBS: &[&str] = &["get_status", "list_jobs", "list_workspaces", "show_job", "show_workspace"];

/// Tells whether orphaned jobs are reaped before an operation, which would show them as running.
pub(crate) fn shows_jobs(operation: &str) -> bool {
    SHOW_JOBS.contains(&operation)
}

/// Returns what is read before a write, and fails if the write would find nothing to do: many may ask in vain, and none of
/// them holds up those who write. With a key, the write may have been made already.
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

/// A host with one session, for those who ask one at a time.
pub struct SingleHost {
    place: Place,
    session: Mutex<Option<Session>>,
    /// The store that was opened last. If its file is missing later, that is an error, and no new store is made.
    opened: Mutex<Option<StoreChoice>>,
}

impl SingleHost {
    /// Makes one for a place. The store is opened when it is first asked.
    pub fn new(place: Place) -> SingleHost {
        SingleHost { place, session: Mutex::new(None), opened: Mutex::new(None) }
    }

    /// Returns the place as it is now: branches are switched and settings changed while a client is connected.
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
        // A store that was out of reach is opened anew.
        if !matches!(&answer, Err(error) if error.kind() == Kind::Unavailable) {
            *kept = Some(session);
        }
        answer
    }

    fn wait(&self, last: u64, at_most: Duration) -> Result<()> {
        Session::open(self.place()?)?.wait(last, at_most)
    }
}

/// Runs an operation on the store, with what its command does beside it: ledgers are told what became of their issues.
pub fn run(session: &mut Session, call: Call) -> Result<Value> {
    let Call { operation, arguments, who: Who { actor, agent }, key } = call;
    let Some(entry) = op::named(&operation) else { return Err(unknown(&operation)) };
    session.act_as(actor, agent);
    if let Err(error) = claims::deliver_notices(session) {
        log::debug!("the ledger was not told what became of its issues: {}", error.full_message());
    }
    if CONCERN_ISSUES.contains(&entry.name) {
        claims::set_mark(&session.place)?;
    }
    if shows_jobs(entry.name) {
        jobs::reap_orphaned_jobs(session)?;
    }
    if let Some((question, about)) = read_before(entry.name, &arguments, key.as_deref()) {
        session.call(question, None, about)?;
    }
    let mut answer = session.call(entry, key.as_deref(), arguments)?;
    if CONCERN_ISSUES.contains(&entry.name) {
        complete_claim(session, entry.name, &mut answer)?;
    }
    if entry.name == "finish_task" {
        tell_of_issue(session, &mut answer);
    }
    Ok(answer)
}

/// Runs an operation on issues.
pub fn run_on_issues(place: &Place, call: Call) -> Result<Value> {
    let Some(entry) = issue_ops::named(&call.operation) else { return Err(unknown(&call.operation)) };
    let Some(key) = call.key.filter(|_| entry.effect == Effect::Write) else {
        return (entry.run)(place, call.arguments, None);
    };
    let mut session = Session::open(place.clone())?;
    if session.is_served() {
        // A server remembers answers to what it did itself. What is added is still added once, since its id says so.
        return (entry.run)(place, call.arguments, Some(&key));
    }
    let arguments = call.arguments.clone();
    once(
        |step| step.ask(&mut session),
        &call.who,
        &key,
        entry.name,
        &call.arguments,
        || (entry.run)(place, arguments, Some(&key)),
    )
}

/// Tells whether an answer grants a lease on an issue, or on a task that can stand for one.
pub(crate) fn is_claim(operation: &str, answer: &Value) -> bool {
    match operation {
        "lease_issue" => true,
        "claim_task" => answer["task"]["issue"].is_string(),
        "create_job_record" => answer["task_id"].is_string(),
        _ => false,
    }
}

/// Completes a claim that an operation made, before its answer is sent. Other answers are left as they are.
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

/// Closes the issue of a finished task, and says in the answer whether that was possible. The task is done in any case.
pub(crate) fn tell_of_issue(session: &mut Session, answer: &mut Value) {
    let Some(issue) = answer["issue"].as_str().map(str::to_owned) else { return };
    let mut warnings = Vec::new();
    match claims::deliver_notices(session) {
        Ok(told) => {
            for NoticeOutcome { result, .. } in told.into_iter().filter(|told| told.notice.issue == issue) {
                match result {
                    Ok(done) if done == CLOSED => answer["closed_issue"] = json!(issue),
                    Ok(why) => warnings.push(format!("issue {issue} was not closed: {why}")),
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

/// The error for an operation that does not exist, with the nearest name.
pub(crate) fn unknown(operation: &str) -> Error {
    let beside = issue_ops::TABLE.iter().chain(job_ops::TABLE).map(|entry| entry.name);
    let names = op::TABLE.iter().map(|entry| entry.name).chain(beside);
    let error = Error::not_found(format!("there is no operation {operation:?}"));
    match nearest(operation, names) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error,
    }
}
