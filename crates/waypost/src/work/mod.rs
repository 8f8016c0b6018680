//! Work: jobs, workspaces and workers, and the plans and templates of workflows.

#[cfg(feature = "jobs")]
pub mod jobs;
#[cfg(not(feature = "jobs"))]
#[path = "without_jobs.rs"]
pub(crate) mod jobs;
pub mod plans;
pub mod references;
#[cfg(feature = "jobs")]
pub mod retention;
pub mod survey;
pub mod templates;
pub mod transfer;
#[cfg(feature = "jobs")]
pub mod worker;
#[cfg(feature = "jobs")]
pub mod workspaces;
