//! What the jobs of tasks start from.

use serde_json::{Value, json};
use waypost_core::op::{
    AddJobRecord, AddWorkflow, ChooseBase, FinishJob, FinishTask, RecordJobStarted, RegisterSupervisor, ReopenTask,
    SkipTask,
};
use waypost_core::work::base::JobBase;
use waypost_core::work::plan::Plan;

use crate::harness::{PERSON, TestStore, claim, finish, workflow};

const AGENT: &str = "agent1";

fn start(plan: Value, base: Option<&str>) -> TestStore {
    let mut store = TestStore::new();
    let plan = Plan::from_value(plan).unwrap();
    store.write(PERSON, AddWorkflow { base: base.map(str::to_owned), ..workflow("w", plan) }).unwrap();
    store
}

/// Starts a job for a task and returns its id.
fn job(store: &mut TestStore, task: &str) -> String {
    let request = json!({ "command": ["true"], "task": task, "work_dir": "/" });
    let job = store.write(AGENT, serde_json::from_value::<AddJobRecord>(request).unwrap()).unwrap().job;
    let supervisor = json!({ "boot_id": "b", "pid": 1, "start_time": 1 });
    let begin = json!({ "job": job.id, "machine": "m", "supervisor": supervisor });
    store.write(AGENT, serde_json::from_value::<RegisterSupervisor>(begin).unwrap()).unwrap();
    let started = json!({ "job": job.id, "process": supervisor });
    store.write(AGENT, serde_json::from_value::<RecordJobStarted>(started).unwrap()).unwrap();
    job.id.to_string()
}

fn end(store: &mut TestStore, job: &str, commit: Option<&str>) {
    let request = json!({ "job": job, "error": commit.is_none().then_some("no"), "result": commit });
    store.write(AGENT, serde_json::from_value::<FinishJob>(request).unwrap()).unwrap();
}

/// Does a task in a job that leaves a commit.
fn done(store: &mut TestStore, task: &str, commit: &str) {
    let job = job(store, task);
    store.write(AGENT, FinishTask { epoch: None, ..finish(task) }).unwrap();
    end(store, &job, Some(commit));
}

fn choose(store: &mut TestStore, job: &str, base: Option<&str>) -> JobBase {
    store.read(AGENT, ChooseBase { job: job.to_owned(), base: base.map(str::to_owned) }).unwrap()
}

fn commits(base: &JobBase) -> Vec<&str> {
    base.results.iter().map(|work| work.commit.as_deref().unwrap_or("none")).collect()
}

#[test]
fn a_task_starts_from_the_results_of_the_tasks_it_depends_on_in_plan_order() {
    let plan = json!([
        { "name": "one" }, { "name": "two" }, { "name": "other" },
        { "name": "last", "depends_on": ["two", "one"], "informed_by": ["other"] },
    ]);
    let mut store = start(plan, None);
    for (task, commit) in [("other", "c0"), ("two", "c2"), ("one", "c1")] {
        done(&mut store, task, commit);
    }
    let last = job(&mut store, "last");
    let base = choose(&mut store, &last, None);
    assert_eq!(commits(&base), ["c1", "c2"]);
    assert_eq!((base.revision, base.chosen_by, base.without_work), (None, None, Vec::new()));
}

#[test]
fn the_job_says_its_base_before_the_task_and_the_task_before_the_workflow() {
    let plan = json!([
        { "name": "one" }, { "name": "own", "depends_on": ["one"], "base": "main" },
        { "name": "planned", "depends_on": ["one"], "base": "plan" }, { "name": "plain", "depends_on": ["one"] },
    ]);
    let mut store = start(plan, Some("head"));
    done(&mut store, "one", "c1");
    for (task, given, revision, by, results) in [
        ("own", None, Some("main"), "task", vec![]),
        ("planned", None, None, "task", vec!["c1"]),
        ("plain", None, None, "workflow", vec![]),
        ("plain", Some("plan"), None, "job", vec!["c1"]),
        ("own", Some("v1"), Some("v1"), "job", vec![]),
    ] {
        let id = job(&mut store, task);
        let base = choose(&mut store, &id, given);
        assert_eq!(base.revision.as_deref(), revision, "{task} {given:?}");
        assert_eq!(base.chosen_by.as_deref(), Some(by), "{task} {given:?}");
        assert_eq!(commits(&base), results, "{task} {given:?}");
        end(&mut store, &id, None);
    }
}

#[test]
fn a_task_without_work_of_its_own_stands_for_the_tasks_it_depends_on() {
    let plan = json!([
        { "name": "one" }, { "name": "skipped", "depends_on": ["one"] },
        { "name": "by hand", "depends_on": ["skipped"] }, { "name": "last", "depends_on": ["by hand"] },
    ]);
    let mut store = start(plan, None);
    done(&mut store, "one", "c1");
    store.write(PERSON, SkipTask { task: "skipped".to_owned(), ..SkipTask::default() }).unwrap();
    store.write(AGENT, claim(Some("by hand"))).unwrap();
    store.write(AGENT, finish("by hand")).unwrap();
    let last = job(&mut store, "last");
    let base = choose(&mut store, &last, None);
    assert_eq!(commits(&base), ["c1"]);
    assert_eq!(base.without_work, ["by hand"]);
}

#[test]
fn a_task_that_was_done_again_without_a_job_has_no_result() {
    let mut store = start(json!([{ "name": "one" }, { "name": "last", "depends_on": ["one"] }]), None);
    done(&mut store, "one", "c1");
    store.write(PERSON, ReopenTask { task: "one".to_owned(), ..ReopenTask::default() }).unwrap();
    store.write(AGENT, claim(Some("one"))).unwrap();
    store.write(AGENT, finish("one")).unwrap();
    let last = job(&mut store, "last");
    assert_eq!(commits(&choose(&mut store, &last, None)), Vec::<&str>::new());
}

#[test]
fn a_base_that_cannot_name_a_revision_is_refused() {
    let mut store = TestStore::new();
    for bad in ["", " main", "-x", "a\nb"] {
        let plan = Plan::from_value(json!([{ "name": "one", "base": bad }])).unwrap();
        assert!(store.write(PERSON, workflow("w", plan)).unwrap_err().to_string().contains("cannot be a base"));
        let plan = Plan::from_value(json!({ "base": bad, "tasks": [{ "name": "one" }] })).unwrap();
        assert!(store.write(PERSON, workflow("w", plan)).unwrap_err().to_string().contains("cannot be a base"));
    }
}
