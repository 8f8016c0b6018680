//! `way accept`: a maintainer takes a proposal.

use std::os::unix::process::ExitStatusExt as _;

use waypost_testkit::{Run, strace};

use crate::support::ledger::{LEDGER, add};
use crate::support::repos::with_issue;
use crate::support::sandbox;
use crate::support::transfers::at;

#[test]
fn accepting_may_be_killed_at_any_step_and_loses_neither_the_issue_nor_its_edits() {
    strace();
    let sandbox = sandbox();
    let (project, planning) = (sandbox.git_repo("project"), sandbox.git_repo("planning"));
    let _ = sandbox.way(&project, ["config", "--add-repo", "../planning"]).ok();
    let id = add(&sandbox, &project, &["Idea", "--repo", "../planning", "-d", "with words"]);
    at(&sandbox, &project, 1, &["propose", &id]);
    at(&sandbox, &planning, 2, &["comment", &id, "said in the planning"]);
    let files = [project.join(LEDGER), planning.join(LEDGER)];
    let before = files.each_ref().map(|file| std::fs::read(file).unwrap());
    at(&sandbox, &project, 3, &["accept", &id]);
    let accepted = files.each_ref().map(|file| std::fs::read(file).unwrap());
    let reset = || {
        files.iter().zip(&before).for_each(|(file, content)| sandbox.write(file, content));
        // What is discarded here was never written if the process is killed.
        for repo in [&project, &planning] {
            assert!([0, 6].contains(&sandbox.way(repo, ["restore", "--drop"]).code));
        }
    };
    let mut killed = 0;
    // Every call that changes a file or makes one durable.
    for call in ["rename,renameat,renameat2", "fsync,fdatasync", "unlink,unlinkat"] {
        for when in 1..=8 {
            reset();
            let mut command = sandbox.command("strace", &project);
            command.env("WAYPOST_TEST_CLOCK", "2026-01-01T00:03:00Z").args(["-f", "-o", "/dev/null"]);
            command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={when}")]);
            let output = command.arg(env!("CARGO_BIN_EXE_way")).args(["accept", &id]).output().unwrap();
            killed += usize::from(output.status.signal() == Some(9));
            let place = format!("killed before {call} number {when}");
            let listed = sandbox.way(&project, ["list", "--all", "--json"]).data();
            let found: Vec<_> = listed.as_array().unwrap().iter().filter(|issue| issue["id"] == *id).collect();
            assert!(found.len() == 1 && found[0]["description"] == "with words", "{place}: {listed}");
            let again = {
                let mut command = sandbox.way_command(&project);
                command.env("WAYPOST_TEST_CLOCK", "2026-01-01T00:03:00Z").args(["accept", &id]);
                Run::of(&command.output().unwrap())
            };
            // A retry reports that it is accepted already.
            assert!([0, 4].contains(&again.code), "{place}: {again:?}");
            let after = files.each_ref().map(|file| std::fs::read(file).unwrap());
            assert_eq!(after, accepted, "{place}");
        }
    }
    assert!(killed >= 4, "too few commands were killed: {killed}");
}

#[test]
fn a_proposal_is_accepted_by_a_maintainer() {
    let sandbox = sandbox();
    let repo = with_issue(&sandbox, "repo", r#"{"id":"a-1","title":"One","visibility":"proposed"}"#);
    let _ = sandbox.way(&repo, ["accept", "a-1", "--role", "contributor"]).fails(7);
    let run = sandbox.way(&repo, ["accept", "a-1"]).ok();
    assert_eq!(run.stdout, "Accepted a-1  One\n");
    let _ = sandbox.way(&repo, ["accept", "a-1"]).fails(4);
}
