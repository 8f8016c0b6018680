//! Stands in for the module `postgres` in a program that is built without it: no such store can be opened.

#[path = "postgres/options.rs"]
mod options;

use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use waypost_core::store::{Store, Tx};
use waypost_core::{Error, Result, url_text};

pub use options::Options;

/// A store that does not exist: this type has no values.
pub struct PostgresStore(Infallible);

impl PostgresStore {
    /// Refuses to open a store.
    pub fn open(url: &str, _: Options) -> Result<PostgresStore> {
        Err(not_built_in(url))
    }

    /// Does nothing, because there is no such store.
    #[must_use]
    pub fn accepting_any_server(self) -> PostgresStore {
        self
    }

    /// Cannot be called, because there is no such store.
    pub fn set_timeout(&mut self, _: Duration) -> Duration {
        match self.0 {}
    }
}

impl Store for PostgresStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        match self.0 {}
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        match self.0 {}
    }

    fn wait(&mut self, _: u64, _: Duration) -> Result<()> {
        match self.0 {}
    }
}

/// Refuses to read a table.
pub fn read_table(url: &str, _table: &str, _: Duration) -> Result<Vec<Value>> {
    Err(not_built_in(url))
}

fn not_built_in(url: &str) -> Error {
    Error::unavailable(format!("cannot open {}", url_text::without_password(url)))
        .because("this program was built without PostgreSQL")
}
