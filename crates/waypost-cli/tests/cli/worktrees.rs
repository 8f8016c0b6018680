//! One store for all worktrees, each record naming its own.

use std::path::Path;

use serde_json::Value;
use waypost_testkit::unavailable;

use crate::support::worktrees::{id_of, list, named, three};
use crate::support::{sandbox, text};

#[test]
fn a4_the_same_work_in_two_worktrees_is_kept_apart() {
    let sandbox = sandbox();
    let (_, ours, theirs) = three(&sandbox);
    let _ = sandbox.way(&ours, ["db", "probe", "--writes", "2"]).ok();
    let _ = sandbox.way(&theirs, ["db", "probe", "--writes", "2"]).ok();
    let of = |dir: &Path| {
        let status = sandbox.way(dir, ["status", "--json", "--worktree", &id_of(&sandbox, dir)]).data();
        let events = status["events"].as_array().unwrap().clone();
        let probes: Vec<Value> = events.into_iter().filter(|event| event["kind"] == "store.probed").collect();
        (probes.len(), probes.iter().all(|event| event["worktree_id"] == *id_of(&sandbox, dir)))
    };
    assert_eq!(of(&ours), (2, true));
    assert_eq!(of(&theirs), (2, true));
}

#[test]
fn g1_every_session_sees_the_writes_of_every_other() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    let _ = sandbox.way(&ours, ["db", "probe", "--writes", "1"]).ok();
    for dir in [&repo, &ours, &theirs] {
        let status = sandbox.way(dir, ["status", "--json"]).data();
        let events = status["events"].as_array().unwrap();
        assert!(
            events
                .iter()
                .any(|event| event["kind"] == "store.probed" && event["worktree_id"] == *id_of(&sandbox, &ours)),
            "from {}",
            dir.display()
        );
    }
}

#[test]
fn g2_there_is_one_database_and_worktrees_make_none() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    for dir in [&repo, &ours, &theirs] {
        let _ = sandbox.way(dir, ["status"]).ok();
    }
    let found = sandbox.command("find", &sandbox.path("")).args([".", "-name", "*.db", "-type", "f"]).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "./repo/.git/waypost/state.db\n");
}

#[test]
fn g3_no_row_is_without_its_worktree() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let db = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    let insert = |worktree: &str| {
        let row = format!(
            "INSERT INTO events (time, actor, worktree_id, kind, subject, data) VALUES (1, 'a', {worktree}, 'k', 's', '{{}}')"
        );
        db.execute(&row, [])
    };
    insert("NULL").unwrap_err();
    insert("'wt_000000000000'").unwrap_err();
    insert("(SELECT id FROM worktrees)").unwrap();
}

#[test]
fn history_cannot_be_rewritten() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let db = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    db.execute("UPDATE events SET actor = 'other'", []).unwrap_err();
    db.execute("DELETE FROM events", []).unwrap_err();
}

#[test]
fn g5_every_record_names_its_worktree() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let all = list(&sandbox, &repo);
    let one = named(&all, "ours");
    assert_eq!(one["id"], *id_of(&sandbox, &ours));
    assert_eq!((one["path"].as_str(), one["branch"].as_str()), (Some(text(&ours)), Some("ours")));
    let run = sandbox.way(&repo, ["worktree", "list"]).ok();
    let row = run.stdout.lines().find(|line| line.starts_with("  ours ")).unwrap();
    for part in [id_of(&sandbox, &ours).as_str(), "ours", text(&ours)] {
        assert!(row.contains(part), "{row}");
    }
}

#[test]
fn g6_the_main_worktree_reads_records_of_a_linked_worktree() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let before = sandbox.way(&repo, ["status", "--json"]).data()["store"]["events"].as_u64().unwrap();
    let _ = sandbox.way(&ours, ["db", "probe", "--writes", "3"]).ok();
    let after = sandbox.way(&repo, ["status", "--json"]).data()["store"]["events"].as_u64().unwrap();
    assert_eq!(after, before + 3);
}

#[test]
fn g7_worktrees_made_by_way_and_by_git_both_work() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    let link = ours.join(".waypost/state.db");
    assert_eq!(std::fs::read_link(&link).unwrap(), repo.join(".git/waypost/state.db"));
    assert!(!theirs.join(".waypost").exists());
    assert_eq!(named(&list(&sandbox, &repo), "theirs")["state"], "new");
    let _ = sandbox.way(&theirs, ["db", "probe", "--writes", "1"]).ok();
    let all = list(&sandbox, &repo);
    assert_eq!(named(&all, "theirs")["state"], "present");
    assert_eq!(all.len(), 3);
    for dir in [&repo, &ours, &theirs] {
        assert_eq!(sandbox.git(dir, ["status", "--porcelain"]), "");
    }
}

#[test]
fn a14_ids_lie_in_gits_own_directory_and_survive_a_move() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    let _ = sandbox.way(&theirs, ["status"]).ok();
    let id = id_of(&sandbox, &theirs);
    let kept = std::fs::read_to_string(repo.join(".git/worktrees/theirs/waypost/worktree-id")).unwrap();
    assert_eq!(kept.trim(), id);
    assert_ne!(id, id_of(&sandbox, &ours));
    assert_ne!(id, id_of(&sandbox, &repo));
    let moved = sandbox.path("moved");
    sandbox.git(&repo, ["worktree", "move", text(&theirs), text(&moved)]);
    assert_eq!(id_of(&sandbox, &moved), id);
    let one = named(&list(&sandbox, &repo), "theirs").clone();
    assert_eq!((one["path"].as_str(), one["state"].as_str()), (Some(text(&moved)), Some("present")));
    // The next write from the worktree records its new path.
    let _ = sandbox.way(&moved, ["db", "probe", "--writes", "1"]).ok();
    let status = sandbox.way(&moved, ["status", "--json", "--worktree", &id]).data();
    let kinds: Vec<_> = status["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["store.probed", "worktree.changed", "worktree.registered"]);
}

#[test]
fn g15_ids_survive_moving_everything_and_other_mounts_and_copies_get_their_own() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("here/repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let id = id_of(&sandbox, &repo);
    std::fs::rename(sandbox.path("here"), sandbox.path("there")).unwrap();
    let repo = sandbox.path("there/repo");
    assert_eq!(id_of(&sandbox, &repo), id);
    let _ = sandbox.way(&repo, ["status"]).ok();
    assert_eq!(id_of(&sandbox, &repo), id);

    let mount = sandbox.dir("mount");
    let mounted = sandbox.command("mount", &repo).args(["--bind", text(&repo), text(&mount)]).status().unwrap();
    if !mounted.success() {
        unavailable("this user may not mount");
    }
    let _ = sandbox.way(&mount, ["db", "probe", "--writes", "1"]).ok();
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let (there, here) = (id_of(&sandbox, &mount), id_of(&sandbox, &repo));
    sandbox.command("umount", &repo).arg(&mount).status().unwrap();
    assert_eq!((there, here), (id.clone(), id.clone()));

    let copy = sandbox.path("copy");
    sandbox.command("cp", &repo).args(["-r", text(&repo), text(&copy)]).status().unwrap();
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let run = sandbox.way(&copy, ["status"]);
    assert!(run.code == 0 && run.stderr.contains("this is a copy of"), "{run:?}");
    assert_ne!(id_of(&sandbox, &copy), id);
    assert_eq!(id_of(&sandbox, &repo), id);
    let _ = sandbox.way(&copy, ["status"]).ok();
}

#[test]
fn g17_no_link_is_needed() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    std::fs::remove_file(ours.join(".waypost/state.db")).unwrap();
    std::fs::remove_dir(ours.join(".waypost")).unwrap();
    let _ = sandbox.way(&ours, ["db", "probe", "--writes", "1"]).ok();
    // The worktree is made even if the link cannot be created.
    sandbox.write(repo.join(".waypost"), "a file where our directory would be");
    sandbox.git(&repo, ["add", ".waypost"]);
    sandbox.git(&repo, ["commit", "-q", "-m", "in the way"]);
    let _ = sandbox.way(&repo, ["worktree", "add", "blocked"]).ok();
    let _ = sandbox.way(&sandbox.path("repo-blocked"), ["status"]).ok();
}

#[test]
fn worktrees_removed_by_any_means_stay_in_the_history() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    let _ = sandbox.way(&theirs, ["db", "probe", "--writes", "2"]).ok();
    let third = sandbox.path("third");
    sandbox.git(&repo, ["worktree", "add", "-q", "-b", "third", text(&third)]);
    let _ = sandbox.way(&third, ["db", "probe", "--writes", "2"]).ok();

    let _ = sandbox.way(&repo, ["worktree", "rm", "ours"]).ok();
    sandbox.git(&repo, ["worktree", "remove", text(&theirs)]);
    sandbox.command("rm", &repo).arg("-rf").arg(&third).status().unwrap();
    sandbox.git(&repo, ["worktree", "prune"]);
    sandbox.git(&repo, ["clean", "-ffdx"]);

    let all = list(&sandbox, &repo);
    let state = |name: &str| named(&all, name)["state"].as_str().unwrap().to_owned();
    assert_eq!(
        (state("repo"), state("ours"), state("theirs"), state("third")),
        ("here".into(), "removed".into(), "gone".into(), "gone".into())
    );
    let id = named(&all, "third")["id"].as_str().unwrap();
    let status = sandbox.way(&repo, ["status", "--json", "--worktree", id]).data();
    assert_eq!(status["events"].as_array().unwrap().len(), 3);
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
    let _ = ours;
}

#[test]
fn a_copied_repository_does_not_take_the_originals_worktrees_for_its_own() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    sandbox.write(ours.join("new"), "x");
    let copy = sandbox.path("copy");
    sandbox.command("cp", &repo).args(["-r", text(&repo), text(&copy)]).status().unwrap();
    let _ = sandbox.way(&copy, ["status"]);
    let run = sandbox.way(&copy, ["worktree", "rm", "--force", "ours"]);
    assert_ne!(run.code, 0);
    assert!(ours.join("new").exists());
    assert_eq!(sandbox.git(&repo, ["for-each-ref", "refs/waypost"]), "");
}

#[test]
fn twenty_processes_in_a_fresh_copy_get_one_identity() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    for round in 0..5 {
        let copy = sandbox.path(format!("copy{round}"));
        sandbox.command("cp", &repo).args(["-r", text(&repo), text(&copy)]).status().unwrap();
        let children: Vec<_> = (0..20)
            .map(|_| {
                let mut command = sandbox.way_command(&copy);
                command.args(["db", "probe", "--writes", "1"]);
                command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(list(&sandbox, &copy).len(), 2, "the original, and the copy");
    }
}

#[test]
fn a_copy_writes_into_its_own_store_from_the_first_command() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["--scope", "worktree", "db", "probe", "--writes", "1"]).ok();
    let copy = sandbox.path("copy");
    sandbox.command("cp", &repo).args(["-r", text(&repo), text(&copy)]).status().unwrap();
    let run = sandbox.way(&copy, ["--scope", "worktree", "db", "probe", "--writes", "1"]);
    assert!(run.code == 0 && run.stderr.contains("this is a copy"), "{run:?}");
    let status = sandbox.way(&copy, ["--scope", "worktree", "status", "--json"]).data();
    assert_eq!(status["events"][0]["kind"], "store.probed", "the acknowledged write is in the copy's own store");

    sandbox.git(&sandbox.path(""), ["clone", "-q", "--bare", "repo", "bare.git"]);
    let _ = sandbox.way(&sandbox.path("bare.git"), ["--global", "status"]).ok();
    sandbox.command("cp", &repo).args(["-r", "../bare.git", "../bare-copy.git"]).status().unwrap();
    let _ = sandbox.way(&sandbox.path("bare-copy.git"), ["--global", "status"]);
    let id = |dir: &str| std::fs::read_to_string(sandbox.path(dir).join("waypost/worktree-id")).unwrap();
    assert_ne!(id("bare.git"), id("bare-copy.git"));
}
