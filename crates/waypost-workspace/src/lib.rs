//! Version control as Waypost sees it.
//!
//! [`detect()`] finds the checkout a path is in and where its state lives, by reading files alone: no process
//! is started. [`worktrees`] adds and removes worktrees with the real tools, [`workspaces`] gives every job a directory of
//! its own, [`history`] asks them for the versions of a file, [`merging`] for those that are in conflict, [`mod@sync`]
//! brings a ledger together with its remote, and [`upstream`] sees what became of what is only proposed there; no other
//! module runs them.

mod checkout;
mod config_file;
mod detect;
mod git_layout;
mod hg_layout;
pub mod history;
mod identity;
mod jj_layout;
pub mod job_log;
pub mod jobs;
pub mod merge_driver;
mod run;
mod sl_layout;
pub mod sync;
pub mod upstream;
pub mod workspaces;
pub mod worktrees;

pub use checkout::{Checkout, Listed};
pub use detect::{Environment, detect, is_same_place};
pub use identity::{
    adopt_repository_id, ensure_repository_id, ensure_worktree_id, is_adopted, renew_ids, repository_id, restore_ids,
    worktree_id,
};
pub use run::{Own, git_version, init_git, run_editor, run_step};
