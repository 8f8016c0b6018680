//! The programs of others that tests run for real.
//!
//! `cargo xtask test` installs them and sets `WAYPOST_TEST_TOOLS`; then a missing one is a failure. Without
//! that, a test that needs one says loudly that it did not run.

use std::io::Write as _;
use std::path::PathBuf;

/// Returns jj, or says that the test is skipped.
pub fn jj() -> Option<PathBuf> {
    find("jj", std::env::var_os("WAYPOST_TEST_JJ").map(PathBuf::from))
}

/// Returns Mercurial, or says that the test is skipped.
pub fn hg() -> Option<PathBuf> {
    find("hg", None)
}

/// Returns a Python that has the official MCP client, or says that the test is skipped.
pub fn mcp_python() -> Option<PathBuf> {
    find("the official MCP client for Python", std::env::var_os("WAYPOST_TEST_MCP_PYTHON").map(PathBuf::from))
}

/// Returns a pooler of PostgreSQL's connections, or says that the test is skipped.
pub fn pgbouncer() -> Option<PathBuf> {
    // Debian puts it where users do not look.
    find("pgbouncer", Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|file| file.is_file()))
}

/// Returns strace, if it may watch and kill processes here, or says that the test is skipped.
pub fn strace() -> Option<PathBuf> {
    let strace = find("strace", None)?;
    let tried = std::process::Command::new(&strace).args(["-o", "/dev/null", "true"]).output();
    if tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        return Some(strace);
    }
    let why = format!("strace may not watch processes here: {tried:?}");
    assert!(std::env::var_os("WAYPOST_TEST_TOOLS").is_none(), "{why}");
    skipped(&why);
    None
}

/// Returns schemathesis, which asks a server everything that its description allows, or says that the test is skipped.
///
/// It comes from PyPI, and is not needed for anything else: its absence is never a failure.
pub fn schemathesis() -> Option<PathBuf> {
    let found = std::env::var_os("WAYPOST_TEST_SCHEMATHESIS").map(PathBuf::from).filter(|file| file.is_file());
    if found.is_none() {
        skipped("schemathesis is not installed; cargo xtask test installs it");
    }
    found
}

/// Returns Node, the published conformance suite of MCP and the one to come, or says that the test is skipped.
///
/// They come from npm, and are not needed for anything else: their absence is never a failure.
pub fn mcp_conformance() -> Option<[PathBuf; 3]> {
    let root = std::env::var_os("WAYPOST_TEST_MCP_CONFORMANCE").map(PathBuf::from);
    let files = ["node/bin/node", "conformance/dist/index.js", "conformance-next/dist/index.js"];
    let found = root.map(|root| files.map(|file| root.join("node_modules").join(file)));
    let found = found.filter(|files| files.iter().all(|file| file.is_file()));
    if found.is_none() {
        skipped("the conformance suite of MCP is not installed; cargo xtask test installs it");
    }
    found
}

/// Returns the directory of real ledgers, or says that the test is skipped.
///
/// It is `WAYPOST_CORPUS`, else `corpus` in a directory `shared` beside the repository.
pub fn corpus() -> Option<PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let found = std::env::var_os("WAYPOST_CORPUS").map_or(beside, PathBuf::from);
    if found.is_dir() {
        return Some(found);
    }
    skipped("the corpus of real ledgers is not there; set WAYPOST_CORPUS to its directory");
    None
}

/// Says that a test did not run. It goes past the capturing of output, so that it is seen.
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

fn find(name: &str, named: Option<PathBuf>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        named.into_iter().chain(std::env::split_paths(&path).map(|dir| dir.join(name))).find(|file| file.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("WAYPOST_TEST_TOOLS").is_none(),
            "{name} is not there, although cargo xtask test should have installed it"
        );
        skipped(&format!("{name} is not installed; cargo xtask test installs it"));
    }
    found
}
