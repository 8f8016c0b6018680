//! Work: jobs, workspaces and workers, and the plans and templates of workflows.

#[cfg(feature = "jobs")]
pub mod jobs;
#[cfg(not(feature = "jobs"))]
#[path = "without_jobs.rs"]
pub(crate) mod jobs;
pub(crate) mod plans;
pub(crate) mod references;
#[cfg(feature = "jobs")]
pub(crate) mod retention;
pub(crate) mod survey;
pub mod templates;
pub mod transfer;
#[cfg(feature = "jobs")]
pub(crate) mod worker;
#[cfg(feature = "jobs")]
pub mod workspaces;

pub use plans::read_plan;
pub use references::{ALL_REPOSITORIES, UnknownRepository, find_repository, find_repository_id};
#[cfg(feature = "jobs")]
pub use retention::{collect_garbage, find_garbage};
pub use survey::{Surveyed, WorktreeState, find_worktree, survey_worktrees};
#[cfg(feature = "jobs")]
pub use worker::{Tally, Worker, WorkerEvent};
