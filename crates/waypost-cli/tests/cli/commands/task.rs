//! `way task`: tasks from claim to end.

use serde_json::json;

use crate::support::work::Team;

#[test]
fn a_list_counts_a_thousand_tasks_that_follow_and_lists_all_on_demand() {
    let team = Team::new();
    let plan = |number: usize| (0..number).map(|task| format!("t{task}: work")).collect::<Vec<_>>().join("\n");
    let _ = team.fed("workflow create few --plan - --json", &plan(30)).data();
    assert_eq!(team.way("task list --limit 10").stderr, "note: 20 more tasks; to list all: --limit 0\n");
    let _ = team.fed("workflow create many --plan - --json", &plan(1_100)).data();
    assert_eq!(team.way("task list --limit 10").stderr, "note: at least 1000 more tasks; to list all: --limit 0\n");
    assert_eq!(team.way("task list --limit 140").stderr, "note: 990 more tasks; to list all: --limit 0\n");
    let all = team.data("task list --limit 0");
    assert_eq!(all.as_array().unwrap().len(), 1_130);
    assert_eq!(all, team.data("task list --limit 1130"));
}

#[test]
fn control_characters_in_stored_text_are_escaped() {
    let team = Team::new();
    let evil = "x\u{1b}[2J\u{202e}\u{7}y";
    let plan = json!({ "summary": evil, "tasks": [
        { "name": "a\u{202e}", "description": format!("{evil}\nerror: none"), "acceptance": [evil], "plan": { evil: evil },
          "context": evil, "files": [evil], "parallel_group": evil, "issue": evil },
        { "name": "b", "depends_on": ["a\u{202e}"], "capabilities": [evil] },
        { "name": "c" },
    ] });
    let _ = team.fed("workflow create w\u{202e} --plan - --start", &plan.to_string()).ok();
    let _ = team.way("task claim 'a\u{202e}' --agent 'an\u{202e}n'");
    let _ = team.way(&format!(
        "task checkpoint 'a\u{202e}' --agent 'an\u{202e}n' --summary '{evil}\nz' --detail '{evil}' --file '{evil}'"
    ));
    let _ = team.way("task claim c --agent bob");
    let _ = team.way(&format!("task ask c --agent bob --question '{evil}'"));
    for line in [
        "workflow list",
        "workflow show 'w\u{202e}'",
        "workflow summary 'w\u{202e}'",
        "workflow wait 'w\u{202e}' --timeout 1ms",
        "workflow wait 'nei\u{202e}n'",
        "task list",
        "task next --agent z",
        "task show 'a\u{202e}'",
        "task show c",
        "task wait c",
        "task claim b",
        "checkpoint list 'a\u{202e}'",
        "context 'a\u{202e}'",
        "context c",
        "prime --agent 'an\u{202e}n'",
        "prime",
        "task heartbeat --agent 'an\u{202e}n'",
        &format!("task release 'a\u{202e}' --agent 'an\u{202e}n' --reason '{evil}'"),
        "task claim 'a\u{202e}' --agent bob",
        &format!("task done 'a\u{202e}' --agent bob --outcome '{evil}'"),
        &format!("task answer c '{evil}'"),
        &format!("workflow cancel 'w\u{202e}' --reason '{evil}'"),
        "workflow list --all",
        "workflow create x --plan nowhere\u{1b}",
    ] {
        let run = team.way(line);
        let sent = format!("{}{}", run.stdout, run.stderr);
        assert!(!sent.is_empty(), "{line:?} says something");
        let obeyed: Vec<char> =
            sent.chars().filter(|char| (char.is_control() && *char != '\n') || *char == '\u{202e}').collect();
        assert!(obeyed.is_empty(), "{line:?} sends {obeyed:?}: {sent}");
        assert!(!sent.lines().any(|line| line == "error: none"), "{line:?} has a line of others: {sent}");
    }
    // JSON output contains the text unchanged.
    assert_eq!(team.data("workflow show 'w\u{202e}'")["summary"], evil);
}

#[test]
fn a_caller_without_a_lease_is_told_to_claim_and_not_to_stop() {
    let team = Team::with("# All\na: one\n");
    let _ = team.data("task claim a --agent ann");
    for line in ["task done a --outcome x --agent bob --epoch 1", "task done a --outcome x --agent ann --epoch 77"] {
        let error = team.refused(5, line);
        assert!(!error.to_string().contains("stop"), "{line}: {error}");
        assert!(error["message"].as_str().unwrap().contains("lease on task a"), "{line}: {error}");
    }
    let error = team.refused(5, "task heartbeat a --agent cid --epoch 1");
    assert!(error["hints"].to_string().contains("claim it first: way task claim"), "{error}");
    let _ = team.data("task release a --agent ann --epoch 1 --reason lunch");
    let _ = team.data("task claim a --agent bob");
    let error = team.refused(5, "task done a --outcome x --agent ann --epoch 1");
    assert!(error["hints"].to_string().contains("stop working on it"), "ann held it: {error}");
}
