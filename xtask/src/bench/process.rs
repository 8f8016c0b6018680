//! Measures one process: wall time, processor time and memory.
//!
//! The standard library does not report the resources of a process, and a system call would need unsafe code. So processor
//! time comes from /proc and memory from GNU time; if one is missing, the value is unknown. Polling /proc for memory does
//! not work: on a busy machine a short process ends before the first poll.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// Runs a program and returns its wall time. It measures nothing else, because that would take time too.
pub(super) fn wall_time(command: &mut Command) -> Result<Duration> {
    command.stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status();
    let time = start.elapsed();
    succeeded(status, "")?;
    Ok(time)
}

/// What a process used.
pub(super) struct Usage {
    /// User and system time of the main thread.
    pub(super) cpu: Option<Duration>,
    /// Bytes that it wrote to files, in whole pages.
    pub(super) written: Option<u64>,
}

/// Runs a program and returns what it used. If it fails, the error has its output.
pub(super) fn usage(command: &mut Command) -> Result<Usage> {
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut stderr_text = String::new();
    // This ends when the process ends. Waiting for the process would remove its entry in /proc.
    let read = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut stderr_text));
    while is_running(&child) {
        std::thread::yield_now();
    }
    let cpu = std::fs::read_to_string(directory(&child).join("schedstat")).ok();
    let written = written_bytes(child.id());
    succeeded(child.wait(), &stderr_text)?;
    read.transpose().map_err(|error| error.to_string())?;
    let cpu = cpu.and_then(|text| text.split(' ').next()?.parse().ok()).map(Duration::from_nanos);
    Ok(Usage { cpu, written })
}

/// Returns the bytes that a process has written to files so far, in whole pages. None if /proc does not report them.
pub(super) fn written_bytes(process: u32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse().ok())
}

/// Runs a program and returns its peak memory in KiB. None if GNU time is not installed.
pub(super) fn peak_memory(command: &Command) -> Result<Option<u64>> {
    let mut time = Command::new("/usr/bin/time");
    time.args(["--format", "%M"]).arg(command.get_program()).args(command.get_args()).env_clear();
    time.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    time.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(output) = time.output() else { return Ok(None) };
    let stderr_text = String::from_utf8_lossy(&output.stderr);
    succeeded(Ok(output.status), &stderr_text)?;
    Ok(stderr_text.lines().last().and_then(|line| line.parse().ok()))
}

/// Returns whether a process has not ended. An ended process keeps its times until its parent waits for it.
fn is_running(child: &Child) -> bool {
    let status = std::fs::read_to_string(directory(child).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn directory(child: &Child) -> PathBuf {
    Path::new("/proc").join(child.id().to_string())
}

fn succeeded(status: std::io::Result<ExitStatus>, stderr_text: &str) -> Result {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{status}\n{stderr_text}").trim_end().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
