//! Where a command runs: repository, worktree, store, configuration, and the process itself.

pub mod bytes;
pub mod config;
pub(crate) mod denied;
pub(crate) mod environment;
pub mod place;
pub(crate) mod registry;
#[cfg(feature = "jobs")]
pub(crate) mod signals;
pub(crate) mod stores;
pub(crate) mod system;

pub use denied::explain_denied;
pub use environment::{CLAUDE_ENV_FILE, Variables, WAYPOST_EPOCH, WAYPOST_JOB, WAYPOST_TASK};
#[cfg(feature = "jobs")]
pub use signals::ShutdownSignal;
pub use stores::forget_store;
pub use system::{SystemEntropy, clock};
