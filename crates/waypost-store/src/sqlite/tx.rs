//! A transaction of SQLite.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{ToSql, Transaction};
use waypost_core::Result;
use waypost_core::clock::{Clock, Reading};
use waypost_core::seeded::seeded_bug;
use waypost_fs::FileLock;

use super::{SqliteStore, error, open, reserve};
use crate::cell::{Cell, CellRef, Columns, Row};
use crate::database::{Database, ReadRow, Savepoint};

pub(super) struct SqliteTx<'a> {
    // Dropped in this order: the transaction ends before the gate is released.
    pub(super) transaction: Transaction<'a>,
    /// The gate, in a transaction that writes, and the store that it writes.
    pub(super) written: Option<(FileLock, &'a SqliteStore)>,
    pub(super) path: &'a Path,
    pub(super) clock: &'a dyn Clock,
}

impl Database for SqliteTx<'_> {
    fn query(&mut self, sql: &'static str, parameters: &[Cell], read: &mut ReadRow<'_>) -> Result<()> {
        let failed = error::at(self.path, "cannot read");
        let mut statement = self.transaction.prepare_cached(sql).map_err(&failed)?;
        let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            read(&mut Row::new(row))?;
        }
        Ok(())
    }

    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()> {
        let run = || self.transaction.prepare_cached(sql)?.execute(rusqlite::params_from_iter(parameters));
        run().map(drop).map_err(error::at(self.path, "cannot write"))
    }

    fn savepoint(&mut self, step: Savepoint) -> Result<()> {
        self.run(step.sql(), &[])
    }

    fn clock(&mut self) -> Result<Reading> {
        Ok(self.clock.reading())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        let SqliteTx { transaction, written, path, .. } = *self;
        if seeded_bug("acknowledge_before_commit") {
            return Ok(());
        }
        transaction.commit().map_err(error::at_commit(path))?;
        let Some((_gate, store)) = written else { return Ok(()) };
        // Checked after the commit: if the file was moved before, the write went into the moved file.
        if !store.is_current() && !seeded_bug("commit_into_lost_file") {
            return Err(open::replaced(&store.named)
                .hint("the write may be in the file that was moved; repeat it with the same idempotency key")
                .outcome_unknown());
        }
        store.keep_log_short();
        reserve::fill(path);
        Ok(())
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Null => ToSqlOutput::Owned(Value::Null),
            Cell::Int(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Cell::Real(number) => ToSqlOutput::Owned(Value::Real(*number)),
            Cell::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

impl Columns for rusqlite::Row<'_> {
    fn get(&self, column: usize) -> Result<CellRef<'_>, String> {
        match self.get_ref(column).map_err(|error| error.to_string())? {
            ValueRef::Null => Ok(CellRef::Null),
            ValueRef::Integer(number) => Ok(CellRef::Int(number)),
            ValueRef::Real(number) => Ok(CellRef::Real(number)),
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(CellRef::Text).map_err(|error| error.to_string()),
            ValueRef::Blob(_) => Err("it is a blob".to_owned()),
        }
    }
}
