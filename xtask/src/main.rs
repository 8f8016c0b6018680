//! The tasks of developers and CI. Its only dependency that the program does not have reads the Markdown of the guide.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints for the developer")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod bench;
mod dependencies;
mod dist;
mod fuzz;
mod generators;
mod packages;
mod pages;
mod requirements;
mod seeded;
mod sql;
mod structure;
mod tidy;
mod tiers;
mod tools;

use tiers::{SlowTests, Tier};

const USAGE: &str = "\
Usage: cargo xtask COMMAND

  test             install the test tools, check formatting, lints and docs, and run the tests that must hold at every change
  test FILTER      run the tests whose name contains a word
  ci               test, then the other tests, the fuzz targets, planted defects, a short torture, tests at full size, the
                   first command of the README, and all benchmarks in their quick form, with twice the limit of each bar
  ci --without PART  the same without bars, or without a part of the torture, e.g. power, which needs root
  torture          run the real binary under kills, faults, races and power cuts for 30 minutes, then tests at full size
  bench            measure everything in about ten minutes; writes the results into docs/performance.md
  bench NAME       measure one of startup, ledger, store, server and workspace: what a command costs, issues in ledgers of up
                   to 100,000, tasks in stores of up to 1,000,000 on SQLite and PostgreSQL, 150 clients of a server,
                   workspaces of a repository of 20,000 files
  bench --quick    measure less data in some minutes; writes into target/bench/quick/
  docs             regenerate docs/commands.md and the expected outputs of tests, and build the API docs
  screenshots      photograph the dashboard for docs/dashboard.md
  screenshots DIR DATA  photograph all its screens into a directory; DATA is empty, normal or huge
  dist             build the release: an archive, packages for Debian, npm and PyPI, an SBOM and checksums in target/packages/
  fuzz [--seconds N] [TARGET]  run the fuzz targets, each for a minute if no time is given
  fuzz --test [TARGET]  run them with the inputs of every CI run
  seeded [NAME]    plant the defects of crates/waypost-testkit/seeded-bugs.md one by one; fails if a test does not notice one
  tidy             check the house rules alone: structure, words, files, the code map, links and the tests of requirements

Options of torture: --minutes N, --seed N, --only PART, --without PART; the parts are storm, serve, jobs, races, faults,
kills, power, postgres, clock and sizes: tests at full size
Options of bench: --enforce fails on a missed bar, --rounds N measures at most N times, --only TEXT measures the rows whose
names contain the text, --quick uses less data, --profile NAME measures programs of another profile than dist";

/// A result with the error message as text.
type Result<T = (), E = String> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test"] => test(&tools::install(), SlowTests::Fail),
        ["test", filter] => test_some(filter),
        ["ci", options @ ..] => ci(options),
        ["torture", "--only", FULL_SIZES_PART] => full_sizes(&tools::install()),
        ["torture", options @ ..] => {
            let tools = tools::install();
            let is_all = !options.contains(&"--only");
            torture(&tools, options).and_then(|()| if is_all { full_sizes(&tools) } else { Ok(()) })
        }
        ["bench", options @ ..] => bench::Options::parse(options).and_then(|options| bench::run(&options)),
        ["docs"] => docs(),
        ["screenshots"] => screenshots(&root().join("docs/images"), "guide"),
        ["screenshots", dir, data] => screenshots(Path::new(dir), data),
        ["dist"] => dist::build(),
        ["fuzz", options @ ..] => fuzz::Options::parse(options).and_then(|options| fuzz::fuzz(&options)),
        ["seeded"] => seeded::check(""),
        ["seeded", name] => seeded::check(name),
        ["tidy"] => tidy::check(&root()),
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

/// Runs all checks, and the tests that must hold at every change.
fn test(tools: &tools::Tools, slow_tests: SlowTests) -> Result {
    tools.check_complete()?;
    check()?;
    tiers::test(tools, Tier::Inner, slow_tests)?;
    println!("Passed: formatting, lints, documentation and tests.");
    Ok(())
}

/// The name of the part of `ci` that measures.
const BARS_PART: &str = "bars";

/// Runs everything that docs/requirements.md names. Options leave out the bars, or parts of the torture.
fn ci(options: &[&str]) -> Result {
    if options.chunks(2).any(|option| !matches!(option, ["--without", _])) {
        return Err(USAGE.to_owned());
    }
    let (bars, options): (Vec<&[&str]>, Vec<&[&str]>) =
        options.chunks(2).partition(|option| option.contains(&BARS_PART));
    let tools = tools::install();
    test(&tools, SlowTests::Show)?;
    tiers::test(&tools, Tier::Outer, SlowTests::Show)?;
    fuzz::fuzz(&fuzz::Options { seconds: None, only: None })?;
    seeded::check("")?;
    torture(&tools, &[SHORT_TORTURE, &options.concat()].concat())?;
    full_sizes(&tools)?;
    run(&mut cargo(["run", "--locked", "--", "demo"]))?;
    check_build_from_outside()?;
    if bars.is_empty() {
        // With twice the limit of each bar, noise fails no run, and a regression does.
        bench::run(&bench::Options {
            subject: "all".to_owned(),
            quick: true,
            enforce: true,
            tolerance: 2.0,
            profile: "release".to_owned(),
            ..bench::Options::default()
        })?;
    }
    println!("Passed: everything that was not left out.");
    Ok(())
}

/// Builds the program as cargo does for `cargo install --git` and for programs that embed it: outside of the checkout, where
/// cargo does not read `.cargo/config.toml`. The program must be, byte for byte, the one that cargo built inside.
fn check_build_from_outside() -> Result {
    let way = target().join("debug/way");
    let content = || std::fs::read(&way).map_err(|error| format!("{}: {error}", way.display()));
    let build = ["build", "--locked", "--package", "waypost-cli", "--bin", "way"];
    run(&mut cargo(build))?;
    let inside = content()?;
    let mut outside = cargo(build);
    outside.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--target-dir").arg(target());
    run(outside.current_dir("/"))?;
    if content()? == inside { Ok(()) } else { Err("cargo builds another program outside of the checkout".to_owned()) }
}

/// The torture of every CI run. The seed fixes the faults, but not their timing.
const SHORT_TORTURE: &[&str] = &["--minutes", "2.5", "--seed", "1"];

/// Builds `way` and the torture, and runs it.
fn torture(tools: &tools::Tools, options: &[&str]) -> Result {
    let programs = ["--bin", "way", "--example", "torture", "--example", "check_history"];
    run(cargo(["build", "--workspace", "--locked"]).args(programs))?;
    let torture = target().join("debug/examples/torture");
    run(tools.for_tests(Command::new(torture)).args(options))
}

/// The name of the part of the torture that runs tests at full size.
pub(crate) const FULL_SIZES_PART: &str = "sizes";

/// Tests that also run at a smaller size: their names, and the variable with the full size.
pub(crate) const FULL_SIZES: &[(&str, &str, &str)] = &[
    ("a6_150_processes_finish_a_workflow_once_while_they_are_killed_and_stopped", "WAYPOST_TEST_STORM", "1500"),
    ("c9_a_deep_graph_is_finished_in_order_by_twenty_processes_that_are_killed", "WAYPOST_TEST_DAG", "1000"),
    ("g11_twenty_readers_and_twenty_writers_never_fail_each_other", "WAYPOST_TEST_SECONDS", "60"),
];

fn full_sizes(tools: &tools::Tools) -> Result {
    for (test, variable, size) in FULL_SIZES {
        let mut tests = tools.for_tests(cargo(["test", "--package", "waypost-cli", "--test", "cli", "--locked"]));
        run(tests.args(["--", test]).env(variable, size))?;
    }
    Ok(())
}

/// Returns the target directory of cargo.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The features of the library, none and one at a time, as programs that embed it choose them.
const LIBRARY_FEATURES: &[&str] = &["", "client", "import", "jobs", "postgres"];

/// Runs the static checks, the fastest first.
fn check() -> Result {
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(rustfmt_operations()?.arg("--check"))?;
    tidy::check(&root())?;
    if tools::is_installed("cargo-deny") {
        run(&mut cargo(["deny", "check"]))?;
    }
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    for feature in LIBRARY_FEATURES {
        // By clippy, which has the results of the other crates already.
        run(cargo(["clippy", "--package", "waypost", "--locked", "--no-default-features", "--features"]).arg(feature))?;
    }
    run(cargo(["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

fn docs() -> Result {
    let tools = tools::install();
    run(tools
        .for_tests(cargo(["test", "--package", "waypost-cli", "--test", "cli", "--locked"]))
        .args(["--", "outputs::", "describing::", "docs::"])
        .env("UPDATE_EXPECT", "1"))?;
    run(&mut cargo(["fmt", "--all"]))?;
    run(&mut rustfmt_operations()?)?;
    run(&mut cargo(["doc", "--workspace", "--no-deps", "--locked"]))
}

/// Photographs the dashboard of the real program.
fn screenshots(dir: &Path, data: &str) -> Result {
    tools::install_packages_for(&["chromium", "chromium-driver"]);
    // Both at once: on its own, the test kit would turn on other features, and cargo would build everything again.
    let packages = ["--package", "waypost-cli", "--package", "waypost-testkit"];
    run(cargo(["build", "--locked", "--bin", "way", "--example", "screenshots"]).args(packages))?;
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let built = target().join("debug");
    run(Command::new(built.join("examples/screenshots")).arg(built.join("way")).arg(dir).arg(data))
}

/// Formats the operations, whose modules a macro declares: `cargo fmt` does not find them.
fn rustfmt_operations() -> Result<Command> {
    let mut files = Vec::new();
    tidy::find_files(&root().join("crates/waypost-core/src/op"), "rs", &mut files)?;
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]).args(files).current_dir(root());
    Ok(command)
}

/// Returns the root of the repository.
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
