//! Workflows moved between stores: once, completely, and never while agents work on them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use waypost::app::session::Session;
use waypost::machine::place::Place;
use waypost::op::{AddRepository, AddWorkflow, ClaimTask, FinishTask, ShowTask, ShowWorkflow, decode};
use waypost::work::transfer::{self, Move, Moved, Outcome};
use waypost::{Kind, Result};
use waypost_core::work::plan::{Plan, PlannedTask};

use crate::harness::{Office, PERSON, data, names, open, refused, workflow};

fn claim(task: &str) -> ClaimTask {
    decode(&json!({ "task": task })).unwrap()
}

fn finish(task: &str) -> FinishTask {
    decode(&json!({ "task": task, "outcome": "it is done" })).unwrap()
}

/// A store with a running workflow of which one task is done, a completed workflow, and one that is not started.
fn prepared() -> Office {
    let office = Office::new();
    let mut builder = office.session("builder");
    builder.call(workflow("release", "build: first\ntest: second\n    needs: build\n")).unwrap();
    builder.call(claim("release/build")).unwrap();
    builder.call(finish("release/build")).unwrap();
    builder.call(workflow("old", "only: one\n")).unwrap();
    builder.call(claim("old/only")).unwrap();
    builder.call(finish("old/only")).unwrap();
    builder.call(AddWorkflow { start: false, ..workflow("later", "some: day\n") }).unwrap();
    office
}

/// Moves workflows from one place to another, or says what a move would do.
fn moved(from: &Place, to: &Place, request: &Move, is_dry_run: bool) -> Result<Outcome> {
    let mut source = open(from, "mover");
    let mut destination = Session::open_existing(to.used_by("mover", Some("mover")))?;
    let act = if is_dry_run { transfer::dry_run } else { transfer::run };
    act(&mut source, &mut destination, request)
}

fn all() -> Move {
    Move::default()
}

fn named(workflows: &[Moved]) -> Vec<&str> {
    workflows.iter().map(|one| one.name.as_str()).collect()
}

/// Everything that an outcome says.
fn shown(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).unwrap()
}

#[test]
fn a11_a_dry_run_lists_a_run_moves_a_second_run_moves_none_and_the_source_is_kept() {
    let office = prepared();
    let (here, there) = (office.place(&office.repo), office.shared(&office.repo));
    let dry = moved(&here, &there, &all(), true).unwrap();
    assert_eq!(named(&dry.moved), ["later", "release"]);
    assert!(!office.sandbox.path("home/.waypost/state.db").exists(), "a dry run creates no store");
    let kept = |office: &Office| {
        ["release", "old", "later"].map(|name| {
            let shown = office.data(PERSON, "show_workflow", json!({ "workflow": name }));
            let tasks = shown["tasks"].as_array().unwrap().clone();
            let of = |field: &str| tasks.iter().map(|task| task[field].clone()).collect::<Vec<_>>();
            (of("id"), of("status"), of("depends_on"))
        })
    };
    let before = kept(&office);

    assert_eq!(named(&moved(&here, &there, &all(), false).unwrap().moved), ["later", "release"]);
    let again = moved(&here, &there, &all(), false).unwrap();
    assert_eq!((again.moved.len(), named(&again.there)), (0, vec!["later", "release"]));
    assert_eq!(kept(&office), before, "it is kept");

    // Work continues in the target, and not in the source.
    let mut target = open(&there, "builder");
    let page = target.call(ShowWorkflow { workflow: "release".to_owned() }).unwrap();
    assert_eq!((page.workflow.done, page.workflow.total), (1, 2));
    target.call(claim("release/test")).unwrap();
    assert_eq!(office.session("builder").call(claim("release/test")).unwrap_err().kind(), Kind::Conflict);

    let listed = |place: &Place| names(&data(place, PERSON, "show_status", json!({}))["workflows"]);
    assert!(listed(&here).is_empty(), "a moved workflow is not listed here");
    let ended = moved(&here, &there, &Move { delete_source: true, ..all() }, false).unwrap();
    assert_eq!((ended.moved.len(), ended.ended), (0, 2));
    assert!(listed(&here).is_empty());
    assert_eq!(listed(&there).len(), 2);
    let none = moved(&here, &there, &all(), false).unwrap();
    assert_eq!((none.moved.len(), none.there.len()), (0, 0));
}

#[test]
fn a_workflow_with_a_held_task_is_not_moved() {
    let office = prepared();
    let (here, there) = (office.place(&office.repo), office.with_store(&office.repo, &office.sandbox.path("other.db")));
    let mut builder = office.session("builder");
    builder.call(claim("release/test")).unwrap();
    let dry = moved(&here, &there, &all(), true).unwrap();
    assert_eq!((named(&dry.refused), dry.refused[0].reason.as_deref()), (vec!["release"], Some("builder works on it")));
    assert_eq!(named(&moved(&here, &there, &all(), false).unwrap().refused), ["release"]);
    builder.call(claim("release/test")).unwrap();
    let forced = moved(&here, &there, &Move { force: true, ..all() }, false).unwrap();
    assert_eq!(named(&forced.moved), ["release"]);
    assert_eq!(builder.call(finish("release/test")).unwrap_err().kind(), Kind::LeaseLost, "the lease is lost");
    // The workflow moves back with its new state.
    let release = Move { workflows: vec!["release".to_owned()], ..all() };
    assert_eq!(named(&moved(&there, &here, &release, false).unwrap().moved), ["release"]);
    builder.call(claim("release/test")).unwrap();
}

#[test]
fn a_claim_and_a_move_at_the_same_time_never_both_succeed() {
    let office = Office::new();
    for round in 0..6 {
        let repo = office.sandbox.git_repo(format!("repo{round}"));
        let here = office.place(&repo);
        open(&here, "builder").call(workflow("release", "build: it\n")).unwrap();
        let file = office.sandbox.path(format!("other{round}.db"));
        let there = office.with_store(&repo, &file);
        let has_ended = AtomicBool::new(false);
        let (claimed, outcome) = std::thread::scope(|scope| {
            let claimers: Vec<_> = (0..3)
                .map(|number| {
                    let (here, file, has_ended) = (&here, &file, &has_ended);
                    scope.spawn(move || {
                        let mut agent = open(here, &format!("agent{number}"));
                        // In every second round the claims wait for the move.
                        while round % 2 == 1 && !file.exists() && !has_ended.load(Ordering::Relaxed) {
                            waypost_testkit::pause();
                        }
                        agent.call(decode::<ClaimTask>(&json!({})).unwrap()).is_ok()
                    })
                })
                .collect();
            let outcome = moved(&here, &there, &all(), false);
            has_ended.store(true, Ordering::Relaxed);
            (claimers.into_iter().map(|one| one.join().unwrap()).filter(|is| *is).count(), outcome)
        });
        let has_moved = match &outcome {
            Ok(outcome) => !outcome.moved.is_empty(),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Refused, "{error:?}");
                false
            }
        };
        assert_eq!(claimed, usize::from(!has_moved), "moved, and claimed in the source: {outcome:?}");
        // The task can be claimed there if it moved, and nowhere twice.
        let late = |place: &Place| open(place, "late").call(decode::<ClaimTask>(&json!({})).unwrap());
        assert_eq!(late(&here).unwrap_err().kind(), Kind::NothingToDo);
        assert_eq!(late(&there).is_ok(), has_moved, "{outcome:?}");
    }
}

#[test]
fn c7_a_workflow_over_several_repositories_needs_a_shared_store() {
    let office = Office::new();
    let (one, two) = (office.sandbox.git_repo("one"), office.sandbox.git_repo("two"));
    let (here, shared) = (office.place(&one), office.shared(&one));
    let add = json!({ "repository": open(&office.place(&two), "lead").repository() });
    let error = refused(&here, Kind::Refused, PERSON, "add_repository", add.clone());
    assert!(format!("{error:?}").contains("way --global repo add PATH"), "{error:?}");
    let known = data(&shared, PERSON, "add_repository", add);
    assert!(known.to_string().contains(two.to_str().unwrap()), "{known}");
    let over = |repository: Option<&str>| {
        let repository = repository.map(str::to_owned);
        let task = PlannedTask { name: "build".to_owned(), repository, ..PlannedTask::default() };
        AddWorkflow {
            repositories: vec!["one".to_owned(), "two".to_owned()],
            plan: Some(Plan { tasks: vec![task], ..Plan::default() }),
            ..workflow("both", "x: y\n")
        }
    };
    let mut own = open(&here, "lead");
    let twice = AddWorkflow { repositories: vec!["one".to_owned(), "one".to_owned()], ..over(None) };
    assert!(own.call(twice).is_ok(), "one repository, twice");
    let mut session = open(&shared, "lead");
    assert_eq!(session.call(over(None)).unwrap_err().kind(), Kind::Invalid, "no task inherits a repository");
    session.call(over(Some("two"))).unwrap();
    let listed = data(&shared, PERSON, "list_repositories", json!({}));
    let live = listed["repositories"].as_array().unwrap().iter().map(|seen| seen["live_workflows"].as_u64().unwrap());
    assert_eq!(live.sum::<u64>(), 2);
    let used = refused(&shared, Kind::Refused, PERSON, "remove_repository", json!({ "repository": "two" }));
    assert!(used.to_string().contains("workflow both includes it"), "{used}");
    // It cannot be moved into the store of a single repository.
    let outcome = moved(&shared, &here, &all(), false).unwrap();
    let reason = outcome.refused[0].reason.as_deref().unwrap();
    assert!(outcome.moved.is_empty() && reason.contains("this store belongs to one repository"), "{reason}");
    assert!(own.call(AddRepository { repository: session.repository().clone() }).is_ok(), "its own is known");
    let _ = refused(&shared, Kind::NotFound, PERSON, "remove_repository", json!({ "repository": "nothing" }));
}

#[test]
fn invalid_moves_are_refused() {
    let office = prepared();
    let (here, there) = (office.place(&office.repo), office.shared(&office.repo));
    let kind = |to: &Place, workflows: &[&str]| {
        let workflows = workflows.iter().map(|name| (*name).to_owned()).collect();
        moved(&here, to, &Move { workflows, ..all() }, false).unwrap_err().kind()
    };
    assert_eq!(kind(&there, &["nothing"]), Kind::NotFound);
    assert_eq!(kind(&there, &["old"]), Kind::Conflict, "it has ended");
    let file = office.sandbox.path("text.db");
    office.sandbox.write(&file, "no database at all, but long enough to be looked at as one");
    let text: &Path = &file;
    assert_eq!(kind(&office.with_store(&office.repo, text), &[]), Kind::Damaged);
    let status = office.data(PERSON, "show_status", json!({}));
    assert_eq!(status["totals"]["workflows"], 2, "nothing was frozen");
    office.session("builder").call(claim("release/test")).unwrap();
}

#[test]
fn a_dry_run_of_a_move_tells_exactly_what_the_move_does() {
    let office = prepared();
    let here = office.place(&office.repo);
    let away = office.sandbox.path("away/other.db");
    let there = office.with_store(&office.repo, &away);
    office.session("builder").call(claim("release/test")).unwrap();
    let planned_and_done = |from: &Place, to: &Place, request: &Move| {
        let planned = moved(from, to, request, true).unwrap();
        let done = moved(from, to, request, false).unwrap();
        assert_eq!(shown(&planned), shown(&done));
        done
    };
    // The destination does not exist, and an agent holds a task.
    let request = Move { delete_source: true, ..all() };
    let done = planned_and_done(&here, &there, &request);
    assert_eq!((done.ended, named(&done.refused)), (1, vec!["release"]));
    assert!(away.exists());
    let done = planned_and_done(&here, &there, &Move { force: true, ..request });
    assert_eq!((named(&done.moved), done.ended), (vec!["release"], 1));

    // A workflow of several repositories cannot move to a store of one.
    let shared = office.shared(&office.repo);
    open(&shared, "builder").call(workflow("both", "build: it\n")).unwrap();
    let other = office.sandbox.git_repo("second");
    let second = open(&office.shared(&other), "builder").repository().id.to_string();
    let add = json!({ "workflow": "both", "repository": second });
    let _ = data(&shared, PERSON, "add_workflow_repository", add);
    let fresh = office.sandbox.git_repo("fresh");
    let done = planned_and_done(&shared, &office.place(&fresh), &all());
    assert_eq!(named(&done.refused), ["both"]);
    let task: ShowTask = decode(&json!({ "task": "both/build" })).unwrap();
    assert!(open(&shared, "builder").call(task).is_ok(), "it stays");
}
