//! Issues: ledgers over several repositories, their histories, proposals and claims.

pub mod claims;
pub mod epics;
pub mod forks;
pub mod history;
pub mod homes;
pub mod ledger;
pub mod merge_driver;
pub mod move_issues;
pub mod proposals;
pub mod prune;
pub mod repos;
pub mod sync;
