//! `way ready`.

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::repos::contributor;
use crate::support::sandbox;

#[test]
fn ready_issues_are_listed_and_what_is_left_out_is_noted() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
    sandbox.dir("repo/.waypost");
    let lines = ["agent", "agent", "gate", "task"].iter().enumerate().map(|(number, kind)| {
        format!("{{\"id\":\"bd-{number}\",\"title\":\"T\",\"status\":\"open\",\"issue_type\":\"{kind}\"}}\n")
    });
    sandbox.write(repo.join(LEDGER), lines.collect::<String>());
    let run = sandbox.way(&repo, ["ready"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:?}");
    assert!(run.stdout.contains("bd-3") && run.stderr.contains("not work: 2 agent, 1 gate"), "{run:?}");
    assert_eq!(ids(&sandbox, &repo, &["ready", "--type", "gate", "-t", "agent"]), ["bd-0", "bd-1", "bd-2"]);
    let explained = sandbox.way(&repo, ["ready", "--explain", "bd-2"]).ok();
    assert!(explained.stdout.contains("it is not work: gate"), "{}", explained.stdout);
}

#[test]
fn issues_that_a_contributor_may_not_write_are_noted() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Explore dark mode"]);
    let listed = sandbox.way(&fork, ["ready"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains(&mine) && !listed.stdout.contains("up-1"), "{}", listed.stdout);
    let note = "not listed: 1 ready issue of fork, whose ledger you may not write";
    assert!(listed.stderr.contains(note), "{}", listed.stderr);
}
