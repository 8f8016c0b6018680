//! Templates, as the commands save, list and apply them.

use serde_json::{Value, json};

use crate::support::work::Team;

#[test]
fn a_template_is_saved_listed_and_applied_with_its_variables() {
    let team = Team::new();
    let template = json!({
        "description": "Build and ship",
        "variables": [{ "name": "version" }, { "name": "branch", "default": "main" }],
        "plan": { "summary": "Release {{version}}", "tasks": [{ "name": "build", "description": "from {{branch}}" }] },
    });
    team.sandbox.write(team.repo.join("release.json"), template.to_string());
    let saved = team.data("template save release --plan release.json");
    assert_eq!((&saved["version"], &saved["description"]), (&json!(1), &json!("Build and ship")));
    let missing = team.way("template apply release").fails(2).stderr;
    assert!(missing.contains("the template needs a value for version"), "{missing}");
    assert!(missing.contains("--var version=VALUE"), "{missing}");
    let made = team.data("template apply release --var version=1.2 --var branch=b --start");
    assert_eq!((&made["summary"], &made["status"]), (&json!("Release 1.2"), &json!("in_progress")));
    assert_eq!(team.data("task show build")["description"], "from b");
    let twice = team.way("template apply release --var version=3").fails(4).stderr;
    assert!(twice.contains("--name WORKFLOW"), "{twice}");
    assert_eq!(team.data("template save release --plan release.json --var-default version=9")["version"], 2);
    let _ = team.data("template apply release --name r3 --shared");
    let _ = team.way("template save release --plan release.json --var-default vresion=9").fails(2);

    team.sandbox.dir("repo/.waypost/templates");
    team.sandbox.write(team.repo.join(".waypost/templates/fix.txt"), "fix: it\n");
    team.sandbox.write(team.repo.join(".waypost/templates/broken.json"), "{");
    let run = team.way("template list --json");
    assert_eq!(run.code, 0, "{run:?}");
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let listed: Vec<_> = answer["data"].as_array().unwrap().iter().map(|one| [&one["name"], &one["origin"]]).collect();
    assert_eq!(listed, [[&json!("fix"), &json!("repository")], [&json!("release"), &json!("store")]]);
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(team.data("template show fix")["origin"], "repository");
    let shadowed = team.way("template save fix --from r3");
    assert!(shadowed.code == 0 && shadowed.stderr.contains("takes precedence over the store"), "{shadowed:?}");
    for name in ["../secret", "/etc/passwd", ".", "''", "a/b"] {
        let _ = team.way(&format!("template show {name}")).fails(3);
    }
}
