//! Version control: finds repositories by reading files, and runs git, jj, hg and sl.
//!
//! Only `run` starts these tools. The layouts start no process, and [`detect()`] only if another tool may track a version
//! control directory.

pub(crate) mod checkout;
pub(crate) mod config_file;
mod detect;
mod driver_line;
mod environment;
mod git_config;
mod git_fixes;
pub(crate) mod git_layout;
pub(crate) mod git_processes;
pub(crate) mod hg_layout;
pub mod history;
pub(crate) mod identity;
mod inspect;
mod jj_layout;
pub mod ledger_branch;
pub mod merge_driver;
mod own_git_dir;
mod probe;
pub(crate) mod run;
mod saved_versions;
mod sl_layout;
mod tracked;
pub mod upstream;

pub use checkout::{Checkout, ListedWorktree};
pub use detect::detect;
pub use environment::Environment;
#[cfg(fuzzing)]
pub use git_config::git_config_for_git;
pub use git_fixes::has_known_fixes;
pub use identity::{
    adopt_repository_id, ensure_repository_id, ensure_worktree_id, is_adopted, renew_ids, repository_id, restore_ids,
    worktree_id,
};
pub use probe::is_same_place;
pub use run::{BackgroundStep, NetworkOptions, Step, StepResult, git_version, init_git, run_editor};
pub use saved_versions::each_saved_version;
