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
use std::path::PathBuf;

use waypost_core::model::{Lease, News, Notice};
use waypost_core::op::{ClaimIssue, ConfirmNotice, LeaseView, ListLeases, ListNotices, ListWorktrees, ReleaseIssue};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};

use crate::ledger::{Change, Ledger};
use crate::merging::ensure_driver;
use crate::place::{Location, Place, Scope};
use crate::session::Session;

/// How many ready issues are tried before giving up on finding a free one.
const TRIES: u32 = 200;

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

/// Ends the leases on issues that were given back or are over.
pub fn release(place: &Place, issues: &[String], why: &str) -> Result<()> {
    if !is_marked(place) {
        return Ok(());
    }
    let mut session = Session::open(place.clone())?;
    for issue in issues {
        let release = |force| ReleaseIssue { issue: issue.clone(), force, reason: Some(why.to_owned()) };
        let released = match session.write(release(true)) {
            // A server lets agents end what is theirs, and nothing else. What another one holds ends with its time.
            Err(error) if error.kind() == Kind::Refused => match session.write(release(false)) {
                Err(error) if error.kind() == Kind::Conflict => continue,
                released => released,
            },
            released => released,
        };
        released?;
    }
    Ok(())
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
    if held.is_empty() && session.read(ListNotices {})?.notices.is_empty() {
        take_mark(place);
        // Looked at again: a lease that came before the mark went would not be seen by anybody.
        if !concerning_issues(&mut session)?.is_empty() {
            set_mark(place)?;
        }
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

/// Takes the mark away. Whoever claims sets it before and after, so one of both comes after this.
fn take_mark(place: &Place) {
    let Some(mark) = mark(place) else { return };
    match std::fs::remove_file(&mark) {
        Err(error) if error.kind() != ErrorKind::NotFound => log::debug!("{} stays: {error}", mark.display()),
        _ => {}
    }
}

fn is_marked(place: &Place) -> bool {
    let Ok(choice) = place.store() else { return false };
    match choice.location {
        Location::Sqlite(_) if matches!(choice.scope, Some(Scope::Repo | Scope::Worktree)) => {
            mark(place).is_some_and(|mark| mark.exists())
        }
        Location::Sqlite(path) => path.exists(),
        Location::UnnamedSqlite => false,
        Location::Postgres(_) | Location::Server(_) => true,
    }
}

fn mark(place: &Place) -> Option<PathBuf> {
    place.checkout.as_ref().map(|checkout| checkout.private_dir.join("issue-leases"))
}
