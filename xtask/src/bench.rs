//! The bars, measured as ratios: a machine's speed divides out, its load mostly.
//!
//! Every round runs every case once, so that a busy moment meets all of them. The median of each case is
//! compared with that of starting a trivial Rust program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Result, cargo, root, run};

const ROUNDS: usize = 300;

/// One thing that is measured: a whole process, from start to end.
struct Case {
    name: &'static str,
    program: PathBuf,
    args: &'static [&'static str],
    /// How many times a trivial program it may take.
    bar: Option<f64>,
}

/// Measures and prints a table. If `enforce`, a missed bar is an error.
pub(crate) fn measure(enforce: bool) -> Result {
    run(&mut cargo(["build", "--release", "--locked", "--package", "waypost"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let way = target.join("release/way");
    let scratch = target.join("bench");
    let trivial = trivial_program(&scratch)?;
    let (repo, home) = (scratch.join("repo"), scratch.join("home"));
    if !repo.join(".git").is_dir() {
        std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        run(Command::new("git").args(["init", "-q"]).arg(&repo))?;
    }
    let case = |name, args, bar| Case { name, program: way.clone(), args, bar: Some(bar) };
    let cases = [
        Case { name: "trivial program", program: trivial, args: &[], bar: None },
        case("way --version", &["--version"], 2.0),
        case("way where", &["where"], 3.0),
        case("open + one query (worktree list)", &["worktree", "list"], 3.0),
        case("open + one write (db probe)", &["--quiet", "db", "probe", "--writes", "1"], 3.0),
    ];
    let medians = medians(&cases, &repo, &home)?;

    let base = medians[0].as_secs_f64();
    let mut missed = Vec::new();
    println!("\n{:<36} {:>9} {:>7} {:>6}", "whole process, median", "ms", "ratio", "bar");
    for (case, median) in cases.iter().zip(&medians) {
        let ratio = median.as_secs_f64() / base;
        let bar = case.bar.map(|bar| format!("{bar:.1}")).unwrap_or_default();
        let verdict = if case.bar.is_some_and(|bar| ratio > bar) { "  MISSED" } else { "" };
        println!("{:<36} {:>9.3} {ratio:>7.2} {bar:>6}{verdict}", case.name, median.as_secs_f64() * 1000.0);
        if !verdict.is_empty() {
            missed.push(case.name);
        }
    }
    if enforce && !missed.is_empty() {
        return Err(format!("bars missed: {}", missed.join(", ")));
    }
    Ok(())
}

/// Returns the median time of each case.
fn medians(cases: &[Case], dir: &Path, home: &Path) -> Result<Vec<Duration>> {
    let mut times: Vec<Vec<Duration>> = cases.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
    for _ in 0..ROUNDS {
        for (case, times) in cases.iter().zip(&mut times) {
            let mut command = Command::new(&case.program);
            command.args(case.args).current_dir(dir).env("HOME", home).stdin(Stdio::null()).stdout(Stdio::null());
            let start = Instant::now();
            let status = command.status().map_err(|error| format!("{}: {error}", case.name))?;
            times.push(start.elapsed());
            if !status.success() {
                return Err(format!("{} failed: {status}", case.name));
            }
        }
    }
    Ok(times
        .into_iter()
        .map(|mut times| {
            times.sort();
            times[times.len() / 2]
        })
        .collect())
}

/// Builds the program that everything is compared with.
fn trivial_program(scratch: &Path) -> Result<PathBuf> {
    let program = scratch.join("trivial");
    if !program.is_file() {
        std::fs::create_dir_all(scratch).map_err(|error| error.to_string())?;
        let source = scratch.join("trivial.rs");
        #[expect(clippy::disallowed_methods, reason = "a scratch file")]
        std::fs::write(&source, "fn main() {}\n").map_err(|error| error.to_string())?;
        run(Command::new("rustc").args(["-O", "-o"]).arg(&program).arg(&source))?;
    }
    Ok(program)
}
