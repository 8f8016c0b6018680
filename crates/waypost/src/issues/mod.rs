//! Issues: ledgers over several repositories, their histories, proposals and claims.

pub(crate) mod claims;
pub(crate) mod epics;
pub(crate) mod forks;
pub(crate) mod history;
pub(crate) mod homes;
pub mod ledger;
pub(crate) mod merge_driver;
pub(crate) mod move_issues;
pub(crate) mod proposals;
pub(crate) mod prune;
pub(crate) mod repos;
pub(crate) mod sync;

pub use claims::blocked;
pub use epics::{FromIssue, plan_epic};
pub use forks::record_chosen_role;
pub use history::{Step, Steps, steps};
pub use homes::{MovedHome, change_home};
pub use merge_driver::{
    Resolved, asks_for_driver, driver_attributes, driver_problem, ensure_driver, merge_files, resolve_conflicts,
};
pub use move_issues::{Which, migrate_issues, take_private};
pub use proposals::{ProposalOutcome, merge_answered_proposals};
pub use prune::{LARGE_LEDGER_BYTES, PrunePlan, Pruned, prune};
pub use repos::{Repo, Repos, Route, primary, role};
pub use sync::{Fetched, Push, SyncOptions, Synced, fetch_project, push_setting, sync, sync_timeout};
