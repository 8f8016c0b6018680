//! Atomic changes to issues.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use waypost_core::id::Entropy;
use waypost_core::ledger::change::{self, Author};
use waypost_core::ledger::merge::merge_copies;
use waypost_core::ledger::ready::{Issues, Reason};
use waypost_core::ledger::vocabulary::{DependencyKind, Terms};
use waypost_core::ledger::{cycle, issue_id};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_ledger::{Draft, Index, IndexedIssue};

use super::{Change, Edit, New, Record, Visibility};
use crate::issues::repos::Repo;
use crate::machine::system::SystemEntropy;

/// Maximum number of ids to try until one is free.
const MAX_ID_ATTEMPTS: usize = 100;

/// Changes that are written atomically. Each sees the ones before it.
pub struct Transaction<'a, 'b> {
    draft: &'a mut Draft<'b>,
    terms: &'a Terms,
    /// The prefix of new ids, determined by the first new issue.
    prefix: OnceCell<String>,
    repo: &'a Repo,
    author: Author<'a>,
    /// The visibility of new issues, if it is restricted.
    visibility: Option<Visibility>,
    /// Idempotency key: ids of new issues and comments derive from it instead of being random.
    pub(super) key: Option<String>,
    entropy: RepeatableEntropy,
    /// The names of issues that this transaction added.
    pub(super) names: Names,
}

/// Draws the same numbers each time a transaction is retried. If a displaced version of the file has the issue of the
/// first attempt, the issue of the next attempt gets the same id.
#[derive(Clone)]
pub(super) struct RepeatableEntropy {
    seed: [u8; 16],
    drawn: u64,
}

impl RepeatableEntropy {
    pub(super) fn new() -> Self {
        let mut seed = [0; 16];
        SystemEntropy.fill(&mut seed);
        RepeatableEntropy { seed, drawn: 0 }
    }
}

impl Entropy for RepeatableEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let mut hasher = DefaultHasher::new();
            (self.seed, self.drawn).hash(&mut hasher);
            part.copy_from_slice(&hasher.finish().to_le_bytes()[..part.len()]);
            self.drawn += 1;
        }
    }
}

/// Draws consecutive numbers, for ids that are not random.
struct Counter(u32);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for (byte, value) in bytes.iter_mut().zip(self.0.to_le_bytes()) {
            *byte = value;
        }
        self.0 += 1;
    }
}

/// The ids of issues by the names they were added with.
pub(super) type Names = BTreeMap<String, String>;

impl<'a, 'b> Transaction<'a, 'b> {
    pub(super) fn new(
        draft: &'a mut Draft<'b>,
        terms: &'a Terms,
        repo: &'a Repo,
        visibility: Option<Visibility>,
        author: Author<'a>,
        entropy: RepeatableEntropy,
    ) -> Self {
        Transaction {
            draft,
            terms,
            prefix: OnceCell::new(),
            repo,
            author,
            visibility,
            key: None,
            entropy,
            names: Names::new(),
        }
    }

    /// Returns the index, which includes the changes made so far.
    pub fn issues(&self) -> &Index {
        self.draft.issues()
    }

    /// Discards the transaction: nothing is written, but queries still see its changes.
    pub fn discard(&mut self) {
        self.draft.discard();
    }

    /// Makes a change and returns the changed issue.
    pub fn apply(&mut self, change: &Change) -> Result<Record> {
        match change {
            Change::Add(new) => {
                let id = self.add(new)?;
                self.draft.edit(&id, |_| Ok(()))
            }
            Change::Update(id, edit) => self.update(id, edit),
            Change::Close(id, reason) => self.close(id, reason.as_deref()),
            Change::Reopen(id) => self.reopen(id),
            Change::Delete(id, reason) => self.delete(id, reason.as_deref()),
            Change::Claim(id) => self.claim(id.as_deref()),
            Change::Release(id, force) => self.release(id, *force),
            Change::Comment(id, text) => self.comment(id, text),
            Change::Depend(id, on, kind) => self.depend(id, on, *kind),
            Change::Undepend(id, on, kind) => self.undepend(id, on, *kind).map(|(record, _)| record),
            Change::Forced(change) => self.apply(change),
        }
    }

    /// Returns the id of an issue that a change is to close, if it is closed or deleted already.
    pub(super) fn closed_already(&self, change: &Change) -> Option<String> {
        let Change::Close(id, _) = change.plain() else { return None };
        // Applying the change reports an error.
        let entry = self.find(id).and_then(|id| self.issues().get(&id)).ok()??;
        self.terms.statuses.category(&entry.issue.status).is_over().then_some(entry.issue.id)
    }

    /// Returns the prefix of new ids: the configured one, else that of the ledger's records, else the repository's.
    fn prefix(&self) -> Result<&str> {
        if let Some(known) = self.prefix.get() {
            return Ok(known);
        }
        let prefix = match self.repo.configured_prefix()? {
            Some(configured) => configured,
            None => self.draft.common_prefix()?.unwrap_or_else(|| self.repo.default_prefix()),
        };
        Ok(self.prefix.get_or_init(|| prefix))
    }

    /// Resolves an id, a unique prefix of one, or `$name`.
    pub fn find(&self, reference: &str) -> Result<String> {
        match reference.strip_prefix('$') {
            Some(name) => self.names.get(name).cloned().ok_or_else(|| {
                Error::not_found(format!("no earlier change added an issue as {name:?}"))
                    .hint("a name is valid within one batch")
            }),
            None => self.issues().find(reference),
        }
    }

    /// Adds an issue, and returns its id.
    pub fn add(&mut self, new: &New) -> Result<String> {
        let mut edit = new.edit.clone();
        if edit.title.is_none() {
            return Err(Error::invalid("an issue needs a title"));
        }
        if let Some(parent) = edit.parent_id.as_mut().filter(|parent| !parent.is_empty()) {
            *parent = self.find(parent)?;
        }
        let (title, text) =
            (edit.title.as_deref().unwrap_or_default(), edit.description.as_deref().unwrap_or_default());
        let prefix = self.prefix()?.to_owned();
        let mut id = String::new();
        let mut by_key = Counter(0);
        for _ in 0..MAX_ID_ATTEMPTS {
            id = match self.key.as_deref() {
                Some(key) => issue_id::generate(&prefix, "", key, Timestamp::from_millis(0), &mut by_key),
                None => issue_id::generate(&prefix, title, text, self.author.now, &mut self.entropy),
            };
            match self.issues().get(&id)? {
                None => break,
                // An earlier attempt with this key added the issue.
                Some(entry) if self.key.is_some() && entry.issue.title == title.trim() => return Ok(id),
                Some(_) => {}
            }
        }
        let mut record = change::create(&id, &edit, &self.terms.statuses, self.author)?;
        let named: BTreeSet<&String> = new.blocked_by.iter().collect();
        let found = named.into_iter().map(|blocker| Ok((blocker, self.find(blocker)?)));
        let found = found.collect::<Result<HashMap<&String, String>>>()?;
        let blockers: Vec<String> = new.blocked_by.iter().filter_map(|blocker| found.get(blocker).cloned()).collect();
        change::depend_on_all(&mut record, &blockers, DependencyKind::Blocks, self.author)?;
        if let Some(origin) = &new.discovered_from {
            change::depend(&mut record, &self.find(origin)?, DependencyKind::DiscoveredFrom, self.author)?;
        }
        if let Some(visibility) = self.visibility.and_then(Visibility::as_field) {
            record.set("visibility", &visibility)?;
        }
        self.draft.add(&record)?;
        if let Some(name) = &new.name
            && self.names.insert(name.clone(), id.clone()).is_some()
        {
            return Err(Error::invalid(format!("two changes add an issue as {name:?}")));
        }
        Ok(id)
    }

    /// Sets fields.
    pub fn update(&mut self, id: &str, edit: &Edit) -> Result<Record> {
        let id = self.find(id)?;
        let mut edit = edit.clone();
        if let Some(parent) = edit.parent_id.as_mut().filter(|parent| !parent.is_empty()) {
            *parent = self.find(parent)?;
            self.check_parent(&id, parent)?;
        }
        self.draft.edit(&id, |record| change::update(record, &edit, &self.terms.statuses, self.author))
    }

    /// Closes an issue. Closing a closed issue changes nothing.
    pub fn close(&mut self, id: &str, reason: Option<&str>) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::close(record, reason, &self.terms.statuses, self.author))
    }

    /// Reopens a closed or deleted issue.
    pub fn reopen(&mut self, id: &str) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::reopen(record, &self.terms.statuses, self.author))
    }

    /// Replaces an issue by a tombstone.
    pub fn delete(&mut self, id: &str, reason: Option<&str>) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::delete(record, reason, self.author))
    }

    /// Claims an issue: the named one, else the most urgent ready one.
    pub fn claim(&mut self, id: Option<&str>) -> Result<Record> {
        let id = match id {
            Some(id) => self.find_claimable(id)?,
            None => self.issues().next(self.author.now)?.ok_or_else(|| {
                Error::new(Kind::NothingToDo, "nothing is ready").hint("way ready --explain says why")
            })?,
        };
        self.draft.edit(&id, |record| change::claim(record, &self.terms.statuses, self.author))
    }

    fn find_claimable(&self, reference: &str) -> Result<String> {
        let id = self.find(reference)?;
        let mut obstacles = self.issues().obstacles(&id, self.author.now)?;
        // A caller who names a record of another tool wants it.
        obstacles.retain(|reason| !matches!(reason, Reason::NotWork(_)));
        // The claim itself reports an issue that is claimed already or closed.
        let is_about_status = obstacles.iter().any(|reason| matches!(reason, Reason::Status(_)));
        match obstacles.first() {
            Some(reason) if !is_about_status => Err(Error::conflict(format!("issue {id} is not ready: {reason}"))),
            _ => Ok(id),
        }
    }

    /// Releases an issue; with `force` also one that another agent works on.
    pub fn release(&mut self, id: &str, force: bool) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::release(record, force, &self.terms.statuses, self.author))
    }

    /// Adds a comment to an issue.
    pub fn comment(&mut self, id: &str, text: &str) -> Result<Record> {
        if text.trim().is_empty() {
            return Err(Error::invalid("a comment needs a text"));
        }
        let id = self.find(id)?;
        let comment = match self.key.as_deref() {
            Some(key) => issue_id::generate("c", key, &id, Timestamp::from_millis(0), &mut Counter(0)),
            None => issue_id::generate("c", text, &id, self.author.now, &mut self.entropy),
        };
        self.draft.edit(&id, |record| {
            let comments = record.raw("comments").unwrap_or_default();
            if self.key.is_some() && comments.contains(&format!("\"{comment}\"")) {
                return Ok(());
            }
            change::comment(record, &comment, text, self.author)
        })
    }

    /// Makes an issue depend on another. Refuses cycles.
    pub fn depend(&mut self, id: &str, on: &str, kind: DependencyKind) -> Result<Record> {
        let (id, on) = (self.find(id)?, self.find(on)?);
        if id == on {
            return Err(Error::invalid(format!("issue {id} cannot depend on itself")));
        }
        if kind == DependencyKind::Blocks
            && let Some(cycle) = self.issues().cycle(&id, &on)
        {
            return Err(Error::conflict("they would wait for each other").because(cycle::describe(&cycle)));
        }
        if kind == DependencyKind::Blocks && self.is_part_of(&on, &id) {
            return Err(Error::conflict(format!("issue {on} is a part of {id}, so both would wait for each other"))
                .hint("an epic waits for its parts without a dependency"));
        }
        if kind == DependencyKind::ParentChild {
            self.check_parent(&id, &on)?;
        }
        self.draft.edit(&id, |record| change::depend(record, &on, kind, self.author).map(drop))
    }

    /// Removes the dependency of one kind, or of every kind, of an issue on another. Returns the issue and the id of the
    /// other.
    pub fn undepend(&mut self, id: &str, on: &str, kind: Option<DependencyKind>) -> Result<(Record, String)> {
        let id = self.find(id)?;
        let no_dependency = |on: &str| Error::not_found(format!("issue {id} does not depend on {on}"));
        let Some(entry) = self.issues().get(&id)? else { return Err(no_dependency(on)) };
        // The other issue may be in no ledger, so its id is resolved among the dependencies.
        let own = entry.issue.dependencies.iter().map(|edge| edge.depends_on_id.as_str());
        let own = own.chain(entry.issue.parent_id.as_deref());
        let on = issue_id::resolve(own, on).map_err(|_| no_dependency(on))?.to_owned();
        let record = self.draft.edit(&id, |record| {
            if change::undepend(record, &on, kind, self.author)? { Ok(()) } else { Err(no_dependency(&on)) }
        })?;
        Ok((record, on))
    }

    /// Returns whether a change failed because another command moved its issue to another ledger.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.draft.is_elsewhere()
    }

    /// Returns the ledger that is being changed.
    pub(crate) fn draft(&mut self) -> &mut Draft<'b> {
        self.draft
    }

    /// Returns an id for an issue of another tracker: the same in every clone, unless it is taken.
    pub(crate) fn id_for(&self, name: &str, is_taken: impl Fn(&str) -> bool) -> Result<String> {
        let prefix = self.prefix()?;
        let mut counter = Counter(0);
        let mut id = String::new();
        for _ in 0..MAX_ID_ATTEMPTS {
            id = issue_id::generate(prefix, "", name, Timestamp::from_millis(0), &mut counter);
            if !is_taken(&id) && self.issues().get(&id)?.is_none() {
                break;
            }
        }
        Ok(id)
    }

    /// Removes those of the given closed issues that are saved in version control, until the file has at most `down_to` bytes.
    /// Returns the removed issues.
    pub fn prune(
        &mut self,
        closed: Vec<IndexedIssue>,
        down_to: Option<usize>,
        is_saved: impl Fn(&IndexedIssue) -> bool,
    ) -> Result<Vec<IndexedIssue>> {
        let mut pruned: Vec<IndexedIssue> = Vec::new();
        let mut size = self.draft.size();
        for entry in closed {
            if down_to.is_some_and(|down_to| size <= down_to) {
                break;
            }
            if is_saved(&entry) {
                size = size.saturating_sub(entry.raw.len() + 1);
                pruned.push(entry);
            }
        }
        if self.draft.is_discarded() {
            // The index need not follow a change that nothing reads.
            return Ok(pruned);
        }
        self.draft.remove_all(pruned.iter().map(|entry| entry.issue.id.as_str()))?;
        // The mark is just above the last removed issue: issues that other clones closed later were not pruned.
        if let Some(last) = pruned.iter().filter_map(|entry| entry.issue.closed_at).max() {
            self.draft.raise_mark(Timestamp::from_millis(last.as_millis() + 1))?;
        }
        Ok(pruned)
    }

    /// Returns this ledger's copy of an issue by its full id.
    pub(crate) fn copy_here(&self, id: &str) -> Result<Option<IndexedIssue>> {
        self.draft.copy(id)
    }

    /// Writes a record unchanged: replaces this ledger's copy of the issue, or adds one.
    pub(crate) fn put(&mut self, record: &Record) -> Result<()> {
        let id = record.text("id").unwrap_or_default();
        if self.draft.copy(&id)?.is_none() {
            return self.draft.add(record);
        }
        let new = record.clone();
        self.draft.edit(&id, |here| {
            *here = new;
            Ok(())
        })?;
        Ok(())
    }

    /// Merges a copy of an issue into this ledger's copy, or adds it. `base` is the common ancestor of both copies, if known.
    /// Returns the merged record.
    pub(crate) fn merge_in(&mut self, base: Option<&Record>, record: &Record) -> Result<Record> {
        let id = record.text("id").unwrap_or_default();
        let merged = match self.copy_here(&id)? {
            Some(here) => merge_copies(base, &here.record, record),
            None => record.clone(),
        };
        self.put(&merged)?;
        Ok(merged)
    }

    /// Removes this ledger's copy of an issue, if there is one.
    pub(crate) fn remove_copy(&mut self, id: &str) -> Result<()> {
        if self.draft.copy(id)?.is_some() { self.draft.remove(id) } else { Ok(()) }
    }

    /// Adds a comment to this ledger's copy of an issue.
    pub(crate) fn comment_here(&mut self, id: &str, text: &str) -> Result<()> {
        let comment = issue_id::generate("c", text, id, self.author.now, &mut self.entropy);
        self.draft.edit(id, |record| change::comment(record, &comment, text, self.author)).map(drop)
    }

    /// Changes this ledger's copy of an issue.
    pub(crate) fn edit(&mut self, id: &str, edit: impl Fn(&mut Record, Author<'_>) -> Result<()>) -> Result<Record> {
        self.draft.edit(id, |record| edit(record, self.author))
    }

    /// Returns whether an issue is a part of another, at any depth.
    fn is_part_of(&self, part: &str, whole: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut above = self.issues().facts(part).and_then(|facts| facts.parent_id.clone());
        while let Some(id) = above.take().filter(|id| seen.insert(id.clone())) {
            if id == whole {
                return true;
            }
            above = self.issues().facts(&id).and_then(|facts| facts.parent_id.clone());
        }
        false
    }

    fn check_parent(&self, part: &str, whole: &str) -> Result<()> {
        if let Some(cycle) = self.issues().parent_cycle(part, whole) {
            return Err(Error::conflict("they would be parts of each other").because(cycle::describe(&cycle)));
        }
        let mut above = Some(whole.to_owned());
        let mut seen = BTreeSet::new();
        while let Some(id) = above.take().filter(|id| seen.insert(id.clone())) {
            let Some(facts) = self.issues().facts(&id) else { break };
            if facts.blockers.iter().any(|blocker| blocker == part) {
                return Err(Error::conflict(format!("issue {id} waits for {part}, so {part} cannot be a part of it")));
            }
            above.clone_from(&facts.parent_id);
        }
        Ok(())
    }
}
