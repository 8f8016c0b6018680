//! Test fixtures of Waypost: hermetic environments, temporary repositories, processes.
//!
//! Not published. Every function panics on failure, which fails the test that uses it.
#![expect(clippy::missing_panics_doc, reason = "every function panics on failure")]

mod chance;
mod corpus;
mod postgres;
mod run;
mod sandbox;
mod tools;

pub use chance::{Dice, pass};
pub use corpus::{Corpus, corpora};
pub use postgres::{Frozen, Pooler, Postgres, postgres_url};
pub use run::Run;
pub use sandbox::Sandbox;
pub use tools::{find_strace, hg, jj, mcp_conformance, mcp_python, pgbouncer, schemathesis, strace, unavailable};

/// Creates a directory that is deleted on drop.
pub fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("waypost-").tempdir().expect("a temporary directory")
}
