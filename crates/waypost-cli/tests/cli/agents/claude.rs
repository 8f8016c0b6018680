//! Claude Code.

use std::process::Command;

use serde_json::{Value, json};
use waypost_testkit::{Model, ModelRequest, Turn, claude};

use super::Desk;

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

fn command(desk: &Desk, model: &Model) -> Command {
    let mut command = desk.command(&claude());
    command
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", "dummy")
        .env("DISABLE_AUTOUPDATER", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        // Tools are offered at once, instead of after a search.
        .env("ENABLE_TOOL_SEARCH", "false");
    command
}

/// Returns a command that answers one prompt.
fn prompt(desk: &Desk, model: &Model, text: &str) -> Command {
    let mut command = command(desk, model);
    let allowed = ["--allowedTools", "mcp__waypost", "Bash", "EnterWorktree", "ExitWorktree"];
    command.args(["-p", text, "--output-format", "json"]).args(allowed);
    command
}

fn shell(request: &ModelRequest, line: &str) -> Turn {
    request.call("Bash", json!({ "command": line }))
}

#[test]
fn claude_code_works_through_a_session_with_hooks_and_tools() {
    let desk = Desk::new("claude-code");
    desk.sandbox.dir("home/.claude");
    desk.sandbox.write("home/.claude/settings.json", json!({ "enableAllProjectMcpServers": true }).to_string());
    let model = desk.model(shell);
    let servers = desk.prints(command(&desk, &model).args(["mcp", "list"]));
    assert!(servers.contains("waypost: way mcp - ✔ Connected"), "{servers}");

    let run = desk.run(prompt(&desk, &model, "Paint the fence").args(["--session-id", SESSION]));
    desk.assert_session(&model, &run);
    desk.assert_renewed_by_hook();
    desk.assert_hooks("claude-code", &["start", "tool", "stop"]);
    let first = model.requests()[0].body.to_string();
    assert!(first.contains("You are claude-code-11111111."), "the hook primes the session: {first}");
    assert!(first.contains("way task claim"), "it reads the instructions");
    // It shows its model the structured content, and not the text.
    let results = model.requests().last().unwrap().results.clone();
    let issue: Value = serde_json::from_str(&results[1]).unwrap();
    assert_eq!(issue["issue"]["title"], "Buy more paint");

    desk.forget_calls();
    let compacted = desk.run(prompt(&desk, &model, "/compact").args(["--resume", SESSION]));
    assert_eq!(compacted.code, 0, "{compacted:#?}");
    desk.assert_hooks("claude-code", &["compact", "start"]);
}

#[test]
fn claude_code_works_in_worktrees_that_are_workspaces() {
    let desk = Desk::new("claude-code");
    let _ = desk.way(&["setup", "claude-code", "--worktrees"]);
    let (enter, leave) = ("EnterWorktree", json!({ "action": "remove", "discard_changes": true }));
    let model = Model::start(move |request| match request.turn {
        0 => request.call(enter, json!({ "name": "clean" })),
        1 => shell(request, "way add 'Found in a worktree' --agent painter"),
        2 | 5 => request.call("ExitWorktree", leave.clone()),
        3 => request.call(enter, json!({ "name": "unsaved" })),
        4 => shell(request, "echo work > new"),
        _ => Turn::say("Done."),
    });
    let run = desk.run(&mut prompt(&desk, &model, "Work in worktrees"));
    let results = model.requests().last().unwrap().results.clone();
    assert_eq!(results.len(), 6, "{results:#?} {run:#?}");
    assert!(
        results[0].contains("Created worktree at") && results[0].contains(".waypost/workspaces/ws_"),
        "{results:#?}"
    );
    assert!(results[2].contains("Exited and removed worktree"), "{results:#?}");
    assert!(results[5].contains("could not remove it"), "{results:#?}");
    // Only the one with work is left, and it is a workspace and a worktree.
    let workspaces = desk.way(&["ws", "list"]);
    let [left] = workspaces.as_array().unwrap().as_slice() else { panic!("{workspaces}") };
    assert_eq!(left["branch"], "worktree-unsaved");
    let path = std::path::Path::new(left["path"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(path.join("new")).unwrap(), "work\n");
    let worktrees = desk.way(&["worktree", "list"]);
    assert!(worktrees.as_array().unwrap().iter().any(|one| one["path"] == left["path"]), "{worktrees}");
    // The command in the worktree changed the issues of the repository.
    assert_eq!(desk.way(&["list"])[0]["title"], "Found in a worktree");

    // A session can also begin in one.
    let model = Model::start(|request| match request.turn {
        0 => shell(request, "pwd"),
        _ => Turn::say("Done."),
    });
    let run = desk.run(prompt(&desk, &model, "Where are you?").args(["--worktree", "unsaved"]));
    let requests = model.requests();
    assert!(requests.last().unwrap().results[0].contains(path.to_str().unwrap()), "{run:#?}");
}
