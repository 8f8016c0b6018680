//! The external programs that tests run.
//!
//! `cargo xtask test` installs them and sets `WAYPOST_TEST_TOOLS`; then a missing program is a failure. Otherwise a test
//! that needs it prints that it is skipped.

use std::io::Write as _;
use std::path::PathBuf;

/// Returns jj, or reports the test as skipped.
pub fn jj() -> Option<PathBuf> {
    find("jj", std::env::var_os("WAYPOST_TEST_JJ").map(PathBuf::from))
}

/// Returns Mercurial, or reports the test as skipped.
pub fn hg() -> Option<PathBuf> {
    find("hg", None)
}

/// Returns a Python with the official MCP client, or reports the test as skipped.
pub fn mcp_python() -> Option<PathBuf> {
    find("the official MCP client for Python", std::env::var_os("WAYPOST_TEST_MCP_PYTHON").map(PathBuf::from))
}

/// Returns pgbouncer, or reports the test as skipped.
pub fn pgbouncer() -> Option<PathBuf> {
    // Debian installs it outside the PATH of users.
    find("pgbouncer", Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|file| file.is_file()))
}

/// Returns strace if it may trace processes here, or reports the test as skipped.
pub fn strace() -> Option<PathBuf> {
    let strace = find("strace", None)?;
    let tried = std::process::Command::new(&strace).args(["-o", "/dev/null", "true"]).output();
    if tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        return Some(strace);
    }
    let why = format!("strace may not trace processes here: {tried:?}");
    assert!(std::env::var_os("WAYPOST_TEST_TOOLS").is_none(), "{why}");
    skipped(&why);
    None
}

/// Returns schemathesis, which tests a server against its OpenAPI description, or reports the test as skipped.
///
/// It comes from PyPI and is optional: a missing schemathesis is never a failure.
pub fn schemathesis() -> Option<PathBuf> {
    let found = std::env::var_os("WAYPOST_TEST_SCHEMATHESIS").map(PathBuf::from).filter(|file| file.is_file());
    if found.is_none() {
        skipped("schemathesis is not installed; cargo xtask test installs it");
    }
    found
}

/// Returns Node, the published conformance suite of MCP and its next version, or reports the test as skipped.
///
/// They come from npm and are optional: a missing suite is never a failure.
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

/// Returns the directory of real ledgers, or reports the test as skipped.
///
/// It is `WAYPOST_CORPUS`, else `corpus` in a directory `shared` beside the repository.
pub fn corpus() -> Option<PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let found = std::env::var_os("WAYPOST_CORPUS").map_or(beside, PathBuf::from);
    if found.is_dir() {
        return Some(found);
    }
    skipped("the corpus of real ledgers is missing; set WAYPOST_CORPUS to its directory");
    None
}

/// Reports that a test did not run. It bypasses the capturing of output, so that the developer sees it.
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
            "{name} is missing, although cargo xtask test should have installed it"
        );
        skipped(&format!("{name} is not installed; cargo xtask test installs it"));
    }
    found
}
