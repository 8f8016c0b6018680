//! One store for all worktrees, each record naming its own.

use std::path::Path;

use waypost_testkit::unavailable;

use crate::support::worktrees::{id_of, list, named, three};
use crate::support::{sandbox, text};

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
fn g15_ids_survive_moving_everything_and_other_mounts_and_copies_get_their_own() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("here/repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let id = id_of(&sandbox, &repo);
    std::fs::rename(sandbox.path("here"), sandbox.path("there")).unwrap();
    let repo = sandbox.path("there/repo");
    // Everywhere else the user says once that the private directory is theirs.
    let adopt = |dir: &Path| {
        let _ = sandbox.way(dir, ["status"]).fails(7);
        let _ = sandbox.way(dir, ["init", "--adopt", "--quiet"]).ok();
    };
    adopt(&repo);
    assert_eq!(id_of(&sandbox, &repo), id);
    let _ = sandbox.way(&repo, ["status"]).ok();
    assert_eq!(id_of(&sandbox, &repo), id);

    let mount = sandbox.dir("mount");
    let mounted = sandbox.command("mount", &repo).args(["--bind", text(&repo), text(&mount)]).status().unwrap();
    if !mounted.success() {
        unavailable("this user may not mount");
    }
    adopt(&mount);
    let _ = sandbox.way(&mount, ["db", "probe", "--writes", "1"]).ok();
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let (there, here) = (id_of(&sandbox, &mount), id_of(&sandbox, &repo));
    sandbox.command("umount", &repo).arg(&mount).status().unwrap();
    assert_eq!((there, here), (id.clone(), id.clone()));

    let copy = sandbox.path("copy");
    sandbox.command("cp", &repo).args(["-r", text(&repo), text(&copy)]).status().unwrap();
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
    let _ = sandbox.way(&copy, ["status"]).fails(7);
    let adopted = sandbox.way(&copy, ["init", "--adopt"]);
    let run = sandbox.way(&copy, ["status"]);
    assert!(run.code == 0 && (adopted.stderr + &run.stderr).contains("this is a copy of"), "{run:?}");
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
fn a_copied_repository_does_not_take_the_originals_worktrees_for_its_own() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    sandbox.write(ours.join("new"), "x");
    let copy = sandbox.path("copy");
    sandbox.command("cp", &repo).args(["-r", text(&repo), text(&copy)]).status().unwrap();
    let _ = sandbox.way(&copy, ["init", "--adopt"]);
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
                let mut command = sandbox.command("sh", &copy);
                let script = "\"$0\" init --adopt; exec \"$0\" db probe --writes 1";
                command.args(["-c", script, env!("CARGO_BIN_EXE_way")]);
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
    let adopted = sandbox.way(&copy, ["--scope", "worktree", "init", "--adopt"]);
    let run = sandbox.way(&copy, ["--scope", "worktree", "db", "probe", "--writes", "1"]);
    assert!(run.code == 0 && (adopted.stderr + &run.stderr).contains("this is a copy"), "{run:?}");
    let status = sandbox.way(&copy, ["--scope", "worktree", "status", "--json"]).data();
    assert_eq!(status["events"][0]["kind"], "store.probed", "the acknowledged write is in the copy's own store");

    sandbox.git(&sandbox.path(""), ["clone", "-q", "--bare", "repo", "bare.git"]);
    let _ = sandbox.way(&sandbox.path("bare.git"), ["--global", "status"]).ok();
    sandbox.command("cp", &repo).args(["-r", "../bare.git", "../bare-copy.git"]).status().unwrap();
    let _ = sandbox.way(&sandbox.path("bare-copy.git"), ["--global", "init", "--adopt"]);
    let _ = sandbox.way(&sandbox.path("bare-copy.git"), ["--global", "status"]);
    let id = |dir: &str| std::fs::read_to_string(sandbox.path(dir).join("waypost/worktree-id")).unwrap();
    assert_ne!(id("bare.git"), id("bare-copy.git"));
}
