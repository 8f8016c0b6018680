//! Runs the tests of the workspace, in two tiers, and watches how long each takes.
//!
//! The test programs measure each test. That option of the standard test harness is unstable, so they run with
//! `RUSTC_BOOTSTRAP=1`. cargo-nextest measures, too, but takes longer to build than this may take, and starts a process for
//! each test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tools::Tools;
use crate::{Result, cargo, run};

/// Tests that only `cargo xtask ci` runs, by a part of their path: they start other programs that take seconds each (agents,
/// browsers, generated clients, conformance suites), or many processes at once.
const OUTER_TIER: &[&str] = &[
    "agents::",
    "crash::storm::",
    "dashboard::",
    "mcp::official::",
    "postgres::failover::",
    "race::crowds::",
    "serving::clients::",
    "serving::conforming::",
];

/// A test that takes longer than this many seconds is counted as slow.
const SLOW_SECONDS: f64 = 3.0;
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

/// Runs the tests of a tier. All of them run, even if one fails.
pub(crate) fn test(tools: &Tools, tier: Tier) -> Result {
    let mut all: Vec<Ran> = Vec::new();
    let mut failures = Vec::new();
    let programs = build()?;
    for program in &programs {
        let selected: Vec<&str> = match tier {
            Tier::Inner => OUTER_TIER.iter().flat_map(|path| ["--skip", path]).collect(),
            Tier::Outer => OUTER_TIER.to_vec(),
        };
        let (ran, is_ok) = program.run(tools, &selected)?;
        let failed: Vec<&str> = ran.iter().filter(|test| !test.is_ok).map(|test| test.name.as_str()).collect();
        if !is_ok {
            failures.push(format!("{} failed: {}", program.path.display(), failed.join(", ")));
        }
        all.extend(ran);
    }
    if tier == Tier::Inner {
        run(&mut tools.for_tests(cargo(["test", "--workspace", "--locked", "--doc"])))?;
    }
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    println!("\n{} tests; the slowest, with others beside them:", all.len());
    for test in all.iter().take(SHOWN) {
        println!("{:>7.1} s  {}", test.seconds, test.name);
    }
    let slow = all.iter().filter(|test| test.seconds > SLOW_SECONDS).count();
    println!("{slow} take longer than {SLOW_SECONDS} s.");
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
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
    /// Runs tests of the program and shows what it prints. Returns the tests, and whether it succeeded.
    fn run(&self, tools: &Tools, args: &[&str]) -> Result<(Vec<Ran>, bool)> {
        let mut command = tools.for_tests(Command::new(&self.path));
        command.args(["-Z", "unstable-options", "--report-time"]).args(args).env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_MANIFEST_DIR", &self.dir);
        println!("+ {}", self.path.display());
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
