//! opencode.

use std::process::Command;

use serde_json::json;
use waypost_testkit::{Model, ModelRequest, Turn, opencode};

use super::Desk;

fn command(desk: &Desk, model: &Model) -> Command {
    desk.sandbox.dir("home/.config/opencode");
    let scripted = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": { "baseURL": format!("{}/v1", model.url()), "apiKey": "dummy" },
        "models": { "scripted": { "name": "Scripted", "tool_call": true, "limit": { "context": 100_000, "output": 1_000 } } },
    });
    let settings = json!({
        "provider": { "scripted": scripted }, "model": "scripted/scripted", "small_model": "scripted/scripted",
        "enabled_providers": ["scripted"], "autoupdate": false, "share": "disabled",
    });
    desk.sandbox.write("home/.config/opencode/opencode.json", settings.to_string());
    let mut command = desk.command(&opencode());
    for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        command.env(format!("OPENCODE_DISABLE_{name}"), "1");
    }
    command
}

fn shell(request: &ModelRequest, line: &str) -> Turn {
    request.call("bash", json!({ "command": line, "description": "a step" }))
}

#[test]
fn opencode_works_through_a_session_with_tools() {
    let desk = Desk::new("opencode");
    let model = desk.model_without_hooks(shell);
    let run = desk.run(command(&desk, &model).args(["run", "--format", "json", "Paint the fence"]));
    desk.assert_session(&model, &run);
    assert!(model.requests()[0].body.to_string().contains("way task claim"), "it reads the instructions");
    // It shows its model the text, and not the structured content.
    let results = model.requests().last().unwrap().results.clone();
    assert!(results[1].ends_with(" P2 open | Buy more paint"), "{}", results[1]);
}
