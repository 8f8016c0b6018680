//! Qwen Code.

use std::process::Command;

use serde_json::json;
use waypost_testkit::{Model, ModelRequest, Turn, qwen};

use super::Desk;

fn command(desk: &Desk, model: &Model) -> Command {
    let [node, script] = qwen();
    desk.sandbox.dir("home/.qwen");
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" }, "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
        // The model would have to search for tools first.
        "tools": { "toolSearch": { "enabled": false } },
    });
    desk.sandbox.write("home/.qwen/settings.json", settings.to_string());
    let mut command = desk.command(&node);
    command
        .arg(script)
        .env("OPENAI_API_KEY", "dummy")
        .env("OPENAI_BASE_URL", format!("{}/v1", model.url()))
        .env("OPENAI_MODEL", "scripted")
        .env("QWEN_CODE_NO_RELAUNCH", "true");
    command
}

fn shell(request: &ModelRequest, line: &str) -> Turn {
    request.call("run_shell_command", json!({ "command": line, "is_background": false }))
}

#[test]
fn qwen_code_works_through_a_session_with_hooks_and_tools() {
    let desk = Desk::new("qwen");
    let model = desk.model(shell);
    // A person approves the servers of a project once.
    let pending = desk.prints(command(&desk, &model).args(["mcp", "list"]));
    assert!(pending.contains("waypost") && pending.contains("Pending approval"), "{pending}");
    desk.prints(command(&desk, &model).args(["mcp", "approve", "waypost"]));
    let servers = desk.prints(command(&desk, &model).args(["mcp", "list"]));
    assert!(servers.contains("waypost: way mcp") && servers.contains("Connected"), "{servers}");

    let mut prompt = command(&desk, &model);
    prompt.args(["--prompt", "Paint the fence", "--output-format", "json", "--approval-mode", "yolo"]);
    let run = desk.run(&mut prompt);
    desk.assert_session(&model, &run);
    desk.assert_renewed_by_hook();
    desk.assert_hooks("qwen", &["start", "tool", "stop"]);
    // It would show its model the text and the structured content, so it gets only the text.
    let results = model.requests().last().unwrap().results.clone();
    assert_eq!(results[1].matches("Buy more paint").count(), 1, "{}", results[1]);
}
