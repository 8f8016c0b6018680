//! Issues claimed at a time, by an agent.

use std::path::Path;
use std::process::{Child, Stdio};

use waypost_testkit::{Run, Sandbox};

/// Runs a command as an agent, at a minute of the first day of 2026.
pub(crate) fn at(sandbox: &Sandbox, repo: &Path, minute: u32, agent: &str, args: &[&str]) -> Run {
    let clock = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
    sandbox.way_with(repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref()), ("WAYPOST_AGENT", agent.as_ref())], args)
}

/// Starts a command as an agent, at a minute of the first day of 2026; under `strace` with options, if there are any.
pub(crate) fn start(sandbox: &Sandbox, repo: &Path, minute: u32, agent: &str, strace: &[&str], args: &[&str]) -> Child {
    let program = if strace.is_empty() { env!("CARGO_BIN_EXE_way") } else { "strace" };
    let mut command = sandbox.command(program, repo);
    command.env("WAYPOST_TEST_CLOCK", format!("2026-01-01T00:{minute:02}:00Z")).env("WAYPOST_AGENT", agent);
    command.args(strace).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn end(child: Child) -> Run {
    Run::of(&child.wait_with_output().unwrap())
}
