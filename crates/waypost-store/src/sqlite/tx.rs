//! The verbs of a transaction, over SQLite.

use std::path::Path;

use rusqlite::{OptionalExtension, Params, Row, Transaction, params};
use waypost_core::Result;
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::model::{Event, EventQuery, NewEvent, Repository, Worktree};
use waypost_core::path_text;
use waypost_core::store::Tx;
use waypost_core::time::{Clock, Timestamp};
use waypost_fs::FileLock;

use super::{SqliteStore, error, sql};

pub(super) struct SqliteTx<'a> {
    // Dropped in this order: the transaction ends before the gate opens for the next one.
    pub(super) transaction: Transaction<'a>,
    pub(super) gate: Option<FileLock>,
    pub(super) store: &'a SqliteStore,
    pub(super) path: &'a Path,
    pub(super) clock: &'a dyn Clock,
}

impl SqliteTx<'_> {
    fn rows<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        let all =
            || -> rusqlite::Result<Vec<T>> { self.transaction.prepare_cached(sql)?.query_map(params, read)?.collect() };
        all().map_err(error::at(self.path, "cannot read"))
    }

    fn row<T>(&self, sql: &str, params: impl Params, read: fn(&Row<'_>) -> rusqlite::Result<T>) -> Result<Option<T>> {
        let one = || self.transaction.prepare_cached(sql)?.query_row(params, read).optional();
        one().map_err(error::at(self.path, "cannot read"))
    }

    fn execute(&self, sql: &str, params: impl Params) -> Result<()> {
        let run = || self.transaction.prepare_cached(sql)?.execute(params);
        run().map(drop).map_err(error::at(self.path, "cannot write"))
    }

    fn last_event(&self) -> Result<Option<(u64, Timestamp)>> {
        self.row(sql::EVENT_LAST, [], |row| Ok((unsigned(row, 0)?, timestamp(row, 1)?)))
    }
}

impl Tx for SqliteTx<'_> {
    fn now(&mut self) -> Result<Timestamp> {
        let now = self.clock.now();
        Ok(self.last_event()?.map_or(now, |(_, time)| now.max(time)))
    }

    fn repository_get(&mut self, id: &RepositoryId) -> Result<Option<Repository>> {
        self.row(sql::REPOSITORY_GET, [id.as_str()], repository)
    }

    fn repository_put(&mut self, repository: &Repository) -> Result<()> {
        let Repository { id, name, path, vcs, remote_url, default_branch } = repository;
        self.execute(
            sql::REPOSITORY_PUT,
            params![id.as_str(), name, path_text::to_text(path), vcs.as_str(), remote_url, default_branch],
        )
    }

    fn repository_list(&mut self) -> Result<Vec<Repository>> {
        self.rows(sql::REPOSITORY_LIST, [], repository)
    }

    fn worktree_get(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        self.row(sql::WORKTREE_GET, [id.as_str()], worktree)
    }

    fn worktree_put(&mut self, worktree: &Worktree) -> Result<()> {
        let Worktree { id, repository_id, name, path, branch, first_seen, last_seen, removed_at } = worktree;
        self.execute(
            sql::WORKTREE_PUT,
            params![
                id.as_str(),
                repository_id.as_str(),
                name,
                path_text::to_text(path),
                branch,
                first_seen.as_millis(),
                last_seen.as_millis(),
                removed_at.map(Timestamp::as_millis),
            ],
        )
    }

    fn worktree_touch(&mut self, id: &WorktreeId, last_seen: Timestamp) -> Result<()> {
        self.execute(sql::WORKTREE_TOUCH, params![id.as_str(), last_seen.as_millis()])
    }

    fn worktree_list(&mut self) -> Result<Vec<Worktree>> {
        self.rows(sql::WORKTREE_LIST, [], worktree)
    }

    fn event_append(&mut self, event: &NewEvent) -> Result<u64> {
        let NewEvent { time, actor, worktree_id, kind, subject, data } = event;
        self.execute(
            sql::EVENT_APPEND,
            params![time.as_millis(), actor, worktree_id.as_str(), kind, subject, data.to_string()],
        )?;
        Ok(self.transaction.last_insert_rowid().cast_unsigned())
    }

    fn event_list(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        match &query.worktree_id {
            None => self.rows(sql::EVENT_LIST, params![query.limit], event),
            Some(id) => self.rows(sql::EVENT_LIST_OF_WORKTREE, params![query.limit, id.as_str()], event),
        }
    }

    fn event_last(&mut self) -> Result<u64> {
        Ok(self.last_event()?.map_or(0, |(sequence, _)| sequence))
    }

    fn commit(self: Box<Self>) -> Result<()> {
        let SqliteTx { transaction, gate, store, path, .. } = *self;
        transaction.commit().map_err(error::at(path, "cannot write"))?;
        if gate.is_some() {
            store.keep_log_short();
        }
        Ok(())
    }
}

fn repository(row: &Row<'_>) -> rusqlite::Result<Repository> {
    Ok(Repository {
        id: parsed(row, 0)?,
        name: row.get(1)?,
        path: path_text::from_text(row.get_ref(2)?.as_str()?),
        vcs: parsed(row, 3)?,
        remote_url: row.get(4)?,
        default_branch: row.get(5)?,
    })
}

fn worktree(row: &Row<'_>) -> rusqlite::Result<Worktree> {
    Ok(Worktree {
        id: parsed(row, 0)?,
        repository_id: parsed(row, 1)?,
        name: row.get(2)?,
        path: path_text::from_text(row.get_ref(3)?.as_str()?),
        branch: row.get(4)?,
        first_seen: timestamp(row, 5)?,
        last_seen: timestamp(row, 6)?,
        removed_at: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
    })
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        sequence: unsigned(row, 0)?,
        time: timestamp(row, 1)?,
        actor: row.get(2)?,
        worktree_id: parsed(row, 3)?,
        kind: row.get(4)?,
        subject: row.get(5)?,
        data: serde_json::from_str(row.get_ref(6)?.as_str()?).map_err(|error| unreadable(6, error))?,
    })
}

fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_millis)
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn parsed<T: std::str::FromStr<Err = waypost_core::Error>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get_ref(column)?.as_str()?.parse().map_err(|error: waypost_core::Error| unreadable(column, error))
}

fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}
