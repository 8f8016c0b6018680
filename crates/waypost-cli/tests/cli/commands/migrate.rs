//! `way migrate`: issues moved between ledgers; edits of either copy survive.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, strace, until};

use crate::support::ledger::{LEDGER, add, lines};
use crate::support::sandbox;
use crate::support::transfers::{comments, copies, done, is_being_written, start_with_slow_fsync};

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
fn what_moves_is_told_and_a_wrong_filter_is_refused() {
    let sandbox = sandbox();
    let (one, two, id) = neighbours(&sandbox);
    let migrate = |args: &[&str]| sandbox.way(&one, [&["migrate", "--move-to", "../two", "--filter"], args].concat());
    let filter = format!("id={id} author=me");
    let run = migrate(&[&filter, "--dry-run"]);
    assert!(run.code == 0 && run.stdout.contains(&id) && run.stderr.contains("nothing was written"), "{run:?}");
    assert!(!two.join(LEDGER).exists());
    for wrong in ["", "  ", "writer=me", "me"] {
        let _ = migrate(&[wrong]).fails(2);
    }
    assert_eq!(migrate(&[&filter, "--json"]).data()["moved"][0], id.as_str());
    let _ = migrate(&[&filter]).fails(6);
}
