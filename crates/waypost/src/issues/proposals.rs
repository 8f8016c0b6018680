//! Proposing issues of a contributor's planning repository to the project, and withdrawing them.
//!
//! A proposed issue is in two ledgers under one id: in the planning ledger, and in the project's ledger in the current
//! worktree, for the commit that proposes it. Both ledgers are locked while both are written, and different copies are
//! merged field by field. Every step first writes the copy that must not be lost, so a crash leaves one copy too many and
//! never one too few; repeating the command completes it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use waypost_core::ledger::change;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::merge::{ancestor, merge_copies};
use waypost_core::ledger::role::Role;
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::{Error, Result};
use waypost_ledger::LedgerLocks;
use waypost_workspace::Checkout;
use waypost_workspace::history::Commit;
use waypost_workspace::upstream::Upstream;

use crate::issues::forks::{self, Committed};
use crate::issues::history::find_removed;
use crate::issues::ledger::{IndexedIssue, Ledger, Record, Transaction};
use crate::issues::repos::{Repo, role};
use crate::machine::place::{Place, ledger_in};

/// How long to retry while another program keeps changing a copy.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of proposed versions of an issue that are kept.
const MAX_VERSIONS: usize = 20;

/// The status of an issue and the fields that depend on it.
const STATUS_FIELDS: &[&str] = &["status", "closed_at", "close_reason", "deleted_at", "deleted_by", "delete_reason"];

/// Proposes an issue: writes the project's copy, then marks the planning's copy as proposed.
///
/// Proposing it again merges later changes of either copy into both. If the project accepted the issue meanwhile, later
/// changes of the planning's copy go into the project's copy.
pub(crate) fn propose(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let Copies { locks, project, planned, bases } = Copies::lock(place, ledger, id, target)?;
    let id = planned.issue.id.clone();
    let private = if ledger.may_write(target) { Vec::new() } else { forks::private_issues(&project.repos()[0])? };
    if !private.is_empty() {
        return Err(Error::refused("a pull request would also show issues that you did not propose")
            .because(private.join(", "))
            .hint("to move them to your planning repository: way init --contributor --planning PATH"));
    }
    let (proposed, is_new) =
        project.transaction_under(&locks, 0, |transaction| match transaction.copy_here(&id)? {
            None => {
                let proposed = with_visibility(&planned.record, Visibility::Proposed)?;
                transaction.put(&proposed)?;
                Ok((proposed, true))
            }
            Some(project_copy) => {
                let visibility = project_copy.issue.visibility().max(Visibility::Proposed);
                let base = bases.ancestor_of(&project_copy.record, &planned.record);
                if visibility == Visibility::Canonical
                    && !has_unmerged_changes(base.as_ref(), &project_copy.record, &planned.record)?
                {
                    return Err(Error::conflict(format!(
                        "issue {id} is in {} already",
                        project.repos()[0].path().display()
                    )));
                }
                let merged =
                    Merged::of(base.as_ref(), &project_copy.record, &planned.record, visibility, ledger.terms())?;
                Ok((merged.write(transaction)?, false))
            }
        })?;
    let proposed = with_visibility(&proposed, Visibility::Proposed)?;
    let planning = &ledger.repos()[planned.ledger];
    // With neither copy proposed, this is a new proposal, and versions of an earlier one do not count.
    let is_first = is_new && planned.issue.visibility() != Visibility::Proposed;
    let bases = if is_first { Bases::default() } else { bases };
    if bases.0.is_empty() {
        bases.with(&proposed).write(planning, &id)?;
    }
    ledger.transaction_under(&locks, planned.ledger, |transaction| {
        transaction.merge_in(Some(&planned.record), &proposed)?;
        Ok(proposed.clone())
    })?;
    // Only now do both ledgers have this version.
    if let Err(error) = bases.with(&proposed).write(planning, &id) {
        log::warn!("{}", error.full_message());
    }
    Ok(proposed)
}

/// Withdraws a proposal: merges the project's copy in each worktree into the planning's first, then removes it there.
pub(crate) fn withdraw(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Record> {
    let Copies { locks, project, planned, bases } = Copies::lock(place, ledger, id, target)?;
    let id = planned.issue.id.clone();
    let mut projects = in_other_worktrees(place, &ledger.repos()[target], &project.repos()[0].root, &id)?;
    projects.insert(0, project);
    let copies = projects.iter().map(|project| project.with_index(|index| index.in_ledger(&id, 0)));
    let copies: Vec<Visibility> =
        copies.collect::<Result<Vec<_>>>()?.into_iter().flatten().map(|copy| copy.issue.visibility()).collect();
    if copies.contains(&Visibility::Canonical) {
        return Err(Error::conflict(format!("issue {id} was accepted, so it cannot be withdrawn")));
    }
    if copies.is_empty() && planned.issue.visibility() != Visibility::Proposed {
        return Err(Error::conflict(format!("issue {id} is not proposed")));
    }
    let mut local = planned.record.clone();
    for project in &projects {
        local = take_back(ledger, &locks, project, &planned, &bases)?;
    }
    // The proposal is withdrawn, so no step may fail from here on.
    Bases::remove(&ledger.repos()[planned.ledger], &id);
    for project in &projects {
        project.repos()[0].file.remove_if_empty(&locks);
    }
    Ok(local)
}

/// Takes a project's copy of a proposal back in one worktree. Returns the planning's copy, which is local then.
fn take_back(
    ledger: &Ledger,
    locks: &LedgerLocks,
    project: &Ledger,
    planned: &IndexedIssue,
    bases: &Bases,
) -> Result<Record> {
    let id = &planned.issue.id;
    let deadline = Instant::now() + RETRY_TIMEOUT;
    let mut merged_copy = None;
    loop {
        let project_copy = project.with_index(|index| index.in_ledger(id, 0))?;
        let base = merged_copy.or_else(|| bases.ancestor_of(&project_copy.as_ref()?.record, &planned.record));
        let local = ledger.transaction_under(locks, planned.ledger, |transaction| {
            let here = transaction.copy_here(id)?.unwrap_or_else(|| planned.clone());
            let project = project_copy.as_ref().map_or(&here.record, |copy| &copy.record);
            let merged = Merged::of(base.as_ref(), project, &here.record, Visibility::Local, ledger.terms())?;
            merged.write(transaction)
        })?;
        // Git does not use our locks, so the copy is removed only if it is still the merged version.
        let is_removed = project.transaction_under(locks, 0, |transaction| {
            let is_merged = |here: &IndexedIssue| project_copy.as_ref().is_some_and(|copy| copy.record == here.record);
            if transaction.copy_here(id)?.is_some_and(|here| !is_merged(&here)) {
                return Ok(false);
            }
            transaction.remove_copy(id).map(|()| true)
        })?;
        if is_removed {
            return Ok(local);
        }
        if Instant::now() > deadline {
            return Err(contended_error(id));
        }
        merged_copy = project_copy.map(|copy| copy.record);
    }
}

/// Accepts a proposal: makes it an issue of the project, merged with the planning's copy if that is readable.
pub(crate) fn accept(place: &Place, ledger: &Ledger, id: &str) -> Result<(Record, usize)> {
    decide(place, ledger, id, |transaction, id, number| {
        for other in (0..ledger.repos().len()).filter(|other| *other != number) {
            let planned = transaction.issues().in_ledger(id, other)?;
            let Some(planned) = planned.filter(|copy| copy.issue.visibility() == Visibility::Proposed) else {
                continue;
            };
            let bases = Bases::read(&ledger.repos()[other], id)?;
            let base = transaction.copy_here(id)?.and_then(|copy| bases.ancestor_of(&copy.record, &planned.record));
            transaction.merge_in(base.as_ref(), &planned.record)?;
        }
        transaction.edit(id, |record, author| {
            record.remove("visibility");
            change::touch(record, author)
        })
    })
}

/// Rejects a proposal: closes it with the reason. The next sync delivers the reason to its author.
pub(crate) fn reject(place: &Place, ledger: &Ledger, id: &str, reason: &str) -> Result<(Record, usize)> {
    let statuses = ledger.terms().statuses.clone();
    decide(place, ledger, id, |transaction, id, _| {
        transaction.edit(id, |record, author| change::close(record, Some(reason), &statuses, author))
    })
}

/// Applies a maintainer's decision to the project's copy of a proposal.
fn decide(
    place: &Place,
    ledger: &Ledger,
    id: &str,
    apply: impl Fn(&mut Transaction<'_, '_>, &str, usize) -> Result<Record>,
) -> Result<(Record, usize)> {
    let (role, source) = role(place);
    if role == Role::Contributor {
        return Err(Error::refused(format!(
            "only maintainers accept or reject proposals, and you are a contributor: {}",
            source.because
        ))
        .hint("if you maintain this repository: --role maintainer, or way config set role maintainer"));
    }
    // The decision applies to the project's copy, even if the planning's was changed later.
    let id = ledger.with_index(|index| index.find(id))?;
    let is_proposed = |entry: &IndexedIssue| entry.issue.visibility() == Visibility::Proposed;
    let project = ledger.with_index(|index| index.in_ledger(&id, 0))?.filter(is_proposed);
    let number = project.map_or_else(|| ledger.with_index(|index| index.get_by_prefix(&id)), Ok)?.ledger;
    let record = ledger.transaction_in(number, |transaction| {
        if !transaction.copy_here(&id)?.as_ref().is_some_and(is_proposed) {
            return Err(Error::conflict(format!("issue {id} is not proposed")));
        }
        apply(transaction, &id, number)
    })?;
    Ok((record, number))
}

/// The outcome of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalOutcome {
    /// The project accepted the issue, and the planning's copy was removed.
    Accepted(String),
    /// The project accepted the issue; the planning's copy stays until the checkout has the project's.
    AcceptedAhead(String),
    /// The project accepted the issue; the planning's copy stays, because it has changes that the project's lacks.
    AcceptedInPart(String),
    /// The project closed the issue, with an optional reason; it is local again.
    Rejected(String, Option<String>),
    /// The project deleted or removed the issue, in the given way; it is local again.
    Dropped(String, String),
}

/// Applies the project's decisions on proposals, as fetched from its default branch, to the planning ledgers.
///
/// An issue that was never on that branch may be in a pull request, so it does not count as removed.
pub fn merge_answered_proposals(ledger: &Ledger, target: usize) -> Result<Vec<ProposalOutcome>> {
    let mut outcomes = Vec::new();
    let project = &ledger.repos()[target];
    let path = project.file.path().strip_prefix(&project.root).ok().and_then(|path| path.to_str());
    let Some(path) = path.filter(|_| ledger.repos().len() > 1) else { return Ok(outcomes) };
    let Some(upstream) = Upstream::of(&project.checkout)? else { return Ok(outcomes) };
    // A branch without the file decides nothing.
    let Some(bytes) = upstream.read(path)? else { return Ok(outcomes) };
    let document = Document::parse(bytes);
    let records: Vec<Record> = (0..document.len()).filter_map(|place| document.record(place).ok()).collect();
    for number in (0..ledger.repos().len()).filter(|number| *number != target && ledger.may_write(*number)) {
        let proposed = ledger.with_index(|index| index.proposed_in(number))?;
        for planned in proposed {
            let id = &planned.issue.id;
            let decided = match records.iter().find(|record| record.text("id").as_deref() == Some(id)) {
                Some(record) => Some((record.clone(), None)),
                None => find_removed(upstream.history(path)?, id)?.map(|(record, commit)| (record, Some(commit))),
            };
            let Some((record, removed_by)) = decided else { continue };
            let outcome = match decision(&record, removed_by.as_ref(), ledger.terms()) {
                Decision::Pending => None,
                Decision::Accepted => retire(ledger, target, number, id, &record, removed_by.is_some())?,
                Decision::Rejected(reason, comment) => make_local_again(ledger, number, id, &comment)?
                    .then(|| ProposalOutcome::Rejected(id.clone(), reason)),
                Decision::Dropped(how, comment) => {
                    make_local_again(ledger, number, id, &comment)?.then(|| ProposalOutcome::Dropped(id.clone(), how))
                }
            };
            outcomes.extend(outcome);
        }
    }
    Ok(outcomes)
}

/// The project's decision on a proposal. The last text is kept as a comment; it contains the time or the commit, so that
/// two decisions give different comments.
enum Decision {
    Pending,
    Accepted,
    Rejected(Option<String>, String),
    Dropped(String, String),
}

/// Reads the decision from the project's record, which is the last one before `removed_by` if a commit removed it.
fn decision(record: &Record, removed_by: Option<&Commit>, terms: &Terms) -> Decision {
    let Some((issue, _)) = Issue::read(record) else { return Decision::Pending };
    let category = terms.statuses.category(&issue.status);
    let at = |key: &str| record.text(key).map(|moment| format!(" ({moment})")).unwrap_or_default();
    match (issue.visibility(), category, removed_by) {
        (_, Category::Deleted, _) => {
            let reason = record.text("delete_reason").filter(|reason| !reason.is_empty());
            let how = reason.map_or("deleted".to_owned(), |reason| format!("deleted: {reason}"));
            let comment = format!("dropped by the project, {how}{}", at("deleted_at"));
            Decision::Dropped(how, comment)
        }
        // Accepted issues that are closed get pruned.
        (Visibility::Canonical, _, None) | (Visibility::Canonical, Category::Done, Some(_)) => Decision::Accepted,
        (Visibility::Proposed, Category::Done, _) => {
            let reason = issue.close_reason;
            let comment = reason.as_deref().map_or("rejected".to_owned(), |reason| format!("rejected: {reason}"));
            Decision::Rejected(reason, comment + &at("closed_at"))
        }
        (_, _, Some(commit)) => {
            let how = format!("taken out by commit {}", commit.short_id());
            let comment = format!("dropped by the project, {how}");
            Decision::Dropped(how, comment)
        }
        (Visibility::Proposed | Visibility::Local, _, None) => Decision::Pending,
    }
}

/// Removes the planning's copy of an accepted issue, once the project has all of its content.
///
/// A maintainer's changes are merged into the project's ledger here. A contributor's copy stays until its changes are
/// proposed and accepted too.
fn retire(
    ledger: &Ledger,
    target: usize,
    number: usize,
    id: &str,
    accepted: &Record,
    is_pruned: bool,
) -> Result<Option<ProposalOutcome>> {
    let locks = ledger.lock(&[number, target])?;
    let planned = ledger.with_index(|index| index.in_ledger(id, number))?;
    let Some(planned) = planned.filter(|copy| copy.issue.visibility() == Visibility::Proposed) else { return Ok(None) };
    let bases = Bases::read(&ledger.repos()[number], id)?;
    let base_of = |copy: &Record| bases.ancestor_of(copy, &planned.record);
    if has_unmerged_changes(base_of(accepted).as_ref(), accepted, &planned.record)? {
        let is_canonical = |copy: &IndexedIssue| copy.issue.visibility() == Visibility::Canonical;
        let is_merged = ledger.may_write(target)
            && ledger.transaction_under(&locks, target, |transaction| {
                let Some(copy) = transaction.copy_here(id)?.filter(is_canonical) else { return Ok(false) };
                let base = base_of(&copy.record);
                let merged =
                    Merged::of(base.as_ref(), &copy.record, &planned.record, Visibility::Canonical, ledger.terms())?;
                merged.write(transaction).map(|_| true)
            })?;
        if !is_merged {
            return Ok(Some(ProposalOutcome::AcceptedInPart(id.to_owned())));
        }
    }
    let project_copy = ledger.with_index(|index| index.in_ledger(id, target))?;
    if !is_pruned && project_copy.is_none_or(|copy| copy.issue.visibility() != Visibility::Canonical) {
        // Without this copy the issue would be in no list until the checkout has the project's.
        return Ok(Some(ProposalOutcome::AcceptedAhead(id.to_owned())));
    }
    let committed = Committed::of(&ledger.repos()[number])?;
    let is_removed = ledger.transaction_under(&locks, number, |transaction| {
        if transaction.copy_here(id)?.is_some_and(|here| here.record != planned.record) {
            return Ok(false);
        }
        if committed.has(id) {
            transaction.draft().mark_moved([id], ledger.now())?;
        }
        transaction.remove_copy(id).map(|()| true)
    })?;
    if !is_removed {
        // Git replaced the file meanwhile; the next sync tries again.
        return Ok(None);
    }
    Bases::remove(&ledger.repos()[number], id);
    Ok(Some(ProposalOutcome::Accepted(id.to_owned())))
}

/// Makes a rejected or dropped proposal local again, and adds the decision as a comment. Returns false if the copy has that
/// comment already: an earlier sync delivered the decision, and the author proposed the issue again.
fn make_local_again(ledger: &Ledger, number: usize, id: &str, comment: &str) -> Result<bool> {
    let locks = ledger.lock(&[number])?;
    let is_new = ledger.transaction_under(&locks, number, |transaction| {
        let Some(here) = transaction.copy_here(id)? else { return Ok(false) };
        if here.issue.visibility() != Visibility::Proposed || has_comment(&here.issue, comment) {
            return Ok(false);
        }
        transaction.put(&with_visibility(&here.record, Visibility::Local)?)?;
        transaction.comment_here(id, comment).map(|()| true)
    })?;
    if is_new {
        Bases::remove(&ledger.repos()[number], id);
    }
    Ok(is_new)
}

fn has_comment(issue: &Issue, text: &str) -> bool {
    issue.comments.iter().any(|comment| comment.text == text)
}

/// Returns whether the planning's copy has changes that the project's copy lacks.
fn has_unmerged_changes(base: Option<&Record>, project: &Record, planning: &Record) -> Result<bool> {
    let canonical = |record: &Record| with_visibility(record, Visibility::Canonical);
    let (project, planning) = (canonical(project)?, canonical(planning)?);
    if let Some(base) = base {
        return Ok(merge_copies(Some(&canonical(base)?), &project, &planning) != project);
    }
    // Without a base only comments and times are evidence: a different title may be the project's change.
    let (Some((project, _)), Some((planning, _))) = (Issue::read(&project), Issue::read(&planning)) else {
        return Ok(false);
    };
    let has_new_comment = planning.comments.iter().any(|comment| !has_comment(&project, &comment.text));
    Ok(has_new_comment || planning.updated_at > project.updated_at)
}

/// The merged copies of a proposal.
struct Merged {
    record: Record,
    /// The project's decision against the proposal, to be kept as a comment.
    comment: Option<String>,
}

impl Merged {
    /// Merges both copies field by field. If the project rejected or dropped the proposal but the planning's copy is open,
    /// the planning's status wins.
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
        let comment = match decision(project, None, terms) {
            Decision::Rejected(_, comment) | Decision::Dropped(_, comment) if !is_over(planning) => Some(comment),
            _ => None,
        };
        let mut project = with_visibility(project, visibility)?;
        if comment.is_some() {
            for key in STATUS_FIELDS {
                match planning.text(key) {
                    Some(text) => project.set(key, &text)?,
                    None => drop(project.remove(key)),
                }
            }
        }
        let base = base.map(|base| with_visibility(base, visibility)).transpose()?;
        let record = merge_copies(base.as_ref(), &project, &with_visibility(planning, visibility)?);
        Ok(Merged { record, comment })
    }

    /// Writes the record to a ledger and returns it.
    fn write(self, transaction: &mut Transaction<'_, '_>) -> Result<Record> {
        let id = self.record.text("id").unwrap_or_default();
        transaction.put(&self.record)?;
        let is_known = |comment: &str| Issue::read(&self.record).is_some_and(|(issue, _)| has_comment(&issue, comment));
        if let Some(comment) = self.comment.as_deref().filter(|comment| !is_known(comment)) {
            transaction.comment_here(&id, comment)?;
        }
        transaction.edit(&id, |_, _| Ok(()))
    }
}

/// Both copies of an issue, with their ledgers locked.
struct Copies {
    locks: LedgerLocks,
    /// The project's ledger in the current worktree.
    project: Ledger,
    /// The planning's copy.
    planned: IndexedIssue,
    bases: Bases,
}

impl Copies {
    fn lock(place: &Place, ledger: &Ledger, id: &str, target: usize) -> Result<Copies> {
        let project = in_current_worktree(place, ledger, target)?;
        let deadline = Instant::now() + RETRY_TIMEOUT;
        let mut found = planned(ledger, id, target)?;
        loop {
            ledger.require_writable(found.ledger)?;
            let locks = LedgerLocks::acquire(&[&ledger.repos()[found.ledger].file, &project.repos()[0].file])?;
            // Another command may have changed or moved the issue before we acquired the locks.
            let planned = planned(ledger, id, target)?;
            if planned.ledger == found.ledger {
                let bases = Bases::read(&ledger.repos()[planned.ledger], &planned.issue.id)?;
                return Ok(Copies { locks, project, planned, bases });
            }
            if Instant::now() > deadline {
                return Err(contended_error(&planned.issue.id));
            }
            found = planned;
        }
    }
}

fn contended_error(id: &str) -> Error {
    Error::unavailable(format!("another program keeps changing issue {id}")).hint("retry when that program is done")
}

/// The proposed versions of an issue, the oldest first, for the common ancestor of its copies.
///
/// They are in a file in the private directory of the planning repository, which is read and written under the lock of its
/// ledger. Without them copies are still merged, but without knowing which of them changed a field. A withdrawn or decided
/// issue may still have some: its next proposal replaces them.
#[derive(Clone, Default)]
struct Bases(Vec<Record>);

impl Bases {
    /// Reads the versions of an issue. If they belong to another user and are not readable, there are none.
    fn read(planning: &Repo, id: &str) -> Result<Bases> {
        let document = match Bases::document(planning) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Bases::default()),
            document => document.map_err(Bases::cannot(planning, "read"))?,
        };
        Ok(Bases(places_of(&document, id).filter_map(|place| document.record(place).ok()).collect()))
    }

    /// Returns the common ancestor of both copies, if known.
    fn ancestor_of(&self, project_copy: &Record, planned: &Record) -> Option<Record> {
        ancestor(&self.0, project_copy, planned)
    }

    /// Adds a version, unless it is the last one. Of too many, those after the first are dropped.
    fn with(&self, proposed: &Record) -> Bases {
        let mut versions = self.0.clone();
        if versions.last() != Some(proposed) {
            versions.push(proposed.clone());
        }
        let surplus = versions.len().saturating_sub(MAX_VERSIONS);
        versions.drain(1..=surplus);
        Bases(versions)
    }

    /// Writes the versions of an issue, unless the file has them.
    fn write(&self, planning: &Repo, id: &str) -> Result<()> {
        let mut document = Bases::document(planning).map_err(Bases::cannot(planning, "read"))?;
        let before = document.to_bytes();
        let known: Vec<usize> = places_of(&document, id).collect();
        document.remove_all(&known);
        // Records with one id stay in the order in which they are inserted.
        for record in &self.0 {
            document.insert(record)?;
        }
        let bytes = document.to_bytes();
        if bytes == before {
            return Ok(());
        }
        waypost_fs::replace(&Bases::path(planning), &bytes, 0o600).map_err(Bases::cannot(planning, "write"))
    }

    /// Removes the versions of an issue that is not proposed any more, if possible.
    fn remove(planning: &Repo, id: &str) {
        let _ = Bases::default().write(planning, id);
    }

    fn path(planning: &Repo) -> PathBuf {
        planning.checkout.private_dir.join("proposed.jsonl")
    }

    fn document(planning: &Repo) -> std::io::Result<Document> {
        match std::fs::read(Bases::path(planning)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Document::parse(Vec::new())),
            bytes => bytes.map(Document::parse),
        }
    }

    fn cannot(planning: &Repo, what: &str) -> impl Fn(std::io::Error) -> Error {
        let problem = format!("cannot {what} {}", Bases::path(planning).display());
        move |error| Error::unavailable(&problem).because(error)
    }
}

/// Returns the places of an issue in a document.
fn places_of(document: &Document, id: &str) -> impl Iterator<Item = usize> {
    let has_id =
        move |place: &usize| document.record(*place).is_ok_and(|record| record.text("id").as_deref() == Some(id));
    (0..document.len()).filter(has_id)
}

/// Finds the planning's copy of an issue.
fn planned(ledger: &Ledger, id: &str, target: usize) -> Result<IndexedIssue> {
    ledger.with_index(|index| {
        let id = index.find(id)?;
        for number in (0..ledger.repos().len()).filter(|number| *number != target) {
            if let Some(entry) = index.in_ledger(&id, number)? {
                return Ok(entry);
            }
        }
        let path = ledger.repos()[target].path().display();
        Err(Error::conflict(format!("issue {id} is only in the ledger of {path}"))
            .hint("propose an issue of your planning repository: way add --repo PLANNING"))
    })
}

/// Opens the ledger of a repository in the current worktree, whose branch gets the commit with the proposal.
fn in_current_worktree(place: &Place, ledger: &Ledger, target: usize) -> Result<Ledger> {
    let repo = &ledger.repos()[target];
    if repo.is_separate() {
        return Err(Error::refused(
            "the project keeps its issues on a branch of their own, so no pull request carries them",
        )
        .hint("send the issue to a maintainer: way show ID --json; way import takes it"));
    }
    let is_here = place.checkout.as_ref().is_some_and(|checkout| checkout.repository_path() == repo.path());
    let here = if is_here { Some(place.work_checkout()?) } else { None };
    let root = here.and_then(|checkout| checkout.root.clone()).unwrap_or_else(|| repo.root.clone());
    Ledger::of_one(place, in_worktree(repo, here.unwrap_or(&repo.checkout), root))
}

/// Opens the ledgers of a project in its other worktrees than `here`, if they have an issue.
fn in_other_worktrees(place: &Place, repo: &Repo, here: &Path, id: &str) -> Result<Vec<Ledger>> {
    let mut roots: Vec<PathBuf> = repo.checkout.worktrees().into_iter().map(|listed| listed.path).collect();
    roots.push(repo.root.clone());
    roots.sort();
    roots.dedup();
    let repos = roots.into_iter().filter(|root| root != here && root.is_dir());
    let repos = repos.map(|root| in_worktree(repo, &repo.checkout, root));
    let has_issue = |repo: &Repo| repo.file.read().is_ok_and(|document| places_of(&document, id).next().is_some());
    repos.filter(has_issue).map(|repo| Ledger::of_one(place, repo)).collect()
}

/// Describes the ledger of a project in a worktree of a checkout. A workspace has the private files of its owner.
fn in_worktree(repo: &Repo, checkout: &Checkout, root: PathBuf) -> Repo {
    if root == repo.root {
        return repo.clone();
    }
    let file = ledger_in(&root).0;
    let mut checkout = checkout.clone();
    checkout.private_dir = repo.checkout.private_dir.clone();
    Repo { unreachable: repo.unreachable.clone(), ..Repo::of(checkout, root, file) }
}

fn with_visibility(record: &Record, visibility: Visibility) -> Result<Record> {
    let mut record = record.clone();
    match visibility.as_field() {
        Some(name) => record.set("visibility", &name)?,
        None => drop(record.remove("visibility")),
    }
    Ok(record)
}
