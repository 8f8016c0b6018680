//! Version control: finds repositories by reading files, and runs git, jj, hg and sl.
//!
//! Only `run` starts these tools. [`detect()`] and the layouts start no process.

pub(crate) mod checkout;
pub(crate) mod config_file;
mod detect;
mod environment;
mod git_fixes;
pub(crate) mod git_layout;
pub(crate) mod git_processes;
mod git_settings;
pub(crate) mod hg_layout;
pub mod history;
pub(crate) mod identity;
mod inspect;
mod jj_layout;
pub mod ledger_branch;
pub mod merge_driver;
mod probe;
pub(crate) mod run;
mod saved_versions;
mod sl_layout;
pub mod upstream;

pub use checkout::{Checkout, ListedWorktree};
pub use detect::detect;
pub use environment::Environment;
pub use git_fixes::has_known_fixes;
#[cfg(fuzzing)]
pub use git_settings::overrides as git_overrides;
pub use identity::{
    adopt_repository_id, ensure_repository_id, ensure_worktree_id, is_adopted, renew_ids, repository_id, restore_ids,
    worktree_id,
};
pub use probe::is_same_place;
pub use run::{BackgroundStep, NetworkOptions, Step, StepResult, git_version, init_git, run_editor};
pub use saved_versions::each_saved_version;
