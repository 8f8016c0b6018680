//! Commands in the workspace of a job work for the repository that owns it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use waypost_testkit::Run;

use crate::support::jobs::{Shop, path};
use crate::support::mounts::{Unmounted, require_overlays};

const WAY: &str = env!("CARGO_BIN_EXE_way");

/// A shop whose repository tracks a ledger with an epic and one part of it, which a workflow works on.
fn shop_with_epic() -> (Shop, String) {
    let shop = shop_with_ledger();
    let epic = shop.way(["add", "E", "-t", "epic", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let part = shop.way(["add", "P1", "--parent", &epic, "--json"]).data()["id"].as_str().unwrap().to_owned();
    commit_all(&shop, &shop.repo.clone());
    let _ = shop.way(["workflow", "from-issue", &epic, "--start"]).ok();
    (shop, part)
}

fn shop_with_ledger() -> Shop {
    let shop = Shop::new();
    let _ = shop.way(["init"]).ok();
    commit_all(&shop, &shop.repo.clone());
    shop
}

fn commit_all(shop: &Shop, repo: &Path) {
    shop.sandbox.git(repo, ["add", "--all"]);
    shop.sandbox.git(repo, ["commit", "--quiet", "-m", "Ledger"]);
}

/// Runs a command as a plain shell does, without the variables of the job.
fn run_in(shop: &Shop, dir: &Path, args: &[&str]) -> Run {
    let mut command: Command = shop.sandbox.way_command(dir);
    command.env_remove("WAYPOST_TEST_CLOCK").arg("--quiet").args(args);
    shop.sandbox.run(&mut command, "")
}

fn titles(shop: &Shop) -> Vec<(String, String)> {
    let all = shop.way(["list", "--all", "--json"]).data();
    let field = |issue: &Value, name: &str| issue[name].as_str().unwrap().to_owned();
    let mut all: Vec<_> =
        all.as_array().unwrap().iter().map(|issue| (field(issue, "title"), field(issue, "status"))).collect();
    all.sort();
    all
}

fn ledger(repo: &Path) -> String {
    fs::read_to_string(repo.join(".waypost/issues.jsonl")).unwrap_or_default()
}

#[test]
fn a_task_finished_in_a_workspace_closes_its_issue_in_the_owners_ledger() {
    for strategy in ["clone", "overlay", "worktree"] {
        let (shop, part) = shop_with_epic();
        let _mounts = Unmounted::below(&shop.root());
        if strategy == "overlay" {
            require_overlays(&shop);
        }
        let script = format!("{WAY} task done $WAYPOST_TASK --outcome x && git status --short");
        let tally =
            shop.way(["worker", "--until-empty", "--json", "--strategy", strategy, "--", "sh", "-c", &script]).data();
        assert_eq!(tally["completed"], 1, "{strategy}: {tally}");
        let issue = shop.way(["show", &part, "--json"]).data();
        assert_eq!(issue["status"], "closed", "{strategy}: {issue}");
        let job = shop.way(["job", "list", "--json"]).data()[0].clone();
        // The job's own `git status` printed nothing after the line about the task.
        let output = job["output"].as_str().unwrap();
        assert!(!output.contains(".waypost"), "{strategy}: {output}");
        let dir = path(&job["workspace_dir"]);
        assert_eq!(shop.sandbox.git(dir, ["status", "--porcelain"]), "", "{strategy}");
        // The job of the task is not claimable again.
        assert_eq!(shop.way(["worker", "--until-empty", "--json", "--", "true"]).data()["started"], 0, "{strategy}");
    }
}

#[test]
fn issue_commands_in_a_workspace_change_the_owners_ledger_and_leave_the_workspace_clean() {
    for strategy in ["clone", "overlay", "worktree", "copy"] {
        let shop = shop_with_ledger();
        let _mounts = Unmounted::below(&shop.root());
        if strategy == "overlay" {
            require_overlays(&shop);
        }
        let closed = shop.way(["add", "Close me", "--json"]).data()["id"].as_str().unwrap().to_owned();
        let claimed = shop.way(["add", "Claim me", "--json"]).data()["id"].as_str().unwrap().to_owned();
        commit_all(&shop, &shop.repo.clone());
        let script = format!(
            "mkdir sub && cd sub && {WAY} add Inside && {WAY} close {closed} && {WAY} claim {claimed} && rmdir ../sub"
        );
        let job = shop.job(&["--strategy", strategy], &script);
        assert_eq!(job["status"], "completed", "{strategy}: {job}");
        let expected = [("Claim me", "in_progress"), ("Close me", "closed"), ("Inside", "open")]
            .map(|(a, b)| (a.into(), b.into()));
        assert_eq!(titles(&shop), expected, "{strategy}");
        let dir = path(&job["workspace_dir"]);
        assert_eq!(shop.sandbox.git(dir, ["status", "--porcelain"]), "", "{strategy}");
        // A plain shell that is opened there later, also in a subdirectory.
        let sub = dir.join("later");
        fs::create_dir(&sub).unwrap();
        let _ = run_in(&shop, &sub, &["add", "Later"]).ok();
        let _ = run_in(&shop, dir, &["--repo", ".", "add", "Named"]).ok();
        fs::remove_dir(&sub).unwrap();
        assert!(ledger(&shop.repo).contains("Later") && ledger(&shop.repo).contains("Named"), "{strategy}");
        assert_eq!(shop.sandbox.git(dir, ["status", "--porcelain"]), "", "{strategy}");
        assert!(!ledger(dir).contains("Inside"), "{strategy}");
    }
}

#[test]
fn a_copy_of_a_directory_without_version_control_works_for_the_original() {
    let shop = Shop::new();
    let plain = shop.sandbox.dir("plain");
    let _ = run_in(&shop, &plain, &["init"]).ok();
    let script = format!("{WAY} add Inside && find . -name local");
    let args = ["job", "start", "--json", "--", "sh", "-c", &script];
    let job = run_in(&shop, &plain, &args).data();
    assert_eq!(job["status"], "completed", "{job}");
    assert!(!job["output"].as_str().unwrap().contains("local"), "{job}");
    let _ = run_in(&shop, path(&job["workspace_dir"]), &["add", "Later"]).ok();
    assert_eq!(ledger(&plain).lines().count(), 2);
    assert_eq!(ledger(path(&job["workspace_dir"])), "");
    assert!(!path(&job["workspace_dir"]).join(".waypost/local").exists());
}

#[test]
fn where_explains_in_a_workspace_whose_paths_it_uses() {
    let shop = shop_with_ledger();
    let worktree = shop.sandbox.path("linked");
    shop.sandbox.git(&shop.repo, ["worktree", "add", "--quiet", worktree.to_str().unwrap(), "-b", "linked"]);
    let owner = run_in(&shop, &worktree, &["status", "--json"]);
    assert_eq!(owner.code, 0, "{}", owner.whole());
    let job = run_in(&shop, &worktree, &["job", "start", "--json", "--", "true"]).data();
    let (id, dir) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]));
    let there = run_in(&shop, dir, &["where", "--json"]).data();
    let here = run_in(&shop, &worktree, &["where", "--json"]).data();
    for field in ["repository", "worktree", "route", "role"] {
        assert_eq!(there[field], here[field], "{field}");
    }
    for field in ["store", "ledger", "index", "config_shared", "config_private", "workspaces"] {
        assert_eq!(there[field]["path"], here[field]["path"], "{field}");
    }
    assert_eq!((&there["workspace"]["job"], &here["workspace"]), (&json!(id), &Value::Null));
    assert_eq!(there["workspace"]["owner"]["worktree"], here["worktree"]["path"]);
    for field in ["store", "ledger", "index", "config_shared", "config_private"] {
        let because = there[field]["because"].as_str().unwrap();
        assert!(because.contains(&format!("the owner of the workspace of job {id}")), "{field}: {because}");
    }
    let text = run_in(&shop, dir, &["where"]).ok().stdout;
    assert!(text.contains(&format!("workspace of job {id}, registered in ")), "{text}");
    // Records written there name the owner's worktree, and the workspace is not a worktree of its own.
    let _ = run_in(&shop, dir, &["workflow", "create", "inside"]).ok();
    let workflow = run_in(&shop, &shop.repo, &["workflow", "show", "inside", "--json"]).data();
    assert_eq!(workflow["worktree_id"], here["worktree"]["id"]);
    let worktrees = shop.way(["worktree", "list", "--json"]).data();
    assert!(!worktrees.to_string().contains(dir.to_str().unwrap()), "{worktrees}");
}

#[test]
fn a_workspace_uses_the_store_that_its_job_was_started_with() {
    let shop = shop_with_ledger();
    let named = shop.sandbox.path("named.db");
    let job = run_in(&shop, &shop.repo, &["--db", named.to_str().unwrap(), "job", "start", "--json", "--", "true"]);
    let job = job.data();
    let dir = path(&job["workspace_dir"]).to_owned();
    let there = run_in(&shop, &dir, &["where", "--json"]).data();
    assert_eq!(there["store"]["path"], named.to_str().unwrap());
    assert_eq!(there["store"]["source"], "workspace");
    let _ = run_in(&shop, &dir, &["job", "show", job["id"].as_str().unwrap()]).ok();
    // A flag and the variable still decide.
    let other = run_in(&shop, &dir, &["--global", "where", "--json"]).data();
    assert_eq!(other["store"]["source"], "flag");
    // If that store is gone, it is not replaced by an empty one.
    fs::remove_file(&named).unwrap();
    let run = run_in(&shop, &dir, &["workflow", "create", "x"]).fails(8);
    assert!(run.stderr.contains("named.db"), "{}", run.stderr);
    assert!(!named.exists());
}

#[test]
fn a_job_that_a_job_starts_belongs_to_the_same_owner_and_continues_from_its_commit() {
    let shop = shop_with_ledger();
    let inner = format!("cat file && {WAY} add Innermost");
    let script = format!("echo two > file && git commit --quiet -am Two && {WAY} job start -- sh -c '{inner}'");
    let job = shop.job(&[], &script);
    assert_eq!(job["status"], "completed", "{job}");
    assert!(job["output"].as_str().unwrap().contains("two"), "{job}");
    assert!(ledger(&shop.repo).contains("Innermost"));
}

#[test]
fn content_of_a_repository_cannot_make_it_a_workspace_of_another() {
    let shop = shop_with_ledger();
    let job = shop.job(&[], "true");
    let registered = shop.sandbox.path("home/.waypost/registry").join(format!("{}.json", job["id"].as_str().unwrap()));
    let entry: Value = serde_json::from_slice(&fs::read(&registered).unwrap()).unwrap();
    // A clone brings files that look like an entry and a workspace, in every place that a workspace has one.
    let evil = shop.sandbox.git_repo("jb_0123456789ab/workspace");
    let mut forged = entry.clone();
    forged["path"] = json!(evil.to_str().unwrap());
    let forged = forged.to_string();
    let plant = |repo: &Path, dir: &str| {
        fs::create_dir_all(repo.join(dir)).unwrap();
        shop.sandbox.write(repo.join(dir).join("jb_0123456789ab.json"), &forged);
    };
    for dir in [".waypost/registry", "registry", "../registry"] {
        plant(&evil, dir);
    }
    commit_all(&shop, &evil);
    let there = run_in(&shop, &evil, &["where", "--json"]).data();
    assert_eq!((&there["workspace"], &there["repository"]["path"]), (&Value::Null, &json!(evil.to_str().unwrap())));
    let _ = run_in(&shop, &evil, &["add", "Own"]).ok();
    assert!(!ledger(&shop.repo).contains("Own") && ledger(&evil).contains("Own"));
    // A private directory that is not ours is not even read.
    let archive = shop.sandbox.git_repo("archive/jb_0123456789ab/workspace");
    plant(&archive, ".git/waypost/registry");
    let _ = run_in(&shop, &archive, &["where"]).fails(7);
    // An entry names one path: another repository that is moved to a path of the same name does not get its rights.
    let moved = shop.sandbox.git_repo(PathBuf::from("other").join(job["id"].as_str().unwrap()).join("workspace"));
    assert_eq!(run_in(&shop, &moved, &["where", "--json"]).data()["workspace"], Value::Null);
}

#[test]
fn a_repository_inside_a_workspace_is_one_of_its_own() {
    let shop = shop_with_ledger();
    let job = shop.job(&[], "git init --quiet nested");
    let nested = path(&job["workspace_dir"]).join("nested");
    let _ = run_in(&shop, &nested, &["add", "Nested"]).ok();
    assert!(ledger(&nested).contains("Nested") && !ledger(&shop.repo).contains("Nested"));
    // But a worktree that the job added to its own repository is part of the workspace.
    let dir = path(&job["workspace_dir"]).to_owned();
    shop.sandbox.git(&dir, ["worktree", "add", "--quiet", "../beside", "-b", "beside"]);
    let _ = run_in(&shop, &dir.join("../beside"), &["add", "Beside"]).ok();
    assert!(ledger(&shop.repo).contains("Beside"));
}

#[test]
fn a_removed_workspace_leaves_the_register_and_a_reused_one_names_its_last_job() {
    let shop = shop_with_ledger();
    let job = shop.job(&[], "true");
    let (id, dir) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]).to_owned());
    let retried = shop.way(["job", "retry", id, "--same-workspace", "--json"]).data();
    let there = run_in(&shop, &dir, &["where", "--json"]).data();
    assert_eq!(there["workspace"]["job"], retried["id"]);
    let _ = shop.way(["ws", "rm", id]).ok();
    assert_eq!(fs::read_dir(shop.sandbox.path("home/.waypost/registry")).unwrap().count(), 0);
}

#[test]
fn a_workspace_follows_its_owner_when_the_worktree_moves_or_is_removed() {
    let shop = shop_with_ledger();
    let (linked, moved) = (shop.sandbox.path("linked"), shop.sandbox.path("moved"));
    shop.sandbox.git(&shop.repo, ["worktree", "add", "--quiet", linked.to_str().unwrap(), "-b", "linked"]);
    let job = run_in(&shop, &linked, &["job", "start", "--json", "--", "true"]).data();
    let dir = path(&job["workspace_dir"]).to_owned();
    shop.sandbox.git(&shop.repo, ["worktree", "move", linked.to_str().unwrap(), moved.to_str().unwrap()]);
    let there = run_in(&shop, &dir, &["where", "--json"]).data();
    assert_eq!(there["worktree"]["path"], moved.to_str().unwrap());
    shop.sandbox.git(&shop.repo, ["worktree", "remove", moved.to_str().unwrap()]);
    let there = run_in(&shop, &dir, &["where", "--json"]).data();
    assert_eq!(there["worktree"]["path"], shop.repo.to_str().unwrap());
}

#[test]
fn without_its_owner_a_workspace_reads_its_copy_with_a_warning_and_never_changes_it() {
    let shop = shop_with_ledger();
    let known = shop.way(["add", "Known", "--json"]).data()["id"].as_str().unwrap().to_owned();
    commit_all(&shop, &shop.repo.clone());
    let job = shop.job(&[], "true");
    let dir = path(&job["workspace_dir"]).to_owned();
    let before = ledger(&dir);
    fs::rename(&shop.repo, shop.sandbox.path("gone")).unwrap();
    let listed = run_in(&shop, &dir, &["list", "--json"]);
    let answer: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(answer["data"][0]["title"], "Known", "{}", listed.whole());
    assert!(answer["warnings"].to_string().contains("read from the workspace's copy"), "{}", listed.whole());
    // Its store was the owner's and is gone, too: nothing can keep a change, and none is made to the copy.
    for args in [["close", &known], ["add", "New"]] {
        let refused = run_in(&shop, &dir, &args).fails(8);
        assert!(refused.stderr.contains("is not at"), "{}", refused.stderr);
    }
    assert_eq!((ledger(&dir), shop.sandbox.git(&dir, ["status", "--porcelain"])), (before, String::new()));
    let there = run_in(&shop, &dir, &["where", "--json"]).data();
    assert!(there["workspace"]["unreachable"].as_str().unwrap().contains("is not at"), "{there}");
    // The owner is back.
    fs::rename(shop.sandbox.path("gone"), &shop.repo).unwrap();
    let _ = run_in(&shop, &dir, &["close", &known]).ok();
    assert_eq!(titles(&shop), [("Known".to_owned(), "closed".to_owned())]);
}

#[test]
fn changes_made_without_the_owner_wait_in_the_store_and_are_delivered_once() {
    let shop = shop_with_ledger();
    let known = shop.way(["add", "Known", "--json"]).data()["id"].as_str().unwrap().to_owned();
    commit_all(&shop, &shop.repo.clone());
    let job = run_in(&shop, &shop.repo, &["--global", "job", "start", "--json", "--", "true"]).data();
    let dir = path(&job["workspace_dir"]).to_owned();
    let before = ledger(&dir);
    fs::rename(&shop.repo, shop.sandbox.path("gone")).unwrap();
    let run = |args: &[&str]| {
        let run = run_in(&shop, &dir, args);
        assert_eq!(run.code, 0, "{}", run.whole());
        run
    };
    let added = run(&["--actor", "ann", "add", "New", "--json"]);
    let added = serde_json::from_str::<Value>(&added.stdout).unwrap();
    assert!(added["warnings"].to_string().contains("changes wait in the store"), "{added}");
    let new = added["data"]["id"].as_str().unwrap();
    // A later change sees those that wait.
    let _ = run(&["comment", new, "One"]);
    let _ = run(&["comment", new, "Two"]);
    let _ = run(&["close", &known[..known.len() - 1], "--reason", "done there"]);
    let _ = run_in(&shop, &dir, &["close", "no-such-issue"]).fails(3);
    assert_eq!((ledger(&dir), shop.sandbox.git(&dir, ["status", "--porcelain"])), (before.clone(), String::new()));
    // The next write that reaches the ledger delivers them, with their authors. Another one delivers nothing.
    fs::rename(shop.sandbox.path("gone"), &shop.repo).unwrap();
    for _ in 0..2 {
        let _ = run_in(&shop, &shop.repo, &["--global", "agent", "heartbeat"]).ok();
        let listed = run_in(&shop, &shop.repo, &["--global", "list", "--all", "--json"]).data();
        let of = |title: &str| listed.as_array().unwrap().iter().find(|issue| issue["title"] == title).unwrap().clone();
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
        assert_eq!((&of("Known")["status"], &of("New")["id"]), (&json!("closed"), &json!(new)), "{listed}");
        let shown = shop.way(["show", new, "--json"]).data();
        let comments = shown["comments"].as_array().unwrap().iter();
        let texts: Vec<_> = comments.map(|comment| comment["text"].as_str().unwrap()).collect();
        assert_eq!((texts, &shown["created_by"]), (vec!["One", "Two"], &json!("ann")), "{shown}");
    }
    let events = run_in(&shop, &shop.repo, &["--global", "events", "--kind", "issues.", "--json"]).data();
    let kinds: Vec<_> = events.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "issues.delivered").count(), 4, "{kinds:?}");
    assert_eq!(ledger(&dir), before);
}

#[test]
fn a_deferred_change_that_the_ledger_refuses_is_reported_and_not_tried_again() {
    let shop = shop_with_ledger();
    let issue = shop.way(["add", "Known", "--json"]).data()["id"].as_str().unwrap().to_owned();
    commit_all(&shop, &shop.repo.clone());
    let job = run_in(&shop, &shop.repo, &["--global", "job", "start", "--json", "--", "true"]).data();
    let dir = path(&job["workspace_dir"]).to_owned();
    fs::rename(&shop.repo, shop.sandbox.path("gone")).unwrap();
    let run = run_in(&shop, &dir, &["comment", &issue, "Late"]);
    assert_eq!(run.code, 0, "{}", run.whole());
    fs::rename(shop.sandbox.path("gone"), &shop.repo).unwrap();
    // Another program took the issue out of the ledger meanwhile.
    shop.sandbox.write(shop.repo.join(".waypost/issues.jsonl"), "");
    let run = run_in(&shop, &shop.repo, &["--global", "agent", "heartbeat"]);
    assert!(run.stderr.contains("refused a change"), "{}", run.whole());
    let _ = run_in(&shop, &shop.repo, &["--global", "agent", "heartbeat", "--json"]).ok();
    let events = run_in(&shop, &shop.repo, &["--global", "events", "--kind", "issues.delivered", "--json"]).data();
    assert!(events[0]["data"]["result"].as_str().unwrap().contains(&issue), "{events}");
}

#[test]
fn merging_the_ledger_in_a_workspace_uses_the_merge_driver() {
    let shop = shop_with_ledger();
    let _ = shop.way(["add", "One"]).ok();
    commit_all(&shop, &shop.repo.clone());
    let job = shop.job(&[], "true");
    let dir = path(&job["workspace_dir"]).to_owned();
    let driver = shop.sandbox.git(&dir, ["config", "merge.waypost.driver"]);
    assert!(driver.contains("merge-driver"), "{driver}");
}

#[test]
fn a_contributors_job_keeps_planning_out_of_the_delivered_branch() {
    for strategy in ["clone", "worktree"] {
        let shop = Shop::new();
        let _ = shop.way(["init", "--contributor"]).ok();
        let script = format!("{WAY} add PRIVATE && {WAY} where --json && echo c > c.txt");
        let job = shop.job(&["--strategy", strategy], &script);
        assert_eq!(job["status"], "completed", "{job}");
        let (id, dir) = (job["id"].as_str().unwrap(), path(&job["workspace_dir"]));
        let role = run_in(&shop, dir, &["where", "--json"]).data();
        assert_eq!(role["role"]["role"], "contributor", "{role}");
        assert_eq!(
            shop.sandbox.git(dir, ["status", "--porcelain", "--untracked-files=all"]),
            "?? c.txt\n",
            "{strategy}"
        );
        if strategy == "clone" {
            let _ = shop.way(["job", "deliver", id, "--commit", "f"]).ok();
            let branch = format!("waypost/{id}");
            let files = shop.sandbox.git(&shop.remote, ["ls-tree", "-r", "--name-only", &branch]);
            assert!(files.contains("c.txt") && !files.contains(".waypost"), "{files}");
        }
        let planned = shop.way(["list", "--json"]).data();
        assert_eq!(
            (&planned[0]["title"], &planned[0]["visibility"]),
            (&json!("PRIVATE"), &json!("local")),
            "{planned}"
        );
        assert_ne!(planned[0]["source_repo"], shop.repo.to_str().unwrap(), "{planned}");
        assert!(!shop.repo.join(".waypost/issues.jsonl").exists());
    }
}

#[test]
fn a_role_named_for_the_job_holds_in_its_workspace_and_survives_the_owner() {
    let shop = shop_with_ledger();
    let planning = shop.sandbox.git_repo("planning");
    let _ = run_in(&shop, &planning, &["init"]).ok();
    let additional = format!("repos.additional={}", planning.to_str().unwrap());
    let args = ["--role", "contributor", "--config", &additional, "job", "start", "--json", "--", WAY, "add", "One"];
    let job = run_in(&shop, &shop.repo, &args).data();
    assert_eq!(job["status"], "completed", "{job}");
    let dir = path(&job["workspace_dir"]).to_owned();
    let there = run_in(&shop, &dir, &["where", "--json"]).data();
    assert_eq!((&there["role"]["role"], &there["role"]["source"]), (&json!("contributor"), &json!("workspace")));
    fs::rename(&shop.repo, shop.sandbox.path("gone")).unwrap();
    let added = run_in(&shop, &dir, &["add", "Two"]);
    assert_eq!(added.code, 0, "{}", added.whole());
    let planned = ledger(&planning);
    assert!(planned.contains("One") && planned.contains("Two"), "{planned}");
    assert_eq!(ledger(&dir), "");
}
