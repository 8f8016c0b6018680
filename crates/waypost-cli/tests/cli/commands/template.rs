//! Templates: from files, from the store, from finished workflows.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use waypost_testkit::Sandbox;

use crate::support::agents::{START, claim, finish, session, workflow};
use crate::support::sandbox;

const RELEASE: &str = r#"{
    "description": "Build and ship",
    "variables": [{"name": "version", "description": "what to ship"}, {"name": "branch", "default": "main"}],
    "plan": {"summary": "Release {{version}}", "tasks": [
        {"name": "build {{version}}", "description": "from {{ branch }}"},
        {"name": "ship", "depends_on": ["build {{version}}"]}
    ]}
}"#;

fn names(sandbox: &Sandbox, dir: &Path) -> Vec<(String, String)> {
    let list = sandbox.way(dir, ["template", "list", "--json"]).data();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|one| (word(&one["name"]), word(&one["origin"]))).collect()
}

/// The names and descriptions of a workflow's tasks.
fn tasks(sandbox: &Sandbox, dir: &Path, reference: &str) -> Vec<(String, String)> {
    let operation = waypost_core::op::ShowWorkflow { workflow: reference.to_owned() };
    let page = session(sandbox, dir, "looker", START, false).call(operation).unwrap();
    page.tasks.into_iter().map(|seen| (seen.task.name, seen.task.description)).collect()
}

#[test]
fn c11_a_template_is_applied_with_values_and_defaults_and_refused_without_required_values() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join("release.json"), RELEASE);
    let saved = sandbox.way(&repo, ["template", "save", "release", "--plan", "release.json", "--json"]).data();
    assert_eq!((&saved["version"], &saved["description"]), (&1.into(), &"Build and ship".into()));
    let missing = sandbox.way(&repo, ["template", "apply", "release"]).fails(2);
    assert!(missing.stderr.contains("the template needs a value for version"), "{}", missing.stderr);
    assert!(missing.stderr.contains("--var version=VALUE"), "{}", missing.stderr);
    let unknown = sandbox.way(&repo, ["template", "apply", "release", "--var", "version=1", "--var", "x=1"]).fails(2);
    assert!(unknown.stderr.contains("it has: version, branch"), "{}", unknown.stderr);
    let made = sandbox.way(&repo, ["template", "apply", "release", "--var", "version=1.2", "--json"]).data();
    assert_eq!((&made["name"], &made["status"], &made["total"]), (&"release".into(), &"ready".into(), &2.into()));
    assert_eq!((&made["summary"], &made["source"]), (&"Release 1.2".into(), &"template".into()));
    assert_eq!(tasks(&sandbox, &repo, "release")[0], ("build 1.2".into(), "from main".into()));
    let args = [
        "template",
        "apply",
        "release",
        "--var",
        "version={{branch}}",
        "--var",
        "branch=b",
        "--name",
        "r2",
        "--start",
        "--json",
    ];
    let made = sandbox.way(&repo, args).data();
    assert_eq!(made["status"], "in_progress");
    assert_eq!(tasks(&sandbox, &repo, "r2")[0].0, "build {{branch}}", "a filled-in value is not expanded again");
    let twice = sandbox.way(&repo, ["template", "apply", "release", "--var", "version=3"]).fails(4);
    assert!(twice.stderr.contains("--name WORKFLOW"), "{}", twice.stderr);
    let near = sandbox.way(&repo, ["template", "apply", "relase"]).fails(3);
    assert!(near.stderr.contains("did you mean release?"), "{}", near.stderr);
    let again = sandbox
        .way(&repo, ["template", "save", "release", "--plan", "release.json", "--var-default", "version=9", "--json"]);
    assert_eq!(again.data()["version"], 2);
    let _ = sandbox.way(&repo, ["template", "apply", "release", "--name", "r3"]).ok();
    let _ = sandbox
        .way(&repo, ["template", "save", "release", "--plan", "release.json", "--var-default", "vresion=9"])
        .fails(2);
}

#[test]
fn c11_a_finished_workflow_becomes_a_template() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    let plan =
        "build: Compile\n    files: a.rs, b.rs\ntest: Run\n    needs: build\nnotes: Write\n    informed_by: test\n";
    builder.call(workflow("first", plan)).unwrap();
    for task in ["build", "test", "notes"] {
        builder.call(claim(task)).unwrap();
        builder.call(finish(task)).unwrap();
    }
    let saved = sandbox.way(&repo, ["template", "save", "again", "--from", "first", "--json"]).data();
    let body = &saved["body"]["tasks"];
    assert_eq!((&body[0]["files"], &body[1]["depends_on"]), (&json!(["a.rs", "b.rs"]), &json!(["build"])));
    assert_eq!(body[2]["informed_by"], json!(["test"]), "informational fields stay");
    let made = sandbox.way(&repo, ["template", "apply", "again", "--start", "--json"]).data();
    assert_eq!((&made["total"], &made["done"]), (&3.into(), &0.into()));
    let _ = sandbox.way(&repo, ["template", "save", "x", "--from", "nothing"]).fails(3);
    let _ = sandbox.way(&repo, ["template", "save", "x"]).fails(2);
}

#[test]
fn templates_of_the_repository_take_precedence_over_those_of_the_user_and_the_store() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join("plan.txt"), "only: Of the store\n");
    for name in ["release", "bugfix", "stored"] {
        let _ = sandbox.way(&repo, ["template", "save", name, "--plan", "plan.txt"]).ok();
    }
    let user = sandbox.dir("home/.waypost/templates");
    sandbox.write(user.join("release.yaml"), "tasks:\n- name: of the user\n");
    sandbox.write(user.join("bugfix.txt"), "# Fix it\nof the user: {{what}}\n");
    let tracked = sandbox.dir("repo/.waypost/templates");
    sandbox.write(tracked.join("release.json"), RELEASE);
    sandbox.write(tracked.join("README.md"), "no template");
    sandbox.write(tracked.join(".hidden.json"), "{}");
    let all = names(&sandbox, &repo);
    let all: Vec<_> = all.iter().map(|(name, origin)| (name.as_str(), origin.as_str())).collect();
    assert_eq!(all, [("bugfix", "user"), ("release", "repository"), ("stored", "store")]);
    // A linked worktree sees the templates of the main worktree.
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    assert_eq!(names(&sandbox, &sandbox.path("repo-topic")).len(), 3);
    let shown = sandbox.way(&repo, ["template", "show", "release", "--json"]).data();
    assert_eq!((&shown["origin"], &shown["variables"][1]["default"]), (&"repository".into(), &"main".into()));
    let made = sandbox.way(&repo, ["template", "apply", "bugfix", "--var", "what=it", "--json"]).data();
    assert!(made["source_ref"].as_str().unwrap().ends_with("home/.waypost/templates/bugfix.txt"), "{made}");
    assert_eq!(tasks(&sandbox, &repo, "bugfix"), [("of the user".into(), "it".into())]);
    let shadowed = sandbox.way(&repo, ["template", "save", "bugfix", "--plan", "plan.txt"]);
    assert!(shadowed.code == 0 && shadowed.stderr.contains("takes precedence over the store"), "{shadowed:?}");
}

#[test]
fn a_bad_file_does_not_hide_the_good_ones() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let tracked = sandbox.dir("repo/.waypost/templates");
    sandbox.write(tracked.join("good.txt"), "one: task\n");
    sandbox.write(tracked.join("broken.json"), "{\"plan\": {\"tasks\": [");
    sandbox.write(tracked.join("command.json"), r#"{"plan": {"tasks": [{"name": "a"}]}, "setup": "touch /tmp/owned"}"#);
    sandbox.write(tracked.join("bytes.json"), b"\xff\xfe\x00");
    sandbox.write(tracked.join("huge.txt"), "x".repeat(2 * 1024 * 1024));
    sandbox.dir("repo/.waypost/templates/folder.json");
    sandbox.write("secret.txt", "password: hunter2\n");
    symlink(sandbox.path("secret.txt"), tracked.join("link.txt")).unwrap();
    symlink("/dev/zero", tracked.join("device.txt")).unwrap();
    let run = sandbox.way(&repo, ["template", "list", "--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["data"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 7, "{answer}");
    for (name, code) in
        [("broken", 2), ("command", 2), ("bytes", 2), ("huge", 2), ("folder", 2), ("link", 7), ("device", 7)]
    {
        let run = sandbox.way(&repo, ["template", "apply", name]).fails(code);
        assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
    }
    for name in ["../secret", "/etc/passwd", ".", "", "a/b"] {
        let _ = sandbox.way(&repo, ["template", "show", name]).fails(3);
    }
    let made = sandbox.way(&repo, ["events", "--kind", "workflow.", "--json"]).data();
    assert_eq!(made, json!([]), "the refused templates created nothing");
}
