//! Workspaces and their rows in the store.
//!
//! `waypost_workspace` creates and removes the files. The row is written before the first file is created, and marked as
//! removed after the last file is deleted. The next process recovers what a crash left incomplete.

mod changes;
mod create;
mod deliver;
mod places;
mod pool;
mod records;
mod remove;
mod results;
mod rules;
mod snapshots;
mod update;
mod user;

pub use changes::uncommitted_warning;
pub use create::{
    Created, Creation, StartingWork, WorkspaceRequest, check, check_reusable, create, create_from_work, create_named,
    enter, reuse, trust,
};
pub use deliver::{DeliveredWork, deliver, is_mergeable, note_pull_request, open_pull_request, update_merged};
pub use places::{machine, root};
pub use pool::{clean_up, pool, warm};
pub(crate) use records::recover_interrupted;
pub use records::{
    REMOVAL_FAILED, Records, containing, diff, find, is_at_server, is_pooled, list, measure, pin, plan_of, require_here,
};
pub use remove::{Examined, Force, RemovedWorkspace, examine, remove};
pub use results::{count_uncommitted, has_files, keep_result, local, release_results, resolved_conflict, sources_of};
pub use rules::{Reach, Rules, Verdict, collect, default_rules, judge, upkeep};
pub use snapshots::{
    all_snapshots, damaged_mirrors, export, find_snapshot, remove_snapshot, restore, snapshot, snapshots,
};
pub use update::{behind_warning, check_update, update};
pub use user::{UserWorkspace, UserWorkspaces};
