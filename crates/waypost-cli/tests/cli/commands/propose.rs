//! `way propose`: private planning, and proposals to a project.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use waypost_testkit::{Run, Sandbox, strace};

use crate::support::jobs::until;
use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::repos::{contributor, text, with_issue};
use crate::support::sandbox;
use crate::support::transfers::{at, comments, copies, done, is_being_written, maintain, start_with_slow_fsync};

#[test]
fn b9_b10_b11_a_contributors_planning_stays_private_until_an_issue_is_proposed() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    assert_eq!(sandbox.git(&fork, ["status", "--porcelain"]), "", "nothing of it is in the project");
    let mine = add(&sandbox, &fork, &["Explore dark mode"]);
    let other = add(&sandbox, &fork, &["Private thought", "--parent", "up-1"]);
    let _ = sandbox.way(&fork, ["update", &other, "-p", "0"]).ok();
    let _ = sandbox.way(&fork, ["close", &other]).ok();
    assert_eq!(sandbox.git(&fork, ["status", "--porcelain"]), "");
    assert_eq!(lines(&planning.join(LEDGER)).len(), 2);
    assert_eq!(ids(&sandbox, &fork, &["list"]).len(), 2, "theirs and mine in one list");
    for args in [&["update", "up-1", "-p", "0"][..], &["close", "up-1"], &["claim", "up-1"], &["comment", "up-1", "x"]]
    {
        let run = sandbox.way(&fork, args.iter()).fails(7);
        assert!(run.stderr.contains("way propose"), "{}", run.stderr);
    }

    let before = [fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap());
    let run = sandbox.way(&fork, ["propose", &mine]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(sandbox.git(&fork, ["diff", "--numstat"]), format!("1\t0\t{LEDGER}\n"));
    assert!(lines(&planning.join(LEDGER)).iter().any(|line| line.contains("\"visibility\":\"proposed\"")));
    assert_eq!(ids(&sandbox, &fork, &["list"]).len(), 2, "two copies are one issue");
    let shown = sandbox.way(&fork, ["show", &mine, "--json"]).data();
    assert_eq!(shown["source_repo"], text(&fork), "the public copy takes precedence");
    // Repeating it, as after a crash, changes nothing.
    let proposed = [fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    assert_eq!([fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap()), proposed);

    let _ = sandbox.way(&fork, ["withdraw", &mine]).ok();
    assert_eq!([fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap()), before);
    let _ = sandbox.way(&fork, ["withdraw", &mine]).fails(4);
    let _ = sandbox.way(&fork, ["propose", "up-1"]).fails(4);

    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    let _ = sandbox.way(&fork, ["accept", &mine]).fails(7);
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    let diff = sandbox.git(&fork, ["diff", "--numstat", "origin/HEAD", "HEAD"]);
    assert_eq!(diff, format!("1\t0\t{LEDGER}\n"), "the pull request is one added line");
}

#[test]
fn a_crash_between_the_two_writes_of_a_proposal_loses_nothing() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Mine"]);
    let local = std::fs::read(planning.join(LEDGER)).unwrap();
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    let proposed = [fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read(path).unwrap());
    // Killed after the project's ledger was written: the planning ledger is not updated yet.
    let undo = || {
        sandbox.write(planning.join(LEDGER), &local);
        let _ = sandbox.way(&planning, ["restore", "--drop"]).ok();
    };
    undo();
    assert_eq!(ids(&sandbox, &fork, &["list"]).len(), 2);
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    assert_eq!([fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read(path).unwrap()), proposed);
    // Killed during the withdrawal, after the planning ledger was written.
    undo();
    let _ = sandbox.way(&fork, ["withdraw", &mine]).ok();
    assert_eq!(std::fs::read(planning.join(LEDGER)).unwrap(), local);
    assert_eq!(lines(&fork.join(LEDGER)).len(), 1);
    // An issue that only the project has is not removed.
    let _ = sandbox.way(&fork, ["propose", &mine]);
    std::fs::remove_file(planning.join(LEDGER)).unwrap();
    let _ = sandbox.way(&planning, ["restore", "--drop"]).ok();
    let _ = sandbox.way(&fork, ["withdraw", &mine]).fails(4);
    assert_eq!(lines(&fork.join(LEDGER)).len(), 2);
}

/// Runs `way` and kills it at a random moment, or as soon as a condition holds. Returns whether it was still running.
fn kill(sandbox: &Sandbox, repo: &Path, args: &[&str], random: Option<Duration>, is_so: impl Fn() -> bool) -> bool {
    let mut command = sandbox.way_command(repo);
    let mut child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + random.unwrap_or(Duration::from_secs(10));
    while Instant::now() < deadline && (random.is_some() || !is_so()) && child.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
    let was_at_work = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_at_work
}

#[test]
fn proposing_withdrawing_and_moving_may_be_killed_at_any_moment() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Mine", "-d", "with words"]);
    let other = sandbox.git_repo("other");
    let _ = sandbox.way(&other, ["config", "--add-repo", "../planning"]).ok();
    let files = [fork.join(LEDGER), planning.join(LEDGER), other.join(LEDGER)];
    let all = || files.each_ref().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let has = |number: usize| all()[number].contains(&mine);
    let started = Instant::now();
    let _ = sandbox.way(&fork, ["show", &mine]).ok();
    let long = u64::try_from(started.elapsed().as_micros()).unwrap() * 4;
    let local = all();
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    let proposed = all();
    let _ = sandbox.way(&fork, ["withdraw", &mine]).ok();
    let filter = format!("id={mine}");
    // In the other repository the user is a maintainer, so the issue becomes public there.
    let public = local.each_ref().map(|content| content.replace(",\"visibility\":\"local\"", ""));
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut killed = [0; 4];
    for round in 0..30 {
        // Every third time as soon as the first of the two files is written, else at random.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (round % 3 != 0).then(|| Duration::from_micros((seed >> 33) % long));
        let moving: &[&str] = &["migrate", "--move-to", ".", "--filter", &filter];
        let back: &[&str] = &["migrate", "--move-to", "../planning", "--filter", &filter];
        for (number, (repo, args, expected)) in [
            (&fork, &["propose", &mine][..], Some(&proposed)),
            (&fork, &["withdraw", &mine], Some(&local)),
            (&other, moving, None),
            (&other, back, Some(&public)),
        ]
        .into_iter()
        .enumerate()
        {
            let before = all();
            let place = format!("round {round}, {args:?} after {random:?}");
            killed[number] += usize::from(kill(&sandbox, repo, args, random, || all() != before));
            // The issue is complete in one of the ledgers, and a list shows it once.
            let listed = sandbox.way(repo, ["list", "--all", "--json"]).data();
            let titles: Vec<_> = listed.as_array().unwrap().iter().filter(|issue| issue["id"] == *mine).collect();
            assert!(titles.len() == 1 && titles[0]["description"] == "with words", "{place}: {listed}");
            let again = sandbox.way(repo, args.iter());
            // A retry reports steps that are already done.
            assert!([0, 4, 6].contains(&again.code), "{place}: {again:?}");
            match expected {
                Some(expected) => assert_eq!(&all(), expected, "{place}"),
                None => assert_eq!([has(1), has(2)], [false, true], "{place}"),
            }
        }
        sandbox.write(&files[1], &local[1]);
    }
    assert!(killed.iter().all(|times| *times >= 5), "too few commands were killed in time: {killed:?}");
}

#[test]
fn b24_use_case_1_a_contributor_plans_apart_and_proposes_one_issue() {
    let sandbox = sandbox();
    let upstream = with_issue(&sandbox, "upstream", r#"{"id":"up-1","title":"Theirs"}"#);
    sandbox.git(&upstream, ["add", "."]);
    sandbox.git(&upstream, ["commit", "-q", "-m", "ledger"]);
    let planning = sandbox.git_repo("plans");
    let _ = sandbox.way(&planning, ["init"]).ok();
    sandbox.git(&sandbox.path("."), ["clone", "-q", "upstream", "project"]);
    let project = sandbox.path("project");
    let _ = sandbox.way(&project, ["config", "--add-repo", "../plans", "--routing", "contributor"]).ok();
    let idea = add(&sandbox, &project, &["Explore dark mode", "-d", "musings"]);
    assert!(lines(&planning.join(LEDGER)).iter().any(|line| line.contains(&idea)));
    assert_eq!(sandbox.git(&project, ["status", "--porcelain"]), "");
    sandbox.git(&project, ["checkout", "-q", "-b", "dark-mode"]);
    assert_eq!(sandbox.way(&project, ["propose", &idea]).code, 0);
    sandbox.write(project.join("dark.css"), "body {}");
    sandbox.git(&project, ["add", "."]);
    sandbox.git(&project, ["commit", "-q", "-m", "dark mode"]);
    let stat = sandbox.git(&project, ["diff", "--numstat", "origin/HEAD", "HEAD"]);
    assert!(stat.contains(&format!("1\t0\t{LEDGER}\n")), "{stat}");
    // Upstream merges the pull request and accepts the proposal in it.
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../project", "dark-mode"]);
    let _ = sandbox.way(&upstream, ["accept", &idea]).ok();
    assert_eq!(ids(&sandbox, &upstream, &["list"]).len(), 2);
}

#[test]
fn b25_b26_sync_reports_the_decision_on_a_proposal() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let good = add(&sandbox, &fork, &["Good idea"]);
    let bad = add(&sandbox, &fork, &["Bad idea"]);
    for id in [&good, &bad] {
        assert_eq!(sandbox.way(&fork, ["propose", id]).code, 0);
    }
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    let pending = sandbox.way(&fork, ["sync"]);
    assert!(pending.code == 0 && !pending.stderr.contains("accepted"), "{pending:?}");
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let _ = sandbox.way(&upstream, ["update", &good, "--title", "Better idea"]).ok();
    let _ = sandbox.way(&upstream, ["accept", &good]).ok();
    let _ = sandbox.way(&upstream, ["reject", &bad, "--reason", "too big"]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "decide"]);
    let run = sandbox.way(&fork, ["sync"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains(&format!("{good} was accepted")), "{run:?}");
    assert!(run.stderr.contains(&format!("{bad} was rejected: too big")), "{run:?}");
    let planned = lines(&planning.join(LEDGER));
    assert!(!planned.iter().any(|line| line.contains(&good)), "the planning copy is retired: {planned:?}");
    let mine = planned.iter().find(|line| line.contains(&bad)).unwrap();
    assert!(mine.contains("\"visibility\":\"local\"") && mine.contains("rejected: too big"), "{mine}");
    sandbox.git(&fork, ["pull", "-q"]);
    assert_eq!(ids(&sandbox, &fork, &["list", "--text", "Better"]), std::slice::from_ref(&good), "once, and canonical");
    let shown = sandbox.way(&fork, ["show", &bad, "--json"]).data();
    assert_eq!((&shown["source_repo"], &shown["status"]), (&text(&planning).into(), &"open".into()), "mine again");
    let kept = sandbox.git(&planning, ["log", "-p", "--format="]);
    assert!(kept.contains("Good idea"), "its history is in the planning's version control");
    let again = sandbox.way(&fork, ["sync"]);
    assert!(again.code == 0 && !again.stderr.contains("was accepted"), "{again:?}");
}

/// Removes a line from a ledger and commits, as a person who does not use `way` would.
fn take_out(sandbox: &Sandbox, repo: &Path, id: &str) {
    let left: Vec<String> = lines(&repo.join(LEDGER)).into_iter().filter(|line| !line.contains(id)).collect();
    sandbox.write(repo.join(LEDGER), format!("{}\n", left.join("\n")));
    sandbox.git(repo, ["commit", "-q", "-a", "-m", "take out"]);
}

#[test]
fn a_proposal_that_the_project_drops_returns_to_planning() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let propose = |title: &str| {
        let id = add(&sandbox, &fork, &[title]);
        assert_eq!(sandbox.way(&fork, ["propose", &id]).code, 0);
        sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
        id
    };
    let [deleted, gone, pruned] = ["Deleted", "Taken out", "Accepted, done, pruned"].map(propose);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let open = propose("In a pull request");
    let planned = |id: &str| lines(&planning.join(LEDGER)).into_iter().find(|line| line.contains(id));
    let sync = || {
        let run = sandbox.way(&fork, ["sync"]);
        assert_eq!(run.code, 0, "{run:?}");
        run.stderr
    };
    assert!(!sync().contains(" was "), "nothing was decided yet");
    let _ = sandbox.way(&upstream, ["delete", &deleted, "--reason", "a duplicate"]).ok();
    let _ = sandbox.way(&upstream, ["accept", &pruned]).ok();
    let _ = sandbox.way(&upstream, ["close", &pruned]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "decide"]);
    take_out(&sandbox, &upstream, &gone);
    take_out(&sandbox, &upstream, &pruned);

    let said = sync();
    assert!(
        said.contains(&format!("{deleted} was dropped: deleted: a duplicate; it is local to your planning again")),
        "{said}"
    );
    assert!(said.contains(&format!("{gone} was dropped: taken out by commit ")), "{said}");
    assert!(said.contains(&format!("{pruned} was accepted")) && planned(&pruned).is_none(), "{said}");
    assert!(!said.contains(&open) && planned(&open).unwrap().contains("\"visibility\":\"proposed\""), "{said}");
    for (id, words) in [(&deleted, "deleted: a duplicate"), (&gone, "taken out by commit ")] {
        let line = planned(id).unwrap();
        assert!(line.contains("\"visibility\":\"local\"") && line.contains(words), "{line}");
    }
    assert!(!sync().contains(" was "), "the decision is reported once");
    // The project's tombstone does not hide the planned issue.
    sandbox.git(&fork, ["reset", "-q", "--hard", "origin/main"]);
    let shown = sandbox.way(&fork, ["show", &deleted, "--json"]).data();
    assert_eq!((&shown["source_repo"], &shown["status"]), (&text(&planning).into(), &"open".into()));
    // Proposing a dropped issue again does not report it as dropped again.
    for id in [&deleted, &gone] {
        assert_eq!(sandbox.way(&fork, ["propose", id]).code, 0);
    }
    assert!(!sync().contains(" was "), "it may be in a pull request again");
    assert!(planned(&gone).unwrap().contains("\"visibility\":\"proposed\""));
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
fn a_change_that_was_proposed_and_then_changed_back_is_a_change() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let id = add(&sandbox, &fork, &["A", "-l", "x"]);
    at(&sandbox, &fork, 1, &["propose", &id]);
    at(&sandbox, &planning, 2, &["update", &id, "--title", "B", "--remove-label", "x"]);
    at(&sandbox, &fork, 3, &["propose", &id]);
    // The project takes the second proposal.
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--ff-only", "../fork", "main"]);
    at(&sandbox, &upstream, 4, &["accept", &id]);
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "accept"]);
    at(&sandbox, &planning, 5, &["update", &id, "--title", "A", "--add-label", "x"]);
    let is_changed_back = |repo: &Path| {
        let [copy] = copies(repo, &id).try_into().unwrap();
        (copy["title"] == "A" && copy["labels"] == serde_json::json!(["x"])).then_some(()).ok_or(copy)
    };
    // The planning's copy has a change that the project lacks, so it stays.
    let notes = at(&sandbox, &fork, 6, &["sync"]);
    assert!(notes.contains(&format!("{id} was accepted without your latest changes")), "{notes}");
    assert_eq!(is_changed_back(&planning), Ok(()));
    at(&sandbox, &fork, 7, &["propose", &id]);
    assert_eq!((is_changed_back(&fork), is_changed_back(&planning)), (Ok(()), Ok(())));
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
