//! The state of the store as a whole, and its deadlines.

use waypost_core::time::Timestamp;

/// The one row of `store_state`.
pub(crate) struct StoreState {
    pub(crate) boot: String,
    pub(crate) offset_ms: i64,
    pub(crate) is_firm: bool,
    pub(crate) doubt_wall: Option<Timestamp>,
    pub(crate) doubt_since: Option<i64>,
    pub(crate) epoch_floor: u64,
}

table! {
    struct StoreState as store_state;
    columns {
        boot: text,
        offset_ms: int,
        is_firm: flag,
        doubt_wall: maybe_timestamp,
        doubt_since: maybe_int,
        epoch_floor: number,
    }
}

/// A time that moves by `?1`. A time in the far future means never, and stays.
macro_rules! shifted {
    ($column:literal) => {
        concat!("CASE WHEN ", $column, " < 4611686018427387904 THEN ", $column, " + ?1 ELSE ", $column, " END")
    };
}

/// A time that moves by `?1`, but not beyond `?2`.
macro_rules! redated {
    ($column:literal) => {
        concat!("CASE WHEN ", $column, " > ?2 - ?1 THEN ?2 ELSE ", $column, " + ?1 END")
    };
}

/// The one row of `store_state`, with the last row of events by primary key.
pub(crate) const STATE_GET: &str = concat!(
    "SELECT last.sequence, last.time, ",
    store_state!(),
    " FROM store_state
        LEFT JOIN (SELECT sequence, time FROM events ORDER BY sequence DESC LIMIT 1) AS last ON 1 = 1"
);
/// A scan: there is one row.
pub(crate) const ANCHOR_PUT: &str =
    "UPDATE store_state SET boot = ?1, offset_ms = ?2, is_firm = ?3, doubt_wall = ?4, doubt_since = ?5";
/// A scan: there is one row.
pub(crate) const EPOCH_FLOOR_PUT: &str = "UPDATE store_state SET epoch_floor = ?1";
/// Along `leases_due`, `tasks_due` and `agents_by_silence`. It runs before every operation, and mostly counts none.
pub(crate) const DUE_COUNT: &str = "
    SELECT (SELECT count(*) FROM leases WHERE holder IS NOT NULL AND deadline <= ?1)
        + (SELECT count(*) FROM tasks WHERE due_at IS NOT NULL AND due_at <= ?1)
        + (SELECT count(*) FROM agents WHERE status <> 'offline' AND silent_at <= ?1)";
/// Along `leases_by_holder`.
pub(crate) const LEASE_SHIFT: &str = concat!(
    "UPDATE leases SET expires_at = ",
    shifted!("expires_at"),
    ", run_until = ",
    shifted!("run_until"),
    ", stall_at = ",
    shifted!("stall_at"),
    ", deadline = ",
    shifted!("deadline"),
    " WHERE holder IS NOT NULL"
);
/// A scan: the clock rarely jumps.
pub(crate) const TASK_SHIFT: &str =
    concat!("UPDATE tasks SET due_at = ", shifted!("due_at"), " WHERE due_at IS NOT NULL");
/// A scan: the clock rarely jumps.
pub(crate) const AGENT_SHIFT: &str =
    concat!("UPDATE agents SET silent_at = ", shifted!("silent_at"), " WHERE silent_at IS NOT NULL");
/// A scan: the clock rarely jumps.
pub(crate) const MESSAGE_SHIFT: &str = concat!(
    "UPDATE messages SET expires_at = ",
    shifted!("expires_at"),
    " WHERE expires_at IS NOT NULL AND state <> 'acted'"
);
/// A scan: the clock rarely jumps.
pub(crate) const TASK_REDATE: &str =
    concat!("UPDATE tasks SET queued_at = ", redated!("queued_at"), " WHERE status = 'pending'");
/// A scan: the clock rarely jumps.
pub(crate) const ANSWER_REDATE: &str = concat!("UPDATE answers SET created_at = ", redated!("created_at"));
