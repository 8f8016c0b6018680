//! Operations of the application by noun.
//!
//! Operations of the store are in [`waypost_core::op`].

pub mod agent;
pub mod graph;
pub mod issue;
pub mod job;
pub mod status;
pub mod workspace;

use crate::app::operation::AppEntry;

/// Returns all operations of the application.
pub fn all() -> impl Iterator<Item = &'static AppEntry> {
    [agent::TABLE, graph::TABLE, issue::TABLE, job::TABLE, status::TABLE, workspace::TABLE].into_iter().flatten()
}
