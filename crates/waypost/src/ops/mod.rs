//! Operations of the application by noun.
//!
//! Operations of the store are in [`waypost_core::op`].

pub mod agent;
pub mod graph;
pub mod issue;
#[cfg(feature = "jobs")]
pub mod job;
pub mod status;
#[cfg(feature = "jobs")]
pub mod workspace;

use crate::app::operation::AppEntry;

/// Returns all operations of the application.
pub fn all() -> impl Iterator<Item = &'static AppEntry> {
    let tables = [
        agent::TABLE,
        graph::TABLE,
        issue::TABLE,
        #[cfg(feature = "jobs")]
        job::TABLE,
        status::TABLE,
        #[cfg(feature = "jobs")]
        workspace::TABLE,
    ];
    tables.into_iter().flatten()
}
