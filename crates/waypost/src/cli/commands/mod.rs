//! The commands, one file each: what it takes, and what it does.

pub(super) mod add;
pub(super) mod assign;
pub(super) mod blocked;
pub(super) mod claim;
pub(super) mod close;
pub(super) mod comment;
pub(super) mod completions;
pub(super) mod config;
pub(super) mod db;
pub(super) mod delete;
pub(super) mod dep;
pub(super) mod doctor;
pub(super) mod init;
pub(super) mod label;
pub(super) mod list;
pub(super) mod ready;
pub(super) mod release;
pub(super) mod reopen;
pub(super) mod search;
pub(super) mod show;
pub(super) mod stale;
pub(super) mod stats;
pub(super) mod status;
pub(super) mod update;
pub(super) mod r#where;
pub(super) mod worktree;
