//! The store as a whole: its time, savepoints and commits.

use waypost_core::clock::{Anchor, Reading, Remembered};
use waypost_core::store::Tx;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::SqlTx;
use crate::cell::cells;
use crate::database::Savepoint;
use crate::sql;

impl Tx for SqlTx<'_> {
    fn clock(&mut self) -> Result<Reading> {
        self.database.clock()
    }

    fn clock_get(&mut self) -> Result<Remembered> {
        Ok(self.state()?.clock.clone())
    }

    fn anchor_put(&mut self, anchor: &Anchor) -> Result<()> {
        let (wall, since_ms) = anchor.doubt.as_ref().map_or((None, None), |doubt| (Some(doubt.wall), doubt.since_ms));
        let parameters = cells![&anchor.boot, anchor.offset_ms, anchor.is_firm, wall, since_ms];
        self.run(sql::ANCHOR_PUT, parameters)?;
        self.state()?.clock.anchor = anchor.clone();
        Ok(())
    }

    fn deadlines_shift(&mut self, by_ms: i64, now: Timestamp) -> Result<()> {
        for shift in [sql::LEASE_SHIFT, sql::TASK_SHIFT, sql::AGENT_SHIFT, sql::MESSAGE_SHIFT] {
            self.run(shift, cells![by_ms])?;
        }
        for redate in [sql::TASK_REDATE, sql::ANSWER_REDATE] {
            self.run(redate, cells![by_ms.max(0), now])?;
        }
        Ok(())
    }

    fn prefetch(&mut self, reads: &mut dyn FnMut(&mut dyn Tx) -> Result<()>) -> Result<()> {
        if !self.database.is_remote() {
            return Ok(());
        }
        let state = self.state.clone();
        self.collected = Some(Vec::new());
        let outcome = reads(self);
        let collected = self.collected.take().unwrap_or_default();
        self.state = state;
        outcome?;
        let done = self.database.prefetch(collected);
        self.has_failed |= done.is_err();
        done
    }

    fn writes(&self) -> u64 {
        self.writes
    }

    fn mark(&mut self) -> Result<()> {
        if self.has_savepoint {
            self.savepoint(Savepoint::Release)?;
        }
        self.savepoint(Savepoint::Set)?;
        (self.has_savepoint, self.saved_state) = (true, self.state.clone());
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        if !self.has_savepoint {
            return Err(Error::internal("the transaction has no savepoint"));
        }
        self.savepoint(Savepoint::RollBack)?;
        (self.state, self.has_failed) = (self.saved_state.clone(), false);
        Ok(())
    }

    fn due_count(&mut self, now: Timestamp) -> Result<u64> {
        self.number(sql::DUE_COUNT, cells![now])
    }

    fn server_accept(&mut self) -> Result<Option<(String, String)>> {
        self.writes += 1;
        let accepted = self.database.accept_server();
        self.has_failed |= accepted.is_err();
        accepted
    }

    fn commit(self: Box<Self>) -> Result<()> {
        // PostgreSQL would roll everything back; SQLite would commit the statements that did not fail.
        if self.has_failed {
            return Err(Error::internal("a transaction in which a statement failed cannot be committed"));
        }
        self.database.commit()
    }
}
