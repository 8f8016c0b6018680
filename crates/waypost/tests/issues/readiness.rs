//! Which issues can be worked on.

use serde_json::json;
use waypost::Kind;

use crate::desk::{Desk, id, refusal};

#[test]
fn custom_statuses_follow_the_configuration() {
    let desk = Desk::new();
    let base = desk.add("Base");
    let next = desk.add_with("Next", json!({ "blocked_by": [&base] }));
    let ship = json!({ "issue": &base, "status": "shipped" });
    let said = desk.refused(Kind::Invalid, "update_issue", ship.clone());
    assert!(said.contains("there is no status \"shipped\""), "{said}");
    desk.set("statuses.done", "shipped,dropped");
    desk.set("statuses.active", "triage");
    desk.run("update_issue", ship);
    assert_eq!(desk.ready(), std::slice::from_ref(&next), "a finished blocker does not block");
    desk.update(&next, json!({ "status": "triage" }));
    assert_eq!(desk.ready(), std::slice::from_ref(&next));
    desk.unset("statuses.active");
    assert!(desk.ready().is_empty());
}

#[test]
fn a_missing_blocker_blocks_unless_configured_otherwise() {
    let desk = Desk::new();
    desk.write_lines(&[r#"{"id":"a","title":"A","dependencies":[{"depends_on_id":"x"}]}"#]);
    assert!(desk.ready().is_empty());
    desk.set("ready.unresolved", "ignore");
    assert_eq!(desk.ready(), ["a"]);
}

#[test]
fn parts_of_an_issue_deferred_by_a_custom_status_are_not_ready() {
    let desk = Desk::new();
    desk.set("statuses.frozen", "on-ice");
    let whole = desk.add("Whole");
    let part = desk.add_with("Part", json!({ "parent": &whole }));
    assert!(desk.ready().contains(&part));
    desk.update(&whole, json!({ "status": "on-ice" }));
    assert!(!desk.ready().contains(&part));
}

#[test]
fn records_with_which_other_tools_coordinate_agents_are_not_ready() {
    let desk = Desk::new();
    let line = |id: &str, priority: u8, fields: &str| {
        format!(
            r#"{{"id":"{id}","title":"{id}","status":"open","priority":{priority},"created_at":"2026-01-01T00:00:00Z"{fields}}}"#
        )
    };
    let kinds = ["agent", "convoy", "event", "gate", "merge-request", "message", "molecule", "rig", "role", "slot"];
    let mut lines: Vec<String> =
        kinds.iter().map(|kind| line(&format!("bd-{kind}"), 0, &format!(r#","issue_type":"{kind}""#))).collect();
    lines.push(line("bd-vapor", 0, r#","issue_type":"task","ephemeral":1"#));
    lines.push(line("bd-form", 0, r#","issue_type":"epic","is_template":true"#));
    lines.push(line("bd-work", 3, r#","issue_type":"task","ephemeral":false"#));
    lines.sort();
    desk.write(".beads/issues.jsonl", lines.join("\n") + "\n");
    assert_eq!(desk.ready(), ["bd-work"]);
    let (left_out, counts) =
        desk.reading(|cx| cx.with_index(|index| Ok((index.left_out()?, index.counts(cx.now)?)))).unwrap();
    let left_out: Vec<(&str, usize)> = left_out.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(left_out[..5], [("agent", 1), ("convoy", 1), ("ephemeral", 1), ("event", 1), ("gate", 1)]);
    assert_eq!(counts.ready, 1);
    let of = |types: &[&str]| desk.ids("list_ready_issues", json!({ "types": types }));
    for kind in kinds {
        assert_eq!(of(&[kind]), [format!("bd-{kind}")]);
    }
    assert_eq!(of(&["ephemeral", "template"]), ["bd-form", "bd-vapor"]);
    assert_eq!(of(&["task"]), ["bd-work"]);
    assert!(of(&["bug"]).is_empty());
    assert_eq!(desk.explain("bd-gate")["reasons"], json!(["it is not work: gate"]));
    // A claim without a name takes work only; one with a name takes any record.
    let agent = desk.agent("a");
    assert_eq!(id(&agent.run("claim_issue", json!({}))["issue"]), "bd-work");
    agent.refused(Kind::NothingToDo, "claim_issue", json!({}));
    assert_eq!(id(&agent.claim("bd-message")["issue"]), "bd-message");
}

#[test]
fn a_duplicated_issue_that_is_open_and_in_progress_at_the_same_time_is_in_progress() {
    let desk = Desk::new();
    let line = |status: &str, more: &str| {
        format!(r#"{{"id":"bd-1","title":"One","status":"{status}","updated_at":"2026-01-01T00:00:00Z"{more}}}"#)
    };
    for lines in [
        [line("open", ""), line("in_progress", r#","assignee":"ann""#)],
        [line("in_progress", r#","assignee":"ann""#), line("open", "")],
    ] {
        desk.write(".beads/issues.jsonl", lines.join("\n") + "\n");
        let issue = desk.show("bd-1");
        assert_eq!((&issue["status"], &issue["assignee"]), (&"in_progress".into(), &"ann".into()), "{issue}");
        assert!(desk.ready().is_empty());
    }
}

#[test]
fn a_chain_of_thousands_of_issues_is_evaluated() {
    let desk = Desk::new();
    let line = |number: usize| {
        let parent = number.checked_sub(1).map(|parent| format!(",\"parent_id\":\"c-{parent:05}\""));
        format!("{{\"id\":\"c-{number:05}\",\"title\":\"t\"{}}}\n", parent.unwrap_or_default())
    };
    desk.write_ledger((0..1_000).map(line).collect::<String>());
    let ready = || desk.reading(|cx| cx.with_index(|index| index.counts(cx.now))).unwrap().ready;
    assert_eq!(ready(), 1_000);
    desk.update("c-00000", json!({ "status": "deferred" }));
    assert_eq!(ready(), 0);
}

#[test]
fn a_reopened_issue_does_not_wait_for_a_pruned_one() {
    let desk = Desk::new();
    let edge = |from: &str, on: &str| format!(r#"{{"issue_id":"{from}","depends_on_id":"{on}","type":"blocks"}}"#);
    let closed = r#""status":"closed","closed_at":"2025-01-01T00:00:00Z""#;
    let next = |number: u32| {
        let id = format!("b-{number}");
        let edges = [edge(&id, "b-0"), edge(&id, "x-9")].join(",");
        format!("{{\"id\":\"{id}\",\"title\":\"Next\",{closed},\"dependencies\":[{edges}]}}\n")
    };
    let mut text = format!("{{\"id\":\"b-0\",\"title\":\"Base\",{closed}}}\n");
    text.extend((1..4).map(next));
    // An open issue was removed from the ledger by hand.
    text += "{\"id\":\"x-9\",\"title\":\"Open\"}\n";
    desk.write_ledger(&text);
    desk.commit("ledger");
    let mark = r#"{"_type":"waypost","pruned_before":"2025-01-01T00:00:00.001Z"}"#;
    let left: String = text
        .lines()
        .filter(|line| !line.contains("Base") && !line.contains("Open"))
        .fold(format!("{mark}\n"), |file, line| file + line + "\n");
    desk.write_ledger(left);
    desk.commit("pruned");

    desk.run("reopen_issue", json!({ "issue": "b-1" }));
    desk.update("b-2", json!({ "status": "open" }));
    for id in ["b-1", "b-2"] {
        let reasons = desk.explain(id)["reasons"].to_string();
        assert!(!reasons.contains("b-0") && reasons.contains("x-9"), "{reasons}");
        desk.run("remove_dependency", json!({ "issue": id, "on": "x-9" }));
    }
    assert_eq!(desk.ready(), ["b-1", "b-2"]);
    // Another clone reopens the issue without knowing that its blocker was pruned.
    let opened: String = desk
        .lines()
        .into_iter()
        .map(|line| if line.contains("b-3") { line.replace(closed, "\"status\":\"open\"") } else { line })
        .map(|line| line.replace(&format!(",{}", edge("b-3", "x-9")), "") + "\n")
        .collect();
    desk.write_ledger(opened);
    assert_eq!(desk.ready(), ["b-1", "b-2", "b-3"]);
    desk.claim("b-3");
}

#[test]
fn b13_b17_an_issue_blocked_by_another_repository_follows_its_state() {
    let two = Desk::new()
        .repository_with("two", r#"{"id":"b-1","title":"Blocks","priority":4,"labels":["discovered:blocker"]}"#);
    let waits = r#"{"id":"a-1","title":"Waits","dependencies":[{"depends_on_id":"b-1","type":"blocks"}]}"#;
    let one = two.repository_with("one", waits);
    let reasons = one.explain("a-1")["reasons"].to_string();
    assert!(reasons.contains("in no ledger"), "{reasons}");
    one.add_repo("../two");
    assert_eq!(one.ready(), ["b-1"]);
    two.close("b-1");
    assert_eq!(one.ready(), ["a-1"]);
    two.run("reopen_issue", json!({ "issue": "b-1" }));
    one.run("remove_dependency", json!({ "issue": "a-1", "on": "b-1" }));
    assert_eq!(one.ready(), ["b-1", "a-1"], "labels count from any ledger");
    one.update("b-1", json!({ "labels": ["no-auto-claim"] }));
    assert_eq!(id(&one.run("claim_issue", json!({}))["issue"]), "a-1");
}

#[test]
fn a_claim_where_nothing_is_ready_says_so() {
    let desk = Desk::new();
    let said = refusal(Kind::NothingToDo, desk.changing(|cx| cx.claim(None, None)));
    assert!(said.contains("nothing is ready"), "{said}");
}
