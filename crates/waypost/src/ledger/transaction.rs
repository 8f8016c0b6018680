//! Changes to issues that are made together or not at all.

use std::collections::{BTreeMap, HashSet};
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

use super::{Change, Edit, New, Record, Visibility, opened};
use crate::system::SystemEntropy;

/// Changes that are made together. Each sees what those before it did.
pub struct Transaction<'a, 'b> {
    draft: &'a mut Draft<'b>,
    terms: &'a Terms,
    prefix: &'a str,
    author: Author<'a>,
    /// Who is meant to see new issues, if that is not everybody.
    visibility: Option<Visibility>,
    /// What ids of new issues and comments follow from, instead of chance.
    pub(super) key: Option<&'a str>,
    entropy: RepeatableEntropy,
    /// What issues are called that were added here.
    pub(super) names: Names,
}

/// Draws the same numbers each time a transaction is tried. If a version control tool put a version aside that has the
/// first try's issue in it, the issue of the next try is the same one.
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

/// Draws numbers in order, for ids that do not depend on chance.
struct Next(u32);

impl Entropy for Next {
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
        prefix: &'a str,
        visibility: Option<Visibility>,
        author: Author<'a>,
        entropy: RepeatableEntropy,
    ) -> Self {
        Transaction { draft, terms, prefix, author, visibility, key: None, entropy, names: Names::new() }
    }

    /// Returns the issues as they are now, changes included.
    pub fn issues(&self) -> &Index {
        self.draft.issues()
    }

    /// Makes sure that nothing is written, whatever else is done. What is asked still includes it.
    pub fn discard(&mut self) {
        self.draft.discard();
    }

    /// Makes a change, and returns the issue it is about as it is then.
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

    /// Ends that the issue a change is about waits for what is gone, and was over.
    pub(super) fn stop_waiting(&mut self, change: &Change, gone: &HashSet<String>) -> Result<()> {
        let Some(Ok(id)) = opened(change).map(|id| self.find(id)) else { return Ok(()) };
        let Some(entry) = self.issues().get(&id)? else { return Ok(()) };
        for blocker in entry.issue.blockers().filter(|blocker| gone.contains(*blocker)) {
            self.undepend(&id, blocker, Some(DependencyKind::Blocks))?;
        }
        Ok(())
    }

    /// Returns the id that is meant: the whole of it, the unique beginning, or `$name`.
    pub fn find(&self, wanted: &str) -> Result<String> {
        match wanted.strip_prefix('$') {
            Some(name) => self.names.get(name).cloned().ok_or_else(|| {
                Error::not_found(format!("no issue was added as {name:?} before")).hint("names are for one batch only")
            }),
            None => self.issues().find(wanted),
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
        let mut id = String::new();
        let mut by_key = Next(0);
        for _ in 0..100 {
            id = match self.key {
                Some(key) => issue_id::generate(self.prefix, "", key, Timestamp::from_millis(0), &mut by_key),
                None => issue_id::generate(self.prefix, title, text, self.author.now, &mut self.entropy),
            };
            match self.issues().get(&id)? {
                None => break,
                // It was added before whoever asked for it could be told.
                Some(entry) if self.key.is_some() && entry.issue.title == title.trim() => return Ok(id),
                Some(_) => {}
            }
        }
        let mut record = change::create(&id, &edit, &self.terms.statuses, self.author)?;
        for blocker in &new.blocked_by {
            change::depend(&mut record, &self.find(blocker)?, DependencyKind::Blocks, self.author)?;
        }
        if let Some(origin) = &new.discovered_from {
            change::depend(&mut record, &self.find(origin)?, DependencyKind::DiscoveredFrom, self.author)?;
        }
        if let Some(word) = self.visibility.and_then(Visibility::as_field) {
            record.set("visibility", &word)?;
        }
        self.draft.add(&record)?;
        if let Some(name) = &new.name
            && self.names.insert(name.clone(), id.clone()).is_some()
        {
            return Err(Error::invalid(format!("two issues are added as {name:?}")));
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

    /// Closes an issue. Closing a closed one again changes nothing.
    pub fn close(&mut self, id: &str, reason: Option<&str>) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::close(record, reason, &self.terms.statuses, self.author))
    }

    /// Opens a closed or deleted issue again.
    pub fn reopen(&mut self, id: &str) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::reopen(record, &self.terms.statuses, self.author))
    }

    /// Deletes an issue: a tombstone stays.
    pub fn delete(&mut self, id: &str, reason: Option<&str>) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::delete(record, reason, self.author))
    }

    /// Takes an issue to work on: the one that is named, else the first that is ready.
    pub fn claim(&mut self, id: Option<&str>) -> Result<Record> {
        let id = match id {
            Some(id) => self.claimable(id)?,
            None => self.issues().next(self.author.now)?.ok_or_else(|| {
                Error::new(Kind::NothingToDo, "nothing is ready").hint("way ready --explain says why")
            })?,
        };
        self.draft.edit(&id, |record| change::claim(record, &self.terms.statuses, self.author))
    }

    fn claimable(&self, wanted: &str) -> Result<String> {
        let id = self.find(wanted)?;
        let obstacles = self.issues().obstacles(&id, self.author.now)?;
        // If somebody has it already, or it is over, the claim itself says so.
        let is_about_status = obstacles.iter().any(|reason| matches!(reason, Reason::Status(_)));
        match obstacles.first() {
            Some(reason) if !is_about_status => Err(Error::conflict(format!("issue {id} is not ready: {reason}"))),
            _ => Ok(id),
        }
    }

    /// Gives an issue back; takes it from somebody else, if forced.
    pub fn release(&mut self, id: &str, force: bool) -> Result<Record> {
        let id = self.find(id)?;
        self.draft.edit(&id, |record| change::release(record, force, &self.terms.statuses, self.author))
    }

    /// Says something about an issue.
    pub fn comment(&mut self, id: &str, text: &str) -> Result<Record> {
        if text.trim().is_empty() {
            return Err(Error::invalid("a comment says something"));
        }
        let id = self.find(id)?;
        let comment = match self.key {
            Some(key) => issue_id::generate("c", key, &id, Timestamp::from_millis(0), &mut Next(0)),
            None => issue_id::generate("c", text, &id, self.author.now, &mut self.entropy),
        };
        self.draft.edit(&id, |record| {
            let known = record.raw("comments").unwrap_or_default();
            if self.key.is_some() && known.contains(&format!("\"{comment}\"")) {
                return Ok(());
            }
            change::comment(record, &comment, text, self.author)
        })
    }

    /// Makes an issue depend on another. Circles are refused.
    pub fn depend(&mut self, id: &str, on: &str, kind: DependencyKind) -> Result<Record> {
        let (id, on) = (self.find(id)?, self.find(on)?);
        if id == on {
            return Err(Error::invalid(format!("issue {id} cannot depend on itself")));
        }
        if kind == DependencyKind::Blocks
            && let Some(circle) = self.issues().cycle(&id, &on)
        {
            return Err(Error::conflict("they would wait for each other").because(cycle::describe(&circle)));
        }
        if kind == DependencyKind::Blocks && self.is_part_of(&on, &id) {
            return Err(Error::conflict(format!(
                "issue {on} is a part of {id}, so it would wait for what waits for it"
            ))
            .hint("an epic waits for its parts by itself"));
        }
        if kind == DependencyKind::ParentChild {
            self.check_parent(&id, &on)?;
        }
        self.draft.edit(&id, |record| change::depend(record, &on, kind, self.author).map(drop))
    }

    /// Ends that an issue depends on another: in one way, or in all. Returns it, and the id of the other.
    pub fn undepend(&mut self, id: &str, on: &str, kind: Option<DependencyKind>) -> Result<(Record, String)> {
        let id = self.find(id)?;
        let nothing = |on: &str| Error::not_found(format!("issue {id} does not depend on {on}"));
        let Some(entry) = self.issues().get(&id)? else { return Err(nothing(on)) };
        // What it depends on may be in no ledger, so only its own dependencies are asked.
        let own = entry.issue.dependencies.iter().map(|edge| edge.depends_on_id.as_str());
        let own = own.chain(entry.issue.parent_id.as_deref());
        let on = issue_id::resolve(own, on).map_err(|_| nothing(on))?.to_owned();
        let record = self.draft.edit(&id, |record| {
            if change::undepend(record, &on, kind, self.author)? { Ok(()) } else { Err(nothing(&on)) }
        })?;
        Ok((record, on))
    }

    /// Tells whether a change failed because its issue is in another ledger by now.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.draft.is_elsewhere()
    }

    /// Returns what is being changed.
    pub(crate) fn draft(&mut self) -> &mut Draft<'b> {
        self.draft
    }

    /// Returns who changes it, and when.
    pub(crate) fn author(&self) -> Author<'a> {
        self.author
    }

    /// Returns an id for an issue of another tracker: the same one in every clone, unless it is taken.
    pub(crate) fn id_for(&self, name: &str, is_taken: impl Fn(&str) -> bool) -> Result<String> {
        let mut next = Next(0);
        let mut id = String::new();
        for _ in 0..100 {
            id = issue_id::generate(self.prefix, "", name, Timestamp::from_millis(0), &mut next);
            if !is_taken(&id) && self.issues().get(&id)?.is_none() {
                break;
            }
        }
        Ok(id)
    }

    /// Takes closed issues out of the file, of these those that `is_saved` elsewhere; as many as bring the file down to
    /// a size, or all. Returns those that were taken out.
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
        self.draft.remove_all(pruned.iter().map(|entry| entry.issue.id.as_str()))?;
        // Just above the last one: what others closed later was not seen here, and must not be taken for pruned.
        if let Some(last) = pruned.iter().filter_map(|entry| entry.issue.closed_at).max() {
            self.draft.raise_mark(Timestamp::from_millis(last.as_millis() + 1))?;
        }
        Ok(pruned)
    }

    /// Returns the copy of an issue that is in this ledger, by its whole id.
    pub(crate) fn copy_here(&self, id: &str) -> Result<Option<IndexedIssue>> {
        self.draft.copy(id)
    }

    /// Writes a record as it is: in the place of the copy that is here, or as a new one.
    pub(crate) fn put(&mut self, record: &Record) -> Result<()> {
        let id = record.text("id").unwrap_or_default();
        if self.draft.copy(&id)?.is_none() {
            return self.draft.add(record);
        }
        let whole = record.clone();
        self.draft.edit(&id, |here| {
            *here = whole;
            Ok(())
        })?;
        Ok(())
    }

    /// Merges a copy of an issue into the one that is here, or adds it. `base` is what both were once, if that is known.
    /// Returns the issue as it is here then.
    pub(crate) fn merge_in(&mut self, base: Option<&Record>, record: &Record) -> Result<Record> {
        let id = record.text("id").unwrap_or_default();
        let merged = match self.copy_here(&id)? {
            Some(here) => merge_copies(base, &here.record, record),
            None => record.clone(),
        };
        self.put(&merged)?;
        Ok(merged)
    }

    /// Takes the copy of an issue out that is here, if there is one.
    pub(crate) fn take_out(&mut self, id: &str) -> Result<()> {
        if self.draft.copy(id)?.is_some() { self.draft.remove(id) } else { Ok(()) }
    }

    /// Says something about the copy of an issue that is here.
    pub(crate) fn comment_here(&mut self, id: &str, text: &str) -> Result<()> {
        let comment = issue_id::generate("c", text, id, self.author.now, &mut self.entropy);
        self.draft.edit(id, |record| change::comment(record, &comment, text, self.author)).map(drop)
    }

    /// Changes the copy of an issue that is here.
    pub(crate) fn edit(&mut self, id: &str, edit: impl Fn(&mut Record, Author<'_>) -> Result<()>) -> Result<Record> {
        self.draft.edit(id, |record| edit(record, self.author))
    }

    /// Tells whether an issue is a part of another, at any depth.
    fn is_part_of(&self, part: &str, whole: &str) -> bool {
        let mut seen = std::collections::BTreeSet::new();
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
        if let Some(circle) = self.issues().parent_cycle(part, whole) {
            return Err(Error::conflict("they would be parts of each other").because(cycle::describe(&circle)));
        }
        let mut above = Some(whole.to_owned());
        let mut seen = std::collections::BTreeSet::new();
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
