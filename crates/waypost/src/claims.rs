//! Issues and leases joined: the ledger says who works on what, the store for how long.
//!
//! A claim takes the lease first and marks the ledger then; whatever ends it, the store remembers what the ledger has to
//! be told, and the next look tells it. So a crash between the two loses nothing: neither a finish nor an issue.
//!
//! Asking the store costs more than asking the index. A mark in the private directory says that there may be something
//! to ask; it is set before the first lease and taken away when nothing is left. Where others write to the store without
//! passing here, on a server or in a store of all repositories, it is asked always.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::model::{EventQuery, Lease, News, Notice, kind};
use waypost_core::op::{
    ConfirmNotice, EndIssueLease, LeaseIssue, LeaseView, ListEvents, ListLeases, ListNotices, ListWorktrees, ShowTask,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_fs::FileLock;

use crate::ledger::{Change, Ledger};
use crate::merge_driver::ensure_driver;
use crate::place::{Location, Place, Scope};
use crate::session::Session;

/// How many ready issues are tried before giving up on finding a free one.
const TRIES: u32 = 200;

/// How many claims of an issue are read to tell whether the caller held it before.
const CLAIMS_READ: u32 = 1_000;

/// What a ledger did with an issue whose task is done.
pub const CLOSED: &str = "closed";

/// Who holds an issue, and until when.
pub type Held = BTreeMap<String, (String, Timestamp)>;

/// Claims an issue: the one that is named, else the first that is ready and free. Returns its id and the lease.
pub fn claim(place: &Place, ledger: &Ledger, wanted: Option<&str>, ttl_ms: Option<u64>) -> Result<(String, Lease)> {
    let mut session = Session::open(place.clone())?;
    set_mark(place)?;
    deliver_notices(&mut session)?;
    let ids = match wanted {
        Some(wanted) => vec![ledger.with_index(|index| index.find(wanted))?],
        None => ledger.with_index(|index| index.claimable(ledger.now(), TRIES))?,
    };
    let mut last = None;
    for id in ids {
        let lease = match session.write(LeaseIssue { issue: id.clone(), ttl_ms }) {
            Ok(lease) => lease,
            Err(error) if wanted.is_none() && error.kind() == Kind::Conflict => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        // Somebody may have taken it away meanwhile, seeing no lease.
        set_mark(place)?;
        match ledger.apply(&[Change::Claim(Some(id.clone()))]) {
            Ok(_) => return Ok((id, lease)),
            Err(error) => {
                // The ledger knows better, so the lease was for nothing.
                let reason = Some("the ledger did not allow the claim".to_owned());
                session.write(EndIssueLease { issue: id, force: false, reason })?;
                if wanted.is_some() || error.kind() != Kind::Conflict {
                    return Err(error);
                }
                last = Some(error);
            }
        }
    }
    let nothing = Error::new(Kind::NothingToDo, "nothing is ready");
    Err(match last {
        Some(error) => nothing.because(error.full_message()).hint("others were faster; try again"),
        None => nothing.hint("way ready --explain says why"),
    })
}

/// Completes the claim of a task or an issue. Call it after the lease was granted and before the claim is answered.
///
/// [`require_claims`] runs under the ledger's lock. A change that did not see the lease took the lock before this call, so
/// it is in the ledger when this returns. Returns a warning if the issue is over by then.
pub fn complete_claim(place: &Place, issue: Option<&str>) -> Result<Option<String>> {
    // Another command may have taken the mark away before the lease was granted.
    set_mark(place)?;
    let Some(issue) = issue.filter(|_| place.checkout.is_some()) else { return Ok(None) };
    let ledger = Ledger::of(place)?;
    let not_complete = |error: Error| error.hint("the lease was granted: the same agent can claim it again, by its id");
    ledger.wait_for_changes(issue).map_err(not_complete)?;
    let Ok(found) = ledger.get(issue) else { return Ok(None) };
    let is_over = found.id == issue && ledger.terms().statuses.category(&found.status).is_over();
    Ok(is_over.then(|| format!("issue {issue} is {}", found.status)))
}

/// Returns the issue that a task stands for.
pub fn issue_of(session: &mut Session, task: &str) -> Result<Option<String>> {
    Ok(session.read(ShowTask { task: task.to_owned(), workflow: None })?.task.task.issue)
}

/// Ends the caller's leases on issues that were given back or are over; those of others too, where that was forced.
pub fn release(place: &Place, issues: &[(String, bool)], why: &str) -> Result<()> {
    if !is_marked(place) {
        return Ok(());
    }
    let mut session = Session::open(place.clone())?;
    for (issue, force) in issues {
        let mut release = |force| {
            let reason = Some(why.to_owned());
            session.write(EndIssueLease { issue: issue.clone(), force, reason })
        };
        let released = match release(*force) {
            // A server lets agents end what is theirs, and nothing else.
            Err(error) if *force && error.kind() == Kind::Refused => release(false),
            released => released,
        };
        match released {
            // Another agent claimed it since, or holds it beside the caller.
            Err(error) if error.kind() != Kind::Conflict => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses changes that belong to the holders of issues to everybody else.
///
/// It is called under the lock of the issues' ledger. A claim takes the lease first and the ledger's lock then, and is
/// answered after both. So either its lease is seen here, or the claim finds the issue as this change leaves it.
pub fn require_claims(place: &Place, issues: &[String]) -> Result<()> {
    if !is_marked(place) {
        return Ok(());
    }
    let mut session = Session::open(place.clone())?;
    let leases = concerning_issues(&mut session)?;
    let us = place.agent().unwrap_or_else(|| place.actor());
    for issue in issues {
        let held: Vec<&LeaseView> = leases.iter().filter(|seen| seen.issue.as_ref() == Some(issue)).collect();
        if let Some(other) = held.first()
            && held.iter().all(|seen| seen.holder_name != us)
        {
            return Err(not_holder_error(&mut session, issue, other)?);
        }
    }
    Ok(())
}

/// Says who holds an issue, to one who does not: as a lost lease, if it held the issue before.
fn not_holder_error(session: &mut Session, issue: &str, lease: &LeaseView) -> Result<Error> {
    let (holder, until) = (&lease.holder_name, lease.lease.expires_at);
    let actor = session.caller().actor.clone();
    let mut was_ours = false;
    for (kind, subject) in [(kind::ISSUE_CLAIMED, issue), (kind::TASK_CLAIMED, lease.lease.subject.as_str())] {
        let (kind, subject) = (Some(kind.to_owned()), Some(subject.to_owned()));
        let query = EventQuery { since: None, worktree_id: None, kind, subject, limit: CLAIMS_READ };
        was_ours |= session.read(ListEvents { query })?.events.iter().any(|event| event.actor == actor);
    }
    let error = if was_ours {
        let message = format!("{actor} does not hold issue {issue} any more: {holder} does, until {until}");
        Error::new(Kind::LeaseLost, message).hint("stop working on it: way ready shows what is free")
    } else {
        Error::conflict(format!("issue {issue} is held by {holder} until {until}"))
    };
    Ok(error.hint("a person can do it all the same: --force"))
}

/// Returns the issues that somebody else holds, after telling the ledger what it has to know.
pub fn held_by_others(place: &Place) -> Result<Held> {
    if !is_marked(place) {
        return Ok(Held::new());
    }
    let mut session = Session::open(place.clone())?;
    deliver_notices(&mut session)?;
    let us = place.agent().unwrap_or_else(|| place.actor());
    let held = concerning_issues(&mut session)?;
    if held.is_empty() {
        clear_mark(place, &mut session)?;
    }
    let others = held.into_iter().filter(|seen| seen.holder_name != us);
    Ok(others.filter_map(|seen| Some((seen.issue?, (seen.holder_name, seen.lease.expires_at)))).collect())
}

/// Returns the leases that let tasks or people change issues: those on issues, and those on tasks that stand for one.
fn concerning_issues(session: &mut Session) -> Result<Vec<LeaseView>> {
    let mut leases = session.read(ListLeases {})?.leases;
    leases.retain(|seen| seen.issue.is_some());
    Ok(leases)
}

/// Something the ledger was told.
#[derive(Clone, Debug)]
pub struct NoticeOutcome {
    /// What.
    pub notice: Notice,
    /// What it did, or why it could not.
    pub result: Result<String>,
}

/// Tells the ledger what became of its issues, in the name of who did it. What belongs to other ledgers waits for them.
pub fn deliver_notices(session: &mut Session) -> Result<Vec<NoticeOutcome>> {
    let notices = session.read(ListNotices {})?.notices;
    if notices.is_empty() || session.place.checkout.is_none() {
        return Ok(Vec::new());
    }
    let worktrees = session.read(ListWorktrees {})?.worktrees;
    let repository = session.repository().id.clone();
    let is_ours = |notice: &Notice| {
        let worktree = worktrees.iter().find(|worktree| worktree.id == notice.worktree_id);
        worktree.is_some_and(|worktree| worktree.repository_id == repository)
    };
    let mut told = Vec::new();
    for notice in notices {
        let result = match tell_one(session, &notice) {
            Ok(result) => Ok(result),
            // It is not here, and will not be later either.
            Err(error) if error.kind() == Kind::NotFound && is_ours(&notice) => Ok(error.full_message()),
            Err(error) if error.kind() == Kind::NotFound => continue,
            // Somebody closed, deleted or released it already.
            Err(error) if error.kind() == Kind::Conflict => Ok(error.full_message()),
            Err(error) => Err(error),
        };
        if let Ok(result) = result.clone() {
            let (issue, created_at) = (notice.issue.clone(), notice.created_at);
            session.write(ConfirmNotice { issue, created_at, result })?;
        }
        told.push(NoticeOutcome { notice, result });
    }
    Ok(told)
}

/// Tells the ledger one thing, and returns what it did.
///
/// A claim of the issue removes the notice in the store, and takes the ledger's lock then. So the notice counts only if it
/// is still there under that lock: otherwise another agent holds the issue by now, or another command told the ledger.
fn tell_one(session: &mut Session, notice: &Notice) -> Result<String> {
    let place = session.place.in_name_of(&notice.actor);
    let ledger = Ledger::of(&place)?;
    let issue = ledger.get(&notice.issue)?;
    if issue.id != notice.issue {
        return Err(Error::not_found(format!("there is no issue {:?}", notice.issue)));
    }
    let (change, done) = match notice.news {
        News::Finished => (Change::Close(issue.id, Some(notice.reason.clone())), CLOSED),
        News::Abandoned if issue.assignee.as_deref() == Some(notice.actor.as_str()) => {
            (Change::Release(issue.id, true), "released")
        }
        News::Abandoned => return Ok("somebody else has it by now".to_owned()),
    };
    let is_told = ledger.transaction_about(&notice.issue, |transaction| {
        let is_current = session.read(ListNotices {})?.notices.contains(notice);
        if is_current {
            transaction.apply(&change)?;
        }
        Ok(is_current)
    })?;
    ensure_driver(&place);
    Ok(if is_told { done } else { "it was claimed again, or another command told the ledger" }.to_owned())
}

/// Says that there may be something to ask the store about. Call it before anything is written there.
pub fn set_mark(place: &Place) -> Result<()> {
    let Some(mark) = mark(place) else { return Ok(()) };
    if mark.exists() {
        return Ok(());
    }
    let cannot = |error: std::io::Error| Error::unavailable(format!("cannot write {}", mark.display())).because(error);
    waypost_fs::replace(&mark, b"", 0o600).map_err(cannot)
}

/// Takes the mark away if there is nothing to ask the store about.
///
/// A claim sets it before and after its lease, so one of both comes after this, or the lease is seen here. While the mark
/// is away and may come back, a lock file stands for it.
fn clear_mark(place: &Place, session: &mut Session) -> Result<()> {
    let Some(mark) = mark(place).filter(|mark| mark.exists()) else { return Ok(()) };
    let lock = lock_of(&mark);
    // Another command is at it.
    let Ok(held) = FileLock::acquire(&lock, Duration::ZERO) else { return Ok(()) };
    if !has_news(session)? {
        match std::fs::remove_file(&mark) {
            Err(error) if error.kind() != ErrorKind::NotFound => log::debug!("{} stays: {error}", mark.display()),
            _ => {}
        }
        if has_news(session)? {
            set_mark(place)?;
        }
    }
    held.remove(&lock);
    Ok(())
}

/// Tells whether the store has leases on issues, or something to tell their ledger.
fn has_news(session: &mut Session) -> Result<bool> {
    Ok(!concerning_issues(session)?.is_empty() || !session.read(ListNotices {})?.notices.is_empty())
}

fn is_marked(place: &Place) -> bool {
    let Ok(choice) = place.store() else { return false };
    match choice.location {
        Location::Sqlite(_) if matches!(choice.scope, Some(Scope::Repo | Scope::Worktree)) => {
            // In this order: between both looks at the mark its lock file can have taken its place and gone.
            mark(place).is_some_and(|mark| mark.exists() || lock_of(&mark).exists() || mark.exists())
        }
        Location::Sqlite(path) => path.exists(),
        Location::UnnamedSqlite => false,
        Location::Postgres(_) | Location::Server(_) => true,
    }
}

fn lock_of(mark: &Path) -> PathBuf {
    mark.with_extension("lock")
}

fn mark(place: &Place) -> Option<PathBuf> {
    place.checkout.as_ref().map(|checkout| checkout.private_dir.join("issue-leases"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waypost_core::op::{ClaimTask, CreateWorkflow, FinishTask};

    use super::*;
    use crate::issue_ops;
    use crate::jobs::{self, Request, Settings};
    use crate::ledger::{Edit, place_of};

    /// Makes an issue and a task `fix` that stands for it.
    fn issue_with_task(place: &Place) -> String {
        let edit = Edit { title: Some("Fix it".to_owned()), ..Edit::default() };
        let issue = Ledger::of(place).unwrap().add(&edit).unwrap();
        let plan = json!({ "tasks": [{ "name": "fix", "issue": issue }] });
        let workflow = json!({ "name": "w", "plan": plan, "start": true });
        session(place, "cyd").write(serde_json::from_value::<CreateWorkflow>(workflow).unwrap()).unwrap();
        issue
    }

    fn session(place: &Place, agent: &str) -> Session {
        Session::open(place.used_by(agent, Some(agent))).unwrap()
    }

    fn close(place: &Place, agent: &str, issue: &str) -> Result<Value> {
        let entry = issue_ops::named("close_issue").unwrap();
        (entry.run)(&place.used_by(agent, Some(agent)), json!({ "issue": issue }), None)
    }

    #[test]
    fn an_agent_whose_job_works_on_a_task_holds_the_issue() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let issue = issue_with_task(&place);
        let request = Request {
            kind: "agent".to_owned(),
            description: String::new(),
            input: Value::Null,
            command: vec!["true".to_owned()],
            repository: None,
            task: None,
            workflow: None,
            epoch: None,
            next: true,
            repositories: Vec::new(),
            machine: None,
            settings: Settings::default(),
            retry_of: None,
        };
        jobs::create(&mut session(&place, "ann"), request).unwrap();
        assert_eq!(close(&place, "bob", &issue).unwrap_err().kind(), Kind::Conflict);
        close(&place, "ann", &issue).unwrap();
    }

    #[test]
    fn a_finish_does_not_close_an_issue_that_was_claimed_before_the_ledger_was_told() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let issue = issue_with_task(&place);
        let mut ann = session(&place, "ann");
        ann.write(ClaimTask { task: None, workflow: None, ttl_ms: None, budget: None }).unwrap();
        let finish = json!({ "task": "fix", "outcome": "done" });
        ann.write(serde_json::from_value::<FinishTask>(finish).unwrap()).unwrap();
        // The command that finished the task has read the notice, and is about to take the ledger's lock.
        let notice = ann.read(ListNotices {}).unwrap().notices.remove(0);
        let bob = place.used_by("bob", Some("bob"));
        session(&place, "bob").write(LeaseIssue { issue: issue.clone(), ttl_ms: None }).unwrap();
        Ledger::of(&bob).unwrap().apply(&[Change::Claim(Some(issue.clone()))]).unwrap();
        assert_ne!(tell_one(&mut ann, &notice).unwrap(), CLOSED);
        let found = Ledger::of(&place).unwrap().get(&issue).unwrap();
        assert_eq!((found.status.as_str(), found.assignee.as_deref()), ("in_progress", Some("bob")));
    }
}
