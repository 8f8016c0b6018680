//! Operations of the application by noun.
//!
//! Operations of the store are in [`waypost_core::op`].

pub mod agent;
pub mod issue;
pub mod job;
pub mod store;

use crate::operation::AppEntry;

/// Returns all operations of the application.
pub fn all() -> impl Iterator<Item = &'static AppEntry> {
    [agent::TABLE, issue::TABLE, job::TABLE, store::TABLE].into_iter().flatten()
}
