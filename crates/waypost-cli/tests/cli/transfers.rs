//! Issues moved between ledgers: edits of either copy survive, and other commands keep working.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, strace};

use crate::jobs::until;
use crate::ledger::{LEDGER, add, lines};
use crate::repos::contributor;
use crate::sandbox;

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

/// Checks that a command succeeded, and ignores its notes.
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

/// Returns whether a new version of a ledger is being written.
pub(crate) fn is_being_written(repo: &Path) -> bool {
    let entries = std::fs::read_dir(repo.join(".waypost")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|end| end == "tmp"))
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
    assert!(moves.load(Ordering::Relaxed) > 5, "too few moves succeeded");
    assert_eq!(lines(&one.join(LEDGER)).len() + lines(&two.join(LEDGER)).len(), 1);
}

/// Runs a command at a minute of the first day of 2026, checks that it succeeds, and returns its notes.
fn at(sandbox: &Sandbox, repo: &Path, minute: u32, args: &[&str]) -> String {
    let clock = format!("2026-01-01T00:{minute:02}:00Z");
    let run = sandbox.way_with(repo, &[("WAYPOST_TEST_CLOCK", clock.as_ref())], args);
    done(&run);
    run.stderr
}

/// Changes the project's copy, as a maintainer who has the same checkout would.
fn maintain(sandbox: &Sandbox, repo: &Path, minute: u32, args: &[&str]) {
    at(sandbox, repo, minute, &[args, &["--role", "maintainer", "--repo", "."]].concat());
}

#[test]
fn withdrawing_a_proposal_keeps_the_edits_of_both_copies() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Idea", "-l", "old"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    maintain(&sandbox, &fork, 2, &["update", &id, "--title", "Better idea", "--remove-label", "old"]);
    maintain(&sandbox, &fork, 3, &["comment", &id, "said in the project"]);
    at(&sandbox, &planning, 4, &["comment", &id, "said in the planning"]);
    at(&sandbox, &planning, 5, &["label", "add", &id, "new"]);
    at(&sandbox, &fork, 6, &["withdraw", &id]);
    assert!(copies(&fork, &id).is_empty());
    let [local] = copies(&planning, &id).try_into().unwrap();
    assert_eq!(comments(&local), ["said in the planning", "said in the project"]);
    assert_eq!((&local["title"], &local["visibility"]), (&"Better idea".into(), &"local".into()));
    assert_eq!(local["labels"], serde_json::json!(["new"]));
}

#[test]
fn proposing_again_merges_the_edits_of_both_copies() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Idea"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    maintain(&sandbox, &fork, 2, &["comment", &id, "said in the project"]);
    at(&sandbox, &planning, 3, &["update", &id, "-p", "0"]);
    at(&sandbox, &fork, 4, &["propose", &id]);
    let [proposed] = copies(&fork, &id).try_into().unwrap();
    assert_eq!((comments(&proposed), &proposed["priority"]), (vec!["said in the project".to_owned()], &0.into()));
    assert_eq!(copies(&planning, &id), [proposed]);
    // Proposed again after a rejection, it is open again and keeps the reason.
    maintain(&sandbox, &fork, 5, &["comment", &id, "too big"]);
    maintain(&sandbox, &fork, 6, &["reject", &id, "--reason", "no time"]);
    at(&sandbox, &fork, 7, &["propose", &id]);
    let [proposed] = copies(&fork, &id).try_into().unwrap();
    assert_eq!((&proposed["status"], &proposed["visibility"]), (&"open".into(), &"proposed".into()));
    let said = comments(&proposed);
    assert!(said.len() == 3 && said[0].starts_with("rejected: no time") && said[2] == "too big", "{said:?}");
}

#[test]
fn an_edit_of_the_planning_made_while_it_is_proposed_or_withdrawn_is_kept() {
    strace();
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Idea"]);
    let mut expected = Vec::new();
    for (verb, first) in [("propose", &fork), ("withdraw", &planning)] {
        let running = start_with_slow_fsync(&sandbox, &fork, &[verb, &id]);
        until("the first ledger is being written", || is_being_written(first));
        done(&sandbox.way(&planning, ["comment", &id, verb]));
        done(&Run::of(&running.wait_with_output().unwrap()));
        expected.push(verb);
        assert_eq!(comments(&copies(&planning, &id)[0]), expected);
    }
}

#[test]
fn accepting_a_proposal_merges_the_edits_of_a_readable_planning_ledger() {
    let sandbox = sandbox();
    let (project, planning) = (sandbox.git_repo("project"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&project, ["config", "--add-repo", "../planning"]).ok();
    let id = add(&sandbox, &project, &["Idea", "--repo", "../planning"]);
    at(&sandbox, &project, 1, &["propose", &id]);
    at(&sandbox, &planning, 2, &["comment", &id, "said in the planning"]);
    at(&sandbox, &project, 3, &["accept", &id]);
    let [canonical] = copies(&project, &id).try_into().unwrap();
    assert!(canonical.get("visibility").is_none(), "{canonical}");
    assert_eq!(comments(&canonical), ["said in the planning"]);
}

#[test]
fn a_contributors_later_edits_stay_in_the_planning_until_the_project_has_them() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let id = add(&sandbox, &fork, &["Idea"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    at(&sandbox, &planning, 2, &["comment", &id, "said in the planning"]);
    at(&sandbox, &upstream, 3, &["update", &id, "--title", "Better idea"]);
    at(&sandbox, &upstream, 3, &["accept", &id]);
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "accept"]);
    let said = at(&sandbox, &fork, 4, &["sync"]);
    assert!(said.contains(&format!("{id} was accepted without")) && said.contains("way propose"), "{said}");
    assert_eq!(comments(&copies(&planning, &id)[0]), ["said in the planning"]);
    // The contributor proposes the rest, and the project takes it.
    sandbox.git(&fork, ["pull", "-q", "--no-rebase"]);
    at(&sandbox, &fork, 5, &["propose", &id]);
    let again = at(&sandbox, &fork, 5, &["sync"]);
    assert!(again.contains("was accepted without"), "the project does not have it yet: {again}");
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose more"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let [canonical] = copies(&upstream, &id).try_into().unwrap();
    assert_eq!(
        (comments(&canonical), &canonical["title"]),
        (vec!["said in the planning".to_owned()], &"Better idea".into())
    );
    assert!(canonical.get("visibility").is_none(), "{canonical}");
    let said = at(&sandbox, &fork, 6, &["sync"]);
    assert!(said.contains(&format!("{id} was accepted and is now an issue of the project")), "{said}");
    assert!(copies(&planning, &id).is_empty());
    let _ = sandbox.way(&fork, ["propose", &id]).fails(4);
}

#[test]
fn a_maintainers_later_edits_of_the_planning_go_into_the_project_with_sync() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    sandbox.git(&origin, ["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox.git(&origin, ["checkout", "-q", "--detach"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "--branch", "main", "origin", "project"]);
    let (project, planning) = (sandbox.path("project"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&project, ["config", "--add-repo", "../planning"]).ok();
    let id = add(&sandbox, &project, &["Idea", "--repo", "../planning"]);
    at(&sandbox, &project, 1, &["propose", &id]);
    at(&sandbox, &project, 2, &["accept", &id]);
    at(&sandbox, &planning, 3, &["comment", &id, "said later"]);
    at(&sandbox, &project, 4, &["sync"]);
    assert!(copies(&planning, &id).is_empty());
    let [canonical] = copies(&project, &id).try_into().unwrap();
    assert_eq!(comments(&canonical), ["said later"]);
}
