//! A transaction over any SQL database.
//!
//! [`SqlTx`] runs the statements of [`sql`] through the [`Database`] of a backend. With it, a file per noun implements the
//! parts of [`Tx`](waypost_core::store::Tx), and `whole.rs` the rest.

mod agents;
mod answers;
mod events;
mod jobs;
mod messages;
mod repositories;
mod state;
mod tasks;
mod whole;
mod workflows;

use waypost_core::{Error, Result};

use self::state::State;
use crate::cell::{Cell, Row, json, one_number};
use crate::database::{Database, ReadRow, Savepoint};
use crate::sql::{self, FromRow, Query, ToRow, ToUpdate};

pub(crate) struct SqlTx<'a> {
    database: Box<dyn Database + 'a>,
    /// The store's state, once it was read. No other transaction can change it: writers are serialized, and a reader sees
    /// one snapshot.
    state: Option<State>,
    writes: u64,
    has_failed: bool,
    has_savepoint: bool,
    /// The value of `state` at the savepoint.
    saved_state: Option<State>,
    /// The queries to prefetch, while they are being collected.
    collected: Option<Vec<Query>>,
}

impl<'a> SqlTx<'a> {
    pub(crate) fn new(database: impl Database + 'a) -> SqlTx<'a> {
        SqlTx {
            database: Box::new(database),
            state: None,
            writes: 0,
            has_failed: false,
            has_savepoint: false,
            saved_state: None,
            collected: None,
        }
    }

    /// Runs a query, and reads its rows with a function.
    fn read<T>(
        &mut self,
        sql: &'static str,
        parameters: &[Cell],
        read: fn(&mut Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.query(sql, parameters, &mut |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn all<T: FromRow>(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Vec<T>> {
        self.read(sql, parameters, T::from_row)
    }

    /// Runs a query whose only parameter is a list.
    fn all_in<T: FromRow>(&mut self, sql: &'static str, list: &impl serde::Serialize) -> Result<Vec<T>> {
        self.read(sql, &[json(list)?], T::from_row)
    }

    fn listed<T: FromRow>(&mut self, (sql, parameters): Query) -> Result<Vec<T>> {
        self.read(sql, &parameters, T::from_row)
    }

    fn one<T: FromRow>(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Option<T>> {
        self.first(sql, parameters, T::from_row)
    }

    /// Runs a query, and reads its first row with a function.
    fn first<T>(
        &mut self,
        sql: &'static str,
        parameters: &[Cell],
        read: fn(&mut Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut first = None;
        self.query(sql, parameters, &mut |row| {
            if first.is_none() {
                first = Some(read(row)?);
            }
            Ok(())
        })?;
        Ok(first)
    }

    /// Reads one number. It is 0 while queries are only collected.
    fn number(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<u64> {
        Ok(self.first(sql, parameters, one_number)?.unwrap_or_default())
    }

    fn put<R: ToRow>(&mut self, row: &R) -> Result<()> {
        self.run(R::PUT, &row.to_cells()?)
    }

    fn update<U: ToUpdate>(&mut self, key: &str, values: &U) -> Result<()> {
        self.run(U::UPDATE, &values.to_cells(key)?)
    }

    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()> {
        self.writes += 1;
        let done = check(parameters).and_then(|()| self.database.run(sql, parameters));
        self.has_failed |= done.is_err();
        done
    }

    fn state(&mut self) -> Result<&mut State> {
        let state = match self.state.take() {
            Some(state) => state,
            // While queries are only collected there is no row.
            None => self.one(sql::STATE_GET, &[])?.unwrap_or_default(),
        };
        Ok(self.state.insert(state))
    }

    fn query(&mut self, sql: &'static str, parameters: &[Cell], read: &mut ReadRow<'_>) -> Result<()> {
        if let Some(collected) = &mut self.collected {
            collected.push((sql, parameters.to_vec()));
            return Ok(());
        }
        let done = check(parameters).and_then(|()| self.database.query(sql, parameters, read));
        self.has_failed |= done.is_err();
        done
    }

    fn savepoint(&mut self, step: Savepoint) -> Result<()> {
        let done = self.database.savepoint(step);
        self.has_failed |= done.is_err();
        done
    }
}

/// Refuses NUL, which PostgreSQL cannot store and SQLite's functions take for the end, so that both behave the same.
fn check(parameters: &[Cell]) -> Result<()> {
    if parameters.iter().any(|cell| matches!(cell, Cell::Text(text) if text.contains('\0'))) {
        return Err(Error::invalid("a text contains the character NUL, which cannot be stored"));
    }
    Ok(())
}
