//! Ledgers that travel: clones that sync through a remote, with the real tools.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::sandbox;

const LEDGER: &str = ".waypost/issues.jsonl";

/// Numbers that look random, and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn ledger(repo: &Path) -> String {
    std::fs::read_to_string(repo.join(LEDGER)).unwrap_or_default()
}

fn title(repo: &Path, id: &str) -> String {
    let issues = ledger(repo);
    let issues = issues.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    issues.filter(|issue| issue["id"] == *id).map(|issue| issue["title"].as_str().unwrap().to_owned()).collect()
}

/// A remote with one commit on `main`, and clones of it.
fn clones(sandbox: &Sandbox, names: &[&str]) -> Vec<PathBuf> {
    let seed = sandbox.git_repo("seed");
    sandbox.write(seed.join("other"), "one\ntwo\nthree\n");
    sandbox.git(&seed, ["add", "."]);
    sandbox.git(&seed, ["commit", "-q", "-m", "files"]);
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../remote.git"]);
    names.iter().map(|name| clone(sandbox, name)).collect()
}

fn clone(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.git(&sandbox.path(""), ["clone", "-q", "remote.git", name]);
    let repo = sandbox.path(name);
    // Ids of different clones are told apart.
    let _ = sandbox.way(&repo, ["config", "set", "prefix", name]).ok();
    repo
}

fn sync(sandbox: &Sandbox, repo: &Path) -> Value {
    sandbox.way(repo, ["sync", "--json"]).data()
}

fn add(sandbox: &Sandbox, repo: &Path, title: &str) -> String {
    sandbox.way(repo, ["add", title, "--json"]).data()["id"].as_str().unwrap().to_owned()
}

/// Commits a change of a file that is not the ledger.
fn commit(sandbox: &Sandbox, repo: &Path, file: &str, content: &str) {
    sandbox.write(repo.join(file), content);
    sandbox.git(repo, ["add", "--", file]);
    sandbox.git(repo, ["commit", "-q", "-m", &format!("change {file}"), "--", file]);
}

/// Leaves something staged, unstaged, untracked, stashed and tagged.
fn make_untidy(sandbox: &Sandbox, repo: &Path) {
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

/// Everything of a user's that sync has no business with.
fn possessions(sandbox: &Sandbox, repo: &Path) -> String {
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
        // Git looks once more at each entry of the index and notes what it saw.
        let is_known = |line: &&str| !line.contains(LEDGER) && !line.starts_with("  ");
        // One that died leaves the name of what it fetched, and the next one deletes it.
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

/// Expects that git finds the ledger neither changed nor staged.
#[track_caller]
fn check_ledger_is_clean(sandbox: &Sandbox, repo: &Path) {
    assert_eq!(sandbox.git(repo, ["status", "--porcelain", "--", LEDGER]), "");
}

/// Returns the paths that commits of the remote touched, but for the first two.
fn pushed_paths(sandbox: &Sandbox) -> Vec<String> {
    let said = sandbox.git(&sandbox.path("remote.git"), ["log", "--format=", "--name-only", "-m", "main"]);
    let mut paths: Vec<String> = said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[test]
fn b19_git_clones_converge_and_everything_else_of_the_users_stays() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    for repo in [one, two] {
        make_untidy(&sandbox, repo);
    }
    let before = [possessions(&sandbox, one), possessions(&sandbox, two)];
    add(&sandbox, one, "From one");
    add(&sandbox, two, "From two");
    let first = sync(&sandbox, one);
    assert_eq!(first["upstream"], "origin/main");
    assert!(first["committed"].is_string() && first["committed"] == first["pushed"], "{first}");
    let second = sync(&sandbox, two);
    assert!(second["merged"] == true && second["pushed"].is_string(), "{second}");
    let third = sync(&sandbox, one);
    assert!(third["merged"] == true && third["committed"].is_null() && third["pushed"].is_null(), "{third}");
    assert_eq!(ledger(one), ledger(two));
    assert!(ledger(one).contains("From one") && ledger(one).contains("From two"));
    for repo in [one, two] {
        let again = sync(&sandbox, repo);
        assert!(again["merged"] == false && again["committed"].is_null() && again["pushed"].is_null(), "{again}");
        check_ledger_is_clean(&sandbox, repo);
    }
    assert_eq!([possessions(&sandbox, one), possessions(&sandbox, two)], before);
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
    // Neither has anything to say, so neither makes a commit.
    for repo in [one, two] {
        let again = sync(&sandbox, repo);
        assert!(again["committed"].is_null() && again["pushed"].is_null(), "{again}");
    }
    // The user's own merge finds nothing to do about the ledger.
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
    make_untidy(&sandbox, one);
    add(&sandbox, one, "From one");
    let before = possessions(&sandbox, one);
    sync(&sandbox, one);
    assert_eq!(possessions(&sandbox, one), before);
    check_ledger_is_clean(&sandbox, one);
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
    assert!(ledger(one).contains("From one") && ledger(one).contains("From two"));
    assert_eq!(std::fs::read_to_string(two.join("other")).unwrap(), "changed by two\n");
    assert_eq!(sandbox.git(two, ["log", "--format=%s", "-n1"]), "Sync the issues\n");
}

#[test]
fn what_was_undone_after_a_sync_stays_undone_although_the_branches_never_met() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let id = add(&sandbox, two, "Old title");
    sync(&sandbox, two);
    sync(&sandbox, one);
    commit(&sandbox, one, "secret", "not yet\n");
    let _ = sandbox.way(two, ["update", &id, "--title", "New title"]).ok();
    sync(&sandbox, two);
    sync(&sandbox, one);
    assert!(ledger(one).contains("New title"));
    // By its branch alone, nobody here ever touched the title.
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
    let blank = sandbox.dir("blank");
    sandbox.git(&blank, ["init", "-q", "-b", "main"]);
    add(&sandbox, &blank, "First of all");
    let _ = sandbox.way(&blank, ["sync"]);
    assert_eq!(sandbox.git(&blank, ["log", "--format=", "--name-only"]).trim(), LEDGER);

    let one = clones(&sandbox, &["one"]).remove(0);
    sandbox.git(&one, ["switch", "-q", "-c", "topic"]);
    add(&sandbox, &one, "On a topic");
    let run = sandbox.way(&one, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("origin/topic is not there yet"), "{run:?}");
    check_ledger_is_clean(&sandbox, &one);
    sandbox.git(&one, ["push", "-q", "origin", "topic"]);
    add(&sandbox, &one, "And on");
    assert!(sync(&sandbox, &one)["pushed"].is_string());

    // A remote without any commit gets its first one.
    sandbox.git(&sandbox.path(""), ["init", "-q", "--bare", "-b", "main", "empty.git"]);
    sandbox.git(&sandbox.path(""), ["clone", "-q", "empty.git", "first"]);
    let first = sandbox.path("first");
    add(&sandbox, &first, "The very first");
    assert!(sync(&sandbox, &first)["pushed"].is_string());
    assert_eq!(sandbox.git(&sandbox.path("empty.git"), ["log", "--format=", "--name-only", "main"]).trim(), LEDGER);
}

#[test]
fn pushing_nothing_leaves_the_remote_alone_and_later_syncs_catch_up() {
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
fn a_rehearsal_says_what_would_be_run_and_changes_nothing() {
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
fn what_is_not_ours_to_decide_is_refused_and_nothing_changes() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    let id = add(&sandbox, &one, "Something");
    sync(&sandbox, &one);
    let tip = || sandbox.git(&sandbox.path("remote.git"), ["rev-parse", "main"]);
    let check = |reason: &str| {
        let _ = sandbox.way(&one, ["update", &id, "--title", reason]).ok();
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

    let _ = sandbox.way(&one, ["update", &id, "--title", "To be staged"]).ok();
    git(&["add", LEDGER]);
    check("is staged by somebody");
    git(&["reset", "-q"]);
    git(&["rm", "-q", "--cached", LEDGER]);
    check("is staged by somebody");
    git(&["reset", "-q"]);

    for (remote, merge) in
        [("--upload-pack=touch x", "refs/heads/main"), ("origin", "main"), ("origin", "refs/heads/*")]
    {
        git(&["config", "branch.main.remote", remote]);
        git(&["config", "branch.main.merge", merge]);
        check("that is no name for a remote and a branch");
    }
    git(&["config", "branch.main.remote", "origin"]);
    git(&["config", "branch.main.merge", "refs/heads/main"]);

    sandbox.write("remote.git/hooks/pre-receive", "#!/bin/sh\necho this branch is protected\nexit 1\n");
    sandbox.command("chmod", &one).args(["+x", text(&sandbox.path("remote.git/hooks/pre-receive"))]).status().unwrap();
    check("the remote does not take the ledger");
    std::fs::remove_file(sandbox.path("remote.git/hooks/pre-receive")).unwrap();
    let done = sync(&sandbox, &one);
    assert!(done["pushed"].is_string());
}

#[test]
fn a_branch_without_commits_does_not_take_the_place_of_the_remotes() {
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
fn a_ledger_that_is_staged_as_it_is_or_ignored_is_understood() {
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
    let before = (possessions(&sandbox, &one), ledger(&one), sandbox.git(&one, ["show-ref"]));
    for url in
        ["/nowhere/at/all", "ssh://localhost:1/x", "https://localhost:1/x", "git://localhost:1/x", "-x", "ext::false"]
    {
        sandbox.git(&one, ["config", "remote.origin.url", url]);
        let run = sandbox.way(&one, ["sync"]).fails(8);
        assert!(run.stderr.contains("cannot fetch origin/main"), "{}", run.stderr);
        sandbox.git(&one, ["config", "remote.origin.url", text(&sandbox.path("remote.git"))]);
        assert_eq!((possessions(&sandbox, &one), ledger(&one), sandbox.git(&one, ["show-ref"])), before, "{url}");
    }
}

#[test]
fn nothing_that_a_repository_brings_along_is_run() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let canaries = sandbox.dir("canaries");
    let evil = |name: &str| format!("touch '{}'; cat; false;", canaries.join(name).display());
    sandbox.write(one.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n");
    for hook in [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "pre-push",
        "post-checkout",
        "post-index-change",
        "post-merge",
        "pre-auto-gc",
        "post-rewrite",
        "fsmonitor-watchman",
    ] {
        let file = one.join(".git/hooks").join(hook);
        sandbox.write(&file, format!("#!/bin/sh\n{}\n", evil(hook)));
        sandbox.command("chmod", one).arg("+x").arg(&file).status().unwrap();
    }
    add(&sandbox, one, "From one");
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    sandbox.write(one.join(".git/objects/info/alternates"), format!("{}/objects\n", text(&sandbox.path("remote.git"))));
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "core.pager",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "merge.evil.driver",
        "gpg.program",
        "credential.helper",
        "credential.https://localhost.helper",
        "remote.origin.uploadpack",
        "remote.origin.receivepack",
        "pager.fetch",
        "alias.fetch",
        "alias.push",
        "alias.commit-tree",
        "alias.update-ref",
        "sequence.editor",
        "uploadpack.packObjectsHook",
    ] {
        let value =
            if key.starts_with("alias.") { format!("!{}", evil(key)) } else { evil(&key.replace(['/', ':'], "-")) };
        sandbox
            .command("git", one)
            .args(["config", key, &value])
            .env("GIT_CONFIG_PARAMETERS", "'core.fsmonitor=false'")
            .status()
            .unwrap();
    }
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("push.gpgSign", "true"),
        ("filter.evil.required", "true"),
        ("gc.auto", "1"),
        ("submodule.recurse", "true"),
        ("protocol.ext.allow", "always"),
        ("push.followTags", "true"),
        ("fetch.prune", "true"),
    ] {
        let own = "'core.fsmonitor=false'";
        sandbox.command("git", one).args(["config", key, value]).env("GIT_CONFIG_PARAMETERS", own).status().unwrap();
    }
    let found = || std::fs::read_dir(&canaries).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    for canary in found() {
        // Looking into the repository to prepare it ran some.
        std::fs::remove_file(canaries.join(canary)).unwrap();
    }
    let done = sync(&sandbox, one);
    assert!(done["pushed"].is_string() && done["merged"] == true, "{done}");
    assert!(ledger(one).contains("From two"));
    let set = |key: &str, value: &str| {
        let own = "'core.fsmonitor=false'";
        sandbox.command("git", one).args(["config", key, value]).env("GIT_CONFIG_PARAMETERS", own).status().unwrap();
    };
    for url in ["ext::sh -c touch% canaries/ext", "ssh://localhost:1/x", "https://localhost:1/x", "git://localhost:1/x"]
    {
        set("remote.origin.url", url);
        let _ = sandbox.way(one, ["sync"]).fails(8);
    }
    set("remote.origin.vcs", "evil");
    let _ = sandbox.way(one, ["sync"]).fails(8);
    assert_eq!(found(), [] as [std::ffi::OsString; 0]);
}

#[test]
fn a_partial_clone_gets_what_it_lacks_by_no_program_of_the_repositorys() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    sandbox.git(&sandbox.path("remote.git"), ["config", "uploadpack.allowFilter", "true"]);
    add(&sandbox, &one, "From one");
    sync(&sandbox, &one);
    commit(&sandbox, &one, "other", "changed\n");
    sandbox.git(&one, ["push", "-q"]);
    let url = format!("file://{}", text(&sandbox.path("remote.git")));
    sandbox.git(&one, ["clone", "-q", "--filter=blob:none", &url, "../partial"]);
    let partial = sandbox.path("partial");
    let canary = sandbox.path("canary");
    sandbox.git(&partial, ["config", "remote.origin.uploadpack", &format!("touch '{}'; false", text(&canary))]);
    add(&sandbox, &one, "And on");
    sync(&sandbox, &one);
    commit(&sandbox, &one, "file", "changed\n");
    sandbox.git(&one, ["push", "-q"]);
    add(&sandbox, &partial, "From the partial one");
    assert!(sync(&sandbox, &partial)["pushed"].is_string());
    sync(&sandbox, &one);
    assert_eq!(ledger(&one), ledger(&partial));
    assert!(!canary.exists());
}

#[test]
fn from_any_worktree_it_is_the_main_ones_ledger_that_is_synced() {
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

/// Changes a ledger in some way.
fn edit(sandbox: &Sandbox, repo: &Path, dice: &mut Dice, number: usize) {
    let ids: Vec<String> = sandbox
        .way(repo, ["list", "--all", "--json", "--limit", "0"])
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| issue["id"].as_str().unwrap().to_owned())
        .collect();
    let pick = (!ids.is_empty()).then(|| usize::try_from(dice.below(ids.len() as u64)).unwrap());
    match (dice.below(4), pick) {
        (1, Some(pick)) => {
            let _ = sandbox.way(repo, ["update", &ids[pick], "--title", &format!("Changed in {number}")]);
        }
        (2, Some(pick)) => {
            let _ = sandbox.way(repo, ["comment", &ids[pick], &format!("said in {number}")]);
        }
        (3, Some(pick)) => {
            let _ = sandbox.way(repo, ["close", &ids[pick]]);
        }
        _ => {
            add(sandbox, repo, &format!("Issue {number}"));
        }
    }
}

/// Starts a sync and kills it after a while.
fn kill_sync(sandbox: &Sandbox, repo: &Path, dice: &mut Dice, millis: u64) {
    let mut command = sandbox.way_command(repo);
    let mut child = command.arg("sync").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::park_timeout(Duration::from_millis(dice.below(millis)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn clones_that_change_and_sync_and_die_at_random_become_equal() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0x2545_f491_4f6c_dd1d, 0xd134_2543_de82_ef95] {
        let mut dice = Dice(seed);
        let sandbox = sandbox();
        let repos = clones(&sandbox, &["one", "two", "three"]);
        // One is tidy, one has changes, and one has changes and a commit of its own.
        make_untidy(&sandbox, &repos[1]);
        make_untidy(&sandbox, &repos[2]);
        sandbox.git(&repos[2], ["commit", "-q", "-m", "mine"]);
        let before: Vec<String> = repos.iter().map(|repo| possessions(&sandbox, repo)).collect();
        for number in 0..20 {
            let repo = &repos[usize::try_from(dice.below(3)).unwrap()];
            edit(&sandbox, repo, &mut dice, number);
            match dice.below(3) {
                0 => kill_sync(&sandbox, repo, &mut dice, 150),
                1 => drop(sync(&sandbox, repo)),
                _ => {}
            }
        }
        for repo in repos.iter().chain(&repos) {
            sync(&sandbox, repo);
        }
        for (repo, before) in repos.iter().zip(&before) {
            assert_eq!(ledger(repo), ledger(&repos[0]), "seed {seed}");
            assert_eq!(&possessions(&sandbox, repo), before, "seed {seed}, {}", repo.display());
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
        // Two at once in each: one waits for the other.
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
    assert_eq!(sandbox.git(&repos[0], ["rev-list", "--merges", "HEAD"]), "", "nobody had to merge");
}

#[test]
fn a_sync_that_dies_before_any_of_its_commands_is_made_good_by_the_next() {
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
    sandbox.write("bin/git", script);
    sandbox.command("chmod", one).args(["+x", text(&sandbox.path("bin/git"))]).status().unwrap();
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    for (shape, has_commit) in [("together", false), ("apart", true)] {
        let repo = sandbox.path(shape);
        sandbox.command("cp", one).args(["-a", text(two), text(&repo)]).status().unwrap();
        make_untidy(&sandbox, &repo);
        if has_commit {
            sandbox.git(&repo, ["commit", "-q", "-m", "mine"]);
        }
        let before = possessions(&sandbox, &repo);
        let mut last = Vec::new();
        // The first ones only look.
        for number in (9..).step_by(3) {
            let _ = sandbox.way(&repo, ["add", &format!("Number {number}")]).ok();
            sandbox.write("bin/left", number.to_string());
            let run = sandbox.way_with(&repo, &[("PATH", path.as_ref())], ["sync"]);
            assert_eq!(possessions(&sandbox, &repo), before, "{shape}, killed before command {number}");
            if run.code == 0 {
                assert!(number > 20, "it was never killed");
                break;
            }
            let _ = sandbox.way(&repo, ["add", &format!("After {number}")]).ok();
            sync(&sandbox, &repo);
            check_ledger_is_clean(&sandbox, &repo);
            assert_eq!(possessions(&sandbox, &repo), before, "{shape}, after being killed before command {number}");
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

#[test]
fn without_version_control_there_is_nothing_to_sync() {
    let sandbox = sandbox();
    let plain = sandbox.dir("plain");
    sandbox.dir("plain/.waypost");
    add(&sandbox, &plain, "Something");
    let run = sandbox.way(&plain, ["sync"]).fails(6);
    assert!(run.stderr.contains("nothing to sync"), "{}", run.stderr);
}

/// A remote of Mercurial with one commit, and clones of it. None if there is no hg.
fn hg_clones(sandbox: &Sandbox, names: &[&str]) -> Option<Vec<PathBuf>> {
    let remote = sandbox.hg_repo("remote")?;
    sandbox.write(remote.join("other"), "one\n");
    sandbox.hg(&remote, ["commit", "-q", "-A", "-m", "files"]);
    let clone = |name: &&str| {
        sandbox.hg(&sandbox.path(""), ["clone", "-q", "remote", name]);
        let repo = sandbox.path(name);
        let _ = sandbox.way(&repo, ["config", "set", "prefix", name]).ok();
        repo
    };
    Some(names.iter().map(clone).collect())
}

/// Leaves something changed, added, removed and untracked.
fn make_untidy_in_hg(sandbox: &Sandbox, repo: &Path) {
    sandbox.write(repo.join("file"), "not committed\n");
    sandbox.write(repo.join("new"), "added\n");
    sandbox.hg(repo, ["add", "new"]);
    sandbox.hg(repo, ["remove", "other"]);
    sandbox.write(repo.join("untracked"), "untracked\n");
    sandbox.hg(repo, ["bookmark", "--inactive", "here"]);
}

fn possessions_in_hg(sandbox: &Sandbox, repo: &Path) -> String {
    let mut all = String::new();
    let others = ["--exclude", LEDGER];
    for args in [["status", "--all"], ["diff", "--nodates"]] {
        // Which commit it is compared with is not the user's.
        let said = sandbox.hg(repo, args.into_iter().chain(others));
        all.extend(said.split_inclusive('\n').filter(|line| !line.starts_with("diff ")));
    }
    all.push_str(&sandbox.hg(repo, ["bookmarks"]));
    for file in ["file", "other", "new", "untracked", ".hg/branch"] {
        writeln!(all, "{file}: {:?}", std::fs::read_to_string(repo.join(file)).ok()).unwrap();
    }
    all
}

/// Returns the files that commits of the remote touched.
fn pushed_files(sandbox: &Sandbox) -> Vec<String> {
    let said = sandbox.hg(&sandbox.path("remote"), ["log", "--template", "{join(files, '\\n')}\\n"]);
    let mut paths: Vec<String> = said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[test]
fn b19_mercurial_clones_converge_and_everything_else_of_the_users_stays() {
    let sandbox = sandbox();
    let Some(repos) = hg_clones(&sandbox, &["one", "two"]) else { return };
    for repo in &repos {
        make_untidy_in_hg(&sandbox, repo);
    }
    let before: Vec<String> = repos.iter().map(|repo| possessions_in_hg(&sandbox, repo)).collect();
    add(&sandbox, &repos[0], "From one");
    add(&sandbox, &repos[1], "From two");
    let run = sandbox.way(&repos[0], ["sync", "--dry-run"]).ok();
    assert!(run.stdout.contains(" commit ") && run.stdout.contains(" push "), "{}", run.stdout);
    assert_eq!(sandbox.hg(&repos[0], ["log", "--template", "x"]), "xx");
    // What the repository configures is not run.
    let evil = format!("touch '{}'", text(&sandbox.path("canary")));
    let hooks = ["pre-commit", "precommit", "commit", "pre-pull", "incoming", "pre-push", "outgoing", "update"];
    let hooks = hooks.map(|hook| format!("{hook} = {evil}\n")).concat();
    let aliases = ["pull", "push", "commit", "update", "log", "cat"];
    let aliases = aliases.map(|name| format!("{name} = !{evil}\n")).concat();
    let path = format!("[paths]\ndefault = {}\n", text(&sandbox.path("remote")));
    let hostile = format!("{path}[hooks]\n{hooks}[alias]\n{aliases}[ui]\nssh = {evil}\neditor = {evil}\n");
    sandbox.write(repos[0].join(".hg/hgrc"), hostile);
    let first = sync(&sandbox, &repos[0]);
    assert!(!sandbox.path("canary").exists());
    sandbox.write(repos[0].join(".hg/hgrc"), path);
    assert!(first["pushed"].is_string() && first["committed"] == first["pushed"], "{first}");
    let second = sync(&sandbox, &repos[1]);
    assert!(second["pushed"].is_string() && second["merged"] == true, "{second}");
    let third = sync(&sandbox, &repos[0]);
    assert!(third["merged"] == true && third["committed"].is_null() && third["pushed"].is_null(), "{third}");
    assert_eq!(ledger(&repos[0]), ledger(&repos[1]));
    assert!(ledger(&repos[0]).contains("From one") && ledger(&repos[0]).contains("From two"));
    let after: Vec<String> = repos.iter().map(|repo| possessions_in_hg(&sandbox, repo)).collect();
    assert_eq!(after, before);
    assert_eq!(pushed_files(&sandbox), [LEDGER, "file", "other"]);
    for repo in &repos {
        let again = sync(&sandbox, repo);
        assert!(again["committed"].is_null() && again["pushed"].is_null(), "{again}");
    }
}

#[test]
fn mercurial_clones_that_committed_apart_are_merged() {
    let sandbox = sandbox();
    let Some(repos) = hg_clones(&sandbox, &["one", "two"]) else { return };
    for repo in &repos {
        make_untidy_in_hg(&sandbox, repo);
        add(&sandbox, repo, &format!("From {}", repo.display()));
        let run = sandbox.way(repo, ["sync", "--no-push"]);
        assert!(run.code == 0 && run.stderr.contains("nothing was pushed"), "{run:?}");
    }
    let before: Vec<String> = repos.iter().map(|repo| possessions_in_hg(&sandbox, repo)).collect();
    for repo in [&repos[0], &repos[1], &repos[0]] {
        sync(&sandbox, repo);
    }
    assert_eq!(ledger(&repos[0]), ledger(&repos[1]));
    assert_eq!(ledger(&repos[0]).lines().count(), 2);
    let after: Vec<String> = repos.iter().map(|repo| possessions_in_hg(&sandbox, repo)).collect();
    assert_eq!(after, before);
    assert_eq!(sandbox.hg(&sandbox.path("remote"), ["heads", "--template", "x"]), "x");
    assert_eq!(pushed_files(&sandbox), [LEDGER, "file", "other"]);
    assert!(!repos[1].join(".hg/waypost").read_dir().unwrap().any(|entry| entry.unwrap().path().is_dir()));
}

#[test]
fn what_mercurial_would_push_or_update_besides_the_ledger_is_refused() {
    let sandbox = sandbox();
    let Some(repos) = hg_clones(&sandbox, &["one", "two"]) else { return };
    let [one, two] = repos.as_slice() else { panic!() };
    let check = |repo: &Path, reason: &str| {
        let (tip, before) = (sandbox.hg(repo, ["identify", "--id"]), ledger(repo));
        let run = sandbox.way(repo, ["sync"]).fails(7);
        assert!(run.stderr.contains(reason) && run.stderr.contains("hint: "), "{}", run.stderr);
        assert_eq!((sandbox.hg(repo, ["identify", "--id"]), ledger(repo)), (tip, before));
    };
    add(&sandbox, one, "From one");
    sandbox.write(one.join("file"), "changed\n");
    sandbox.hg(one, ["commit", "-q", "-m", "mine", "file"]);
    check(one, "commits of other files are not pushed yet");
    sandbox.hg(one, ["push", "-q"]);
    assert!(sync(&sandbox, one)["pushed"].is_string());
    add(&sandbox, two, "From two");
    check(two, "the remote has other files");
    sandbox.hg(two, ["add", "-q", LEDGER]);
    sandbox.hg(two, ["update", "-q", "--tool", ":local"]);
    assert!(sync(&sandbox, two)["pushed"].is_string());
    sync(&sandbox, one);
    assert_eq!(ledger(one), ledger(two));

    add(&sandbox, two, "More");
    sandbox.write(two.join(".hg/hgrc"), "[paths]\ndefault = git+evil://x\n");
    check(two, "is not reached by");
    for url in ["/nowhere", "ssh://localhost:1/x", "-x"] {
        sandbox.write(two.join(".hg/hgrc"), format!("[paths]\ndefault = {url}\n"));
        let before = (sandbox.hg(two, ["log"]), ledger(two), possessions_in_hg(&sandbox, two));
        let run = sandbox.way(two, ["sync"]).fails(8);
        assert!(run.stderr.contains("cannot pull"), "{}", run.stderr);
        assert_eq!((sandbox.hg(two, ["log"]), ledger(two), possessions_in_hg(&sandbox, two)), before);
    }
    sandbox.write(two.join(".hg/hgrc"), "");
    let run = sandbox.way(two, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("nothing to push to"), "{run:?}");
}

#[test]
fn while_mercurial_is_in_the_middle_of_something_nothing_is_synced() {
    let sandbox = sandbox();
    let Some(repos) = hg_clones(&sandbox, &["one"]) else { return };
    let one = &repos[0];
    let [theirs, ours] = ["theirs", "ours"].map(|name| {
        sandbox.hg(one, ["update", "-q", "1"]);
        sandbox.write(one.join("other"), format!("{name}\n"));
        sandbox.hg(one, ["commit", "-q", "-m", name]);
        sandbox.hg(one, ["identify", "--id"]).trim().to_owned()
    });
    let (theirs, ours) = (theirs.as_str(), ours.as_str());
    add(&sandbox, one, "Something");
    let hg = |args: &[&str]| {
        let mut command = sandbox.command("hg", one);
        command.args(["--config=ui.merge=:fail", "--config=extensions.rebase=", "--config=extensions.histedit="]);
        command.args(args).env("HGEDITOR", "sed -i 's/^pick/edit/'").output().unwrap()
    };
    for (prepare, operation, end, reason) in [
        ("", &["merge", theirs][..], &["merge", "--abort"][..], "a merge is under way"),
        ("", &["rebase", "-d", theirs], &["rebase", "--abort"], "a rebase is under way"),
        ("", &["graft", theirs], &["graft", "--abort"], "a graft is under way"),
        ("", &["histedit", ours], &["histedit", "--abort"], "a histedit is under way"),
        ("", &["bisect", "--bad"], &["bisect", "--reset"], "a bisection is under way"),
        ("shelve", &["unshelve"], &["unshelve", "--abort"], "an unshelve is under way"),
        ("write", &["update", "--merge", theirs], &["update", "--clean", ours], "other has a conflict"),
    ] {
        sandbox.hg(one, ["update", "-q", "--clean", ours]);
        if !prepare.is_empty() {
            sandbox.write(one.join("other"), "not committed\n");
        }
        if prepare == "shelve" {
            assert!(hg(&["shelve", "other"]).status.success());
            sandbox.write(one.join("other"), "ours, and more\n");
            sandbox.hg(one, ["commit", "-q", "-m", "more", "other"]);
        }
        let stopped = hg(operation);
        assert_eq!(stopped.status.success(), operation[0] == "bisect", "{operation:?}: {stopped:?}");
        let before = (sandbox.hg(one, ["log"]), sandbox.hg(one, ["status"]), ledger(one));
        let run = sandbox.way(one, ["sync"]).fails(7);
        assert!(run.stderr.contains(reason) && run.stderr.contains("hint: "), "{operation:?}: {}", run.stderr);
        assert_eq!((sandbox.hg(one, ["log"]), sandbox.hg(one, ["status"]), ledger(one)), before, "{operation:?}");
        let ended = hg(end);
        assert!(ended.status.success(), "{end:?}: {ended:?}");
    }
}

#[test]
fn mercurial_clones_that_change_and_sync_and_die_at_random_become_equal() {
    for seed in [0x9e37_79b9_7f4a_7c15] {
        let mut dice = Dice(seed);
        let sandbox = sandbox();
        let Some(repos) = hg_clones(&sandbox, &["one", "two"]) else { return };
        make_untidy_in_hg(&sandbox, &repos[1]);
        let before: Vec<String> = repos.iter().map(|repo| possessions_in_hg(&sandbox, repo)).collect();
        for number in 0..6 {
            let repo = &repos[usize::try_from(dice.below(2)).unwrap()];
            edit(&sandbox, repo, &mut dice, number);
            match dice.below(3) {
                0 => kill_sync(&sandbox, repo, &mut dice, 1500),
                1 => drop(sync(&sandbox, repo)),
                _ => {}
            }
        }
        for repo in repos.iter().chain(&repos) {
            sync(&sandbox, repo);
        }
        for (repo, before) in repos.iter().zip(&before) {
            assert_eq!(ledger(repo), ledger(&repos[0]), "seed {seed}");
            assert_eq!(&possessions_in_hg(&sandbox, repo), before, "seed {seed}, {}", repo.display());
        }
        assert_eq!(pushed_files(&sandbox), [LEDGER, "file", "other"], "seed {seed}");
    }
}

/// A remote with one commit on `main`, and clones of it by jj. None if there is no jj.
fn jj_clones(sandbox: &Sandbox, colocated: bool, names: &[&str]) -> Option<Vec<PathBuf>> {
    waypost_testkit::jj()?;
    clones(sandbox, &[]);
    let clone = |name: &&str| {
        let how = if colocated { "--colocate" } else { "--no-colocate" };
        sandbox.jj(&sandbox.path(""), ["git", "clone", "--quiet", how, "remote.git", name]);
        let repo = sandbox.path(name);
        let _ = sandbox.way(&repo, ["config", "set", "prefix", name]).ok();
        repo
    };
    Some(names.iter().map(clone).collect())
}

/// Everything in the working copy but the ledger, and the bookmarks that are only the user's.
fn possessions_in_jj(sandbox: &Sandbox, repo: &Path) -> String {
    let others = format!("~root-file:{LEDGER:?}");
    let mut all = sandbox.jj(repo, ["diff", "--git", &others]);
    all.push_str(&sandbox.jj(repo, ["log", "--no-graph", "-r", "@", "-T", "change_id ++ description"]));
    all.push_str(&sandbox.jj(repo, ["bookmark", "list", "mine"]));
    all.push_str(&sandbox.jj(repo, ["file", "list", &others]));
    all
}

#[test]
fn b19_jj_clones_converge_and_everything_else_of_the_users_stays() {
    for colocated in [true, false] {
        let sandbox = sandbox();
        let Some(repos) = jj_clones(&sandbox, colocated, &["one", "two"]) else { return };
        for repo in &repos {
            sandbox.write(repo.join("file"), "changed\n");
            sandbox.write(repo.join("new"), "new\n");
            sandbox.jj(repo, ["describe", "-m", "work under way"]);
            sandbox.jj(repo, ["bookmark", "create", "mine", "-r", "@"]);
        }
        add(&sandbox, &repos[0], "From one");
        add(&sandbox, &repos[1], "From two");
        // The bookmark is where the working copy is, and that gets another id with everything that is saved.
        for repo in &repos {
            sandbox.jj(repo, ["bookmark", "move", "mine", "--to", "@-", "--allow-backwards"]);
        }
        let before: Vec<String> = repos.iter().map(|repo| possessions_in_jj(&sandbox, repo)).collect();
        let first = sync(&sandbox, &repos[0]);
        assert!(first["pushed"].is_string() && first["committed"] == first["pushed"], "{first}");
        let second = sync(&sandbox, &repos[1]);
        assert!(second["pushed"].is_string() && second["merged"] == true, "{second}");
        let third = sync(&sandbox, &repos[0]);
        assert!(third["merged"] == true && third["committed"].is_null() && third["pushed"].is_null(), "{third}");
        assert_eq!(ledger(&repos[0]), ledger(&repos[1]));
        assert!(ledger(&repos[0]).contains("From one") && ledger(&repos[0]).contains("From two"));
        for (repo, before) in repos.iter().zip(&before) {
            assert_eq!(&possessions_in_jj(&sandbox, repo), before);
            assert_eq!(sandbox.jj(repo, ["diff", "--name-only", LEDGER]), "", "it is not part of the work under way");
            assert_eq!(sandbox.jj(repo, ["log", "--no-graph", "-r", "main & main@origin & @-", "-T", r#""x""#]), "x");
            let again = sync(&sandbox, repo);
            assert!(again["committed"].is_null() && again["pushed"].is_null(), "{again}");
        }
        assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"]);
    }
}

#[test]
fn nothing_that_a_repository_of_jj_brings_along_is_run() {
    let sandbox = sandbox();
    let Some(repos) = jj_clones(&sandbox, true, &["one", "two"]) else { return };
    let [one, two] = repos.as_slice() else { panic!() };
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    add(&sandbox, one, "From one");
    sandbox.jj(one, ["status"]);
    let program = sandbox.path("evil");
    sandbox.write(&program, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", text(&sandbox.path("canary"))));
    sandbox.command("chmod", one).args(["+x", text(&program)]).status().unwrap();
    for (key, value) in [
        ("signing.behavior", "own"),
        ("signing.backend", "gpg"),
        ("signing.backends.gpg.program", text(&program)),
        ("git.executable-path", text(&program)),
        ("ui.editor", text(&program)),
        ("ui.pager", text(&program)),
        ("ui.merge-editor", text(&program)),
        ("aliases.rebase", "['util', 'exec', '--', 'touch', 'canary']"),
    ] {
        sandbox.jj(one, ["config", "set", "--repo", key, value]);
    }
    for hook in ["reference-transaction", "pre-push", "post-checkout", "post-index-change"] {
        let file = one.join(".git/hooks").join(hook);
        std::fs::copy(&program, &file).unwrap();
    }
    for key in ["remote.origin.uploadpack", "remote.origin.receivepack", "core.sshCommand", "core.fsmonitor"] {
        let own = "'core.hooksPath=/dev/null'";
        let mut command = sandbox.command("git", one);
        command.args(["config", key, text(&program)]).env("GIT_CONFIG_PARAMETERS", own).status().unwrap();
    }
    assert!(sync(&sandbox, one)["pushed"].is_string());
    assert!(!sandbox.path("canary").exists());
    assert!(ledger(one).contains("From two"));
}

#[test]
fn commits_that_jj_did_not_push_stay_unpushed() {
    let sandbox = sandbox();
    let Some(repos) = jj_clones(&sandbox, true, &["one", "two"]) else { return };
    let [one, two] = repos.as_slice() else { panic!() };
    let id = add(&sandbox, two, "Old title");
    sync(&sandbox, two);
    sandbox.write(one.join("secret"), "not yet\n");
    sandbox.jj(one, ["commit", "-m", "mine"]);
    sandbox.write(one.join("file"), "under way\n");
    add(&sandbox, one, "From one");
    let before = possessions_in_jj(&sandbox, one);
    let done = sync(&sandbox, one);
    assert!(done["pushed"].is_string() && done["committed"] != done["pushed"], "{done}");
    assert_eq!(possessions_in_jj(&sandbox, one), before);
    assert_eq!(sandbox.jj(one, ["log", "--no-graph", "-r", "@--", "-T", "description"]), "mine\n");
    sync(&sandbox, two);
    assert_eq!(ledger(one), ledger(two));
    assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"]);
    let again = sync(&sandbox, one);
    assert!(again["pushed"].is_null() && again["committed"].is_null(), "{again}");
    // What was merged and undone stays undone.
    let _ = sandbox.way(two, ["update", &id, "--title", "New title"]).ok();
    sync(&sandbox, two);
    sync(&sandbox, one);
    let _ = sandbox.way(one, ["update", &id, "--title", "Old title"]).ok();
    sync(&sandbox, one);
    sync(&sandbox, two);
    assert!(title(two, &id) == "Old title" && ledger(one) == ledger(two));
    // The user's own rebase finds nothing to do about the ledger.
    sandbox.jj(one, ["rebase", "-b", "@", "-o", "main"]);
    assert_eq!(sandbox.jj(one, ["log", "--no-graph", "-r", "conflicts()", "-T", "commit_id"]), "");
}

#[test]
fn jj_commits_here_what_cannot_or_should_not_be_pushed() {
    let sandbox = sandbox();
    let Some(alone) = sandbox.jj_repo("alone", false) else { return };
    add(&sandbox, &alone, "First");
    let run = sandbox.way(&alone, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("nothing to push to"), "{run:?}");
    assert_eq!(sandbox.jj(&alone, ["diff", "--name-only", "-r", "@-"]).trim(), LEDGER);
    let one = jj_clones(&sandbox, true, &["one"]).unwrap().remove(0);
    add(&sandbox, &one, "Here only");
    let run = sandbox.way(&one, ["sync", "--no-push"]);
    assert!(run.code == 0 && run.stderr.contains("nothing was pushed"), "{run:?}");
    assert_eq!(sandbox.jj(&one, ["diff", "--name-only", "-r", "@-"]).trim(), LEDGER);
    assert!(sync(&sandbox, &one)["pushed"].is_string());
    assert_eq!(sandbox.jj(&one, ["log", "--no-graph", "-r", "main@origin & @-", "-T", r#""x""#]), "x");

    sandbox.jj(&one, ["new", "@-", "main@origin-"]);
    let run = sandbox.way(&one, ["sync"]).fails(7);
    assert!(run.stderr.contains("several commits"), "{}", run.stderr);
    sandbox.jj(&one, ["new", "main"]);
    add(&sandbox, &one, "More");
    sandbox.git(&one, ["config", "remote.origin.url", "/nowhere"]);
    let before = (ledger(&one), sandbox.jj(&one, ["log"]));
    let run = sandbox.way(&one, ["sync"]).fails(8);
    assert!(run.stderr.contains("cannot fetch origin/main"), "{}", run.stderr);
    assert_eq!((ledger(&one), sandbox.jj(&one, ["log"])), before);
    sandbox.jj(&one, ["status"]);
    let operations = sandbox.jj(&one, ["operation", "log", "--no-graph", "-T", "id"]);
    let run = sandbox.way(&one, ["sync", "--dry-run"]).ok();
    assert!(run.stdout.contains(" fetch ") && run.stdout.contains(" rebase "), "{}", run.stdout);
    assert_eq!(sandbox.jj(&one, ["operation", "log", "--no-graph", "-T", "id"]), operations);
}

#[test]
fn jj_clones_that_change_and_sync_and_die_at_random_become_equal() {
    for (seed, colocated) in [(0x9e37_79b9_7f4a_7c15, true), (0x2545_f491_4f6c_dd1d, false)] {
        let mut dice = Dice(seed);
        let sandbox = sandbox();
        let Some(repos) = jj_clones(&sandbox, colocated, &["one", "two", "three"]) else { return };
        sandbox.write(repos[1].join("file"), "under way\n");
        sandbox.write(repos[2].join("secret"), "not yet\n");
        sandbox.jj(&repos[2], ["commit", "-m", "mine"]);
        let before: Vec<String> = repos.iter().map(|repo| possessions_in_jj(&sandbox, repo)).collect();
        for number in 0..8 {
            let repo = &repos[usize::try_from(dice.below(3)).unwrap()];
            edit(&sandbox, repo, &mut dice, number);
            match dice.below(3) {
                0 => kill_sync(&sandbox, repo, &mut dice, 500),
                1 => drop(sync(&sandbox, repo)),
                _ => {}
            }
        }
        for repo in repos.iter().chain(&repos) {
            sync(&sandbox, repo);
        }
        for (repo, before) in repos.iter().zip(&before) {
            assert_eq!(ledger(repo), ledger(&repos[0]), "seed {seed}");
            assert_eq!(&possessions_in_jj(&sandbox, repo), before, "seed {seed}, {}", repo.display());
            assert_eq!(sandbox.jj(repo, ["diff", "--name-only", LEDGER]), "", "seed {seed}");
        }
        assert_eq!(pushed_paths(&sandbox), [LEDGER, "file", "other"], "seed {seed}");
    }
}

/// A stand-in for Sapling that writes down what it is asked, and answers as one whose remote has another ledger.
fn sapling(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let repo = sandbox.dir("sapling");
    sandbox.dir("sapling/.sl");
    sandbox.dir("bin");
    sandbox.write(repo.join(".sl/config"), "[paths]\ndefault = https://example.org/r\n");
    sandbox.write("own", "");
    sandbox.write("unused", "");
    sandbox.write("theirs", "{\"id\":\"their-1\",\"title\":\"Theirs\"}\n");
    let script = r#"#!/bin/sh
state=$(dirname "$0")/..
shift 2
printf '%s\n' "$*" >> "$state/asked"
while [ "${1#--config=}" != "$1" ]; do shift; done
node() { printf '%040d' "$1"; }
at=$(cat "$state/at" 2>/dev/null || echo 1)
case "$*" in
    "log --rev=last(::. and remotebookmark()) "*) printf 'remote/main' ;;
    "log --rev=remote/main "*) node 2 ;;
    "log --rev=parents() "*) node "$at"; echo ;;
    "log --rev=. "*) node "$at" ;;
    "log --rev=ancestor("*) node 1 ;;
    "log --rev=only("*" - ::("*) cat "$state/unused" ;;
    "log --rev=only("*) cat "$state/own" ;;
    "cat --rev=$(node 2) "*) cat "$state/theirs" ;;
    "cat "*) exit 1 ;;
    "status --all "*) if [ "$at" = 3 ]; then echo C; else echo M; fi ;;
    "status --no-status "*) printf '.waypost/issues.jsonl\0' ;;
    "goto "*) echo 2 > "$state/at" ;;
    "commit "*) echo 3 > "$state/at" ;;
    "pull "*) test ! -e "$state/offline" ;;
esac
"#;
    sandbox.write("bin/sl", script);
    sandbox.command("chmod", &repo).args(["+x", text(&sandbox.path("bin/sl"))]).status().unwrap();
    (repo, sandbox.path("asked"))
}

/// Runs `way` with the stand-in for Sapling, in whose repository there is an issue.
fn with_sapling<'a>(sandbox: &'a Sandbox, repo: &'a Path) -> impl Fn(&[&str]) -> waypost_testkit::Run + 'a {
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    let way = move |args: &[&str]| sandbox.way_with(repo, &[("PATH", path.as_ref())], args);
    let _ = way(&["config", "set", "prefix", "our"]).ok();
    let _ = way(&["add", "Ours"]).ok();
    way
}

/// Returns what Sapling was asked to change.
fn changes(asked: &Path) -> Vec<String> {
    let asked = std::fs::read_to_string(asked).unwrap();
    let is_look = |line: &&str| ["log ", "cat ", "status "].iter().any(|look| line.starts_with(look));
    asked.lines().filter(|line| !is_look(line)).map(str::to_owned).collect()
}

const PULL: &str = "--config=paths.default=https://example.org/r pull --quiet";
const GOTO: &str = "goto --quiet --merge --tool=:local --rev=0000000000000000000000000000000000000002";
const COMMIT: &str = "commit --message=Sync the issues -- path:.waypost/issues.jsonl";
const PUSH: &str = "--config=paths.default=https://example.org/r push --quiet \
                    --rev=0000000000000000000000000000000000000003 --to=main";

#[test]
fn b19_sapling_is_asked_in_its_own_words() {
    let sandbox = sandbox();
    let (repo, asked) = sapling(&sandbox);
    let way = with_sapling(&sandbox, &repo);
    sandbox.write("offline", "");
    let run = way(&["sync"]).fails(8);
    assert!(run.stderr.contains("cannot pull"), "{}", run.stderr);
    std::fs::remove_file(sandbox.path("offline")).unwrap();
    std::fs::remove_file(&asked).unwrap();
    let done = way(&["sync", "--json"]).data();
    assert!(done["pushed"].is_string() && done["merged"] == true && done["upstream"] == "remote/main", "{done}");
    assert!(ledger(&repo).contains("Ours") && ledger(&repo).contains("Theirs"));
    assert_eq!(changes(&asked), [PULL, GOTO, COMMIT, PUSH]);
}

#[test]
fn sapling_puts_a_ledger_that_was_committed_apart_on_top_of_the_remotes() {
    let sandbox = sandbox();
    let (repo, asked) = sapling(&sandbox);
    let way = with_sapling(&sandbox, &repo);
    sandbox.write("own", format!("{LEDGER}\0\n{LEDGER}\0\n"));
    // Of both, one has a bookmark.
    sandbox.write("unused", "0000000000000000000000000000000000000001\n");
    let done = way(&["sync", "--json"]).data();
    assert!(done["pushed"].is_string() && done["merged"] == true, "{done}");
    assert!(ledger(&repo).contains("Ours") && ledger(&repo).contains("Theirs"));
    let hide = "hide --quiet --rev=0000000000000000000000000000000000000001";
    assert_eq!(changes(&asked), [PULL, GOTO, COMMIT, hide, PUSH]);
    let questions = std::fs::read_to_string(&asked).unwrap();
    let own = "only(0000000000000000000000000000000000000001, 0000000000000000000000000000000000000002)";
    let unused = format!("--rev={own} - ::(bookmark() + (descendants({own}) - {own}))");
    assert!(questions.contains(&unused), "{questions}");

    // What is not of the ledger stays where it is.
    sandbox.write("own", "other\0\n");
    sandbox.write("at", "1");
    let run = way(&["sync"]).fails(7);
    assert!(run.stderr.contains("commits of other files are not pushed yet"), "{}", run.stderr);
}

#[test]
fn a_sapling_repository_that_could_run_programs_is_refused_unasked() {
    let sandbox = sandbox();
    let (repo, asked) = sapling(&sandbox);
    let way = with_sapling(&sandbox, &repo);
    let path = "[paths]\ndefault = https://example.org/r\n";
    for (hostile, what) in [
        ("[hooks]\npre-commit = evil\n", "hooks.pre-commit"),
        ("[extensions]\nx = evil.py\n", "extensions.x"),
        ("[ui]\nssh = evil\n", "ui.ssh"),
        ("[ui]\nmerge = evil\n", "ui.merge"),
        ("%include /evil\n", "%include"),
        (" [hooks]\n", "[hooks]"),
    ] {
        sandbox.write(repo.join(".sl/config"), format!("{path}{hostile}"));
        let before = ledger(&repo);
        let run = way(&["sync"]).fails(7);
        assert!(run.stderr.contains(what) && run.stderr.contains("hint: "), "{hostile}: {}", run.stderr);
        assert_eq!(ledger(&repo), before);
        assert!(!asked.exists(), "{hostile}: Sapling was run");
    }
    sandbox.write(repo.join(".sl/config"), format!("{path}[ui]\nusername = me\n"));
    assert_eq!(way(&["sync", "--dry-run"]).code, 0);
}
