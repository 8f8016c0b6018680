//! Runs the tests of the workspace, in two tiers, and watches how long each takes.
//!
//! The test programs measure each test. That option of the standard test harness is unstable, so they run with
//! `RUSTC_BOOTSTRAP=1`. cargo-nextest measures, too, but takes longer to build than this may take, and starts a process for
//! each test.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tools::Tools;
use crate::{FULL_SIZES, Result, cargo, root, run};

/// Tests that only `cargo xtask ci` runs, by a part of their path: they start other programs that take seconds each (agents,
/// browsers, generated clients, conformance suites), or many processes at once. The file of slow tests names the others.
const OUTER_MODULES: &[&str] = &[
    "agents::",
    "crash::kills::",
    "crash::storm::",
    "dashboard::",
    "mcp::official::",
    "postgres::failover::",
    "race::crowds::",
    "serving::clients::",
    "serving::conforming::",
    "sync::hg::",
];

/// The file with the names of single tests that only `cargo xtask ci` runs, because each takes more than two seconds.
const SLOW_TESTS: &str = "xtask/slow-tests.txt";

/// A test of the inner tier that takes longer than this many seconds fails the run, unless the machine is slow.
const SLOW_SECONDS: f64 = 3.0;
/// A machine is slow if this many times the mean of all tests is more than that.
const SLOW_MEANS: f64 = 10.0;
/// Number of slowest tests that are shown.
const SHOWN: usize = 10;

/// Which tests run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// What must hold at every change.
    Inner,
    /// The others.
    Outer,
}

/// What happens to a test of the inner tier that is slow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlowTests {
    Fail,
    /// CI runs on machines that other programs slow down.
    Show,
}

/// A program with tests.
#[derive(Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// The directory of its package.
    dir: PathBuf,
}

/// A test that has run.
#[derive(Clone, Debug, PartialEq)]
struct Ran {
    name: String,
    is_ok: bool,
    seconds: f64,
}

/// What the tests of a tier have shown.
#[derive(Default)]
struct Results {
    ran: Vec<Ran>,
    /// Programs that failed, each with its tests that failed.
    failures: Vec<String>,
    /// Tests that failed beside others, and passed alone.
    unsteady: Vec<String>,
    /// Tests that were slow beside others and alone.
    slow: Vec<Ran>,
}

/// Runs the tests of a tier. All of them run, even if one fails.
///
/// A test that fails runs again alone. It fails the run if it fails again; else it is shown as unsteady, with the output of
/// the failure above: that two processors were too busy for it says nothing about the program, and must not go unseen.
pub(crate) fn test(tools: &Tools, tier: Tier, slow_tests: SlowTests) -> Result {
    let slow = slow_tests_file()?;
    let mut results = Results::default();
    let mut known = BTreeSet::new();
    for program in &build()? {
        let tests = program.tests()?;
        let (mut outer, inner): (Vec<String>, Vec<String>) = tests.into_iter().partition(|test| is_outer(test, &slow));
        known.extend(outer.iter().chain(&inner).cloned());
        // CI runs them at their full size.
        outer.retain(|test| !FULL_SIZES.iter().any(|(name, ..)| test.ends_with(name)));
        program.run_all(tools, if tier == Tier::Inner { &inner } else { &outer }, tier, &mut results)?;
    }
    if let Some(gone) = slow.iter().find(|test| !known.contains(*test)) {
        return Err(format!("{SLOW_TESTS} names a test that does not exist: {gone}"));
    }
    if tier == Tier::Inner {
        run(&mut tools.for_tests(cargo(["test", "--workspace", "--locked", "--doc"])))?;
    }
    results.show();
    if tier == Tier::Inner && slow_tests == SlowTests::Fail && !results.slow.is_empty() {
        let names: Vec<&str> = results.slow.iter().map(|test| test.name.as_str()).collect();
        let slow = format!("slow also alone: make it faster, or add it to {SLOW_TESTS}: {}", names.join(", "));
        results.failures.push(slow);
    }
    if results.failures.is_empty() { Ok(()) } else { Err(results.failures.join("\n")) }
}

impl Results {
    /// Shows the slowest tests, and those that did not pass at once.
    fn show(&mut self) {
        self.ran.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        println!("\n{} tests; the slowest, with others beside them:", self.ran.len());
        for test in self.ran.iter().take(SHOWN) {
            println!("{:>7.1} s  {}", test.seconds, test.name);
        }
        for test in &self.unsteady {
            println!("UNSTEADY: failed beside other tests and passed alone: {test}");
        }
    }
}

/// Returns whether only CI runs a test.
fn is_outer(test: &str, slow: &BTreeSet<String>) -> bool {
    OUTER_MODULES.iter().any(|module| test.contains(module)) || slow.contains(test)
}

/// Reads the names of slow tests, one a line.
fn slow_tests_file() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(SLOW_TESTS)).map_err(|error| format!("{SLOW_TESTS}: {error}"))?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
}

/// Builds all test programs.
fn build() -> Result<Vec<Program>> {
    let mut command =
        cargo(["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    println!("+ cargo test --workspace --locked --no-run");
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests cannot be built".to_owned());
    }
    Ok(programs(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the test programs from the messages of cargo.
pub(crate) fn programs(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter(|message| message["profile"]["test"] == true);
    let program = |message: Value| {
        let dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Program { path: message["executable"].as_str()?.into(), dir })
    };
    tests.filter_map(program).collect()
}

impl Program {
    /// Returns the names of all tests of the program.
    fn tests(&self) -> Result<Vec<String>> {
        let output = Command::new(&self.path).args(["--list", "--format", "terse"]).output();
        let output = output.map_err(|error| format!("cannot run {}: {error}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs tests of the program, and again, alone, those that failed or were slow.
    fn run_all(&self, tools: &Tools, tests: &[String], tier: Tier, results: &mut Results) -> Result {
        if tests.is_empty() {
            return Ok(());
        }
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        // Half of the time the tests of the inner tier wait for the disk. Those of the outer tier start many processes, and wait less.
        let threads = if tier == Tier::Inner { 2 * processors } else { processors + processors.div_ceil(2) };
        let (ran, is_ok) = self.run(tools, tests, threads)?;
        let failed: Vec<String> = ran.iter().filter(|test| !test.is_ok).map(|test| test.name.clone()).collect();
        if !is_ok && failed.is_empty() {
            results.failures.push(format!("{} failed", self.path.display()));
        }
        if !failed.is_empty() {
            let (again, is_ok) = self.run(tools, &failed, 1)?;
            let failed_again: Vec<&str> =
                again.iter().filter(|test| !test.is_ok).map(|test| test.name.as_str()).collect();
            if !is_ok || again.len() < failed.len() {
                results.failures.push(format!("{} failed: {}", self.path.display(), failed_again.join(", ")));
            }
            results.unsteady.extend(again.into_iter().filter(|test| test.is_ok).map(|test| test.name));
        }
        if tier == Tier::Inner {
            let mean = ran.iter().map(|test| test.seconds).sum::<f64>()
                / f64::from(u32::try_from(ran.len()).unwrap_or(u32::MAX).max(1));
            let limit = SLOW_SECONDS.max(SLOW_MEANS * mean);
            let slow: Vec<String> =
                ran.iter().filter(|test| test.seconds > limit).map(|test| test.name.clone()).collect();
            if !slow.is_empty() {
                let (alone, _) = self.run(tools, &slow, 1)?;
                results.slow.extend(alone.into_iter().filter(|test| test.seconds > limit));
            }
        }
        results.ran.extend(ran);
        Ok(())
    }

    /// Runs tests of the program, several at once, and shows what it prints. Returns the tests, and whether it succeeded.
    fn run(&self, tools: &Tools, tests: &[String], threads: usize) -> Result<(Vec<Ran>, bool)> {
        let mut command = tools.for_tests(Command::new(&self.path));
        command.args(["-Z", "unstable-options", "--report-time", "--test-threads", &threads.to_string(), "--exact"]);
        command.args(tests).env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &self.dir);
        println!("+ {}: {} tests", self.path.display(), tests.len());
        let cannot = |error: std::io::Error| format!("cannot run {}: {error}", self.path.display());
        let mut child = command.current_dir(&self.dir).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let mut ran = Vec::new();
        let mut output = BufReader::new(child.stdout.take().ok_or("a process without output")?);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).map_err(cannot)? > 0 {
            ran.extend(parse(&String::from_utf8_lossy(&line)));
            std::io::stdout().write_all(&line).map_err(cannot)?;
            line.clear();
        }
        Ok((ran, child.wait().map_err(cannot)?.success()))
    }
}

/// Reads the line of a test: `test path::name ... ok <0.010s>`.
fn parse(line: &str) -> Option<Ran> {
    let (name, result) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    let (result, seconds) = result.strip_suffix("s>")?.split_once(" <")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    Some(Ran { name: name.to_owned(), is_ok: result == "ok", seconds: seconds.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_tests_are_read() {
        let ran = |name: &str, is_ok, seconds| Some(Ran { name: name.to_owned(), is_ok, seconds });
        assert_eq!(parse("test a::b ... ok <0.010s>\n"), ran("a::b", true, 0.01));
        assert_eq!(parse("test a::b - should panic ... ok <1.5s>\n"), ran("a::b", true, 1.5));
        assert_eq!(parse("test a::b ... FAILED <12.000s>\n"), ran("a::b", false, 12.0));
        assert_eq!(parse("test result: ok. 3 passed; 0 failed\n"), None);
        assert_eq!(parse("running 3 tests\n"), None);
    }

    #[test]
    fn the_programs_of_tests_are_found_in_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","profile":{"test":true},"executable":"/t/a"}
{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","profile":{"test":false},"executable":"/t/way"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(programs(messages), [Program { path: "/t/a".into(), dir: "/p".into() }]);
    }

    #[test]
    fn this_toolchain_measures_tests() {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["-Z", "unstable-options", "--report-time", "the_lines_of_tests_are_read"]);
        let output = command.env("RUSTC_BOOTSTRAP", "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().filter_map(parse).count(), 1, "{text}");
    }
}
