//! Several repositories and worktrees that share a store: whose work a claim takes, and how repositories are named.

use std::path::PathBuf;

use serde_json::{Value, json};
use waypost::Kind;
use waypost::machine::place::Place;
use waypost::work::{UnknownRepository, find_repository, find_repository_id};

use crate::harness::{Office, PERSON, call, data, list, names, open, refused, text, workflow};

/// Returns the name of the next task for a place; none if there is none.
fn claimed(place: &Place, arguments: Value) -> Option<String> {
    match call(place, "ann", "claim_task", arguments) {
        Ok(reply) => Some(reply.answer["task"]["name"].as_str().unwrap().to_owned()),
        Err(error) => {
            assert_eq!(error.kind(), Kind::NothingToDo, "{error:?}");
            None
        }
    }
}

fn start(place: &Place, name: &str) {
    open(place, "planner").call(workflow(name, &format!("{name}: Do it\n"))).unwrap();
}

#[test]
fn a_claim_in_the_main_worktree_never_takes_what_a_linked_worktree_planned_for_itself() {
    let office = Office::new();
    let topic = office.worktree("topic");
    let (main, linked) = (office.place(&office.repo), office.place(&topic));
    for (main, linked) in [
        (main, linked),
        (
            office.with_store(&office.repo, &office.sandbox.path("x.db")),
            office.with_store(&topic, &office.sandbox.path("x.db")),
        ),
    ] {
        start(&linked, "own");
        assert_eq!(claimed(&main, json!({})), None);
        let nothing = refused(&main, Kind::NothingToDo, "ann", "claim_task", json!({}));
        let hints = nothing.hints().join("\n");
        assert!(hints.contains("1 task is of worktree topic: --worktree topic"), "{hints}");
        let _ = refused(&main, Kind::NothingToDo, "ann", "list_next_tasks", json!({}));
        assert_eq!(names(&data(&linked, "ann", "list_next_tasks", json!({}))["tasks"]), ["own"]);
        let there = open(&linked, "ann").worktree().id.to_string();
        assert_eq!(claimed(&main, json!({ "worktree_id": there })).as_deref(), Some("own"));
    }
}

#[test]
fn lists_can_be_filtered_by_worktree() {
    let office = Office::new();
    let topic = office.worktree("topic");
    let (main, linked) = (office.place(&office.repo), office.place(&topic));
    start(&main, "w");
    start(&linked, "elsewhere");
    let listed =
        |operation: &str, field: &str, arguments: Value| names(&data(&main, PERSON, operation, arguments)[field]);
    assert_eq!(listed("list_workflows", "workflows", json!({ "query": { "limit": 9 } })).len(), 2);
    for (place, name) in [(&linked, "elsewhere"), (&main, "w")] {
        let id = open(place, "ann").worktree().id.to_string();
        let query = json!({ "query": { "worktree_id": id, "limit": 9 } });
        assert_eq!(listed("list_workflows", "workflows", query), [name]);
        assert_eq!(listed("list_tasks", "tasks", json!({ "worktree_id": id })), [name]);
    }
    for (operation, arguments) in [
        ("list_workflows", json!({ "query": { "worktree_id": "wt_000000000000", "limit": 9 } })),
        ("list_tasks", json!({ "worktree_id": "wt_000000000000" })),
    ] {
        let _ = refused(&main, Kind::NotFound, PERSON, operation, arguments);
    }
}

#[test]
fn a_template_and_an_epic_follow_the_same_rule() {
    let office = Office::new();
    let topic = office.worktree("topic");
    let (main, linked) = (office.place(&office.repo), office.place(&topic));
    let template = json!({ "name": "t", "body": { "tasks": [{ "name": "step" }] } });
    let _ = data(&main, PERSON, "save_template", template);
    let reach = |place: &Place, name: &str, shared: bool, only_here: bool| {
        let apply = json!({ "template": "t", "name": name, "shared": shared, "only_here": only_here });
        data(place, PERSON, "apply_template", apply)["reach"].take()
    };
    assert_eq!(reach(&linked, "one", false, false), "worktree");
    assert_eq!(reach(&linked, "two", true, false), "repository");
    assert_eq!(reach(&main, "three", false, false), "repository");
    assert_eq!(reach(&main, "four", false, true), "worktree");
}

/// Two repositories in one store, each with a workflow of its name. That of `two` is a second younger.
fn two(office: &Office) -> (PathBuf, PathBuf) {
    let (one, two) = (office.sandbox.git_repo("one"), office.sandbox.git_repo("two"));
    start(&office.shared(&one), "one");
    office.pass(1);
    start(&office.shared(&two), "two");
    (one, two)
}

#[test]
fn tasks_of_a_shared_store_name_their_repository_and_can_be_filtered_by_it() {
    let office = Office::new();
    let (one, two) = two(&office);
    let here = office.shared(&one);
    let mut session = open(&here, "ann");
    let mut named = |reference: &str| find_repository(&mut session, reference, UnknownRepository::Keep).unwrap();
    let references = ["two", "../two", two.to_str().unwrap()].map(&mut named);
    let own = named(".");
    for reference in &references {
        let listed =
            |operation: &str| names(&data(&here, PERSON, operation, json!({ "repository": reference }))["tasks"]);
        assert_eq!((listed("list_tasks"), listed("list_next_tasks")), (vec!["two".to_owned()], vec!["two".to_owned()]));
    }
    assert_eq!(
        names(&data(&here, PERSON, "list_tasks", json!({}))["tasks"]),
        ["two", "one"],
        "the newest workflow first"
    );
    for (reference, wanted) in [("../two", "two"), (".", "one")] {
        let id = find_repository_id(&mut session, Some(reference)).unwrap().unwrap().to_string();
        let query = json!({ "query": { "repository_id": id, "limit": 9 } });
        assert_eq!(names(&data(&here, PERSON, "list_workflows", query)["workflows"]), [wanted], "{reference}");
    }
    let of_two = &list(&data(&here, PERSON, "list_tasks", json!({ "repository": "two" }))["tasks"])[0];
    assert_eq!((&of_two["repository"], &of_two["worktree"]["path"]), (&json!("two"), &json!(two)));
    let shown = |repository: &str| json!({ "task": "two", "repository": repository });
    let _ = refused(&here, Kind::NotFound, PERSON, "show_task", shown(&own));
    let context = data(&here, PERSON, "show_context", shown("two"));
    assert!(context["text"].as_str().unwrap().contains("Repository: two"), "{context}");
    let _ = refused(&here, Kind::NotFound, PERSON, "show_context", shown("one"));
    let claimed = data(&here, "ann", "claim_task", shown(&references[1]));
    assert!(claimed["context"]["text"].as_str().unwrap().contains("Repository: two"), "{claimed}");
    let agents =
        |repository: &str| names(&data(&here, PERSON, "list_agents", json!({ "repository": repository }))["agents"]);
    assert!(agents("one").contains(&"ann".to_owned()), "{:?}", agents("one"));
    assert!(!agents("two").contains(&"ann".to_owned()), "{:?}", agents("two"));
}

#[test]
fn repositories_of_a_workflow_are_named_by_relative_paths_added_and_removed() {
    let office = Office::new();
    let (one, two) = (office.sandbox.git_repo("one"), office.sandbox.git_repo("two"));
    let here = office.shared(&one);
    let mut session = open(&here, "planner");
    let mut found = |reference: &str| find_repository(&mut session, reference, UnknownRepository::Register).unwrap();
    let (own, other) = (found("."), found("../two"));
    let create = json!({ "name": "w", "repositories": [own, other] });
    let in_order = |list_of_names: &Value| {
        let mut sorted: Vec<String> = list(list_of_names).iter().map(text).collect();
        sorted.sort();
        sorted
    };
    assert_eq!(in_order(&data(&here, PERSON, "add_workflow", create)["repository_names"]), ["one", "two"]);
    let add = json!({ "workflow": "w", "task": { "name": "here", "repository": own } });
    let _ = data(&here, PERSON, "add_task", add);
    let change = |operation: &str, repository: &str| {
        let change = json!({ "workflow": "w", "repository": repository });
        call(&here, PERSON, operation, change).map(|reply| in_order(&reply.answer["repository_names"]))
    };
    assert_eq!(change("remove_workflow_repository", &other).unwrap(), ["one"]);
    assert_eq!(change("add_workflow_repository", &other).unwrap(), ["one", "two"]);
    let refused = change("remove_workflow_repository", &own).unwrap_err();
    assert_eq!(refused.kind(), Kind::Refused);
    assert!(refused.to_string().contains("task here works there"), "{refused}");
    let unknown = find_repository(&mut session, "../three", UnknownRepository::Keep);
    assert_eq!(
        unknown.and_then(|three| change("remove_workflow_repository", &three)).unwrap_err().kind(),
        Kind::NotFound
    );
    let plan = json!({ "tasks": [{ "name": "x", "repository": other }] });
    let create = json!({ "name": "v", "repositories": [own, "two"], "plan": plan });
    let _ = data(&here, PERSON, "add_workflow", create);
    assert_eq!(data(&here, PERSON, "show_task", json!({ "task": "x" }))["repository"], "two");
    assert!(two.join(".git").exists());
}
