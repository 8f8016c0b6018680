//! Which work a claim or a worker takes: that of its worktree and of its repository, and how lists say where work is.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox};

use crate::support::jobs::Shop;
use crate::support::sandbox;

const WAY: &str = env!("CARGO_BIN_EXE_way");

/// Runs a command in a store.
#[track_caller]
fn way(sandbox: &Sandbox, dir: &Path, store: &str, args: &[&str]) -> Run {
    sandbox.way_with(dir, &[("WAYPOST_DB", store.as_ref())], args)
}

/// Creates and starts a workflow with one task of the same name.
#[track_caller]
fn start(sandbox: &Sandbox, dir: &Path, store: &str, name: &str, further: &[&str]) {
    let plan = sandbox.path(format!("{name}.txt"));
    sandbox.write(&plan, format!("{name}: Do it\n"));
    let args = ["workflow", "create", name, "--start", "--plan", plan.to_str().unwrap()];
    let _ = way(sandbox, dir, store, &[&args, further].concat()).ok();
}

/// Returns the values of a field in a list.
#[track_caller]
fn listed(sandbox: &Sandbox, dir: &Path, store: &str, field: &str, args: &[&str]) -> Vec<String> {
    let data = way(sandbox, dir, store, &[args, &["--json"]].concat()).data();
    let mut values: Vec<_> =
        data.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap().to_owned()).collect();
    values.sort();
    values
}

#[test]
fn a_list_says_which_repository_and_which_worktrees_its_records_are_of() {
    let sandbox = sandbox();
    let (one, two) = (sandbox.git_repo("one"), sandbox.git_repo("two"));
    let store = sandbox.path("shared.db");
    let store = store.to_str().unwrap();
    start(&sandbox, &one, store, "one", &["--only-here"]);
    start(&sandbox, &two, store, "two", &["--shared"]);
    let run = |args: &[&str]| way(&sandbox, &one, store, args);
    let _ = run(&["workflow", "create", "x", "--shared", "--only-here"]).fails(2);
    let all = run(&["task", "list"]).ok().stdout;
    assert!(all.lines().next().unwrap().contains("REPOSITORY"), "{all}");
    let kept = run(&["workflow", "show", "one"]).ok().stdout;
    assert!(kept.contains("its worktree only"), "{kept}");
    assert_eq!(listed(&sandbox, &one, store, "name", &["task", "list", "--here"]), ["one"]);
    for list in [["task", "list"], ["workflow", "list"], ["task", "next"]] {
        let filtered = listed(&sandbox, &one, store, "name", &[&list[..], &["--repo", "../two"]].concat());
        assert_eq!(filtered, ["two"], "{list:?}");
    }
    let shown = run(&["task", "show", "two"]).ok().stdout;
    assert!(shown.lines().any(|line| line.starts_with("repository") && line.ends_with("two")), "{shown}");
    let claimed = run(&["task", "claim", "--repo", "all", "--workflow", "two", "--agent", "ann", "--json"]).data();
    assert_eq!(claimed["task"]["repository"], "two");
}

/// A shop whose repository has a worktree `topic` with a commit of its own.
fn shop_with_topic() -> (Shop, PathBuf) {
    let shop = Shop::new();
    let _ = shop.sandbox.way(&shop.repo, ["worktree", "add", "topic", "../topic"]).ok();
    let topic = shop.sandbox.path("topic");
    shop.sandbox.write(topic.join("topic.txt"), "of the topic\n");
    shop.sandbox.git(&topic, ["add", "."]);
    shop.sandbox.git(&topic, ["commit", "--quiet", "-m", "Topic"]);
    (shop, topic)
}

/// A command that finishes the task of its job, with the files of its workspace as the outcome.
fn list_files() -> String {
    format!("{WAY} task done $WAYPOST_TASK --outcome \"$(ls | tr '\\n' ' ')\"")
}

/// Runs a command that uses the real clock, as the commands of jobs do.
#[track_caller]
fn now(shop: &Shop, dir: &Path, args: &[&str]) -> Run {
    let mut command = shop.sandbox.way_command(dir);
    shop.sandbox.run(command.env_remove("WAYPOST_TEST_CLOCK").arg("--quiet").args(args), "")
}

#[track_caller]
fn worker(shop: &Shop, dir: &Path, further: &[&str]) -> Value {
    let (start, end) = (["worker", "--agent", "w", "--until-empty", "--json"], ["--", "sh", "-c", &list_files()]);
    now(shop, dir, &[&start, further, &end].concat()).data()
}

fn outcome(shop: &Shop, task: &str) -> String {
    let task = shop.way(["task", "show", task, "--json"]).data();
    task["outcome"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_worker_takes_its_own_work_and_shared_work_and_that_of_a_worktree_it_chooses() {
    let (shop, topic) = shop_with_topic();
    start(&shop.sandbox, &topic, "", "own", &[]);
    start(&shop.sandbox, &shop.repo, "", "open", &[]);
    // An unfinished task of another worktree does not keep the worker waiting.
    let _ = now(&shop, &topic, &["task", "claim", "own", "--agent", "busy"]).ok();
    assert_eq!(worker(&shop, &shop.repo, &[])["started"], 1);
    assert_ne!(outcome(&shop, "open"), "");
    assert_eq!(outcome(&shop, "own"), "");
    let _ = now(&shop, &topic, &["task", "release", "own", "--agent", "busy"]).ok();
    assert_eq!(worker(&shop, &shop.repo, &["--worktree", "topic"])["completed"], 1);
    assert_ne!(outcome(&shop, "own"), "");
    let jobs = |name: &str| listed(&shop.sandbox, &shop.repo, "", "task", &["job", "list", "--worktree", name]);
    assert_eq!(jobs("topic"), ["own"], "the job works for the topic");
    assert_eq!(jobs("repo"), ["open", "own"], "both were requested here");
    let all = listed(&shop.sandbox, &shop.repo, "", "task", &["ws", "list", "--worktree", "topic"]);
    assert_eq!(all, ["own"]);
    let _ = shop.sandbox.way(&shop.repo, ["job", "list", "--worktree", "none"]).fails(3);
}

#[test]
fn a_job_starts_from_the_branch_of_the_worktree_that_planned_its_task() {
    let (shop, topic) = shop_with_topic();
    start(&shop.sandbox, &topic, "", "own", &["--shared"]);
    start(&shop.sandbox, &shop.repo, "", "open", &[]);
    assert_eq!(worker(&shop, &shop.repo, &["--workflow", "own"])["completed"], 1);
    assert_eq!(outcome(&shop, "own"), "file topic.txt ", "a worker in the main worktree");
    assert_eq!(worker(&shop, &topic, &["--workflow", "open"])["completed"], 1);
    assert_eq!(outcome(&shop, "open"), "file ", "a worker in the topic");
}

#[test]
fn the_branch_of_a_removed_worktree_is_still_where_its_tasks_start() {
    let (shop, topic) = shop_with_topic();
    start(&shop.sandbox, &topic, "", "own", &["--shared"]);
    start(&shop.sandbox, &topic, "", "late", &["--shared"]);
    shop.sandbox.git(&shop.repo, ["worktree", "remove", "--force", "../topic"]);
    assert_eq!(worker(&shop, &shop.repo, &["--workflow", "own"])["completed"], 1);
    assert_eq!(outcome(&shop, "own"), "file topic.txt ");
    shop.sandbox.git(&shop.repo, ["branch", "-q", "-D", "topic"]);
    let run = shop.way(["job", "start", "--task", "late", "--agent", "w", "--json", "--", "true"]);
    assert_ne!(run.code, 0);
    let jobs = shop.way(["job", "list", "--task", "late", "--json"]).data();
    let error = jobs[0]["error"].as_str().unwrap();
    assert!(error.contains("planned on branch topic") && error.contains("no commit topic"), "{error}");
}

#[test]
fn every_list_says_in_which_worktree_its_records_were_made() {
    let (shop, topic) = shop_with_topic();
    let sandbox = &shop.sandbox;
    start(sandbox, &shop.repo, "", "open", &[]);
    let alone = sandbox.way(&shop.repo, ["task", "list"]).ok().stdout;
    assert!(!alone.contains("WORKTREE"), "all of it is here: {alone}");
    start(sandbox, &topic, "", "own", &[]);
    let _ = sandbox.way(&topic, ["task", "claim", "own", "--agent", "ann"]).ok();
    let _ = sandbox.way(&topic, ["task", "checkpoint", "own", "--agent", "ann", "--summary", "half"]).ok();
    let _ = now(&shop, &topic, &["job", "start", "--agent", "ann", "--", "true"]).ok();
    let id = sandbox.way(&topic, ["where", "--json"]).data()["worktree"]["id"].clone();
    let lists: &[&[&str]] = &[
        &["workflow", "list"],
        &["task", "list"],
        &["job", "list"],
        &["agent", "list"],
        &["ws", "list"],
        &["checkpoint", "list", "own"],
    ];
    let check = |when: &str, mark: &str| {
        for args in lists {
            let text = shop.run(args).ok().stdout;
            if args[0] != "checkpoint" {
                assert!(text.lines().next().unwrap().contains("WORKTREE"), "{when}: {text}");
            }
            assert!(text.lines().any(|line| line.contains(mark)), "{when}: {text}");
            let data = shop.run(&[args, &["--json"][..]].concat()).data();
            let row = data.as_array().unwrap().iter().find(|row| row["worktree"]["id"] == id);
            let seen = &row.unwrap_or_else(|| panic!("{when}: {data}"))["worktree"];
            assert_eq!((&seen["name"], &seen["branch"]), (&json!("topic"), &json!("topic")), "{when}: {data}");
            assert_eq!(seen["path"], topic.to_str().unwrap(), "{when}: {data}");
            assert_eq!(seen["repository"], "repo");
        }
    };
    check("there", "topic");
    for args in &lists[..5] {
        let rows = |name: &str| shop.run(&[args, &["--json", "--worktree", name][..]].concat()).data();
        let rows = rows("topic");
        assert!(rows.as_array().unwrap().iter().all(|row| row["worktree"]["id"] == id), "{args:?}: {rows}");
        assert_eq!(rows.as_array().unwrap().len(), 1, "{args:?}: {rows}");
    }
    let _ = sandbox.way(&shop.repo, ["worktree", "rm", "topic", "--force"]).ok();
    check("removed", "topic (removed)");
    let shown = shop.run(&["task", "show", "own"]).ok().stdout;
    assert!(shown.contains("topic (removed), branch topic"), "{shown}");
}

#[test]
fn a_job_whose_workspace_is_gone_says_so() {
    let shop = Shop::new();
    let _ = shop.way(["job", "start", "--agent", "ann", "--", "true"]).ok();
    let job = shop.way(["job", "list", "--json"]).data()[0].clone();
    let (id, dir) = (job["id"].as_str().unwrap(), job["workspace_dir"].as_str().unwrap());
    assert_eq!(job["workspace_status"], "kept");
    let shown = shop.way(["job", "show", id]).ok().stdout;
    assert!(shown.contains(dir) && !shown.contains("gone"), "{shown}");
    std::fs::rename(Path::new(dir).parent().unwrap(), shop.sandbox.path("moved away")).unwrap();
    assert_eq!(shop.way(["job", "show", id, "--json"]).data()["workspace_status"], "lost");
    let shown = shop.way(["job", "show", id]).ok().stdout;
    assert!(shown.contains("lost, its directory is missing") && shown.contains(&format!("{dir} (gone)")), "{shown}");
    assert!(shop.way(["job", "list"]).ok().stdout.contains("completed, workspace gone"));
    let _ = shop.way(["job", "start", "--agent", "ann", "--cleanup", "--", "true"]).ok();
    let cleaned = shop.way(["job", "list", "--json"]).data()[0].clone();
    assert_eq!(cleaned["workspace_status"], "removed");
    assert!(shop.way(["job", "show", cleaned["id"].as_str().unwrap()]).ok().stdout.contains("(removed)"));
}

#[test]
fn a_worker_takes_other_repositories_only_if_it_is_told_to() {
    let shop = Shop::new();
    let other = shop.sandbox.git_repo("other");
    shop.sandbox.write(other.join("other.txt"), "x");
    shop.sandbox.git(&other, ["add", "."]);
    shop.sandbox.git(&other, ["commit", "--quiet", "-m", "Other"]);
    let store = shop.sandbox.path("shared.db");
    let store = store.to_str().unwrap();
    start(&shop.sandbox, &shop.repo, store, "mine", &[]);
    start(&shop.sandbox, &other, store, "theirs", &[]);
    let status = |task: &str| way(&shop.sandbox, &shop.repo, store, &["task", "show", task, "--json"]).data();
    assert_eq!(worker(&shop, &shop.repo, &["--db", store])["completed"], 1);
    assert_eq!((&status("mine")["status"], &status("theirs")["status"]), (&json!("completed"), &json!("pending")));
    assert_eq!(worker(&shop, &shop.repo, &["--db", store, "--any-repo"])["completed"], 1);
    assert_eq!(status("theirs")["outcome"], "file other.txt ");
    let jobs = |name: &str| listed(&shop.sandbox, &shop.repo, store, "task", &["job", "list", "--repo", name]);
    assert_eq!((jobs("other"), jobs("repo")), (vec!["theirs".to_owned()], vec!["mine".to_owned()]));
    let both = way(&shop.sandbox, &shop.repo, store, &["worker", "--any-repo", "--repo", "other", "--", "true"]);
    let _ = both.fails(2);
}
