//! The steps around an operation of the store, the same on every surface.
//!
//! Before: a read renews the caller's leases, as every write does. A write delivers pending notices to the ledgers. If the
//! operation depends on jobs, orphaned ones are reaped and missing workspaces marked. Before a claim without a name, a read
//! finds out whether there is anything to do.
//! After: the supervisors of cancelled jobs are told, a claim waits for the ledger, a finished task closes its issue, and a
//! released issue becomes free.

use serde_json::Value;
use waypost_core::op::{AnyAnswer, AnyOperation, Effect, IntoAnyOperation, IssueEffect, ListNextTasks, OperationEntry};
use waypost_core::{Error, Result};

use crate::app::operation::Reply;
use crate::app::session::Session;
use crate::issues::claims::{self, CLOSED, NoticeOutcome};
use crate::work::jobs;

impl Session {
    /// Runs an operation of the store with the steps around it. Its writes are on disk when this returns.
    pub fn call<O: IntoAnyOperation>(&mut self, operation: O) -> Result<O::Answer> {
        self.call_once(None, operation)
    }

    /// Runs an operation of the store with the steps around it, once per key: a retry with the same key returns the first
    /// answer.
    pub fn call_once<O: IntoAnyOperation>(&mut self, key: Option<&str>, operation: O) -> Result<O::Answer> {
        self.call_any(key, &*operation.into_any())?.downcast()
    }

    fn call_any(&mut self, key: Option<&str>, operation: &dyn AnyOperation) -> Result<AnyAnswer> {
        let steps = Steps::around(operation, key);
        steps.before(self)?;
        let mut answer = self.run_any(key, operation)?;
        let warnings = steps.after(self, &mut answer)?;
        self.warnings().add(warnings);
        Ok(answer)
    }

    /// Runs an operation of the table with the steps around it. Arguments and answer are JSON.
    pub(crate) fn call_json(&mut self, entry: &OperationEntry, key: Option<&str>, arguments: &Value) -> Result<Reply> {
        let answer = self.call_any(key, &*(entry.decode)(arguments)?)?.into_tree()?;
        Ok(Reply { answer, warnings: self.warnings().take() })
    }
}

/// The steps around one call.
pub(crate) struct Steps {
    entry: &'static OperationEntry,
    /// Fails if there is nothing to do.
    read_first: Option<ListNextTasks>,
}

impl Steps {
    /// Returns the steps around a call.
    pub(crate) fn around(operation: &dyn AnyOperation, key: Option<&str>) -> Steps {
        // With a key, the write may have been made already: then the store returns its answer.
        let read_first = if key.is_none() { operation.read_first() } else { None };
        Steps { entry: operation.entry(), read_first }
    }

    /// Returns whether the steps before the call need a session.
    pub(crate) fn has_reads(&self) -> bool {
        self.entry.depends_on_jobs || self.read_first.is_some()
    }

    /// Runs the steps before the call, in the name of its caller.
    pub(crate) fn before(&self, session: &mut Session) -> Result<()> {
        // A read never changes a ledger.
        match self.entry.about.effect {
            Effect::Write => claims::deliver_pending_notices(session),
            Effect::Read => session.renew_leases()?,
        }
        self.reap(session)?;
        self.read_first(session)
    }

    /// Reaps orphaned jobs and marks workspaces whose directory is missing, if the call depends on them. A server does this in
    /// its own name, not in that of the caller.
    pub(crate) fn reap(&self, session: &mut Session) -> Result<()> {
        if self.entry.depends_on_jobs { jobs::bring_up_to_date(session) } else { Ok(()) }
    }

    /// Fails if there is nothing to do.
    pub(crate) fn read_first(&self, session: &mut Session) -> Result<()> {
        // A transition that is due may make a task ready, and the write applies it first.
        let Some(read) = self.read_first.clone() else { return Ok(()) };
        session.read_any_if_current(&*read.into_any()).map(drop)
    }

    /// Returns what the call did to issues.
    fn effect<'a>(&self, answer: &'a mut AnyAnswer) -> Result<Option<IssueEffect<'a>>> {
        self.entry.issues.map_or(Ok(None), |issues| issues(answer))
    }

    /// Returns whether there are steps after a call with this answer.
    pub(crate) fn may_follow(&self, answer: &mut AnyAnswer) -> Result<bool> {
        Ok(self.entry.cancels_jobs || self.effect(answer)?.is_some())
    }

    /// Runs the steps after the call, in the name of its caller, before it is answered. Returns warnings.
    pub(crate) fn after(&self, session: &mut Session, answer: &mut AnyAnswer) -> Result<Vec<String>> {
        if self.entry.cancels_jobs {
            jobs::stop_cancelled(session);
        }
        match self.effect(answer)? {
            None => Ok(Vec::new()),
            Some(IssueEffect::Claimed(issue)) => complete_claim(session, Some(issue)),
            Some(IssueEffect::ClaimedTask(task)) => {
                let issue = claims::issue_of(session, task.as_str());
                let issue = issue.map_err(|error| claims::incomplete_claim_error(&error))?;
                complete_claim(session, issue.as_deref())
            }
            Some(IssueEffect::Finished { issue, closed }) => Ok(close_finished_issue(session, issue, closed)),
            Some(IssueEffect::Released) => {
                // If the notice cannot be delivered now, a later command delivers it.
                claims::deliver_pending_notices(session);
                Ok(Vec::new())
            }
        }
    }

    /// Handles that there is no session for the steps after the call. A claim is not complete without them. Otherwise the
    /// call has succeeded, and a later command delivers the notice.
    pub(crate) fn skip_after(&self, answer: &mut AnyAnswer, error: &Error) -> Result<Vec<String>> {
        match self.effect(answer)? {
            Some(IssueEffect::Claimed(_) | IssueEffect::ClaimedTask(_)) => Err(claims::incomplete_claim_error(error)),
            Some(IssueEffect::Finished { .. }) => {
                Ok(vec![format!("the issue was not closed yet: {}", error.full_message())])
            }
            None | Some(IssueEffect::Released) => Ok(Vec::new()),
        }
    }
}

/// Completes a claim. An error says that the lease was granted.
fn complete_claim(session: &Session, issue: Option<&str>) -> Result<Vec<String>> {
    match claims::complete_claim(&session.place, issue) {
        Ok(warning) => Ok(warning.into_iter().collect()),
        Err(error) => Err(claims::incomplete_claim_error(&error)),
    }
}

/// Closes the issue of a finished task, and says so in the answer. The task is done in any case; returns warnings.
fn close_finished_issue(session: &mut Session, issue: &str, closed: &mut Option<String>) -> Vec<String> {
    let not_closed_yet = |error: Error| format!("issue {issue} was not closed yet: {}", error.full_message());
    if let Some(reason) = session.place.unreachable_owner() {
        return vec![not_closed_yet(Error::unavailable(reason))];
    }
    let outcomes = match claims::deliver_notices(session) {
        Ok(outcomes) => outcomes,
        Err(error) => return vec![not_closed_yet(error)],
    };
    let mut warnings = Vec::new();
    for NoticeOutcome { result, .. } in outcomes.into_iter().filter(|outcome| outcome.notice.issue == issue) {
        match result {
            Ok(done) if done == CLOSED => *closed = Some(issue.to_owned()),
            Ok(reason) => warnings.push(format!("issue {issue} was not closed: {reason}")),
            Err(error) => warnings.push(not_closed_yet(error)),
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use waypost_core::op;

    use super::*;

    /// Returns the steps of an operation, and an answer of it as it was saved.
    fn answered(operation: &str, arguments: &Value, answer: &Value) -> (Steps, AnyAnswer) {
        let entry = op::named(operation).unwrap();
        let decoded = (entry.decode)(arguments).unwrap();
        (Steps::around(&*decoded, None), (entry.decode_answer)(answer).unwrap())
    }

    fn leased() -> (Steps, AnyAnswer) {
        let lease = json!({
            "subject": "a-1", "holder": null, "epoch": 1, "granted_at": "2026-01-01T00:00:00Z", "expires_at": null,
            "ttl_ms": 0, "run_until": null, "stall_at": null, "worktree_id": "wt_000000000000",
        });
        answered("lease_issue", &json!({ "issue": "a-1" }), &lease)
    }

    #[test]
    fn without_a_session_only_a_claim_fails() {
        let gone = Error::unavailable("the disk is gone");
        let (steps, mut answer) = leased();
        let error = steps.skip_after(&mut answer, &gone).unwrap_err();
        assert!(error.is_outcome_unknown() && error.full_message().contains("the lease was granted"), "{error}");
        let (steps, mut answer) = answered("end_issue_lease", &json!({ "issue": "a-1" }), &json!({ "was_held": true }));
        assert!(steps.skip_after(&mut answer, &gone).unwrap().is_empty());
    }

    #[test]
    fn the_steps_after_a_call_depend_on_its_answer() {
        let (steps, mut answer) = leased();
        assert_eq!(steps.effect(&mut answer).unwrap(), Some(IssueEffect::Claimed("a-1")));
        assert!(steps.may_follow(&mut answer).unwrap());
        let (steps, mut answer) = answered("list_agents", &json!({}), &json!({ "agents": [] }));
        assert!(!steps.may_follow(&mut answer).unwrap());
        // An answer that was not decoded says nothing about issues, and must not pass for one that affects none.
        assert!(leased().0.effect(&mut json!({ "subject": "a-1" }).into()).is_err());
    }

    #[test]
    fn a_claim_of_any_task_reads_first_unless_it_has_a_key() {
        let entry = op::named("claim_task").unwrap();
        let reads = |arguments: Value, key| Steps::around(&*(entry.decode)(&arguments).unwrap(), key).has_reads();
        assert!(reads(json!({}), None));
        assert!(!reads(json!({}), Some("k")), "the write may have been made already");
        assert!(!reads(json!({ "task": "a" }), None));
    }
}
