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
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::{Error, Result};
use waypost_workspace::history::Commit;
use waypost_workspace::upstream::Upstream;

use crate::history::taken_out;
use crate::ledger::{Entry, Ledger, Record};
use crate::place::{Place, ledger_in};
use crate::repos::{Repo, role};

/// Proposes an issue: its copy in the project says so, and then the one in the planning.
pub fn propose(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let planned = planned(ledger, id, target)?;
    let id = planned.issue.id.clone();
    let proposed = with_visibility(&planned.record, Visibility::Proposed)?;
    let project = in_current_worktree(place, ledger, target)?;
    project.transaction_in(0, |transaction| match transaction.copy_here(&id)? {
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
    project.transaction_in(0, |transaction| transaction.take_out(&id))?;
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
    /// It was deleted there, or taken out, and how; it is local again.
    Dropped(String, String),
}

/// Looks at what the project's default branch says of what was proposed, as far as the last fetch saw it, and brings the
/// planning up to date with it.
///
/// What was never there may be in a pull request, so only what was there once can be gone.
pub fn settle(ledger: &Ledger, target: usize) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let project = &ledger.repos()[target];
    let path = project.file.path().strip_prefix(&project.root).ok().and_then(|path| path.to_str());
    let Some(path) = path.filter(|_| ledger.repos().len() > 1) else { return Ok(outcomes) };
    let Some(upstream) = Upstream::of(&project.checkout)? else { return Ok(outcomes) };
    // A branch without the file says nothing of it.
    let Some(bytes) = upstream.read(path)? else { return Ok(outcomes) };
    let document = Document::parse(bytes);
    let theirs: Vec<Record> = (0..document.len()).filter_map(|place| document.record(place).ok()).collect();
    for number in (0..ledger.repos().len()).filter(|number| *number != target && ledger.may_write(*number)) {
        let proposed = ledger.look(|index| index.proposed_in(number))?;
        for mine in proposed {
            let id = &mine.issue.id;
            let fate = match theirs.iter().find(|record| record.text("id").as_deref() == Some(id)) {
                Some(record) => fate(record, None, ledger.terms()),
                None => taken_out(upstream.history(path)?, id)?
                    .map_or(Fate::Pending, |(record, commit)| fate(&record, Some(&commit), ledger.terms())),
            };
            outcomes.extend(carry_out(ledger, number, &mine, fate)?);
        }
    }
    Ok(outcomes)
}

/// What the project made of a proposal. Its words are kept as a comment, and told apart by the moment or the commit.
enum Fate {
    Pending,
    Accepted,
    Rejected(Option<String>, String),
    Dropped(String, String),
}

/// Decides what a record of the project says about the proposal, or said before a commit took it out.
fn fate(record: &Record, gone: Option<&Commit>, terms: &Terms) -> Fate {
    let Some((issue, _)) = Issue::read(record) else { return Fate::Pending };
    let category = terms.statuses.category(&issue.status);
    let at = |key: &str| record.text(key).map(|moment| format!(" ({moment})")).unwrap_or_default();
    match (issue.visibility(), category, gone) {
        (_, Category::Deleted, _) => {
            let reason = record.text("delete_reason").filter(|reason| !reason.is_empty());
            let how = reason.map_or("deleted".to_owned(), |reason| format!("deleted: {reason}"));
            let words = format!("dropped by the project, {how}{}", at("deleted_at"));
            Fate::Dropped(how, words)
        }
        // Closed work that was everybody's is pruned one day.
        (Visibility::Canonical, _, None) | (Visibility::Canonical, Category::Done, Some(_)) => Fate::Accepted,
        (Visibility::Proposed, Category::Done, _) => {
            let reason = issue.close_reason;
            let words = reason.as_deref().map_or("rejected".to_owned(), |reason| format!("rejected: {reason}"));
            Fate::Rejected(reason, words + &at("closed_at"))
        }
        (_, _, Some(commit)) => {
            let how = format!("taken out by commit {}", commit.short_id());
            let words = format!("dropped by the project, {how}");
            Fate::Dropped(how, words)
        }
        (Visibility::Proposed | Visibility::Local, _, None) => Fate::Pending,
    }
}

/// Brings a copy in the planning up to date with what the project made of it.
fn carry_out(ledger: &Ledger, number: usize, mine: &Entry, fate: Fate) -> Result<Option<Outcome>> {
    let id = mine.issue.id.clone();
    let (outcome, words) = match fate {
        Fate::Pending => return Ok(None),
        Fate::Accepted => {
            ledger.transaction_in(number, |transaction| transaction.take_out(&id))?;
            return Ok(Some(Outcome::Accepted(id)));
        }
        Fate::Rejected(reason, words) => (Outcome::Rejected(id.clone(), reason), words),
        Fate::Dropped(how, words) => (Outcome::Dropped(id.clone(), how), words),
    };
    // It was told of that before, and proposed again since.
    if mine.issue.comments.iter().any(|comment| comment.text == words) {
        return Ok(None);
    }
    let local = with_visibility(&mine.record, Visibility::Local)?;
    ledger.transaction_in(number, |transaction| {
        transaction.put(&local)?;
        transaction.comment_here(&id, &words)
    })?;
    Ok(Some(outcome))
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
