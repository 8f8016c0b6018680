//! The reference store: the same verbs over ordinary maps, gone with the process.
//!
//! It says what the databases must do, and lets rules be tested without one.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::id::{RepositoryId, WorktreeId};
use crate::model::{Event, EventQuery, NewEvent, Repository, Worktree};
use crate::store::{Store, Tx};
use crate::time::{Clock, Timestamp};

/// A store in memory.
pub struct MemoryStore {
    clock: Box<dyn Clock>,
    rows: Rows,
}

#[derive(Clone, Default)]
struct Rows {
    repositories: BTreeMap<RepositoryId, Repository>,
    worktrees: BTreeMap<WorktreeId, Worktree>,
    events: Vec<Event>,
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new(clock: Box<dyn Clock>) -> Self {
        MemoryStore { clock, rows: Rows::default() }
    }
}

impl Store for MemoryStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        self.begin_write()
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        let rows = self.rows.clone();
        Ok(Box::new(MemoryTx { store: self, rows }))
    }
}

struct MemoryTx<'a> {
    store: &'a mut MemoryStore,
    rows: Rows,
}

impl Tx for MemoryTx<'_> {
    fn now(&mut self) -> Result<Timestamp> {
        let now = self.store.clock.now();
        Ok(self.rows.events.last().map_or(now, |last| now.max(last.time)))
    }

    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        Ok(self.rows.repositories.get(id).cloned())
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        self.rows.repositories.insert(repository.id.clone(), repository.clone());
        Ok(())
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        let mut repositories: Vec<_> = self.rows.repositories.values().cloned().collect();
        repositories.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(repositories)
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        Ok(self.rows.worktrees.get(id).cloned())
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        if !self.rows.repositories.contains_key(&worktree.repository_id) {
            return Err(Error::internal(format!("worktree {} names an unknown repository", worktree.id)));
        }
        self.rows.worktrees.insert(worktree.id.clone(), worktree.clone());
        Ok(())
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        if let Some(worktree) = self.rows.worktrees.get_mut(id) {
            worktree.last_seen = last_seen;
        }
        Ok(())
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        let mut worktrees: Vec<_> = self.rows.worktrees.values().cloned().collect();
        worktrees.sort_by(|a, b| (a.first_seen, &a.name, &a.id).cmp(&(b.first_seen, &b.name, &b.id)));
        Ok(worktrees)
    }

    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        if !self.rows.worktrees.contains_key(&event.worktree_id) {
            return Err(Error::internal(format!("an event names the unknown worktree {}", event.worktree_id)));
        }
        let sequence = self.event_last()? + 1;
        self.rows.events.push(Event {
            sequence,
            time: event.time,
            actor: event.actor.clone(),
            worktree_id: event.worktree_id.clone(),
            kind: event.kind.to_owned(),
            subject: event.subject.clone(),
            data: event.data.clone(),
        });
        Ok(sequence)
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        let wanted = |event: &&Event| query.worktree_id.as_ref().is_none_or(|id| *id == event.worktree_id);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        Ok(self.rows.events.iter().rev().filter(wanted).take(limit).cloned().collect())
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.rows.events.last().map_or(0, |last| last.sequence))
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.store.rows = self.rows;
        Ok(())
    }
}
