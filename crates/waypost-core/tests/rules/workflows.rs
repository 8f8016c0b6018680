//! Workflows and their tasks from plan to end: attempts, questions, changes of a plan.

use serde_json::{Value, json};
use waypost_core::Kind;
use waypost_core::work::plan::Plan;

use crate::harness::PERSON;
use crate::team::{Team, list, names};

fn plan(text: &str) -> Value {
    serde_json::to_value(Plan::from_text(text).unwrap()).unwrap()
}

/// As a shell passes it for a variable that is not set.
#[test]
fn an_empty_name_is_the_name_of_no_workflow_and_no_template() {
    let mut team = Team::with("a: one\n");
    let _ = team.data(PERSON, "save_template", json!({ "name": "t", "from": "w" }));
    for operation in ["show_workflow", "pause_workflow", "cancel_workflow"] {
        team.says(Kind::NotFound, PERSON, operation, json!({ "workflow": "" }), "no workflow \"\"");
    }
    team.says(Kind::NotFound, PERSON, "show_template", json!({ "name": "" }), "no template \"\"");
    assert_eq!(team.status("a"), "pending");
}

#[test]
fn the_fields_of_a_task_are_updated_until_it_ends() {
    let mut team = Team::with("a: one\nb: two\n");
    let change = json!({ "task": "b", "description": "two, painted", "priority": 0, "max_attempts": 5, "timeout_ms": 3_600_000 });
    let changed = team.data(PERSON, "update_task", change);
    assert_eq!(
        [&changed["description"], &changed["priority"], &changed["max_attempts"], &changed["run_timeout_ms"]],
        [&json!("two, painted"), &json!(0), &json!(5), &json!(3_600_000)]
    );
    assert_eq!(team.claim("ann", None)["task"]["name"], "b", "the most urgent one");
    let acceptance = json!({ "task": "b", "acceptance": ["dry", "red"] });
    let mut further = acceptance.clone();
    further["timeout_ms"] = json!(0);
    let _ = team.data(PERSON, "update_task", further);
    let shown = team.task("b");
    assert_eq!((&shown["run_timeout_ms"], &shown["acceptance"]), (&json!(null), &json!(["dry", "red"])));
    assert_eq!(shown["description"], "two, painted", "other fields stay");
    assert_eq!(team.events("task.changed").len(), 2);

    team.says(Kind::Invalid, PERSON, "update_task", json!({ "task": "b" }), "nothing to change");
    team.says(Kind::Invalid, PERSON, "update_task", acceptance, "nothing to change");
    let _ = team.data("ann", "fail_task", json!({ "task": "b", "error": "no paint" }));
    let fewer = json!({ "task": "b", "max_attempts": 1 });
    team.says(Kind::Invalid, PERSON, "update_task", fewer, "task b has already failed once");
    let _ = team.data(PERSON, "skip_task", json!({ "task": "a" }));
    team.says(Kind::Conflict, PERSON, "update_task", json!({ "task": "a", "priority": 1 }), "task a is skipped");
}

#[test]
fn retries_back_off_and_end_after_the_last_attempt() {
    let mut team = Team::with("a: one\n  max_attempts: 3\n  backoff: 1m\nb: two\n  needs: a\n");
    let fail = |team: &mut Team, hopeless: bool| {
        let _ = team.claim("ann", "a");
        team.data("ann", "fail_task", json!({ "task": "a", "error": "no luck", "hopeless": hopeless }))
    };
    assert_eq!(fail(&mut team, false)["status"], "failed");
    let summary = team.data(PERSON, "show_workflow_summary", json!({ "workflow": "w" }));
    assert_eq!(summary["failed"][0]["error"], "no luck");
    let _ = team.refused(Kind::Conflict, "ann", "claim_task", json!({ "task": "a" }));
    team.pass(59);
    let _ = team.refused(Kind::NothingToDo, "ann", "claim_task", json!({}));
    team.pass(1);
    assert_eq!(fail(&mut team, false)["attempts"], 2);
    team.pass(119);
    assert_eq!(team.status("a"), "failed");
    team.pass(1);
    assert_eq!(team.status("a"), "pending");
    let dead = fail(&mut team, false);
    assert_eq!((&dead["status"], &dead["attempts"]), (&json!("dead"), &json!(3)));
    // A person decides that it is worth another try.
    let _ = team.data(PERSON, "reopen_task", json!({ "task": "a" }));
    let _ = fail(&mut team, true);
    assert_eq!(team.status("a"), "dead");
}

#[test]
fn a_question_waits_for_a_person_and_survives_the_agent_that_asked() {
    let mut team = Team::with("a: one\n");
    let _ = team.claim("ann", None);
    let note = json!({ "task": "a", "kind": "progress", "summary": "read everything" });
    let _ = team.data("ann", "add_checkpoint", note);
    let asked = team.data("ann", "ask_question", json!({ "task": "a", "question": "blue or green?" }));
    assert_eq!(asked["status"], "waiting_input");
    team.pass(100_000);
    assert_eq!(team.status("a"), "waiting_input", "an open question does not expire");
    let _ = team.refused(Kind::NothingToDo, "bob", "claim_task", json!({}));
    let answer = |text: &str| json!({ "task": "a", "answer": text });
    let _ = team.refused(Kind::Refused, "bob", "answer_question", answer("green"));
    assert_eq!(team.data(PERSON, "answer_question", answer("green"))["status"], "pending");
    let _ = team.refused(Kind::Conflict, PERSON, "answer_question", answer("blue"));
    let claimed = team.claim("bob", None);
    let context = claimed["context"]["text"].as_str().unwrap();
    for wanted in ["Asked | blue or green?", "Answered: green", "read everything"] {
        assert!(context.contains(wanted), "{context}");
    }
}

#[test]
fn a_task_that_requires_evidence_cannot_be_completed_without_it() {
    let mut team = Team::with("a: one\n  evidence: yes\n");
    let _ = team.claim("ann", None);
    let done = |outcome: &str, evidence: Option<&str>| json!({ "task": "a", "outcome": outcome, "evidence": evidence });
    let error = team.refused(Kind::Invalid, "ann", "finish_task", done("x", None));
    assert!(error.hints()[0].contains("--evidence"), "{error:?}");
    let _ = team.refused(Kind::Invalid, "ann", "finish_task", done("x", Some(" ")));
    let _ = team.refused(Kind::Invalid, "ann", "finish_task", done("", Some("y")));
    let done = team.data("ann", "finish_task", done("x", Some("make test: 12 passed")));
    assert_eq!(done["evidence"], "make test: 12 passed");
}

#[test]
fn a_name_resolves_to_one_task_or_is_reported_as_ambiguous() {
    let mut team = Team::with("build: one\n");
    team.plan("v", "build: two\n");
    let show = |task: &str, workflow: Option<&str>| json!({ "task": task, "workflow": workflow });
    let _ = team.refused(Kind::Ambiguous, PERSON, "show_task", show("build", None));
    assert_eq!(team.task("v/build")["description"], "two");
    assert_eq!(team.data(PERSON, "show_task", show("build", Some("w")))["description"], "one");
    let near = team.refused(Kind::NotFound, PERSON, "show_task", show("v/biuld", None));
    assert_eq!(near.hints()[0], "did you mean build?");
    let id = team.task("v/build")["id"].clone();
    assert_eq!(team.data(PERSON, "show_context", json!({ "task": id }))["budget"], 8000);
    let _ = team.refused(Kind::NotFound, PERSON, "show_task", show("tk_000000000000", None));
}

#[test]
fn replanning_keeps_started_tasks_and_their_dependencies() {
    let mut team = Team::with("a: one\nb: two\n  needs: a\nc: three\n  needs: b\nd: four\n");
    let _ = team.claim("ann", "a");
    let anew = |text: &str, reason: &str| json!({ "workflow": "w", "plan": plan(text), "reason": reason });
    let new = "b: changed\n  needs: a\ne: five\n  needs: b\n";
    let _ = team.refused(Kind::Invalid, PERSON, "replan_workflow", anew(new, ""));
    let replanned = team.data(PERSON, "replan_workflow", anew(new, "c is done elsewhere"));
    assert_eq!(replanned["added"], json!(["e"]));
    assert_eq!(replanned["changed"], json!(["b"]));
    assert_eq!(replanned["removed"], json!(["c", "d"]));
    assert_eq!(replanned["kept"], json!(["a"]));
    let tasks = |team: &mut Team| names(&team.data(PERSON, "list_tasks", json!({ "workflow": "w" }))["tasks"]);
    assert_eq!(tasks(&mut team), ["a", "b", "e"]);
    assert_eq!(team.task("e")["blocked_by"], json!(["b"]));
    // The same plan again changes nothing, and one more task only adds that.
    let before = team.store.events().len();
    let same = team.data(PERSON, "replan_workflow", anew(new, "again"));
    assert_eq!((&same["added"], &same["changed"], &same["removed"]), (&json!([]), &json!([]), &json!([])));
    assert_eq!(same["kept"], json!(["a", "b", "e"]));
    assert_eq!(team.store.events().len(), before + 1, "only the planning event");
    let more = "f: six\nb: changed\n  needs: a\ne: five\n  needs: a\n";
    let more = team.data(PERSON, "replan_workflow", anew(more, "more"));
    assert_eq!((&more["added"], &more["changed"], &more["kept"]), (&json!(["f"]), &json!(["e"]), &json!(["a", "b"])));
    assert_eq!(tasks(&mut team), ["a", "f", "b", "e"], "in the order of the plan");
    let _ = team.finish("ann", "a");
    let circle = json!({ "tasks": [{ "name": "b", "depends_on": ["e"] }, { "name": "e", "depends_on": ["b"] }] });
    let circle = json!({ "workflow": "w", "plan": circle, "reason": "y" });
    assert_eq!(team.refused(Kind::Invalid, PERSON, "replan_workflow", circle).hints(), ["b → e → b"]);
}

#[test]
fn tasks_are_inserted_and_removed_again() {
    let mut team = Team::with("a: one\nc: three\n  needs: a\n");
    let task = json!({
        "name": "b", "description": "in between", "depends_on": ["a"], "priority": 0, "capabilities": ["linux", "gpu"],
        "acceptance": ["it works", "it is fast"], "files": ["x", "y"], "max_attempts": 1, "backoff": "5s",
        "timeout": "1h", "queue_timeout": "1d", "stall_timeout": "10m", "needs_evidence": true, "issue": "way-1",
        "parallel_group": "g", "plan": "carefully", "context": { "host": "x" }, "context_from": ["a"],
    });
    let added = team.data(PERSON, "add_task", json!({ "workflow": "w", "task": task, "before": ["c"] }));
    for (field, wanted) in [
        ("description", json!("in between")),
        ("priority", json!(0)),
        ("capabilities", json!(["linux", "gpu"])),
        ("acceptance", json!(["it works", "it is fast"])),
        ("files", json!(["x", "y"])),
        ("max_attempts", json!(1)),
        ("backoff_ms", json!(5_000)),
        ("run_timeout_ms", json!(3_600_000)),
        ("queue_timeout_ms", json!(86_400_000)),
        ("stall_timeout_ms", json!(600_000)),
        ("needs_evidence", json!(true)),
        ("issue", json!("way-1")),
        ("parallel_group", json!("g")),
        ("plan", json!("carefully")),
        ("context", json!({ "host": "x" })),
        ("context_from", json!(["a"])),
        ("blocked_by", json!(["a"])),
    ] {
        assert_eq!(added[field], wanted, "{field}");
    }
    assert_eq!(team.task("c")["blocked_by"], json!(["a", "b"]));
    let add = |task: Value, before: &[&str]| json!({ "workflow": "w", "task": task, "before": before });
    let _ = team.refused(Kind::Conflict, PERSON, "add_task", add(json!({ "name": "b" }), &[]));
    let _ = team.refused(Kind::NotFound, PERSON, "add_task", add(json!({ "name": "d" }), &["nothing"]));
    let circle = add(json!({ "name": "d", "depends_on": ["c"] }), &["a"]);
    let _ = team.refused(Kind::Invalid, PERSON, "add_task", circle);
    let _ = team.data(PERSON, "remove_task", json!({ "task": "w/b" }));
    assert_eq!(team.task("c")["blocked_by"], json!(["a"]));
    let _ = team.claim("ann", "a");
    let _ = team.refused(Kind::Conflict, PERSON, "remove_task", json!({ "task": "a" }));
}

#[test]
fn a_cancelled_workflow_notifies_the_holders_of_its_tasks() {
    let mut team = Team::with("a: one\nb: two\n");
    let _ = team.claim("ann", "a");
    let cancel = json!({ "workflow": "w", "reason": "another way was found" });
    let cancelled = team.data(PERSON, "cancel_workflow", cancel);
    assert_eq!((&cancelled["status"], &cancelled["reason"]), (&json!("cancelled"), &json!("another way was found")));
    assert_eq!(team.data("ann", "heartbeat", json!({ "task": "a", "epoch": 1 }))["is_cancelled"], true);
    let done = json!({ "task": "a", "epoch": 1, "outcome": "x" });
    let _ = team.refused(Kind::LeaseLost, "ann", "finish_task", done);
    let _ = team.refused(Kind::Conflict, PERSON, "resume_workflow", json!({ "workflow": "w" }));
}

#[test]
fn a_context_contains_earlier_outcomes_and_the_rest_of_the_plan() {
    let mut team = Team::with(
        "# The whole\na: first\nb: second\n  needs: a\n  context_from: c\nc: third\nd: fourth\n  needs: b\n",
    );
    for task in ["a", "c"] {
        let _ = team.claim("ann", task);
        let _ = team.finish("ann", task);
    }
    let context = team.data(PERSON, "show_context", json!({ "task": "b" }));
    let text = context["text"].as_str().unwrap();
    for wanted in ["second", "The whole", "a | result of a", "c | result of c", "d [pending]", "2 of 4 tasks done"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn a_context_of_5000_checkpoints_keeps_within_every_budget() {
    const COUNT: u32 = 5_000;
    let mut team = Team::with("a: one\n");
    let _ = team.claim("ann", None);
    team.store.give_checkpoints("ann", "a", COUNT);
    for budget in [500, 2_000, 8_000] {
        let context = team.data(PERSON, "show_context", json!({ "task": "a", "budget": budget }));
        let text = context["text"].as_str().unwrap();
        assert!(text.len() <= budget * 4, "{} bytes for {budget} tokens", text.len());
        assert_eq!(context["tokens"].as_u64().unwrap(), text.len().div_ceil(4) as u64);
        assert_eq!(context["budget"], budget);
        assert!(text.len() > budget * 3, "the budget is used: {} bytes for {budget} tokens", text.len());
        assert!(text.contains("\n5000. [progress] | number 5000 "), "the latest is there: {text}");
        // The checkpoints shown and those left out add up to all of them.
        let shown = text.lines().filter(|line| line.contains(". [progress] | number ")).count();
        let left_out = context["left_out"][0].as_str().unwrap();
        let left_out: usize = left_out.strip_suffix(" checkpoints").unwrap().parse().unwrap();
        assert_eq!(shown + left_out, COUNT as usize, "{budget}");
        assert!(text.ends_with(&format!("Left out: {left_out} checkpoints\n")), "{text}");
    }
    let claimed = team.data("ann", "claim_task", json!({ "task": "a", "budget": 500 }));
    assert!(claimed["context"]["tokens"].as_u64().unwrap() <= 500);
    let _ = team.refused(Kind::Invalid, PERSON, "show_context", json!({ "task": "a", "budget": 10 }));

    let page = team.data(PERSON, "list_checkpoints", json!({ "task": "a", "limit": 2, "before": 4_000 }));
    assert_eq!(page["total"], COUNT);
    let page = list(&page["checkpoints"]);
    assert_eq!(page.iter().map(|one| one["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [3_999, 3_998]);
}
