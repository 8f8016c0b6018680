//! Gemini CLI.

use std::process::Command;

use serde_json::json;
use waypost_testkit::{Model, ModelRequest, Turn, gemini};

use super::Desk;

fn command(desk: &Desk, model: &Model) -> Command {
    let [node, script] = gemini();
    desk.sandbox.dir("home/.gemini");
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    desk.sandbox.write("home/.gemini/settings.json", settings.to_string());
    let mut command = desk.command(&node);
    command
        .arg(script)
        .env("GEMINI_API_KEY", "dummy")
        .env("GOOGLE_GEMINI_BASE_URL", model.url())
        .env("GEMINI_CLI_NO_RELAUNCH", "true");
    command
}

fn shell(request: &ModelRequest, line: &str) -> Turn {
    request.call("run_shell_command", json!({ "command": line }))
}

#[test]
fn gemini_cli_works_through_a_session_with_hooks_and_tools() {
    let desk = Desk::new("gemini");
    let model = desk.model(shell);
    let servers = desk.prints(command(&desk, &model).args(["mcp", "list"]));
    assert!(servers.contains("waypost: way mcp (stdio) - Connected"), "{servers}");

    let mut prompt = command(&desk, &model);
    prompt.args(["--model", "scripted", "--prompt", "Paint the fence", "--output-format", "json"]);
    let run = desk.run(prompt.args(["--approval-mode", "yolo"]));
    desk.assert_session(&model, &run);
    desk.assert_renewed_by_hook();
    desk.assert_hooks("gemini", &["start", "tool", "stop", "compact"]);
    // It compacts nothing in so short a session, but runs the hook before every request.
    let renewed = desk.way(&["events", "--kind", "agent.heartbeat", "--limit", "100"]);
    assert_eq!(renewed.as_array().unwrap().len(), 1, "{renewed}");
    let first = model.requests()[0].body.to_string();
    assert!(first.contains("You are gemini-"), "the hook primes the session: {first}");
    assert!(first.contains("way task claim"), "it reads the instructions");
    // It shows its model the text, and not the structured content.
    let results = model.requests().last().unwrap().results.clone();
    assert!(results[1].contains(" P2 open | Buy more paint") && !results[1].contains("issue_type"), "{}", results[1]);
}
