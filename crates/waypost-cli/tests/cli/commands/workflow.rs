//! `way workflow`: plans, issues that become workflows, and workflows from plan to end.

use serde_json::json;

use crate::support::work::Team;

fn issue(team: &Team, line: &str) -> String {
    team.data(&format!("add {line}"))["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_issue_becomes_a_workflow_that_is_named_after_it() {
    let team = Team::new();
    let epic = issue(&team, "'The whole' --type epic --description 'All of it'");
    let part = issue(&team, &format!("Part --parent {epic}"));
    let aside = issue(&team, &format!("Later --parent {epic}"));
    let _ = team.data(&format!("update {aside} --status deferred"));
    let run = team.way(&format!("workflow from-issue {epic} --start --only-here"));
    assert_eq!(run.code, 0, "{run:#?}");
    let warnings: Vec<_> = run.stderr.lines().collect();
    assert_eq!(warnings, [format!("warning: left out, because deferred or frozen: {aside} (deferred)")]);
    let workflow = team.data(&format!("workflow show {epic}"));
    for (field, wanted) in [
        ("status", json!("in_progress")),
        ("source", json!("issue")),
        ("source_ref", json!(epic)),
        ("source_content", json!("All of it")),
        ("reach", json!("worktree")),
    ] {
        assert_eq!(workflow[field], wanted, "{field}");
    }
    assert_eq!(workflow["tasks"][0]["name"], part);
    assert_eq!(team.refused(4, &format!("workflow from-issue {epic}"))["code"], "conflict");
    let made = team.data(&format!("workflow from-issue {part} --name fixing --max-parallel 1"));
    assert_eq!((&made["name"], &made["status"], &made["max_parallel"]), (&json!("fixing"), &json!("ready"), &json!(1)));
}

const RELEASE: &str = "# Ship it\nbuild: Compile\ntest: Try\n  needs: build\npublish: Out\n  needs: test\n";

#[test]
fn a_workflow_lives_from_its_plan_to_its_end() {
    let team = Team::new();
    let made = team.data("workflow create release --summary 'to be planned'");
    assert_eq!((&made["status"], &made["total"]), (&json!("planning"), &json!(0)));
    assert_eq!(team.refused(4, "workflow start release")["code"], "conflict");
    team.sandbox.write("repo/plan.txt", RELEASE);
    let planned = team.data("workflow plan release --plan plan.txt");
    assert_eq!((&planned["status"], &planned["summary"]), (&json!("ready"), &json!("Ship it")));
    assert_eq!(team.refused(6, "task claim --agent ann")["code"], "nothing_to_do");
    let _ = team.data("workflow start release");
    assert_eq!(team.data("task next --agent ann")[0]["name"], "build");

    for (name, epoch) in [("build", 1), ("test", 1)] {
        let claimed = team.data("task claim --agent ann");
        let keys: Vec<_> = claimed.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["task", "lease", "context"]);
        assert_eq!(claimed["task"]["name"], name);
        assert_eq!(claimed["lease"]["epoch"], epoch);
        assert_eq!(claimed["lease"]["expires_at"], "2026-01-01T00:10:00.000Z", "ten minutes from now");
        assert!(claimed["context"]["text"].as_str().unwrap().contains(name));
        let line =
            format!("task checkpoint {name} --agent ann --epoch 1 --type decision --summary '- half way' --file a");
        let noted = team.data(&format!("{line} --detail '{{\"left\": 2}}' --tokens 100 --cost 0.25"));
        assert_eq!(noted["checkpoint"]["detail"], json!({ "left": 2 }));
        assert_eq!(noted["checkpoint"]["type"], "decision");
        let alive = team.data(&format!("task heartbeat {name} --agent ann --epoch 1"));
        assert_eq!((&alive["next_ms"], &alive["is_cancelled"]), (&json!(200_000), &json!(false)));
        let done = team.data(&format!("task done {name} --agent ann --epoch 1 --outcome 'went well'"));
        assert_eq!((&done["status"], &done["outcome"]), (&json!("completed"), &json!("went well")));
    }
    let summary = team.data("workflow summary release");
    assert_eq!((&summary["percent"], &summary["critical_path"]), (&json!(66), &json!(["publish"])));
    assert_eq!(team.refused(6, "workflow wait release --timeout 10ms")["code"], "nothing_to_do");
    let _ = team.data("task skip publish --reason 'not this week'");
    assert_eq!(team.data("workflow wait release --timeout 10s")["status"], "completed");
    assert_eq!(team.data("workflow list"), json!([]));
    assert_eq!(team.data("workflow list --all")[0]["name"], "release");
    assert_eq!(team.data("workflow list --status completed")[0]["done"], 3);
    let list = team.data("checkpoint list release/build");
    assert_eq!((&list[0]["summary"], &list[0]["epoch"]), (&json!("- half way"), &json!(1)));
    let _ = team.data("task reopen build --reason 'it rots'");
    assert_eq!(team.data("workflow show release")["status"], "in_progress");
}

#[test]
fn a_workflow_over_several_repositories_needs_a_shared_store() {
    let team = Team::new();
    let other = team.sandbox.git_repo("other");
    let _ = team.sandbox.way(&other, ["--global", "status"]).ok();
    assert_eq!(team.refused(3, "workflow create w --repo-of other")["code"], "not_found");
    let _ = team.data("--global workflow create w");
    assert_eq!(team.data("--global workflow repos w").as_array().unwrap().len(), 1);
    let repos = team.data("--global workflow repos w --add other");
    assert_eq!(repos.as_array().unwrap().len(), 2);
    let error = team.refused(2, "--global workflow add-task w a");
    assert!(error["message"].as_str().unwrap().contains("names no repository"), "{error}");
    let added = team.data("--global workflow add-task w a --repo-of other");
    assert!(
        repos.as_array().unwrap().iter().any(|repo| repo["name"] == "other" && repo["id"] == added["repository_id"])
    );
}
