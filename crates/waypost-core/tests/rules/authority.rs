//! The rights of agents' tokens, and secrets in what callers write.

use waypost_core::Kind;
use waypost_core::context::{Authority, Caller};
use waypost_core::model::Role;
use waypost_core::op::{AddWorkflow, CancelWorkflow, RegisterAgent, SaveTemplate, SkipTask, StartWorkflow};
use waypost_core::redact::Secrets;
use waypost_core::work::plan::Plan;

use crate::harness::{PERSON, TestStore, claim, person_in, registration, workflow};

/// A caller with the token of an agent.
fn token_of(agent: &str) -> Caller {
    let agent = agent.to_owned();
    Caller { actor: agent.clone(), agent: Some(agent), authority: Authority::Agent, ..person_in(1) }
}

fn plan(task: &str) -> Plan {
    serde_json::from_value(serde_json::json!({ "tasks": [{ "name": task }] })).unwrap()
}

fn cancel(workflow: &str) -> CancelWorkflow {
    CancelWorkflow { workflow: workflow.to_owned(), reason: None }
}

#[test]
fn a_token_changes_only_work_that_its_agent_planned_or_holds() {
    let mut store = TestStore::new();
    let (ann, bob) = (token_of("ann"), token_of("bob"));
    for (caller, name) in [(&ann, "of-ann"), (&bob, "of-bob"), (&ann, "second")] {
        let planned = AddWorkflow { start: true, ..workflow(name, plan(name)) };
        store.write_as(caller, None, planned).unwrap();
    }
    let skip = |task: &str| SkipTask { task: task.to_owned(), ..SkipTask::default() };
    let start = || StartWorkflow { workflow: "of-bob".to_owned() };
    for refused in [
        store.write_as(&ann, None, cancel("of-bob")).map(drop),
        store.write_as(&ann, None, skip("of-bob")).map(drop),
        store.write_as(&ann, None, start()).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), Kind::Refused);
    }
    // A task that the agent holds is its own; one that another agent holds is not, even for its planner.
    store.write_as(&ann, None, claim(Some("of-bob"))).unwrap();
    assert_eq!(store.write_as(&bob, None, skip("of-bob")).unwrap_err().kind(), Kind::Refused);
    store.write_as(&ann, None, skip("of-bob")).unwrap();
    store.write_as(&ann, None, cancel("of-ann")).unwrap();
    // People and coordinators may change the work of others.
    store.write(PERSON, RegisterAgent { role: Some(Role::Coordinator), ..registration(Some("bob"), None) }).unwrap();
    store.write_as(&bob, None, cancel("second")).unwrap();
}

#[test]
fn templates_are_saved_by_coordinators_and_people() {
    let mut store = TestStore::new();
    let template = || SaveTemplate {
        name: "t".to_owned(),
        body: Some(serde_json::json!({ "tasks": [{ "name": "a" }] })),
        ..SaveTemplate::default()
    };
    assert_eq!(store.write_as(&token_of("ann"), None, template()).unwrap_err().kind(), Kind::Refused);
    store.write(PERSON, template()).unwrap();
    store.write(PERSON, RegisterAgent { role: Some(Role::Coordinator), ..registration(Some("ann"), None) }).unwrap();
    store.write_as(&token_of("ann"), None, template()).unwrap();
}

#[test]
fn no_secret_reaches_a_record_or_an_event() {
    let mut store = TestStore::new();
    let caller = Caller { secrets: Secrets::new(["canary-of-a-variable".to_owned()]), ..person_in(1) };
    let token = format!("ghp_{}", "canary0123".repeat(4));
    let text = format!("{token} canary-of-a-variable");
    let made = AddWorkflow { summary: Some(text.clone()), source_content: Some(text), ..workflow("w", plan("a")) };
    let made = store.write_as(&caller, None, made).unwrap();
    assert_eq!(made.workflow.summary.as_deref(), Some("ghp_[redacted] [redacted]"));
    let events = serde_json::to_string(&store.events()).unwrap();
    assert!(!events.contains("canary"), "{events}");
}
