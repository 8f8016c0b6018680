//! Tests through the real binary, in one test program.
//!
//! A test that proves a requirement has its number in its name: `a1_…` is A1.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use waypost_testkit::Sandbox;

mod agents;
mod bad_input;
mod config;
mod events;
mod exchange;
mod history;
mod index;
mod issues;
mod ledger;
mod merging;
mod messages;
mod outputs;
mod places;
mod processes;
mod repos;
mod stores;
mod sync;
mod templates;
mod vcs;
mod worktrees;

/// What a command takes when it takes nothing.
const NONE: [&str; 0] = [];

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_way"))
}

/// The source of this test program.
fn source() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        files.push((path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap()));
    }
    files
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
    let wanted: BTreeSet<String> = numbers('a', &[1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 20, 21])
        .into_iter()
        .chain(numbers('g', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17]))
        .collect();
    let tests: String = source().into_iter().map(|(_, text)| text).collect();
    let missing: Vec<_> = wanted.iter().filter(|number| !tests.contains(&format!("\nfn {number}_"))).collect();
    assert!(missing.is_empty(), "no test is named for {missing:?}");
}
