//! Agents: registration and lists.

use serde_json::json;

use crate::support::sandbox;
use crate::support::work::Team;

#[test]
fn an_agent_registers_with_its_options_and_is_listed() {
    let team = Team::new();
    let options = "--runtime codex --capability sql,rust --capability rust --max-claims 2 --timeout 90s";
    let builder = team.data(&format!("agent register builder {options} --metadata '{{\"model\": \"x\"}}'"));
    assert_eq!((&builder["capabilities"], &builder["metadata"]), (&json!(["rust", "sql"]), &json!({ "model": "x" })));
    assert_eq!((&builder["max_claims"], &builder["timeout_ms"]), (&json!(2), &json!(90_000)));
    let me = team.data("agent register");
    assert_eq!((&me["name"], &me["role"]), (&json!("tester"), &json!("human")));
    let text = team.way("agent list").ok().stdout;
    assert!(text.contains("builder  worker  online"), "{text}");
    let _ = team.data("agent retire builder");
    assert_eq!(team.data("agent list").as_array().unwrap().len(), 1);
    assert_eq!(team.data("agent list --all").as_array().unwrap().len(), 2);
    for bad in ["register x --timeout soon", "register x --metadata [1]", "list --status asleep"] {
        let _ = team.way(&format!("agent {bad}")).fails(2);
    }
}

#[test]
fn a_process_is_identified_by_more_than_its_pid() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let pid = std::process::id().to_string();
    let agent = sandbox.way(&repo, ["agent", "register", "builder", "--pid", &pid, "--json"]).data();
    assert_eq!(agent["process"]["pid"], std::process::id());
    assert!(agent["process"]["start_time"].as_u64().is_some() && agent["process"]["boot_id"].is_string(), "{agent}");
    let text = sandbox.way(&repo, ["agent", "show", "builder"]).ok().stdout;
    assert!(text.contains(&format!("{pid}, running")), "{text}");
    let run = sandbox.way(&repo, ["agent", "register", "ghost", "--pid", "4194304999"]);
    assert!(run.code == 2 || run.code == 3, "{run:?}");
    let _ = sandbox.way(&repo, ["agent", "register", "ghost", "--pid", "999999999"]).fails(3);
    let _ = sandbox.way(&repo, ["agent", "show", "ghost"]).fails(3);
}
