//! A store without records, in memory: what a store is before its first write.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use waypost_core::clock::Clock;
use waypost_core::store::{Store, Tx};
use waypost_core::{Error, Result};

use super::{error, migrate, tx, wait};
use crate::tx::SqlTx;

/// Stands for a store that does not exist yet, so that reading creates nothing. It cannot be written.
pub struct EmptyStore {
    connection: Connection,
    clock: Box<dyn Clock + Send>,
}

impl EmptyStore {
    /// Returns a store without records.
    pub fn new(clock: Box<dyn Clock + Send>) -> Result<EmptyStore> {
        let connection = Connection::open_in_memory().map_err(error::at(path(), "cannot open"))?;
        migrate::migrate(&connection, path())?;
        Ok(EmptyStore { connection, clock })
    }
}

/// What errors call the store.
fn path() -> &'static Path {
    Path::new("a store that does not exist yet")
}

impl Store for EmptyStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        let transaction = self.connection.unchecked_transaction().map_err(error::at(path(), "cannot read"))?;
        let tx = tx::SqliteTx { transaction, written: None, path: path(), clock: &*self.clock };
        Ok(Box::new(SqlTx::new(tx)))
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        Err(Error::internal("cannot write a store that does not exist yet"))
    }

    fn wait(&mut self, _last: u64, at_most: Duration) -> Result<()> {
        wait::pause(None, at_most);
        Ok(())
    }

    fn is_remote(&self) -> bool {
        true
    }
}
