//! Templates: from files, from the store, from finished workflows.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use waypost::machine::place::Place;
use waypost::op::{ApplyTemplate, TemplateContent};
use waypost::work::templates;
use waypost::{Error, Kind, Result};
use waypost_core::work::view::WorkflowView;

use crate::harness::{Office, PERSON, list, names, open};

const RELEASE: &str = r#"{
    "description": "Build and ship",
    "variables": [{"name": "version", "description": "what to ship"}, {"name": "branch", "default": "main"}],
    "plan": {"summary": "Release {{version}}", "tasks": [
        {"name": "build {{version}}", "description": "from {{ branch }}"},
        {"name": "ship", "depends_on": ["build {{version}}"]}
    ]}
}"#;

/// Saves a template in the store from the text of a file, with further variables.
fn save(office: &Office, name: &str, text: &str, further: &[Value]) -> Result<Value> {
    let content = templates::content(text, Path::new("template"))?;
    let mut variables = serde_json::to_value(content.variables).unwrap();
    variables.as_array_mut().unwrap().extend_from_slice(further);
    let template =
        json!({ "name": name, "description": content.description, "body": content.body, "variables": variables });
    office.call(PERSON, "save_template", template).map(|reply| reply.answer)
}

/// Creates a workflow from a template: that of a file, if there is one, or else that of the store.
fn apply(place: &Place, template: &str, name: Option<&str>, values: &[(&str, &str)]) -> Result<WorkflowView> {
    let content = templates::find(place, template)?.map(|found| TemplateContent {
        origin: format!("{} file {}", found.origin, found.path.unwrap_or_default()),
        body: found.body,
        variables: found.variables,
    });
    let values: BTreeMap<_, _> = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (template, name) = (template.to_owned(), name.map(str::to_owned));
    let operation = ApplyTemplate { template, content, name, values, ..ApplyTemplate::default() };
    open(place, "builder").call(operation)
}

/// The names and descriptions of a workflow's tasks.
fn tasks(office: &Office, workflow: &str) -> Vec<(Value, Value)> {
    let mut shown = office.data(PERSON, "show_workflow", json!({ "workflow": workflow }));
    let tasks = shown["tasks"].as_array_mut().unwrap();
    tasks.iter_mut().map(|task| (task["name"].take(), task["description"].take())).collect()
}

#[test]
fn c11_a_template_is_applied_with_values_and_defaults_and_refused_without_required_values() {
    let office = Office::new();
    let place = office.place(&office.repo);
    let saved = save(&office, "release", RELEASE, &[]).unwrap();
    assert_eq!((&saved["version"], &saved["description"]), (&json!(1), &json!("Build and ship")));
    let refused = |values: &[(&str, &str)]| apply(&place, "release", None, values).unwrap_err();
    let missing = refused(&[]);
    assert_eq!(missing.kind(), Kind::Invalid);
    assert!(missing.to_string().contains("the template needs a value for version"), "{missing}");
    assert!(missing.hints().join("\n").contains("--var version=VALUE"), "{missing:?}");
    let unknown = refused(&[("version", "1"), ("x", "1")]);
    assert_eq!(unknown.kind(), Kind::Invalid);
    assert!(format!("{unknown:?}").contains("it has: version, branch"), "{unknown:?}");
    let made = apply(&place, "release", None, &[("version", "1.2")]).unwrap();
    let made = serde_json::to_value(made).unwrap();
    assert_eq!((&made["name"], &made["status"], &made["total"]), (&json!("release"), &json!("ready"), &json!(2)));
    assert_eq!((&made["summary"], &made["source"]), (&json!("Release 1.2"), &json!("template")));
    assert_eq!(tasks(&office, "release")[0], (json!("build 1.2"), json!("from main")));
    let values = json!({ "version": "{{branch}}", "branch": "b" });
    let start = json!({ "template": "release", "name": "r2", "values": values, "start": true });
    assert_eq!(office.data(PERSON, "apply_template", start)["status"], "in_progress");
    assert_eq!(tasks(&office, "r2")[0].0, "build {{branch}}", "a filled-in value is not expanded again");
    assert_eq!(refused(&[("version", "3")]).kind(), Kind::Conflict, "there is a workflow of this name");
    let near = apply(&place, "relase", None, &[]).unwrap_err();
    assert_eq!((near.kind(), near.hints()[0].as_str()), (Kind::NotFound, "did you mean release?"));
    let with_default: Vec<Value> = vec![json!({ "name": "version", "default": "9" })];
    let mut content = serde_json::from_str::<Value>(RELEASE).unwrap();
    content["variables"][0] = with_default[0].clone();
    assert_eq!(save(&office, "release", &content.to_string(), &[]).unwrap()["version"], 2);
    apply(&place, "release", Some("r3"), &[]).unwrap();
    let unused = save(&office, "release", RELEASE, &[json!({ "name": "vresion", "default": "9" })]);
    assert_eq!(unused.unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn c11_a_finished_workflow_becomes_a_template() {
    let plan =
        "build: Compile\n    files: a.rs, b.rs\ntest: Run\n    needs: build\nnotes: Write\n    informed_by: test\n";
    let office = Office::with(plan);
    for task in ["build", "test", "notes"] {
        let _ = office.data("builder", "claim_task", json!({ "task": task }));
        let _ = office.data("builder", "finish_task", json!({ "task": task, "outcome": "it is done" }));
    }
    let saved = office.data(PERSON, "save_template", json!({ "name": "again", "from": "w" }));
    let body = &saved["body"]["tasks"];
    assert_eq!((&body[0]["files"], &body[1]["depends_on"]), (&json!(["a.rs", "b.rs"]), &json!(["build"])));
    assert_eq!(body[2]["informed_by"], json!(["test"]), "informational fields stay");
    let made = office.data(PERSON, "apply_template", json!({ "template": "again", "start": true }));
    assert_eq!((&made["total"], &made["done"]), (&json!(3), &json!(0)));
    let _ = office.refused(Kind::NotFound, PERSON, "save_template", json!({ "name": "x", "from": "nothing" }));
    let _ = office.refused(Kind::Invalid, PERSON, "save_template", json!({ "name": "x" }));
}

#[test]
fn templates_of_the_repository_take_precedence_over_those_of_the_user_and_the_store() {
    let office = Office::new();
    for name in ["release", "bugfix", "stored"] {
        let _ = save(&office, name, "only: Of the store\n", &[]).unwrap();
    }
    let user = office.sandbox.dir("home/.waypost/templates");
    office.sandbox.write(user.join("release.yaml"), "tasks:\n- name: of the user\n");
    office.sandbox.write(user.join("bugfix.txt"), "# Fix it\nof the user: {{what}}\n");
    let tracked = office.sandbox.dir("repo/.waypost/templates");
    office.sandbox.write(tracked.join("release.json"), RELEASE);
    office.sandbox.write(tracked.join("README.md"), "no template");
    office.sandbox.write(tracked.join(".hidden.json"), "{}");
    let place = office.place(&office.repo);
    let listed = |place: &Place| {
        let (found, unreadable) = templates::list(place).unwrap();
        assert!(unreadable.is_empty(), "{unreadable:?}");
        found.iter().map(|one| (one.name.clone(), one.origin.to_string())).collect::<Vec<_>>()
    };
    let files = [("bugfix", "user"), ("release", "repository")];
    let files = files.map(|(name, origin)| (name.to_owned(), origin.to_owned()));
    assert_eq!(listed(&place), files);
    let stored = office.data(PERSON, "list_templates", json!({}));
    assert_eq!(names(&stored["templates"]), ["bugfix", "release", "stored"]);
    // A linked worktree sees the templates of the main worktree.
    let topic = office.worktree("topic");
    assert_eq!(listed(&office.place(&topic)), files);
    let shown = templates::find(&place, "release").unwrap().unwrap();
    assert_eq!(
        (shown.origin.to_string().as_str(), shown.variables[1].default.as_deref()),
        ("repository", Some("main"))
    );
    assert!(templates::find(&place, "stored").unwrap().is_none(), "it is in no file");
    let made = apply(&place, "bugfix", None, &[("what", "it")]).unwrap();
    let source = made.workflow.source_ref.unwrap();
    assert!(source.ends_with("home/.waypost/templates/bugfix.txt"), "{source}");
    assert_eq!(tasks(&office, "bugfix"), [(json!("of the user"), json!("it"))]);
}

#[test]
fn a_bad_file_does_not_hide_the_good_ones() {
    let office = Office::new();
    let tracked = office.sandbox.dir("repo/.waypost/templates");
    office.sandbox.write(tracked.join("good.txt"), "one: task\n");
    office.sandbox.write(tracked.join("broken.json"), "{\"plan\": {\"tasks\": [");
    let command = r#"{"plan": {"tasks": [{"name": "a"}]}, "setup": "touch /tmp/owned"}"#;
    office.sandbox.write(tracked.join("command.json"), command);
    office.sandbox.write(tracked.join("bytes.json"), b"\xff\xfe\x00");
    office.sandbox.write(tracked.join("huge.txt"), "x".repeat(2 * 1024 * 1024));
    office.sandbox.dir("repo/.waypost/templates/folder.json");
    office.sandbox.write("secret.txt", "password: hunter2\n");
    symlink(office.sandbox.path("secret.txt"), tracked.join("link.txt")).unwrap();
    symlink("/dev/zero", tracked.join("device.txt")).unwrap();
    let place = office.place(&office.repo);
    let (found, unreadable) = templates::list(&place).unwrap();
    assert_eq!((found.len(), found[0].name.as_str(), unreadable.len()), (1, "good", 7), "{unreadable:?}");
    let hides = |error: &Error| assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    unreadable.iter().for_each(hides);
    for (name, kind) in [
        ("broken", Kind::Invalid),
        ("command", Kind::Invalid),
        ("bytes", Kind::Invalid),
        ("huge", Kind::Invalid),
        ("folder", Kind::Invalid),
        ("link", Kind::Refused),
        ("device", Kind::Refused),
    ] {
        let error = apply(&place, name, None, &[]).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error:?}");
        hides(&error);
    }
    for name in ["../secret", "/etc/passwd", ".", "", "a/b"] {
        assert!(templates::find(&place, name).unwrap().is_none(), "{name}");
        let _ = office.refused(Kind::NotFound, PERSON, "show_template", json!({ "name": name }));
    }
    let made = json!({ "query": { "kind": "workflow.", "limit": 9 } });
    let made = office.data(PERSON, "list_events", made);
    assert!(list(&made["events"]).is_empty(), "the refused templates created nothing: {made}");
}
