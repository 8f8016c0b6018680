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
    ClaimIssue, ConfirmNotice, LeaseView, ListEvents, ListLeases, ListNotices, ListWorktrees, ReleaseIssue,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_fs::FileLock;

use crate::ledger::{Change, Ledger};
use crate::merging::ensure_driver;
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
    tell(&mut session)?;
    let ids = match wanted {
        Some(wanted) => vec![ledger.look(|index| index.find(wanted))?],
        None => ledger.look(|index| index.takeable(ledger.now(), TRIES))?,
    };
    let mut last = None;
    for id in ids {
        let lease = match session.write(ClaimIssue { issue: id.clone(), ttl_ms }) {
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
                session.write(ReleaseIssue { issue: id, force: false, reason })?;
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

/// Ends the caller's leases on issues that were given back or are over; those of others too, where that was forced.
pub fn release(place: &Place, issues: &[(String, bool)], why: &str) -> Result<()> {
    if !is_marked(place) {
        return Ok(());
    }
    let mut session = Session::open(place.clone())?;
    for (issue, force) in issues {
        let mut release = |force| {
            let reason = Some(why.to_owned());
            session.write(ReleaseIssue { issue: issue.clone(), force, reason })
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
/// It is called under the lock of the issues' ledger. A claim takes the lease first and the ledger's lock then, so either
/// its lease is seen here, or the claim finds the issue as this change leaves it.
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
    tell(&mut session)?;
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
pub struct Told {
    /// What.
    pub notice: Notice,
    /// What it did, or why it could not.
    pub result: Result<String>,
}

/// Tells the ledger what became of its issues, in the name of who did it. What belongs to other ledgers waits for them.
pub fn tell(session: &mut Session) -> Result<Vec<Told>> {
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
        let result = match tell_one(&session.place, &notice) {
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
        told.push(Told { notice, result });
    }
    Ok(told)
}

/// Tells the ledger one thing, and returns what it did.
fn tell_one(place: &Place, notice: &Notice) -> Result<String> {
    let place = place.in_name_of(&notice.actor);
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
    ledger.apply(&[change])?;
    ensure_driver(&place);
    Ok(done.to_owned())
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
