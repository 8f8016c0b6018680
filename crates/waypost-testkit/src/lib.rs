//! Test fixtures of Waypost: hermetic environments, temporary repositories, processes.
//!
//! Not published. Every function panics on failure, which fails the test that uses it.
#![expect(clippy::missing_panics_doc, reason = "every function panics on failure")]

mod browser;
mod chance;
mod corpus;
pub mod memory;
mod model;
mod postgres;
mod processes;
mod run;
mod sandbox;
mod tools;
mod wait;

pub use browser::Browser;
pub use chance::{Dice, pass};
pub use corpus::{Corpus, corpora, injections};
pub use model::{Model, ModelRequest, Turn};
pub use postgres::{Frozen, Pooler, Postgres, postgres_url};
pub use processes::{Process, processes_in};
pub use run::Run;
pub use sandbox::{Runner, Sandbox, Template, UNPRIVILEGED_UID};
pub use tools::{
    axe, chromium, claude, codex, copilot, find_strace, gemini, generators, hg, jj, mcp_conformance, mcp_python,
    opencode, pgbouncer, pre_commit, pygit2, qwen, schemathesis, strace, tmux, unavailable,
};
pub use wait::{pause, until};

/// Creates a directory that is deleted on drop.
pub fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("waypost-").tempdir().expect("a temporary directory")
}

/// Runs a test of this program once more, in a process of its own with an empty home directory. Returns whether this is
/// that process, so that a test of code that reads `HOME` begins with `if !in_own_home() { return }`.
pub fn in_own_home() -> bool {
    const MARK: &str = "WAYPOST_TEST_OWN_HOME";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let home = temp_dir();
    let test = std::thread::current().name().expect("the name of the test").to_owned();
    let program = std::env::current_exe().expect("the path of the test program");
    let mut command = std::process::Command::new(program);
    command.args([&test, "--exact", "--nocapture"]).env("HOME", home.path()).env_remove("WAYPOST_HOME").env(MARK, "1");
    let output = command.output().expect("the test program runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let has_passed = output.status.success() && printed.contains("1 passed");
    assert!(has_passed, "{printed}{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// Runs a test of this program once more, in a process of its own on a terminal. Returns what the terminal received: the
/// settings of the terminal, the output, `ended` with the exit code, and the settings again. None if this is that process.
pub fn on_own_terminal(test: &str) -> Option<String> {
    const MARK: &str = "WAYPOST_TEST_OWN_TERMINAL";
    if std::env::var_os(MARK).is_some() {
        return None;
    }
    let program = std::env::current_exe().expect("the path of the test program");
    let typed = format!("stty -g; {} {test} --exact --nocapture; echo ended $?; stty -g", program.display());
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &typed, "/dev/null"]).env(MARK, "1").stdin(std::process::Stdio::null());
    let output = script.output().expect("script runs; `cargo xtask test` installs it");
    Some(String::from_utf8_lossy(&output.stdout).replace('\r', ""))
}
