//! One process, from start to end: how long it took, and what it used.
//!
//! The standard library does not tell what a process used, and asking the system directly would be unsafe code. So
//! processor time is read from /proc and memory from GNU time; where one of them is missing it stays unknown. Watching
//! /proc for memory was tried: on a busy machine a short process has ended before it is looked at.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// Runs a program and returns how long it took. Nothing else is looked at, because that would take time too.
pub(super) fn wall_time(command: &mut Command) -> Result<Duration> {
    command.stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status();
    let time = start.elapsed();
    succeeded(status, "")?;
    Ok(time)
}

/// Runs a program and returns the user and system time of its main thread. If it fails, the error is what it said.
pub(super) fn cpu_time(command: &mut Command) -> Result<Option<Duration>> {
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut said = String::new();
    // This ends when the process does. Waiting for the process would take away what /proc knows of it.
    let read = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
    while is_running(&child) {
        std::thread::yield_now();
    }
    let time = std::fs::read_to_string(directory(&child).join("schedstat")).ok();
    succeeded(child.wait(), &said)?;
    read.transpose().map_err(|error| error.to_string())?;
    Ok(time.and_then(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos))
}

/// Runs a program and returns the most memory, in KiB, that it had at once. Only GNU time can tell, if it is there.
pub(super) fn peak_memory(command: &Command) -> Result<Option<u64>> {
    let mut time = Command::new("/usr/bin/time");
    time.args(["--format", "%M"]).arg(command.get_program()).args(command.get_args()).env_clear();
    time.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    time.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(output) = time.output() else { return Ok(None) };
    let said = String::from_utf8_lossy(&output.stderr);
    succeeded(Ok(output.status), &said)?;
    Ok(said.lines().last().and_then(|line| line.parse().ok()))
}

/// Tells whether a process has not ended. One that has keeps its times until it is waited for.
fn is_running(child: &Child) -> bool {
    let status = std::fs::read_to_string(directory(child).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn directory(child: &Child) -> PathBuf {
    Path::new("/proc").join(child.id().to_string())
}

fn succeeded(status: std::io::Result<ExitStatus>, said: &str) -> Result {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{status}\n{said}").trim_end().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
