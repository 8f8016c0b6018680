//! A server follows changes of the configuration.

use serde_json::json;

use super::Server;
use crate::support::ledger::{LEDGER, add};
use crate::support::sandbox;

fn titles(server: &Server) -> Vec<String> {
    let issues = server.get("/api/v1/issues").data();
    let issues = issues.as_array().unwrap_or_else(|| panic!("{issues}"));
    issues.iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn p7_a_running_server_follows_changes_of_the_configuration() {
    let sandbox = sandbox();
    let planning = sandbox.git_repo("planning");
    add(&sandbox, &planning, &["Plan it"]);
    let repo = sandbox.git_repo("repo");
    add(&sandbox, &repo, &["Own"]);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let server = Server::start_in(sandbox, repo, &[]);
    assert_eq!(titles(&server), ["Own"]);
    let way = |args: &[&str]| drop(server.way(args).ok());

    way(&["config", "--add-repo", "../planning"]);
    assert_eq!(titles(&server).len(), 2);

    // A contributor does not write the project's ledger, also not by the end of a task.
    let own = add(&server.sandbox, &server.repo, &["Fix it"]);
    server.sandbox.git(&server.repo, ["commit", "-q", "-a", "-m", "fix"]);
    let before = std::fs::read_to_string(server.repo.join(LEDGER)).unwrap();
    let plan = json!({ "tasks": [{ "name": "fix", "issue": own }] });
    server.post("/api/v1/workflows", &json!({ "name": "w", "plan": plan, "start": true })).data();
    way(&["config", "set", "role", "contributor"]);
    assert_eq!(server.post("/api/v1/issues", &json!({ "title": "Mine", "repo": "repo" })).status, 403);
    way(&["task", "claim", "--agent", "ann"]);
    let done = server.remote(&["task", "done", "fix", "--outcome", "fixed", "--agent", "ann"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(std::fs::read_to_string(server.repo.join(LEDGER)).unwrap(), before);
    way(&["config", "unset", "role"]);
    assert_eq!(server.post("/api/v1/issues", &json!({ "title": "Mine", "repo": "repo" })).status, 200);

    // A change that cannot be used leaves the former configuration in force.
    let config = server.repo.join(".git/waypost/config.toml");
    let good = std::fs::read(&config).unwrap();
    let before = titles(&server);
    assert!(before.contains(&"Plan it".to_owned()), "{before:?}");
    server.sandbox.write(&config, "role = [");
    assert_eq!(titles(&server), before);
    server.sandbox.write(&config, good);
    assert_eq!(titles(&server), before);
}

#[test]
fn a_running_server_stays_on_its_store() {
    let server = Server::start(&[]);
    server.post("/api/v1/workflows", &json!({ "name": "one" })).data();
    let _ = server.way(&["config", "set", "--user", "scope", "global"]).ok();
    let listed = server.get("/api/v1/workflows").data();
    assert!(listed.to_string().contains("\"one\""), "{listed}");
}
