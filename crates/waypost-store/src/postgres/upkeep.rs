//! Facts about a schema.

use waypost_core::Result;

use super::begun::Effect;
use super::client::Failed;
use super::connection::last_row;
use super::{PostgresStore, error};
use crate::cell::Cell;

/// The tables of a schema with their sizes.
const TABLES: &str = "
    SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = to_regnamespace(?1) ORDER BY relname::text COLLATE \"C\"";

/// Facts about an open store.
#[derive(Debug)]
pub struct Info {
    /// The version of its schema.
    pub schema_version: i64,
    /// The name of its schema.
    pub schema: String,
    /// The version of the server.
    pub server_version: String,
    /// The settings that durability depends on, with PostgreSQL's names.
    pub settings: Vec<(&'static str, String)>,
    /// Bytes of its tables and indexes.
    pub bytes: u64,
    /// The number of rows of each table, by table name.
    pub rows: Vec<(String, u64)>,
}

impl PostgresStore {
    /// Returns the server of the store, as system identifier and timeline, where they can be read.
    pub fn server(&mut self) -> Result<Option<String>> {
        let begun = self.begin(Effect::Read)?;
        self.roll_back();
        Ok(begun.server)
    }

    /// Returns facts about the schema.
    pub fn info(&mut self) -> Result<Info> {
        let begun = self.begin(Effect::Read)?;
        let read = self.read_info(begun.version);
        self.roll_back();
        read
    }

    fn read_info(&mut self, schema_version: i64) -> Result<Info> {
        let PostgresStore { connection, address, .. } = self;
        let failed = |failed: Failed| error::at(address, "cannot read", &failed);
        let Some(connection) = connection else {
            return Err(waypost_core::Error::internal("a lost connection was used"));
        };
        let client = &mut connection.client;
        let names = ["fsync", "full_page_writes", "synchronous_commit"];
        let mut settings = Vec::new();
        for name in names {
            let rows = client.simple_query(&format!("SHOW {name}")).map_err(failed)?;
            let value = last_row(&rows).and_then(|row| row.get(0)).unwrap_or_default().to_owned();
            settings.push((name, value));
        }
        let rows = client.simple_query("SHOW server_version").map_err(failed)?;
        let server_version = last_row(&rows).and_then(|row| row.get(0)).unwrap_or_default().to_owned();
        let tables = connection.query(&[(TABLES, vec![Cell::from(&address.schema)])]).map_err(failed)?;
        let client = &mut connection.client;
        let mut rows = Vec::new();
        let mut bytes = 0;
        for table in tables.into_iter().flatten() {
            let (name, size): (String, i64) = (table.get(0), table.get(1));
            bytes += size.cast_unsigned();
            if ["about", "store_state"].contains(&name.as_str()) {
                continue;
            }
            // A name from the schema, quoted: identifiers cannot be bound.
            let count = format!("SELECT count(*) FROM {}", address.qualified(&format!("\"{name}\"")));
            let counted = client.simple_query(&count).map_err(failed)?;
            let counted = last_row(&counted).and_then(|row| row.get(0)).and_then(|text| text.parse().ok());
            rows.push((name, counted.unwrap_or_default()));
        }
        let schema = address.schema.clone();
        Ok(Info { schema_version, schema, server_version, settings, bytes, rows })
    }
}
