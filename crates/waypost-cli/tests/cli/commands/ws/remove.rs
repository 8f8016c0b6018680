//! Work that would be lost with a workspace although `git status` in it does not show it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::jobs::{Shop, path};

const ADD_WORKTREE: &str = "git worktree add --quiet -b feature ../feature && echo precious > ../feature/new";

fn feature(job: &Value) -> PathBuf {
    path(&job["workspace_dir"]).parent().unwrap().join("feature")
}

/// Removes all removable workspaces, and returns the reasons why others stay.
fn collect(shop: &Shop) -> String {
    let report = shop.way(["ws", "gc", "--keep", "0", "--json"]).data();
    let stays = report["verdicts"].as_array().unwrap().iter().filter(|verdict| verdict["goes"] == false);
    stays.map(|verdict| verdict["why"].to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn files_in_a_git_worktree_beside_the_workspace_keep_its_directory() {
    let shop = Shop::new();
    for strategy in ["clone", "worktree"] {
        let job = shop.job(&["--cleanup", "--strategy", strategy], ADD_WORKTREE);
        let precious = feature(&job).join("new");
        let place = feature(&job).display().to_string();
        assert!(precious.exists(), "{strategy}: --cleanup removed it: {job}");
        assert!(shop.show(&job)["warnings"].to_string().contains(&place), "{}", shop.show(&job));
        let why = collect(&shop);
        assert!(precious.exists() && why.contains(&place), "{strategy}: {why}");
        let refused = shop.way(["ws", "rm", job["id"].as_str().unwrap()]).fails(7);
        assert!(precious.exists() && refused.stderr.contains(&place), "{strategy}: {}", refused.stderr);
        let _ = shop.way(["ws", "rm", job["id"].as_str().unwrap(), "--discard"]).ok();
        assert!(!precious.exists());
    }
    // Git does not list the removed worktree.
    assert_eq!(shop.sandbox.git(&shop.repo, ["worktree", "list"]).lines().count(), 1);
}

#[test]
fn files_in_a_git_worktree_beside_the_workspace_are_saved_by_force() {
    let shop = Shop::new();
    let job = shop.job(&[], &format!("{ADD_WORKTREE}; echo changed > ../feature/file"));
    let removed = shop.way(["ws", "rm", job["id"].as_str().unwrap(), "--force", "--json"]).data();
    assert!(!feature(&job).exists());
    let restored = shop.way(["ws", "restore", removed[0]["saved_as"].as_str().unwrap(), "--json"]).data();
    let restored = path(&restored["workspace"]["path"]);
    let saved = shop.sandbox.git(restored, ["for-each-ref", "--format=%(refname)", "refs/beside"]);
    let content = |name: &str| shop.sandbox.git(restored, ["show", &format!("{}:{name}", saved.trim_end())]);
    assert_eq!((content("new"), content("file")), ("precious\n".to_owned(), "changed\n".to_owned()));
}

#[test]
fn a_git_worktree_beside_the_workspace_without_work_is_removed_with_it() {
    let shop = Shop::new();
    for strategy in ["clone", "worktree"] {
        // The last step leaves a file outside: all steps before it succeeded.
        let made = shop.sandbox.path(format!("made-{strategy}"));
        let script = format!(
            "git worktree add --quiet --detach ../feature && touch ../feature/ignored &&
            git sparse-checkout set --no-cone /.gitignore && test ! -e file && touch {}",
            made.display()
        );
        let job = shop.job(&["--cleanup", "--strategy", strategy], &script);
        assert!(made.exists(), "{strategy}: {}", shop.show(&job));
        assert!(!feature(&job).exists(), "{strategy}: {}", shop.show(&job));
    }
    assert_eq!(shop.sandbox.git(&shop.repo, ["worktree", "list"]).lines().count(), 1);
}

#[test]
fn other_repositories_and_files_beside_the_workspace_keep_its_directory_even_with_force() {
    let shop = Shop::new();
    let (repository, files) = ("another repository beside it", "files beside it");
    // A git worktree of a repository that is not the workspace's.
    let other = "git init --quiet ../other; git -C ../other commit --quiet --allow-empty -m One;
        git -C ../other worktree add --quiet ../feature";
    let lost = format!("{other}; echo gitdir: /nowhere > ../feature/.git");
    // Git knows the worktree, and not the copy of it.
    let copied = "git worktree add --quiet --detach ../made; cp -r ../made ../feature";
    let cases = [
        ("clone", repository, "deep/feature", "git clone --quiet . ../deep/feature"),
        ("worktree", files, "feature", "mkdir -p ../feature/deep; echo precious > ../feature/deep/new"),
        ("copy", files, "feature", "echo precious > ../feature"),
        ("clone", repository, "feature", other),
        ("clone", repository, "feature", &lost),
        ("clone", repository, "feature", copied),
    ];
    for (strategy, what, place, script) in cases {
        let job = shop.job(&["--cleanup", "--strategy", strategy], script);
        let (id, home) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]).parent().unwrap());
        let expected = &format!("{what}, {}", home.join(place).display());
        assert!(home.exists(), "{strategy}: {script}");
        let why = collect(&shop);
        assert!(home.exists() && why.contains(expected), "{strategy}: {script}: {why}");
        for force in [&["ws", "rm", id][..], &["ws", "rm", id, "--force"]] {
            let refused = shop.run(force).fails(7).stderr;
            assert!(refused.contains(expected), "{strategy}: {script}: {refused}");
        }
        assert!(shop.way(["ws", "rm", id]).fails(7).stderr.contains("move it out"), "{strategy}");
        let _ = shop.way(["ws", "rm", id, "--discard"]).ok();
        assert!(!home.exists());
    }
}

#[test]
fn a_workspace_with_work_beside_it_is_neither_evicted_nor_returned_to_the_pool() {
    let shop = Shop::new();
    let filled = format!("head -c 3000000 /dev/urandom > ignored; {ADD_WORKTREE}");
    let job = shop.job(&["--cleanup", "--config", "workspaces.pool=3"], &filled);
    assert!(feature(&job).join("new").exists(), "{job}");
    assert_eq!(shop.way(["ws", "pool", "--json"]).data().as_array().unwrap().len(), 0);
    let evicting = ["--config", "workspaces.total=2MB", "--config", "workspaces.policy=evict"];
    assert_eq!(shop.job(&evicting, "true")["status"], "failed");
    assert!(feature(&job).join("new").exists());
}

#[test]
fn commits_that_only_a_reflog_has_keep_the_workspace_and_are_saved_by_force() {
    let shop = Shop::new();
    let amend = "echo precious > file; git commit --quiet -am Work; git commit --quiet --amend -m Other;
        git push --quiet origin HEAD:refs/heads/done";
    let reset = "echo precious > file; git commit --quiet -am Work; git reset --quiet --hard HEAD~1";
    let left =
        "git checkout --quiet --detach; echo precious > file; git commit --quiet -am Work; git checkout --quiet -";
    let deleted = "git checkout --quiet -b b; echo precious > file; git commit --quiet -am Work;
        git checkout --quiet -; git branch --quiet -D b";
    let beside = &format!("git worktree add --quiet --detach ../feature; cd ../feature; {reset}");
    let cases = [
        ("clone", amend),
        ("clone", reset),
        ("clone", left),
        ("clone", deleted),
        ("clone", beside),
        ("worktree", reset),
        ("worktree", deleted),
    ];
    for (number, (strategy, script)) in cases.into_iter().enumerate() {
        // A commit made within the same second would have the same id, and be saved already.
        let script = &script.replace("-am Work", &format!("-am Work{number}"));
        let job = shop.job(&["--cleanup", "--strategy", strategy], script);
        let (id, workspace) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]));
        assert!(workspace.exists(), "{strategy}: {script}");
        let refused = shop.way(["ws", "rm", id]).fails(7).stderr;
        assert!(refused.contains("1 commit that only a reflog has"), "{strategy}: {script}: {refused}");
        let removed = shop.way(["ws", "rm", id, "--force", "--json"]).data();
        assert!(!workspace.exists());
        let (place, refs) = if strategy == "clone" {
            let restored = shop.way(["ws", "restore", removed[0]["saved_as"].as_str().unwrap(), "--json"]).data();
            (path(&restored["workspace"]["path"]).to_owned(), "refs/abandoned".to_owned())
        } else {
            (shop.repo.clone(), format!("refs/waypost/abandoned/{id}"))
        };
        let saved = shop.sandbox.git(&place, ["for-each-ref", "--format=%(refname)", &refs]);
        let content = shop.sandbox.git(&place, ["show", &format!("{}:file", saved.trim_end())]);
        assert_eq!(content, "precious\n", "{strategy}: {script}");
    }
}

#[test]
fn commits_that_a_snapshot_or_the_reflog_of_a_branch_has_keep_no_workspace() {
    let shop = Shop::new();
    let job = shop.job(&[], "echo precious > file; git commit --quiet -am Work; git reset --quiet --hard HEAD~1");
    let id = job["id"].as_str().unwrap();
    assert!(shop.way(["ws", "rm", id]).fails(7).stderr.contains("1 commit that only a reflog has"));
    let _ = shop.way(["ws", "snapshot", id]).ok();
    let _ = shop.way(["ws", "rm", id]).ok();
    assert!(!path(&job["workspace_dir"]).exists());
    // The branch stays in the repository, and its reflog with it.
    let amend = "echo precious > file; git commit --quiet -am First; git commit --quiet --amend -m Second;
        git push --quiet origin HEAD:refs/heads/done";
    let job = shop.job(&["--cleanup", "--strategy", "worktree"], amend);
    assert!(!path(&job["workspace_dir"]).exists(), "{}", shop.show(&job));
    let branch = shop.sandbox.git(&shop.repo, ["branch", "--format=%(refname:short)", "--contains", "origin/done"]);
    let first = format!("{}@{{1}}:file", branch.trim_end());
    assert_eq!(shop.sandbox.git(&shop.repo, ["show", &first]), "precious\n");
}

#[test]
fn reflog_entries_of_waypost_and_remotes_keep_no_workspace() {
    let shop = Shop::new();
    let first = shop.sandbox.git(&shop.repo, ["rev-parse", "HEAD"]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "--allow-empty", "-m", "Second"]);
    shop.sandbox.git(&shop.repo, ["push", "--quiet", "origin", "HEAD:main"]);
    shop.sandbox.git(&shop.repo, ["fetch", "--quiet", "origin"]);
    // The remote's branch moves forth and back while the job fetches, and the job pushes work and checks out commits.
    let script = format!(
        "theirs=$(git -C {remote} commit-tree -p {first} -m Theirs {first}^{{tree}});
        git -C {remote} update-ref refs/heads/main $theirs; git fetch --quiet origin;
        test $(git rev-parse origin/main) = $theirs || exit 1;
        git -C {remote} update-ref refs/heads/main {first}; git fetch --quiet origin;
        git checkout --quiet --detach; git checkout --quiet -; echo work > file; git commit --quiet -am Work;
        git push --quiet origin HEAD:refs/heads/work",
        remote = shop.remote.display(),
        first = first.trim_end()
    );
    let job = shop.job(&["--cleanup", "--config", "workspaces.pool=1"], &script);
    assert_eq!(job["status"], "completed", "{}", shop.show(&job));
    assert!(!path(&job["workspace_dir"]).exists(), "{}", shop.show(&job));
    // The workspace's start commit is not the job's work, even if no branch contains it any more.
    let job = shop.job(&["--cleanup"], &format!("git reset --quiet --hard {first}"));
    assert!(!path(&job["workspace_dir"]).exists(), "{}", shop.show(&job));
    // A workspace from the pool, and a restored one.
    let job = shop.job(&["--cleanup"], "true");
    assert!(!path(&job["workspace_dir"]).exists(), "{}", shop.show(&job));
    let id = shop.way(["ws", "new", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let saved = shop.way(["ws", "snapshot", &id, "--json"]).data()["id"].as_str().unwrap().to_owned();
    let _ = shop.way(["ws", "restore", &saved, "--into", &id]).ok();
    let _ = shop.way(["ws", "rm", &id]).ok();
}

/// Changes a file to content of the same length, and restores its modification time.
fn change_keeping_size_and_time(shop: &Shop, file: &Path) {
    let time = fs::metadata(file).unwrap().modified().unwrap();
    shop.sandbox.write(file, "two\n");
    fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

/// Makes a file older than any index that contains it. Tools compare the content of newer files.
fn make_old(file: &Path) {
    let old = SystemTime::UNIX_EPOCH + Duration::from_hours(400_000);
    fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
}

#[test]
fn a_change_that_restores_size_and_time_keeps_the_workspace_and_is_saved_by_force() {
    let shop = Shop::new();
    for strategy in ["clone", "worktree"] {
        let made = shop.way(["ws", "new", "--strategy", strategy, "--json"]).data();
        let (id, workspace) = (made["id"].as_str().unwrap(), path(&made["path"]));
        make_old(&workspace.join("file"));
        shop.sandbox.git(workspace, ["update-index", "--refresh"]);
        change_keeping_size_and_time(&shop, &workspace.join("file"));
        let trusting = ["-c", "core.trustctime=false", "-c", "core.checkStat=minimal", "status", "--porcelain"];
        assert_eq!(shop.sandbox.git(workspace, trusting), "", "git itself sees it");
        let refused = shop.way(["ws", "rm", id]).fails(7).stderr;
        assert!(refused.contains("1 file changed"), "{strategy}: {refused}");
        let removed = shop.way(["ws", "rm", id, "--force", "--json"]).data();
        let saved = removed[0]["saved_as"].as_str().unwrap();
        let content = if strategy == "clone" {
            let restored = shop.way(["ws", "restore", saved, "--json"]).data();
            fs::read_to_string(path(&restored["workspace"]["path"]).join("file")).unwrap()
        } else {
            shop.sandbox.git(&shop.repo, ["show", &format!("{saved}:file")])
        };
        assert_eq!(content, "two\n", "{strategy}");
    }
}

#[test]
fn a_change_that_restores_size_and_time_is_not_lost_under_mercurial() {
    let shop = Shop::new();
    let repo = shop.sandbox.hg_repo("hg");
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.hg(&repo, ["commit", "--addremove", "--message", "One"]);
    let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
    let made = shop.way(["ws", "new", "--strategy", "worktree", "--json"]).data();
    let (id, workspace) = (made["id"].as_str().unwrap(), path(&made["path"]));
    make_old(&workspace.join("file"));
    shop.sandbox.hg(workspace, ["status"]);
    change_keeping_size_and_time(&shop, &workspace.join("file"));
    assert_eq!(shop.sandbox.hg(workspace, ["status"]), "", "Mercurial itself sees it");
    assert!(shop.way(["ws", "rm", id]).fails(7).stderr.contains("1 file changed"));
    let removed = shop.way(["ws", "rm", id, "--force", "--json"]).data();
    let restored = shop.way(["ws", "restore", removed[0]["saved_as"].as_str().unwrap(), "--json"]).data();
    assert_eq!(fs::read_to_string(path(&restored["workspace"]["path"]).join("file")).unwrap(), "two\n");
}

#[test]
fn a_change_that_restores_size_and_time_is_not_lost_under_jj() {
    let shop = Shop::new();
    let repo = shop.sandbox.jj_repo("jj", true);
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.jj(&repo, ["commit", "-m", "One"]);
    let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
    let made = shop.way(["ws", "new", "--strategy", "jj", "--json"]).data();
    let (id, workspace) = (made["id"].as_str().unwrap(), path(&made["path"]));
    make_old(&workspace.join("file"));
    shop.sandbox.jj(workspace, ["status"]);
    change_keeping_size_and_time(&shop, &workspace.join("file"));
    let _ = shop.way(["ws", "rm", id]).ok();
    let commits = shop.sandbox.jj(&shop.repo, ["log", "--no-graph", "-r", "all()", "-T", "commit_id ++ '\n'"]);
    let contents = commits.lines().filter(|commit| !commit.bytes().all(|byte| byte == b'0'));
    let mut contents = contents.map(|commit| shop.sandbox.git(&shop.repo, ["show", &format!("{commit}:file")]));
    assert!(contents.any(|content| content == "two\n"), "{commits}");
}

#[test]
fn files_that_git_would_normalise_are_not_changes() {
    let shop = Shop::new();
    // Committed before the attributes: git would normalise these files now, and has not yet.
    for (name, content) in [("windows", "a\r\nb\r\n"), ("mixed", "a\r\nb\nc\n"), ("forced", "a\r\nb\nc\n")] {
        shop.sandbox.write(shop.repo.join(name), content);
    }
    shop.sandbox.git(&shop.repo, ["add", "."]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Line endings"]);
    shop.sandbox.write(shop.repo.join(".gitattributes"), "windows text\nmixed text=auto\nforced text eol=crlf\n");
    shop.sandbox.git(&shop.repo, ["add", ".gitattributes"]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Attributes"]);
    for strategy in ["clone", "worktree"] {
        let made = shop.way(["ws", "new", "--strategy", strategy, "--json"]).data();
        let (id, workspace) = (made["id"].as_str().unwrap(), path(&made["path"]));
        let index = shop.sandbox.git(workspace, ["rev-parse", "--path-format=absolute", "--git-path", "index"]);
        // Git compares the content of files that are as new as its index.
        let index = fs::File::options().write(true).open(index.trim_end()).unwrap();
        index.set_modified(index.metadata().unwrap().modified().unwrap() + Duration::from_hours(1)).unwrap();
        drop(index);
        let _ = shop.way(["ws", "rm", id]).ok();
        assert!(!workspace.exists());
    }
}

#[test]
fn the_notes_of_a_job_outlive_its_workspace_however_it_is_removed() {
    let shop = Shop::new();
    let script = "echo thought > $WAYPOST_CONTEXT_DIR/notes/thoughts";
    for force in ["--dry-run", "--force"] {
        let job = shop.job(&[], script);
        let id = job["id"].as_str().unwrap();
        let _ = shop.way(["ws", "rm", id, force]).ok();
        if force == "--dry-run" {
            let _ = shop.way(["ws", "rm", id]).ok();
        }
        assert!(!path(&job["workspace_dir"]).exists());
        let kept = shop.root().join("jobs").join(id).join("context/notes/thoughts");
        assert_eq!(fs::read_to_string(kept).unwrap(), "thought\n");
    }
}
