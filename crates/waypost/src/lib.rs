//! Waypost as a library: the durable, shared memory of coding agents at work.
//!
//! Everything that the program `way` does is here, without its command line: a program that embeds Waypost works on the same
//! files and databases as `way`, its server and agents, at the same time, with the same guarantees.
//!
//! Where to begin:
//! - **Issues** of a repository: [`issues::ledger::Ledger`]. It needs no store.
//! - **Workflows, tasks, agents, messages and jobs**: [`app::App`] runs any operation for a caller. The operations are in [`op`],
//!   their records in [`model`].
//! - **Events** as they happen: [`app::session::Session`], an open store, with [`app::session::Session::wait`].
//!
//! ```
//! use waypost::issues::ledger::{Edit, Ledger};
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
//! [`machine::place`] finds where everything is stored, and why; it is the first step of all of these. Every function that can fail
//! returns [`Error`], whose [`Kind`] says what a program can do about it, and whose hints say what a person can.

#![cfg_attr(
    not(all(feature = "import", feature = "jobs")),
    expect(dead_code, reason = "nothing else uses what serves a feature that is off")
)]

pub mod app;
#[cfg(feature = "import")]
pub mod import;
pub mod issues;
pub mod machine;
pub mod ops;
pub mod serving;
pub mod work;

pub use waypost_core::{Error, Kind, Result, id, model, op, time};
