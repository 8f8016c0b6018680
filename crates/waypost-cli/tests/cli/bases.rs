//! What the workspaces of jobs start from: the work of earlier tasks, the head, or a revision.

use std::fs;

use serde_json::{Value, json};
use waypost_testkit::{Run, until};

use crate::support::jobs::{Shop, path};

const WAY: &str = env!("CARGO_BIN_EXE_way");

/// A script that shows the files, changes some, commits and finishes the task of the job.
fn script(change: &str) -> String {
    format!(
        "ls; {change}\ngit add -A && git commit -q -m \"work of $WAYPOST_TASK\"\n\
         {WAY} task done $WAYPOST_TASK --outcome ok"
    )
}

/// Each task writes a file that is named after it.
fn own_file() -> String {
    script(
        "name=$(sed -n 's/.*\"task_name\": \"\\(.*\\)\".*/\\1/p' $WAYPOST_CONTEXT_DIR/job.json); echo $name > $name.txt",
    )
}

fn without_remote() -> Shop {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["remote", "remove", "origin"]);
    shop
}

#[track_caller]
fn work(shop: &Shop, flags: &[&str], script: &str) -> Value {
    run_worker(shop, flags, script).data()
}

fn run_worker(shop: &Shop, flags: &[&str], script: &str) -> Run {
    shop.run(&[&["worker", "--agent", "one", "--until-empty", "--json"], flags, &["--", "sh", "-c", script]].concat())
}

/// Works on tasks of which one fails, and returns the tally.
#[track_caller]
fn work_in_vain(shop: &Shop, flags: &[&str], script: &str) -> Value {
    let run = run_worker(shop, flags, script);
    assert_eq!(run.code, 4, "{run:#?}");
    let mut answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["warnings"][0], "1 task failed; way job list --status failed shows why");
    answer["data"].take()
}

/// The newest job of a task.
fn job_of(shop: &Shop, task: &str) -> Value {
    shop.way(["job", "list", "--task", task, "--json"]).data()[0].clone()
}

fn file(job: &Value, name: &str) -> Option<String> {
    fs::read_to_string(path(&job["workspace_dir"]).join(name)).ok()
}

fn task(shop: &Shop, name: &str) -> Value {
    shop.way(["task", "show", name, "--json"]).data()
}

/// The refs of results, in the mirror or in the repository.
fn results(shop: &Shop) -> usize {
    let mirror = crate::support::mirrors::mirror(shop);
    let count = |dir: &std::path::Path| shop.sandbox.git(dir, ["for-each-ref", "refs/waypost/results"]).lines().count();
    count(&mirror) + count(&shop.repo)
}

#[test]
fn a_dependent_task_starts_from_the_commits_of_the_task_before_it_without_a_remote() {
    let shop = without_remote();
    shop.workflow(&json!({ "tasks": [{ "name": "a" }, { "name": "b", "depends_on": ["a"] }] }));
    let tally = work(&shop, &[], &own_file());
    assert_eq!(tally["completed"], 2, "{tally}");
    let (a, b) = (job_of(&shop, "a"), job_of(&shop, "b"));
    assert_eq!(file(&b, "a.txt").as_deref(), Some("a\n"));
    assert_eq!(file(&a, "b.txt"), None);
    let head = shop.sandbox.git(path(&a["workspace_dir"]), ["rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(a["result"], head);
    assert_eq!(b["started_from"], format!("the work of task a ({})", &head[..12]));
    // The agent reads it in its context.
    let context = fs::read_to_string(path(&b["context_dir"]).join("context.md")).unwrap();
    assert!(
        context.contains(&format!("Your workspace starts from: the work of task a ({})", &head[..12])),
        "{context}"
    );
    // The checkout has none of it.
    assert!(!shop.repo.join("a.txt").exists());
    assert_eq!(shop.sandbox.git(&shop.repo, ["branch", "--list"]).lines().count(), 1);
}

#[test]
fn the_work_of_several_tasks_is_merged_in_plan_order() {
    let shop = Shop::new();
    let tasks =
        json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }, { "name": "d", "depends_on": ["c", "a", "b"] }]);
    shop.workflow(&json!({ "tasks": tasks }));
    assert_eq!(work(&shop, &["-n", "3"], &own_file())["completed"], 4);
    let d = job_of(&shop, "d");
    for name in ["a", "b", "c"] {
        assert_eq!(file(&d, &format!("{name}.txt")), Some(format!("{name}\n")));
    }
    let merges = shop.sandbox.git(path(&d["workspace_dir"]), ["log", "--merges", "--reverse", "--format=%s, %an"]);
    assert_eq!(merges, "Merge the work of task b, tester\nMerge the work of task c, tester\n");
    let said = d["started_from"].as_str().unwrap();
    assert!(said.starts_with("the work of the tasks a (") && said.ends_with(", merged in this order"), "{said}");
    // A merge that the base contains is not unsaved work of the job.
    let workspace = shop.way(["ws", "show", d["id"].as_str().unwrap(), "--json"]).data();
    assert_eq!(workspace["findings"]["findings"]["unpushed"], 1, "{workspace}");
}

/// A workflow whose tasks `a` and `b` change the same line, and whose task `c` needs both.
fn conflicting() -> Shop {
    let shop = without_remote();
    let tasks = json!([{ "name": "a" }, { "name": "b" }, { "name": "c", "depends_on": ["a", "b"] }]);
    shop.workflow(&json!({ "tasks": tasks }));
    for name in ["a", "b"] {
        let done = shop.job(&["--task", name, "--agent", "one"], &script(&format!("echo by {name} > file")));
        assert_eq!(done["status"], "completed", "{done}");
    }
    shop
}

#[test]
fn work_that_conflicts_makes_the_task_a_question_that_shows_the_conflict() {
    let shop = conflicting();
    let tally = work_in_vain(&shop, &[], &own_file());
    assert_eq!((&tally["completed"], &tally["failed"]), (&json!(0), &json!(1)), "{tally}");
    let c = task(&shop, "c");
    assert_eq!((&c["status"], &c["attempts"]), (&json!("waiting_input"), &json!(0)), "{c}");
    let question = c["question"].as_str().unwrap();
    assert!(question.contains("The work of task b conflicts with that of a in file."), "{question}");
    assert!(question.contains("<<<<<<< a\nby a\n=======\nby b\n>>>>>>> b\n"), "{question}");
    let job = job_of(&shop, "c");
    assert_eq!(job["error"], "the work of task b conflicts with that of a in file");
    assert!(job["started_at"].is_null(), "{job}");

    // A person resolves it in the workspace, commits, and says so.
    let place = path(&job["workspace_dir"]);
    assert!(question.contains(place.to_str().unwrap()), "{question}");
    shop.sandbox.write(place.join("file"), "by both\n");
    shop.sandbox.git(place, ["commit", "--quiet", "--all", "-m", "Both"]);
    let _ = shop.way(["task", "answer", "c", "resolved"]).ok();
    assert_eq!(work(&shop, &[], &script("echo more > more"))["completed"], 1);
    let job = job_of(&shop, "c");
    assert_eq!(file(&job, "file").as_deref(), Some("by both\n"), "{job}");
    let parents = shop.sandbox.git(path(&job["workspace_dir"]), ["log", "-1", "--format=%s", "HEAD~1"]);
    assert_eq!(parents, "Both\n");
}

#[test]
fn an_answer_lets_the_next_agent_resolve_the_conflict() {
    let shop = conflicting();
    work_in_vain(&shop, &[], &own_file());
    let _ = shop.way(["task", "answer", "c", "b is right"]).ok();
    let resolve =
        format!("cat file; echo by b > file; git commit -qam merged; {WAY} task done $WAYPOST_TASK --outcome ok");
    assert_eq!(work(&shop, &[], &resolve)["completed"], 1);
    let job = job_of(&shop, "c");
    let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
    assert!(log.contains("<<<<<<<") && log.contains("by a"), "{log}");
    let context = fs::read_to_string(path(&job["context_dir"]).join("context.md")).unwrap();
    assert!(context.contains("conflicts in file: resolve the conflict and commit the merge"), "{context}");
    assert!(context.contains("Answered: b is right"), "{context}");
    let parents = shop.sandbox.git(path(&job["workspace_dir"]), ["log", "-1", "--format=%P"]);
    assert_eq!(parents.split_whitespace().count(), 2, "{parents}");
}

#[test]
fn a_task_a_workflow_and_a_job_choose_another_base() {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["tag", "v1"]);
    shop.sandbox.write(shop.repo.join("second"), "two\n");
    shop.sandbox.git(&shop.repo, ["add", "."]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Second"]);
    let plan = json!({ "base": "head", "tasks": [
        { "name": "a" }, { "name": "by_workflow", "depends_on": ["a"] },
        { "name": "by_task", "depends_on": ["a"], "base": "v1" },
        { "name": "as_planned", "depends_on": ["a"], "base": "plan" },
    ] });
    shop.workflow(&plan);
    assert_eq!(shop.way(["workflow", "show", "w", "--json"]).data()["base"], "head");
    assert_eq!(task(&shop, "by_task")["base"], "v1");
    assert_eq!(work(&shop, &[], &own_file())["completed"], 4);
    let has = |task: &str| {
        let job = job_of(&shop, task);
        (
            file(&job, "a.txt").is_some(),
            file(&job, "second").is_some(),
            job["started_from"].as_str().unwrap().to_owned(),
        )
    };
    let head = shop.sandbox.git(&shop.repo, ["rev-parse", "--short=12", "HEAD"]);
    let (head, old) = (head.trim(), shop.sandbox.git(&shop.repo, ["rev-parse", "--short=12", "v1"]));
    let says = format!("the head of the worktree ({head}), as the workflow says");
    assert_eq!(has("by_workflow"), (false, true, says));
    assert_eq!(has("by_task"), (false, false, format!("v1 ({}), as the task says", old.trim())));
    let (with_a, with_second, said) = has("as_planned");
    assert!(with_a && with_second && said.ends_with("as the task says"), "{said}");

    // On the command line: for a new task, a new workflow and a job.
    let _ = shop.way(["workflow", "create", "x", "--base", "v1"]).ok();
    let _ = shop.way(["workflow", "add-task", "x", "first", "--base", "head"]).ok();
    let _ = shop.way(["workflow", "start", "x"]).ok();
    let done = shop.job(&["--task", "first", "--agent", "one", "--base", "v1"], &own_file());
    assert_eq!(done["started_from"], format!("v1 ({}), as the job says", old.trim()));
    let refused = shop.way(["workflow", "create", "y", "--base", "a b\n"]).fails(2).stderr;
    assert!(refused.contains("cannot be a base"), "{refused}");
}

#[test]
fn work_outlives_its_workspace_until_the_workflow_is_cancelled() {
    let shop = without_remote();
    shop.workflow(&json!({ "tasks": [{ "name": "a" }, { "name": "b", "depends_on": ["a"] }, { "name": "c" }] }));
    let a = shop.job(&["--task", "a", "--agent", "one"], &script("echo a > a.txt"));
    let _ = shop.way(["ws", "rm", "--discard", a["id"].as_str().unwrap()]).ok();
    let _ = shop.way(["ws", "gc", "--older-than", "0s"]).ok();
    assert_eq!(results(&shop), 1);
    let b = shop.job(&["--task", "b", "--agent", "one"], &own_file());
    assert_eq!(file(&b, "a.txt").as_deref(), Some("a\n"), "{b}");
    assert_eq!(results(&shop), 2);
    let _ = shop.way(["workflow", "cancel", "w"]).ok();
    let _ = shop.way(["ws", "gc"]).ok();
    assert_eq!(results(&shop), 0);
}

#[test]
fn work_is_released_once_its_workflow_is_completed_and_merged() {
    let shop = without_remote();
    shop.workflow(&json!({ "tasks": [{ "name": "a" }] }));
    let a = shop.job(&["--task", "a", "--agent", "one"], &script("echo a > a.txt"));
    let _ = shop.way(["ws", "gc"]).ok();
    assert_eq!(results(&shop), 1, "it is not merged");
    let place = path(&a["workspace_dir"]).to_str().unwrap();
    shop.sandbox.git(&shop.repo, ["pull", "--quiet", place, "HEAD"]);
    let _ = shop.way(["ws", "gc"]).ok();
    assert_eq!(results(&shop), 0);
}

#[test]
fn what_a_job_leaves_uncommitted_when_it_finishes_its_task_is_committed_for_the_next() {
    for strategy in ["clone", "worktree", "overlay"] {
        let shop = Shop::new();
        shop.sandbox.write(shop.repo.join(".gitignore"), "built\n");
        shop.sandbox.git(&shop.repo, ["add", ".gitignore"]);
        shop.sandbox.git(&shop.repo, ["commit", "-q", "-m", "ignore"]);
        shop.workflow(&json!({ "tasks": [{ "name": "a" }, { "name": "b", "depends_on": ["a"] }] }));
        let half = format!(
            "echo a > a.txt; git add a.txt; git commit -q -m a; echo more >> a.txt; echo x > x.txt; echo o > built; \
             {WAY} task done $WAYPOST_TASK --outcome ok"
        );
        let a = shop.job(&["--task", "a", "--agent", "one", "--strategy", strategy], &half);
        assert_eq!(a["warnings"], json!(["committed 2 files that the job had left uncommitted"]), "{strategy}: {a}");
        let log = shop.sandbox.git(path(&a["workspace_dir"]), ["log", "-1", "--format=%s %an"]);
        assert!(log.starts_with("a: what its job left uncommitted "), "{strategy}: {log}");
        let b = shop.job(&["--task", "b", "--agent", "one", "--strategy", strategy], &own_file());
        assert_eq!(file(&b, "a.txt").as_deref(), Some("a\nmore\n"), "{strategy}");
        assert_eq!((file(&b, "x.txt").is_some(), file(&b, "built").is_some()), (true, false), "{strategy}");
        assert!(!b["started_from"].as_str().unwrap().contains("uncommitted"), "{strategy}: {b}");
    }
}

#[test]
fn a_job_that_still_runs_after_its_task_keeps_its_half_written_files_to_itself() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "a" }, { "name": "b", "depends_on": ["a"] }] }));
    let half = format!(
        "echo a > a.txt; git add a.txt; git commit -q -m a; echo half >> a.txt; {WAY} task done $WAYPOST_TASK --outcome ok; \
         touch ready; sleep 600"
    );
    let a = shop.started(&["--task", "a", "--agent", "one"], &half);
    let dir = || shop.show(&a)["workspace_dir"].as_str().map(std::path::PathBuf::from);
    until("the task is done", || dir().is_some_and(|dir| dir.join("ready").exists()));
    // Its successor waits a minute for its end, and then starts from what it has committed.
    let b = shop.started(&["--task", "b", "--agent", "two"], &own_file());
    let _ = shop.run(&["job", "wait", b["id"].as_str().unwrap()]).ok();
    let log = shop.sandbox.git(&dir().unwrap(), ["log", "-1", "--format=%s"]);
    assert_eq!(log.trim(), "a");
    let b = shop.show(&b);
    assert_eq!(file(&b, "a.txt").as_deref(), Some("a\n"), "{b}");
    let said = b["started_from"].as_str().unwrap();
    assert!(said.contains("task a left ") && said.contains("the job of task a still runs"), "{said}");
    let _ = shop.way(["job", "cancel", a["id"].as_str().unwrap()]);
}

#[test]
fn what_a_job_leaves_in_the_middle_of_a_merge_stays_where_it_is_and_both_are_told() {
    let shop = Shop::new();
    shop.workflow(&json!({ "tasks": [{ "name": "a" }, { "name": "b", "depends_on": ["a"] }] }));
    let middle = format!(
        "git checkout -q -b side; echo side > a.txt; git add a.txt; git commit -q -m side; git checkout -q -; \
         echo own > a.txt; git add a.txt; git commit -q -m own; git merge -q side; \
         {WAY} task done $WAYPOST_TASK --outcome ok"
    );
    let a = shop.job(&["--task", "a", "--agent", "one"], &middle);
    let warning = a["warnings"][0].as_str().unwrap();
    assert!(
        warning
            .starts_with("the job left 1 file uncommitted, which later tasks do not get: a merge under way; it is in "),
        "{warning}"
    );
    assert!(warning.ends_with(a["workspace_dir"].as_str().unwrap()), "{warning}");
    let b = shop.job(&["--task", "b", "--agent", "one"], &own_file());
    assert_eq!(file(&b, "a.txt").as_deref(), Some("own\n"));
    let said = b["started_from"].as_str().unwrap();
    assert!(said.ends_with("; task a left 1 file uncommitted, not included here"), "{said}");
}

#[test]
fn a_job_commits_as_the_person_whom_the_environment_names() {
    let shop = Shop::new();
    let names = ["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_NAME"), format!("GIT_{role}_EMAIL")));
    let mut command = shop.sandbox.way_command(&shop.repo);
    command.args(["job", "start", "--json", "--", "sh", "-c"]);
    command.arg("git commit -q --allow-empty -m x && git log -1 --format='%an %ae %cn'");
    for (name, email) in &names {
        command.env(name, "Kim of the environment").env(email, "kim@example.org");
    }
    let run = Run::of(&command.output().unwrap());
    assert!(run.stdout.contains("Kim of the environment kim@example.org Kim of the environment"), "{run:#?}");
}

#[test]
fn git_worktrees_start_from_earlier_work_too() {
    let shop = without_remote();
    let tasks = json!([{ "name": "a" }, { "name": "b" }, { "name": "c", "depends_on": ["a", "b"] }]);
    shop.workflow(&json!({ "tasks": tasks }));
    shop.job(&["--task", "a", "--agent", "one", "--strategy", "worktree"], &own_file());
    shop.job(&["--task", "b", "--agent", "one"], &own_file());
    let c = shop.job(&["--task", "c", "--agent", "one", "--strategy", "worktree"], &own_file());
    assert_eq!((file(&c, "a.txt").is_some(), file(&c, "b.txt").is_some()), (true, true), "{c}");
}

/// Two tasks and a third that needs both, in a repository of another tool. `save` commits, where the tool needs that.
fn starts_from_both(shop: &Shop, save: &str) {
    let tasks = json!([{ "name": "a" }, { "name": "b" }, { "name": "c", "depends_on": ["a", "b"] }, { "name": "d" },
        { "name": "e", "depends_on": ["a", "d"] }]);
    shop.workflow(&json!({ "tasks": tasks }));
    let run = |name: &str, change: &str| {
        let script = format!("{change}; {save}; {WAY} task done $WAYPOST_TASK --outcome ok");
        shop.job(&["--task", name, "--agent", "one"], &script)
    };
    for (name, change) in [("a", "echo a > file; echo a > a.txt"), ("b", "echo b > b.txt"), ("d", "echo d > file")] {
        let done = run(name, change);
        assert_eq!(done["status"], "completed", "{done}");
    }
    let c = run("c", "echo c > c.txt");
    assert_eq!((file(&c, "a.txt").is_some(), file(&c, "b.txt").is_some()), (true, true), "{c}");
    assert_eq!(file(&c, "file").as_deref(), Some("a\n"));
    let e = run("e", "true");
    assert_eq!(e["error"], "the work of task d conflicts with that of a in file", "{e}");
    let question = task(shop, "e")["question"].as_str().unwrap().to_owned();
    assert!(question.contains("<<<<<<<") && question.contains("file:"), "{question}");
    assert_eq!(task(shop, "e")["status"], "waiting_input");
}

#[test]
fn jj_workspaces_start_from_earlier_work_too() {
    let shop = Shop::new();
    let repo = shop.sandbox.jj_repo("jj", true);
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.jj(&repo, ["commit", "-m", "One"]);
    starts_from_both(&Shop { sandbox: shop.sandbox, repo, remote: shop.remote }, "true");
}

#[test]
fn mercurial_shares_start_from_earlier_work_too() {
    let shop = Shop::new();
    let repo = shop.sandbox.hg_repo("hg");
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.hg(&repo, ["commit", "--addremove", "-m", "One"]);
    starts_from_both(&Shop { sandbox: shop.sandbox, repo, remote: shop.remote }, "hg commit -q --addremove -m work");
}
