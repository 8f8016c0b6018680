//! The commands, one file each: what it takes, and what it does.

pub(super) mod completions;
pub(super) mod config;
pub(super) mod db;
pub(super) mod doctor;
pub(super) mod init;
pub(super) mod status;
pub(super) mod r#where;
pub(super) mod worktree;
