//! GitHub Copilot CLI.

use std::process::Command;

use serde_json::json;
use waypost_testkit::{Model, ModelRequest, Turn, copilot};

use super::Desk;

fn command(desk: &Desk, model: &Model) -> Command {
    let mut command = desk.command(&copilot());
    command
        .env("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", model.url()))
        .env("COPILOT_PROVIDER_API_KEY", "dummy")
        .env("COPILOT_MODEL", "scripted")
        .env("COPILOT_OFFLINE", "true")
        .env("COPILOT_AUTO_UPDATE", "false");
    command
}

fn shell(request: &ModelRequest, line: &str) -> Turn {
    request.call("bash", json!({ "command": line, "description": "a step" }))
}

#[test]
fn copilot_cli_works_through_a_session_with_hooks_and_tools() {
    let desk = Desk::new("copilot");
    let model = desk.model(shell);
    let mut prompt = command(&desk, &model);
    prompt.args(["-p", "Paint the fence", "--allow-all-tools", "--trust-folder", "--disable-client-telemetry"]);
    let run = desk.run(&mut prompt);
    desk.assert_session(&model, &run);
    desk.assert_renewed_by_hook();
    desk.assert_hooks("copilot", &["start", "tool", "stop"]);
    let first = model.requests()[0].body.to_string();
    assert!(first.contains("You are copilot-"), "the hook primes the session: {first}");
    assert!(first.contains("Work in this repository is planned"), "it reads the instructions");
    // It would show its model the text and the structured content, so it gets only the text.
    let results = model.requests().last().unwrap().results.clone();
    assert!(results[1].ends_with(" P2 open | Buy more paint"), "{}", results[1]);
    assert_eq!(
        results[0].matches("Paint the fence").count() + results[0].matches("a (tk_").count(),
        1,
        "{}",
        results[0]
    );
}
