//! Bringing an issue of one's own planning to everybody, and taking it back.
//!
//! An issue that is proposed is in two ledgers under one id: in the planning it came from, and in the project's, in the
//! worktree one stands in, for the commit that proposes it. Every step writes the copy that must not be lost first, so
//! that a crash leaves a copy too many and never one too few; doing it again ends what was begun.

use serde::Serialize;
use waypost_core::ledger::change::{self, Author};
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::role::Role;
use waypost_core::{Error, Result};
use waypost_workspace::history::at_upstream;

use crate::ledger::{Entry, Ledger, Record};
use crate::place::{Place, ledger_in};
use crate::repos::{Repo, role};

/// Proposes an issue: its copy in the project says so, and then the one in the planning.
pub fn propose(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let planned = planned(ledger, id, target)?;
    let id = planned.issue.id.clone();
    let proposed = with_visibility(&planned.record, Visibility::Proposed)?;
    let project = in_current_worktree(place, ledger, target)?;
    project.transaction_anyway(0, |transaction| match transaction.copy_here(&id)? {
        Some(entry) if entry.issue.visibility() == Visibility::Canonical => {
            Err(Error::conflict(format!("issue {id} is in {} already", project.repos()[0].path().display())))
        }
        _ => transaction.put(&proposed),
    })?;
    ledger.transaction_in(planned.ledger, |transaction| {
        transaction.put(&proposed)?;
        Ok(proposed.clone())
    })
}

/// Takes a proposal back: what became of it goes to the planning first, and then it leaves the project.
pub fn withdraw(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let planned = planned(ledger, id, target)?;
    let id = planned.issue.id.clone();
    let project = in_current_worktree(place, ledger, target)?;
    let there = project.look(|index| index.in_ledger(&id, 0))?;
    match there.as_ref().map(|entry| entry.issue.visibility()) {
        Some(Visibility::Canonical) => {
            return Err(Error::conflict(format!("issue {id} was accepted, so it cannot be withdrawn")));
        }
        None if planned.issue.visibility() != Visibility::Proposed => {
            return Err(Error::conflict(format!("issue {id} is not proposed")));
        }
        _ => {}
    }
    // Whoever changed the proposal changed the copy that counts.
    let newer = there.as_ref().filter(|entry| entry.issue.updated_at > planned.issue.updated_at);
    let local = with_visibility(newer.map_or(&planned.record, |entry| &entry.record), Visibility::Local)?;
    ledger.transaction_in(planned.ledger, |transaction| transaction.put(&local))?;
    project.transaction_anyway(0, |transaction| transaction.take_out(&id))?;
    project.repos()[0].file.remove_if_empty()?;
    Ok(local)
}

/// Accepts a proposal: it is everybody's from now on.
pub fn accept(place: &Place, ledger: &Ledger, id: &str) -> Result<(Record, usize)> {
    decide(place, ledger, id, |record, author| {
        record.remove("visibility");
        change::touch(record, author)
    })
}

/// Rejects a proposal: it is closed with the reason, which its author is told by the next sync.
pub fn reject(place: &Place, ledger: &Ledger, id: &str, reason: &str) -> Result<(Record, usize)> {
    let statuses = ledger.terms().statuses.clone();
    decide(place, ledger, id, |record, author| change::close(record, Some(reason), &statuses, author))
}

fn decide(
    place: &Place,
    ledger: &Ledger,
    id: &str,
    decide: impl Fn(&mut Record, Author<'_>) -> Result<()>,
) -> Result<(Record, usize)> {
    let (role, source) = role(place);
    if role == Role::Contributor {
        return Err(Error::refused(format!(
            "only maintainers decide on proposals, and you are a contributor: {}",
            source.because
        ))
        .hint("if you maintain this repository: --role maintainer, or way config set role maintainer"));
    }
    let entry = ledger.look(|index| index.entry_of(id))?;
    let id = entry.issue.id;
    if entry.issue.visibility != Some("proposed".to_owned()) {
        return Err(Error::conflict(format!("issue {id} is not proposed")));
    }
    let record = ledger.transaction_in(entry.ledger, |transaction| transaction.edit(&id, &decide))?;
    Ok((record, entry.ledger))
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is everybody's now; the copy in the planning is gone.
    Accepted(String),
    /// It was closed there, and why; it is local again.
    Rejected(String, Option<String>),
}

/// Looks at what the project's default branch says of what was proposed, as far as the last fetch saw it, and brings the
/// planning up to date with it.
pub fn settle(ledger: &Ledger, target: usize) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let project = &ledger.repos()[target];
    let path = project.file.path().strip_prefix(&project.root).ok().and_then(|path| path.to_str());
    let Some(path) = path.filter(|_| ledger.repos().len() > 1) else { return Ok(outcomes) };
    let Some(bytes) = at_upstream(&project.checkout, path)? else { return Ok(outcomes) };
    let document = Document::parse(bytes);
    let records = (0..document.len()).filter_map(|place| document.record(place).ok());
    let upstream: Vec<Issue> = records.filter_map(|record| Issue::read(&record)).map(|(issue, _)| issue).collect();
    for number in (0..ledger.repos().len()).filter(|number| *number != target && ledger.may_write(*number)) {
        let proposed = ledger.look(|index| index.proposed_in(number))?;
        for mine in proposed {
            let id = &mine.issue.id;
            let Some(theirs) = upstream.iter().find(|issue| issue.id == *id) else { continue };
            let is_closed = ledger.terms().statuses.category(&theirs.status).is_over();
            match theirs.visibility() {
                Visibility::Canonical => {
                    ledger.transaction_in(number, |transaction| transaction.take_out(id))?;
                    outcomes.push(Outcome::Accepted(id.clone()));
                }
                Visibility::Proposed if is_closed => {
                    let reason = theirs.close_reason.clone();
                    let words = reason.as_deref().map_or("rejected".to_owned(), |reason| format!("rejected: {reason}"));
                    let local = with_visibility(&mine.record, Visibility::Local)?;
                    ledger.transaction_in(number, |transaction| {
                        transaction.put(&local)?;
                        transaction.comment_here(id, &words)
                    })?;
                    outcomes.push(Outcome::Rejected(id.clone(), reason));
                }
                Visibility::Proposed | Visibility::Local => {}
            }
        }
    }
    Ok(outcomes)
}

/// Finds the copy of an issue that is not the project's.
fn planned(ledger: &Ledger, id: &str, target: usize) -> Result<Entry> {
    ledger.look(|index| {
        let id = index.find(id)?;
        let elsewhere = (0..ledger.repos().len()).filter(|number| *number != target);
        for number in elsewhere {
            if let Some(entry) = index.in_ledger(&id, number)? {
                return Ok(entry);
            }
        }
        let path = ledger.repos()[target].path().display();
        Err(Error::conflict(format!("issue {id} is in the ledger of {path} alone"))
            .hint("what is proposed is an issue of your planning: way add --repo PLANNING"))
    })
}

/// Opens the ledger of a repository in the worktree one stands in, whose branch the proposal is committed to.
fn in_current_worktree(place: &Place, ledger: &Ledger, target: usize) -> Result<Ledger> {
    let repo = &ledger.repos()[target];
    let here = place.checkout.as_ref().filter(|checkout| checkout.repository_path() == repo.path());
    let root = here.and_then(|checkout| checkout.root.clone()).unwrap_or_else(|| repo.root.clone());
    let file = ledger_in(&root).0;
    let repo = if root == repo.root { repo.clone() } else { Repo::of(repo.checkout.clone(), root, file) };
    Ledger::of_one(place, repo)
}

fn with_visibility(record: &Record, visibility: Visibility) -> Result<Record> {
    let mut record = record.clone();
    match visibility.word() {
        Some(word) => record.set("visibility", &word)?,
        None => drop(record.remove("visibility")),
    }
    Ok(record)
}
