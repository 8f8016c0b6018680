//! Codex, in its sandbox.

use std::process::Command;

use serde_json::{Value, json};
use waypost_testkit::{Model, ModelRequest, Turn, codex};

use super::Desk;

/// Writes the user's settings, which name the model and trust the repository.
fn configure(desk: &Desk, model: &Model) {
    desk.sandbox.dir("home/.codex");
    // The program runs itself under this name. It does not put it there if its home is a temporary directory.
    let helper = desk.sandbox.path("bin/codex-linux-sandbox");
    if !helper.is_symlink() {
        std::os::unix::fs::symlink(codex(), helper).unwrap();
    }
    let config = format!(
        "model = 'scripted'\nmodel_provider = 'scripted'\ncheck_for_update_on_startup = false\n\
         [model_providers.scripted]\nname = 'Scripted'\nbase_url = '{}/v1'\nwire_api = 'responses'\nenv_key = 'SCRIPTED_KEY'\n\
         request_max_retries = 0\nstream_max_retries = 0\n\
         [analytics]\nenabled = false\n\
         [projects.'{}']\ntrust_level = 'trusted'\n",
        model.url(),
        desk.repo.display()
    );
    desk.sandbox.write("home/.codex/config.toml", config);
}

fn command(desk: &Desk) -> Command {
    let mut command = desk.command(&codex());
    command.env("SCRIPTED_KEY", "dummy");
    command
}

/// Returns a command that answers one prompt, in the sandbox that may write to the repository.
fn prompt(desk: &Desk) -> Command {
    let mut command = command(desk);
    // Where the sandbox may write, it makes an empty .git for a while. In /tmp it would confuse other tests.
    for option in ["exclude_slash_tmp", "exclude_tmpdir_env_var"] {
        command.args(["--config", &format!("sandbox_workspace_write.{option}=true")]);
    }
    let options = ["exec", "--json", "--sandbox", "workspace-write", "--dangerously-bypass-hook-trust"];
    command.args(options).arg("Paint the fence");
    command
}

fn shell(request: &ModelRequest, line: &str) -> Turn {
    request.call("exec_command", json!({ "cmd": line }))
}

#[test]
fn codex_works_through_a_session_with_hooks_and_tools() {
    let desk = Desk::new("");
    let model = desk.model(shell);
    configure(&desk, &model);
    // The user agrees that the sandbox may write to Waypost's directory.
    let _ = desk.way(&["setup", "codex", "--yes"]);
    let servers = desk.prints(command(&desk).args(["mcp", "list"]));
    assert!(servers.lines().any(|line| line.starts_with("waypost ") && line.contains("enabled")), "{servers}");

    let run = desk.run(&mut prompt(&desk));
    desk.assert_session(&model, &run);
    desk.assert_renewed_by_hook();
    desk.assert_hooks("codex", &["start", "tool", "stop"]);
    let first = model.requests()[0].body.to_string();
    assert!(first.contains("You are codex-"), "the hook primes the session: {first}");
    assert!(first.contains("# AGENTS.md instructions"), "it reads the instructions");
    // It shows its model the structured content, and not the text.
    let results = model.requests().last().unwrap().results.clone();
    let (_, issue) = results[1].split_once("Output:\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(issue).unwrap()["issue"]["title"], "Buy more paint");
}

#[test]
fn codex_changes_issues_from_its_sandbox_with_the_tools_and_commands_name_this_way_out() {
    let desk = Desk::new("codex");
    let model = Model::start(|request| match request.turn {
        0 => shell(request, "way add 'Not possible' --agent painter"),
        1 => shell(request, "way workflow create other"),
        2 => request.call("issue", json!({ "do": "add", "title": "Possible", "agent": "painter" })),
        3 => request.call("issues", json!({ "do": "ready" })),
        4 => request.call("next", json!({ "agent": "painter" })),
        5 => request.call(
            "finish",
            json!({ "how": "done", "task": "w/a", "epoch": 1, "text": "All is painted", "agent": "painter" }),
        ),
        _ => Turn::say("Done."),
    });
    configure(&desk, &model);
    let run = desk.run(&mut prompt(&desk));
    let results = model.requests().last().unwrap().results.clone();
    assert_eq!(results.len(), 6, "{results:#?} {run:#?}");
    for refused in &results[..2] {
        assert!(refused.contains("exited with code 8"), "{refused}");
        assert!(refused.contains("use the MCP tools of waypost"), "{refused}");
        assert!(refused.contains(desk.repo.join(".git/waypost").to_str().unwrap()), "{refused}");
    }
    // No approval is needed, because the tools declare that they delete nothing.
    assert!(results[3].contains("Possible"), "{results:#?}");
    let issues = desk.way(&["list"]);
    assert_eq!(issues.as_array().unwrap().len(), 1, "{issues}");
    assert_eq!(issues[0]["title"], "Possible");
    assert_eq!(desk.way(&["task", "show", "w/a"])["status"], "completed", "{results:#?}");
}
