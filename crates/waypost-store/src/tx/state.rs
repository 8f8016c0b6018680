//! The state of the store as a whole, as a transaction knows it.

use waypost_core::Result;
use waypost_core::clock::{Anchor, Doubt, Remembered};

use crate::cell::Row;
use crate::sql::{FromRow, StoreState};

/// The state of the store.
#[derive(Clone, Default)]
pub(super) struct State {
    /// The sequence of the last event; 0 before the first one.
    pub(super) sequence: u64,
    pub(super) clock: Remembered,
    pub(super) epoch_floor: u64,
}

impl FromRow for State {
    fn from_row(row: &mut Row<'_>) -> Result<State> {
        let sequence = row.maybe_number()?.unwrap_or_default();
        let last = row.maybe_timestamp()?;
        let StoreState { boot, offset_ms, is_firm, doubt_wall, doubt_since, epoch_floor } = StoreState::from_row(row)?;
        let doubt = doubt_wall.map(|wall| Doubt { wall, since_ms: doubt_since });
        let anchor = Anchor { boot, offset_ms, is_firm, doubt };
        Ok(State { sequence, clock: Remembered { anchor, last }, epoch_floor })
    }
}
