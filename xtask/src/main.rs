//! What developers and CI run. It has no dependencies, so that it is there at once.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to the developer")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod bench;
mod tidy;
mod tools;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  test [FILTER]    install what the tests need, check formatting, lints and docs, run all tests and a short torture
  test --without PART  the same, where a part of the torture is impossible: power cuts need root
  ci               test, then the README's first command and the benchmarks' bars
  torture          kill, stop, fault, race and cut the power of the real binary for 30 minutes
  bench            measure the bars of starting, as ratios to starting a trivial program
  bench ledger     measure the bars of issues, with ledgers of up to 100,000
  bench store      measure operations on stores of up to 1,000,000 tasks, also on PostgreSQL
  bench server     measure operations over HTTP, with up to 150 clients, and the server's memory
  bench workspace  measure the bars of workspaces, with a repository of 20,000 files
  docs             write docs/commands.md and what tests expect of outputs anew, build the API docs

Options of torture: --minutes N, --seed N, --only PART, --without PART; the parts are storm, races, faults, kills, power,
postgres and clock
Options of bench: --enforce makes a missed bar an error, --rounds N measures at most N times";

/// What went wrong, in words.
type Result<T = (), E = String> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test"] => test(&[]),
        ["test", "--without", part] => test(&["--without", part]),
        ["test", filter] => test_some(filter),
        ["ci"] => ci(),
        ["torture", options @ ..] => torture(&tools::install(), options),
        ["bench", options @ ..] => bench::Options::parse(options).and_then(|options| bench::measure(&options)),
        ["docs"] => docs(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the tests whose name contains a word.
fn test_some(filter: &str) -> Result {
    run(tools::install().for_tests(cargo(["test", "--workspace", "--locked"])).arg(filter))
}

/// Checks everything, with a short torture at the end.
fn test(options: &[&str]) -> Result {
    let tools = tools::install();
    check()?;
    run(&mut tools.for_tests(cargo(["test", "--workspace", "--locked"])))?;
    torture(&tools, &[SHORT_TORTURE, options].concat())?;
    println!("Formatting, lints, documents, tests and a short torture: everything passed.");
    Ok(())
}

/// The torture that every test run contains: always the same faults, at other moments.
const SHORT_TORTURE: &[&str] = &["--minutes", "2.5", "--seed", "1"];

/// Builds what the tests have built already, and tortures it.
fn torture(tools: &tools::Tools, options: &[&str]) -> Result {
    let programs = ["--bin", "way", "--example", "torture", "--example", "check_history"];
    run(cargo(["build", "--workspace", "--locked"]).args(programs))?;
    let torture = target().join("debug/examples/torture");
    run(tools.for_tests(Command::new(torture)).args(options))
}

/// The directory that cargo builds in.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Everything that reads the code without running it, quickest first.
fn check() -> Result {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    tidy::check(&root())?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    run(cargo(["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

fn ci() -> Result {
    test(&[])?;
    run(&mut cargo(["run", "--release", "--locked", "--", "demo"]))?;
    bench::measure(&bench::Options { enforce: true, ..bench::Options::default() })
}

fn docs() -> Result {
    let tools = tools::install();
    run(tools
        .for_tests(cargo(["test", "--package", "waypost-cli", "--test", "cli", "--locked"]))
        .args(["--", "outputs::", "describing::"])
        .env("UPDATE_EXPECT", "1"))?;
    run(&mut cargo(["fmt", "--all"]))?;
    run(&mut cargo(["doc", "--workspace", "--no-deps", "--locked"]))
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

fn run(command: &mut Command) -> Result {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    println!("+ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("failed ({status}): {line}")),
        Err(error) => Err(format!("cannot run {line}: {error}")),
    }
}
