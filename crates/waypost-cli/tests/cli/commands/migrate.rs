//! `way migrate`: issues moved between ledgers; edits of either copy survive.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, strace};

use crate::support::jobs::until;
use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::repos::contributor;
use crate::support::sandbox;
use crate::support::transfers::{comments, copies, done, is_being_written, start_with_slow_fsync};

#[test]
fn b20_issues_move_between_ledgers_and_a_crash_in_between_is_repaired() {
    let sandbox = sandbox();
    let one = sandbox.git_repo("one");
    let two = sandbox.git_repo("two");
    let mine = add(&sandbox, &one, &["Mine", "--actor", "me", "-l", "x"]);
    let theirs = add(&sandbox, &one, &["Theirs", "--actor", "you", "-l", "x"]);
    let line = lines(&one.join(LEDGER)).into_iter().find(|line| line.contains(&mine)).unwrap();
    let migrate =
        |args: &[&str]| sandbox.way(&one, [&["migrate", "--move-to", "../two", "--actor", "me"], args].concat());
    let run = migrate(&["--filter", "author=me label=x", "--dry-run"]);
    assert!(run.code == 0 && run.stdout.contains(&mine) && !two.join(LEDGER).exists(), "{run:?}");
    let before = std::fs::read(one.join(LEDGER)).unwrap();
    assert_eq!(migrate(&["--filter", "author=me label=x"]).code, 0);
    assert_eq!(lines(&two.join(LEDGER)), [line], "byte for byte");
    assert_eq!(ids(&sandbox, &one, &["list"]), [theirs.as_str()]);
    // Killed after the target was written.
    let after = std::fs::read(one.join(LEDGER)).unwrap();
    sandbox.write(one.join(LEDGER), &before);
    let _ = sandbox.way(&one, ["restore", "--drop"]).ok();
    assert_eq!(migrate(&["--filter", "author=me"]).code, 0);
    assert_eq!(std::fs::read(one.join(LEDGER)).unwrap(), after);
    assert_eq!(lines(&two.join(LEDGER)).len(), 1);
    let _ = migrate(&["--filter", "author=me"]).fails(6);
    let _ = migrate(&["--filter", "writer=me"]).fails(2);
    let _ = migrate(&["--filter", "me"]).fails(2);
    // Two different copies are merged, and the losing value is kept in a comment.
    sandbox.write(one.join(LEDGER), String::from_utf8(before).unwrap().replace("Mine", "Changed"));
    assert_eq!(migrate(&["--filter", "author=me"]).code, 0);
    assert_eq!(std::fs::read(one.join(LEDGER)).unwrap(), after);
    let [merged] = lines(&two.join(LEDGER)).try_into().unwrap();
    assert!(merged.contains("Mine") && merged.contains("Changed"), "{merged}");
}

/// Two repositories that read each other's ledgers, with an issue in the first.
fn neighbours(sandbox: &Sandbox) -> (PathBuf, PathBuf, String) {
    let (one, two) = (sandbox.git_repo("one"), sandbox.git_repo("two"));
    // A missing directory is synced before the ledger is written.
    sandbox.dir("two/.waypost");
    let id = add(sandbox, &one, &["Moves"]);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    let _ = sandbox.way(&two, ["config", "--add-repo", "../one"]).ok();
    (one, two, id)
}

#[test]
fn edits_made_while_an_issue_is_moved_are_kept() {
    strace();
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
    let undo = || {
        sandbox.write(one.join(LEDGER), &before);
        let _ = sandbox.way(&one, ["restore", "--drop"]).ok();
    };
    undo();
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
    undo();
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
    assert!(moves.load(Ordering::Relaxed) > 5, "too few moves succeeded");
    assert_eq!(lines(&one.join(LEDGER)).len() + lines(&two.join(LEDGER)).len(), 1);
}

#[test]
fn an_empty_filter_is_refused_and_moves_nothing() {
    let sandbox = sandbox();
    let (one, two, id) = neighbours(&sandbox);
    for filter in ["", "  "] {
        let run = sandbox.way(&one, ["migrate", "--move-to", "../two", "--filter", filter]).fails(2);
        assert!(run.stderr.contains("an empty filter would move every issue"), "{}", run.stderr);
    }
    assert!(std::fs::read_to_string(one.join(LEDGER)).unwrap().contains(&id) && !two.join(LEDGER).exists());
}

#[test]
fn an_issue_that_moves_to_the_project_is_not_local_any_more() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Planned"]);
    assert!(std::fs::read_to_string(planning.join(LEDGER)).unwrap().contains(r#""visibility":"local""#));
    let _ = sandbox.way(&fork, ["config", "set", "role", "maintainer"]).ok();
    let moved = sandbox.way(&fork, ["migrate", "--move-to", ".", "--filter", &format!("id={id}"), "--json"]).data();
    assert_eq!(moved["moved"][0], id.as_str());
    let line = lines(&fork.join(LEDGER)).into_iter().find(|line| line.contains(&id)).unwrap();
    assert!(!line.contains("visibility"), "{line}");
    // And the contributor's private planning keeps what moves into it to itself.
    let other = sandbox.git_repo("other");
    let public = add(&sandbox, &other, &["Public"]);
    let _ = sandbox.way(&fork, ["config", "--add-repo", "../other"]).ok();
    let _ = sandbox.way(&fork, ["config", "set", "role", "contributor"]).ok();
    let planning_text = planning.to_str().unwrap();
    let args = ["migrate", "--move-to", planning_text, "--filter", &format!("id={public}")];
    assert_eq!(sandbox.way(&fork, args).code, 0);
    let line = lines(&planning.join(LEDGER)).into_iter().find(|line| line.contains(&public)).unwrap();
    assert!(line.contains(r#""visibility":"local""#), "{line}");
}
