//! Bringing an issue of one's own planning to everybody, and taking it back.
//!
//! An issue that is proposed is in two ledgers under one id: in the planning it came from, and in the project's, in the
//! worktree one stands in, for the commit that proposes it. Both ledgers are locked while both are written, and copies
//! that differ are merged field by field. Every step writes the copy that must not be lost first, so that a crash leaves a
//! copy too many and never one too few; doing it again ends what was begun.

use std::time::{Duration, Instant};

use serde::Serialize;
use waypost_core::ledger::change;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::merge::merge_copies;
use waypost_core::ledger::role::Role;
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::{Error, Result};
use waypost_ledger::LedgerLocks;
use waypost_workspace::history::Commit;
use waypost_workspace::upstream::Upstream;

use crate::history::taken_out;
use crate::ledger::{IndexedIssue, Ledger, Record, Transaction};
use crate::place::{Place, ledger_in};
use crate::repos::{Repo, role};

/// How long copies are merged again that another program changes meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The status of an issue, and what belongs to it.
const STATUS_FIELDS: &[&str] = &["status", "closed_at", "close_reason", "deleted_at", "deleted_by", "delete_reason"];

/// Proposes an issue: its copy in the project says so, and then the one in the planning.
///
/// Proposed again, what either copy says since goes into both. Of an issue that was accepted meanwhile, what the planning
/// says since goes into the project's copy.
pub fn propose(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let Copies { locks, project, planned, base } = Copies::lock(place, ledger, id, target)?;
    let id = planned.issue.id.clone();
    let proposed = project.transaction_under(&locks, 0, |transaction| match transaction.copy_here(&id)? {
        None => {
            let proposed = with_visibility(&planned.record, Visibility::Proposed)?;
            transaction.put(&proposed)?;
            Ok(proposed)
        }
        Some(there) => {
            let visibility = there.issue.visibility().max(Visibility::Proposed);
            if visibility == Visibility::Canonical && !has_more(base.as_ref(), &there.record, &planned.record)? {
                return Err(Error::conflict(format!(
                    "issue {id} is in {} already",
                    project.repos()[0].path().display()
                )));
            }
            let merged = Merged::of(base.as_ref(), &there.record, &planned.record, visibility, ledger.terms())?;
            merged.write(transaction)
        }
    })?;
    let proposed = with_visibility(&proposed, Visibility::Proposed)?;
    if base.is_none() {
        bases::keep(&ledger.repos()[planned.ledger], &proposed)?;
    }
    ledger.transaction_under(&locks, planned.ledger, |transaction| {
        transaction.merge_in(Some(&planned.record), &proposed)?;
        Ok(proposed.clone())
    })
}

/// Takes a proposal back: what became of it goes to the planning first, and then it leaves the project.
pub fn withdraw(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let Copies { locks, project, planned, mut base } = Copies::lock(place, ledger, id, target)?;
    let id = planned.issue.id.clone();
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let local = loop {
        let there = project.with_index(|index| index.in_ledger(&id, 0))?;
        match there.as_ref().map(|entry| entry.issue.visibility()) {
            Some(Visibility::Canonical) => {
                return Err(Error::conflict(format!("issue {id} was accepted, so it cannot be withdrawn")));
            }
            None if planned.issue.visibility() != Visibility::Proposed => {
                return Err(Error::conflict(format!("issue {id} is not proposed")));
            }
            _ => {}
        }
        let local = ledger.transaction_under(&locks, planned.ledger, |transaction| {
            let here = transaction.copy_here(&id)?.unwrap_or_else(|| planned.clone());
            let project = there.as_ref().map_or(&here.record, |there| &there.record);
            let merged = Merged::of(base.as_ref(), project, &here.record, Visibility::Local, ledger.terms())?;
            merged.write(transaction)
        })?;
        // Git knows none of our locks, so the copy is taken out only as it was merged.
        let is_out = project.transaction_under(&locks, 0, |transaction| {
            let is_merged = |here: &IndexedIssue| there.as_ref().is_some_and(|there| there.record == here.record);
            if transaction.copy_here(&id)?.is_some_and(|here| !is_merged(&here)) {
                return Ok(false);
            }
            transaction.take_out(&id).map(|()| true)
        })?;
        if is_out {
            break local;
        }
        if Instant::now() > deadline {
            return Err(busy(&id));
        }
        base = there.map(|there| there.record);
    };
    bases::forget(&ledger.repos()[planned.ledger], &id)?;
    drop(locks);
    project.repos()[0].file.remove_if_empty()?;
    Ok(local)
}

/// Accepts a proposal: it is everybody's from now on, with what the planning says of it, as far as that can be read.
pub fn accept(place: &Place, ledger: &Ledger, id: &str) -> Result<(Record, usize)> {
    decide(place, ledger, id, |transaction, id, number| {
        for other in (0..ledger.repos().len()).filter(|other| *other != number) {
            let planned = transaction.issues().in_ledger(id, other)?;
            let Some(planned) = planned.filter(|copy| copy.issue.visibility() == Visibility::Proposed) else {
                continue;
            };
            let base = bases::read(&ledger.repos()[other], id);
            transaction.merge_in(base.as_ref(), &planned.record)?;
        }
        transaction.edit(id, |record, author| {
            record.remove("visibility");
            change::touch(record, author)
        })
    })
}

/// Rejects a proposal: it is closed with the reason, which its author is told by the next sync.
pub fn reject(place: &Place, ledger: &Ledger, id: &str, reason: &str) -> Result<(Record, usize)> {
    let statuses = ledger.terms().statuses.clone();
    decide(place, ledger, id, |transaction, id, _| {
        transaction.edit(id, |record, author| change::close(record, Some(reason), &statuses, author))
    })
}

fn decide(
    place: &Place,
    ledger: &Ledger,
    id: &str,
    decide: impl Fn(&mut Transaction<'_, '_>, &str, usize) -> Result<Record>,
) -> Result<(Record, usize)> {
    let (role, source) = role(place);
    if role == Role::Contributor {
        return Err(Error::refused(format!(
            "only maintainers decide on proposals, and you are a contributor: {}",
            source.because
        ))
        .hint("if you maintain this repository: --role maintainer, or way config set role maintainer"));
    }
    // The project decides on its own copy, also where the planning's was changed later.
    let id = ledger.with_index(|index| index.find(id))?;
    let is_proposed = |entry: &IndexedIssue| entry.issue.visibility() == Visibility::Proposed;
    let project = ledger.with_index(|index| index.in_ledger(&id, 0))?.filter(is_proposed);
    let number = project.map_or_else(|| ledger.with_index(|index| index.get_by_prefix(&id)), Ok)?.ledger;
    let record = ledger.transaction_in(number, |transaction| {
        if !transaction.copy_here(&id)?.as_ref().is_some_and(is_proposed) {
            return Err(Error::conflict(format!("issue {id} is not proposed")));
        }
        decide(transaction, &id, number)
    })?;
    Ok((record, number))
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is everybody's now; the copy in the planning is gone.
    Accepted(String),
    /// It is everybody's now, but the planning's copy has changes that the project's lacks, so it stays.
    AcceptedInPart(String),
    /// It was closed there, and why; it is local again.
    Rejected(String, Option<String>),
    /// It was deleted there, or taken out, and how; it is local again.
    Dropped(String, String),
}

/// Looks at what the project's default branch says of what was proposed, as far as the last fetch saw it, and brings the
/// planning up to date with it.
///
/// What was never there may be in a pull request, so only what was there once can be gone.
pub fn merge_answered_proposals(ledger: &Ledger, target: usize) -> Result<Vec<Outcome>> {
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
        let proposed = ledger.with_index(|index| index.proposed_in(number))?;
        for mine in proposed {
            let id = &mine.issue.id;
            let decided = match theirs.iter().find(|record| record.text("id").as_deref() == Some(id)) {
                Some(record) => Some((record.clone(), None)),
                None => taken_out(upstream.history(path)?, id)?.map(|(record, commit)| (record, Some(commit))),
            };
            let Some((record, gone)) = decided else { continue };
            let outcome = match fate(&record, gone.as_ref(), ledger.terms()) {
                Fate::Pending => None,
                Fate::Accepted => retire(ledger, target, number, id, &record)?,
                Fate::Rejected(reason, words) => {
                    take_back(ledger, number, id, &words)?.then(|| Outcome::Rejected(id.clone(), reason))
                }
                Fate::Dropped(how, words) => {
                    take_back(ledger, number, id, &words)?.then(|| Outcome::Dropped(id.clone(), how))
                }
            };
            outcomes.extend(outcome);
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

/// Takes the copy of an accepted issue out of the planning, once the project has all that it says.
///
/// A maintainer's goes into the project's ledger here. A contributor's stays until it was proposed, and accepted too.
fn retire(ledger: &Ledger, target: usize, number: usize, id: &str, theirs: &Record) -> Result<Option<Outcome>> {
    let locks = ledger.lock(&[number, target])?;
    let mine = ledger.with_index(|index| index.in_ledger(id, number))?;
    let Some(mine) = mine.filter(|mine| mine.issue.visibility() == Visibility::Proposed) else { return Ok(None) };
    let base = bases::read(&ledger.repos()[number], id);
    if has_more(base.as_ref(), theirs, &mine.record)? {
        let canonical = |there: &IndexedIssue| there.issue.visibility() == Visibility::Canonical;
        let is_there = ledger.may_write(target)
            && ledger.transaction_under(&locks, target, |transaction| {
                let Some(there) = transaction.copy_here(id)?.filter(canonical) else { return Ok(false) };
                let merged =
                    Merged::of(base.as_ref(), &there.record, &mine.record, Visibility::Canonical, ledger.terms())?;
                merged.write(transaction).map(|_| true)
            })?;
        if !is_there {
            return Ok(Some(Outcome::AcceptedInPart(id.to_owned())));
        }
    }
    let is_out = ledger.transaction_under(&locks, number, |transaction| {
        if transaction.copy_here(id)?.is_some_and(|here| here.record != mine.record) {
            return Ok(false);
        }
        transaction.take_out(id).map(|()| true)
    })?;
    if !is_out {
        // Git replaced the file meanwhile: the next sync decides.
        return Ok(None);
    }
    bases::forget(&ledger.repos()[number], id)?;
    Ok(Some(Outcome::Accepted(id.to_owned())))
}

/// Makes a proposal local again that the project turned down, and keeps its words as a comment. Returns whether that is
/// new: it may have been told before, and proposed again since.
fn take_back(ledger: &Ledger, number: usize, id: &str, words: &str) -> Result<bool> {
    let locks = ledger.lock(&[number])?;
    let is_new = ledger.transaction_under(&locks, number, |transaction| {
        let Some(here) = transaction.copy_here(id)? else { return Ok(false) };
        if here.issue.visibility() != Visibility::Proposed || says(&here.issue, words) {
            return Ok(false);
        }
        transaction.put(&with_visibility(&here.record, Visibility::Local)?)?;
        transaction.comment_here(id, words).map(|()| true)
    })?;
    if is_new {
        bases::forget(&ledger.repos()[number], id)?;
    }
    Ok(is_new)
}

fn says(issue: &Issue, words: &str) -> bool {
    issue.comments.iter().any(|comment| comment.text == words)
}

/// Tells whether the planning's copy says something that the project's does not.
fn has_more(base: Option<&Record>, project: &Record, planning: &Record) -> Result<bool> {
    let alike = |record: &Record| with_visibility(record, Visibility::Canonical);
    let (project, planning) = (alike(project)?, alike(planning)?);
    if let Some(base) = base {
        return Ok(merge_copies(Some(&alike(base)?), &project, &planning) != project);
    }
    // Without a base only comments and time can tell: an old title that the project changed is nothing more.
    let (Some((project, _)), Some((planning, _))) = (Issue::read(&project), Issue::read(&planning)) else {
        return Ok(false);
    };
    let is_unsaid = planning.comments.iter().any(|comment| !says(&project, &comment.text));
    Ok(is_unsaid || planning.updated_at > project.updated_at)
}

/// The copies of a proposal as one record.
struct Merged {
    record: Record,
    /// Why the project turned it down, to be kept as a comment.
    words: Option<String>,
}

impl Merged {
    /// Merges both copies field by field. If the project turned the proposal down and the planning goes on with it, the
    /// planning's status counts.
    fn of(
        base: Option<&Record>,
        project: &Record,
        planning: &Record,
        visibility: Visibility,
        terms: &Terms,
    ) -> Result<Merged> {
        let is_over = |record: &Record| {
            Issue::read(record).is_some_and(|(issue, _)| terms.statuses.category(&issue.status).is_over())
        };
        let words = match fate(project, None, terms) {
            Fate::Rejected(_, words) | Fate::Dropped(_, words) if !is_over(planning) => Some(words),
            _ => None,
        };
        let mut project = with_visibility(project, visibility)?;
        if words.is_some() {
            for key in STATUS_FIELDS {
                match planning.text(key) {
                    Some(text) => project.set(key, &text)?,
                    None => drop(project.remove(key)),
                }
            }
        }
        let base = base.map(|base| with_visibility(base, visibility)).transpose()?;
        let record = merge_copies(base.as_ref(), &project, &with_visibility(planning, visibility)?);
        Ok(Merged { record, words })
    }

    /// Writes it to a ledger, and returns it as it is there.
    fn write(self, transaction: &mut Transaction<'_, '_>) -> Result<Record> {
        let id = self.record.text("id").unwrap_or_default();
        transaction.put(&self.record)?;
        let is_said = |words: &str| Issue::read(&self.record).is_some_and(|(issue, _)| says(&issue, words));
        if let Some(words) = self.words.as_deref().filter(|words| !is_said(words)) {
            transaction.comment_here(&id, words)?;
        }
        transaction.edit(&id, |_, _| Ok(()))
    }
}

/// Both copies of an issue, with their ledgers locked.
struct Copies {
    locks: LedgerLocks,
    /// The project's ledger in the worktree one stands in.
    project: Ledger,
    /// The copy that is not the project's.
    planned: IndexedIssue,
    /// What both were when it was proposed, if that is known.
    base: Option<Record>,
}

impl Copies {
    fn lock(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Copies> {
        let project = in_current_worktree(place, ledger, target)?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let mut found = planned(ledger, id, target)?;
        loop {
            ledger.require_writable(found.ledger)?;
            let locks = LedgerLocks::acquire(&[&ledger.repos()[found.ledger].file, &project.repos()[0].file])?;
            // It may have been changed, or moved to another ledger, before the locks were held.
            let planned = planned(ledger, id, target)?;
            if planned.ledger == found.ledger {
                let base = bases::read(&ledger.repos()[planned.ledger], &planned.issue.id);
                return Ok(Copies { locks, project, planned, base });
            }
            if Instant::now() > deadline {
                return Err(busy(&planned.issue.id));
            }
            found = planned;
        }
    }
}

fn busy(id: &str) -> Error {
    Error::unavailable(format!("another program keeps changing issue {id}")).hint("try again when it is done")
}

/// Issues as they were when they were first proposed: what their copies are merged by.
///
/// They are kept in the private directory of the planning, and read and written under the lock of its ledger. Without them
/// copies are still merged; only what was changed in one of them alone cannot be told from what was not.
mod bases {
    use std::path::PathBuf;

    use waypost_core::ledger::document::Document;
    use waypost_core::{Error, Result};

    use crate::ledger::Record;
    use crate::repos::Repo;

    fn path(planning: &Repo) -> PathBuf {
        planning.checkout.private_dir.join("proposed.jsonl")
    }

    fn document(planning: &Repo) -> Document {
        Document::parse(std::fs::read(path(planning)).unwrap_or_default())
    }

    fn place_of(document: &Document, id: &str) -> Option<usize> {
        let is_it =
            |place: &usize| document.record(*place).is_ok_and(|record| record.text("id").as_deref() == Some(id));
        (0..document.len()).find(is_it)
    }

    /// Returns an issue as it was when it was proposed, if that is known.
    pub(super) fn read(planning: &Repo, id: &str) -> Option<Record> {
        let document = document(planning);
        place_of(&document, id).and_then(|place| document.record(place).ok())
    }

    /// Keeps an issue as it is proposed.
    pub(super) fn keep(planning: &Repo, record: &Record) -> Result<()> {
        let mut document = document(planning);
        document.insert(record)?;
        write(planning, &document)
    }

    /// Forgets an issue that is not proposed any more.
    pub(super) fn forget(planning: &Repo, id: &str) -> Result<()> {
        let mut document = document(planning);
        let Some(place) = place_of(&document, id) else { return Ok(()) };
        document.remove(place);
        write(planning, &document)
    }

    fn write(planning: &Repo, document: &Document) -> Result<()> {
        let path = path(planning);
        waypost_fs::replace(&path, &document.to_bytes(), 0o600)
            .map_err(|error| Error::unavailable(format!("cannot write {}", path.display())).because(error))
    }
}

/// Finds the copy of an issue that is not the project's.
fn planned(ledger: &Ledger, id: &str, target: usize) -> Result<IndexedIssue> {
    ledger.with_index(|index| {
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
    match visibility.as_field() {
        Some(word) => record.set("visibility", &word)?,
        None => drop(record.remove("visibility")),
    }
    Ok(record)
}
