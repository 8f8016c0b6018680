//! Version control, worktrees, and the isolated workspaces in which jobs run.
//!
//! [`detect()`] finds the checkout that contains a path, and where Waypost keeps its state there, by reading files
//! alone. [`worktrees`] adds and removes worktrees with the repository's own tool, and [`workspaces`] gives every job
//! its own directory. [`history`] reads the versions of a file. [`merge_driver`] configures git's merge driver and
//! reads files that git could not merge, [`mod@sync`] merges a ledger with its remote, and [`upstream`] reads the project's
//! default branch. [`jobs`] runs the command of a job,
//! [`sandbox`] confines it, [`job_log`] keeps its output. [`surroundings`] is what a command gets from its process.

pub mod job_log;
pub mod jobs;
pub mod sandbox;
pub mod surroundings;
pub mod sync;
mod vcs;
pub mod workspaces;
pub mod worktrees;

#[cfg(fuzzing)]
pub use vcs::git_config_for_git;
pub use vcs::{
    BackgroundStep, Checkout, Environment, ListedWorktree, NetworkOptions, Step, StepResult, adopt_repository_id,
    detect, each_saved_version, ensure_repository_id, ensure_worktree_id, git_version, has_known_fixes, history,
    init_git, is_adopted, is_same_place, ledger_branch, merge_driver, renew_ids, repository_id, restore_ids,
    run_editor, upstream, worktree_id,
};
