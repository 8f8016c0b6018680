//! Measures which lines the tests run, with the compiler's own instrumentation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::data::{self, Data as _};
use crate::{Result, cargo, root, run, target, tools};

/// The least part of all lines that the tests must run, in percent.
const MIN_PERCENT: u64 = 80;

/// Crates that are no part of the product.
const OTHER_CRATES: &[&str] = &["waypost-bench", "waypost-testkit"];

/// Runs the tests of packages, or of all, and prints the part of the lines that they run. For all, it must reach the bar.
pub(crate) fn measure(packages: &[&str]) -> Result {
    let llvm = Llvm::find()?;
    let tools = tools::install();
    let dir = target().join("coverage");
    let profiles = dir.join("profiles");
    if profiles.exists() {
        run(Command::new("rm").arg("-rf").arg(&profiles))?;
    }
    std::fs::create_dir_all(&profiles).map_err(|error| format!("{}: {error}", profiles.display()))?;
    let scope: Vec<&str> = match packages {
        [] => vec!["--workspace", "--exclude", "xtask"],
        some => some.iter().flat_map(|package| ["--package", package]).collect(),
    };
    let instrumented = |mut command: Command| {
        // Processes of one program share a few files, to which each adds its counts: there are thousands of processes.
        command.env("LLVM_PROFILE_FILE", profiles.join("%4m.profraw"));
        command.env("RUSTFLAGS", "-C instrument-coverage").env("CARGO_TARGET_DIR", &dir);
        command
    };
    let only_build = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    let built = instrumented(cargo(only_build)).args(&scope).stderr(std::process::Stdio::inherit()).output();
    let built = built.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err("the instrumented tests cannot be built".to_owned());
    }
    let programs = executables(&String::from_utf8_lossy(&built.stdout));
    let mut tests = tools.for_tests(instrumented(cargo(["test", "--locked", "--no-fail-fast"])));
    if let Err(message) = run(tests.args(&scope)) {
        // Instrumented programs are slower, and write files of their own where a job has no environment.
        println!("WARNING: {message}; the lines that these tests ran are counted all the same");
    }
    let merged = dir.join("merged.profdata");
    llvm.merge(&profiles, &merged)?;
    let lines = lines_by_crate(&llvm.export(&merged, &programs)?);
    report(&lines, packages.is_empty())
}

/// Returns the programs that cargo built, from its messages.
pub(crate) fn executables(messages: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in messages.lines().filter(|line| line.contains("\"compiler-artifact\"")) {
        let Ok(message) = data::json(line) else { continue };
        let program = message["executable"].as_str().map(PathBuf::from);
        found.extend(program.filter(|program| !program.to_string_lossy().contains("/examples/")));
    }
    found.sort();
    found.dedup();
    found
}

/// The lines of a crate, and how many of them were run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: u64,
    run: u64,
}

impl Lines {
    fn percent(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer lines than a float can count")]
        let (run, all) = (self.run as f64, self.all.max(1) as f64);
        100.0 * run / all
    }
}

/// Sums the lines of each crate's `src` from the export of llvm-cov.
fn lines_by_crate(export: &Value) -> BTreeMap<String, Lines> {
    let mut crates: BTreeMap<String, Lines> = BTreeMap::new();
    for file in export.list_of("data").iter().flat_map(|data| data.list_of("files")) {
        let name = file.text_of("filename");
        let Some((name, rest)) = name.split_once("/crates/").and_then(|(_, path)| path.split_once('/')) else {
            continue;
        };
        if !rest.starts_with("src/") || OTHER_CRATES.contains(&name) {
            continue;
        }
        let lines = &file["summary"]["lines"];
        let sum = crates.entry(name.to_owned()).or_default();
        sum.all += lines["count"].as_u64().unwrap_or(0);
        sum.run += lines["covered"].as_u64().unwrap_or(0);
    }
    crates
}

fn report(crates: &BTreeMap<String, Lines>, must_reach_bar: bool) -> Result {
    let mut total = Lines::default();
    for (name, lines) in crates {
        println!("{name:<20} {:>5.1} % of {:>6} lines", lines.percent(), lines.all);
        total.all += lines.all;
        total.run += lines.run;
    }
    println!("{:<20} {:>5.1} % of {:>6} lines", "all", total.percent(), total.all);
    if total.all == 0 {
        return Err("no lines were measured".to_owned());
    }
    if must_reach_bar && total.run * 100 < total.all * MIN_PERCENT {
        return Err(format!("the tests run {:.1} % of the lines, less than {MIN_PERCENT} %", total.percent()));
    }
    Ok(())
}

/// The programs of LLVM that read profiles of the compiler. They must have its version.
struct Llvm {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Llvm {
    /// Finds the programs, installing them if they are missing.
    fn find() -> Result<Llvm> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("cannot run rustc: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = text.lines().find_map(|line| line.strip_prefix("LLVM version: ")?.split('.').next());
        let major = major.ok_or("rustc does not name its version of LLVM")?;
        let dir = PathBuf::from(format!("/usr/lib/llvm-{major}/bin"));
        if !dir.join("llvm-cov").is_file() {
            let package = format!("llvm-{major}");
            tools::install_packages(&[&package]);
        }
        if dir.join("llvm-cov").is_file() && dir.join("llvm-profdata").is_file() {
            Ok(Llvm { profdata: dir.join("llvm-profdata"), cov: dir.join("llvm-cov") })
        } else {
            Err(format!("llvm-cov of LLVM {major} is not installed: apt-get install llvm-{major}"))
        }
    }

    fn merge(&self, profiles: &Path, merged: &Path) -> Result {
        let entries = std::fs::read_dir(profiles).map_err(|error| format!("{}: {error}", profiles.display()))?;
        let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        if files.is_empty() {
            return Err("the tests left no profile".to_owned());
        }
        // A process that was killed may have left a damaged file.
        let mut command = Command::new(&self.profdata);
        run(command.args(["merge", "--sparse", "--failure-mode=all", "--output"]).arg(merged).args(files))
    }

    fn export(&self, merged: &Path, programs: &[PathBuf]) -> Result<Value> {
        let mut command = Command::new(&self.cov);
        command.args(["export", "--summary-only", "--instr-profile"]).arg(merged);
        for program in programs {
            command.arg("--object").arg(program);
        }
        let output = command.current_dir(root()).output().map_err(|error| format!("cannot run llvm-cov: {error}"))?;
        if !output.status.success() {
            return Err(format!("llvm-cov failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        data::json(&String::from_utf8_lossy(&output.stdout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_by_crate_without_tests_and_dependencies() {
        let file = |name: &str, count: u32, covered: u32| {
            format!(
                r#"{{"filename":"{name}","summary":{{"lines":{{"count":{count},"covered":{covered},"percent":1.5}}}}}}"#
            )
        };
        let files = [
            file("/x/crates/waypost-core/src/a.rs", 10, 8),
            file("/x/crates/waypost-core/src/op/b.rs", 10, 9),
            file("/x/crates/waypost-core/tests/rules/main.rs", 100, 100),
            file("/x/crates/waypost-testkit/src/lib.rs", 100, 100),
            file("/x/crates/waypost-fs/src/lib.rs", 4, 1),
            file("/root/.cargo/registry/src/serde/src/lib.rs", 100, 0),
        ];
        let export = data::json(&format!(r#"{{"data":[{{"files":[{}]}}]}}"#, files.join(","))).unwrap();
        let lines = lines_by_crate(&export);
        let core = ("waypost-core".to_owned(), Lines { all: 20, run: 17 });
        assert_eq!(lines, BTreeMap::from([core, ("waypost-fs".to_owned(), Lines { all: 4, run: 1 })]));
        assert!(report(&lines, true).unwrap_err().contains("75.0 %"), "18 of 24 lines");
        report(&lines, false).unwrap();
        report(&BTreeMap::new(), false).unwrap_err();
    }

    #[test]
    fn programs_are_read_from_the_messages_of_cargo() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":\"/t/deps/cli-1\"}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":null}\nnot JSON\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/t/way\"}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/t/examples/torture\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executables(messages), [PathBuf::from("/t/deps/cli-1"), PathBuf::from("/t/way")]);
    }
}
