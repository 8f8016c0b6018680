//! An issue on its way from one ledger to another: edits of either copy survive, and other commands work meanwhile.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, strace};

use crate::jobs::until;
use crate::ledger::{LEDGER, add, lines};
use crate::sandbox;

/// Two repositories that read each other's ledgers, with an issue in the first.
fn neighbours(sandbox: &Sandbox) -> (PathBuf, PathBuf, String) {
    let (one, two) = (sandbox.git_repo("one"), sandbox.git_repo("two"));
    let id = add(sandbox, &one, &["Moves"]);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    let _ = sandbox.way(&two, ["config", "--add-repo", "../one"]).ok();
    (one, two, id)
}

/// Checks that a command succeeded, whatever it notes.
fn done(run: &Run) {
    assert_eq!(run.code, 0, "{run:?}");
}

/// The copies of an issue in a ledger's file.
fn copies(repo: &Path, id: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repo.join(LEDGER)).unwrap_or_default();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["id"] == *id).collect()
}

/// The texts of a copy's comments, in alphabetical order.
fn comments(copy: &Value) -> Vec<String> {
    let comments = copy["comments"].as_array().into_iter().flatten();
    let mut texts: Vec<String> = comments.map(|comment| comment["text"].as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

/// Starts a command whose first fsync takes two seconds.
fn start_with_slow_fsync(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> Child {
    let mut command = sandbox.command("strace", repo);
    command.args(["-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=2000000:when=1"]);
    command.arg(env!("CARGO_BIN_EXE_way")).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Tells whether a new version of a ledger is being written.
fn is_being_written(repo: &Path) -> bool {
    let entries = std::fs::read_dir(repo.join(".waypost")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|end| end == "tmp"))
}

#[test]
fn edits_made_while_an_issue_is_moved_are_kept() {
    if strace().is_none() {
        return;
    }
    let sandbox = sandbox();
    let (one, two, id) = neighbours(&sandbox);
    let filter = format!("id={id}");
    let moving = start_with_slow_fsync(&sandbox, &one, &["migrate", "--move-to", "../two", "--filter", &filter]);
    until("the target is being written", || is_being_written(&two));
    let _ = sandbox.way(&one, ["show", &id]).ok();
    let _ = sandbox.way(&one, ["comment", &id, "from one"]).ok();
    let _ = sandbox.way(&two, ["update", &id, "--title", "Renamed"]).ok();
    let _ = sandbox.way(&one, ["dep", "add", &id, &add(&sandbox, &one, &["Blocker"])]).ok();
    done(&Run::of(&moving.wait_with_output().unwrap()));
    let moved = copies(&two, &id);
    assert!(copies(&one, &id).is_empty() && moved.len() == 1, "{moved:?}");
    assert_eq!(comments(&moved[0]), ["from one"]);
    assert_eq!((&moved[0]["title"], moved[0]["dependencies"].as_array().unwrap().len()), (&"Renamed".into(), 1));
}

#[test]
fn an_issue_that_is_in_two_ledgers_is_merged_by_moving_it() {
    let sandbox = sandbox();
    let (one, two, id) = neighbours(&sandbox);
    let migrate = |to: &str| sandbox.way(&one, ["migrate", "--move-to", to, "--filter", &format!("id={id}")]);
    let before = std::fs::read(one.join(LEDGER)).unwrap();
    done(&migrate("../two"));
    // As after a kill between the two writes, with edits of both copies by commands that read one ledger only.
    sandbox.write(one.join(LEDGER), &before);
    let only = |repo: &Path, args: &[&str]| {
        let _ = sandbox.way(repo, [args, &["--repo", "."]].concat()).ok();
    };
    only(&one, &["label", "add", &id, "blue"]);
    only(&two, &["comment", &id, "said in two"]);
    let _ = sandbox.way(&one, ["comment", &id, "said in either"]).ok();
    done(&migrate("../two"));
    let merged = copies(&two, &id);
    assert!(copies(&one, &id).is_empty() && merged.len() == 1, "{merged:?}");
    assert_eq!(comments(&merged[0]), ["said in either", "said in two"]);
    assert_eq!(merged[0]["labels"], serde_json::json!(["blue"]));
    // Back again, into a ledger that still has an old copy.
    sandbox.write(one.join(LEDGER), &before);
    done(&migrate("."));
    assert!(copies(&two, &id).is_empty());
    assert_eq!(comments(&copies(&one, &id)[0]), ["said in either", "said in two"]);
}

#[test]
fn no_comment_is_lost_while_an_issue_is_moved_back_and_forth() {
    const COMMENTS: usize = 8;
    let sandbox = sandbox();
    let (one, two, id) = neighbours(&sandbox);
    let filter = format!("id={id}");
    let (is_over, moves) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (repo, to) in [(&one, "../two"), (&one, ".")] {
            let (sandbox, filter, is_over, moves) = (&sandbox, &filter, &is_over, &moves);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let run = sandbox.way(repo, ["migrate", "--move-to", to, "--filter", filter]);
                    assert!([0, 6].contains(&run.code), "{run:?}");
                    moves.fetch_add(usize::from(run.code == 0), Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = [(&one, "a"), (&two, "b"), (&one, "c")]
            .into_iter()
            .map(|(repo, writer)| {
                let (sandbox, id) = (&sandbox, &id);
                scope.spawn(move || {
                    for number in 0..COMMENTS {
                        let run = sandbox.way(repo, ["comment", id, &format!("{writer}-{number:02}")]);
                        if run.code != 0 {
                            return Some(run);
                        }
                        let run = sandbox.way(repo, ["show", id]);
                        if run.code != 0 {
                            return Some(run);
                        }
                    }
                    None
                })
            })
            .collect();
        let failures: Vec<Option<Run>> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(failures.iter().all(Option::is_none), "{failures:?}");
    });
    let left: Vec<Value> = [&one, &two].into_iter().flat_map(|repo| copies(repo, &id)).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let expected = ["a", "b", "c"].map(|writer| (0..COMMENTS).map(move |number| format!("{writer}-{number:02}")));
    let expected: Vec<String> = expected.into_iter().flatten().collect();
    assert_eq!(comments(&left[0]), expected);
    assert!(moves.load(Ordering::Relaxed) > 5, "it was hardly ever moved");
    assert_eq!(lines(&one.join(LEDGER)).len() + lines(&two.join(LEDGER)).len(), 1);
}
