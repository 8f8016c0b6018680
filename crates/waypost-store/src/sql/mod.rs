//! The statements and tables, one file per group, in the SQL that both backends understand.
//!
//! `table!` lists the columns of a table once. All other statements are constants. Parameters are written `?1`; PostgreSQL
//! gets them as `$1`. A list is one parameter, a JSON array, written `json_each(?1)`; PostgreSQL gets its own function for
//! it. The comment of each statement names the index that it uses, and a test compares it with SQLite's query plan.

#[macro_use]
mod table;
#[macro_use]
mod retention;

mod agents;
mod answers;
mod events;
mod jobs;
mod messages;
mod repositories;
mod state;
mod tasks;
mod workflows;

use waypost_core::page::Cursor;
use waypost_core::time::Timestamp;

use crate::cell::Cell;

pub(crate) use agents::*;
pub(crate) use answers::*;
pub(crate) use events::*;
pub(crate) use jobs::*;
pub(crate) use messages::*;
pub(crate) use repositories::*;
pub(crate) use retention::*;
pub(crate) use state::*;
pub(crate) use table::{FromRow, ToRow, ToUpdate};
pub(crate) use tasks::*;
pub(crate) use workflows::*;

/// A statement that reads, with its parameters.
pub(crate) type Query = (&'static str, Vec<Cell>);

/// Joins words into one parameter, each between commas; the empty text if there are none. A statement finds a word in it
/// with `?1 LIKE '%,' || word || ',%'`.
fn between_commas<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.fold(String::new(), |list, word| format!("{}{word},", if list.is_empty() { "," } else { &list }))
}

/// Returns creation time and id of the record after which a list begins, newest first. Without one: values after all rows.
fn position<I>(after: Option<&Cursor<(Timestamp, I)>>, text: fn(&I) -> &str) -> (Timestamp, &str) {
    match after {
        Some(Cursor((created_at, id))) => (*created_at, text(id)),
        None => (Timestamp::from_millis(i64::MAX), "~"),
    }
}

/// The text of each file, for the test that compares comments with query plans.
#[cfg(test)]
pub(crate) const SOURCES: &[&str] = &[
    include_str!("agents.rs"),
    include_str!("answers.rs"),
    include_str!("events.rs"),
    include_str!("jobs.rs"),
    include_str!("messages.rs"),
    include_str!("repositories.rs"),
    include_str!("retention.rs"),
    include_str!("state.rs"),
    include_str!("tasks.rs"),
    include_str!("workflows.rs"),
];
