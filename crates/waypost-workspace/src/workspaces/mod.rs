//! Workspaces: an isolated directory for every job, made fast, and never removed while it holds unsaved work.
//!
//! This module does not know the store. The caller makes a [`Plan`], records it, and only then calls [`make()`]. So the
//! record names everything that a crash leaves behind, and [`abandon()`] removes exactly that. The source repository is
//! only read: workspaces borrow objects from a mirror that only Waypost writes.

mod abandon;
mod beside;
mod changes;
mod clone;
mod copies;
mod diff;
mod dirs;
mod examine;
mod files_lock;
mod git_dir;
mod held_mirror;
mod make;
mod mirror;
mod model;
mod open_processes;
mod overlay;
mod plan;
mod plan_file;
mod pool;
mod push;
mod reflog;
mod remove;
mod repair;
mod results;
mod saved;
mod setup;
mod snapshot;
mod snapshot_refs;
mod template;
mod trash;
mod update;
mod upkeep;

pub use abandon::abandon;
pub use changes::{Uncommitted, commit_with_changes, take_changes, uncommitted};
pub use copies::{copies, replace_copy, save_copy};
pub use diff::{Diff, diff};
pub use examine::{Findings, WorktreeFindings, examine, measure};
pub use files_lock::{FilesLock, lock_files, try_lock_files};
pub use make::make;
pub use mirror::path_for_checkout as mirror_of;
pub use model::{
    Files, Identity, Made, MakeOptions, Name, Places, Plan, Request, Restored, Snapshot, Source, Strategy,
};
pub use open_processes::{Process, processes_in};
pub use overlay::enter;
pub use plan::plan;
pub use pool::{Slot, give_back, list as pool, list_of as pool_of, pooled, returned, take, warm};
pub use push::{Merged, commit, has_remote, head, land, merged, open_pull_request, push};
pub use remove::{Work, remove, sweep_trash};
pub use repair::{DamagedMirror, damaged_mirrors, repair_mirror};
pub use results::{
    Conflict, Merge, Work as TaskWork, count_uncommitted, finish_merge, is_in_branches, keep_result, leave_conflict,
    merge as merge_work, release_results, resolved,
};
pub use saved::{remove_from_mirror, remove_snapshot, saved_in, saved_in_hg};
pub use setup::{Scripts, SetUp, Trust, Trusted, include, set_up};
pub use snapshot::{export, keep_abandoned, restore, snapshot, snapshots, snapshots_of};
pub use update::{Position, position, update};
pub use upkeep::{Packed, upkeep};
