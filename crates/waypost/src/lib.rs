//! Waypost as a library: the application behind every surface.
//!
//! Programs that work with issues start at [`ledger::Ledger`].
//!
//! [`place`] finds where everything is stored, and why; [`session`] opens the chosen store for the caller's worktree;
//! [`app`] runs operations. The program `way` is the crate `waypost-cli`.

pub mod access;
pub mod app;
pub mod bytes;
pub mod candidates;
pub mod challenge;
pub mod claims;
pub mod client;
pub mod config;
pub mod denied;
pub mod environment;
pub mod epics;
pub mod forks;
pub mod history;
pub mod homes;
mod idempotency;
pub mod import;
pub mod jobs;
pub mod ledger;
pub mod merge_driver;
pub mod move_issues;
pub mod operation;
pub mod ops;
pub mod origin;
pub mod place;
pub mod plans;
pub mod proposals;
pub mod prune;
pub mod references;
pub mod registry;
pub mod repos;
pub mod retention;
pub mod session;
pub mod signals;
mod sockets;
pub mod steps;
pub mod survey;
pub mod sync;
pub mod system;
pub mod templates;
pub mod tokens;
pub mod transfer;
pub mod wire;
pub mod worker;
pub mod workspaces;

pub use waypost_core::{Error, Kind, Result};
