//! What tests of Waypost need: hermetic environments, temporary repositories, processes.
//!
//! Not published. Panics are how it fails, and how a test that uses it fails.
#![expect(clippy::missing_panics_doc, reason = "everything here panics when it fails")]

mod chance;
mod postgres;
mod run;
mod sandbox;
mod tools;

pub use chance::{Dice, pass};
pub use postgres::{Frozen, Pooler, Postgres, postgres_url};
pub use run::Run;
pub use sandbox::Sandbox;
pub use tools::{corpus, hg, jj, mcp_conformance, mcp_python, pgbouncer, schemathesis, skipped, strace};

/// Makes a directory that is deleted when dropped.
pub fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("waypost-").tempdir().expect("a temporary directory")
}
