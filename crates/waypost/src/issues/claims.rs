//! Claims of issues: the ledger records the assignee, the store the lease.
//!
//! A claim acquires the lease first and then changes the ledger. When a lease ends, the store keeps a notice for the
//! ledger. The next command that writes, or `way sync`, delivers it; until then, queries answer as if it were delivered,
//! because reading must not change a tracked file. So a crash between the two loses neither a finish nor an issue.
//!
//! Where no store exists, no agent holds anything, and nothing here creates one before the first claim.

use std::collections::BTreeMap;

use waypost_core::ledger::ready::Reason;
use waypost_core::model::{DeferredChanges, EventQuery, Lease, News, Notice, Role, Worktree, describe_end, kind};
use waypost_core::op::{
    ConfirmChanges, ConfirmNotice, EndIssueLease, LeaseIssue, LeaseView, ListEvents, ListLeases, ListNotices,
    ListWorktrees, NoticeList, ShowAgent, ShowTask,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_ledger::{Index, Summary, Window};

use crate::app::lazy_session::LazySession;
use crate::app::session::Session;
use crate::issues::ledger::{Applied, Change, Ledger, Record};
use crate::issues::merge_driver::ensure_driver;
use crate::machine::place::Place;

/// Maximum number of ready issues to try when claiming any.
const MAX_CLAIM_ATTEMPTS: u32 = 200;

/// Maximum number of events read to find out whether the caller held an issue before.
const MAX_CLAIM_EVENTS: u32 = 1_000;

/// How long a notice waits for an issue that the checked-out ledger does not have.
const MAX_NOTICE_AGE_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The outcome of a notice that closed the issue.
pub(crate) const CLOSED: &str = "closed";

/// The holder of each issue, and when its lease expires.
pub(crate) type Held = BTreeMap<String, (String, Timestamp)>;

/// Claims an issue: the named one, else the first ready and free one. Returns its record with the number of its ledger, and
/// the lease. Pending notices should be delivered already ([`bring_up_to_date`]): an issue that has one is not free.
pub(crate) fn claim(
    session: &LazySession,
    ledger: &Ledger,
    issue: Option<&str>,
    ttl_ms: Option<u64>,
) -> Result<((Record, usize), Lease)> {
    let ids = match issue {
        Some(issue) => vec![ledger.with_index(|index| index.find(issue))?],
        None => {
            ledger.with_index(|index| index.claimable_except(ledger.protected(), ledger.now(), MAX_CLAIM_ATTEMPTS))?
        }
    };
    let mut last = None;
    for id in ids {
        let leased = session.open()?.write(LeaseIssue { issue: id.clone(), ttl_ms });
        let lease = match leased {
            Ok(lease) => lease,
            Err(error) if issue.is_none() && error.kind() == Kind::Conflict => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let claim = Change::Claim(Some(id.clone()));
        match ledger.apply_placed(&[("", &claim)], false, session, |_| Ok(())) {
            Ok(Applied { mut records, .. }) => {
                let record = records.pop().ok_or_else(|| Error::internal("a claim changed no issue"))?;
                return Ok((record, lease));
            }
            Err(error) => {
                // The ledger refused the claim, so end the lease.
                let reason = Some("the ledger refused the claim".to_owned());
                session.open()?.write(EndIssueLease { issue: id, force: false, reason })?;
                if issue.is_some() || error.kind() != Kind::Conflict {
                    return Err(error);
                }
                last = Some(error);
            }
        }
    }
    let nothing_ready = Error::new(Kind::NothingToDo, "nothing is ready");
    Err(match last {
        Some(error) => {
            nothing_ready.because(error.full_message()).hint("other agents claimed the ready issues first; try again")
        }
        None => nothing_ready.hint("way ready --explain shows the reasons"),
    })
}

/// Completes the claim of a task or an issue. Call it after the lease is granted and before the claim is answered.
///
/// [`require_claims`] runs under the ledger's lock. A change that did not see the lease took the lock before this call,
/// so it is in the ledger when this returns. Returns a warning if the issue is closed or deleted by then.
pub(crate) fn complete_claim(place: &Place, issue: Option<&str>) -> Result<Option<String>> {
    let Some(issue) = issue.filter(|_| place.checkout.is_some()) else { return Ok(None) };
    let ledger = Ledger::of(place)?;
    ledger.wait_for_changes(issue)?;
    let Ok(found) = ledger.get(issue) else { return Ok(None) };
    let is_over = found.id == issue && ledger.terms().statuses.category(&found.status).is_over();
    Ok(is_over.then(|| format!("issue {issue} is {}", found.status)))
}

/// Returns the error for a lease that was granted although the claim could not be completed.
pub(crate) fn incomplete_claim_error(error: &Error) -> Error {
    Error::new(error.kind(), "the lease was granted, but the claim was not completed")
        .because(error.full_message())
        .hint("the same agent can claim it again by id")
        .outcome_unknown()
}

/// Returns the issue of a task.
pub(crate) fn issue_of(session: &mut Session, task: &str) -> Result<Option<String>> {
    Ok(session.read(ShowTask { task: task.to_owned(), ..ShowTask::default() })?.task.task.issue)
}

/// Ends the caller's leases on issues that were released, closed or deleted; where forced, also those of others. Returns
/// whether there was one.
pub(crate) fn release(session: &LazySession, issues: &[(String, bool)], reason: &str) -> Result<bool> {
    let mut was_held = false;
    let Some(mut session) = session.open_existing()? else { return Ok(was_held) };
    for (issue, force) in issues {
        let mut release = |force| {
            let reason = Some(reason.to_owned());
            session.write(EndIssueLease { issue: issue.clone(), force, reason })
        };
        let released = match release(*force) {
            // A server lets agents end only their own leases.
            Err(error) if *force && error.kind() == Kind::Refused => release(false),
            released => released,
        };
        match released {
            // Another agent has claimed it since, or holds it beside the caller.
            Err(error) if error.kind() != Kind::Conflict => return Err(error),
            Err(_) => {}
            Ok(ended) => was_held |= ended.was_held,
        }
    }
    Ok(was_held)
}

/// Refuses changes to issues that other agents hold.
///
/// It runs under the lock of the issues' ledger. A claim acquires the lease first and then the ledger's lock, and is
/// answered after both. So either this call sees the lease, or the claim sees the issue after this change.
pub(crate) fn require_claims(session: &LazySession, issues: &[String]) -> Result<()> {
    let Some(mut session) = session.open_existing()? else { return Ok(()) };
    let own_name = session.caller().name().to_owned();
    require_claims_of(&mut session, &own_name, issues)
}

/// Refuses changes of an author to issues that other agents hold.
fn require_claims_of(session: &mut Session, own_name: &str, issues: &[String]) -> Result<()> {
    if issues.is_empty() {
        return Ok(());
    }
    let leases = issue_leases(session)?;
    for issue in issues {
        let held: Vec<&LeaseView> = leases.iter().filter(|seen| seen.issue.as_ref() == Some(issue)).collect();
        if let Some(other) = held.first()
            && held.iter().all(|seen| seen.holder_name != own_name)
        {
            return Err(not_holder_error(session, own_name, issue, other)?);
        }
    }
    Ok(())
}

/// Returns the error for a caller that does not hold an issue: a lost lease if it held the issue before, else a
/// conflict.
fn not_holder_error(session: &mut Session, actor: &str, issue: &str, lease: &LeaseView) -> Result<Error> {
    let (holder, until) = (&lease.holder_name, lease.lease.end());
    let mut was_holder = false;
    for (kind, subject) in [(kind::ISSUE_CLAIMED, issue), (kind::TASK_CLAIMED, lease.lease.subject.as_str())] {
        let (kind, subject) = (Some(kind.to_owned()), Some(subject.to_owned()));
        let query = EventQuery { since: None, worktree_id: None, kind, subject, limit: MAX_CLAIM_EVENTS, after: None };
        was_holder |= session.read(ListEvents { query })?.events.iter().any(|event| event.actor == actor);
    }
    let error = if was_holder {
        let message = format!("{actor} does not hold issue {issue} any more: {holder} does, until {until}");
        Error::new(Kind::LeaseLost, message).hint("stop working on it; way ready lists free issues")
    } else {
        Error::conflict(format!("issue {issue} is held by {holder} until {until}"))
    };
    Ok(error.hint("a person can override this with --force"))
}

/// Prepares a ledger for queries: they answer as if all pending notices were delivered. Returns the issues that others
/// hold.
pub(crate) fn held_by_others(session: &mut Session, ledger: &Ledger) -> Result<Held> {
    if session.is_absent() {
        return Ok(Held::new());
    }
    let (NoticeList { notices, .. }, leases) = session.notices_and_leases()?;
    ledger.set_notices(notices);
    let own_name = session.caller().name().to_owned();
    let others = leases.into_iter().filter(|seen| seen.holder_name != own_name);
    Ok(others.filter_map(|seen| Some((seen.issue?, (seen.holder_name, seen.lease.expires_at)))).collect())
}

/// Brings store and ledgers up to date before the ledgers are changed: renews the caller's leases, and delivers pending notices.
/// A notice that cannot be delivered now stays in the store, and a later command tries again.
pub(crate) fn bring_up_to_date(session: &LazySession, ledger: &Ledger) {
    let renewed = session.open_existing().and_then(|session| {
        session.map_or(Ok(()), |mut session| {
            let (pending, _) = session.notices_and_leases()?;
            deliver(&mut session, pending).map(drop)
        })
    });
    if let Err(error) = renewed {
        log::debug!("cannot use the store before a change: {}", error.full_message());
    }
    ledger.set_notices(Vec::new());
}

/// Delivers pending notices to the ledgers. A failure is logged: a later command tries again.
pub(crate) fn deliver_pending_notices(session: &mut Session) {
    if let Err(error) = deliver_notices(session) {
        log::debug!("cannot deliver notices to the ledger: {}", error.full_message());
    }
}

/// Returns the ready issues that the user may claim and no other agent holds, at most `limit`. If types are named, only
/// issues of these types, even of records that are not work.
pub(crate) fn ready(
    index: &Index,
    ledger: &Ledger,
    held: &Held,
    types: &[String],
    window: Window,
) -> Result<Vec<Summary>> {
    let limit = window.limit;
    let window = Window { limit: limit.map(|limit| limit.saturating_add(held.len())), ..window };
    let (protected, now) = (ledger.protected(), ledger.now());
    let mut ready = if types.is_empty() {
        index.ready_except(protected, now, window)?
    } else {
        index.ready_of_types(types, protected, now, window)?
    };
    ready.retain(|issue| !held.contains_key(&issue.id));
    ready.truncate(limit.unwrap_or(usize::MAX));
    Ok(ready)
}

/// Returns the blocked issues, each with its blockers.
pub fn blocked(index: &Index, now: Timestamp, window: Window) -> Result<Vec<(Summary, Vec<String>)>> {
    let is_blocker =
        |reason: &&Reason| matches!(reason, Reason::BlockedBy(_) | Reason::Unresolved(_) | Reason::Ancestor(_));
    let blocked = index.blocked(now, window)?;
    let obstacles = index.all_obstacles(blocked.iter().map(|summary| summary.id.as_str()), now)?;
    let reasons =
        obstacles.iter().map(|obstacles| obstacles.iter().filter(is_blocker).map(ToString::to_string).collect());
    Ok(blocked.into_iter().zip(reasons).collect())
}

/// Returns the reasons why an issue of a ledger is not ready for the caller, including that another agent holds it and that
/// the user may not write the ledger.
pub(crate) fn reasons(ledger: &Ledger, number: usize, held: &Held, id: &str, obstacles: &[Reason]) -> Vec<String> {
    let lease = held.get(id).map(|(holder, until)| format!("leased to {holder} until {}", describe_end(*until)));
    let protected = (!ledger.may_write(number)).then(|| "you may not write its ledger".to_owned());
    obstacles.iter().map(ToString::to_string).chain(lease).chain(protected).collect()
}

/// Returns the leases on issues, and those on tasks that are linked to an issue.
fn issue_leases(session: &mut Session) -> Result<Vec<LeaseView>> {
    let mut leases = session.read(ListLeases {})?.leases;
    leases.retain(|seen| seen.issue.is_some());
    Ok(leases)
}

/// A notice that was delivered to the ledger, or could not be.
#[derive(Clone, Debug)]
pub(crate) struct NoticeOutcome {
    /// The notice.
    pub notice: Notice,
    /// The action of the ledger, or the error.
    pub result: Result<String>,
}

/// Delivers notices to the ledger, with the actor of the notice as author. Notices for other ledgers stay in the store.
pub(crate) fn deliver_notices(session: &mut Session) -> Result<Vec<NoticeOutcome>> {
    if session.is_absent() {
        return Ok(Vec::new());
    }
    let pending = session.read(ListNotices {})?;
    deliver(session, pending)
}

/// Delivers notices and deferred changes that the store has.
fn deliver(session: &mut Session, NoticeList { notices, deferred }: NoticeList) -> Result<Vec<NoticeOutcome>> {
    // A workspace's copy of the ledger is not the ledger: a command that reaches it delivers them.
    if (notices.is_empty() && deferred.is_empty())
        || session.place.checkout.is_none()
        || session.place.unreachable_owner().is_some()
    {
        return Ok(Vec::new());
    }
    let worktrees = session.read(ListWorktrees::all())?.worktrees;
    let repository = session.repository().id.clone();
    let is_own_repository = |notice: &Notice| {
        let worktree = worktrees.iter().find(|worktree| worktree.id == notice.worktree_id);
        worktree.is_some_and(|worktree| worktree.repository_id == repository)
    };
    let is_own = |deferred: &&DeferredChanges| {
        let worktree = worktrees.iter().find(|worktree| worktree.id == deferred.worktree_id);
        worktree.is_some_and(|worktree| worktree.repository_id == repository)
    };
    deliver_changes(session, deferred.iter().filter(is_own))?;
    let mut outcomes = Vec::new();
    let (now, own_worktree) = (session.now()?, session.worktree().id.clone());
    let has_own_ledger = session.place.config.text("ledger.home").is_some_and(|home| home == "branch");
    for notice in notices {
        // Each worktree has a ledger of its own, and a command there delivers the notice.
        let is_elsewhere = |worktree: &Worktree| {
            let is_of_it = worktree.id == notice.worktree_id && worktree.id != own_worktree;
            is_of_it && worktree.removed_at.is_none() && worktree.path.is_dir()
        };
        if has_own_ledger && is_own_repository(&notice) && worktrees.iter().any(is_elsewhere) {
            continue;
        }
        let is_old = notice.created_at.plus(MAX_NOTICE_AGE_MS) <= now;
        let result = match deliver_notice(session, &notice) {
            Ok(result) => Ok(result),
            // A branch that is not checked out now may have the issue, but not for ever.
            Err(error) if error.kind() == Kind::NotFound && is_own_repository(&notice) => {
                if is_old {
                    Ok(error.full_message())
                } else {
                    Err(error)
                }
            }
            Err(error) if error.kind() == Kind::NotFound => continue,
            // It is already closed, deleted or released.
            Err(error) if error.kind() == Kind::Conflict => Ok(error.full_message()),
            Err(error) => Err(error),
        };
        if let Ok(result) = result.clone() {
            let (issue, created_at) = (notice.issue.clone(), notice.created_at);
            session.write(ConfirmNotice { issue, created_at, result })?;
        }
        outcomes.push(NoticeOutcome { notice, result });
    }
    Ok(outcomes)
}

/// Makes deferred changes in the ledger, in their order, with their authors. What the ledger refuses is reported.
///
/// If this process ends between the change and its confirmation, the next one finds that the ledger has the change, and only
/// confirms it. Ids of new issues and comments derive from the key.
fn deliver_changes<'a>(session: &mut Session, deferred: impl Iterator<Item = &'a DeferredChanges>) -> Result<()> {
    for deferred in deferred {
        let place = session.place.in_name_of(&deferred.actor);
        let ledger = Ledger::of(&place);
        let (author, by_agent) = author_of(session, deferred)?;
        let delivered = ledger.as_ref().map_err(Error::clone).and_then(|ledger| {
            ledger.apply_deferred(deferred, by_agent, |issues| {
                let is_current = session.read(ListNotices {})?.deferred.contains(deferred);
                if is_current {
                    require_claims_of(session, &author, issues)?;
                }
                Ok(is_current)
            })
        });
        let result = match delivered {
            Ok(true) => "delivered".to_owned(),
            // Another command delivered them.
            Ok(false) => continue,
            Err(error) if error.kind() == Kind::Unavailable => return Err(error),
            Err(error) => {
                let (actor, why) = (&deferred.actor, error.full_message());
                session
                    .warnings()
                    .add([format!("the ledger refused a change that {actor} made in a workspace: {why}")]);
                why
            }
        };
        ensure_driver(&place);
        session.write(ConfirmChanges { key: deferred.key.clone(), result })?;
        if let Some(Err(error)) = ledger.ok().map(|ledger| ledger.forget_deferred(deferred)) {
            log::debug!("cannot forget a delivered change: {}", error.full_message());
        }
    }
    Ok(())
}

/// Returns who stored deferred changes, and whether that is an agent. The history tells: its actor comes from the caller.
fn author_of(session: &mut Session, deferred: &DeferredChanges) -> Result<(String, bool)> {
    let (kind, subject) = (Some(kind::ISSUES_DEFERRED.to_owned()), Some(deferred.key.clone()));
    let query = EventQuery { since: None, worktree_id: None, kind, subject, limit: 1, after: None };
    let stored = session.read(ListEvents { query })?.events.pop();
    let author = stored.map_or_else(|| deferred.actor.clone(), |event| event.actor);
    let by_agent = match session.read(ShowAgent { agent: author.clone() }) {
        Ok(view) => view.agent.role != Role::Human,
        Err(error) if error.kind() == Kind::NotFound => false,
        Err(error) => return Err(error),
    };
    Ok((author, by_agent))
}

/// Delivers one notice, and returns the outcome.
///
/// A claim of the issue removes the notice from the store and then takes the ledger's lock. So the notice is valid only
/// if it still exists under that lock: otherwise another agent holds the issue by now, or another command delivered it.
fn deliver_notice(session: &mut Session, notice: &Notice) -> Result<String> {
    let place = session.place.in_name_of(&notice.actor);
    let ledger = Ledger::of(&place)?;
    let issue = ledger.get(&notice.issue)?;
    if issue.id != notice.issue {
        return Err(Error::not_found(format!("there is no issue {:?}", notice.issue)));
    }
    let Some(change) = Change::of_notice(notice, &issue) else {
        return Ok("the issue has another assignee by now".to_owned());
    };
    let done = if notice.news == News::Finished { CLOSED } else { "released" };
    let applied = ledger.transaction_about(&notice.issue, |transaction| {
        let is_current = session.read(ListNotices {})?.notices.contains(notice);
        if is_current {
            transaction.apply(&change)?;
        }
        Ok(is_current)
    });
    let is_applied = match applied {
        // The work is done, and the maintainers close the issue.
        Err(error) if error.kind() == Kind::Refused && ledger.protected().is_some() => return Ok(error.full_message()),
        applied => applied?,
    };
    ensure_driver(&place);
    Ok(if is_applied { done } else { "it was claimed again, or another command delivered the notice" }.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waypost_core::op::{AddWorkflow, ClaimTask, DeferChanges, FinishTask, RetireAgent};

    use super::*;
    use crate::app::operation::AppContext;
    use crate::issues::ledger::{DependencyKind, Edit, Filter, New, Sort, place_of};
    use crate::ops;
    use crate::work::jobs::{self, Request, Settings};

    /// Creates an issue and a task `fix` for it.
    fn issue_with_task(place: &Place) -> String {
        let edit = Edit { title: Some("Fix it".to_owned()), ..Edit::default() };
        let issue = Ledger::of(place).unwrap().add(&edit).unwrap();
        let plan = json!({ "tasks": [{ "name": "fix", "issue": issue }] });
        let workflow = json!({ "name": "w", "plan": plan, "start": true });
        session(place, "cyd").write(serde_json::from_value::<AddWorkflow>(workflow).unwrap()).unwrap();
        issue
    }

    fn session(place: &Place, agent: &str) -> Session {
        Session::open(place.used_by(agent, Some(agent))).unwrap()
    }

    fn close(place: &Place, agent: &str, issue: &str) -> Result<Value> {
        let entry = ops::all().find(|entry| entry.about.name == "close_issue").unwrap();
        (entry.run)(&mut AppContext::new(&place.used_by(agent, Some(agent)), None), &json!({ "issue": issue }))
    }

    #[test]
    fn an_agent_whose_job_works_on_a_task_holds_the_issue() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let issue = issue_with_task(&place);
        let request = Request {
            kind: "agent".to_owned(),
            command: vec!["true".to_owned()],
            next: true,
            settings: Settings::default(),
            ..Request::default()
        };
        jobs::create(&mut session(&place, "ann"), request).unwrap();
        assert_eq!(close(&place, "bob", &issue).unwrap_err().kind(), Kind::Conflict);
        close(&place, "ann", &issue).unwrap();
    }

    #[test]
    fn a_finished_issue_cannot_be_claimed_before_its_ledger_is_updated() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let issue = issue_with_task(&place);
        let mut ann = session(&place, "ann");
        ann.write(ClaimTask::default()).unwrap();
        let finish = json!({ "task": "fix", "outcome": "done" });
        ann.write(serde_json::from_value::<FinishTask>(finish).unwrap()).unwrap();
        // The command that finished the task has read the notice, and is about to take the ledger's lock.
        let notice = ann.read(ListNotices {}).unwrap().notices.remove(0);
        let refused = session(&place, "bob").write(LeaseIssue { issue: issue.clone(), ttl_ms: None }).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
        assert_eq!(deliver_notice(&mut ann, &notice).unwrap(), CLOSED);
    }

    #[test]
    fn an_abandoned_issue_that_was_claimed_before_the_notice_was_delivered_is_not_released() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let issue = issue_with_task(&place);
        let lease = || LeaseIssue { issue: issue.clone(), ttl_ms: None };
        let mut ann = session(&place, "ann");
        ann.write(lease()).unwrap();
        let of_ann = place.used_by("ann", Some("ann"));
        Ledger::of(&of_ann).unwrap().apply(&[Change::Claim(Some(issue.clone()))]).unwrap();
        ann.write(RetireAgent { agent: None }).unwrap();
        let notice = ann.read(ListNotices {}).unwrap().notices.remove(0);
        // Another command has read the notice, and is about to take the ledger's lock.
        let mut bob = session(&place, "bob");
        bob.write(lease()).unwrap();
        assert!(deliver_notice(&mut bob, &notice).unwrap().starts_with("it was claimed again"));
        assert_eq!(Ledger::of(&place).unwrap().get(&issue).unwrap().status, "in_progress");
    }

    #[test]
    fn deferred_changes_that_are_made_twice_add_nothing_twice() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let mut ann = session(&place, "ann");
        let edit = Edit { title: Some("New".to_owned()), ..Edit::default() };
        let issue = Ledger::of(&place).unwrap().add(&edit).unwrap();
        let changes = [Change::Add(edit.into()), Change::Comment(issue.clone(), "Once".to_owned())];
        let changes = serde_json::to_value(changes).unwrap();
        let deferred = ann.write(DeferChanges { key: "k".to_owned(), changes }).unwrap();
        // A process that ends after the change and before its confirmation.
        let ledger = Ledger::of(&place).unwrap();
        assert!(ledger.apply_deferred(&deferred, true, |_| Ok(true)).unwrap());
        deliver_notices(&mut ann).unwrap();
        assert!(ann.read(ListNotices {}).unwrap().deferred.is_empty());
        let ledger = Ledger::of(&place).unwrap();
        assert_eq!(ledger.list(&Filter::default(), Sort::Priority).unwrap().len(), 2);
        assert_eq!(ledger.get(&issue).unwrap().comments.len(), 1);
        // Another command delivered them: nothing happens.
        assert!(!ledger.apply_deferred(&deferred, true, |_| Ok(false)).unwrap());
    }

    #[test]
    fn a_deferred_change_that_was_made_before_a_crash_does_not_overwrite_a_newer_one() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let mut ann = session(&place, "ann");
        let title = |title: &str| Edit { title: Some(title.to_owned()), ..Edit::default() };
        let issue = Ledger::of(&place).unwrap().add(&title("First")).unwrap();
        let shown = || Ledger::of(&place).unwrap().get(&issue).unwrap().title;
        for number in 0..3 {
            let changes = serde_json::to_value([Change::Update(issue.clone(), title("Deferred"))]).unwrap();
            let deferred = ann.write(DeferChanges { key: format!("k\n{number}"), changes }).unwrap();
            // A process that ends after the change and before its confirmation.
            assert!(Ledger::of(&place).unwrap().apply_deferred(&deferred, true, |_| Ok(true)).unwrap());
            assert_eq!(shown(), "Deferred");
            // Newer changes, by a command that does not reach the store.
            let newer = format!("Newer {number}");
            Ledger::of(&place).unwrap().apply(&[Change::Update(issue.clone(), title(&newer))]).unwrap();
            deliver_notices(&mut ann).unwrap();
            assert!(ann.read(ListNotices {}).unwrap().deferred.is_empty());
            assert_eq!(shown(), newer);
        }
        let private = &place.checkout.as_ref().unwrap().private_dir;
        let names = std::fs::read_dir(private).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = names.filter(|name| name.ends_with(".intent") || name.ends_with(".written")).collect();
        assert_eq!(left, [""; 0], "confirmed changes leave no records");
    }

    #[test]
    fn every_field_of_a_change_survives_its_deferral() {
        let edit = Edit { title: Some("t".to_owned()), due_at: Some(None), priority: Some(1), ..Edit::default() };
        let edit = Edit { defer_until: Some(Some(Timestamp::from_millis(5))), ..edit };
        let new = New { edit: edit.clone(), name: Some("n".to_owned()), ..New::default() };
        for change in [
            Change::Add(new),
            Change::Update("a".to_owned(), edit),
            Change::Update("a".to_owned(), Edit::default()),
            Change::Depend("a".to_owned(), "b".to_owned(), DependencyKind::Blocks),
            Change::Undepend("a".to_owned(), "b".to_owned(), None),
            Change::Forced(Box::new(Change::Close("a".to_owned(), None))),
        ] {
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change, "{text}");
        }
    }

    #[test]
    fn a_deferred_change_of_an_issue_that_another_agent_holds_by_then_is_refused() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let title = |title: &str| Edit { title: Some(title.to_owned()), ..Edit::default() };
        let issue = Ledger::of(&place).unwrap().add(&title("First")).unwrap();
        let (mut ann, mut bob) = (session(&place, "ann"), session(&place, "bob"));
        bob.write(waypost_core::op::Heartbeat::default()).unwrap();
        let deferred = |key: &str, change: Change| {
            let changes = serde_json::to_value([change]).unwrap();
            DeferChanges { key: key.to_owned(), changes }
        };
        bob.write(deferred("title", Change::Update(issue.clone(), title("Bob's")))).unwrap();
        bob.write(deferred("close", Change::Close(issue.clone(), None))).unwrap();
        bob.write(deferred("comment", Change::Comment(issue.clone(), "A hint".to_owned()))).unwrap();
        ann.write(LeaseIssue { issue: issue.clone(), ttl_ms: None }).unwrap();
        deliver_notices(&mut ann).unwrap();
        assert!(ann.read(ListNotices {}).unwrap().deferred.is_empty());
        let found = Ledger::of(&place).unwrap().get(&issue).unwrap();
        assert_eq!((found.title.as_str(), found.status.as_str(), found.comments.len()), ("First", "open", 1));
        let warnings = ann.warnings().take();
        assert_eq!(warnings.len(), 1, "the same for both: {warnings:?}");
        assert!(warnings[0].contains("refused a change that bob made"), "{warnings:?}");
    }

    #[test]
    fn every_kind_of_change_has_a_rule_for_agents() {
        let id = || "way-1".to_owned();
        let changes = [
            Change::Add(New::default()),
            Change::Update(id(), Edit::default()),
            Change::Close(id(), None),
            Change::Reopen(id()),
            Change::Claim(Some(id())),
            Change::Release(id(), false),
            Change::Comment(id(), "x".to_owned()),
            Change::Depend(id(), "way-2".to_owned(), DependencyKind::Blocks),
            Change::Undepend(id(), "way-2".to_owned(), None),
        ];
        let refused = [
            Change::Delete(id(), None),
            Change::Release(id(), true),
            Change::Forced(Box::new(Change::Comment(id(), "x".to_owned()))),
        ];
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = place_of(dir.path(), None).unwrap();
        let mut ann = session(&place, "ann");
        let caller = waypost_core::context::Caller {
            authority: waypost_core::context::Authority::Agent,
            ..ann.caller().clone()
        };
        ann.with_caller(caller, |ann| {
            let mut store = |key: usize, change: &Change| {
                let changes = serde_json::to_value([change]).unwrap();
                ann.write(DeferChanges { key: key.to_string(), changes })
            };
            for (number, change) in changes.iter().enumerate() {
                store(number, change).unwrap();
            }
            for (number, change) in refused.iter().enumerate() {
                assert_eq!(store(100 + number, change).unwrap_err().kind(), Kind::Refused, "{}", change.verb());
            }
        });
    }
}
