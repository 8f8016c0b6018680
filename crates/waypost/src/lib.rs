//! Waypost as a library: the durable, shared memory of coding agents at work.
//!
//! Everything that the program `way` does is here, without its command line: a program that embeds Waypost works on the same
//! files and databases as `way`, its server and agents, at the same time, with the same guarantees.
//!
//! Where to begin:
//! - **Issues** of a repository: [`ledger::Ledger`]. It needs no store.
//! - **Workflows, tasks, agents, messages and jobs**: [`app::App`] runs any operation for a caller. The operations are in [`op`],
//!   their records in [`model`].
//! - **Events** as they happen: [`session::Session`], an open store, with [`session::Session::wait`].
//!
//! ```
//! use waypost::ledger::{Edit, Ledger};
//!
//! # let dir = waypost_testkit::temp_dir();
//! # let repository = dir.path();
//! # std::fs::create_dir(repository.join(".waypost"))?;
//! let ledger = Ledger::open(repository)?;
//! let id = ledger.add(&Edit { title: Some("Fix the login".to_owned()), ..Edit::default() })?;
//! assert_eq!(ledger.ready()?[0].id, id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The folder `examples` has whole programs: `add_issue`, `run_workflow`, `follow_events` and `custom_worker`.
//!
//! [`place`] finds where everything is stored, and why; it is the first step of all of these. Every function that can fail
//! returns [`Error`], whose [`Kind`] says what a program can do about it, and whose hints say what a person can.

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
pub mod lazy_session;
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
pub mod stores;
pub mod survey;
pub mod sync;
pub mod system;
pub mod templates;
pub mod tokens;
pub mod transfer;
pub mod wire;
pub mod worker;
pub mod workspaces;

pub use waypost_core::{Error, Kind, Result, id, model, op, time};
