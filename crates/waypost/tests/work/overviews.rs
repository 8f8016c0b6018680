//! What a caller sees of all work at once: the status, graphs, and the introduction of an agent.

use serde_json::{Value, json};
use waypost::Kind;

use crate::harness::{Office, PERSON, data, list, names, open, refused, workflow};

const PLAN: &str = "design: Draw it\nbuild <- design\ndocs <- design\ntest <- build\nrelease <- test, docs\n";

#[test]
fn a_graph_lays_out_workflows_and_issues_and_a_change_of_status_moves_nothing() {
    let office = Office::with(PLAN);
    let graph = |subject: &str| office.data(PERSON, "show_graph", json!({ "subject": subject }));
    let before = graph("w");
    assert_eq!((&before["layers"], &before["rows"]), (&json!(4), &json!(2)));
    let id = |name: &str| {
        let nodes = list(&before["nodes"]);
        nodes.iter().find(|node| node["name"] == name).unwrap()["id"].clone()
    };
    let edge = |from: &str, to: &str| {
        let edges = list(&before["edges"]);
        edges.iter().find(|edge| edge["from"] == id(from) && edge["to"] == id(to)).unwrap().clone()
    };
    assert_eq!(list(&edge("docs", "release")["bends"]).len(), 1, "it crosses a layer");
    assert_eq!(edge("docs", "release")["is_critical"], false);
    assert_eq!(edge("test", "release")["is_critical"], true);
    assert_eq!(before["critical_path"], json!(["design", "build", "test", "release"].map(id)));
    let _ = office.data("me", "claim_task", json!({ "task": "design" }));
    let _ = office.data("me", "finish_task", json!({ "task": "design", "outcome": "x" }));
    let after = graph("w");
    let places = |graph: &Value| -> Vec<Value> {
        list(&graph["nodes"]).iter().map(|node| json!([node["id"], node["layer"], node["row"]])).collect()
    };
    assert_eq!(places(&before), places(&after));
    assert_eq!(after["nodes"][0]["state"], "done");
    assert_eq!(after["critical_path"], json!(["build", "test", "release"].map(id)), "what is done is not on it");
    let first = office.issue("Lay the base", json!({}));
    let second = office.issue("Build on it", json!({}));
    let _ = office.data(PERSON, "add_dependency", json!({ "issue": second, "on": first }));
    assert_eq!(graph(&second)["critical_path"], json!([first, second]));
    let _ = office.refused(Kind::NotFound, PERSON, "show_graph", json!({ "subject": "wombat" }));
}

#[test]
fn the_status_of_one_repository_has_all_its_rows_however_many_others_have() {
    let office = Office::new();
    let (one, two) = (office.sandbox.git_repo("one"), office.sandbox.git_repo("two"));
    let many = (0..1_100).map(|number| format!("t{number}: work\n")).collect::<Vec<_>>().concat();
    for (dir, name, plan) in [(&two, "many", many.as_str()), (&one, "few", "alone: work\n")] {
        open(&office.shared(dir), "planner").call(workflow(name, plan)).unwrap();
    }
    let here = office.shared(&one);
    let status = |arguments: Value| data(&here, PERSON, "show_status", arguments);
    let queued = |status: &Value| {
        let groups = list(&status["groups"]);
        groups.into_iter().find(|group| group["group"] == "queued").unwrap()
    };
    let all = queued(&status(json!({})));
    assert_eq!((&all["total"], &all["has_more"]), (&json!(1_000), &json!(true)), "{all}");
    let of_one = status(json!({ "repository": "one" }));
    let few = queued(&of_one);
    assert_eq!((&few["total"], few.get("has_more")), (&json!(1), None), "{few}");
    assert_eq!(few["rows"][0]["name"], "few/alone");
    for part in ["worktrees", "workflows"] {
        assert_eq!(list(&of_one[part]).len(), 1, "{part}: {}", of_one[part]);
    }
    assert_eq!(of_one["totals"]["ready"], 1);
    let worktree = &of_one["worktrees"][0]["id"];
    assert!(list(&of_one["events"]).iter().all(|event| event["worktree_id"] == *worktree), "{of_one}");
    let many = queued(&status(json!({ "repository": "two", "limit": 3 })));
    assert_eq!((list(&many["rows"]).len(), &many["has_more"]), (3, &json!(true)));
    let unknown = refused(&here, Kind::NotFound, PERSON, "show_status", json!({ "repository": "three" }));
    assert!(unknown.to_string().contains("no repository \"three\""), "{unknown}");
}

#[test]
fn prime_stays_under_800_tokens_in_a_busy_store() {
    let plan: String = (0..300).fold(String::new(), |plan, number| {
        plan + &format!("task-{number}-{}: {}\n", "n".repeat(100), "words ".repeat(50))
    });
    let office = Office::with(&plan);
    let claim = |agent: &str| office.data(agent, "claim_task", json!({}))["task"]["id"].take();
    for _ in 0..12 {
        let note = json!({ "task": claim("ann"), "kind": "progress", "summary": "half ".repeat(100) });
        let _ = office.data("ann", "add_checkpoint", note);
    }
    for _ in 0..5 {
        let ask = json!({ "task": claim("bob"), "question": "why ".repeat(100) });
        let _ = office.data("bob", "ask_question", ask);
    }
    let title = |number: u32| format!("Issue {number} {}", "with a long title ".repeat(20));
    let issues: Vec<String> =
        (0..5).map(|number| office.issue(&title(number), json!({ "priority": number }))).collect();
    // An issue that another agent holds is not offered.
    let _ = office.data("bob", "claim_issue", json!({ "issue": issues[1] }));
    for agent in ["ann", "bob", "new"] {
        let prime = office.data(agent, "prime", json!({}));
        assert!(prime["tokens"].as_u64().unwrap() <= 800, "{prime}");
        let text = prime["text"].as_str().unwrap();
        for wanted in [
            &format!("You are {agent}."),
            "way task claim",
            "way task done",
            "Exit code 5",
            "Next tasks",
            "Ready issues",
        ] {
            assert!(text.contains(wanted), "{agent}, {wanted}: {text}");
        }
        let is_shown =
            |issue: usize| text.contains(&format!("{}, priority {issue} | Issue {issue} with", issues[issue]));
        assert_eq!([0, 1, 2, 3, 4].map(is_shown), [true, false, true, true, false], "{text}");
        assert!(text.contains("and more: way ready"), "{text}");
        assert_eq!(text.contains("You hold"), agent != "new", "{text}");
    }
    assert!(office.data("ann", "prime", json!({ "budget": 400 }))["tokens"].as_u64().unwrap() <= 400);
    // Reading registers no agent.
    let agents = names(&office.data(PERSON, "list_agents", json!({}))["agents"]);
    assert!(!agents.contains(&"new".to_owned()), "{agents:?}");
}
