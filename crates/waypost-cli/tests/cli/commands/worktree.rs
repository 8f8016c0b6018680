//! `way worktree`: added, listed, and never removed with work in them.

use serde_json::Value;

use crate::support::mounts::bind;
use crate::support::worktrees::{list, named, three};
use crate::support::{sandbox, text};

#[test]
fn a_jj_workspace_is_removed_and_its_work_stays_in_the_repository() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", false);
    let _ = sandbox.way(&repo, ["worktree", "add", "second"]).ok();
    let second = sandbox.path("repo-second");
    std::os::unix::fs::symlink(&repo, second.join("link")).unwrap();
    sandbox.write(second.join("new"), "work\n");
    sandbox.write(second.join("large"), vec![b'x'; 3_000_000]);
    sandbox.git(&sandbox.path(""), ["init", "-q", "--bare", "remote.git"]);
    sandbox.jj(&repo, ["git", "remote", "add", "origin", text(&sandbox.path("remote.git"))]);
    let run = sandbox.way(&repo, ["worktree", "rm", "second"]).fails(7);
    assert!(run.stderr.contains("1 commit that no remote has"), "{}", run.stderr);
    let data = sandbox.way(&repo, ["worktree", "rm", "--force", "second", "--json"]).data();
    assert!(!second.exists() && repo.join(".jj").exists());
    assert_eq!(sandbox.jj(&repo, ["file", "show", "-r", data["saved"].as_str().unwrap(), "new"]), "work\n");
    assert_eq!(sandbox.jj(&repo, ["file", "show", "-r", data["saved"].as_str().unwrap(), "large"]).len(), 3_000_000);
    assert!(!sandbox.jj(&repo, ["workspace", "list"]).contains("second"));
    let list = sandbox.way(&repo, ["worktree", "list", "--json", "--worktree", "second"]).data();
    assert_eq!(list[0]["state"], "removed");
    let run = sandbox.way(&repo, ["worktree", "rm", "default"]).fails(7);
    assert!(run.stderr.contains("is the current one"), "{}", run.stderr);
}

#[test]
fn an_hg_share_is_removed_when_nothing_would_be_lost() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    let share = sandbox.path("repo-topic");
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    sandbox.write(share.join("new"), "work\n");
    let run = sandbox.way(&repo, ["worktree", "rm", "topic"]).fails(7);
    assert!(run.stderr.contains("1 file not under version control"), "{}", run.stderr);
    sandbox.write(share.join("file"), "changed\n");
    let run = sandbox.way(&repo, ["worktree", "rm", "topic"]).fails(7);
    assert!(run.stderr.contains("1 file changed, not committed"), "{}", run.stderr);
    let data = sandbox.way(&repo, ["worktree", "rm", "--force", "topic", "--json"]).data();
    assert!(!share.exists());
    assert_eq!(sandbox.hg(&repo, ["cat", "-r", data["saved"].as_str().unwrap(), "new", "file"]), "changed\nwork\n");

    let _ = sandbox.way(&repo, ["worktree", "add", "clean"]).ok();
    let _ = sandbox.way(&repo, ["worktree", "rm", "clean"]).ok();
    assert!(!sandbox.path("repo-clean").exists());
    let _ = sandbox.way(&repo, ["worktree", "add", "shelf"]).ok();
    sandbox.write(sandbox.path("repo-shelf/file"), "shelved\n");
    sandbox.hg(&sandbox.path("repo-shelf"), ["--config", "extensions.shelve=", "shelve"]);
    let run = sandbox.way(&repo, ["worktree", "rm", "--force", "repo-shelf"]).fails(7);
    assert!(run.stderr.contains("shelved changes"), "{}", run.stderr);
    sandbox.write(repo.join(".hg/hgrc"), "[paths]\ndefault = https://example.org/r\n");
    let _ = sandbox.way(&repo, ["worktree", "add", "unpushed"]).ok();
    let run = sandbox.way(&repo, ["worktree", "rm", "unpushed"]).fails(7);
    assert!(run.stderr.contains("1 commit that no remote has"), "{}", run.stderr);
}

#[test]
fn a_worktree_that_cannot_be_made_leaves_nothing() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("jj", false);
    let run = sandbox.way(&repo, ["worktree", "add", "topic", "--base", "nonsense()"]).fails(3);
    assert!(run.stderr.contains("no commit nonsense()"), "{}", run.stderr);
    assert!(!sandbox.path("jj-topic").exists() && !sandbox.jj(&repo, ["workspace", "list"]).contains("topic"));
    let empty = sandbox.dir("blank");
    sandbox.hg(&empty, ["init"]);
    let _ = sandbox.way(&empty, ["worktree", "add", "topic"]).fails(3);
    assert!(!sandbox.path("blank-topic").exists());
}

#[test]
fn a_worktree_is_not_placed_beside_a_submodule() {
    let sandbox = sandbox();
    let library = sandbox.git_repo("library");
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["-c", "protocol.file.allow=always", "submodule", "add", "-q", text(&library), "sub"]);
    let run = sandbox.way(&repo.join("sub"), ["worktree", "add", "topic"]).fails(2);
    assert!(run.stderr.contains("way worktree add BRANCH PATH"), "{}", run.stderr);
    let _ = sandbox.way(&repo.join("sub"), ["worktree", "add", "topic", "../../topic"]).ok();
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
fn a_worktree_with_a_mount_in_it_is_not_removed_and_the_mounted_files_stay() {
    let sandbox = sandbox();
    let precious = sandbox.dir("precious");
    sandbox.write(precious.join("canary"), "alive");
    let repo = sandbox.git_repo("repo");
    // Ignored files are removed with a worktree without asking.
    sandbox.write(repo.join(".gitignore"), "build/\n");
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-qm", "ignore"]);
    let added = sandbox.way(&repo, ["worktree", "add", "side", "--json"]).data();
    let side = std::path::PathBuf::from(added["path"].as_str().unwrap());
    let point = side.join("build/inner");
    let mount = bind(&precious, &point);
    for args in [&["worktree", "rm", "side"][..], &["worktree", "rm", "side", "--force"]] {
        let kept = sandbox.way(&repo, args).fails(7);
        assert!(kept.stderr.contains("a file system mounted in it"), "{}", kept.stderr);
        assert!(kept.stderr.contains(&format!("umount {}", point.display())), "{}", kept.stderr);
        assert_eq!(std::fs::read_to_string(precious.join("canary")).unwrap(), "alive");
        assert!(side.join(".gitignore").exists());
    }
    drop(mount);
    let _ = sandbox.way(&repo, ["worktree", "rm", "side"]).ok();
    assert!(!side.exists() && precious.join("canary").exists());
}

#[test]
fn programs_of_a_repository_inside_a_worktree_are_not_run() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let inner = sandbox.git_repo("ours/inner");
    let canary = sandbox.path("canary");
    sandbox.write(inner.join(".gitattributes"), "* filter=evil\n");
    sandbox.git(&inner, ["add", "."]);
    sandbox.git(&inner, ["commit", "-q", "-m", "attributes"]);
    sandbox.git(&ours, ["add", "inner"]);
    sandbox.git(&ours, ["commit", "-q", "-m", "a repository of its own"]);
    sandbox.git(&inner, ["config", "filter.evil.clean", &format!("touch {}; cat", text(&canary))]);
    sandbox.git(&inner, ["config", "core.fsmonitor", &format!("touch {}", text(&canary))]);
    // The same length, so that git must compare the content.
    sandbox.write(inner.join("file"), "CONTENT\n");
    for args in [&["worktree", "rm", "ours"][..], &["worktree", "rm", "--force", "ours"]] {
        let refused = sandbox.way(&repo, args).fails(7);
        assert!(refused.stderr.contains("another repository in it"), "{}", refused.stderr);
        assert!(!canary.exists(), "{args:?} ran a program of the inner repository");
    }
    let _ = sandbox.way(&ours, ["status"]).ok();
    let _ = sandbox.way(&ours, ["worktree", "list"]).ok();
    assert!(!canary.exists());
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
fn worktrees_recorded_in_another_store_are_listed_too() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let _ = sandbox.way(&ours, ["status"]).ok();
    let _ = sandbox.way(&repo, ["--db", "../scratch.db", "db", "probe"]).ok();
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
