//! Tests of the command line, in one test program.
//!
//! Commands run in the process of the tests, unless a process is the point: `support/in_process.rs`. `binary.rs` starts each
//! command once.
//!
//! The tests of a command are in `commands/`, in a file named as the command's. Modules beside it test what is not one
//! command's. A test that proves a requirement has its number in its name: `a1_…` is A1.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

mod absent;
mod across;
mod agents;
mod bad_input;
mod bases;
mod binary;
mod calls;
mod carried;
mod clocks;
mod commands;
mod confinement;
mod contributors;
mod crash;
mod dashboard;
mod docs;
mod foreign_git;
mod graphs;
mod homes;
mod hostile;
mod index;
mod ledger;
mod mcp;
mod outputs;
mod owners;
mod places;
mod planted;
mod postgres;
mod programs;
mod queues;
mod race;
mod reach;
mod secrets;
mod seeds;
mod serving;
mod slow_inputs;
mod stores;
mod support;
mod surfaces;
mod sync;
mod tables;
mod vcs;
mod waiting;
mod worktrees;

/// Returns every source file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns a directory of this package.
fn package(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)
}

#[test]
fn every_file_here_is_part_of_this_program() {
    let is_source = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    for file in files(&package("tests/cli")).into_iter().filter(is_source) {
        let (dir, name) = (file.parent().unwrap(), file.file_stem().unwrap().to_str().unwrap());
        let (name, dir) = match name {
            "main" => continue,
            "mod" => (dir.file_name().unwrap().to_str().unwrap(), dir.parent().unwrap()),
            name => (name, dir),
        };
        let parent = ["main.rs", "mod.rs"].map(|parent| dir.join(parent)).into_iter().find(|parent| parent.exists());
        let parent = std::fs::read_to_string(parent.unwrap()).unwrap();
        let is_listed = parent.lines().any(|line| {
            let module =
                line.trim_start_matches("pub(crate) ").strip_prefix("mod ").and_then(|end| end.strip_suffix(';'));
            module.is_some_and(|module| module.trim_start_matches("r#") == name)
        });
        assert!(is_listed, "{} is not listed", file.display());
    }
}

#[test]
fn every_command_has_a_file_with_tests() {
    let tests = package("tests/cli/commands");
    let entries = std::fs::read_dir(package("src/commands")).unwrap().map(|entry| entry.unwrap().path());
    let commands: Vec<String> = entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(commands.len() > 50, "{commands:?}");
    for command in commands.iter().filter(|command| *command != "mod") {
        let (file, dir) = (tests.join(format!("{command}.rs")), tests.join(command));
        let found = if dir.is_dir() { files(&dir) } else { vec![file] };
        let contents = found.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default());
        assert!(contents.into_iter().any(|text| text.contains("\n#[test]\n")), "no test in {found:?}");
    }
}
