//! A transaction of PostgreSQL.

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use waypost_core::clock::Reading;
use waypost_core::{Error, Result};

use super::begun::{Begun, Effect};
use super::client::Failed;
use super::statement_cache::Known;
use super::{PostgresStore, error};
use crate::cell::{Cell, Row};
use crate::database::{Database, Savepoint};
use crate::sql::{self, Query};

/// How many rows of an answer are kept.
const MANY: usize = 16;

/// Remembers the server that the store is on.
const SERVER_PUT: &str = "UPDATE about SET server = ?1";

pub(super) struct PostgresTx<'a> {
    store: &'a mut PostgresStore,
    effect: Effect,
    clock: Reading,
    /// The server as the store knows it, and as it is.
    servers: (Option<String>, Option<String>),
    known: Known,
    has_written: bool,
    is_over: bool,
}

impl<'a> PostgresTx<'a> {
    pub(super) fn new(store: &'a mut PostgresStore, effect: Effect, clock: Reading, begun: Begun) -> PostgresTx<'a> {
        let mut known = Known::default();
        known.keep((sql::STATE_GET, Vec::new()), &[begun.state]);
        let servers = (begun.known_server, begun.server);
        PostgresTx { store, effect, clock, servers, known, has_written: false, is_over: false }
    }

    /// Remembers the server, if the store knows none yet.
    pub(super) fn learn_server(&mut self) -> Result<()> {
        match &self.servers {
            (None, Some(_)) if self.effect == Effect::Write => self.put_server(),
            _ => Ok(()),
        }
    }

    fn put_server(&mut self) -> Result<()> {
        let server = Cell::from(self.servers.1.clone());
        self.run(SERVER_PUT, &[server])
    }

    /// Asks several things at once.
    fn ask(&mut self, questions: &[Query]) -> Result<Vec<Vec<Vec<Cell>>>> {
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        // What was run before may have failed, too.
        let what = if self.has_written { "cannot write" } else { "cannot read" };
        let cells = |row: &tokio_postgres::Row| (0..row.len()).map(|column| row.try_get(column)).collect();
        connection
            .query(questions)
            .and_then(|answers| {
                let answers = answers.iter().map(|rows| rows.iter().map(cells).collect());
                answers.collect::<Result<_, tokio_postgres::Error>>().map_err(Failed::Driver)
            })
            .map_err(|failed| error::at(address, what, &failed))
    }
}

fn lost() -> Error {
    Error::internal("a lost connection was used")
}

impl Database for PostgresTx<'_> {
    fn query(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Vec<Row>> {
        if let Some(rows) = self.known.get(sql, parameters) {
            return Ok(rows);
        }
        let question = (sql, parameters.to_vec());
        let rows = self.ask(std::slice::from_ref(&question))?.pop().unwrap_or_default();
        // Longer answers are rarely wanted again, and would only take room.
        if rows.len() <= MANY {
            self.known.keep(question, &rows);
        }
        Ok(rows.into_iter().map(Row::new).collect())
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn prefetch(&mut self, mut questions: Vec<Query>) -> Result<()> {
        questions.retain(|(sql, parameters)| self.known.get(sql, parameters).is_none());
        if questions.is_empty() {
            return Ok(());
        }
        for (question, rows) in self.ask(&questions)?.iter().zip(questions).map(|(rows, question)| (question, rows)) {
            self.known.keep(question, rows);
        }
        Ok(())
    }

    fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<()> {
        self.known.forget(sql);
        self.has_written = true;
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        connection.run(sql, parameters).map_err(|failed| error::at(address, "cannot write", &failed))
    }

    fn savepoint(&mut self, step: Savepoint) -> Result<()> {
        let PostgresStore { connection, address, .. } = &mut *self.store;
        let connection = connection.as_mut().ok_or_else(lost)?;
        if step == Savepoint::RollBack {
            connection.forget_left();
            self.known = Known::default();
        }
        // It is waited for: what fails after it can be undone, and what failed before it cannot.
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
        // After a failure it is rolled back, which also tells whether the connection is still good.
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
