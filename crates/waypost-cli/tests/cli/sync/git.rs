//! Ledgers under git.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, strace};

use super::*;
use crate::support::sandbox;

/// Leaves something staged, unstaged, untracked, stashed and tagged.
fn make_dirty(sandbox: &Sandbox, repo: &Path) {
    sandbox.write(repo.join("file"), "stashed\n");
    sandbox.git(repo, ["stash", "push", "-q"]);
    sandbox.write(repo.join("other"), "one, staged\ntwo\nthree\n");
    sandbox.git(repo, ["add", "other"]);
    sandbox.write(repo.join("other"), "one, staged\ntwo\nthree, not staged\n");
    sandbox.write(repo.join("file"), "not staged\n");
    sandbox.write(repo.join("new"), "staged anew\n");
    sandbox.git(repo, ["add", "new"]);
    sandbox.write(repo.join("untracked"), "untracked\n");
    sandbox.git(repo, ["branch", "topic"]);
    sandbox.git(repo, ["tag", "v1"]);
}

/// The user's state that sync must not touch.
fn user_state(sandbox: &Sandbox, repo: &Path) -> String {
    let mut all = String::new();
    for args in [
        &["status", "--porcelain=v2", "--untracked-files=all"][..],
        &["ls-files", "--stage", "--debug"],
        &["ls-tree", "-r", "HEAD"],
        &["for-each-ref"],
        &["stash", "list"],
        &["symbolic-ref", "HEAD"],
        &["config", "--list", "--local"],
        &["diff", "--", ".", ":(exclude).waypost"],
        &["diff", "--cached", "--", ".", ":(exclude).waypost"],
    ] {
        let said = sandbox.git(repo, args.iter().copied());
        // Git refreshes the index and records what it saw.
        let is_known = |line: &&str| !line.contains(LEDGER) && !line.starts_with("  ");
        // A killed sync leaves a ref to the fetched commit, and the next sync deletes it.
        let expected = ["refs/heads/main", "refs/remotes/", "refs/waypost/sync/"];
        let is_expected = |line: &&str| expected.iter().any(|name| line.contains(name));
        for line in said.lines().filter(is_known).filter(|line| args[0] != "for-each-ref" || !is_expected(line)) {
            writeln!(all, "{line}").unwrap();
        }
    }
    for file in ["file", "other", "new", "untracked", ".git/FETCH_HEAD", ".git/ORIG_HEAD"] {
        writeln!(all, "{file}: {:?}", std::fs::read_to_string(repo.join(file)).ok()).unwrap();
    }
    all
}

/// Checks that git finds the ledger neither changed nor staged.
#[track_caller]
fn check_ledger_is_clean(sandbox: &Sandbox, repo: &Path) {
    assert_eq!(sandbox.git(repo, ["status", "--porcelain", "--", LEDGER]), "");
}

#[test]
fn b19_git_clones_converge_and_the_users_other_work_is_unchanged() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    for repo in [one, two] {
        make_dirty(&sandbox, repo);
    }
    converge(&sandbox, &repos, user_state);
    for repo in [one, two] {
        check_ledger_is_clean(&sandbox, repo);
        assert_eq!(sync(&sandbox, repo)["upstream"], "origin/main");
    }
    assert_eq!(sandbox.git(one, ["rev-parse", "HEAD"]), sandbox.git(two, ["rev-parse", "HEAD"]));
    assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"]);
}

#[test]
fn commits_that_the_user_did_not_push_stay_unpushed() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    commit(&sandbox, one, "secret", "not yet\n");
    add(&sandbox, one, "From one");
    let own = sandbox.git(one, ["rev-parse", "HEAD"]);
    let done = sync(&sandbox, one);
    assert!(done["committed"].is_string() && done["pushed"].is_string() && done["committed"] != done["pushed"]);
    assert_eq!(sandbox.git(one, ["rev-parse", "HEAD^"]), own);
    check_ledger_is_clean(&sandbox, one);
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
    assert!(!two.join("secret").exists());
    assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"]);
    // Neither clone has changes, so neither makes a commit.
    for repo in [one, two] {
        let again = sync(&sandbox, repo);
        assert!(again["committed"].is_null() && again["pushed"].is_null(), "{again}");
    }
    // The user's own merge does not change the ledger.
    sandbox.git(one, ["pull", "-q", "--no-rebase", "--no-edit"]);
    sandbox.git(one, ["push", "-q"]);
    assert_eq!(sync(&sandbox, one)["pushed"], Value::Null);
    sandbox.git(two, ["pull", "-q", "--no-rebase"]);
    assert_eq!(ledger(one), ledger(two));
}

#[test]
fn a_branch_that_is_behind_gets_the_ledger_and_no_other_file() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    commit(&sandbox, two, "other", "changed by two\n");
    sandbox.git(two, ["push", "-q"]);
    make_dirty(&sandbox, one);
    add(&sandbox, one, "From one");
    let before = user_state(&sandbox, one);
    sync(&sandbox, one);
    assert_eq!(user_state(&sandbox, one), before);
    check_ledger_is_clean(&sandbox, one);
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
    assert!(ledger(one).contains("From one") && ledger(one).contains("From two"));
    assert_eq!(std::fs::read_to_string(two.join("other")).unwrap(), "changed by two\n");
    assert_eq!(sandbox.git(two, ["log", "--format=%s", "-n1"]), "Sync the issues\n");
}

#[test]
fn a_change_undone_after_a_sync_stays_undone_although_the_branches_never_met() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let id = add(&sandbox, two, "Old title");
    sync(&sandbox, two);
    sync(&sandbox, one);
    commit(&sandbox, one, "secret", "not yet\n");
    commit(&sandbox, two, "other", "changed by two\n");
    sandbox.git(two, ["push", "-q"]);
    let _ = sandbox.way(two, ["update", &id, "--title", "New title"]).ok();
    sync(&sandbox, two);
    sync(&sandbox, one);
    assert!(ledger(one).contains("New title"));
    // The branch alone contains no change of the title.
    let _ = sandbox.way(one, ["update", &id, "--title", "Old title"]).ok();
    sync(&sandbox, one);
    assert!(title(one, &id) == "Old title", "{}", ledger(one));
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
}

#[test]
fn without_a_remote_or_a_branch_there_the_ledger_is_committed_here() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("alone");
    add(&sandbox, &repo, "Here");
    let run = sandbox.way(&repo, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("nothing to push to"), "{run:?}");
    check_ledger_is_clean(&sandbox, &repo);
    let one = clones(&sandbox, &["one"]).remove(0);
    sandbox.git(&one, ["switch", "-q", "-c", "topic"]);
    add(&sandbox, &one, "On a topic");
    let run = sandbox.way(&one, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("origin/topic is not there yet"), "{run:?}");
    check_ledger_is_clean(&sandbox, &one);
    sandbox.git(&one, ["push", "-q", "origin", "topic"]);
    add(&sandbox, &one, "And on");
    assert!(sync(&sandbox, &one)["pushed"].is_string());
}

#[test]
fn sync_does_not_make_the_first_commit_of_a_repository() {
    let sandbox = sandbox();
    let blank = sandbox.dir("blank");
    sandbox.git(&blank, ["init", "-q", "-b", "main"]);
    let run = sandbox.way(&blank, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("there is no ledger yet"), "{run:?}");
    sandbox.git(&sandbox.path(""), ["init", "-q", "--bare", "-b", "main", "empty.git"]);
    sandbox.git(&sandbox.path(""), ["clone", "-q", "empty.git", "first"]);
    for repo in [blank, sandbox.path("first")] {
        add(&sandbox, &repo, "Too early");
        let run = sandbox.way(&repo, ["sync"]).fails(7);
        assert!(run.stderr.contains("there is no commit here yet"), "{}", run.stderr);
        assert!(run.stderr.contains("hint: make the first commit"), "{}", run.stderr);
        assert_eq!(sandbox.git(&repo, ["for-each-ref"]), "");
        assert_eq!(sandbox.git(&repo, ["ls-files"]), "", "nothing is staged");
        sandbox.git(&repo, ["commit", "-q", "--allow-empty", "-m", "mine"]);
        let run = sandbox.way(&repo, ["sync"]);
        assert!(run.code == 0 && run.stdout.contains("Committed the ledger as "), "{run:?}");
        assert_eq!(sandbox.git(&repo, ["log", "--format=%s"]), "Sync the issues\nmine\n");
    }
}

/// Returns how many commits of the branch the remote lacks, and how many of the remote's the branch lacks.
fn ahead_and_behind(sandbox: &Sandbox, repo: &Path) -> (usize, usize) {
    sandbox.git(repo, ["fetch", "-q"]);
    let said = sandbox.git(repo, ["rev-list", "--left-right", "--count", "HEAD...@{upstream}"]);
    let mut counts = said.split_whitespace().map(|count| count.parse().unwrap());
    (counts.next().unwrap(), counts.next().unwrap())
}

#[test]
fn a_sync_with_unpushed_commits_does_not_make_the_branch_diverge() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let tip = || sandbox.git(&sandbox.path("remote.git"), ["rev-parse", "main"]).trim().to_owned();
    let head = || sandbox.git(one, ["rev-parse", "HEAD"]).trim().to_owned();
    commit(&sandbox, one, "secret", "not yet\n");
    make_dirty(&sandbox, one);
    add(&sandbox, one, "From one");
    let (own, before) = (head(), user_state(&sandbox, one));
    let run = sandbox.way(one, ["sync"]);
    // The answer names the commit of the branch and the one of the remote.
    let said = format!("Committed the ledger as {}, and pushed it as {}\n", &head()[..12], &tip()[..12]);
    assert!(run.stdout.ends_with(&said), "{said:?}: {run:?}");
    assert!(run.stderr.contains("your own unpushed commits are not pushed with the ledger"), "{}", run.stderr);
    assert_eq!(user_state(&sandbox, one), before);
    assert_eq!(ahead_and_behind(&sandbox, one), (2, 0));
    assert_eq!(sandbox.git(one, ["rev-parse", "HEAD^"]).trim(), own);
    check_ledger_is_clean(&sandbox, one);
    assert!(!sandbox.git(&sandbox.path("remote.git"), ["ls-tree", "-r", "--name-only", "main"]).contains("secret"));

    // Another clone's commits of the ledger do not make it diverge either.
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    sync(&sandbox, one);
    assert_eq!(ahead_and_behind(&sandbox, one).1, 0);
    assert_eq!(ledger(one), ledger(two));
    let again = sync(&sandbox, one);
    assert!(again["committed"].is_null() && again["pushed"].is_null(), "{again}");

    // The user's push needs no merge, and publishes the commits.
    sandbox.git(one, ["push", "-q"]);
    sandbox.git(two, ["pull", "-q", "--ff-only"]);
    assert!(two.join("secret").exists());
    assert_eq!(ledger(one), ledger(two));
    sandbox.git(one, ["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn unpushed_commits_are_pushed_with_the_ledger_if_the_user_allows_it() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    commit(&sandbox, one, "ready", "to be pushed\n");
    add(&sandbox, one, "From one");
    let done = sandbox.way(one, ["sync", "--push-commits", "--json"]).data();
    assert!(done["pushed"].is_string() && done["pushed"] == done["committed"], "{done}");
    assert_eq!(ahead_and_behind(&sandbox, one), (0, 0));
    assert_eq!(sandbox.git(one, ["rev-list", "--merges", "HEAD"]), "", "no merge is needed");
    sandbox.git(two, ["pull", "-q", "--ff-only"]);
    assert!(two.join("ready").exists() && ledger(one) == ledger(two));

    let _ = sandbox.way(two, ["config", "set", "sync.push", "branch"]).ok();
    commit(&sandbox, two, "more", "to be pushed\n");
    add(&sandbox, one, "Meanwhile");
    sync(&sandbox, one);
    let done = sync(&sandbox, two);
    assert!(done["pushed"].is_string() && done["pushed"] == done["committed"], "{done}");
    assert_eq!(ahead_and_behind(&sandbox, two), (0, 0));
    let _ = sandbox.way(two, ["config", "set", "sync.push", "off"]).ok();
    add(&sandbox, two, "Not yet");
    assert_eq!(sync(&sandbox, two)["pushed"], Value::Null);
    assert_eq!(ahead_and_behind(&sandbox, two), (1, 0));
    let _ = sandbox.way(two, ["sync", "--push-commits", "--no-push"]).fails(2);
}

#[test]
fn no_push_leaves_the_remote_alone_and_later_syncs_catch_up() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let tip = || sandbox.git(&sandbox.path("remote.git"), ["rev-parse", "main"]);
    let before = tip();
    for repo in &repos {
        add(&sandbox, repo, "Something");
        let run = sandbox.way(repo, ["sync", "--no-push"]);
        assert!(run.code == 0 && run.stderr.contains("nothing was pushed"), "{run:?}");
        check_ledger_is_clean(&sandbox, repo);
    }
    assert_eq!(tip(), before);
    for repo in [&repos[0], &repos[1], &repos[0]] {
        sync(&sandbox, repo);
    }
    assert_eq!(ledger(&repos[0]), ledger(&repos[1]));
    assert_eq!(sandbox.git(&repos[0], ["rev-parse", "HEAD"]), sandbox.git(&repos[1], ["rev-parse", "HEAD"]));
}

#[test]
fn a_dry_run_lists_its_commands_and_changes_nothing() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    add(&sandbox, &one, "Something");
    let files = || {
        let found =
            sandbox.command("find", &sandbox.path("")).args([".", "-type", "f", "-printf", "%p %s %T@\n"]).output();
        let mut lines: Vec<String> =
            String::from_utf8(found.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let before = files();
    let run = sandbox.way(&one, ["sync", "--dry-run"]).ok();
    assert_eq!(files(), before);
    for word in [" fetch ", " hash-object -w ", " commit-tree ", " push ", " update-index ", " update-ref "] {
        assert!(run.stdout.contains(word), "{word} in {}", run.stdout);
    }
    for line in run.stdout.lines().filter(|line| line.contains(" read-tree ") || line.contains(" write-tree ")) {
        assert!(line.starts_with("GIT_INDEX_FILE="), "{line}");
    }
    let data = sandbox.way(&one, ["sync", "--dry-run", "--json"]).data();
    assert_eq!(data["commands"].as_array().unwrap().len(), run.stdout.lines().count());
    assert_eq!(files(), before);
    sandbox.git(&one, ["config", "branch.main.remote", "https://me:secret@localhost:1/x"]);
    let run = sandbox.way(&one, ["sync", "--dry-run", "--verbose"]);
    assert!(run.code == 0 && run.stdout.contains("https://localhost:1/x"), "{run:?}");
    assert!(!format!("{run:?}").contains("secret"), "{run:?}");
}

#[test]
fn a_sync_that_the_user_has_to_decide_is_refused_and_changes_nothing() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    let id = add(&sandbox, &one, "Something");
    sync(&sandbox, &one);
    let tip = || sandbox.git(&sandbox.path("remote.git"), ["rev-parse", "main"]);
    let check = |reason: &str| {
        // The checkouts below take the change before back, and this one says so.
        assert_eq!(sandbox.way(&one, ["update", &id, "--title", reason]).code, 0);
        let (refs, remote, before) = (sandbox.git(&one, ["show-ref"]), tip(), ledger(&one));
        let run = sandbox.way(&one, ["sync"]).fails(7);
        assert!(run.stderr.contains(reason), "{reason}: {}", run.stderr);
        assert!(run.stderr.contains("hint: "), "{}", run.stderr);
        assert_eq!((sandbox.git(&one, ["show-ref"]), tip(), ledger(&one)), (refs, remote, before), "{reason}");
    };
    let git = |args: &[&str]| drop(sandbox.command("git", &one).args(args).output().unwrap());

    git(&["checkout", "-q", "--detach"]);
    check("no branch is checked out");
    git(&["checkout", "-q", "main"]);

    git(&["checkout", "-q", "HEAD", "--", LEDGER]);
    git(&["checkout", "-q", "-b", "side", "HEAD~1"]);
    commit(&sandbox, &one, "other", "theirs\n");
    git(&["checkout", "-q", "main"]);
    commit(&sandbox, &one, "other", "ours\n");
    commit(&sandbox, &one, "other", "ours, and more\n");
    for (operation, end, reason) in [
        (&["merge", "side"][..], &["merge", "--abort"][..], "a merge is under way"),
        (&["rebase", "--merge", "side"], &["rebase", "--abort"], "a rebase is under way"),
        (&["rebase", "--apply", "side"], &["rebase", "--abort"], "a rebase is under way"),
        (&["cherry-pick", "side"], &["cherry-pick", "--abort"], "a cherry-pick is under way"),
        (&["revert", "--no-edit", "HEAD~1"], &["revert", "--abort"], "a revert is under way"),
    ] {
        let stopped = sandbox.command("git", &one).args(operation).output().unwrap();
        assert!(!stopped.status.success(), "{operation:?} stops");
        assert!(sandbox.git(&one, ["status", "--short"]).contains("UU other"), "{operation:?} stops at a conflict");
        check(reason);
        git(&["checkout", "-q", "HEAD", "--", LEDGER]);
        sandbox.git(&one, end.iter());
    }
    git(&["bisect", "start", "HEAD", "HEAD~2"]);
    check("a bisection is under way");
    git(&["checkout", "-q", "HEAD", "--", LEDGER]);
    sandbox.git(&one, ["bisect", "reset"]);

    assert_eq!(sandbox.way(&one, ["update", &id, "--title", "To be staged"]).code, 0);
    git(&["add", LEDGER]);
    check("has staged changes");
    git(&["reset", "-q"]);
    git(&["rm", "-q", "--cached", LEDGER]);
    check("has staged changes");
    git(&["reset", "-q"]);

    for (remote, merge) in
        [("--upload-pack=touch x", "refs/heads/main"), ("origin", "main"), ("origin", "refs/heads/*")]
    {
        git(&["config", "branch.main.remote", remote]);
        git(&["config", "branch.main.merge", merge]);
        check("the name of the remote or the branch is not valid");
    }
    git(&["config", "branch.main.remote", "origin"]);
    git(&["config", "branch.main.merge", "refs/heads/main"]);

    sandbox.program("remote.git/hooks/pre-receive", "#!/bin/sh\necho this branch is protected\nexit 1\n");
    check("the remote rejects the ledger");
    std::fs::remove_file(sandbox.path("remote.git/hooks/pre-receive")).unwrap();
    let done = sync(&sandbox, &one);
    assert!(done["pushed"].is_string());
}

#[test]
fn a_branch_without_commits_does_not_replace_the_remotes() {
    let sandbox = sandbox();
    clones(&sandbox, &[]);
    let late = sandbox.dir("late");
    sandbox.git(&late, ["init", "-q", "-b", "main"]);
    sandbox.git(&late, ["remote", "add", "origin", "../remote.git"]);
    add(&sandbox, &late, "Too early");
    let run = sandbox.way(&late, ["sync"]).fails(7);
    assert!(run.stderr.contains("there is no commit here yet"), "{}", run.stderr);
}

#[test]
fn a_staged_ledger_is_synced_and_an_ignored_one_is_refused() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    add(&sandbox, &one, "Something");
    sandbox.git(&one, ["add", "-N", LEDGER]);
    assert!(sync(&sandbox, &one)["pushed"].is_string());
    check_ledger_is_clean(&sandbox, &one);
    add(&sandbox, &one, "More");
    sandbox.git(&one, ["add", LEDGER]);
    assert!(sync(&sandbox, &one)["pushed"].is_string());
    check_ledger_is_clean(&sandbox, &one);

    let two = sandbox.git_repo("two");
    add(&sandbox, &two, "Private");
    sandbox.write(two.join(".git/info/exclude"), "/.waypost/\n");
    let run = sandbox.way(&two, ["sync"]).fails(7);
    assert!(run.stderr.contains("is ignored by git here"), "{}", run.stderr);
    assert_eq!(sandbox.git(&two, ["ls-files"]), "file\n");
}

#[test]
fn a_remote_that_cannot_be_reached_changes_nothing() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    add(&sandbox, &one, "Something");
    let before = (user_state(&sandbox, &one), ledger(&one), sandbox.git(&one, ["show-ref"]));
    for url in
        ["/nowhere/at/all", "ssh://localhost:1/x", "https://localhost:1/x", "git://localhost:1/x", "-x", "ext::false"]
    {
        sandbox.git(&one, ["config", "remote.origin.url", url]);
        let run = sandbox.way(&one, ["sync"]).fails(8);
        assert!(run.stderr.contains("cannot fetch origin/main"), "{}", run.stderr);
        sandbox.git(&one, ["config", "remote.origin.url", text(&sandbox.path("remote.git"))]);
        assert_eq!((user_state(&sandbox, &one), ledger(&one), sandbox.git(&one, ["show-ref"])), before, "{url}");
    }
}

/// Returns whether a process with this text in its command line is running.
fn is_running(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let said = |path: PathBuf| std::fs::read(path.join("cmdline")).unwrap_or_default();
    processes.map(|entry| said(entry.path())).any(|said| String::from_utf8_lossy(&said).contains(word))
}

#[test]
fn a_remote_that_never_answers_times_out() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    add(&sandbox, &one, "Something");
    // The connection is accepted, and never read from.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let before = (user_state(&sandbox, &one), ledger(&one), sandbox.git(&one, ["show-ref"]));
    for scheme in ["git", "http"] {
        let url = format!("{scheme}://{silent}/x");
        sandbox.git(&one, ["config", "remote.origin.url", &url]);
        let run = sandbox.way(&one, ["sync", "--config", "sync.timeout=1s"]).fails(8);
        assert!(run.stderr.contains("cannot fetch origin/main: git fetch took longer than 1s"), "{}", run.stderr);
        assert!(run.stderr.contains("nothing was changed") && run.stderr.contains("sync.timeout"), "{}", run.stderr);
        sandbox.git(&one, ["config", "remote.origin.url", text(&sandbox.path("remote.git"))]);
        assert_eq!((user_state(&sandbox, &one), ledger(&one), sandbox.git(&one, ["show-ref"])), before, "{url}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_running(&url) {
            assert!(Instant::now() < deadline, "a process for {url} is still running");
            waypost_testkit::pause();
        }
    }
    let hook = sandbox.path("remote.git/hooks/pre-receive");
    sandbox.program(&hook, "#!/bin/sh\nexec tail -f /dev/null\n");
    let run = sandbox.way(&one, ["sync", "--config", "sync.timeout=1s"]).fails(8);
    assert!(run.stderr.contains("git push took longer than 1s"), "{}", run.stderr);
    std::fs::remove_file(hook).unwrap();
    assert!(sync(&sandbox, &one)["pushed"].is_string());
}

#[test]
fn a_branch_that_is_pushed_elsewhere_is_not_pushed_to_where_it_is_fetched_from() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    sandbox.git(one, ["clone", "-q", "--bare", "../remote.git", "../fork.git"]);
    sandbox.git(one, ["remote", "add", "fork", "../fork.git"]);
    sandbox.git(one, ["config", "remote.pushDefault", "fork"]);
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    let tips = || ["remote.git", "fork.git"].map(|name| sandbox.git(&sandbox.path(name), ["rev-parse", "main"]));
    let before = tips();
    for mine in ["", "secret"] {
        if !mine.is_empty() {
            commit(&sandbox, one, mine, "not yet\n");
        }
        add(&sandbox, one, "From one");
        let run = sandbox.way(one, ["sync"]);
        let note = "this branch follows origin/main but is pushed to fork, so nothing was pushed; use git push";
        assert!(run.code == 0 && run.stderr.contains(note), "{run:?}");
        assert_eq!(tips(), before);
        check_ledger_is_clean(&sandbox, one);
        assert!(ledger(one).contains("From two") && ledger(one).contains("From one"));
    }
    // The setting of the branch overrides the general one.
    sandbox.git(one, ["config", "branch.main.pushRemote", "origin"]);
    assert!(sync(&sandbox, one)["pushed"].is_string());
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
}

#[test]
fn every_worktree_syncs_the_ledger_of_the_main_worktree() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    sandbox.git(one, ["worktree", "add", "-q", "../tree"]);
    let tree = sandbox.path("tree");
    add(&sandbox, &tree, "From a worktree");
    let head = sandbox.git(&tree, ["rev-parse", "HEAD"]);
    assert!(sync(&sandbox, &tree)["pushed"].is_string());
    check_ledger_is_clean(&sandbox, one);
    assert_eq!(
        (sandbox.git(&tree, ["rev-parse", "HEAD"]), sandbox.git(&tree, ["status", "--short"])),
        (head, String::new())
    );
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
}

#[test]
fn branches_that_look_like_options_are_branches() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    for name in ["-d", "--help", "-"] {
        let full = format!("refs/heads/{name}");
        sandbox.git(&one, ["update-ref", &full, "refs/heads/main"]);
        sandbox.git(&one, ["push", "-q", "origin", &format!("{full}:{full}")]);
        sandbox.git(&one, ["symbolic-ref", "HEAD", &full]);
        sandbox.git(&one, ["reset", "-q"]);
        add(&sandbox, &one, &format!("On {name}"));
        assert!(sync(&sandbox, &one)["pushed"].is_string(), "{name}");
        let there = sandbox.git(&sandbox.path("remote.git"), ["rev-parse", &full]);
        assert_eq!(there, sandbox.git(&one, ["rev-parse", "HEAD"]));
    }
}

#[test]
fn clones_that_change_and_sync_and_die_at_random_become_equal() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x2545_f491_4f6c_dd1d, 0xd134_2543_de82_ef95] {
        let sandbox = sandbox();
        let repos = clones(&sandbox, &["one", "two", "three"]);
        // One clone is clean, one has changes, and one has changes and a commit.
        make_dirty(&sandbox, &repos[1]);
        make_dirty(&sandbox, &repos[2]);
        sandbox.git(&repos[2], ["commit", "-q", "-m", "mine"]);
        live(&sandbox, &repos, seed, (20, 150), user_state);
        for repo in &repos {
            check_ledger_is_clean(&sandbox, repo);
            sandbox.git(repo, ["fsck", "--strict", "--no-dangling"]);
            assert_eq!(sandbox.git(repo, ["for-each-ref", "refs/waypost/sync/"]), "", "seed {seed}");
        }
        assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"], "seed {seed}");
    }
}

#[test]
fn clones_that_sync_at_the_same_time_all_succeed() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two", "three"]);
    for round in 0..3 {
        // Two syncs at once in each clone: one waits for the other.
        let mut running = Vec::new();
        for repo in repos.iter().chain(&repos) {
            add(&sandbox, repo, &format!("In round {round}"));
            let mut command = sandbox.way_command(repo);
            running.push(command.arg("sync").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        }
        for child in running {
            let run = waypost_testkit::Run::of(&child.wait_with_output().unwrap());
            assert_eq!(run.code, 0, "{run:?}");
        }
    }
    for repo in &repos {
        sync(&sandbox, repo);
    }
    assert_eq!(ledger(&repos[0]).lines().count(), 18);
    for repo in &repos {
        assert_eq!(ledger(repo), ledger(&repos[0]));
        check_ledger_is_clean(&sandbox, repo);
        assert_eq!(sandbox.git(repo, ["rev-parse", "HEAD"]), sandbox.git(&repos[0], ["rev-parse", "HEAD"]));
    }
    assert_eq!(sandbox.git(&repos[0], ["rev-list", "--merges", "HEAD"]), "", "no merge commits");
}

#[test]
fn a_sync_killed_before_any_of_its_commands_is_repaired_by_the_next() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    add(&sandbox, one, "From one");
    sync(&sandbox, one);
    add(&sandbox, two, "From two");
    sandbox.dir("bin");
    let git = String::from_utf8(sandbox.command("which", one).arg("git").output().unwrap().stdout).unwrap();
    let script = format!(
        "#!/bin/sh\ndir=$(dirname \"$0\")\nleft=$(($(cat \"$dir/left\") - 1))\necho $left > \"$dir/left\"\n\
         if [ $left = 0 ]; then kill -9 $PPID; exit 1; fi\nexec {} \"$@\"\n",
        git.trim()
    );
    sandbox.program("bin/git", script);
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    for (shape, has_commit) in [("together", false), ("apart", true)] {
        let repo = sandbox.path(shape);
        sandbox.command("cp", one).args(["-a", text(two), text(&repo)]).status().unwrap();
        let _ = sandbox.way(&repo, ["init", "--adopt"]);
        make_dirty(&sandbox, &repo);
        if has_commit {
            sandbox.git(&repo, ["commit", "-q", "-m", "mine"]);
        }
        let before = user_state(&sandbox, &repo);
        let mut last = Vec::new();
        // The first commands only read.
        for number in (9..).step_by(3) {
            let _ = sandbox.way(&repo, ["add", &format!("Number {number}")]).ok();
            sandbox.write("bin/left", number.to_string());
            let run = sandbox.way_process(&repo, &[("PATH", path.as_ref())], ["sync"]);
            assert_eq!(user_state(&sandbox, &repo), before, "{shape}, killed before command {number}");
            if run.code == 0 {
                assert!(number > 20, "it was never killed");
                break;
            }
            let _ = sandbox.way(&repo, ["add", &format!("After {number}")]).ok();
            sync(&sandbox, &repo);
            check_ledger_is_clean(&sandbox, &repo);
            assert_eq!(user_state(&sandbox, &repo), before, "{shape}, after being killed before command {number}");
            last.push(number);
        }
        sync(&sandbox, one);
        assert_eq!(ledger(one), ledger(&repo), "{shape}");
        assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"], "{shape}");
        for number in last {
            let (killed, after) = (format!("Number {number}\""), format!("After {number}\""));
            assert!(ledger(one).contains(&killed) && ledger(one).contains(&after), "{shape} {number}");
        }
    }
}

/// Replaces git by a script: `special` is a shell script that may run the real git, which is `$git`.
fn wrapped_git(sandbox: &Sandbox, special: &str) -> String {
    let git =
        String::from_utf8(sandbox.command("which", &sandbox.path("")).arg("git").output().unwrap().stdout).unwrap();
    sandbox.dir("bin");
    sandbox.program("bin/git", format!("#!/bin/sh\ngit={}\n{special}\nexec $git \"$@\"\n", git.trim()));
    format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap())
}

#[test]
fn a_sync_killed_or_failing_when_it_moves_the_branch_is_repaired_by_the_next() {
    let sandbox = sandbox();
    let [repo] = clones(&sandbox, &["one"]).try_into().unwrap();
    add(&sandbox, &repo, "First");
    sync(&sandbox, &repo);
    let path = wrapped_git(&sandbox, "case \" $* \" in *\" update-ref -m \"*) $HOW; exit 1;; esac");
    let interrupted = |how: &str| {
        let run = sandbox.way_process(&repo, &[("PATH", path.as_ref()), ("HOW", how.as_ref())], ["sync"]);
        assert_ne!(run.code, 0, "the sync succeeded: {run:#?}");
    };
    let killed = || interrupted("eval kill -9 $PPID");
    for round in 0..4 {
        add(&sandbox, &repo, &format!("Killed {round}"));
        if round % 2 == 0 { killed() } else { interrupted("false") }
    }
    sync(&sandbox, &repo);
    check_ledger_is_clean(&sandbox, &repo);
    assert!((0..4).all(|round| ledger(&repo).contains(&format!("Killed {round}\""))));
    // The file may no longer contain the change to be committed.
    add(&sandbox, &repo, "Taken back");
    killed();
    sandbox.git(&repo, ["restore", "--source", "HEAD", "--", LEDGER]);
    for _ in 0..2 {
        sync(&sandbox, &repo);
    }
    check_ledger_is_clean(&sandbox, &repo);
}

#[test]
fn locks_left_by_a_killed_git_of_way_are_removed_and_those_of_others_are_not() {
    strace();
    let sandbox = sandbox();
    let [repo] = clones(&sandbox, &["one"]).try_into().unwrap();
    add(&sandbox, &repo, "First");
    sync(&sandbox, &repo);
    // Waypost itself reads the configuration, and nothing else does.
    for number in 1..=4 {
        add(&sandbox, &repo, &format!("Beside {number}"));
        let mut command = sandbox.command(strace(), &repo);
        command.args(["-f", "-qq", "-o", "/dev/null", "-P"]).arg(repo.join(".git/config"));
        command.args(["-e", "trace=read", "-e", &format!("inject=read:error=EIO:when={number}+")]);
        let run = Run::of(&command.arg(env!("CARGO_BIN_EXE_way")).arg("sync").output().unwrap());
        assert!([0, 8].contains(&run.code) && !run.stderr.contains("no remote"), "{number}: {run:#?}");
        assert!(number > 1 || run.code == 8, "way could read it: {run:#?}");
        sync(&sandbox, &repo);
    }
    let special = "case \" $* \" in *\" update-ref -m \"*)\n\
                   exec strace -qq -o \"$TRACE\" -e trace=%file,%desc -e inject=$CALL:signal=KILL:when=$COUNT $git \"$@\";; esac";
    let path = wrapped_git(&sandbox, special);
    let trace = sandbox.path("trace");
    let sync_killed_at = |call: &str, count: usize| {
        let count = count.to_string();
        let variables =
            [("PATH", path.as_ref()), ("TRACE", trace.as_os_str()), ("CALL", call.as_ref()), ("COUNT", count.as_ref())];
        sandbox.way_process(&repo, &variables, ["sync"])
    };
    add(&sandbox, &repo, "Not killed");
    let _ = sync_killed_at("rename", 60_000).ok();
    let traced = std::fs::read_to_string(&trace).unwrap();
    let calls: Vec<&str> = traced.lines().filter_map(|line| line.split('(').next()).collect();
    // The steps around git's locks, and a few after.
    let first = traced.lines().position(|line| line.contains("main.lock")).unwrap();
    let mut failed = 0;
    for place in (first..calls.len()).step_by(5) {
        let (call, count) = (calls[place], calls[..=place].iter().filter(|call| **call == calls[place]).count());
        for round in 0..2 {
            add(&sandbox, &repo, &format!("Killed at {call} {count}, {round}"));
            failed += usize::from(sync_killed_at(call, count).code != 0);
        }
        sync(&sandbox, &repo);
        check_ledger_is_clean(&sandbox, &repo);
    }
    for lock in ["refs/heads/main.lock", "index.lock"] {
        let lock = repo.join(".git").join(lock);
        sandbox.write(&lock, "");
        add(&sandbox, &repo, "In vain");
        let run = sandbox.way(&repo, ["sync"]);
        assert!(run.code != 0 && lock.exists(), "{run:#?}");
        std::fs::remove_file(lock).unwrap();
    }
    sync(&sandbox, &repo);
    assert!(failed > 3, "only {failed} were killed: {traced}");
}

#[test]
fn a_lock_that_a_successful_git_could_not_remove_does_not_stop_the_next_sync() {
    strace();
    let sandbox = sandbox();
    let [repo] = clones(&sandbox, &["one"]).try_into().unwrap();
    add(&sandbox, &repo, "First");
    sync(&sandbox, &repo);
    let special = "case \" $* \" in *\" update-ref -m \"*)\n\
                   exec strace -qq -o /dev/null -e trace=unlink -e inject=unlink:error=EIO $git \"$@\";; esac";
    let path = wrapped_git(&sandbox, special);
    add(&sandbox, &repo, "Second");
    let _ = sandbox.way_with(&repo, &[("PATH", path.as_ref())], ["sync"]).ok();
    let lock = repo.join(".git/HEAD.lock");
    assert!(lock.exists(), "git could remove its lock");
    add(&sandbox, &repo, "Third");
    sync(&sandbox, &repo);
    assert!(!lock.exists());
    check_ledger_is_clean(&sandbox, &repo);
}

#[test]
fn an_unreadable_git_configuration_is_not_mistaken_for_one_without_a_remote() {
    strace();
    let sandbox = sandbox();
    let [repo] = clones(&sandbox, &["one"]).try_into().unwrap();
    let special = "case \" $* \" in *\" --get-regexp \"*|*\" --get \"*|*\" rev-parse --verify \"*)\n\
         exec strace -qq -o /dev/null -P \"$FILE\" -P \"$ABSOLUTE\" -e trace=read -e inject=read:error=EIO:when=$NUMBER+ $git \"$@\";; esac";
    let path = wrapped_git(&sandbox, special);
    let file = ".git/refs/heads/main";
    add(&sandbox, &repo, &format!("Beside {file}"));
    let absolute = repo.join(file);
    let mut failed = 0;
    for number in 1..=4 {
        let number = number.to_string();
        let variables = [
            ("PATH", path.as_ref()),
            ("FILE", file.as_ref()),
            ("ABSOLUTE", absolute.as_os_str()),
            ("NUMBER", number.as_ref()),
        ];
        let run = sandbox.way_process(&repo, &variables, ["sync"]);
        assert!([0, 8].contains(&run.code), "{file} {number}: {run:#?}");
        assert!(!run.stderr.contains("no remote") && !run.stderr.contains("no commit"), "{file} {number}: {run:#?}");
        failed += usize::from(run.code == 8);
    }
    assert!(failed > 0, "git could read {file} each time");
    sync(&sandbox, &repo);
}

#[test]
fn sudden_growth_by_a_sync_needs_a_confirmation() {
    let sandbox = sandbox();
    let [ours, theirs] = <[PathBuf; 2]>::try_from(clones(&sandbox, &["ours", "theirs"])).unwrap();
    let id = add(&sandbox, &ours, "Mine");
    sync(&sandbox, &ours);
    sync(&sandbox, &theirs);
    let line = ledger(&theirs).lines().find(|line| line.contains(&id)).unwrap().to_owned();
    let flood: String = (0..10_001).map(|n| line.replace(&id, &format!("theirs-{n}")) + "\n").collect();
    sandbox.write(theirs.join(LEDGER), ledger(&theirs) + &flood);
    sync(&sandbox, &theirs);
    let (before, head) = (ledger(&ours), sandbox.git(&ours, ["rev-parse", "HEAD"]));
    let refused = sandbox.way(&ours, ["sync"]).fails(7);
    assert!(refused.stderr.contains("10001 new issues") && refused.stderr.contains("--accept-growth"), "{refused:?}");
    assert_eq!((ledger(&ours), sandbox.git(&ours, ["rev-parse", "HEAD"])), (before, head));
    let _ = sandbox.way(&ours, ["sync", "--accept-growth", "--json"]).data();
    assert_eq!(ledger(&ours).lines().count(), ledger(&theirs).lines().count());
    // A clone that has no issues yet gets them all.
    let new = clone(&sandbox, "new");
    assert_eq!(ledger(&new).lines().count(), ledger(&theirs).lines().count());
}
