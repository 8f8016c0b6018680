//! Reading a table of another program's database. It is never written.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;
use waypost_core::{Error, Result};

use super::address::{Address, DEFAULT_SCHEMA};
use super::connection::Connection;
use super::error;

/// Tables with more rows are refused.
const MAX_ROWS: usize = 100_000;

/// Returns the rows of a table as JSON objects. The URL's parameter `schema` names its schema, by default `public`.
pub fn read_table(url: &str, table: &str, timeout: Duration) -> Result<Vec<Value>> {
    let address = Address::parse(url, timeout)?;
    let schema = if address.schema == DEFAULT_SCHEMA { "public" } else { &address.schema };
    let mut connection = Connection::open(&address, timeout).map_err(|failure| failure.into_error(&address))?;
    let sql = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout TO {};
        SELECT to_jsonb(found)::text FROM \"{schema}\".\"{table}\" AS found LIMIT {};
        ROLLBACK",
        timeout.as_millis().clamp(1, i32::MAX.cast_unsigned().into()),
        MAX_ROWS + 1
    );
    let messages = connection.client.simple_query(&sql).map_err(|failed| match failed.code().map(SqlState::code) {
        Some("42P01" | "3F000") => Error::not_found(format!("{} has no table {schema}.{table}", address.shown())),
        _ => error::at(&address, "cannot read", &failed),
    })?;
    let mut rows = Vec::new();
    for message in &messages {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let text = row.get(0).unwrap_or_default();
        rows.push(serde_json::from_str(text).map_err(|error| Error::damaged("a row is not JSON").because(error))?);
    }
    if rows.len() > MAX_ROWS {
        return Err(Error::invalid(format!("the table {table} has more than {MAX_ROWS} rows")));
    }
    Ok(rows)
}
