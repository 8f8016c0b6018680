//! A transaction on PostgreSQL.

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use waypost_core::clock::Reading;
use waypost_core::{Error, Result};

use super::begun::{Begun, Effect};
use super::client::Failed;
use super::row_cache::RowCache;
use super::{PostgresStore, error};
use crate::cell::{Cell, Row};
use crate::database::{Database, ReadRow, Savepoint};
use crate::sql::{self, Query};

/// Larger results are not cached.
const MAX_CACHED_ROWS: usize = 16;

/// Records the server of the store.
const SERVER_PUT: &str = "UPDATE about SET server = ?1";

pub(super) struct PostgresTx<'a> {
    store: &'a mut PostgresStore,
    effect: Effect,
    clock: Reading,
    /// The server that the store knows, and the current one.
    servers: (Option<String>, Option<String>),
    cache: RowCache,
    has_written: bool,
    is_over: bool,
}

impl<'a> PostgresTx<'a> {
    pub(super) fn new(store: &'a mut PostgresStore, effect: Effect, clock: Reading, begun: Begun) -> PostgresTx<'a> {
        let mut cache = RowCache::default();
        cache.insert((sql::STATE_GET, Vec::new()), vec![begun.state]);
        let servers = (begun.known_server, begun.server);
        PostgresTx { store, effect, clock, servers, cache, has_written: false, is_over: false }
    }

    /// Records the server, if the store knows none yet.
    pub(super) fn record_new_server(&mut self) -> Result<()> {
        match &self.servers {
            (None, Some(_)) if self.effect == Effect::Write => self.put_server(),
            _ => Ok(()),
        }
    }

    fn put_server(&mut self) -> Result<()> {
        let server = Cell::from(self.servers.1.clone());
        self.run(SERVER_PUT, &[server])
    }

    /// Runs several queries in one round trip.
    fn query_all(&mut self, queries: &[Query]) -> Result<Vec<Vec<Vec<Cell>>>> {
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        // The error may belong to a write that was sent before.
        let what = if self.has_written { "cannot write" } else { "cannot read" };
        let cells = |row: &tokio_postgres::Row| (0..row.len()).map(|column| row.try_get(column)).collect();
        connection
            .query(queries)
            .and_then(|results| {
                let results = results.iter().map(|rows| rows.iter().map(cells).collect());
                results.collect::<Result<_, tokio_postgres::Error>>().map_err(Failed::Driver)
            })
            .map_err(|failed| error::at(address, what, &failed))
    }
}

fn lost() -> Error {
    Error::internal("a lost connection was used")
}

impl Database for PostgresTx<'_> {
    fn query(&mut self, sql: &'static str, parameters: &[Cell], read: &mut ReadRow<'_>) -> Result<()> {
        let mut read_all = |rows: &[Vec<Cell>]| rows.iter().try_for_each(|row| read(&mut Row::new(row)));
        if let Some(rows) = self.cache.get(sql, parameters) {
            return read_all(rows);
        }
        let query = (sql, parameters.to_vec());
        let rows = self.query_all(std::slice::from_ref(&query))?.pop().unwrap_or_default();
        let done = read_all(&rows);
        // A transaction rarely repeats a query with many rows.
        if rows.len() <= MAX_CACHED_ROWS {
            self.cache.insert(query, rows);
        }
        done
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn prefetch(&mut self, mut queries: Vec<Query>) -> Result<()> {
        queries.retain(|(sql, parameters)| self.cache.get(sql, parameters).is_none());
        if queries.is_empty() {
            return Ok(());
        }
        for (rows, query) in self.query_all(&queries)?.into_iter().zip(queries) {
            self.cache.insert(query, rows);
        }
        Ok(())
    }

    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()> {
        self.cache.invalidate(sql);
        self.has_written = true;
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        connection.run(sql, parameters).map_err(|failed| error::at(address, "cannot write", &failed))
    }

    fn savepoint(&mut self, step: Savepoint) -> Result<()> {
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        if step == Savepoint::RollBack {
            connection.discard_pending();
            self.cache = RowCache::default();
        }
        // Waits for the answer: the savepoint can undo a later failure, but not one of an earlier write.
        let marked = connection.query(&[(step.sql(), Vec::new())]).map(drop);
        marked.map_err(|failed| error::at(address, "cannot write", &failed))
    }

    fn clock(&mut self) -> Result<Reading> {
        Ok(self.clock.clone())
    }

    fn accept_server(&mut self) -> Result<Option<(String, String)>> {
        self.put_server()?;
        let name = |server: &Option<String>| server.clone().unwrap_or_else(|| "unknown".to_owned());
        Ok(Some((name(&self.servers.0), name(&self.servers.1))))
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        let channel = (self.effect == Effect::Write && self.has_written).then(|| address.channel());
        let committed = connection.commit(channel.as_deref()).map_err(|failed| error::commit(address, &failed));
        // After a failure the drop rolls back, which also finds out whether the connection still works.
        self.is_over = committed.is_ok();
        committed
    }
}

impl Drop for PostgresTx<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.store.roll_back();
        }
    }
}

impl ToSql for Cell {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Cell::Null => Ok(IsNull::Yes),
            Cell::Int(number) => number.to_sql_checked(kind, out),
            Cell::Real(number) => number.to_sql_checked(kind, out),
            Cell::Text(text) => text.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cell {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Cell, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Cell::Int(i64::from_sql(kind, raw)?),
            Type::FLOAT8 => Cell::Real(f64::from_sql(kind, raw)?),
            _ => Cell::Text(String::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Cell, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Cell::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::FLOAT8 | Type::TEXT)
    }
}
