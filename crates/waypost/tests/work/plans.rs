//! Plans from files: three forms, and what makes a plan impossible.

use serde_json::{Value, json};
use waypost::op::AddWorkflow;
use waypost::work::read_plan;
use waypost::{Kind, Result};
use waypost_core::work::view::WorkflowView;

use crate::harness::{Office, PERSON, list, workflow};

const JSON: &str = r#"{"summary": "Ship it", "tasks": [
    {"name": "build", "description": "Compile: everything", "files": ["src/lib.rs", "src/main.rs"], "priority": 1},
    {"name": "test", "description": "Run the tests", "depends_on": ["build"], "timeout": "10m", "capabilities": ["linux"],
     "acceptance": "all green", "needs_evidence": true, "max_attempts": 5, "backoff": "30s"},
    {"name": "notes", "informed_by": ["build"], "context_from": ["test"], "parallel_group": "docs",
     "queue_timeout": "2h", "stall_timeout": "90s", "plan": "by hand", "issue": "way-1"}]}"#;

const YAML: &str = "\
summary: Ship it
tasks:
  - name: build
    description: 'Compile: everything'
    files: [src/lib.rs, src/main.rs]
    priority: 1
  - name: test
    description: Run the tests
    depends_on: build
    timeout: 10m
    capabilities: [linux]
    acceptance: all green
    needs_evidence: true
    max_attempts: 5
    backoff: 30s
  - name: notes
    informed_by: [build]
    context_from: [test]
    parallel_group: docs
    queue_timeout: 2h
    stall_timeout: 90s
    plan: by hand
    issue: way-1
";

const SHORT: &str = "\
# Ship it

build: Compile: everything
    files: src/lib.rs, src/main.rs
    priority: 1
test: Run the tests
    needs: build
    timeout: 10m
    capabilities: linux
    acceptance: all green
    evidence: required
    max_attempts: 5
    backoff: 30s
notes:
    informed_by: build
    context_from: test
    parallel_group: docs
    queue_timeout: 2h
    stall_timeout: 90s
    plan: by hand
    issue: way-1
";

/// A workflow without the fields that differ between any two.
fn essence(mut workflow: Value) -> Value {
    fn strip(value: &mut Value) {
        if let Value::Object(fields) = value {
            for key in ["id", "workflow_id", "name_of_file", "repository_id"] {
                fields.remove(key);
            }
            fields.values_mut().for_each(strip);
        } else if let Value::Array(items) = value {
            items.iter_mut().for_each(strip);
        }
    }
    strip(&mut workflow);
    workflow
}

/// Writes a plan into a file, reads it, and creates a workflow with it.
fn create(office: &Office, name: &str, file: &str, text: &str, start: bool) -> Result<WorkflowView> {
    let path = office.repo.join(file);
    office.sandbox.write(&path, text);
    let plan = Some(read_plan(&path)?);
    office.session("planner").call(AddWorkflow { plan, start, ..workflow(name, "x: y\n") })
}

#[test]
fn c9_a_plan_in_three_forms_makes_equal_workflows() {
    let mut seen = Vec::new();
    for (file, text) in [("plan.json", JSON), ("plan.yaml", YAML), ("plan.txt", SHORT), ("plan", YAML), ("plan", JSON)]
    {
        let office = Office::new();
        let _ = create(&office, "w", file, text, false).unwrap();
        let mut workflow = essence(office.data(PERSON, "show_workflow", json!({ "workflow": "w" })));
        workflow["repositories"] = json!([]);
        let text = workflow.to_string().replace(workflow["worktree_id"].as_str().unwrap(), "wt");
        seen.push(text.replace(office.repo.to_str().unwrap(), "/repo"));
    }
    for other in &seen[1..] {
        assert_eq!(other, &seen[0]);
    }
    assert!(seen[0].contains("\"run_timeout_ms\":600000") && seen[0].contains("\"acceptance\":[\"all green\"]"));
}

#[test]
fn c9_an_impossible_plan_is_refused_and_nothing_is_stored() {
    let office = Office::new();
    let _ = office.session("planner");
    for (plan, message, hint) in [
        ("a: x\n  needs: c\nb: x\n  needs: a\nc: x\n  needs: b\n", "has a dependency cycle", "a → c → b → a"),
        ("a: x\n  needs: a\n", "task a depends on itself", ""),
        ("a: x\na: y\n", "two tasks of the plan are called \"a\"", ""),
        ("build: x\ntest: y\n  needs: biuld\n", "names \"biuld\", which is not in the plan", "did you mean build?"),
        ("a: x\nb: y\n  needs: a, a\n", "depends on a twice", ""),
        ("a: x\n  context_from: b\n", "names \"b\", which is not in the plan", ""),
        ("a: x\n  priority: 7\n", "a priority is a number from 0 to 4", ""),
        ("a: x\n  priority: high\n", "priority is a number, not \"high\"", ""),
        ("a: x\n  max_attempts: 0\n", "at least one attempt", ""),
        ("a: x\n  prio: 1\n", "unknown field \"prio\"", ""),
        ("    needs: a\n", "indented, but no task precedes it", ""),
        ("", "the plan is empty", ""),
        ("{\"tasks\": []}", "at least one task", ""),
        ("{\"tasks\": ", "is not JSON", ""),
        ("tasks:\n- name: a\n  timeout: soon\n", "task 1 (a) of the plan cannot be read", ""),
        ("tasks:\n- name: a\n  name: b\n", "line 3: the key \"name\" occurs twice", ""),
        ("tasks: [", "this is not YAML", ""),
        ("---\n&a [*a]", "refers to itself", ""),
        ("a\u{7}: x\n", "cannot be the name of a task", ""),
    ] {
        for start in [false, true] {
            let error = create(&office, "w", "plan", plan, start).expect_err(plan);
            assert_eq!(error.kind(), Kind::Invalid, "{plan:?}: {error:?}");
            assert!(error.full_message().contains(message), "{plan:?}: {error:?}");
            assert!(hint.is_empty() || error.hints().iter().any(|said| said == hint), "{plan:?}: {error:?}");
        }
    }
    assert_eq!(read_plan(&office.repo.join("nowhere.json")).unwrap_err().kind(), Kind::Invalid);
    let all = office.data(PERSON, "list_workflows", json!({ "query": { "limit": 9 } }));
    assert_eq!(all["workflows"], json!([]));
    assert_eq!(office.data(PERSON, "list_tasks", json!({}))["tasks"], json!([]));
    let events = office.data(PERSON, "list_events", json!({ "query": { "since": 0, "limit": 100 } }));
    assert_eq!(list(&events["events"]).len(), 2, "only the events of the new worktree");
}
