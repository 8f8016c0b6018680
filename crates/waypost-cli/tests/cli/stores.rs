//! The store's file: created on demand, private, intact, never mixed with another.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::support::ledger::add;
use crate::support::stores::events;
use crate::support::{sandbox, text};

/// Everything about a store's files that a write would change.
fn fingerprint(dir: &Path) -> Vec<(String, Vec<u8>, i64, i64)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let metadata = std::fs::metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let content = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            (name, content, metadata.mtime(), metadata.mtime_nsec())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a7_directories_are_made_on_demand_and_twenty_at_once_succeed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["--db", "../a/b/c/x.db", "db", "probe"]).ok();
    let before = fingerprint(&sandbox.path("a/b/c"));
    let _ = sandbox.way(&repo, ["--db", "../a/b/c/x.db", "status"]).ok();
    let names = |files: &[(String, Vec<u8>, i64, i64)]| {
        files.iter().map(|file| (file.0.clone(), file.1.clone())).collect::<Vec<_>>()
    };
    let after = fingerprint(&sandbox.path("a/b/c"));
    let changed = |name: &str| {
        names(&before).iter().find(|file| file.0 == name) != names(&after).iter().find(|file| file.0 == name)
    };
    assert!(!changed("x.db") && !changed("x.db-wal"), "the second run changes nothing");

    for round in 0..5 {
        let fresh = sandbox.git_repo(format!("fresh{round}"));
        let children: Vec<_> = (0..20)
            .map(|_| {
                let mut command = sandbox.way_command(&fresh);
                command.args(["db", "probe", "--writes", "1", "--json"]);
                command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        // One repository, one worktree, twenty writes.
        assert_eq!(events(&sandbox, &fresh), 22);
        let _ = sandbox.way(&fresh, ["db", "check"]).ok();
    }
}

#[test]
fn a8_git_does_not_see_the_store() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for command in [vec!["status"], vec!["db", "probe"], vec!["worktree", "add", "topic"], vec!["doctor"]] {
        let _ = sandbox.way(&repo, &command).ok();
        assert_eq!(sandbox.git(&repo, ["status", "--porcelain", "--untracked-files=all"]), "", "{command:?}");
    }
    let _ = sandbox.way(&repo, ["init"]).ok();
    assert_eq!(
        sandbox.git(&repo, ["status", "--porcelain", "--untracked-files=all"]),
        "?? .waypost/.gitattributes\n?? .waypost/.gitignore\n?? .waypost/config.toml\n",
        "only what init was asked to track"
    );
    let _ = sandbox.way(&repo, ["worktree", "add", "other"]).ok();
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "adopt"]);
    let _ = sandbox.way(&repo, ["worktree", "add", "third"]).ok();
    for tree in ["repo", "repo-topic", "repo-other", "repo-third"] {
        assert_eq!(sandbox.git(&sandbox.path(tree), ["status", "--porcelain"]), "", "{tree}");
    }
}

#[test]
fn a9_other_stores_are_left_alone() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["--global", "db", "probe"]).ok();
    let old = sandbox.dir("home/.agentos");
    sandbox.write(old.join("issue_workflow.db"), "a database of another program");
    let global = || {
        let mut files = fingerprint(&sandbox.path("home/.waypost"));
        // The register names the store of the repository, too.
        files.retain(|(name, ..)| name != "stores");
        files
    };
    let before = (global(), fingerprint(&old));
    for command in [vec!["status"], vec!["db", "probe"], vec!["init"], vec!["db", "vacuum"], vec!["doctor", "--fix"]] {
        let _ = sandbox.way(&repo, &command).ok();
    }
    assert!((global(), fingerprint(&old)) == before);
}

#[test]
fn a12_one_schema_and_one_doctor_for_all_state() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let findings = sandbox.way(&repo, ["doctor", "--json"]).data();
    let checks: Vec<_> =
        findings.as_array().unwrap().iter().map(|finding| finding["check"].as_str().unwrap().to_owned()).collect();
    assert_eq!(checks, ["git", "config", "sandbox", "permissions", "identity", "store", "worktrees"]);
    assert!(findings.as_array().unwrap().iter().all(|finding| finding["verdict"] == "ok"), "{findings}");
    let info = sandbox.way(&repo, ["db", "info", "--json"]).data();
    let tables: Vec<_> = info["rows"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        tables.join(" "),
        "agents answers checkpoints deferred_changes dependencies events job_logs jobs leases machines messages notices \
         repositories summaries tasks templates workflow_repositories workflows workspaces worktrees"
    );
}

#[test]
fn g9_two_names_for_one_file_mean_one_lock() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let real = sandbox.dir("real");
    symlink(&real, sandbox.path("linked-dir")).unwrap();
    let _ = sandbox.way(&repo, ["--db", text(&real.join("state.db")), "db", "probe", "--writes", "1"]).ok();
    symlink(real.join("state.db"), sandbox.path("linked.db")).unwrap();
    let names = ["../real/state.db", "../linked-dir/state.db", "../linked.db"];
    let children: Vec<_> = (0..9)
        .map(|number| {
            let mut command = sandbox.way_command(&repo);
            command.args(["--db", names[number % 3], "db", "probe", "--writes", "20"]);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for name in names {
        let info = sandbox.way(&repo, ["--db", name, "db", "info", "--json"]).data();
        assert_eq!(info["path"], text(&real.join("state.db")), "{name}");
        assert_eq!(info["rows"]["events"], 183, "{name}");
    }
    assert!(real.join("state.db-gate").exists());
    assert!(!sandbox.path("linked.db-gate").exists());

    // The private directory itself is not a link: that could lead to another repository's.
    let other = sandbox.git_repo("other");
    symlink(sandbox.dir("far"), other.join(".git/waypost")).unwrap();
    let _ = sandbox.way(&other, ["status"]).fails(7);
    assert!(!sandbox.path("far/state.db").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_waited_through_an_upgrade_does_not_write() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let private = repo.join(".git/waypost");
    let gate = std::fs::OpenOptions::new().write(true).open(private.join("state.db-gate")).unwrap();
    gate.lock().unwrap();
    let mut command = sandbox.way_command(&repo);
    let mut child = command
        .args(["db", "probe", "--writes", "1"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // A process that waits for the gate has opened the store.
    let is_waiting = |pid: u32| {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("->") && line.contains(&format!(" {pid} ")))
    };
    while !is_waiting(child.id()) && child.try_wait().unwrap().is_none() {
        waypost_testkit::pause();
    }
    let newer = rusqlite::Connection::open(private.join("state.db")).unwrap();
    newer.pragma_update(None, "user_version", 999).unwrap();
    drop(newer);
    gate.unlock().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(8), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("schema version 999"), "{output:?}");
}

/// A store with schema 7, as a program of that version wrote it: a workflow whose first task is done and whose second one has
/// a checkpoint of an agent that stopped, with agents, a message, a template and a job.
const SCHEMA_7: &str = include_str!("../fixtures/schema-7.sql");

fn old_store(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.path("old.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    // The dump is ordered by name, not by reference.
    old.pragma_update(None, "foreign_keys", false).unwrap();
    old.execute_batch(SCHEMA_7).unwrap();
    old.pragma_update(None, "application_id", 0x5761_7950).unwrap();
    old.pragma_update(None, "user_version", 7).unwrap();
    path
}

#[test]
#[cfg(target_os = "linux")]
fn f58_a_migration_that_is_killed_before_any_write_leaves_a_whole_store() {
    const WRITES: &str = "pwrite64,write,ftruncate,fsync,fdatasync,unlink,rename";
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let old = std::fs::read(old_store(&sandbox)).unwrap();
    let path = sandbox.path("killed.db");
    let traced = |options: &[&str]| {
        for file in ["", "-wal", "-shm", "-journal", "-gate"] {
            let _ = std::fs::remove_file(format!("{}{file}", path.display()));
        }
        sandbox.write(&path, &old);
        let way = sandbox.way_command(&repo);
        let mut strace = sandbox.command(waypost_testkit::strace(), &repo);
        strace
            .args(["-f", "-qq", "-o"])
            .arg(sandbox.path("trace"))
            .args(["-e", &format!("trace={WRITES}")])
            .args(options);
        strace.arg(way.get_program()).args(way.get_args()).args(["--db", text(&path), "db", "probe", "--writes", "1"]);
        strace.output().unwrap().status
    };
    assert!(traced(&[]).success());
    let mut calls = std::collections::BTreeMap::<String, usize>::new();
    for line in std::fs::read_to_string(sandbox.path("trace")).unwrap().lines() {
        let name = line.split(' ').find_map(|word| word.split_once('(')).map_or("", |(name, _)| name);
        if WRITES.split(',').any(|write| write == name) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    let mut killed = 0;
    for (name, count) in calls {
        for number in (1..=count).step_by(count.div_ceil(12)) {
            let status = traced(&["-e", &format!("inject={name}:signal=SIGKILL:when={number}")]);
            killed += usize::from(!status.success());
            let way = |args: &[&str]| sandbox.way(&repo, [&["--db", text(&path)], args].concat());
            assert_eq!(way(&["db", "check", "--json"]).data()["ok"], true, "{name} {number}");
            let tasks = way(&["workflow", "show", "release", "--json"]).data()["tasks"].clone();
            assert_eq!(tasks.as_array().unwrap().len(), 3, "{name} {number}: {tasks}");
            let _ = way(&["db", "probe", "--writes", "1"]).ok();
        }
    }
    assert!(killed >= 15, "{killed}");
}

#[test]
fn p33_a_store_of_an_earlier_version_is_opened_and_its_work_continues() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let path = old_store(&sandbox);
    let data = |args: &[&str]| -> Value {
        let mut command = sandbox.way_command(&repo);
        // A later time than that of the store's last event.
        command.env("WAYPOST_TEST_CLOCK", "2026-12-01T00:00:00Z").args(["--db", text(&path), "--json"]).args(args);
        waypost_testkit::Run::of(&command.output().unwrap()).data()
    };
    let tasks = data(&["workflow", "show", "release"])["tasks"].clone();
    let statuses: Vec<_> = tasks.as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["completed", "pending", "pending"], "{tasks}");
    let info = data(&["db", "info"]);
    assert!(info["schema_version"].as_u64().unwrap() > 7, "{info}");
    assert_eq!(data(&["db", "check"])["ok"], true);
    assert_eq!(data(&["template", "list"])[0]["name"], "releasing");
    assert_eq!(data(&["job", "list"])[0]["status"], "completed");
    let inbox = data(&["msg", "inbox", "--agent", "bob"]);
    assert!(inbox.to_string().contains("please review"), "{inbox}");
    // Another agent continues with the second task, and finishes the third.
    for name in ["test", "ship"] {
        let claimed = data(&["task", "claim", name, "--agent", "cyd", "--workflow", "release"]);
        let context = claimed["context"].to_string();
        assert_eq!(context.contains("ten of twenty tests"), name == "test", "{context}");
        let _ = data(&["task", "done", name, "--agent", "cyd", "--outcome", "done"]);
    }
    assert_eq!(data(&["workflow", "show", "release"])["status"], "completed");
    let events = data(&["events", "--since", "0", "--limit", "1000"]);
    let events = events.as_array().unwrap();
    assert!(events.len() > 27, "{events:?}");
    assert!(events.iter().zip(1..).all(|(event, sequence)| event["sequence"] == sequence), "{events:?}");
}

/// A ledger and its index, as programs of these versions wrote them: five issues with a dependency, a comment, a claim, a
/// closed and a deleted one.
const LEDGER_1: &str = include_str!("../fixtures/ledger-1.jsonl");
const INDEX_3: &str = include_str!("../fixtures/index-3.sql");

#[test]
fn a_ledger_of_an_earlier_version_is_read_and_a_change_keeps_the_other_lines_as_they_were() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["add", "Temporary"]).ok();
    sandbox.write("repo/.waypost/issues.jsonl", LEDGER_1);
    let _ = sandbox.way(&repo, ["restore", "--drop"]).ok();
    let _ = sandbox.way(&repo, ["list"]).ok();
    let index = std::fs::canonicalize(repo.join(".git/waypost/index.db")).unwrap();
    std::fs::remove_file(&index).unwrap();
    rusqlite::Connection::open(&index).unwrap().execute_batch(INDEX_3).unwrap();

    let listed = sandbox.way(&repo, ["list", "--all", "--json"]).data();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|issue| issue["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["r-06ilgeuc", "r-t5ad497k", "r-ue845asd", "r-eiwjg3r6"]);
    let shown = sandbox.way(&repo, ["show", "r-06ilgeuc", "--json"]).data();
    assert!(shown.to_string().contains("seen on two machines"), "{shown}");
    assert_eq!(sandbox.way(&repo, ["search", "notes", "--json"]).data()[0]["id"], "r-ue845asd");

    let _ = sandbox.way(&repo, ["update", "r-t5ad497k", "--priority", "0"]).ok();
    let after = std::fs::read_to_string(repo.join(".waypost/issues.jsonl")).unwrap();
    let changed: Vec<_> = after.lines().zip(LEDGER_1.lines()).filter(|(now, before)| now != before).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0].0.contains(r#""priority":0"#), "{changed:?}");
    assert_eq!(after.lines().count(), LEDGER_1.lines().count());
}

#[test]
fn a_named_store_that_does_not_exist_is_an_error_for_every_command_that_reads() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let store = sandbox.path("typo/x.db");
    let named = [("WAYPOST_DB", store.as_os_str())];
    for line in [
        "workflow list",
        "workflow show w",
        "task list",
        "task next",
        "agent list",
        "job list",
        "ws list",
        "events",
        "status",
        "prime",
        "context a",
        "template list",
        "repo list",
        "worktree list",
        "db info",
        "db check",
        "db backup copy.db",
        "db move --to global --dry-run",
    ] {
        let run = sandbox.way_with(&repo, &named, line.split(' '));
        assert_eq!(run.code, 3, "{line}: {run:?}");
        assert!(run.stderr.contains("typo/x.db") && run.stderr.contains("WAYPOST_DB"), "{line}: {}", run.stderr);
        assert!(!sandbox.path("typo").exists(), "{line} created it");
    }
    let run = sandbox.way(&repo, ["--db", "../typo/x.db", "workflow", "list"]).fails(3);
    assert!(run.stderr.contains("--db"), "{}", run.stderr);
    // The first command that writes creates it, and then it can be read.
    assert_eq!(sandbox.way_with(&repo, &named, ["workflow", "create", "w"]).code, 0);
    let listed = sandbox.way_with(&repo, &named, ["workflow", "list", "--json"]).data();
    assert_eq!(listed[0]["name"], "w");
    // The default store needs no command that writes first.
    let _ = sandbox.way(&repo, ["workflow", "list", "--json"]).data();
}

#[test]
fn a_store_that_vanished_is_not_replaced_by_an_empty_one() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for store in ["disk/team.db", "repo/.git/waypost/state.db", "home/.waypost/state.db"] {
        let store = sandbox.path(store);
        sandbox.dir(store.parent().unwrap());
        let named = ["--db", store.to_str().unwrap()];
        let flags: &[&str] = match store.to_str().unwrap() {
            path if path.contains("disk") => &named,
            path if path.contains("home") => &["--global"],
            _ => &[],
        };
        let way = |args: &[&str]| sandbox.way(&repo, [args, flags].concat());
        assert_eq!(way(&["workflow", "create", "kept"]).code, 0);
        let away = sandbox.dir("away");
        for file in ["", "-wal", "-shm"] {
            let name = format!("{}{file}", store.file_name().unwrap().to_str().unwrap());
            let _ = std::fs::rename(store.with_file_name(&name), away.join(&name));
        }
        for command in [
            &["workflow", "list"][..],
            &["workflow", "create", "lost"],
            &["status"],
            &["agent", "register", "ann"],
            &["db", "info"],
            &["serve", "--port", "0"],
        ] {
            let run = way(command).fails(8);
            assert!(run.stderr.contains("is gone") && run.stderr.contains("way init"), "{command:?}: {}", run.stderr);
            assert!(!store.exists(), "{command:?}");
        }
        // Issues need no store.
        add(&sandbox, &repo, &["Still possible"]);
        let _ = way(&["init"]);
        assert!(store.exists());
        assert!(!way(&["workflow", "list", "--all"]).stdout.contains("kept"));
        for file in ["", "-wal", "-shm"] {
            let name = format!("{}{file}", store.file_name().unwrap().to_str().unwrap());
            let _ = std::fs::remove_file(store.with_file_name(&name));
            let _ = std::fs::rename(away.join(&name), store.with_file_name(&name));
        }
        assert!(way(&["workflow", "list", "--all"]).ok().stdout.contains("kept"));
    }
    // A repository that is cloned again has never had a store.
    std::fs::rename(&repo, sandbox.path("former")).unwrap();
    sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
}
