//! Moving workflows between stores: agents never work on one workflow in two stores.

use serde_json::json;
use waypost_core::id::WorkflowId;
use waypost_core::model::{EventQuery, TaskStatus, WorkflowStatus};
use waypost_core::op::{
    AddWorkflow, DumpWorkflow, FailTask, FreezeWorkflow, ListEvents, ListInbox, ResumeWorkflow, RetireWorkflow,
    SendMessage, ShowWorkflow, SkipTask, TakeWorkflow, WorkflowPage,
};
use waypost_core::work::plan::Plan;
use waypost_core::{Kind, Result};

use crate::harness::{TestStore, checkpoint, claim, finish, message, workflow};

/// A store with a name.
struct Place {
    store: TestStore,
    name: &'static str,
}

impl Place {
    fn new(name: &'static str, seed: u64) -> Place {
        let mut store = TestStore::with_seed(seed);
        store.is_shared = true;
        Place { store, name }
    }

    fn show(&mut self, id: &WorkflowId) -> WorkflowPage {
        self.store.read("ada", ShowWorkflow { workflow: id.to_string() }).unwrap()
    }

    /// Returns the kinds of the events of a record.
    fn event_kinds(&mut self, subject: &str) -> Vec<String> {
        let query =
            EventQuery { since: Some(0), subject: Some(subject.to_owned()), limit: 1_000, ..EventQuery::default() };
        let events = self.store.read("ada", ListEvents { query }).unwrap().events;
        events.into_iter().map(|event| event.kind).collect()
    }
}

/// Starts the workflow `release`, with a claimed task, a checkpoint and a message.
fn start_release(place: &mut Place) -> WorkflowId {
    let plan = Plan::from_text("build: first\ntest: second\n    needs: build\n    backoff: 10m\n").unwrap();
    let release = AddWorkflow { config: json!({ "of": "its own" }), ..workflow("release", plan) };
    let id = place.store.write("ada", release).unwrap().workflow.id;
    place.store.write("ada", claim(Some("build"))).unwrap();
    place.store.write("ada", checkpoint("build", "half of it")).unwrap();
    let question = SendMessage { workflow: Some("release".to_owned()), ..message("ada", "how far?") };
    place.store.write("bob", question).unwrap();
    id
}

/// Moves a workflow. Returns whether it was new in the destination.
fn move_workflow(source: &mut Place, destination: &mut Place, id: &WorkflowId, force: bool) -> Result<bool> {
    let dump =
        source.store.write("ada", FreezeWorkflow { workflow: id.clone(), to: destination.name.to_owned(), force })?;
    let (from, into) = (source.name.to_owned(), destination.name.to_owned());
    Ok(destination.store.write("ada", TakeWorkflow { dump, from, into, dry_run: false })?.is_new)
}

#[test]
fn a11_a_workflow_with_held_tasks_is_moved_only_with_force() {
    let (mut here, mut there) = (Place::new("here", 3), Place::new("there", 4));
    let id = start_release(&mut here);
    let error = move_workflow(&mut here, &mut there, &id, false).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Refused, "ada works on release/build"));
    here.store.write("ada", claim(Some("build"))).unwrap();
    assert!(move_workflow(&mut here, &mut there, &id, true).unwrap());
    // The former holder loses its lease, and the next holder in the destination gets a higher epoch.
    assert_eq!(here.store.write("ada", finish("build")).unwrap_err().kind(), Kind::LeaseLost);
    assert_eq!(there.store.write("cyd", claim(Some("build"))).unwrap().lease.epoch, 2);
}

#[test]
fn a11_a_moved_workflow_changes_only_in_the_destination() {
    let (mut here, mut there) = (Place::new("here", 3), Place::new("there", 4));
    let id = start_release(&mut here);
    let before = here.show(&id);
    assert!(move_workflow(&mut here, &mut there, &id, true).unwrap());
    for error in [
        here.store.write("ada", claim(Some("build"))).map(drop),
        here.store.write("ada", ResumeWorkflow { workflow: "release".to_owned() }).map(drop),
        here.store.write("ada", SkipTask { task: "test".to_owned(), ..SkipTask::default() }).map(drop),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "workflow release was moved to there");
    }
    assert_eq!(here.store.write("ada", claim(None)).unwrap_err().kind(), Kind::NothingToDo);
    let after = there.show(&id);
    assert_eq!(after.workflow.workflow.config, json!({ "of": "its own" }));
    assert_eq!(after.workflow.workflow.status, WorkflowStatus::InProgress);
    let ids = |page: &WorkflowPage| page.tasks.iter().map(|seen| seen.task.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&after), ids(&before));
    assert_eq!(after.tasks[1].blocked_by, ["build"]);
    // The events and the message are moved too.
    let task = before.tasks[0].task.id.to_string();
    assert_eq!(there.event_kinds(&task), ["task.added", "task.claimed", "task.checkpointed", "task.released"]);
    assert_eq!(there.store.write("ada", ListInbox { limit: 10, peek: true, after: None }).unwrap().messages.len(), 1);
    // Moving again changes nothing.
    assert!(!move_workflow(&mut here, &mut there, &id, true).unwrap());
    there.store.write("cyd", claim(Some("build"))).unwrap();
    there.store.write("cyd", finish("build")).unwrap();
    assert!(!move_workflow(&mut here, &mut there, &id, true).unwrap());
    assert_eq!(there.show(&id).tasks[0].task.status, TaskStatus::Completed, "the old copy does not replace it");
}

#[test]
fn moving_again_completes_a_move_that_crashed_between_the_stores() {
    let (mut here, mut there) = (Place::new("here", 3), Place::new("there", 4));
    let id = start_release(&mut here);
    here.store.write("ada", finish("build")).unwrap();
    here.store.write("ada", claim(Some("test"))).unwrap();
    let fail = FailTask { task: "test".to_owned(), error: "it broke".to_owned(), ..FailTask::default() };
    here.store.write("ada", fail).unwrap();
    let due = here.show(&id).tasks[1].task.due_at;
    assert!(due.is_some());
    let freeze = FreezeWorkflow { workflow: id.clone(), to: "there".to_owned(), force: false };
    let first = here.store.write("ada", freeze.clone()).unwrap();
    assert_eq!(here.show(&id).tasks[1].task.due_at, None, "the source applies no due transitions to it");
    let other = FreezeWorkflow { to: "elsewhere".to_owned(), ..freeze };
    assert_eq!(here.store.write("ada", other).unwrap_err().kind(), Kind::Conflict);
    assert!(move_workflow(&mut here, &mut there, &id, false).unwrap());
    let page = there.show(&id);
    assert_eq!((page.tasks[1].task.due_at, &page.tasks[1].task.status), (due, &TaskStatus::Failed));
    assert_eq!(page.workflow.workflow, first.workflow);
}

#[test]
fn a_workflow_can_be_moved_back_with_its_changes_but_an_old_copy_cannot() {
    let (mut one, mut two, mut three) = (Place::new("one", 3), Place::new("two", 4), Place::new("three", 5));
    let id = start_release(&mut one);
    let old = one.store.read("ada", DumpWorkflow { workflow: id.clone() }).unwrap();
    assert!(move_workflow(&mut one, &mut two, &id, true).unwrap());
    two.store.write("cyd", claim(Some("build"))).unwrap();
    two.store.write("cyd", finish("build")).unwrap();
    assert!(move_workflow(&mut two, &mut one, &id, false).unwrap());
    let task = one.show(&id).tasks[0].task.clone();
    assert_eq!(task.status, TaskStatus::Completed);
    let kinds = one.event_kinds(task.id.as_str());
    assert_eq!(
        kinds,
        ["task.added", "task.claimed", "task.checkpointed", "task.released", "task.claimed", "task.completed"],
        "no event is duplicated"
    );
    assert!(move_workflow(&mut one, &mut three, &id, false).unwrap());
    let again = TakeWorkflow { dump: old, from: "zero".to_owned(), into: "one".to_owned(), dry_run: false };
    assert!(!one.store.write("ada", again).unwrap().is_new);
    assert!(!move_workflow(&mut two, &mut one, &id, false).unwrap(), "two has an older copy than one had");
    three.store.write("ada", claim(Some("test"))).unwrap();
    one.store.write("ada", claim(Some("test"))).unwrap_err();
    two.store.write("ada", claim(Some("test"))).unwrap_err();
}

#[test]
fn a_moved_workflow_can_be_retired_in_the_source() {
    let (mut here, mut there) = (Place::new("here", 3), Place::new("there", 4));
    let id = start_release(&mut here);
    here.store.write("ada", RetireWorkflow { workflow: id.clone() }).unwrap_err();
    move_workflow(&mut here, &mut there, &id, true).unwrap();
    let ended = here.store.write("ada", RetireWorkflow { workflow: id.clone() }).unwrap().workflow;
    assert_eq!((ended.status, ended.reason.as_deref()), (WorkflowStatus::Cancelled, Some("moved to there")));
    assert!(here.store.write("ada", ListInbox { limit: 10, peek: true, after: None }).unwrap().messages.is_empty());
    assert_eq!(there.show(&id).workflow.workflow.status, WorkflowStatus::InProgress);
}
