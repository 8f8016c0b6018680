//! Builds and runs the fuzz targets in `fuzz/`, without cargo-fuzz.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::tidy::read;
use crate::{Result, root, run, target};

/// The instrumentation that libFuzzer needs. There is no sanitizer: the workspace has no unsafe code, and a sanitizer would
/// double the time of the build.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// Every target gets so many inputs in a test run, always the same ones: a run that fails must fail again.
const TEST_INPUTS: u32 = 2_000;
/// The number that the inputs of a test run are made from.
const TEST_SEED: u32 = 1;
/// Every target runs this long if no time is given.
const DEFAULT_SECONDS: u32 = 60;
/// A longer input finds nothing that a shorter one does not.
const MAX_INPUT_BYTES: u32 = 4096;
/// An input that takes longer is a defect.
const INPUT_TIMEOUT_SECONDS: u32 = 10;
const MEMORY_LIMIT_MB: u32 = 2048;
const PARALLEL: usize = 2;
/// The targets for which the ledgers of the test kit are seeds.
const LEDGER_TARGETS: &[&str] = &["conflict", "document", "merge", "record"];

/// Options of `cargo xtask fuzz`.
pub(crate) struct Options<'a> {
    /// None for the inputs of a test run.
    pub(crate) seconds: Option<u32>,
    /// One target. None for all.
    pub(crate) only: Option<&'a str>,
}

impl<'a> Options<'a> {
    pub(crate) fn parse(args: &[&'a str]) -> Result<Options<'a>> {
        let mut options = Options { seconds: Some(DEFAULT_SECONDS), only: None };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match *arg {
                "--test" => options.seconds = None,
                "--seconds" => {
                    let seconds = rest.next().and_then(|seconds| seconds.parse().ok());
                    options.seconds = Some(seconds.ok_or("--seconds needs a number")?);
                }
                name if !name.starts_with('-') && options.only.is_none() => options.only = Some(name),
                other => return Err(format!("fuzz has no option {other}")),
            }
        }
        Ok(options)
    }
}

/// Builds the targets, and runs each for a time. Fails if an input breaks one, and keeps the input.
pub(crate) fn fuzz(options: &Options<'_>) -> Result {
    let dir = root().join("fuzz");
    let names = targets(&read(&dir.join("src/main.rs"))?);
    let chosen: Vec<&String> = match options.only {
        Some(only) => vec![
            names
                .iter()
                .find(|name| *name == only)
                .ok_or_else(|| format!("there is no fuzz target {only}; there are {}", names.join(", ")))?,
        ],
        None => names.iter().collect(),
    };
    let program = build(&dir)?;
    let mut failed = Vec::new();
    for some in chosen.chunks(PARALLEL) {
        let mut running: Vec<(&str, PathBuf, Child)> = Vec::new();
        for name in some {
            let log = target().join("fuzz").join(format!("{name}.log"));
            running.push((name, log.clone(), start(&program, &dir, name, &log, options.seconds)?));
        }
        for (name, log, mut child) in running {
            let status = child.wait().map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
            let inputs = text.lines().rev().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
            println!(
                "{name}: {} inputs{}",
                inputs.unwrap_or("?").trim(),
                if status.success() { "" } else { ", FAILED" }
            );
            if !status.success() {
                failed.push(format!("fuzz target {name} failed, see {}\n{}", log.display(), last_lines(&text)));
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Reads the names of the targets from their table.
fn targets(source: &str) -> Vec<String> {
    let table = source.split("const TARGETS").nth(1).and_then(|rest| rest.split("];").next()).unwrap_or_default();
    let names = table.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next());
    names.map(str::to_owned).collect()
}

/// Builds the program with all targets, with the nightly toolchain if it is installed.
fn build(dir: &Path) -> Result<PathBuf> {
    let listed = Command::new("rustup").args(["toolchain", "list"]).stderr(Stdio::null()).output();
    let has_nightly =
        listed.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).lines().any(|line| line.starts_with("nightly")));
    let mut command = Command::new("cargo");
    if has_nightly {
        // The variables of the outer cargo name the pinned toolchain.
        command.arg("+nightly").env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    } else {
        println!("note: the nightly toolchain is not installed; the pinned one builds the fuzz targets");
    }
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let built = target().join("fuzz/build");
    // With a target, build scripts and macros are not instrumented.
    command.args(["build", "--locked", "--target", &triple, "--target-dir"]).arg(&built);
    run(command.current_dir(dir).env("RUSTFLAGS", RUSTFLAGS))?;
    Ok(built.join(triple).join("debug/waypost-fuzz"))
}

/// Starts a target with its seeds, and the inputs that earlier runs found.
fn start(program: &Path, dir: &Path, name: &str, log: &Path, seconds: Option<u32>) -> Result<Child> {
    let kept = if seconds.is_some() { "fuzz/corpus" } else { "fuzz/test" };
    let (found, broken) = (target().join(kept).join(name), target().join("fuzz/broken"));
    if seconds.is_none() && found.exists() {
        // What an earlier run found would change the inputs.
        run(Command::new("rm").arg("-rf").arg(&found))?;
    }
    for dir in [&found, &broken] {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    let mut command = Command::new(program);
    command.env("WAYPOST_FUZZ_TARGET", name).args([
        seconds.map_or(format!("-runs={TEST_INPUTS}"), |seconds| format!("-max_total_time={seconds}")),
        seconds.map_or(format!("-seed={TEST_SEED}"), |_| "-seed=0".to_owned()),
        format!("-max_len={MAX_INPUT_BYTES}"),
        format!("-timeout={INPUT_TIMEOUT_SECONDS}"),
        format!("-rss_limit_mb={MEMORY_LIMIT_MB}"),
        format!("-artifact_prefix={}/{name}-", broken.display()),
        "-print_final_stats=1".to_owned(),
    ]);
    command.arg(&found);
    let seeds = dir.join("seeds").join(name);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    if LEDGER_TARGETS.contains(&name) {
        command.arg(root().join("crates/waypost-testkit/corpus"));
    }
    let output = std::fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = output.try_clone().map_err(|error| error.to_string())?;
    let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
    child.map_err(|error| format!("cannot run {}: {error}", program.display()))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("stat::")).collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fuzz_target_has_seeds() {
        let dir = root().join("fuzz");
        let names = targets(&read(&dir.join("src/main.rs")).unwrap());
        assert!(names.len() >= 19, "{names:?}");
        for name in &names {
            let seeds = dir.join("seeds").join(name);
            let count = std::fs::read_dir(&seeds).map_or(0, Iterator::count);
            // The test kit has ledgers.
            assert!(count > 0 || name == "document", "{} is empty", seeds.display());
        }
    }

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--seconds", "5", "merge"]).unwrap();
        assert_eq!((options.seconds, options.only), (Some(5), Some("merge")));
        assert!(Options::parse(&["--seconds"]).is_err() && Options::parse(&["--fast"]).is_err());
    }
}
