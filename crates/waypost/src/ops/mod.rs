//! Operations of the application by noun.
//!
//! Operations of the store are in [`waypost_core::op`].

pub(crate) mod agent;
pub(crate) mod graph;
pub mod issue;
#[cfg(feature = "jobs")]
pub(crate) mod job;
pub(crate) mod status;
#[cfg(feature = "jobs")]
pub(crate) mod workspace;

pub use agent::Prime;
pub use graph::{DependencyGraph, GraphEdge, GraphNode, NodeState, ShowGraph, graph_of_issue, graph_of_workflow};
#[cfg(feature = "jobs")]
pub use job::{LogPart, ShowLog, StartJob};
pub use status::{IssueCounts, ShowStatus, Status, StoreStatus};
#[cfg(feature = "jobs")]
pub use workspace::{
    DeliverWorkspace, ExplainWorkspace, ExplainedWorkspace, RemoveWorkspace, SavedWorkspace, ShowDiff,
    SnapshotWorkspace, WorkspaceDiff,
};

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
