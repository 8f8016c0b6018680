//! Which worktrees and repositories take which work, and how records show where they come from.

use std::sync::Arc;

use serde_json::json;
use waypost_core::Kind;
use waypost_core::context::{Caller, Standing};
use waypost_core::id::RepositoryId;
use waypost_core::model::{AgentStatus, Reach, TaskStatus, WorkflowQuery};
use waypost_core::op::{
    AddWorkflow, AddWorkflowRepository, ClaimTask, ListAgents, ListCheckpoints, ListNextTasks, ListTasks,
    ListWorkflows, RemoveWorkflowRepository, RemoveWorktree, ShowContext, ShowTask, decode,
};
use waypost_core::work::plan::Plan;

use crate::harness::{TestStore, checkpoint, claim, person_in, repository, workflow};

/// Returns an agent in a worktree of repository 1: worktree 1 is the main one.
fn agent_in(number: u64) -> Caller {
    let standing = if number == 1 { Standing::MainWorktree } else { Standing::LinkedWorktree };
    Caller { agent: Some("ann".to_owned()), actor: "ann".to_owned(), standing, ..person_in(number) }
}

/// Returns an agent in the main worktree of another repository of a shared store.
fn agent_elsewhere(number: u64) -> Caller {
    let own = repository(number);
    let mut caller = Caller { is_shared: true, standing: Standing::MainWorktree, ..agent_in(number * 10) };
    Arc::make_mut(&mut caller.worktree).repository_id = own.id.clone();
    caller.repository = Arc::new(own);
    caller
}

fn plan(tasks: &[(&str, u32)]) -> Plan {
    let tasks: Vec<_> = tasks.iter().map(|(name, priority)| json!({ "name": name, "priority": priority })).collect();
    Plan::from_value(json!({ "tasks": tasks })).unwrap()
}

fn next(limit: u32) -> ListNextTasks {
    ListNextTasks { workflow: None, worktree_id: None, repository: None, limit, after: None }
}

/// Returns the names of the tasks that a caller can claim, in order.
fn offered(store: &mut TestStore, caller: &Caller, operation: ListNextTasks) -> Vec<String> {
    match store.read_as(caller, operation) {
        Ok(list) => list.tasks.into_iter().map(|task| task.task.name).collect(),
        Err(error) if error.kind() == Kind::NothingToDo => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// A store in which the main worktree planned `m`, and two linked ones `a` and `b`.
fn planned() -> TestStore {
    let mut store = TestStore::new();
    for (number, name) in [(1, "m"), (2, "a"), (3, "b")] {
        store.write_as(&agent_in(number), None, workflow(name, plan(&[(name, 2)]))).unwrap();
    }
    store
}

#[test]
fn work_of_the_main_worktree_is_open_to_all_and_work_of_a_linked_one_belongs_to_it() {
    let mut store = planned();
    assert_eq!(offered(&mut store, &agent_in(1), next(9)), ["m"]);
    assert_eq!(offered(&mut store, &agent_in(2), next(9)), ["a", "m"]);
    assert_eq!(offered(&mut store, &agent_in(3), next(9)), ["b", "m"]);
    assert_eq!(offered(&mut store, &agent_in(4), next(9)), ["m"], "a worktree that planned nothing");
    let claimed = store.write_as(&agent_in(4), None, claim(None)).unwrap();
    assert_eq!(claimed.task.task.name, "m");
    let error = store.write_as(&agent_in(4), None, claim(None)).unwrap_err();
    assert_eq!(error.kind(), Kind::NothingToDo);
    let hints = error.hints().join("\n");
    assert!(hints.contains("1 task is of worktree tree 2: --worktree tree 2"), "{hints}");
}

#[test]
fn the_own_work_of_a_worktree_comes_before_more_urgent_shared_work() {
    let mut store = TestStore::new();
    store.write_as(&agent_in(1), None, workflow("m", plan(&[("m0", 0), ("m4", 4)]))).unwrap();
    store.write_as(&agent_in(2), None, workflow("a", plan(&[("a4", 4), ("a1", 1)]))).unwrap();
    assert_eq!(offered(&mut store, &agent_in(2), next(9)), ["a1", "a4", "m0", "m4"]);
    assert_eq!(offered(&mut store, &agent_in(2), next(3)), ["a1", "a4", "m0"]);
    assert_eq!(store.write_as(&agent_in(2), None, claim(None)).unwrap().task.task.name, "a1");
}

#[test]
fn a_plan_can_be_shared_or_kept_to_its_worktree() {
    let mut store = TestStore::new();
    let created = |store: &mut TestStore, number, name, shared, only_here| {
        let operation = AddWorkflow { shared, only_here, ..workflow(name, plan(&[(name, 2)])) };
        store.write_as(&agent_in(number), None, operation).map(|view| view.workflow.reach)
    };
    assert_eq!(created(&mut store, 2, "open", true, false).unwrap(), Reach::Repository);
    assert_eq!(created(&mut store, 1, "kept", false, true).unwrap(), Reach::Worktree);
    assert_eq!(created(&mut store, 1, "main", false, false).unwrap(), Reach::Repository);
    assert_eq!(created(&mut store, 2, "linked", false, false).unwrap(), Reach::Worktree);
    assert_eq!(created(&mut store, 1, "both", true, true).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(offered(&mut store, &agent_in(1), next(9)), ["kept", "main", "open"]);
    assert_eq!(offered(&mut store, &agent_in(3), next(9)), ["main", "open"]);
}

#[test]
fn a_claim_can_choose_another_worktree_its_workflow_or_its_task() {
    let mut store = planned();
    let chosen = |number| ListNextTasks { worktree_id: Some(agent_in(number).worktree.id.clone()), ..next(9) };
    assert_eq!(offered(&mut store, &agent_in(1), chosen(2)), ["a"], "only what was planned there");
    assert_eq!(offered(&mut store, &agent_in(2), chosen(1)), ["m"]);
    let named = ListNextTasks { workflow: Some("b".to_owned()), ..next(9) };
    assert_eq!(offered(&mut store, &agent_in(1), named.clone()), ["b"]);
    let apart = ListNextTasks { worktree_id: chosen(2).worktree_id, ..named };
    assert!(offered(&mut store, &agent_in(1), apart).is_empty(), "the workflow is of another worktree");
    let unknown = store.read_as(&agent_in(1), chosen(9)).unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound, "an unknown worktree is an error, not an empty list");
    let claim_there = ClaimTask { worktree_id: chosen(3).worktree_id, ..claim(None) };
    assert_eq!(store.write_as(&agent_in(1), None, claim_there).unwrap().task.task.name, "b");
    assert_eq!(store.write_as(&agent_in(1), None, claim(Some("a"))).unwrap().task.task.name, "a");
}

#[test]
fn a_list_can_be_limited_to_the_work_of_a_worktree() {
    let mut store = planned();
    let listed = |store: &mut TestStore, number, worktree: Option<u64>, here| {
        let operation = ListTasks {
            workflow: None,
            statuses: Vec::new(),
            claimable: false,
            worktree_id: worktree.map(|number| agent_in(number).worktree.id.clone()),
            repository: None,
            here,
            limit: 9,
            after: None,
        };
        let mut names: Vec<_> =
            store.read_as(&agent_in(number), operation).unwrap().tasks.into_iter().map(|task| task.task.name).collect();
        names.sort();
        names
    };
    assert_eq!(listed(&mut store, 1, None, false), ["a", "b", "m"]);
    assert_eq!(listed(&mut store, 1, None, true), ["m"]);
    assert_eq!(listed(&mut store, 2, None, true), ["a", "m"]);
    assert_eq!(listed(&mut store, 1, Some(3), false), ["b"]);
}

#[test]
fn a_list_of_tasks_counts_only_so_many_that_follow() {
    let mut store = TestStore::new();
    for name in ["one", "two"] {
        let names: Vec<String> = (0..510).map(|task| format!("{name} {task}")).collect();
        let planned: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 2)).collect();
        store.write_as(&agent_in(1), None, workflow(name, plan(&planned))).unwrap();
    }
    for (limit, more) in [(1, 1_000), (20, 1_000), (21, 999), (900, 120)] {
        let list = ListTasks { limit, ..decode(&json!({})).unwrap() };
        let list = store.read_as(&agent_in(1), list).unwrap();
        assert_eq!((list.tasks.len(), list.more), (limit as usize, more));
    }
}

#[test]
fn pages_of_tasks_have_each_task_once_and_say_how_many_follow() {
    let mut store = TestStore::new();
    for (name, tasks) in [("one", 4), ("two", 1), ("three", 7), ("four", 2)] {
        let names: Vec<String> = (0..tasks).map(|task| format!("{name} {task}")).collect();
        let planned: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 2)).collect();
        store.write_as(&agent_in(1), None, workflow(name, plan(&planned))).unwrap();
        store.write_as(&agent_in(1), None, claim(None)).unwrap();
    }
    let list = |store: &mut TestStore, statuses: &[TaskStatus], claimable, limit, after| {
        let statuses = statuses.to_vec();
        let (workflow, worktree_id, repository) = (None, None, None);
        let list = ListTasks { workflow, statuses, claimable, worktree_id, repository, here: false, limit, after };
        store.read_as(&agent_in(1), list).unwrap()
    };
    let pending = [TaskStatus::Pending];
    for (statuses, claimable, total) in [(&[][..], false, 14), (&pending, false, 10), (&[], true, 10)] {
        let all = list(&mut store, statuses, claimable, 100, None);
        assert_eq!((all.tasks.len(), all.more), (total, 0));
        for limit in 1..=15 {
            let (mut tasks, mut after) = (Vec::new(), None);
            loop {
                let page = list(&mut store, statuses, claimable, limit, after);
                tasks.extend(page.tasks);
                assert_eq!(
                    usize::try_from(page.more).unwrap(),
                    total - tasks.len(),
                    "{limit}: the page says how many tasks follow"
                );
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(tasks, all.tasks, "{limit}");
        }
    }
}

/// A shared store in which the main worktrees of repositories 1 and 2 planned `one` and `two`.
fn shared() -> (TestStore, Caller, Caller) {
    let mut store = TestStore::new();
    store.is_shared = true;
    let (one, two) = (Caller { is_shared: true, ..agent_in(1) }, agent_elsewhere(2));
    store.write_as(&one, None, workflow("one", plan(&[("one", 2), ("build", 3)]))).unwrap();
    store.write_as(&two, None, workflow("two", plan(&[("two", 0), ("build", 3)]))).unwrap();
    (store, one, two)
}

#[test]
fn in_a_shared_store_an_agent_gets_work_of_the_repository_it_is_in() {
    let (mut store, one, two) = shared();
    assert_eq!(offered(&mut store, &one, next(9)), ["one", "build"]);
    assert_eq!(offered(&mut store, &two, next(9)), ["two", "build"]);
    let of = |name: &str| ListNextTasks { repository: Some(name.to_owned()), ..next(1) };
    assert_eq!(offered(&mut store, &one, of("repository 2")), ["two"]);
    assert_eq!(offered(&mut store, &one, of(two.repository.id.as_str())), ["two"]);
    assert_eq!(offered(&mut store, &one, of("/repository2")), ["two"]);
    assert_eq!(offered(&mut store, &one, of("all")), ["one"], "its own worktree comes first");
    assert_eq!(offered(&mut store, &one, ListNextTasks { limit: 9, ..of("all") }).len(), 4);
    assert_eq!(store.read_as(&one, of("none")).unwrap_err().kind(), Kind::NotFound);
    let named = ListNextTasks { workflow: Some("two".to_owned()), ..next(9) };
    let error = store.read_as(&one, named).unwrap_err();
    assert_eq!(error.kind(), Kind::NothingToDo);
    assert!(
        error.hints().join("\n").contains("2 tasks are of repository repository 2: --repo repository 2"),
        "{error:?}"
    );
}

#[test]
fn a_caller_outside_of_any_repository_is_not_limited_to_one() {
    let (mut store, one, _) = shared();
    let outside = Caller { standing: Standing::Outside, ..agent_elsewhere(3) };
    assert_eq!(offered(&mut store, &outside, next(9)).len(), 4);
    assert_eq!(offered(&mut store, &Caller { is_shared: false, ..one }, next(9)).len(), 4, "nor in a store of its own");
}

#[test]
fn clones_of_one_remote_repository_share_their_work() {
    let mut store = TestStore::new();
    let with_remote = |number: u64, url: &str| {
        let mut caller = agent_elsewhere(number);
        Arc::make_mut(&mut caller.repository).remote_url = Some(url.to_owned());
        caller
    };
    let (ann, bob, other) = (with_remote(2, "ssh://h/p"), with_remote(3, "ssh://h/p"), with_remote(4, "ssh://h/q"));
    store.write_as(&ann, None, workflow("w", plan(&[("t", 2)]))).unwrap();
    assert_eq!(offered(&mut store, &bob, next(9)), ["t"]);
    assert!(offered(&mut store, &other, next(9)).is_empty());
    let linked = Caller { standing: Standing::LinkedWorktree, ..with_remote(5, "ssh://h/p") };
    store.write_as(&linked, None, workflow("own", plan(&[("own", 0)]))).unwrap();
    assert_eq!(offered(&mut store, &bob, next(9)), ["t"], "work of a linked worktree stays there");
}

#[test]
fn a_name_means_the_nearest_record_and_a_repository_can_be_named() {
    let (mut store, one, two) = shared();
    let show = |store: &mut TestStore, caller: &Caller, repository: Option<&str>| {
        let operation =
            ShowTask { task: "build".to_owned(), workflow: None, repository: repository.map(str::to_owned) };
        store.read_as(caller, operation).unwrap().task
    };
    assert_eq!(show(&mut store, &one, None).workflow, "one");
    assert_eq!(show(&mut store, &two, None).workflow, "two");
    assert_eq!(show(&mut store, &one, Some("repository 2")).workflow, "two");
    let seen = show(&mut store, &one, Some("repository 2"));
    assert_eq!(seen.repository.as_deref(), Some("repository 2"));
    let context =
        ShowContext { task: "build".to_owned(), repository: Some("repository 2".to_owned()), ..ShowContext::default() };
    let text = store.read_as(&one, context.clone()).unwrap().text;
    assert!(text.contains("Repository: repository 2"), "{text}");
    assert!(text.contains("Planned in worktree: tree 20"), "{text}");
    let own = store.read_as(&one, ShowContext { repository: None, ..context }).unwrap().text;
    assert!(own.contains("Repository: repository 1") && !own.contains("Planned in worktree"), "{own}");
    let lists = |store: &mut TestStore, repository: Option<&RepositoryId>| {
        let query = WorkflowQuery { repository_id: repository.cloned(), limit: 9, ..WorkflowQuery::default() };
        let found = store.read_as(&one, ListWorkflows { query }).unwrap().workflows;
        found.into_iter().map(|view| (view.workflow.name, view.repository_names)).collect::<Vec<_>>()
    };
    assert_eq!(lists(&mut store, Some(&two.repository.id)), [("two".to_owned(), vec!["repository 2".to_owned()])]);
    assert_eq!(lists(&mut store, None).len(), 2);
}

#[test]
fn a_repository_leaves_a_workflow_only_if_no_task_works_there() {
    let (mut store, one, _) = shared();
    let change = |repository: &str| (("one".to_owned()), repository.to_owned());
    let (workflow, repository) = change("repository 2");
    store.write_as(&one, None, AddWorkflowRepository { workflow, repository }).unwrap();
    let remove = |store: &mut TestStore, name: &str| {
        let (workflow, repository) = change(name);
        store.write_as(&one, None, RemoveWorkflowRepository { workflow, repository })
    };
    let error = remove(&mut store, "repository 1").unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("task one works there")), (Kind::Refused, true), "{error}");
    assert_eq!(remove(&mut store, "repository 2").unwrap().repository_names, ["repository 1"]);
    assert_eq!(remove(&mut store, "repository 2").unwrap_err().kind(), Kind::NotFound, "it is gone already");
    assert_eq!(remove(&mut store, "repository 1").unwrap_err().kind(), Kind::Refused, "the last one stays");
    assert_eq!(store.event_kinds().last().unwrap(), "workflow.repository_removed");
}

#[test]
fn records_name_their_worktree_also_after_it_was_removed() {
    let mut store = planned();
    let mut linked = agent_in(2);
    Arc::make_mut(&mut linked.worktree).branch = Some("topic".to_owned());
    store.write_as(&linked, None, claim(Some("a"))).unwrap();
    store.write_as(&linked, None, checkpoint("a", "half")).unwrap();
    let gone = RemoveWorktree { id: linked.worktree.id.clone() };
    store.write_as(&agent_in(1), None, gone).unwrap();
    let show = ShowTask { task: "a".to_owned(), ..ShowTask::default() };
    let page = store.read_as(&agent_in(1), show).unwrap();
    let list =
        ListCheckpoints { task: "a".to_owned(), workflow: None, repository: None, before: None, limit: 9, after: None };
    let checkpoints = store.read_as(&agent_in(1), list).unwrap().checkpoints;
    for worktree in [&page.task.worktree, &page.checkpoints[0].worktree, &checkpoints[0].worktree] {
        let worktree = worktree.as_ref().unwrap();
        assert_eq!((worktree.name.as_str(), worktree.branch.as_deref()), ("tree 2", Some("topic")));
        assert_eq!((&worktree.id, &worktree.path), (&linked.worktree.id, &linked.worktree.path));
        assert!(worktree.removed_at.is_some());
    }
}

#[test]
fn agents_are_listed_by_the_worktree_where_they_registered_or_hold_work() {
    let mut store = planned();
    let named = |number, name: &str| Caller { agent: Some(name.to_owned()), ..agent_in(number) };
    store.write_as(&named(1, "ann"), None, claim(Some("m"))).unwrap();
    store.write_as(&named(2, "bob"), None, claim(Some("a"))).unwrap();
    // Ann registered in worktree 1 and now works in worktree 3, too.
    store.write_as(&named(3, "ann"), None, claim(Some("b"))).unwrap();
    let listed = |store: &mut TestStore, number| {
        let operation = ListAgents {
            role: None,
            capability: None,
            status: Some(AgentStatus::Busy),
            retired: false,
            worktree_id: Some(agent_in(number).worktree.id.clone()),
            repository: None,
            after: None,
            limit: u32::MAX,
        };
        let agents = store.read_as(&agent_in(1), operation).unwrap().agents;
        agents.into_iter().map(|agent| agent.agent.name).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut store, 1), ["ann"]);
    assert_eq!(listed(&mut store, 2), ["bob"]);
    assert_eq!(listed(&mut store, 3), ["ann"]);
}
