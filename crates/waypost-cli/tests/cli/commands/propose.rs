//! `way propose`: private planning, and proposals to a project.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use waypost_testkit::{Run, Sandbox, strace, until};

use crate::support::ledger::{LEDGER, add};
use crate::support::repos::contributor;
use crate::support::sandbox;
use crate::support::transfers::{comments, copies, done, is_being_written, start_with_slow_fsync};

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
fn sync_tells_what_was_decided_on_proposals() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let ids = ["Good", "In part", "Bad", "Deleted"].map(|title| add(&sandbox, &fork, &[title]));
    for id in &ids {
        let run = sandbox.way(&fork, ["propose", id]);
        assert!(run.code == 0 && run.stderr.contains("commit the ledger together with your change"), "{run:?}");
    }
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let [good, part, bad, deleted] = ids.each_ref().map(String::as_str);
    let _ = sandbox.way(&upstream, ["accept", good]).ok();
    let _ = sandbox.way(&upstream, ["accept", part]).ok();
    let _ = sandbox.way(&upstream, ["reject", bad, "--reason", "too big"]).ok();
    let _ = sandbox.way(&upstream, ["delete", deleted, "--reason", "a duplicate"]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "decide"]);
    let _ = sandbox.way(&planning, ["comment", part, "one more word"]).ok();
    let run = sandbox.way(&fork, ["sync"]);
    assert_eq!(run.code, 0, "{run:?}");
    for said in [
        format!("{good} was accepted and is now an issue of the project"),
        format!("{part} was accepted without your latest changes; to propose them: way propose {part}"),
        format!("{bad} was rejected: too big"),
        format!("{deleted} was dropped: deleted: a duplicate; it is local to your planning again"),
    ] {
        assert!(run.stderr.contains(&said), "{said}: {run:?}");
    }
    let listed = sandbox.way(&fork, ["list", "--json"]).data();
    assert!(listed.as_array().unwrap().iter().any(|issue| issue["id"] == *good), "{listed}");
    sandbox.git(&fork, ["pull", "-q"]);
    let run = sandbox.way(&fork, ["sync"]);
    assert!(!run.stderr.contains(good), "it is said once: {run:?}");
    assert!(copies(&planning, good).is_empty());
}

#[test]
fn upstream_is_the_project_itself() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Mine"]);
    assert_eq!(sandbox.way(&fork, ["propose", &mine, "--target", "upstream"]).code, 0);
    assert!(std::fs::read_to_string(fork.join(LEDGER)).unwrap().contains(&mine));
    let _ = sandbox.way(&fork, ["propose", &mine, "--target", "elsewhere"]).fails(3);
}
