//! Tests of the tests: plants each defect of the list, and fails if the test that should notice it passes.
//!
//! The defects are in the program, behind `waypost_core::seeded::seeded_bug`. One build contains them all, and an environment
//! variable plants one. Only crates of this workspace are built again for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Result, cargo, root, tidy, tiers};

/// The list: a table of defects, the file of each, and the test that notices it.
const LIST: &str = "crates/waypost-testkit/seeded-bugs.md";

/// The programs of tests that notice defects, beside the tests in the sources. They are fast, and need no other program of
/// this workspace.
const PROGRAMS: &[&str] = &["durability", "rules", "store", "workspaces"];

/// The variable that plants a defect.
const VARIABLE: &str = "WAYPOST_SEEDED_BUG";

/// Maximum time of one test, in seconds.
const TEST_TIMEOUT: &str = "60";

/// A defect.
#[derive(Debug, PartialEq, Eq)]
struct Bug {
    name: String,
    file: String,
    test: String,
}

/// Plants every defect, or those whose name contains a text.
pub(crate) fn check(only: &str) -> Result {
    let list = std::fs::read_to_string(root().join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let bugs = parse(&list);
    let complaints = compare(&bugs, &planted(&root())?);
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    let tests = build()?;
    let mut missed = Vec::new();
    let mut sound = BTreeSet::new();
    for bug in bugs.iter().filter(|bug| bug.name.contains(only)) {
        let program = tests.get(&bug.test).ok_or(format!("{}: no test is called {}", bug.name, bug.test))?;
        if sound.insert(&bug.test) && !passes(program, None)? {
            return Err(format!("{} fails without a defect", bug.test));
        }
        let is_missed = passes(program, Some(&bug.name))?;
        println!("{:<28} {} {}", bug.name, if is_missed { "MISSED BY" } else { "noticed by" }, bug.test);
        if is_missed {
            missed.push(bug.name.as_str());
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not noticed: {}", missed.join(", "))) }
}

/// Returns the rows of the list.
fn parse(list: &str) -> Vec<Bug> {
    let cell = |text: &str| text.trim().trim_matches('`').to_owned();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let [name, _, file, test] = cells[..] else { return None };
        Some(Bug { name: cell(name), file: cell(file), test: cell(test.trim_end_matches(" |")) })
    };
    list.lines().filter_map(row).collect()
}

/// Returns the defects in the sources, each with its file.
fn planted(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = Vec::new();
    tidy::find_files(&root.join("crates"), "rs", &mut files)?;
    let mut found = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        for rest in text.split("seeded_bug(\"").skip(1) {
            let bug = rest.split('"').next().unwrap_or_default();
            found.insert(bug.to_owned(), name.clone());
        }
    }
    Ok(found)
}

/// Returns the differences between the list and the sources.
fn compare(listed: &[Bug], planted: &BTreeMap<String, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for bug in listed.iter().filter(|bug| planted.get(&bug.name) != Some(&bug.file)) {
        complaints.push(format!("{LIST}: {} is not in {}", bug.name, bug.file));
    }
    for (name, file) in planted.iter().filter(|(name, _)| !listed.iter().any(|bug| bug.name == **name)) {
        complaints.push(format!("{file} has {name}, which {LIST} does not list"));
    }
    complaints
}

/// Builds the tests with the defects. Returns each test by its name: its program, and its full name.
fn build() -> Result<BTreeMap<String, (PathBuf, String)>> {
    // The whole workspace: for some of its packages, cargo would build other packages again with fewer features.
    let mut command = cargo(["test", "--workspace", "--lib", "--no-run", "--locked"]);
    command.arg("--message-format=json-render-diagnostics");
    command.args(PROGRAMS.iter().flat_map(|program| ["--test", program]));
    // The wrapper sets the cfg for the crates of this workspace. Cargo keeps what it builds apart from normal builds.
    command.env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/seeded-rustc.sh"));
    let built = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err("the tests cannot be built with defects".to_owned());
    }
    let mut tests = BTreeMap::new();
    for program in tiers::programs(&String::from_utf8_lossy(&built.stdout)) {
        let program = program.path;
        let listed = Command::new(&program).args(["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|error| format!("{}: {error}", program.display()))?;
        for test in String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.strip_suffix(": test")) {
            let name = test.rsplit("::").next().unwrap_or(test);
            tests.insert(name.to_owned(), (program.clone(), test.to_owned()));
        }
    }
    Ok(tests)
}

/// Runs a test, with a defect or without one. Returns whether it passes.
fn passes((program, test): &(PathBuf, String), bug: Option<&str>) -> Result<bool> {
    let mut command = Command::new("timeout");
    command.arg(TEST_TIMEOUT).arg(program).args(["--exact", test]);
    command.env_remove(VARIABLE).envs(bug.map(|bug| (VARIABLE, bug)));
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(124) => Err(format!("{test} does not end with {bug:?}")),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "| defect | what | file | test |\n|---|---|---|---|\n| `a` | It. | `x.rs` | `works` |\n";

    #[test]
    fn the_list_and_the_sources_name_the_same_defects() {
        let bugs = parse(LIST);
        assert_eq!(bugs, [Bug { name: "a".to_owned(), file: "x.rs".to_owned(), test: "works".to_owned() }]);
        let found = |pairs: &[(&str, &str)]| -> Vec<String> {
            compare(&bugs, &pairs.iter().map(|(bug, file)| ((*bug).to_owned(), (*file).to_owned())).collect())
        };
        assert!(found(&[("a", "x.rs")]).is_empty());
        assert_eq!(found(&[]).len(), 1, "it is nowhere");
        assert_eq!(found(&[("a", "y.rs")]).len(), 1, "it is elsewhere");
        assert_eq!(found(&[("a", "x.rs"), ("b", "x.rs")]).len(), 1, "one is not listed");
    }
}
