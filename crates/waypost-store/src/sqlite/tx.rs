//! A transaction of SQLite.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{ToSql, Transaction};
use waypost_core::Result;
use waypost_core::clock::{Clock, Reading};
use waypost_fs::FileLock;

use super::{SqliteStore, error, open, reserve};
use crate::cell::{Cell, Row};
use crate::database::{Database, Savepoint};

pub(super) struct SqliteTx<'a> {
    // Dropped in this order: the transaction ends before the gate is released.
    pub(super) transaction: Transaction<'a>,
    pub(super) gate: Option<FileLock>,
    pub(super) store: &'a SqliteStore,
    pub(super) path: &'a Path,
    pub(super) clock: &'a dyn Clock,
}

impl Database for SqliteTx<'_> {
    fn query(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Vec<Row>> {
        let rows = || -> rusqlite::Result<Vec<Row>> {
            let mut statement = self.transaction.prepare_cached(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query(rusqlite::params_from_iter(parameters))?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(Row::new((0..columns).map(|column| row.get(column)).collect::<rusqlite::Result<_>>()?));
            }
            Ok(all)
        };
        rows().map_err(error::at(self.path, "cannot read"))
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
        let SqliteTx { transaction, gate, store, path, .. } = *self;
        transaction.commit().map_err(error::at(path, "cannot write"))?;
        if gate.is_none() {
            return Ok(());
        }
        // Checked after the commit: if the file was moved before, the write went into the moved file.
        if !store.is_current() {
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

impl rusqlite::types::FromSql for Cell {
    fn column_result(value: ValueRef<'_>) -> rusqlite::types::FromSqlResult<Cell> {
        Ok(match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Int(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(_) => Cell::Text(value.as_str()?.to_owned()),
            ValueRef::Blob(_) => return Err(rusqlite::types::FromSqlError::InvalidType),
        })
    }
}
