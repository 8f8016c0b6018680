//! `way workflow`: plans, issues that become workflows, and workflows from plan to end.

use serde_json::{Value, json};

use crate::support::work::Team;

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

#[test]
fn c9_a_plan_in_three_forms_makes_equal_workflows() {
    let mut seen = Vec::new();
    for (file, text) in [("plan.json", JSON), ("plan.yaml", YAML), ("plan.txt", SHORT), ("plan", YAML), ("-", JSON)] {
        let team = Team::new();
        team.sandbox.write("repo/plan", "");
        if file != "-" {
            team.sandbox.write(team.repo.join(file), text);
        }
        let _ = team.fed(&format!("workflow create w --plan {file} --json"), text).data();
        let mut workflow = essence(team.data("workflow show w"));
        workflow["repositories"] = json!([]);
        let text = workflow.to_string().replace(workflow["worktree_id"].as_str().unwrap(), "wt");
        let text = text.replace(team.repo.to_str().unwrap(), "/repo");
        seen.push(text);
    }
    for other in &seen[1..] {
        assert_eq!(other, &seen[0]);
    }
    assert!(seen[0].contains("\"run_timeout_ms\":600000") && seen[0].contains("\"acceptance\":[\"all green\"]"));
}

#[test]
fn c9_an_impossible_plan_is_refused_and_nothing_is_stored() {
    let team = Team::new();
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
        for line in ["workflow create w --plan - --json", "workflow create w --plan - --start --json"] {
            let error = team.fed(line, plan).fails(2).error();
            assert!(error["message"].as_str().unwrap().contains(message), "{plan:?}: {error}");
            let hints = error["hints"].as_array().unwrap();
            assert!(hint.is_empty() || hints.iter().any(|said| said == hint), "{plan:?}: {error}");
        }
    }
    assert_eq!(team.data("workflow list --all"), json!([]));
    assert_eq!(team.data("task list"), json!([]));
    let _ = team.refused(2, "workflow create w --plan nowhere.json");
    let _ = team.refused(2, "workflow create w --config-json '{'");
    assert_eq!(team.data("status")["events"].as_array().unwrap().len(), 2, "only the events of the new worktree");
}

#[test]
fn yaml_aliases_that_expand_exponentially_are_refused() {
    let team = Team::new();
    let mut bomb = String::from("tasks: []\na: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ('b'..='k').zip('a'..) {
        let line = format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
        bomb.push_str(&line);
    }
    let error = team.fed("workflow create w --plan - --json", &bomb).fails(2).error();
    assert!(error["message"].as_str().unwrap().contains("expands to more than"), "{error}");
    let deep = format!("tasks:\n{}", "- ".repeat(100_000));
    let error = team.fed("workflow create w --plan - --json", &deep).fails(2).error();
    assert!(error["message"].as_str().unwrap().contains("nested deeper"), "{error}");
}

#[test]
fn replanning_keeps_started_tasks_and_their_dependencies() {
    let team = Team::with("a: one\nb: two\n  needs: a\nc: three\n  needs: b\nd: four\n");
    let _ = team.data("task claim a --agent ann");
    team.sandbox.write("repo/new.txt", "b: changed\n  needs: a\ne: five\n  needs: b\n");
    let _ = team.way("workflow replan w --plan new.txt").fails(2);
    let replanned = team.data("workflow replan w --plan new.txt --reason 'c is done elsewhere'");
    assert_eq!(replanned["added"], json!(["e"]));
    assert_eq!(replanned["changed"], json!(["b"]));
    assert_eq!(replanned["removed"], json!(["c", "d"]));
    assert_eq!(replanned["kept"], json!(["a"]));
    let tasks = team.data("task list --workflow w");
    let names: Vec<_> = tasks.as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "e"]);
    assert_eq!(team.data("task show e")["blocked_by"], json!(["b"]));
    // The same plan again changes nothing, and one more task only adds that.
    let history = || team.data("events --since 0 --limit 1000").as_array().unwrap().len();
    let before = history();
    let same = team.data("workflow replan w --plan new.txt --reason again");
    assert_eq!((&same["added"], &same["changed"], &same["removed"]), (&json!([]), &json!([]), &json!([])));
    assert_eq!(same["kept"], json!(["a", "b", "e"]));
    assert_eq!(history(), before + 1, "only the planning event");
    team.sandbox.write("repo/more.txt", "f: six\nb: changed\n  needs: a\ne: five\n  needs: a\n");
    let more = team.data("workflow replan w --plan more.txt --reason more");
    assert_eq!((&more["added"], &more["changed"], &more["kept"]), (&json!(["f"]), &json!(["e"]), &json!(["a", "b"])));
    let tasks = team.data("task list --workflow w");
    let names: Vec<_> = tasks.as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "f", "b", "e"], "in the order of the plan");
    let _ = team.data("task done a --agent ann --outcome x");
    team.sandbox.write("repo/circle.txt", "b: x\n  needs: e\ne: y\n  needs: b\n");
    let error = team.refused(2, "workflow replan w --plan circle.txt --reason y");
    assert_eq!(error["hints"], json!(["b → e → b"]));
}

#[test]
fn tasks_are_inserted_and_removed_again() {
    let team = Team::with("a: one\nc: three\n  needs: a\n");
    let line = "workflow add-task w b --description 'in between' --needs a --before c --priority 0 --capability linux,gpu \
                --acceptance 'it works' --acceptance 'it is fast' --file x --file y --max-attempts 1 --backoff 5s \
                --timeout 1h --queue-timeout 1d --stall-timeout 10m --needs-evidence --issue way-1 --parallel-group g \
                --how 'carefully' --know '{\"host\": \"x\"}' --context-from a";
    let added = team.data(line);
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
    assert_eq!(team.data("task show c")["blocked_by"], json!(["a", "b"]));
    assert_eq!(team.refused(4, "workflow add-task w b")["code"], "conflict");
    assert_eq!(team.refused(3, "workflow add-task w d --before nothing")["code"], "not_found");
    assert_eq!(team.refused(2, "workflow add-task w d --needs c --before a")["code"], "invalid");
    let _ = team.data("workflow remove-task w/b");
    assert_eq!(team.data("task show c")["blocked_by"], json!(["a"]));
    let _ = team.data("task claim a --agent ann");
    assert_eq!(team.refused(4, "workflow remove-task a")["code"], "conflict");
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
fn a_cancelled_workflow_notifies_the_holders_of_its_tasks() {
    let team = Team::with("a: one\nb: two\n");
    let _ = team.data("task claim a --agent ann");
    let cancelled = team.data("workflow cancel w --reason 'another way was found'");
    assert_eq!((&cancelled["status"], &cancelled["reason"]), (&json!("cancelled"), &json!("another way was found")));
    assert_eq!(team.data("task heartbeat a --agent ann --epoch 1")["is_cancelled"], true);
    assert_eq!(team.refused(5, "task done a --agent ann --epoch 1 --outcome x")["code"], "lease_lost");
    assert!(team.refused(4, "workflow wait w")["message"].as_str().unwrap().contains("another way was found"));
    assert_eq!(team.refused(4, "workflow resume w")["code"], "conflict");
}

#[test]
fn a_workflow_that_awaits_its_merge_ends_with_it() {
    let team = Team::new();
    team.sandbox.write("repo/plan.txt", "a: one\n");
    let _ = team.data("workflow create w --plan plan.txt --start --config-json '{\"awaits_merge\": true}'");
    let _ = team.data("task claim --agent ann");
    let _ = team.data("task done a --agent ann --outcome x");
    assert_eq!(team.data("workflow show w")["status"], "awaiting_merge");
    assert_eq!(team.data("workflow merged w")["status"], "completed");
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
