//! Tests through the real binary, in one test program.
//!
//! A test that proves a requirement has its number in its name: `a1_…` is A1.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use waypost_testkit::Sandbox;

mod agents;
mod bad_input;
mod beside;
mod claims;
mod clocks;
mod config;
mod contexts;
mod crowds;
mod epics;
mod events;
mod exchange;
mod failover;
mod faults;
mod frozen;
mod graphs;
mod history;
mod imports;
mod index;
mod issues;
mod jobs;
mod kills;
mod ledger;
mod mcp;
mod merge_driver;
mod messages;
mod mirrors;
mod mounts;
mod outputs;
mod places;
mod plans;
mod processes;
mod races;
mod repos;
mod resume;
mod saving;
mod servers;
mod serving;
mod setup;
mod stores;
mod storm;
mod surfaces;
mod sync;
mod templates;
mod transfer;
mod transfers;
mod vcs;
mod waiting;
mod work;
mod workers;
mod workspaces;
mod worktrees;

/// No arguments.
const NONE: [&str; 0] = [];

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_way"))
}

/// Returns the signal of Ctrl-C, or SIGTERM if the test program ignores it, as a shell's background jobs do.
fn interruption() -> Signal {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & 0b10 == 0 { Signal::INT } else { Signal::TERM }
}

/// The source of this test program, by module.
fn source() -> Vec<(String, String)> {
    let files = |dir: &Path| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let module = |path: PathBuf| {
        let parts = if path.is_dir() { files(&path) } else { vec![path.clone()] };
        let text = parts.iter().map(|part| std::fs::read_to_string(part).unwrap()).collect();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), text)
    };
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")).into_iter().map(module).collect()
}

#[test]
fn every_file_here_is_part_of_this_program() {
    let main = include_str!("main.rs");
    for (name, _) in source() {
        assert!(name == "main" || main.contains(&format!("\nmod {name};\n")), "{name}.rs is not listed");
    }
}

#[test]
fn every_requirement_of_the_foundation_has_a_test() {
    let numbers =
        |letter: char, range: &[u32]| range.iter().map(|number| format!("{letter}{number}")).collect::<Vec<_>>();
    let wanted: BTreeSet<String> = numbers('a', &[1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 19, 20, 21])
        .into_iter()
        .chain(numbers('g', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17]))
        .collect();
    let tests: String = source().into_iter().map(|(_, text)| text).collect();
    let missing: Vec<_> = wanted.iter().filter(|number| !tests.contains(&format!("\nfn {number}_"))).collect();
    assert!(missing.is_empty(), "no test is named for {missing:?}");
}
