//! Work: jobs, workspaces and workers, and the plans and templates of workflows.

pub mod jobs;
pub mod plans;
pub mod references;
pub mod retention;
pub mod survey;
pub mod templates;
pub mod transfer;
pub mod worker;
pub mod workspaces;
