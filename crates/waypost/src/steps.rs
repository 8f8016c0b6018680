//! The steps around an operation of the store, the same on every surface.
//!
//! Before: a read renews the caller's leases, as every write does. A write delivers pending notices to the ledgers. If the
//! operation depends on jobs, orphaned ones are reaped and missing workspaces marked. Before a claim without a name, a read
//! finds out whether there is anything to do.
//! After: the supervisors of cancelled jobs are told, a claim waits for the ledger, a finished task closes its issue, and a
//! released issue becomes free.

use serde_json::{Value, json};
use waypost_core::op::{AnyAnswer, AnyOperation, Effect, IntoAnyOperation, IssueEffect, ListNextTasks, OperationEntry};
use waypost_core::{Error, Result};

use crate::claims::{self, CLOSED, NoticeOutcome};
use crate::jobs::{self, reap::reap_orphaned_jobs};
use crate::operation::Reply;
use crate::session::Session;
use crate::workspaces;

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
        let entry = operation.entry();
        let steps = Steps::around(entry, key, || operation.read_first());
        steps.before(self)?;
        let answer = self.run_any(key, operation)?;
        if !steps.may_follow() {
            return Ok(answer);
        }
        let mut encoded = answer.into_tree()?;
        let warnings = steps.after(self, &mut encoded)?;
        self.warnings().add(warnings);
        (entry.decode_answer)(&encoded).map_err(|error| {
            Error::internal(format!("cannot decode the answer of {}", entry.about.name)).because(error)
        })
    }

    /// Runs an operation of the table with the steps around it. Arguments and answer are JSON.
    pub(crate) fn call_json(&mut self, entry: &OperationEntry, key: Option<&str>, arguments: Value) -> Result<Reply> {
        let steps = Steps::of(entry, &arguments, key);
        steps.before(self)?;
        let mut answer = self.run_json(entry, key, arguments)?;
        let warnings = steps.after(self, &mut answer)?;
        self.warnings().add(warnings);
        Ok(Reply { answer, warnings: self.warnings().take() })
    }
}

/// The steps around one call.
pub(crate) struct Steps {
    /// Whether the call may change the ledger. A read never does.
    is_write: bool,
    depends_on_jobs: bool,
    cancels_jobs: bool,
    issues: IssueEffect,
    /// Fails if there is nothing to do.
    read_first: Option<ListNextTasks>,
}

impl Steps {
    /// Returns the steps around a call.
    pub(crate) fn of(entry: &OperationEntry, arguments: &Value, key: Option<&str>) -> Steps {
        Steps::around(entry, key, || entry.read_first.and_then(|read_first| read_first(arguments)))
    }

    fn around(entry: &OperationEntry, key: Option<&str>, read_first: impl FnOnce() -> Option<ListNextTasks>) -> Steps {
        // With a key, the write may have been made already: then the store returns its answer.
        let read_first = if key.is_none() { read_first() } else { None };
        let is_write = entry.about.effect == Effect::Write;
        let OperationEntry { depends_on_jobs, cancels_jobs, issues, .. } = *entry;
        Steps { is_write, depends_on_jobs, cancels_jobs, issues, read_first }
    }

    /// Returns whether the steps before the call need a session.
    pub(crate) fn has_reads(&self) -> bool {
        self.depends_on_jobs || self.read_first.is_some()
    }

    /// Runs the steps before the call, in the name of its caller.
    pub(crate) fn before(&self, session: &mut Session) -> Result<()> {
        if self.is_write {
            claims::deliver_pending_notices(session);
        } else {
            session.renew_leases()?;
        }
        self.reap(session)?;
        self.read_first(session)
    }

    /// Reaps orphaned jobs and marks workspaces whose directory is missing, if the call depends on them. A server does this in
    /// its own name, not in that of the caller.
    pub(crate) fn reap(&self, session: &mut Session) -> Result<()> {
        if !self.depends_on_jobs {
            return Ok(());
        }
        reap_orphaned_jobs(session)?;
        // Without it the answer is as good as the records, and a store for reading only cannot be brought up to date.
        if let Err(error) = workspaces::recover_interrupted(session) {
            log::debug!("cannot check the workspaces of this machine: {}", error.full_message());
        }
        Ok(())
    }

    /// Fails if there is nothing to do.
    pub(crate) fn read_first(&self, session: &mut Session) -> Result<()> {
        // A transition that is due may make a task ready, and the write applies it first.
        let Some(read) = self.read_first.clone() else { return Ok(()) };
        session.read_any_if_current(&*read.into_any()).map(drop)
    }

    /// Returns whether there may be steps after the call, depending on its answer.
    pub(crate) fn may_follow(&self) -> bool {
        self.cancels_jobs || self.issues != IssueEffect::None
    }

    /// Returns whether there are steps after a call with this answer.
    pub(crate) fn has_steps_after(&self, answer: &Value) -> bool {
        match self.issues {
            IssueEffect::None => self.cancels_jobs,
            IssueEffect::ClaimsIssue(pointer) | IssueEffect::ClaimsTask(pointer) | IssueEffect::Finishes(pointer) => {
                text_at(answer, pointer).is_some()
            }
            IssueEffect::Releases => true,
        }
    }

    /// Runs the steps after the call, in the name of its caller, before it is answered. Returns warnings.
    pub(crate) fn after(&self, session: &mut Session, answer: &mut Value) -> Result<Vec<String>> {
        if !self.has_steps_after(answer) {
            return Ok(Vec::new());
        }
        if self.cancels_jobs {
            jobs::stop_cancelled(session);
        }
        match self.issues {
            IssueEffect::None => Ok(Vec::new()),
            IssueEffect::ClaimsIssue(pointer) => complete_claim(session, text_at(answer, pointer)),
            IssueEffect::ClaimsTask(pointer) => {
                let task = text_at(answer, pointer).map(str::to_owned);
                let issue = task.map(|task| claims::issue_of(session, &task)).transpose();
                let issue = issue.map_err(|error| claims::incomplete_claim_error(&error))?;
                complete_claim(session, issue.flatten().as_deref())
            }
            IssueEffect::Finishes(pointer) => {
                let issue = text_at(answer, pointer).map(str::to_owned);
                Ok(issue.map_or_else(Vec::new, |issue| close_finished_issue(session, &issue, answer)))
            }
            IssueEffect::Releases => {
                // If the notice cannot be delivered now, a later command delivers it.
                claims::deliver_pending_notices(session);
                Ok(Vec::new())
            }
        }
    }

    /// Handles that there is no session for the steps after the call. A claim is not complete without them. Otherwise the
    /// call has succeeded, and a later command delivers the notice.
    pub(crate) fn skip_after(&self, error: &Error) -> Result<Vec<String>> {
        match self.issues {
            IssueEffect::ClaimsIssue(_) | IssueEffect::ClaimsTask(_) => Err(claims::incomplete_claim_error(error)),
            IssueEffect::Finishes(_) => Ok(vec![format!("the issue was not closed yet: {}", error.full_message())]),
            IssueEffect::None | IssueEffect::Releases => Ok(Vec::new()),
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
fn close_finished_issue(session: &mut Session, issue: &str, answer: &mut Value) -> Vec<String> {
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
            Ok(done) if done == CLOSED => answer["closed_issue"] = json!(issue),
            Ok(reason) => warnings.push(format!("issue {issue} was not closed: {reason}")),
            Err(error) => warnings.push(not_closed_yet(error)),
        }
    }
    warnings
}

fn text_at<'a>(answer: &'a Value, pointer: &str) -> Option<&'a str> {
    answer.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use waypost_core::op;

    use super::*;

    #[test]
    fn without_a_session_only_a_claim_fails() {
        let skip = |issues| {
            let steps = Steps { is_write: true, depends_on_jobs: false, cancels_jobs: false, issues, read_first: None };
            steps.skip_after(&Error::unavailable("the disk is gone"))
        };
        for claim in [IssueEffect::ClaimsIssue("/subject"), IssueEffect::ClaimsTask("/task_id")] {
            let error = skip(claim).unwrap_err();
            assert!(error.is_outcome_unknown() && error.full_message().contains("the lease was granted"), "{error}");
        }
        assert_eq!(skip(IssueEffect::Finishes("/issue")).unwrap(), ["the issue was not closed yet: the disk is gone"]);
        assert!(skip(IssueEffect::Releases).unwrap().is_empty());
    }

    #[test]
    fn the_steps_after_a_call_depend_on_its_answer() {
        let has_steps = |issues, answer: &Value| {
            Steps { is_write: true, depends_on_jobs: false, cancels_jobs: false, issues, read_first: None }
                .has_steps_after(answer)
        };
        let (with_issue, without) = (json!({ "task": { "issue": "a-1" } }), json!({ "task": { "issue": null } }));
        assert!(has_steps(IssueEffect::ClaimsIssue("/task/issue"), &with_issue));
        assert!(!has_steps(IssueEffect::ClaimsIssue("/task/issue"), &without));
        assert!(!has_steps(IssueEffect::None, &with_issue));
        assert!(has_steps(IssueEffect::Releases, &without));
    }

    #[test]
    fn a_claim_of_any_task_reads_first_unless_it_has_a_key() {
        let entry = op::named("claim_task").unwrap();
        let reads = |arguments: Value, key| Steps::of(entry, &arguments, key).has_reads();
        assert!(reads(json!({}), None));
        assert!(!reads(json!({}), Some("k")), "the write may have been made already");
        assert!(!reads(json!({ "task": "a" }), None));
    }
}
