//! A history without violations, and histories with one violation each.

use serde_json::{Value, json};

use crate::history::History;
use crate::rules::check;

fn start(op: u64, time: u64, does: &Value) -> Value {
    json!({"line": "start", "op": op, "time": time, "does": does})
}

fn end(op: u64, time: u64, code: Option<i64>, answer: &Value) -> Value {
    json!({"line": "end", "op": op, "time": time, "code": code, "answer": answer})
}

fn claim(agent: &str) -> Value {
    json!({"kind": "claim", "agent": agent})
}

fn granted(epoch: u64) -> Value {
    json!({"task": {"id": "t"}, "lease": {"epoch": epoch}})
}

fn held(kind: &str, epoch: u64, text: &str) -> Value {
    json!({"kind": kind, "task": "t", "epoch": epoch, "text": text})
}

fn event(sequence: u64, kind: &str, subject: &str, data: &Value) -> Value {
    let time = format!("2026-01-01T00:{sequence:02}:00.000Z");
    json!({"sequence": sequence, "time": time, "kind": kind, "subject": subject, "data": data})
}

/// One worker dies after a checkpoint, and another finishes the task. A third one writes issues and messages.
fn valid_history() -> Vec<Value> {
    let by = |agent: &str, epoch: u64| json!({"agent": agent, "epoch": epoch});
    let noted = |agent: &str, epoch: u64, id: &str| json!({"agent": agent, "epoch": epoch, "checkpoint": id});
    let send = |text: &str| json!({"kind": "send", "from": "a", "to": "b", "text": text, "key": format!("k-{text}")});
    vec![
        json!({"line": "head", "allowed": [], "lease_us": 100}),
        start(1, 10, &claim("a")),
        end(1, 20, Some(0), &granted(1)),
        start(2, 30, &held("checkpoint", 1, "half")),
        end(2, 40, Some(0), &json!({"checkpoint": {"id": "c1"}})),
        start(3, 300, &claim("b")),
        end(3, 310, Some(0), &granted(2)),
        start(4, 320, &held("checkpoint", 1, "late")),
        end(4, 330, Some(5), &Value::Null),
        start(5, 340, &held("done", 2, "")),
        end(5, 350, Some(0), &json!({"id": "t"})),
        start(6, 20, &json!({"kind": "add", "text": "title"})),
        end(6, 40, Some(0), &json!({"id": "i"})),
        start(7, 50, &json!({"kind": "comment", "issue": "i", "text": "killed"})),
        end(7, 60, None, &Value::Null),
        start(8, 70, &json!({"kind": "close", "issue": "i"})),
        end(8, 80, Some(0), &Value::Null),
        start(9, 70, &send("one")),
        end(9, 80, None, &Value::Null),
        start(10, 90, &send("one")),
        end(10, 100, Some(0), &json!({"id": "m1"})),
        start(11, 110, &send("two")),
        end(11, 120, Some(0), &json!({"id": "m2"})),
        json!({
            "line": "state",
            "tasks": [{"id": "t", "status": "completed"}],
            "checkpoints": [{"id": "c1", "task_id": "t", "summary": "half"}],
            "issues": [{"id": "i", "title": "title", "status": "closed", "comments": [], "labels": []}],
            "messages": [{"id": "m1", "body": "one"}, {"id": "m2", "body": "two"}],
            "events": [
                event(1, "task.claimed", "t", &by("a", 1)),
                event(2, "task.checkpointed", "t", &noted("a", 1, "c1")),
                event(3, "message.sent", "m1", &json!({})),
                event(4, "message.sent", "m2", &json!({})),
                event(5, "task.claimed", "t", &by("b", 2)),
                event(6, "task.completed", "t", &by("b", 2)),
            ],
        }),
    ]
}

/// Returns the lines of a file.
fn to_file(lines: &[Value]) -> String {
    lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn violations(lines: &[Value]) -> Vec<String> {
    check(&History::parse(&to_file(lines)).unwrap())
}

/// Adds a violation and expects that exactly these rules report it.
#[track_caller]
fn is_caught(rules: &[&str], violate: impl FnOnce(&mut Vec<Value>, &mut Value)) {
    let mut lines = valid_history();
    let mut state = lines.pop().unwrap();
    violate(&mut lines, &mut state);
    lines.push(state);
    let found = violations(&lines);
    let mut names: Vec<&str> = found.iter().map(|text| text.split_once(':').unwrap().0).collect();
    names.dedup();
    assert_eq!(names, rules, "{found:#?}");
}

#[test]
fn a_history_without_violations_is_accepted() {
    assert_eq!(violations(&valid_history()), Vec::<String>::new());
}

#[test]
fn a_history_without_a_final_state_is_rejected() {
    assert!(History::parse(&to_file(&valid_history()[..3])).is_err());
}

#[test]
fn a_lost_acknowledged_write_is_caught() {
    is_caught(&["acknowledged write lost"], |_, state| state["issues"] = json!([]));
    is_caught(&["acknowledged write lost"], |_, state| state["issues"][0]["status"] = "open".into());
    is_caught(&["acknowledged write lost", "half a write"], |_, state| state["checkpoints"] = json!([]));
    is_caught(&["acknowledged write lost", "half a write"], |_, state| {
        state["messages"].as_array_mut().unwrap().truncate(1);
    });
}

#[test]
fn a_duplicate_write_is_caught() {
    is_caught(&["written twice"], |_, state| {
        let copy = state["issues"][0].clone();
        state["issues"].as_array_mut().unwrap().push(copy);
    });
}

#[test]
fn a_refused_write_with_an_effect_is_caught() {
    is_caught(&["refused write happened"], |lines, state| {
        lines.push(start(20, 400, &json!({"kind": "comment", "issue": "i", "text": "c"})));
        lines.push(end(20, 410, Some(4), &Value::Null));
        state["issues"][0]["comments"] = json!([{"text": "c"}]);
    });
}

#[test]
fn a_second_holder_is_caught() {
    is_caught(&["second holder"], |_, state| state["events"][4]["data"]["epoch"] = 1.into());
    is_caught(&["second holder"], |lines, _| {
        lines.push(start(20, 12, &claim("c")));
        lines.push(end(20, 22, Some(0), &granted(1)));
    });
}

#[test]
fn a_write_of_a_former_holder_is_caught() {
    is_caught(&["acknowledged write lost", "stale write accepted"], |lines, _| {
        lines[8]["code"] = 0.into();
        lines[8]["answer"] = json!({"checkpoint": {"id": "c9"}});
    });
}

#[test]
fn a_lease_that_is_lost_early_is_caught() {
    is_caught(&["lease lost early"], |lines, _| {
        lines.push(start(20, 50, &held("checkpoint", 1, "soon")));
        lines.push(end(20, 60, Some(5), &Value::Null));
    });
}

#[test]
fn a_gap_and_a_step_back_in_time_are_caught() {
    is_caught(&["gap in the history"], |_, state| {
        state["events"].as_array_mut().unwrap().remove(2);
        state["events"].as_array_mut().unwrap().insert(2, event(9, "message.sent", "m1", &json!({})));
    });
    is_caught(&["gap in the history"], |_, state| state["events"][3]["time"] = "2025-01-01T00:00:00.000Z".into());
}

#[test]
fn a_key_with_two_answers_is_caught() {
    is_caught(&["key with two answers"], |lines, _| {
        let again = lines[19]["does"].clone();
        lines.push(start(20, 130, &again));
        lines.push(end(20, 140, Some(0), &json!({"id": "m9"})));
    });
}

#[test]
fn messages_out_of_order_are_caught() {
    is_caught(&["message order"], |_, state| state["messages"].as_array_mut().unwrap().reverse());
}

#[test]
fn a_task_that_is_stuck_or_finished_twice_is_caught() {
    is_caught(&["task stuck or finished twice"], |_, state| state["tasks"][0]["status"] = "in_progress".into());
    is_caught(&["written twice", "task stuck or finished twice"], |_, state| {
        let events = state["events"].as_array_mut().unwrap();
        events.push(event(7, "task.completed", "t", &json!({"agent": "b", "epoch": 2})));
    });
}

#[test]
fn an_internal_error_is_caught() {
    for code in [1, 8, 9, 101] {
        is_caught(&["exit code"], |lines, _| {
            lines.push(start(20, 400, &json!({"kind": "add", "text": "other"})));
            lines.push(end(20, 410, Some(code), &Value::Null));
        });
    }
}

/// Adds an acknowledged write of a field or an item.
fn set(lines: &mut Vec<Value>, op: u64, field: &str, item: Option<&str>, value: &Value) {
    let does = json!({"kind": "set", "issue": "i", "field": field, "item": item, "value": value});
    lines.push(start(op, 10 * op, &does));
    lines.push(end(op, 10 * op + 5, Some(0), &Value::Null));
}

#[test]
fn a_removal_that_is_undone_is_caught() {
    let rule = &["overwritten value came back"];
    is_caught(rule, |lines, state| {
        set(lines, 20, "labels", Some("l"), &json!(true));
        set(lines, 21, "labels", Some("l"), &json!(false));
        state["issues"][0]["labels"] = json!(["l"]);
    });
    is_caught(rule, |lines, state| {
        set(lines, 20, "dependencies", Some("j"), &json!(false));
        state["issues"][0]["dependencies"] = json!([{"depends_on_id": "j"}]);
    });
    is_caught(rule, |lines, _| set(lines, 20, "labels", Some("l"), &json!(true)));
    is_caught(rule, |lines, state| {
        set(lines, 20, "notes", None, &json!("text"));
        set(lines, 21, "notes", None, &json!(""));
        state["issues"][0]["notes"] = json!("text");
    });
}

#[test]
fn an_end_of_an_attempt_without_effect_is_caught() {
    for kind in ["fail", "release", "heartbeat"] {
        is_caught(&["acknowledged write lost"], |lines, _| {
            lines.push(start(20, 345, &held(kind, 2, "")));
            lines.push(end(20, 346, Some(0), &Value::Null));
        });
    }
}

#[test]
fn a_message_that_comes_after_its_acknowledgement_is_caught() {
    is_caught(&["message shown again"], |lines, state| {
        lines.push(start(20, 130, &json!({"kind": "ack", "message": "m1"})));
        lines.push(end(20, 140, Some(0), &Value::Null));
        lines.push(start(21, 150, &json!({"kind": "inbox", "agent": "b"})));
        lines.push(end(21, 160, Some(0), &json!([{"id": "m1"}])));
        state["messages"][0]["state"] = "acted".into();
    });
    is_caught(&["acknowledged write lost"], |lines, _| {
        lines.push(start(20, 130, &json!({"kind": "ack", "message": "m1"})));
        lines.push(end(20, 140, Some(0), &Value::Null));
    });
}

/// Adds tasks `u`, `v` and `w`, of which `v` waits for `u` and `w` needs `x`, and the claim of one of them by `a`.
fn claim_one(state: &mut Value, claimed: &str) {
    let task = |id: &str, priority: u64, capabilities: &[&str]| {
        let attempts = 0;
        json!({"after": {"id": id, "workflow_id": "f", "status": "pending", "priority": priority, "attempts": attempts,
            "capabilities": capabilities}})
    };
    let moved = json!({"agent": "a", "epoch": 1, "changed": {"status": ["pending", "in_progress"]}});
    let mut last = event(11, "task.claimed", claimed, &moved);
    last["actor"] = "a".into();
    state["events"].as_array_mut().unwrap().extend([
        event(7, "task.added", "u", &task("u", 1, &[])),
        event(8, "task.added", "v", &task("v", 2, &[])),
        event(9, "task.added", "w", &task("w", 0, &["x"])),
        event(10, "task.dependency_added", "v", &json!({"after": {"depends_on": "u"}})),
        last,
    ]);
}

#[test]
fn a_claim_against_the_plan_is_caught() {
    let rule = &["impossible event"];
    is_caught(&[], |_, state| claim_one(state, "u"));
    is_caught(rule, |_, state| claim_one(state, "v"));
    is_caught(rule, |_, state| claim_one(state, "w"));
    is_caught(rule, |_, state| {
        claim_one(state, "u");
        state["events"][8]["data"]["after"]["capabilities"] = json!([]);
    });
    is_caught(rule, |_, state| {
        claim_one(state, "u");
        state["events"][9] = event(10, "workflow.created", "f", &json!({"after": {"max_parallel": 0}}));
    });
}

#[test]
fn changes_that_do_not_follow_from_each_other_are_caught() {
    let changed = |change: &Value| {
        let data = json!({"agent": "a", "epoch": 1, "changed": change});
        event(12, "task.failed", "u", &data)
    };
    for change in [json!({"attempts": [0, 2]}), json!({"status": ["pending", "failed"]})] {
        is_caught(&["impossible event"], |_, state| {
            claim_one(state, "u");
            state["events"].as_array_mut().unwrap().push(changed(&change));
        });
    }
}
