//! One store for all worktrees, each record naming its own.

use std::path::Path;

use serde_json::Value;
use waypost_testkit::{Sandbox, unavailable};

use crate::sandbox;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn list(sandbox: &Sandbox, dir: &Path) -> Vec<Value> {
    sandbox.way(dir, ["worktree", "list", "--json"]).data().as_array().unwrap().clone()
}

fn named<'a>(worktrees: &'a [Value], name: &str) -> &'a Value {
    worktrees.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {worktrees:?}"))
}

fn id_of(sandbox: &Sandbox, dir: &Path) -> String {
    sandbox.way(dir, ["where", "--json"]).data()["worktree"]["id"].as_str().unwrap().to_owned()
}

/// A repository with two linked worktrees, one made by `way` and one by git.
fn three(sandbox: &Sandbox) -> (std::path::PathBuf, std::path::PathBuf, std::path::PathBuf) {
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["worktree", "add", "ours", "../ours"]).ok();
    sandbox.git(&repo, ["worktree", "add", "-q", "-b", "theirs", "../theirs"]);
    (repo, sandbox.path("ours"), sandbox.path("theirs"))
}

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
fn g4_filtering_by_worktree_gives_its_part_and_an_unknown_one_is_an_error() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let id = id_of(&sandbox, &ours);
    for wanted in [id.as_str(), &id[..8], "ours", "../ours", text(&ours)] {
        let status = sandbox.way(&repo, ["status", "--json", "--worktree", wanted]).data();
        assert_eq!(status["worktrees"].as_array().unwrap().len(), 1, "{wanted}");
        assert!(status["events"].as_array().unwrap().iter().all(|event| event["worktree_id"] == *id));
        let _ = sandbox.way(&repo, ["worktree", "list", "--worktree", wanted]).ok();
    }
    for unknown in ["wt_000000000000", "unknown", "wt_", ""] {
        let run = sandbox.way(&repo, ["status", "--json", "--worktree", unknown]).fails(3);
        assert_eq!(run.error()["code"], "not_found");
    }
    let run = sandbox.way(&repo, ["db", "info", "--worktree", "ours"]).fails(2);
    assert!(run.stderr.contains("--worktree does not apply"), "{}", run.stderr);
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
fn g14_adding_twice_is_adding_once_and_from_inside_a_worktree_is_on_the_repository() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    let again = sandbox.way(&repo, ["worktree", "add", "ours", "../ours", "--json"]).data();
    assert_eq!((&again["created"], again["path"].as_str()), (&Value::Bool(false), Some(text(&ours))));
    let again = sandbox.way(&ours, ["worktree", "add", "theirs", "--json"]).data();
    assert_eq!(again["path"], text(&theirs));
    let nested = sandbox.way(&ours, ["worktree", "add", "nested", "--json"]).data();
    assert_eq!(nested["path"], text(&sandbox.path("repo-nested")));
    assert_eq!(list(&sandbox, &repo).len(), 4);
    assert!(repo.join(".git/worktrees/repo-nested").is_dir());
    let run = sandbox.way(&repo, ["worktree", "add", "ours", "../elsewhere"]).fails(4);
    assert!(run.stderr.contains("is checked out at"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["worktree", "add", "new", "../ours"]).fails(4);
}

#[test]
fn a_new_branch_starts_where_asked_and_a_remote_one_is_followed() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    sandbox.git(&origin, ["branch", "shared"]);
    sandbox.git(&sandbox.path(""), ["clone", "-q", "origin", "repo"]);
    let repo = sandbox.path("repo");
    sandbox.git(&repo, ["commit", "-q", "--allow-empty", "-m", "second"]);
    let _ = sandbox.way(&repo, ["worktree", "add", "shared"]).ok();
    assert_eq!(
        sandbox.git(&sandbox.path("repo-shared"), ["rev-parse", "--abbrev-ref", "@{upstream}"]),
        "origin/shared\n"
    );
    let _ = sandbox.way(&repo, ["worktree", "add", "old", "--base", "HEAD~1"]).ok();
    let commit = |dir: &str, of: &str| sandbox.git(&sandbox.path(dir), ["rev-parse", of]);
    assert_eq!(commit("repo-old", "HEAD"), commit("repo", "HEAD~1"));
    let _ = sandbox.way(&sandbox.path("repo-old"), ["worktree", "add", "from-old"]).ok();
    assert_eq!(commit("repo-from-old", "HEAD"), commit("repo", "HEAD~1"), "HEAD is that of the current worktree");
    let run = sandbox.way(&repo, ["worktree", "add", "none", "--base", "nonsense"]).fails(3);
    assert!(run.stderr.contains("no commit nonsense"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["worktree", "add", "origin/shared"]).fails(2);
    assert!(run.stderr.contains("way worktree add shared"), "{}", run.stderr);
    for bad in ["--upload-pack=x", "a..b", "a b", ""] {
        let _ = sandbox.way(&repo, ["worktree", "add", "--", bad]).fails(2);
    }
    assert!(!sandbox.git(&repo, ["branch", "--list"]).contains("none"));
}

#[test]
fn programs_of_the_repository_are_not_run() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join(".gitattributes"), "* filter=evil\n");
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "attributes"]);
    let make = |name: &str| {
        let script = sandbox.path(name);
        sandbox.write(&script, format!("#!/bin/sh\ntouch '{}'\ncat\n", text(&sandbox.path(format!("ran-{name}")))));
        sandbox.command("chmod", &repo).arg("+x").arg(&script).status().unwrap();
        text(&script).to_owned()
    };
    for hook in ["post-checkout", "reference-transaction", "pre-commit", "post-index-change"] {
        std::fs::create_dir_all(repo.join(".git/hooks")).unwrap();
        std::fs::copy(make(hook), repo.join(".git/hooks").join(hook)).unwrap();
    }
    for key in ["core.fsmonitor", "filter.evil.clean", "filter.evil.smudge"] {
        sandbox.git(&repo, ["config", key, &make(key)]);
    }
    sandbox.git(&repo, ["config", "filter.evil.required", "true"]);
    let ran = || -> Vec<String> {
        let names =
            std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("ran-")).collect()
    };
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    sandbox.write(sandbox.path("repo-topic/new"), "x");
    sandbox.write(sandbox.path("repo-topic/file"), "changed\n");
    let _ = sandbox.way(&repo, ["worktree", "rm", "topic"]).fails(7);
    let _ = sandbox.way(&repo, ["worktree", "rm", "--force", "topic"]).ok();
    assert_eq!(ran(), Vec::<String>::new());
    // Git itself does run them, so the test would notice.
    sandbox.git(&repo, ["worktree", "add", "-q", "../by-git"]);
    sandbox.write(sandbox.path("by-git/file"), "changed\n");
    sandbox.git(&sandbox.path("by-git"), ["commit", "-q", "-a", "-m", "x"]);
    let all = ["post-checkout", "reference-transaction", "pre-commit", "post-index-change"];
    let all = all.iter().chain(&["core.fsmonitor", "filter.evil.clean", "filter.evil.smudge"]);
    for name in all {
        assert!(ran().contains(&format!("ran-{name}")), "{name}: {:?}", ran());
    }
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
fn g16_removed_worktrees_leave_nothing_behind_and_only_ours_is_flagged() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    // Files that look like Waypost's and are not.
    let stranger = sandbox.dir("stranger/.waypost");
    std::os::unix::fs::symlink("/nowhere/state.db", stranger.join("state.db")).unwrap();
    sandbox.dir("theirs/.waypost");
    std::os::unix::fs::symlink("/nowhere/other.db", theirs.join(".waypost/other.db")).unwrap();
    let _ = sandbox.way(&repo, ["worktree", "rm", "ours"]).ok();
    assert!(!ours.exists());
    let problems = || {
        let doctor = sandbox.way(&repo, ["doctor", "--json"]).data();
        doctor.as_array().unwrap().iter().filter(|finding| finding["verdict"] != "ok").cloned().collect::<Vec<_>>()
    };
    assert_eq!(problems(), Vec::<Value>::new());
    assert!(stranger.join("state.db").is_symlink());

    // Doctor finds and repairs a dangling link of Waypost.
    let _ = sandbox.way(&repo, ["worktree", "add", "again", "../again"]).ok();
    let link = sandbox.path("again/.waypost/state.db");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/nowhere/state.db", &link).unwrap();
    assert_eq!(problems().len(), 1);
    let _ = sandbox.way(&repo, ["doctor", "--fix"]).ok();
    assert_eq!(problems(), Vec::<Value>::new());
    assert_eq!(std::fs::read_link(&link).unwrap(), repo.join(".git/waypost/state.db"));
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
fn removing_a_worktree_is_refused_if_work_would_be_lost() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let refused = |expected: &str| {
        let run = sandbox.way(&repo, ["worktree", "rm", "ours"]).fails(7);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
        assert!(ours.join("file").exists());
    };
    sandbox.write(ours.join("untracked"), "x");
    refused("1 file not under version control");
    sandbox.git(&ours, ["add", "untracked"]);
    refused("1 file changed, not committed");
    sandbox.git(&ours, ["commit", "-q", "-m", "work"]);
    // Without any remote the branch keeps the commit.
    sandbox.git(&sandbox.path(""), ["clone", "-q", "--bare", "repo", "remote.git"]);
    sandbox.git(&repo, ["remote", "add", "origin", "../remote.git"]);
    sandbox.git(&repo, ["fetch", "-q"]);
    sandbox.git(&ours, ["commit", "-q", "--allow-empty", "-m", "more"]);
    refused("1 commit that no remote has");
    sandbox.git(&ours, ["push", "-q", "origin", "ours"]);
    let _ = sandbox.way(&repo, ["worktree", "rm", "ours"]).ok();
    assert!(!ours.exists());
    assert!(sandbox.git(&repo, ["branch", "--list", "ours"]).contains("ours"), "the branch stays");

    let run = sandbox.way(&repo, ["worktree", "rm", "repo"]).fails(7);
    assert!(run.stderr.contains("is the current one"), "{}", run.stderr);
    let run = sandbox.way(&sandbox.path("theirs"), ["worktree", "rm", text(&repo)]).fails(7);
    assert!(run.stderr.contains("is the main worktree"), "{}", run.stderr);
}

#[test]
fn a_worktree_in_the_middle_of_a_rebase_is_not_removed() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    for number in 0..2 {
        sandbox.git(&ours, ["commit", "-q", "--allow-empty", "-m", &number.to_string()]);
    }
    let edit = [("GIT_SEQUENCE_EDITOR", "sed -i 's/^pick/edit/'")];
    let rebase = sandbox
        .command("git", &ours)
        .envs(edit)
        .args(["rebase", "-q", "-i", "--keep-empty", "HEAD~2"])
        .output()
        .unwrap();
    assert!(rebase.status.success(), "{rebase:?}");
    let run = sandbox.way(&repo, ["worktree", "rm", "ours"]).fails(7);
    assert!(run.stderr.contains("a rebase under way"), "{}", run.stderr);
    sandbox.git(&ours, ["rebase", "--abort"]);
    let _ = sandbox.way(&repo, ["worktree", "rm", "ours"]).ok();
}

#[test]
fn a_detached_worktree_with_commits_of_its_own_is_not_removed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["worktree", "add", "-q", "--detach", "../loose"]);
    let loose = sandbox.path("loose");
    sandbox.git(&loose, ["commit", "-q", "--allow-empty", "-m", "on no branch"]);
    let run = sandbox.way(&repo, ["worktree", "rm", "loose"]).fails(7);
    assert!(run.stderr.contains("1 commit that no branch has"), "{}", run.stderr);
}

#[test]
fn force_saves_everything_first() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    sandbox.write(ours.join("file"), "staged\n");
    sandbox.git(&ours, ["add", "file"]);
    sandbox.write(ours.join("file"), "changed\n");
    sandbox.write(ours.join("new file"), "new\n");
    for (name, flag) in [("assumed", "--assume-unchanged"), ("skipped", "--skip-worktree")] {
        sandbox.write(ours.join(name), "old\n");
        sandbox.git(&ours, ["add", name]);
        sandbox.git(&ours, ["update-index", flag, name]);
        sandbox.write(ours.join(name), "hidden\n");
    }
    let data = sandbox.way(&repo, ["worktree", "rm", "--force", "--json", "ours"]).data();
    let saved = data["saved"].as_str().unwrap();
    assert!(saved.starts_with("refs/waypost/snapshots/wt_"), "{saved}");
    assert!(!ours.exists());
    let show = |what: &str| sandbox.git(&repo, ["show", &format!("{saved}{what}")]);
    assert_eq!((show(":file"), show(":new file")), ("changed\n".into(), "new\n".into()));
    assert_eq!((show(":assumed"), show(":skipped")), ("hidden\n".into(), "hidden\n".into()));
    assert_eq!(show("^2:file"), "staged\n", "the staged version is saved separately");
    assert_eq!(sandbox.git(&repo, ["rev-parse", &format!("{saved}^")]), sandbox.git(&repo, ["rev-parse", "ours"]));
    assert_eq!(sandbox.git(&repo, ["status", "--porcelain"]), "");
    assert!(!sandbox.git(&repo, ["fsck", "--connectivity-only"]).contains("missing"));
    // The hint in the answer restores it.
    sandbox.git(&repo, ["worktree", "add", "-q", text(&ours), saved]);
    assert_eq!(std::fs::read_to_string(ours.join("new file")).unwrap(), "new\n");
}

#[test]
fn changes_hidden_from_git_status_are_found() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    for (tree, name, flag) in [(&ours, "ours", "--assume-unchanged"), (&theirs, "theirs", "--skip-worktree")] {
        sandbox.git(tree, ["update-index", flag, "file"]);
        sandbox.write(tree.join("file"), "local\n");
        assert_eq!(sandbox.git(tree, ["status", "--porcelain"]), "", "git does not see it");
        let run = sandbox.way(&repo, ["worktree", "rm", name]).fails(7);
        assert!(run.stderr.contains("1 file changed, not committed"), "{}", run.stderr);
    }
}

#[test]
fn a_worktree_with_another_repository_in_it_is_never_removed() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let refused = |expected: &str| {
        for args in [vec!["worktree", "rm", "ours"], vec!["worktree", "rm", "--force", "ours"]] {
            let run = sandbox.way(&repo, &args).fails(7);
            assert!(run.stderr.contains(expected), "{}", run.stderr);
        }
        assert!(ours.join("file").exists());
    };
    // A worktree of the same repository, ignored.
    sandbox.write(repo.join(".git/info/exclude"), "/.waypost/state.db\n/nested/\n/clone/\n");
    let _ = sandbox.way(&ours, ["worktree", "add", "inner", "nested/inner"]).ok();
    refused("another repository in it");
    let _ = sandbox.way(&repo, ["worktree", "rm", "inner"]).ok();
    // A clone with commits of its own, ignored.
    sandbox.git_repo("ours/clone");
    refused("ours/clone");
    sandbox.command("rm", &repo).args(["-rf", text(&ours.join("clone"))]).status().unwrap();
    // A submodule, and its git directory after it was removed.
    let library = sandbox.git_repo("library");
    sandbox.git(&ours, ["-c", "protocol.file.allow=always", "submodule", "add", "-q", text(&library), "sub"]);
    sandbox.git(&ours, ["commit", "-q", "-m", "submodule"]);
    refused("submodules");
    let _ = sandbox.git(&ours, ["submodule", "deinit", "-q", "--all", "--force"]);
    refused("submodules, whose commits are stored in it");
}

#[test]
fn a_locked_worktree_is_not_removed_and_nothing_is_saved_of_it() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    sandbox.write(ours.join("new"), "x");
    sandbox.git(&repo, ["worktree", "lock", text(&ours)]);
    let run = sandbox.way(&repo, ["worktree", "rm", "--force", "ours"]).fails(7);
    assert!(run.stderr.contains("git worktree unlock"), "{}", run.stderr);
    assert!(ours.join(".waypost/state.db").is_symlink());
    assert_eq!(sandbox.git(&repo, ["for-each-ref", "refs/waypost"]), "");
}

#[test]
fn ignored_files_are_named_when_they_go() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    sandbox.write(repo.join(".git/info/exclude"), "/.waypost/state.db\n.env\n");
    sandbox.write(ours.join(".env"), "secret");
    let run = sandbox.way(&repo, ["worktree", "rm", "ours"]).ok();
    assert!(run.stdout.contains("Deleted its ignored files: .env\n"), "{}", run.stdout);
}

#[test]
fn a_worktree_deleted_by_hand_is_forgotten_by_rm_and_can_be_made_again() {
    let sandbox = sandbox();
    let (repo, ours, theirs) = three(&sandbox);
    for (tree, name) in [(&ours, "ours"), (&theirs, "theirs")] {
        sandbox.command("rm", &repo).arg("-rf").arg(tree).status().unwrap();
        let doctor = sandbox.way(&repo, ["doctor"]);
        assert!(doctor.stdout.contains(&format!("way worktree rm {name}")), "{doctor:?}");
        let run = sandbox.way(&repo, ["worktree", "add", name]).fails(4);
        assert!(run.stderr.contains(&format!("way worktree rm {name}")), "{}", run.stderr);
        let _ = sandbox.way(&repo, ["worktree", "rm", name]).ok();
        assert!(!repo.join(".git/worktrees").join(name).exists());
        let _ = sandbox.way(&repo, ["worktree", "add", name, text(tree)]).ok();
        // Of two records with the same path, the existing worktree is meant.
        let _ = sandbox.way(&repo, ["worktree", "rm", text(tree)]).ok();
        assert!(!tree.exists());
    }
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

#[test]
fn worktrees_recorded_in_another_store_are_listed_too() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let _ = sandbox.way(&ours, ["status"]).ok();
    let list = sandbox.way(&repo, ["--db", "../scratch.db", "worktree", "list", "--json"]).data();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 3);
    assert_eq!(named(list, "ours")["state"], "new");
    let _ = sandbox.way(&repo, ["--db", "../scratch.db", "status", "--worktree", "ours"]).fails(3);
    let _ = sandbox.way(&repo, ["--db", "../scratch.db", "worktree", "rm", "ours"]).ok();
    assert!(!ours.exists());
}

#[test]
fn a_bare_repository_and_a_rebase_do_not_hide_which_worktree_has_a_branch() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    sandbox.git(&sandbox.path(""), ["clone", "-q", "--bare", text(&origin), "bare.git"]);
    let bare = sandbox.path("bare.git");
    let _ = sandbox.way(&bare, ["worktree", "add", "main"]).ok();
    let main = sandbox.path("bare-main");
    let status = sandbox.way(&bare, ["status", "--json", "--worktree", "main"]).data();
    assert_eq!(status["worktrees"][0]["path"], text(&main));
    sandbox.git(&main, ["commit", "-q", "--allow-empty", "-m", "second"]);
    let rebase = sandbox
        .command("git", &main)
        .env("GIT_SEQUENCE_EDITOR", "sed -i 's/^pick/edit/'")
        .args(["rebase", "-q", "-i", "--keep-empty", "HEAD~1"])
        .output()
        .unwrap();
    assert!(rebase.status.success(), "{rebase:?}");
    let again = sandbox.way(&bare, ["worktree", "add", "main", "--json"]).data();
    assert_eq!(again["created"], false);
    // `safe.bareRepository` does not stop Waypost: it names the repository explicitly.
    sandbox.write("home/.gitconfig", "[safe]\n\tbareRepository = explicit\n");
    let _ = sandbox.way(&bare, ["worktree", "add", "careful"]).ok();
}

#[test]
fn twenty_worktrees_at_once_all_succeed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let children: Vec<_> = (0..20)
        .map(|number| {
            let mut command = sandbox.way_command(&repo);
            command.args(["worktree", "add", &format!("job/{number}"), "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let all = list(&sandbox, &repo);
    assert_eq!(all.len(), 21);
    assert!(all.iter().all(|one| one["id"].is_string()));
}
