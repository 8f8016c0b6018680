//! `way ready`: which issues can be worked on.

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::sandbox;

#[test]
fn custom_statuses_follow_the_configuration() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Base"]);
    let next = add(&sandbox, &repo, &["Next", "--blocked-by", &base]);
    let run = sandbox.way(&repo, ["update", &base, "--status", "shipped"]).fails(2);
    assert!(run.stderr.contains("there is no status \"shipped\""), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["config", "set", "statuses.done", "shipped,dropped"]).ok();
    let _ = sandbox.way(&repo, ["config", "set", "statuses.active", "triage"]).ok();
    let _ = sandbox.way(&repo, ["update", &base, "--status", "shipped"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next), "a finished blocker does not block");
    let _ = sandbox.way(&repo, ["update", &next, "--status", "triage"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next));
    let _ = sandbox.way(&repo, ["config", "unset", "statuses.active"]).ok();
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
}

#[test]
fn a_missing_blocker_blocks_unless_configured_otherwise() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let line = r#"{"id":"a","title":"A","dependencies":[{"depends_on_id":"x"}]}"#;
    sandbox.write(repo.join(LEDGER), format!("{line}\n"));
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
    let _ = sandbox.way(&repo, ["config", "set", "ready.unresolved", "ignore"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["a"]);
}

#[test]
fn parts_of_an_issue_deferred_by_a_custom_status_are_not_ready() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["config", "set", "statuses.frozen", "on-ice"]).ok();
    let whole = add(&sandbox, &repo, &["Whole"]);
    let part = add(&sandbox, &repo, &["Part", "--parent", &whole]);
    let ready = || ids(&sandbox, &repo, &["ready"]).contains(&part);
    assert!(ready());
    let _ = sandbox.way(&repo, ["update", &whole, "--status", "on-ice"]).ok();
    assert!(!ready());
}

#[test]
fn records_with_which_other_tools_coordinate_agents_are_not_ready() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    let line = |id: &str, fields: &str| {
        format!(
            r#"{{"id":"{id}","title":"{id}","status":"open","priority":0,"created_at":"2026-01-01T00:00:00Z"{fields}}}"#
        )
    };
    let kinds = ["agent", "convoy", "event", "gate", "merge-request", "message", "molecule", "rig", "role", "slot"];
    let mut lines: Vec<String> =
        kinds.iter().map(|kind| line(&format!("bd-{kind}"), &format!(r#","issue_type":"{kind}""#))).collect();
    lines.push(line("bd-vapor", r#","issue_type":"task","ephemeral":1"#));
    lines.push(line("bd-form", r#","issue_type":"epic","is_template":true"#));
    lines
        .push(line("bd-work", r#","issue_type":"task","ephemeral":false"#).replace("\"priority\":0", "\"priority\":3"));
    lines.sort();
    sandbox.write(repo.join(".beads/issues.jsonl"), lines.join("\n") + "\n");
    let run = sandbox.way(&repo, ["ready"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:?}");
    assert!(run.stdout.contains("bd-work"), "{}", run.stdout);
    assert!(run.stderr.contains("not work: 1 agent, 1 convoy, 1 ephemeral, 1 event, 1 gate"), "{}", run.stderr);
    assert_eq!(sandbox.way(&repo, ["stats", "--json"]).data()["ready"], 1);
    for kind in kinds {
        assert_eq!(ids(&sandbox, &repo, &["ready", "--type", kind]), [format!("bd-{kind}")]);
    }
    assert_eq!(ids(&sandbox, &repo, &["ready", "--type", "ephemeral", "-t", "template"]), ["bd-form", "bd-vapor"]);
    assert_eq!(ids(&sandbox, &repo, &["ready", "--type", "task"]), ["bd-work"]);
    let _ = sandbox.way(&repo, ["ready", "--type", "bug"]).fails(6);
    let explained = sandbox.way(&repo, ["ready", "--explain", "bd-gate", "--json"]).data();
    assert_eq!(explained["reasons"], serde_json::json!(["it is not work: gate"]));
    // A claim without a name takes work only; one with a name takes any record.
    assert_eq!(sandbox.way(&repo, ["claim", "--agent", "a", "--json"]).data()["id"], "bd-work");
    let _ = sandbox.way(&repo, ["claim", "--agent", "a"]).fails(6);
    assert_eq!(sandbox.way(&repo, ["claim", "bd-message", "--agent", "a", "--json"]).data()["id"], "bd-message");
}

#[test]
fn a_duplicated_issue_that_is_open_and_in_progress_at_the_same_time_is_in_progress() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    let line = |status: &str, more: &str| {
        format!(r#"{{"id":"bd-1","title":"One","status":"{status}","updated_at":"2026-01-01T00:00:00Z"{more}}}"#)
    };
    for lines in [
        [line("open", ""), line("in_progress", r#","assignee":"ann""#)],
        [line("in_progress", r#","assignee":"ann""#), line("open", "")],
    ] {
        sandbox.write(repo.join(".beads/issues.jsonl"), lines.join("\n") + "\n");
        let issue = sandbox.way(&repo, ["show", "bd-1", "--json"]).data();
        assert_eq!((&issue["status"], &issue["assignee"]), (&"in_progress".into(), &"ann".into()), "{issue}");
        let _ = sandbox.way(&repo, ["ready"]).fails(6);
    }
}
