//! `way setup`: the parts that are written on request, the files of the user, and the guard of the hooks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox};

use super::setup::{AGENTS, files, json_file};
use crate::support::setup::repository;

/// Returns the files in the home directory that are not Waypost's own.
fn home_files(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    files(&sandbox.path("home")).into_iter().filter(|(name, _)| !name.starts_with(".waypost/")).collect()
}

fn states(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    answer["parts"].as_array().unwrap().iter().map(|part| (text(&part["path"]), text(&part["state"]))).collect()
}

#[test]
fn the_files_of_the_user_are_set_up_for_all_repositories_and_restored() {
    let sandbox = crate::support::sandbox();
    let outside = sandbox.dir("outside");
    sandbox.dir("home");
    for (name, content) in [
        (".claude.json", "{\"numStartups\": 3, \"mcpServers\": {\"other\": {\"command\": \"x\"}}}"),
        (".claude/settings.json", "{\n  \"permissions\": {\"allow\": [\"Bash(ls)\"]},\n}\n"),
        (".codex/config.toml", "model = \"x\"\nmcp_servers.other = { command = \"x\" }\n"),
        (".config/zed/settings.json", "// mine\n{\n  \"theme\": \"One\", // dark\n}\n"),
        (".config/opencode/opencode.jsonc", "{ /* mine */ \"permission\": {\"bash\": {\"*\": \"ask\"}} }"),
        (".copilot/mcp-config.json", "{\"mcpServers\": {\"other\": {\"command\": \"x\"}}}"),
    ] {
        sandbox.dir(sandbox.path("home").join(name).parent().unwrap());
        sandbox.write(format!("home/{name}"), content);
    }
    for agent in AGENTS.into_iter().filter(|agent| *agent != "generic") {
        let before = home_files(&sandbox);
        let way = |flags: &[&str]| {
            let args: Vec<&str> = ["setup", agent, "--user"].into_iter().chain(flags.iter().copied()).collect();
            sandbox.way(&outside, args)
        };
        assert_eq!(way(&["--check"]).code, 4, "{agent}");
        let first = way(&["--json", "--allow"]).data();
        assert!(states(&first).iter().all(|(path, state)| path.starts_with("~/") && state == "added"), "{first}");
        let _ = way(&["--check", "--allow"]).ok();
        let after = home_files(&sandbox);
        let again = way(&["--json", "--allow"]).data();
        assert!(states(&again).iter().all(|(_, state)| state == "as_it_was"), "{again}");
        assert_eq!(home_files(&sandbox), after, "{agent}: twice is once");
        let _ = way(&["--remove"]).ok();
        assert_eq!(home_files(&sandbox), before, "{agent}: removal restores");
    }
    let _ = sandbox.way(&outside, ["setup", "generic", "--user"]).fails(2);
}

#[test]
fn variables_name_the_directories_of_the_user() {
    let sandbox = crate::support::sandbox();
    let outside = sandbox.dir("outside");
    let dir = sandbox.path("elsewhere");
    for (variable, agent, file) in [
        ("CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("COPILOT_HOME", "copilot", "mcp-config.json"),
        ("QWEN_HOME", "qwen", "settings.json"),
        ("XDG_CONFIG_HOME", "opencode", "opencode/opencode.json"),
        ("XDG_CONFIG_HOME", "zed", "zed/settings.json"),
    ] {
        let run = sandbox.way_with(&outside, &[(variable, dir.as_os_str())], ["setup", agent, "--user"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(std::fs::read_to_string(dir.join(file)).unwrap().contains("waypost"), "{variable}");
    }
    assert_eq!(home_files(&sandbox), []);
}

#[test]
fn a_link_of_the_user_is_followed_and_one_to_nothing_is_refused() {
    let sandbox = crate::support::sandbox();
    let outside = sandbox.dir("outside");
    sandbox.dir("home/.gemini");
    sandbox.dir("dotfiles");
    sandbox.write("dotfiles/gemini.json", "{\"theme\": \"x\"}");
    let link = sandbox.path("home/.gemini/settings.json");
    std::os::unix::fs::symlink("../../dotfiles/gemini.json", &link).unwrap();
    assert_eq!(sandbox.way(&outside, ["setup", "gemini", "--user"]).code, 0);
    assert!(link.is_symlink());
    let settings = json_file(&sandbox.path("dotfiles/gemini.json"));
    assert_eq!((&settings["theme"], &settings["mcpServers"]["waypost"]["command"]), (&json!("x"), &json!("way")));
    std::fs::remove_file(sandbox.path("dotfiles/gemini.json")).unwrap();
    let _ = sandbox.way(&outside, ["setup", "gemini", "--user", "--remove"]).fails(7);
    assert!(link.is_symlink());
    let document = std::fs::read_to_string(sandbox.path("home/.gemini/GEMINI.md")).unwrap();
    assert!(document.contains("waypost:begin"), "nothing is removed: {document}");
}

#[test]
fn codex_gets_a_writable_root_only_with_the_consent_of_the_user() {
    let (sandbox, repo) = repository();
    let config = sandbox.path("home/.codex/config.toml");
    let run = sandbox.way(&repo, ["setup", "codex"]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("--yes changes ~/.codex/config.toml"), "{}", run.stderr);
    assert!(run.stdout.contains("left out"), "{}", run.stdout);
    let allow = sandbox.way(&repo, ["setup", "codex", "--allow"]);
    assert!(!allow.stderr.contains("--yes"), "rules let commands leave the sandbox: {}", allow.stderr);
    assert!(!config.exists() && !repo.join(".git/waypost").exists());
    let _ = sandbox.way(&repo, ["setup", "codex", "--check"]).ok();

    let printed = sandbox.way(&repo, ["setup", "codex", "--print"]).ok().stdout;
    let root = repo.join(".git/waypost");
    let line = format!("[sandbox_workspace_write]\nwritable_roots = [\"{}\"]\n", root.display());
    assert!(printed.contains("~/.codex/config.toml (sandbox)") && printed.contains(&line), "{printed}");
    let yes = sandbox.way(&repo, ["setup", "codex", "--yes", "--json"]).data();
    assert_eq!(states(&yes).last().unwrap(), &("~/.codex/config.toml".to_owned(), "added".to_owned()));
    let written = std::fs::read_to_string(&config).unwrap();
    assert!(written.contains(&line) && printed.contains(&written), "{written}");
    assert!(root.join("key").exists(), "Codex's sandbox fails if the directory does not exist");
    for flags in [&["--yes"][..], &[]] {
        let again = sandbox.way(&repo, ["setup", "codex", "--json"].iter().chain(flags)).data();
        assert!(states(&again).iter().all(|(_, state)| state == "as_it_was"), "{again}");
    }

    // Each repository has its own root, and linked worktrees have that of their repository.
    let other = sandbox.git_repo("other");
    assert_eq!(sandbox.way(&other, ["setup", "codex", "--yes"]).code, 0);
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let listed = sandbox.way(&repo, ["worktree", "list", "--json"]).data();
    let topic = listed.as_array().unwrap().iter().find(|one| one["branch"] == "topic").unwrap()["path"].clone();
    let both = std::fs::read_to_string(&config).unwrap();
    assert_eq!(both.matches("/.git/waypost\"").count(), 2, "{both}");
    assert_eq!(sandbox.way(Path::new(topic.as_str().unwrap()), ["setup", "codex", "--yes"]).code, 0);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), both);
    let _ = sandbox.way(&other, ["setup", "codex", "--remove"]).ok();
    assert_eq!(std::fs::read_to_string(&config).unwrap(), written);
    let _ = sandbox.way(&repo, ["setup", "codex", "--remove"]).ok();
    assert!(!config.exists());
}

#[test]
fn on_a_terminal_the_user_is_asked_before_a_file_outside_of_the_repository_changes() {
    let (sandbox, repo) = repository();
    let config = sandbox.path("home/.codex/config.toml");
    let setup = |answer: &str| {
        sandbox.write("answer", format!("{answer}\n"));
        let mut terminal = sandbox.command("script", &repo);
        terminal.args(["-qec", &format!("{} setup codex", env!("CARGO_BIN_EXE_way")), "/dev/null"]);
        terminal.stdin(std::fs::File::open(sandbox.path("answer")).unwrap());
        String::from_utf8(terminal.output().unwrap().stdout).unwrap()
    };
    for no in ["", "n", "what"] {
        let shown = setup(no);
        assert!(shown.contains("~/.codex/config.toml? [y/N]") && shown.contains("left out"), "{shown}");
        assert!(!config.exists(), "{no}");
    }
    let shown = setup("Y");
    assert!(!shown.contains("left out"), "{shown}");
    assert!(std::fs::read_to_string(&config).unwrap().contains("/.git/waypost\"]"));
    assert!(!setup("n").contains("[y/N]"), "there is nothing to ask");
}

#[test]
fn the_users_own_writable_roots_stay_as_they_are() {
    for config in [
        "model = \"x\"\n\n[sandbox_workspace_write]\nnetwork_access = true # mine\n\n[tui]\na = 1\n",
        "[sandbox_workspace_write]\nwritable_roots = [\"/a\"] # mine\n",
        "[sandbox_workspace_write]\r\nwritable_roots = [\r\n    \"/a\",\r\n    \"/b\"\r\n]\r\n",
        "sandbox_workspace_write = { writable_roots = [\"/a\"] }\n",
        "sandbox_workspace_write.network_access = true\nmodel = \"x\"",
    ] {
        let (sandbox, repo) = repository();
        sandbox.dir("home/.codex");
        sandbox.write("home/.codex/config.toml", config);
        assert_eq!(sandbox.way(&repo, ["setup", "codex", "--yes"]).code, 0);
        let with = std::fs::read_to_string(sandbox.path("home/.codex/config.toml")).unwrap();
        let root = format!("\"{}\"", repo.join(".git/waypost").display());
        assert_eq!(with.matches(&root).count(), 1, "{with}");
        let _ = sandbox.way(&repo, ["setup", "codex", "--remove"]).ok();
        assert_eq!(std::fs::read_to_string(sandbox.path("home/.codex/config.toml")).unwrap(), config);
    }
}

#[test]
fn inline_tables_and_dotted_keys_of_codex_are_understood_and_kept() {
    for config in [
        "mcp_servers = { other = { command = \"x\" } } # mine\n\n[tui]\na = 1\n",
        "mcp_servers.other = { command = \"x\" }\r\nmodel = \"x\"\r\n",
        "mcp_servers.other.command = \"x\"\nmcp_servers.other.args = []",
        "[mcp_servers]\nother = { command = \"x\" }\n",
    ] {
        let (sandbox, repo) = repository();
        sandbox.dir("repo/.codex");
        sandbox.write("repo/.codex/config.toml", config);
        assert_eq!(sandbox.way(&repo, ["setup", "codex"]).code, 0, "{config}");
        let with = std::fs::read_to_string(repo.join(".codex/config.toml")).unwrap();
        assert_ne!(with, config);
        let _ = sandbox.way(&repo, ["setup", "codex", "--check"]).ok();
        assert_eq!(sandbox.way(&repo, ["setup", "codex"]).code, 0);
        assert_eq!(std::fs::read_to_string(repo.join(".codex/config.toml")).unwrap(), with, "twice is once");
        let _ = sandbox.way(&repo, ["setup", "codex", "--remove"]).ok();
        assert_eq!(std::fs::read_to_string(repo.join(".codex/config.toml")).unwrap(), config);
    }
    // An entry of the user that starts the server is in order, in each form; one that does not is replaced.
    for (entry, state) in [
        ("mcp_servers.waypost = { command = \"/opt/way\", args = [\"mcp\", \"--agent\", \"me\"] }\n", "as_it_was"),
        ("mcp_servers = { waypost = { command = \"way\", args = [\"mcp\"] } }\n", "as_it_was"),
        ("mcp_servers = { waypost = { command = \"old\" }, other = { command = \"x\" } }\n", "updated"),
        ("mcp_servers.waypost.command = \"old\"\nmodel = \"x\"\n", "updated"),
        ("[mcp_servers.waypost]\nurl = \"http://127.0.0.1:1\"\n\n[tui]\na = 1\n", "updated"),
    ] {
        let (sandbox, repo) = repository();
        sandbox.dir("repo/.codex");
        sandbox.write("repo/.codex/config.toml", entry);
        let run = sandbox.way(&repo, ["setup", "codex", "--json"]).data();
        assert_eq!(states(&run)[1], (".codex/config.toml".to_owned(), state.to_owned()), "{entry}");
        let _ = sandbox.way(&repo, ["setup", "codex", "--check"]).ok();
    }
}

#[test]
fn rules_are_written_on_request_and_named_otherwise() {
    let (sandbox, repo) = repository();
    let list = |path: &str, keys: [&str; 2]| json_file(&repo.join(path))[keys[0]][keys[1]].clone();
    for (agent, named) in [
        ("claude-code", "mcp__waypost, Bash(way:*)"),
        ("codex", ".codex/rules/waypost.rules"),
        ("copilot", "--allow-tool=waypost --allow-tool='shell(way:*)'"),
        ("cursor", "Shell(way)"),
        ("gemini", "run_shell_command(way)"),
        ("opencode", "waypost_*"),
        ("qwen", "Bash(way *)"),
    ] {
        let plain = sandbox.way(&repo, ["setup", agent]);
        assert!(plain.stderr.contains(named), "{agent}: {}", plain.stderr);
        assert_eq!(sandbox.way(&repo, ["setup", agent, "--check"]).code, 0, "rules are not required");
        let run = sandbox.way(&repo, ["setup", agent, "--allow"]);
        assert_eq!((run.code, run.stderr.contains("--allow-tool")), (0, agent == "copilot"), "{run:?}");
        assert_eq!(sandbox.way(&repo, ["setup", agent, "--allow", "--check"]).code, 0);
    }
    let rules = json!(["mcp__waypost", "Bash(way:*)"]);
    assert_eq!(list(".claude/settings.json", ["permissions", "allow"]), rules);
    assert_eq!(list(".cursor/cli.json", ["permissions", "allow"]), json!(["Shell(way)"]));
    assert_eq!(list(".gemini/settings.json", ["tools", "allowed"]), json!(["run_shell_command(way)"]));
    assert_eq!(list(".gemini/settings.json", ["mcpServers", "waypost"])["trust"], true);
    assert_eq!(list("opencode.json", ["permission", "bash"]), json!({ "way *": "allow" }));
    assert_eq!(list("opencode.json", ["permission", "waypost_*"]), "allow");
    assert_eq!(list(".qwen/settings.json", ["permissions", "allow"]), json!(["mcp__waypost", "Bash(way *)"]));
    let codex = std::fs::read_to_string(repo.join(".codex/rules/waypost.rules")).unwrap();
    assert!(codex.contains("decision = \"allow\"") && codex.contains("\"add\""), "{codex}");
    for runs_programs in ["job", "worker", "ws", "edit", "sync", "hook", "setup", "config", "serve", "export", "batch"]
    {
        assert!(!codex.contains(&format!("\"{runs_programs}\"")), "{runs_programs} would leave the sandbox");
    }
    // A rule of the same kind that the user wrote stays, and so does a decision of the user.
    sandbox.write("repo/opencode.json", "{\"permission\": \"ask\"}");
    let refused = sandbox.way(&repo, ["setup", "opencode", "--allow", "--json"]).fails(2).error();
    assert!(refused["message"].as_str().unwrap().contains("permission is not an object"), "{refused}");
}

/// Returns the commands of all hooks in settings.
fn hook_commands(settings: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (event, entries) in settings["hooks"].as_object().unwrap() {
        for entry in entries.as_array().unwrap() {
            let inner = entry["hooks"].as_array().into_iter().flatten();
            let commands = std::iter::once(entry).chain(inner).filter_map(|hook| hook["command"].as_str());
            all.extend(commands.map(|command| (event.clone(), command.to_owned())));
        }
    }
    all
}

/// Runs a command of a hook as agents do, with programs from some directories only.
fn run_hook(sandbox: &Sandbox, dir: &Path, path: &str, command: &str, input: &str) -> Run {
    sandbox.write("input.json", input);
    let stdin = std::fs::File::open(sandbox.path("input.json")).unwrap();
    let mut shell = sandbox.command("/bin/sh", dir);
    shell.args(["-c", command]).env("PATH", path).stdin(stdin).stdout(Stdio::piped());
    Run::of(&shell.output().unwrap())
}

#[test]
fn hooks_do_nothing_on_a_machine_without_way() {
    let (sandbox, repo) = repository();
    let program = Path::new(env!("CARGO_BIN_EXE_way")).parent().unwrap().to_str().unwrap();
    for (agent, file, empty) in [
        ("claude-code", ".claude/settings.json", ""),
        ("codex", ".codex/hooks.json", "{}\n"),
        ("copilot", ".github/hooks/waypost.json", ""),
        ("cursor", ".cursor/hooks.json", "{}\n"),
        ("gemini", ".gemini/settings.json", "{}\n"),
        ("qwen", ".qwen/settings.json", ""),
    ] {
        assert_eq!(sandbox.way(&repo, ["setup", agent]).code, 0);
        let commands = hook_commands(&json_file(&repo.join(file)));
        assert_eq!(commands.len(), 4, "{agent}");
        for (event, command) in commands {
            let run = run_hook(&sandbox, &repo, "/usr/bin:/bin", &command, "{}").ok();
            assert_eq!(run.stdout, empty, "{agent} {event}");
            let path = format!("{program}:/usr/bin:/bin");
            let run = run_hook(&sandbox, &repo, &path, &command, "{\"session_id\": \"1234abcd\"}").ok();
            if event.eq_ignore_ascii_case("sessionstart") {
                let answer: Value = serde_json::from_str(&run.stdout).unwrap();
                let context = match agent {
                    "copilot" => &answer["additionalContext"],
                    "cursor" => &answer["additional_context"],
                    _ => &answer["hookSpecificOutput"]["additionalContext"],
                };
                let name = format!("You are {agent}-1234abcd");
                assert!(context.as_str().unwrap().contains(&name), "{agent}: {run:?}");
            }
        }
    }
}

#[test]
fn claude_code_leaves_its_worktrees_to_way_on_request_only() {
    let (sandbox, repo) = repository();
    assert_eq!(sandbox.way(&repo, ["setup", "claude-code"]).code, 0);
    assert!(!std::fs::read_to_string(repo.join(".claude/settings.json")).unwrap().contains("Worktree"));
    let shared = files(&repo);
    let _ = sandbox.way(&repo, ["setup", "claude-code", "--worktrees"]);
    let settings = json_file(&repo.join(".claude/settings.local.json"));
    let commands = hook_commands(&settings);
    assert_eq!(
        commands.iter().map(|(event, _)| event.as_str()).collect::<Vec<_>>(),
        ["WorktreeCreate", "WorktreeRemove"]
    );
    assert!(commands[0].1.contains("&& way hook worktree-create --for claude-code; else"), "{commands:?}");
    assert!(commands[1].1.contains("&& way hook worktree-remove --for claude-code; fi"), "{commands:?}");
    let before = sandbox.git(&repo, ["worktree", "list"]);
    let again = sandbox.way(&repo, ["setup", "claude-code", "--worktrees", "--json"]).data();
    assert!(states(&again).iter().all(|(_, state)| state == "as_it_was"), "{again}");

    // Without way, git makes the worktree: Claude Code fails if the hook names none.
    let input = r#"{"session_id":"1","cwd":"/x","hook_event_name":"WorktreeCreate","name":"topic"}"#;
    for _ in 0..2 {
        let run = run_hook(&sandbox, &repo, "/usr/bin:/bin", &commands[0].1, input).ok();
        let path = PathBuf::from(run.stdout.trim_end());
        assert_eq!(path, repo.join(".claude/worktrees/topic"));
        assert!(path.join(".git").exists());
        assert!(sandbox.git(&path, ["branch", "--show-current"]).contains("worktree-topic"));
    }
    let removal = run_hook(&sandbox, &repo, "/usr/bin:/bin", &commands[1].1, "{}").ok();
    assert_eq!(removal.stdout, "");
    let _ = sandbox.git(&repo, ["worktree", "remove", "--force", ".claude/worktrees/topic"]);
    assert_eq!(sandbox.git(&repo, ["worktree", "list"]), before);

    let _ = sandbox.way(&repo, ["setup", "claude-code", "--remove"]).ok();
    assert!(!repo.join(".claude/settings.local.json").exists());
    assert!(!files(&repo).keys().any(|name| shared.contains_key(name) && name.contains("claude")));
    for agent in ["codex", "gemini"] {
        let _ = sandbox.way(&repo, ["setup", agent, "--worktrees"]).fails(2);
    }
}

#[test]
fn without_an_agent_all_agents_are_listed_with_their_state() {
    let (sandbox, repo) = repository();
    let bin = sandbox.dir("bin");
    sandbox.write("bin/claude", "");
    let way = |dir: &Path| sandbox.way_with(dir, &[("PATH", bin.as_os_str())], ["setup", "--json"]).data();
    let of = |answer: &Value, agent: &str| {
        let found = answer["agents"].as_array().unwrap().iter().find(|one| one["agent"] == agent).unwrap().clone();
        (found["program"].clone(), found["repository"].clone(), found["user"].clone())
    };
    let all = way(&repo);
    assert_eq!(all["agents"].as_array().unwrap().iter().map(|one| one["agent"].clone()).collect::<Vec<_>>(), AGENTS);
    assert_eq!(of(&all, "claude-code"), (json!(bin.join("claude")), json!("no"), json!("no")));
    assert_eq!(of(&all, "codex"), (Value::Null, json!("no"), json!("no")));
    assert_eq!(of(&all, "generic"), (Value::Null, json!("no"), Value::Null));

    assert_eq!(sandbox.way(&repo, ["setup", "claude-code"]).code, 0);
    assert_eq!(sandbox.way(&repo, ["setup", "zed", "--user"]).code, 0);
    sandbox.dir("repo/.codex");
    sandbox.write("repo/.codex/config.toml", "broken = ");
    sandbox.dir("repo/.vscode");
    sandbox.write("repo/.vscode/mcp.json", "{\"servers\": {\"waypost\": {\"command\": \"old\"}}}");
    sandbox.dir("repo/.cursor");
    sandbox
        .write("repo/.cursor/mcp.json", "{\"mcpServers\": {\"waypost\": {\"command\": \"way\", \"args\": [\"mcp\"]}}}");
    let all = way(&repo);
    assert_eq!(of(&all, "claude-code").1, "set_up");
    assert_eq!(of(&all, "zed").2, "set_up");
    assert_eq!(of(&all, "codex").1, "unreadable");
    assert_eq!(of(&all, "vscode").1, "outdated");
    assert_eq!(of(&all, "cursor").1, "partly");
    let outside = way(&sandbox.dir("outside"));
    assert_eq!(of(&outside, "claude-code").1, Value::Null);
    assert_eq!(of(&outside, "zed").2, "set_up");
    let text = sandbox.way(&repo, ["setup"]).ok().stdout;
    assert!(text.contains("AGENT") && text.contains("claude-code  set up"), "{text}");
    for flag in ["--user", "--allow", "--check", "--print", "--remove", "--yes"] {
        let _ = sandbox.way(&repo, ["setup", flag]).fails(2);
    }
    let path: &OsStr = OsStr::new("");
    assert_eq!(sandbox.way_with(&repo, &[("PATH", path)], ["setup"]).code, 0);
}
