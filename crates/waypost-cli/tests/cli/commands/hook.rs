//! `way hook`: sessions of coding agents.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use waypost_testkit::Run;

use crate::support::setup::repository;
use crate::support::work::Team;

/// Runs a hook as an agent does: with the description of its session on standard input.
fn hook(team: &Team, line: &str, session: &Value) -> Run {
    let mut child = team
        .command(&format!("hook {line}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(session.to_string().as_bytes()).unwrap();
    Run::of(&child.wait_with_output().unwrap())
}

#[test]
fn hooks_name_the_session_prime_it_and_keep_its_leases() {
    let team = Team::with("a: one\nb: two\n");
    let session = json!({ "session_id": "1a2b3c4d-5e6f-7a8b", "hook_event_name": "SessionStart", "source": "startup" });
    let started = hook(&team, "start --for claude-code", &session).ok().stdout;
    let started: Value = serde_json::from_str(&started).unwrap();
    let context = started["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.starts_with("You are claude-code-1a2b3c4d."), "{context}");
    assert!(context.ends_with("Pass it to every command as --agent, and to every tool as agent.\n"), "{context}");
    assert!(context.contains("## Next tasks"), "{context}");
    assert_eq!(team.data("agent list"), json!([]), "reading registers no agent");
    assert_eq!(hook(&team, "compact --for claude-code", &session).ok().stdout, "", "it holds nothing");

    let claimed = team.data("task claim a --agent claude-code-1a2b3c4d");
    let task = claimed["task"]["id"].as_str().unwrap();
    for moment in ["stop", "compact", "start"] {
        team.pass(500);
        let _ = hook(&team, &format!("{moment} --for claude-code"), &session).ok();
    }
    assert_eq!(team.status("a"), "in_progress", "each renewed the lease");
    let reminder = hook(&team, "compact --for claude-code", &session).ok().stdout;
    assert!(reminder.contains(&format!("you are claude-code-1a2b3c4d and hold {task} (epoch 1)")), "{reminder}");
    let compact = |trigger: &str| {
        let event = json!({ "session_id": "1a2b3c4d-5e6f-7a8b", "trigger": trigger });
        let printed = hook(&team, "compact --for gemini --agent claude-code-1a2b3c4d", &event).ok().stdout;
        serde_json::from_str::<Value>(&printed).unwrap()
    };
    assert!(compact("manual")["systemMessage"].as_str().unwrap().contains("epoch 1"));
    let events = team.data("events --kind agent.heartbeat --limit 100");
    assert_eq!(compact("auto"), json!({}), "Gemini CLI runs it before every request");
    assert_eq!(team.data("events --kind agent.heartbeat --limit 100"), events);
    // Another session holds nothing.
    let other = json!({ "session_id": "ffff" });
    assert_eq!(hook(&team, "compact --for claude-code", &other).ok().stdout, "");
    let cursor: Value =
        serde_json::from_str(&hook(&team, "start --for cursor", &json!({ "conversation_id": "c0" })).ok().stdout)
            .unwrap();
    assert!(cursor["additional_context"].as_str().unwrap().starts_with("You are cursor-c0."));
    let copilot: Value =
        serde_json::from_str(&hook(&team, "start --for copilot", &json!({ "session_id": "c1" })).ok().stdout).unwrap();
    assert!(copilot["additionalContext"].as_str().unwrap().starts_with("You are copilot-c1."));
}

#[test]
fn commands_of_a_session_know_its_name_if_the_agent_supports_it() {
    let team = Team::with("a: one\n");
    let file = team.sandbox.path("session.env");
    for _ in 0..2 {
        let mut child = team
            .command("hook start --for claude-code")
            .env("CLAUDE_ENV_FILE", &file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"{\"session_id\": \"abc\"}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("Commands use it automatically"));
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "export WAYPOST_AGENT='claude-code-abc'\n");
}

#[test]
fn a_hook_never_stops_the_agent() {
    let (sandbox, repo) = repository();
    let outside = sandbox.dir("outside");
    for moment in ["start", "compact", "stop", "something-new"] {
        for agent in ["claude-code", "codex", "cursor", "gemini", "generic", "another"] {
            let run = sandbox.way(&outside, ["hook", moment, "--for", agent]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{moment} {agent}: {run:#?}");
            // These agents parse the output as JSON, even if there is nothing to say.
            let is_json = serde_json::from_str::<Value>(&run.stdout).is_ok_and(|said| said.is_object());
            assert_eq!(is_json, ["codex", "cursor", "gemini"].contains(&agent) || run.stdout.starts_with('{'));
        }
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "it creates nothing either");
    // A store that cannot be read.
    let _ = sandbox.way(&repo, ["status"]).ok();
    sandbox
        .write("repo/.git/waypost/state.db", "this is no database, and long enough to be looked at twice".repeat(100));
    for (agent, said) in [("claude-code", ""), ("codex", "{}\n"), ("cursor", "{}\n"), ("gemini", "{}\n")] {
        for moment in ["start", "stop"] {
            let run = sandbox.way(&repo, ["hook", moment, "--for", agent]);
            assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, said, ""), "{run:#?}");
        }
    }
}

/// The hook knows the session by its id, and the agent may use any name.
#[test]
fn a_hook_after_a_tool_renews_the_leases_of_the_names_that_the_session_used() {
    let team = Team::with("a: one\nb: two\nc: three\n");
    let used = |tool: &str, input: Value| json!({ "session_id": "beef", "tool_name": tool, "tool_input": input });
    for (task, agent) in [("a", "painter"), ("b", "plumber"), ("c", "stranger")] {
        let _ = team.data(&format!("task claim {task} --agent {agent}"));
    }
    let first = used("Bash", json!({ "command": "cd x && way task claim a --agent painter; way status" }));
    assert_eq!(hook(&team, "tool --for claude-code", &first).ok().stdout, "");
    let second = used("mcp__waypost__next", json!({ "task": "b", "agent": "plumber" }));
    assert_eq!(hook(&team, "tool --for codex", &second).ok().stdout, "{}\n");
    let other = used("Bash", json!({ "command": "echo --agent stranger", "agent": "stranger" }));
    for _ in 0..3 {
        team.pass(500);
        let _ = hook(&team, "tool --for claude-code", &other).ok();
        let _ = hook(&team, "tool --for codex", &other).ok();
    }
    assert_eq!(team.status("a"), "in_progress");
    assert_eq!(team.status("b"), "in_progress");
    assert_ne!(team.status("c"), "in_progress", "no command of the session used that name");
    let events = team.data("events --kind agent.heartbeat --limit 100");
    // A session uses many tools: only a lease that has used up a third of its time is renewed.
    for _ in 0..5 {
        let _ = hook(&team, "tool --for claude-code", &other).ok();
    }
    assert_eq!(team.data("events --kind agent.heartbeat --limit 100"), events);
}

#[test]
fn a_hook_after_a_tool_creates_no_store() {
    let (sandbox, repo) = repository();
    let run = sandbox.way(&repo, ["hook", "tool", "--for", "claude-code"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(!repo.join(".git/waypost/state.db").exists());
}

/// The path that the hook printed, as the agent reads it.
fn created(team: &Team, name: &str) -> PathBuf {
    let event = json!({ "session_id": "beef", "hook_event_name": "WorktreeCreate", "name": name });
    let printed = hook(team, "worktree-create --for claude-code", &event).ok().stdout;
    assert_eq!(printed.lines().count(), 1, "{printed}");
    PathBuf::from(printed.trim_end())
}

fn removed(team: &Team, path: &Path) -> Run {
    let event = json!({ "session_id": "beef", "hook_event_name": "WorktreeRemove", "worktree_path": path });
    hook(team, "worktree-remove --for claude-code", &event)
}

#[test]
fn a_worktree_of_the_agent_is_a_workspace_of_the_repository() {
    let team = Team::new();
    let path = created(&team, "login");
    assert!(path.is_absolute() && path.join("file").is_file(), "{path:?}");
    assert_eq!(team.sandbox.git(&path, ["branch", "--show-current"]), "worktree-login\n");
    let listed = |line: &str| {
        let all = team.data(line);
        let paths = all.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned());
        paths.collect::<Vec<_>>()
    };
    let text = path.to_str().unwrap().to_owned();
    assert_eq!(listed("ws list"), [text.as_str()]);
    assert!(listed("worktree list").contains(&text));
    assert_eq!(created(&team, "login"), path, "the same name is the same worktree");
    let other = created(&team, "logout");
    assert_ne!(other, path);
    // A command in it works for the repository that it belongs to.
    let added = team.sandbox.way(&path, ["add", "Found here", "--agent", "a", "--json"]).data();
    let id = added["id"].as_str().unwrap();
    assert_eq!(team.data(&format!("show {id}"))["title"], "Found here");
    assert_eq!(team.sandbox.git(&path, ["status", "--porcelain"]), "", "nothing of ours is in it");

    assert_eq!(removed(&team, &path).ok().stdout, "");
    assert!(!path.exists());
    assert_eq!(listed("ws list"), [other.to_str().unwrap().to_owned()]);
    assert!(!listed("worktree list").contains(&text));
}

#[test]
fn a_worktree_of_the_agent_with_work_is_kept() {
    let team = Team::new();
    let path = created(&team, "fix");
    team.sandbox.write(path.join("new"), "work\n");
    let kept = removed(&team, &path).fails(7);
    assert!(kept.stderr.contains("stays: 1 file not under version control"), "{kept:#?}");
    assert_eq!(std::fs::read_to_string(path.join("new")).unwrap(), "work\n");
    team.sandbox.git(&path, ["add", "new"]);
    team.sandbox.git(&path, ["commit", "-q", "-m", "work"]);
    let _ = removed(&team, &path).ok();
    assert!(!path.exists());
    assert_eq!(team.sandbox.git(&team.repo, ["show", "worktree-fix:new"]), "work\n");
    // The branch still has the commit, so a new worktree with this name gets a branch of its own.
    let again = created(&team, "fix");
    assert_eq!(team.sandbox.git(&again, ["branch", "--show-current"]), "worktree-fix-2\n");
    assert!(!again.join("new").exists());
}

/// Claude Code starts the hook in the worktree, in a shell.
#[test]
fn a_worktree_is_removed_from_within_by_the_hook_and_by_no_other_command() {
    let team = Team::new();
    let path = created(&team, "inside");
    let way = env!("CARGO_BIN_EXE_way");
    let inside = |line: &str| {
        let mut shell = team.sandbox.command("sh", &path);
        // The shell stays in the directory until the command has ended.
        shell.args(["-c", &format!("way() {{ '{way}' \"$@\"; }}; {line}; exit $?")]);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(json!({ "worktree_path": path }).to_string().as_bytes()).unwrap();
        Run::of(&child.wait_with_output().unwrap())
    };
    let refused = inside("way ws rm .").fails(7);
    assert!(refused.stderr.contains("runs in it"), "{refused:#?}");
    assert_eq!(inside("way hook worktree-remove --for claude-code").ok().stdout, "");
    assert!(!path.exists());
}

#[test]
fn a_hook_for_worktrees_says_why_it_fails() {
    let team = Team::new();
    let event = json!({ "session_id": "beef" });
    for (moment, message) in
        [("worktree-create", "the agent named no worktree to create"), ("worktree-remove", "no worktree to remove")]
    {
        let run = hook(&team, &format!("{moment} --for claude-code"), &event).fails(2);
        assert!(run.stdout.is_empty() && run.stderr.contains(message), "{run:#?}");
    }
    let elsewhere = team.sandbox.dir("elsewhere");
    let run = removed(&team, &elsewhere).fails(3);
    assert!(run.stderr.contains("workspace") && elsewhere.is_dir(), "{run:#?}");
    let run = removed(&team, &team.repo).fails(3);
    assert!(team.repo.join("file").is_file(), "{run:#?}");
}
