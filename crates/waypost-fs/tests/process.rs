//! Processes are found by program and working directory.
#![cfg(target_os = "linux")]

use std::time::Duration;

use waypost_fs::runs_in;

#[test]
fn a_recent_process_is_found_by_its_name_and_directory() {
    let dir = std::fs::canonicalize(std::env::current_dir().unwrap()).unwrap();
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let recent = Duration::from_secs(50);
    // The process gets its name when exec replaces the program.
    while !runs_in(&dir, &["sleep"], recent) {
        assert!(other.try_wait().unwrap().is_none());
    }
    assert!(!runs_in(&dir.join("elsewhere"), &["sleep"], recent));
    assert!(!runs_in(&dir, &["sleep"], Duration::ZERO));
    other.kill().unwrap();
    other.wait().unwrap();
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert!(!runs_in(&dir, &[own.trim_end()], Duration::MAX), "this process and its ancestors do not count");
}
