//! Where a command runs: repository, worktree, store, configuration, and the process itself.

pub mod bytes;
pub mod config;
pub mod denied;
pub mod environment;
pub mod place;
pub mod registry;
#[cfg(feature = "jobs")]
pub mod signals;
pub mod stores;
pub mod system;
