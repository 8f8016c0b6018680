//! Workflows made of issues.

use serde_json::{Value, json};

use crate::work::Team;

fn issue(team: &Team, line: &str) -> String {
    team.data(&format!("add {line}"))["id"].as_str().unwrap().to_owned()
}

fn task<'a>(tasks: &'a Value, name: &str) -> &'a Value {
    let found = tasks.as_array().unwrap().iter().find(|task| task["name"] == name);
    found.unwrap_or_else(|| panic!("no task {name} in {tasks}"))
}

#[test]
fn an_epic_becomes_a_workflow_of_its_open_issues() {
    let team = Team::new();
    let epic = issue(&team, "'The whole' --type epic --description 'All of it'");
    let part = |title: &str, more: &str| issue(&team, &format!("'{title}' --parent {epic} {more}"));
    let (first, second) = (part("First", "-p 1 --description 'do it'"), part("Second", ""));
    let inner = part("Inner", "--type epic");
    let nested = issue(&team, &format!("Nested --parent {inner}"));
    let deeper = issue(&team, &format!("Deeper --parent {nested}"));
    let (closed, aside) = (part("Closed", ""), part("Later", ""));
    let outside = issue(&team, "Outside");
    let _ = team.data(&format!("close {closed}"));
    let _ = team.data(&format!("update {aside} --status deferred"));
    for (waiting, blocker) in
        [(&second, &first), (&inner, &first), (&second, &inner), (&second, &closed), (&first, &outside)]
    {
        let _ = team.data(&format!("dep add {waiting} {blocker}"));
    }
    let run = team.way(&format!("workflow from-issue {epic} --start"));
    assert_eq!(run.code, 0, "{run:#?}");
    let warnings: Vec<_> = run.stderr.lines().collect();
    assert_eq!(
        warnings,
        [
            format!("warning: left out, because deferred or frozen: {aside} (deferred)"),
            format!("warning: {first} waits for {outside}, which is open and not part of this workflow"),
        ]
    );
    let workflow = team.data(&format!("workflow show {epic}"));
    for (field, wanted) in [
        ("status", json!("in_progress")),
        ("source", json!("issue")),
        ("source_ref", json!(epic)),
        ("source_content", json!("All of it")),
        ("summary", json!("The whole")),
    ] {
        assert_eq!(workflow[field], wanted, "{field}");
    }
    let tasks = &workflow["tasks"];
    assert_eq!(tasks.as_array().unwrap().len(), 4, "{tasks}");
    let sorted = |mut names: Vec<&String>| {
        names.sort();
        json!(names)
    };
    let waits = |name: &str| {
        let mut names: Vec<String> = serde_json::from_value(task(tasks, name)["depends_on"].clone()).unwrap();
        names.sort();
        json!(names)
    };
    assert_eq!(waits(&first), json!([]));
    assert_eq!(waits(&deeper), json!([first]), "the parts of an epic wait for the epic's blockers");
    assert_eq!(waits(&nested), json!([first]), "an issue that is not an epic does not wait for its parts");
    assert_eq!(
        waits(&second),
        sorted(vec![&first, &nested, &deeper]),
        "an issue that waits for an epic waits for its parts"
    );
    let first_task = task(tasks, &first);
    assert_eq!((&first_task["issue"], &first_task["priority"]), (&json!(first), &json!(1)));
    assert_eq!(first_task["description"], "First\n\ndo it");

    let _ = team.data("task claim --agent ann");
    let _ = team.data(&format!("task done {first} --agent ann --outcome 'as it should be'"));
    assert_eq!(team.data(&format!("show {first}"))["close_reason"], "as it should be");
    assert_eq!(team.data(&format!("show {first}"))["status"], "closed");
    assert_eq!(team.refused(4, &format!("workflow from-issue {epic}"))["code"], "conflict");
}

#[test]
fn a_single_issue_becomes_one_task() {
    let team = Team::new();
    let one = issue(&team, "'Fix it' --acceptance '* it works\n* it lasts'");
    let _ = team.data(&format!("update {one} --design 'with care'"));
    let made = team.data(&format!("workflow from-issue {one} --name fixing --max-parallel 1"));
    assert_eq!((&made["name"], &made["status"], &made["total"]), (&json!("fixing"), &json!("ready"), &json!(1)));
    let task = team.data(&format!("task show {one}"));
    assert_eq!((&task["plan"], &task["acceptance"]), (&json!("with care"), &json!(["it works", "it lasts"])));
    let _ = team.data(&format!("close {one}"));
    assert_eq!(team.refused(4, &format!("workflow from-issue {one} --name again"))["code"], "conflict");
    assert_eq!(team.refused(3, "workflow from-issue repo-nothing")["code"], "not_found");
    let empty = issue(&team, "Empty --type epic");
    assert!(team.refused(4, &format!("workflow from-issue {empty}"))["message"].as_str().unwrap().contains("no part"));
}
