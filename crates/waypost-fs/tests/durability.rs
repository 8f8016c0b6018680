//! The order of system calls that makes a replacement durable, as the kernel sees it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use waypost_fs::{read_version, replace, replace_if_unchanged};

/// Runs a test of this program once more, under `strace`. Returns its syncs and renames in order; None if this is that
/// process.
fn traced(test: &str) -> Option<Vec<String>> {
    const MARK: &str = "WAYPOST_TEST_TRACED";
    if std::env::var_os(MARK).is_some() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o"]).arg(&trace);
    strace.arg(std::env::current_exe().unwrap()).args(["--exact", test]).env(MARK, dir.path());
    assert!(strace.output().unwrap().status.success(), "{test} fails under strace");
    let calls = std::fs::read_to_string(trace).unwrap();
    let call = |line: &str| {
        let (call, rest) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        let what = if call.contains("sync") {
            if rest.contains(".tmp>") { "sync file" } else { "sync directory" }
        } else {
            "rename"
        };
        Some(what.to_owned())
    };
    Some(calls.lines().filter_map(call).collect())
}

fn dir() -> std::path::PathBuf {
    Path::new(&std::env::var_os("WAYPOST_TEST_TRACED").unwrap()).to_owned()
}

#[test]
fn a_replaced_file_is_synced_before_it_gets_its_name_and_the_name_afterwards() {
    let Some(calls) = traced("a_replaced_file_is_synced_before_it_gets_its_name_and_the_name_afterwards") else {
        return replace(&dir().join("file"), b"new", 0o600).unwrap();
    };
    assert_eq!(calls, ["sync file", "rename", "sync directory"]);
}

#[test]
fn a_new_version_is_synced_before_it_gets_its_name_and_the_name_afterwards() {
    let Some(calls) = traced("a_new_version_is_synced_before_it_gets_its_name_and_the_name_afterwards") else {
        let (_, version) = read_version(&dir().join("file")).unwrap();
        replace_if_unchanged(&version, &[b"new"], 0o600).unwrap();
        return;
    };
    assert_eq!(calls, ["sync file", "rename", "sync directory"]);
}

#[test]
fn a_replacement_that_cannot_be_written_is_an_error_and_keeps_the_old_content() {
    const MARK: &str = "WAYPOST_TEST_LIMITED";
    let test = "a_replacement_that_cannot_be_written_is_an_error_and_keeps_the_old_content";
    let Some(file) = std::env::var_os(MARK) else {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        replace(&file, b"old", 0o600).unwrap();
        // The limit makes every longer write fail.
        let limited = r#"trap '' XFSZ; ulimit -f 0; exec "$0" --exact "$1""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", limited]).arg(std::env::current_exe().unwrap()).arg(test).env(MARK, &file);
        assert!(shell.output().unwrap().status.success());
        assert_eq!(std::fs::read(&file).unwrap(), b"old");
        return;
    };
    assert!(replace(Path::new(&file), b"new", 0o600).is_err());
}
