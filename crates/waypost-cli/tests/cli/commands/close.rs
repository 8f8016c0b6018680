//! `way close`: finished issues, and the claims that other agents hold.

use waypost_testkit::{strace, until};

use crate::support::claims::{at, end, start};
use crate::support::ledger::{LEDGER, add};
use crate::support::sandbox;
use crate::support::transfers::is_being_written;

#[test]
fn a_close_that_waits_for_the_ledger_sees_a_claim_written_in_the_meantime() {
    strace();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
    let _ = at(&sandbox, &repo, 1, "ada", &["release", &id]).ok();
    let slow = ["-f", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=300000"];
    let slow = [&slow[..], &[env!("CARGO_BIN_EXE_way")]].concat();
    let claim = start(&sandbox, &repo, 2, "bob", &slow, &["claim", &id]);
    until("the claim is being written to the ledger", || is_being_written(&repo));
    let closed = at(&sandbox, &repo, 2, "ada", &["close", &id]);
    let claimed = end(claim);
    assert_eq!((claimed.code, closed.code), (0, 5), "{claimed:?} {closed:?}");
    assert_eq!(at(&sandbox, &repo, 3, "cyd", &["show", &id, "--json"]).data()["assignee"], "bob");
}

#[test]
fn a_close_by_a_former_holder_and_a_claim_by_another_never_both_succeed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for round in 0..10 {
        let id = add(&sandbox, &repo, &[&format!("Issue {round}")]);
        let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
        // Half of the claims were released, the others expired.
        let minute = if round % 2 == 0 {
            let _ = at(&sandbox, &repo, 1, "ada", &["release", &id]).ok();
            2
        } else {
            20
        };
        let claim = start(&sandbox, &repo, minute, "bob", &[], &["claim", &id]);
        // The close comes a little later each round.
        for _ in 0..round {
            let _ = sandbox.way(&repo, ["--version"]);
        }
        let close = start(&sandbox, &repo, minute, "ada", &[], &["close", &id, "--reason", "ada"]);
        let (claimed, closed) = (end(claim), end(close));
        assert!([0, 4].contains(&claimed.code) && [0, 4, 5].contains(&closed.code), "{claimed:?} {closed:?}");
        assert_ne!(claimed.code == 0, closed.code == 0, "round {round}: {claimed:?} {closed:?}");
        // Then both close it: only the holder's close counts.
        let both = ["ada", "bob"];
        let both = both.map(|agent| start(&sandbox, &repo, minute, agent, &[], &["close", &id, "--reason", agent]));
        let [ada, bob] = both.map(end);
        let shown = at(&sandbox, &repo, minute, "cyd", &["show", &id, "--json"]).data();
        let by = if claimed.code == 0 { "bob" } else { "ada" };
        assert_eq!((&shown["status"], &shown["close_reason"]), (&"closed".into(), &by.into()), "{ada:?} {bob:?}");
        assert_eq!(bob.code, 0, "{bob:?}");
    }
}

#[test]
fn closing_a_closed_issue_is_reported_and_changes_nothing() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [one, two] = ["One", "Two"].map(|title| add(&sandbox, &repo, &[title]));
    let _ = sandbox.way(&repo, ["close", &one, "--reason", "done"]).ok();
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let run = sandbox.way(&repo, ["close", &one, "--reason", "again"]).ok();
    assert_eq!(run.stdout, format!("Already closed {one}  One\n"));
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before);
    let run = sandbox.way(&repo, ["close", &one, &two]).ok();
    assert_eq!(run.stdout, format!("Already closed {one}  One\nClosed {two}  Two\n"));
}

#[test]
fn a_wrong_id_is_an_error_that_names_what_it_may_mean() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [one, two] = ["One", "Two"].map(|title| add(&sandbox, &repo, &[title]));
    let run = sandbox.way(&repo, ["close", &one, "nonsense"]).fails(3);
    assert!(run.stderr.contains("there is no issue \"nonsense\""), "{}", run.stderr);
    let run = sandbox.way(&repo, ["close", "repo-"]).fails(3);
    assert!(run.stderr.contains("is a prefix of 2 issue ids") && run.stderr.contains(&two), "{}", run.stderr);
}
