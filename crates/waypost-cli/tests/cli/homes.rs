//! The three homes of a ledger: the main worktree, each worktree, and a branch of its own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waypost_testkit::Sandbox;

use crate::support::ledger::{LEDGER, add, lines};
use crate::support::{sandbox, text};

fn titles(sandbox: &Sandbox, repo: &Path) -> Vec<String> {
    let issues = sandbox.way(repo, ["list", "--all", "--limit", "0", "--json"]).data();
    let mut titles: Vec<String> =
        issues.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

fn status(sandbox: &Sandbox, repo: &Path) -> String {
    sandbox.git(repo, ["status", "--porcelain", "-uall"])
}

fn ledger_of(sandbox: &Sandbox, repo: &Path) -> Value {
    sandbox.way(repo, ["where", "--json"]).data()["ledger"].clone()
}

/// A remote, and a clone of it whose team keeps the issues on a branch of their own.
fn team(sandbox: &Sandbox) -> PathBuf {
    let seed = sandbox.git_repo("seed");
    sandbox.git(&seed, ["branch", "old"]);
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../project.git"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", "one"]);
    let one = sandbox.path("one");
    let data = sandbox.way(&one, ["init", "--team", "--json"]).data();
    assert_eq!(data["ledger_home"], "separate");
    sandbox.git(&one, ["add", ".waypost"]);
    sandbox.git(&one, ["commit", "-q", "-m", "way init"]);
    sandbox.git(&one, ["push", "-q"]);
    one
}

fn commits(sandbox: &Sandbox, repo: &Path, branch: &str) -> usize {
    sandbox.git(repo, ["rev-list", "--count", branch]).trim().parse().unwrap()
}

#[test]
fn a_separate_ledger_stays_out_of_the_users_files_branches_and_pull_requests() {
    let sandbox = sandbox();
    let one = team(&sandbox);
    sandbox.git(&one, ["switch", "-q", "-c", "topic"]);
    let first = add(&sandbox, &one, &["First"]);
    let ledger = ledger_of(&sandbox, &one);
    assert_eq!(ledger["home"], "separate");
    assert!(ledger["path"].as_str().unwrap().contains("/.git/waypost/"), "{ledger}");
    assert!(!one.join(LEDGER).exists());
    assert_eq!(status(&sandbox, &one), "");

    // Neither a branch from before the configuration nor a detached commit hides an issue.
    for revision in ["old", "origin/main", "topic"] {
        sandbox.git(&one, ["checkout", "-q", revision]);
        assert_eq!(titles(&sandbox, &one), ["First"], "{revision}");
    }
    sandbox.git(&one, ["worktree", "add", "-q", "../tree", "old"]);
    let tree = sandbox.path("tree");
    add(&sandbox, &tree, &["From a linked worktree"]);
    let _ = sandbox.way(&tree, ["close", &first]).ok();
    assert_eq!(titles(&sandbox, &one), ["First", "From a linked worktree"]);
    assert_eq!([status(&sandbox, &one), status(&sandbox, &tree)], ["", ""]);

    // Sync commits and pushes the ledger's branch and no other.
    sandbox.write(one.join("file"), "mine, not staged\n");
    let refs =
        || sandbox.git(&one, ["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/remotes"]);
    let others = |refs: String| refs.lines().filter(|line| !line.contains("/waypost ")).collect::<Vec<_>>().join("\n");
    let (before, head) = (others(refs()), sandbox.git(&one, ["rev-parse", "HEAD"]));
    let done = sandbox.way(&one, ["sync", "--json"]).data();
    assert!(done["committed"].is_string() && done["committed"] == done["pushed"], "{done}");
    assert_eq!(done["upstream"], "origin/waypost");
    assert_eq!((others(refs()), sandbox.git(&one, ["rev-parse", "HEAD"])), (before, head));
    assert_eq!(status(&sandbox, &one), " M file\n");
    let remote = sandbox.path("project.git");
    assert_eq!(sandbox.git(&remote, ["ls-tree", "-r", "--name-only", "waypost"]), format!("{LEDGER}\n"));
    let again = sandbox.way(&one, ["sync", "--json"]).data();
    assert!(again["committed"].is_null() && again["pushed"].is_null() && again["merged"] == false, "{again}");

    // A pull request of the topic contains the code alone.
    sandbox.git(&one, ["commit", "-q", "-a", "-m", "code"]);
    assert_eq!(sandbox.git(&one, ["diff", "--name-only", "origin/main...topic"]), "file\n");
    sandbox.git(&one, ["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn clones_share_a_separate_ledger_through_its_branch() {
    let sandbox = sandbox();
    let one = team(&sandbox);
    add(&sandbox, &one, &["From one"]);
    let _ = sandbox.way(&one, ["sync"]).ok();
    // A fresh clone finds the issues at once, without a command that fetches.
    sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", "two"]);
    let two = sandbox.path("two");
    assert_eq!(sandbox.way(&two, ["status", "--json"]).data()["issues"]["open"], 1);
    assert_eq!(titles(&sandbox, &two), ["From one"]);
    assert_eq!(status(&sandbox, &two), "");
    // So does one that fetched no other branch, after a sync.
    let url = format!("file://{}", sandbox.path("project.git").display());
    sandbox.git(&sandbox.path("."), ["clone", "-q", "--single-branch", &url, "three"]);
    let three = sandbox.path("three");
    assert!(titles(&sandbox, &three).is_empty());
    let _ = sandbox.way(&three, ["sync"]).ok();
    assert_eq!(titles(&sandbox, &three), ["From one"]);

    // Changes on both sides converge, also without a push in between.
    add(&sandbox, &one, &["Again from one"]);
    add(&sandbox, &two, &["From two"]);
    let run = sandbox.way(&one, ["sync", "--no-push"]);
    assert!(run.code == 0 && run.stderr.contains("nothing was pushed to origin/waypost"), "{run:?}");
    for repo in [&two, &one, &two, &three] {
        let _ = sandbox.way(repo, ["sync"]).ok();
    }
    for repo in [&one, &two, &three] {
        assert_eq!(titles(&sandbox, repo), ["Again from one", "From one", "From two"]);
        assert_eq!(sandbox.git(repo, ["rev-parse", "waypost"]), sandbox.git(&one, ["rev-parse", "waypost"]));
    }
    assert_eq!(commits(&sandbox, &one, "main"), commits(&sandbox, &two, "main"));
}

#[test]
fn a_separate_ledger_is_refused_where_its_branch_cannot_be_used() {
    let sandbox = sandbox();
    let one = team(&sandbox);
    add(&sandbox, &one, &["First"]);
    let _ = sandbox.way(&one, ["sync"]).ok();
    sandbox.git(&one, ["worktree", "add", "-q", "../looking", "waypost"]);
    add(&sandbox, &one, &["Second"]);
    let run = sandbox.way(&one, ["sync"]).fails(7);
    assert!(run.stderr.contains("is checked out in"), "{}", run.stderr);
    sandbox.git(&one, ["worktree", "remove", "../looking"]);
    let _ = sandbox.way(&one, ["sync"]).ok();

    // A branch of that name that is not a ledger stays as it is.
    let other = sandbox.git_repo("other");
    sandbox.git(&other, ["branch", "waypost"]);
    sandbox.git(&other, ["clone", "-q", "--bare", ".", "../other.git"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "other.git", "clone"]);
    let clone = sandbox.path("clone");
    let _ = sandbox.way(&clone, ["config", "set", "ledger.home", "separate"]).ok();
    add(&sandbox, &clone, &["Mine"]);
    let run = sandbox.way(&clone, ["sync"]).fails(7);
    assert!(run.stderr.contains("has no ledger"), "{}", run.stderr);
    assert_eq!(sandbox.git(&sandbox.path("other.git"), ["log", "--format=%s", "waypost"]).lines().count(), 1);
}

#[test]
fn moving_a_ledger_between_homes_keeps_its_issues_and_its_history() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (kept, pruned) = (add(&sandbox, &repo, &["Kept"]), add(&sandbox, &repo, &["Pruned"]));
    let save = |message: &str| {
        sandbox.git(&repo, ["add", "-A", "."]);
        sandbox.git(&repo, ["commit", "-q", "-m", message]);
    };
    save("ledger");
    let _ = sandbox.way(&repo, ["update", &kept, "--title", "Renamed"]).ok();
    let _ = sandbox.way(&repo, ["close", &pruned]).ok();
    save("second");
    let later = [("WAYPOST_TEST_CLOCK", "2026-03-01T00:00:00Z".as_ref())];
    let run = sandbox.way_with(&repo, &later, ["prune", "--closed-before", "14d"]);
    assert_eq!(run.code, 0, "{run:?}");
    save("pruned");
    let subjects = |repo: &Path| -> Vec<Value> {
        let data = sandbox.way(repo, ["log", &kept, "--json"]).data();
        data["steps"].as_array().unwrap_or(data.as_array().unwrap_or(&Vec::new())).clone()
    };
    let before = (subjects(&repo).len(), titles(&sandbox, &repo));
    assert!(before.0 >= 2, "{before:?}");

    // A dry run changes nothing.
    let dry = sandbox.way(&repo, ["migrate", "--home", "separate", "--dry-run", "--json"]).data();
    assert_eq!((&dry["from"], &dry["home"], &dry["written"]), (&json!("main"), &json!("separate"), &json!(false)));
    assert_eq!((status(&sandbox, &repo), ledger_of(&sandbox, &repo)["home"].clone()), (String::new(), json!("main")));

    let moved = sandbox.way(&repo, ["migrate", "--home", "separate", "--json"]).data();
    assert_eq!((&moved["home"], moved["issues"].as_u64()), (&json!("separate"), Some(before.1.len() as u64)));
    assert_eq!(lines(&repo.join(LEDGER)), [""; 0]);
    save("separate");
    assert_eq!((subjects(&repo).len(), titles(&sandbox, &repo)), before);
    assert!(sandbox.git(&repo, ["log", "--format=%s", "waypost"]).contains("second"));
    let shown = sandbox.way(&repo, ["show", &pruned, "--json"]);
    assert!(shown.code == 0 && shown.stdout.contains("Pruned"), "{shown:?}");
    add(&sandbox, &repo, &["In the branch"]);
    let run = sandbox.way(&repo, ["sync"]);
    assert_eq!(run.code, 0, "{run:?}");

    // A branch from before has a copy of its own, which no command changes.
    sandbox.git(&repo, ["switch", "-q", "-c", "before", "HEAD~1"]);
    let copy = std::fs::read(repo.join(LEDGER)).unwrap();
    assert_eq!(titles(&sandbox, &repo).len(), before.1.len() + 1);
    add(&sandbox, &repo, &["On an old branch"]);
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), copy);
    sandbox.git(&repo, ["switch", "-q", "main"]);

    let all = titles(&sandbox, &repo);
    for home in ["main", "branch", "main", "separate", "branch", "separate", "main"] {
        let _ = sandbox.way(&repo, ["migrate", "--home", home]).ok();
        assert_eq!(ledger_of(&sandbox, &repo)["home"], home);
        assert_eq!(titles(&sandbox, &repo), all, "{home}");
        save(home);
        assert!(subjects(&repo).len() >= before.0, "{home}");
        let shown = sandbox.way(&repo, ["show", &pruned, "--json"]);
        assert!(shown.code == 0 && shown.stdout.contains("Pruned"), "{home}: {shown:?}");
    }
    assert_eq!(lines(&repo.join(LEDGER)).iter().filter(|line| line.contains("\"title\"")).count(), all.len());
    let _ = sandbox.way(&repo, ["migrate", "--home", "elsewhere"]).fails(2);
    let _ = sandbox.way(&repo, ["migrate", "--home", "main", "--move-to", "."]).fails(2);
    let _ = sandbox.way(&repo, ["migrate"]).fails(2);
}

#[test]
fn init_for_a_team_moves_an_existing_ledger_to_its_own_branch() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    add(&sandbox, &repo, &["Before"]);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let run = sandbox.way(&repo, ["init", "--team"]).ok();
    assert!(run.stdout.contains("Issues are on the branch waypost"), "{}", run.stdout);
    assert_eq!(titles(&sandbox, &repo), ["Before"]);
    assert_eq!(lines(&repo.join(LEDGER)), [""; 0]);
    let again = sandbox.way(&repo, ["init", "--team", "--json"]).data();
    assert_eq!(again["created"], json!([]));
    // Without --team the ledger stays with the files.
    let plain = sandbox.git_repo("plain");
    let data = sandbox.way(&plain, ["init", "--json"]).data();
    assert_eq!(data["ledger_home"], "main");
}

#[test]
fn a_jj_repository_keeps_a_separate_ledger_out_of_its_commits() {
    for colocated in [true, false] {
        let sandbox = sandbox();
        let seed = sandbox.git_repo("seed");
        sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../project.git"]);
        let clone = |name: &str| {
            let how = if colocated { "--colocate" } else { "--no-colocate" };
            sandbox.jj(&sandbox.path("."), ["git", "clone", "--quiet", how, "project.git", name]);
            let repo = sandbox.path(name);
            let _ = sandbox.way(&repo, ["config", "set", "ledger.home", "separate"]).ok();
            repo
        };
        let one = clone("one");
        add(&sandbox, &one, &["From one"]);
        assert_eq!(sandbox.jj(&one, ["diff", "--name-only"]), "");
        let commit = sandbox.jj(&one, ["log", "--no-graph", "-r", "@ | main", "-T", r#"commit_id ++ "\n""#]);
        let done = sandbox.way(&one, ["sync", "--json"]).data();
        assert!(done["pushed"].is_string() && done["upstream"] == "origin/waypost", "{done}");
        let now = sandbox.jj(&one, ["log", "--no-graph", "-r", "@ | main", "-T", r#"commit_id ++ "\n""#]);
        assert_eq!(now, commit, "the working copy and main stay where they were");
        let two = clone("two");
        assert_eq!(titles(&sandbox, &two), ["From one"]);
        sandbox.jj(&two, ["new", "root()"]);
        assert_eq!(titles(&sandbox, &two), ["From one"]);
        add(&sandbox, &two, &["From two"]);
        for repo in [&two, &one] {
            let run = sandbox.way(repo, ["sync"]);
            assert_eq!(run.code, 0, "{run:?}");
        }
        assert_eq!(titles(&sandbox, &one), ["From one", "From two"]);
        // The ledger of a jj repository moves with its history too.
        let _ = sandbox.way(&one, ["migrate", "--home", "main"]).ok();
        sandbox.jj(&one, ["commit", "-m", "ledger"]);
        assert_eq!(titles(&sandbox, &one), ["From one", "From two"]);
        let _ = sandbox.way(&one, ["migrate", "--home", "separate"]).ok();
        assert_eq!(titles(&sandbox, &one), ["From one", "From two"]);
        assert_eq!(lines(&one.join(LEDGER)), [""; 0]);
    }
}

#[test]
fn mercurial_says_which_homes_it_can_have() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    let run = sandbox.way(&repo, ["migrate", "--home", "separate"]).fails(7);
    assert!(run.stderr.contains("needs git or jj") && run.stderr.contains("repos.primary"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["init", "--team"]);
    assert!(run.code == 0 && run.stderr.contains("only git and jj"), "{run:?}");
    add(&sandbox, &repo, &["Mine"]);
    assert!(repo.join(LEDGER).exists());
}

#[test]
fn a_sync_of_a_separate_ledger_killed_before_any_of_its_commands_is_repaired_by_the_next() {
    let sandbox = sandbox();
    let one = team(&sandbox);
    sandbox.git(&one, ["switch", "-q", "-c", "topic"]);
    sandbox.write(one.join("file"), "mine, not staged\n");
    add(&sandbox, &one, &["First"]);
    let _ = sandbox.way(&one, ["sync"]).ok();
    sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", "two"]);
    let two = sandbox.path("two");
    // Kills the process that starts git for the n-th time.
    let git = String::from_utf8(sandbox.command("which", &one).arg("git").output().unwrap().stdout).unwrap();
    sandbox.dir("bin");
    sandbox.program(
        "bin/git",
        format!(
            "#!/bin/sh\ndir=$(dirname \"$0\")\nleft=$(($(cat \"$dir/left\") - 1))\necho $left > \"$dir/left\"\n\
             if [ $left = 0 ]; then kill -9 $PPID; exit 1; fi\nexec {} \"$@\"\n",
            git.trim()
        ),
    );
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    let refs = || {
        let all = sandbox.git(&one, ["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]);
        let others: Vec<&str> = all.lines().filter(|line| !line.contains("/waypost ")).collect();
        (others.join("\n"), sandbox.git(&one, ["rev-parse", "HEAD"]), status(&sandbox, &one))
    };
    let before = refs();
    let mut expected = vec!["First".to_owned()];
    let mut killed = 0;
    for number in (1..).step_by(2) {
        // Both clones have changes, so that this one has to merge.
        for (repo, from) in [(&one, "one"), (&two, "two")] {
            let title = format!("{number} from {from}");
            add(&sandbox, repo, &[&title]);
            expected.push(title);
        }
        let _ = sandbox.way(&two, ["sync"]).ok();
        sandbox.write("bin/left", number.to_string());
        let run = sandbox.way_process(&one, &[("PATH", path.as_ref())], ["sync"]);
        assert_eq!(refs(), before, "killed before command {number}");
        let own = expected.iter().filter(|title| !title.ends_with("two"));
        let shown = titles(&sandbox, &one);
        assert!(own.clone().all(|title| shown.contains(title)), "killed before command {number}: {shown:?}");
        if run.code == 0 {
            break;
        }
        killed += 1;
        add(&sandbox, &one, &[&format!("After {number}")]);
        expected.push(format!("After {number}"));
        let _ = sandbox.way(&one, ["sync"]).ok();
        let _ = sandbox.way(&two, ["sync"]).ok();
        expected.sort();
        for repo in [&one, &two] {
            assert_eq!(titles(&sandbox, repo), expected, "after being killed before command {number}");
        }
        assert_eq!(refs(), before, "after being killed before command {number}");
    }
    assert!(killed > 5, "killed only {killed} times");
    let remote = sandbox.path("project.git");
    assert_eq!(sandbox.git(&remote, ["ls-tree", "-r", "--name-only", "waypost"]), format!("{LEDGER}\n"));
    sandbox.git(&one, ["fsck", "--strict", "--no-dangling"]);
}

/// Two clones of a project whose ledger is in the main worktree, with one issue in it.
fn clones(sandbox: &Sandbox) -> [PathBuf; 2] {
    let seed = sandbox.git_repo("seed");
    add(sandbox, &seed, &["First"]);
    let _ = sandbox.way(&seed, ["init"]).ok();
    sandbox.git(&seed, ["add", "."]);
    sandbox.git(&seed, ["commit", "-q", "-m", "ledger"]);
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../project.git"]);
    ["one", "two"].map(|name| {
        sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", name]);
        let _ = sandbox.way(&sandbox.path(name), ["list"]).ok();
        sandbox.path(name)
    })
}

#[test]
fn b28_an_issue_added_before_a_clone_knows_of_the_new_home_is_merged_there() {
    let sandbox = sandbox();
    let [one, two] = clones(&sandbox);
    let _ = sandbox.way(&one, ["migrate", "--home", "separate"]).ok();
    let _ = sandbox.way(&one, ["sync"]).ok();
    add(&sandbox, &two, &["Late"]);
    let _ = sandbox.way(&two, ["sync"]).ok();
    sandbox.git(&one, ["commit", "-q", "-a", "-m", "move"]);
    sandbox.git(&one, ["pull", "-q", "--no-rebase", "--no-edit"]);
    assert_eq!(titles(&sandbox, &one), ["First", "Late"]);
    sandbox.git(&one, ["push", "-q"]);
    sandbox.git(&two, ["pull", "-q", "--no-rebase", "--no-edit"]);
    assert_eq!(titles(&sandbox, &two), ["First", "Late"]);
    add(&sandbox, &two, &["Later"]);
    for repo in [&one, &two, &one] {
        let _ = sandbox.way(repo, ["sync"]).ok();
    }
    for repo in [&one, &two] {
        assert_eq!(titles(&sandbox, repo), ["First", "Late", "Later"]);
        assert_eq!(ledger_of(&sandbox, repo)["home"], "separate");
    }
}

#[test]
fn b28_an_issue_added_to_a_home_that_the_ledger_left_is_carried_over() {
    let sandbox = sandbox();
    let [one, two] = clones(&sandbox);
    let _ = sandbox.way(&one, ["migrate", "--home", "separate"]).ok();
    let _ = sandbox.way(&one, ["sync"]).ok();
    sandbox.git(&one, ["commit", "-q", "-a", "-m", "move"]);
    sandbox.git(&one, ["push", "-q"]);
    add(&sandbox, &two, &["Late"]);
    let run = sandbox.way(&two, ["sync"]);
    assert_eq!(run.code, 0, "{run:?}");
    sandbox.git(&two, ["pull", "-q", "--no-rebase", "--no-edit"]);
    assert_eq!(titles(&sandbox, &two), ["First", "Late"]);
    sandbox.git(&two, ["push", "-q"]);
    sandbox.git(&one, ["pull", "-q", "--no-rebase", "--no-edit"]);
    assert_eq!(titles(&sandbox, &one), ["First", "Late"]);
    // What was carried over once is not brought back: its label was removed since.
    let id = sandbox.way(&one, ["list", "--json"]).data()[0]["id"].as_str().unwrap().to_owned();
    let _ = sandbox.way(&one, ["update", &id, "--title", "Renamed"]).ok();
    let _ = sandbox.way(&one, ["migrate", "--home", "separate"]).ok();
    assert_eq!(lines(&one.join(LEDGER)), [""; 0], "what is left is removed on request");
    assert_eq!(titles(&sandbox, &one).len(), 2);
}
