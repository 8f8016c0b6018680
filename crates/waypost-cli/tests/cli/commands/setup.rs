//! `way setup`: instructions, tools and hooks for coding agents, beside the user's own settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waypost_testkit::Sandbox;

use crate::support::setup::repository;

pub(super) const AGENTS: [&str; 10] =
    ["claude-code", "codex", "copilot", "cursor", "gemini", "opencode", "qwen", "vscode", "zed", "generic"];

/// Every file of a tree that is not git's.
pub(super) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                if path.file_name().unwrap() != ".git" {
                    dirs.push(path);
                }
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            all.insert(name, std::fs::read(&path).unwrap());
        }
    }
    all
}

pub(super) fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Writes files as users have them: by hand, by other tools, with other line endings.
fn write_user_files(sandbox: &Sandbox, style: usize) {
    let lines = |text: &str| match style {
        0 => text.to_owned(),
        1 => text.trim_end().to_owned(),
        2 => text.replace(",\n", ", // keep, \"this\"\n").replace("}\n", "} /* and\n this */\n"),
        3 => text.replace("\n    }", ",\n    }").replace("}\n}", "},\n}"),
        _ => text.replace('\n', "\r\n"),
    };
    for dir in [".claude", ".codex", ".cursor/rules", ".gemini", ".github/hooks", ".qwen", ".vscode", ".zed"] {
        sandbox.dir(format!("repo/{dir}"));
    }
    for document in ["CLAUDE.md", "AGENTS.md", "GEMINI.md"] {
        sandbox.write(format!("repo/{document}"), lines("# Ours\n\nKeep it *exactly*  so.\n\n"));
    }
    let hooks = r#"{
    "model" : "x",   "deep": {"a":[1 , 2]},
    "hooks": {
        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ],
        "stop": [ {"command": "say done"} ]
    },
    "mcpServers": {"other": {"command": "other", "args": []}}
}

"#;
    for settings in [
        ".claude/settings.json",
        ".mcp.json",
        ".cursor/mcp.json",
        ".cursor/hooks.json",
        ".gemini/settings.json",
        ".codex/hooks.json",
        ".github/mcp.json",
        ".github/hooks/waypost.json",
        "opencode.jsonc",
        ".qwen/settings.json",
        ".vscode/mcp.json",
        ".zed/settings.json",
    ] {
        sandbox.write(format!("repo/{settings}"), lines(hooks));
    }
    let toml = "# mine\nmodel = \"x\"  # this one\n\n[mcp_servers.other]\ncommand = \"other\"\n";
    sandbox.write("repo/.codex/config.toml", lines(toml));
}

#[test]
fn setup_is_idempotent_and_removal_restores_the_users_files() {
    for agent in AGENTS {
        for style in 0..5 {
            let (sandbox, repo) = repository();
            write_user_files(&sandbox, style);
            let before = files(&repo);
            let _ = sandbox.way(&repo, ["setup", agent, "--check"]);
            assert_eq!(files(&repo), before, "checking writes nothing");

            let run = sandbox.way(&repo, ["setup", agent, "--json"]).data();
            let states: Vec<&Value> = run["parts"].as_array().unwrap().iter().map(|part| &part["state"]).collect();
            assert!(
                states.iter().all(|state| *state == "added" || (agent == "codex" && *state == "left_out")),
                "{run}"
            );
            let after = files(&repo);
            assert_ne!(after, before, "{agent}");
            // The previous text of a document stays at its beginning.
            for (name, content) in before.iter().filter(|(name, _)| !name.contains(".json")) {
                assert!(after[name].starts_with(content), "{agent}, {name}");
            }
            let _ = sandbox.way(&repo, ["setup", agent, "--check"]).ok();
            let again = sandbox.way(&repo, ["setup", agent, "--json"]).data();
            let changed = |part: &&Value| part["state"] != "as_it_was" && part["state"] != "left_out";
            assert_eq!(again["parts"].as_array().unwrap().iter().find(changed), None);
            assert_eq!(files(&repo), after, "{agent}: twice is once");

            let _ = sandbox.way(&repo, ["setup", agent, "--remove"]).ok();
            assert_eq!(files(&repo), before, "{agent} {style}: taken away, all is as it was");
            let _ = sandbox.way(&repo, ["setup", agent, "--remove"]).ok();
            assert_eq!(files(&repo), before);
        }
    }
}

#[test]
fn removal_leaves_no_file_that_did_not_exist_before() {
    for agent in AGENTS {
        let (sandbox, repo) = repository();
        let before = files(&repo);
        let _ = sandbox.way(&repo, ["setup", agent]);
        assert!(files(&repo).len() > before.len());
        let _ = sandbox.way(&repo, ["setup", agent, "--check"]).ok();
        let _ = sandbox.way(&repo, ["setup", agent, "--remove"]).ok();
        assert_eq!(files(&repo), before, "{agent}");
        let _ = sandbox.way(&repo, ["setup", agent, "--allow", "--yes"]);
        let _ = sandbox.way(&repo, ["setup", agent, "--remove"]).ok();
        assert_eq!(files(&repo), before, "{agent}: with everything on request");
        assert_eq!(std::fs::read_dir(&repo).unwrap().count(), 2, "nor is an empty directory: {agent}");
    }
}

#[test]
fn all_agents_can_be_set_up_beside_each_other() {
    let (sandbox, repo) = repository();
    let before = files(&repo);
    for agent in AGENTS {
        assert_eq!(sandbox.way(&repo, ["setup", agent]).code, 0);
    }
    for (at, agent) in AGENTS.into_iter().enumerate() {
        for rest in AGENTS[at..].iter().filter(|rest| **rest != "generic") {
            let _ = sandbox.way(&repo, ["setup", rest, "--check"]).ok();
        }
        let removed = sandbox.way(&repo, ["setup", agent, "--remove"]);
        assert_eq!(removed.code, 0);
        // Other agents read the same instructions. Of those that read nothing else, nothing is known.
        assert_eq!(
            removed.stderr.contains("reads AGENTS.md"),
            ["codex", "copilot", "opencode", "qwen", "vscode"].contains(&agent)
        );
    }
    assert_eq!(files(&repo), before);
}

#[test]
fn each_agent_gets_the_files_it_reads() {
    let (sandbox, repo) = repository();
    for agent in AGENTS {
        assert_eq!(sandbox.way(&repo, ["setup", agent]).code, 0);
    }
    for document in ["CLAUDE.md", "AGENTS.md", "GEMINI.md", ".cursor/rules/waypost.mdc"] {
        let text = std::fs::read_to_string(repo.join(document)).unwrap();
        for wanted in ["waypost:begin", "way prime --agent NAME", "way task claim", "way ready", "waypost:end"] {
            assert!(text.contains(wanted), "{document}: {wanted}");
        }
        assert!(text.len() < 1_200, "{document} costs {} bytes in every session", text.len());
    }
    assert!(std::fs::read_to_string(repo.join(".cursor/rules/waypost.mdc")).unwrap().starts_with("---\n"));
    for settings in [".mcp.json", ".cursor/mcp.json", ".gemini/settings.json"] {
        let server = json_file(&repo.join(settings))["mcpServers"]["waypost"].clone();
        assert_eq!(server, json!({ "command": "way", "args": ["mcp"] }), "{settings}");
    }
    let codex = std::fs::read_to_string(repo.join(".codex/config.toml")).unwrap();
    assert!(codex.contains("[mcp_servers.waypost]\ncommand = \"way\"\nargs = [\"mcp\"]\n"), "{codex}");
    let claude = json_file(&repo.join(".claude/settings.json"));
    for (event, moment) in
        [("SessionStart", "start"), ("PreCompact", "compact"), ("Stop", "stop"), ("PostToolUse", "tool")]
    {
        let hook = &claude["hooks"][event][0]["hooks"][0];
        let command = format!("if command -v way >/dev/null 2>&1; then way hook {moment} --for claude-code; fi");
        assert_eq!(hook["command"], command, "{event}");
        assert_eq!(hook["type"], "command");
    }
    let cursor = json_file(&repo.join(".cursor/hooks.json"));
    assert_eq!(
        (&cursor["version"], &cursor["hooks"]["stop"][0]["command"]),
        (&json!(1), &json!("if command -v way >/dev/null 2>&1; then way hook stop --for cursor; else echo '{}'; fi"))
    );
    assert!(json_file(&repo.join(".gemini/settings.json"))["hooks"]["PreCompress"].is_array());
    assert!(json_file(&repo.join(".codex/hooks.json"))["hooks"]["SessionStart"].is_array());
    assert_eq!(
        json_file(&repo.join(".github/mcp.json"))["mcpServers"]["waypost"],
        json!({ "type": "local", "command": "way", "args": ["mcp"], "tools": ["*"] })
    );
    assert_eq!(json_file(&repo.join(".github/hooks/waypost.json"))["hooks"]["Stop"][0]["type"], "command");
    assert_eq!(
        json_file(&repo.join("opencode.json"))["mcp"]["waypost"],
        json!({ "type": "local", "command": ["way", "mcp"] })
    );
    assert_eq!(
        json_file(&repo.join(".vscode/mcp.json"))["servers"]["waypost"],
        json!({ "type": "stdio", "command": "way", "args": ["mcp"] })
    );
    for (settings, key) in [(".zed/settings.json", "context_servers"), (".qwen/settings.json", "mcpServers")] {
        let server = json_file(&repo.join(settings))[key]["waypost"].clone();
        assert_eq!(server, json!({ "command": "way", "args": ["mcp"] }), "{settings}");
    }
    assert!(json_file(&repo.join(".qwen/settings.json"))["hooks"]["PostToolUse"].is_array());
}

#[test]
fn missing_and_outdated_files_are_reported_and_repaired() {
    let (sandbox, repo) = repository();
    let check = || {
        let run = sandbox.way(&repo, ["setup", "claude-code", "--check", "--json"]);
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        let states =
            answer["data"]["parts"].as_array().unwrap().iter().map(|part| part["state"].clone()).collect::<Value>();
        (run.code, states)
    };
    assert_eq!(check(), (4, json!(["missing", "missing", "missing"])));
    assert_eq!(sandbox.way(&repo, ["setup", "claude-code"]).code, 0);
    assert_eq!(check(), (0, json!(["in_order", "in_order", "in_order"])));

    let edit = |name: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(repo.join(name)).unwrap();
        assert!(text.contains(from), "{name}: {text}");
        sandbox.write(format!("repo/{name}"), text.replace(from, to));
    };
    let whole = files(&repo);
    edit("CLAUDE.md", "Begin with", "Start with");
    edit(".mcp.json", "\"way\"", "\"old-way\"");
    edit(".claude/settings.json", "way hook stop --for claude-code", "way hook stop");
    assert_eq!(check(), (4, json!(["outdated", "outdated", "outdated"])));
    let _ = sandbox.way(&repo, ["setup", "claude-code", "--json"]).data();
    assert_eq!(files(&repo), whole);
    // The user's changes count as up to date: another path, more arguments, more hooks beside ours.
    edit(".mcp.json", "\"way\"", "\"/usr/local/bin/way\"");
    edit(".mcp.json", "\"mcp\"", "\"mcp\", \"--agent\", \"me\"");
    edit(".claude/settings.json", "\"type\": \"command\",", "\"timeout\": 5, \"type\": \"command\",");
    assert_eq!(check(), (0, json!(["in_order", "in_order", "in_order"])));
}

#[test]
fn hooks_of_other_programs_stay_in_place() {
    let (sandbox, repo) = repository();
    sandbox.dir("repo/.claude");
    let mixed = r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}, {"type": "command", "command": "way hook stop --for claude-code"}]}]}}"#;
    sandbox.write("repo/.claude/settings.json", mixed);
    assert_eq!(sandbox.way(&repo, ["setup", "claude-code"]).code, 0);
    let stop = json_file(&repo.join(".claude/settings.json"))["hooks"]["Stop"].clone();
    assert_eq!(stop.as_array().unwrap().len(), 1, "an existing hook of Waypost is not added twice: {stop}");
    assert_eq!(sandbox.way(&repo, ["setup", "claude-code", "--remove"]).code, 0);
    assert_eq!(std::fs::read_to_string(repo.join(".claude/settings.json")).unwrap(), mixed);
}

#[test]
fn an_unparsable_file_stops_the_whole_setup() {
    for (agent, name, content, says) in [
        ("claude-code", ".claude/settings.json", "{ // mine\n,}", "line 2 column 1"),
        ("claude-code", ".mcp.json", "{\"mcpServers\": []}", "mcpServers is not an object"),
        ("claude-code", ".claude/settings.json", "{\"hooks\": {\"Stop\": {}}}", "hooks.Stop is not a list"),
        ("codex", ".codex/config.toml", "a = 1\nmodel = ", "on line 2 column 9"),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n", "mcp_servers is not a table"),
        ("generic", "AGENTS.md", "<!-- waypost:begin -->\nno end\n", "must each appear once"),
        ("gemini", "GEMINI.md", "\u{fffd}", ""),
    ] {
        let (sandbox, repo) = repository();
        sandbox.dir(repo.join(name).parent().unwrap());
        sandbox.write(format!("repo/{name}"), content);
        if says.is_empty() {
            sandbox.write(format!("repo/{name}"), b"\xff\xfe");
        }
        let before = files(&repo);
        let error = sandbox.way(&repo, ["setup", agent, "--json"]).fails(2).error();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(name) && message.contains(says), "{message}");
        assert_eq!(files(&repo), before, "{name}: nothing was written");
    }
}

#[test]
fn links_are_followed_inside_the_repository_and_not_out_of_it() {
    let (sandbox, repo) = repository();
    sandbox.write("repo/AGENTS.md", "shared\n");
    std::os::unix::fs::symlink("AGENTS.md", repo.join("CLAUDE.md")).unwrap();
    assert_eq!(sandbox.way(&repo, ["setup", "claude-code"]).code, 0);
    assert!(repo.join("CLAUDE.md").is_symlink());
    assert!(std::fs::read_to_string(repo.join("AGENTS.md")).unwrap().contains("waypost:begin"));
    let _ = sandbox.way(&repo, ["setup", "generic", "--check"]).ok();

    sandbox.write("outside.md", "not ours\n");
    std::fs::remove_file(repo.join("AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("../outside.md", repo.join("AGENTS.md")).unwrap();
    assert_eq!(sandbox.way(&repo, ["setup", "generic", "--json"]).fails(7).error()["code"], "refused");
    std::fs::remove_file(repo.join("AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", repo.join("AGENTS.md")).unwrap();
    let _ = sandbox.way(&repo, ["setup", "generic"]).fails(7);
    sandbox.dir("elsewhere");
    std::os::unix::fs::symlink("../elsewhere", repo.join(".cursor")).unwrap();
    let _ = sandbox.way(&repo, ["setup", "cursor"]).fails(7);
    assert_eq!(std::fs::read_to_string(sandbox.path("outside.md")).unwrap(), "not ours\n");
    // Nor into version control.
    let config = std::fs::read(repo.join(".git/config")).unwrap();
    for (link, target, agent) in [
        ("AGENTS.md", ".git/config", "generic"),
        ("AGENTS.md", ".git/hooks/new", "generic"),
        (".cursor", ".git", "cursor"),
    ] {
        let link = repo.join(link);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).unwrap();
        let run = sandbox.way(&repo, ["setup", agent]).fails(7);
        assert!(run.stderr.contains("a directory of version control"), "{run:#?}");
    }
    assert_eq!(std::fs::read(repo.join(".git/config")).unwrap(), config);
    assert!(!repo.join(".git/hooks/new").exists() && !repo.join(".git/mcp.json").exists());
    assert_eq!(std::fs::read_dir(sandbox.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn print_shows_the_files_without_writing_them() {
    let (sandbox, repo) = repository();
    let before = files(&repo);
    let printed = sandbox.way(&repo, ["setup", "codex", "--print"]).ok().stdout;
    for wanted in
        ["AGENTS.md (instructions):", "[mcp_servers.waypost]", ".codex/hooks.json (hooks):", "writable_roots = ["]
    {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
    let parts = sandbox.way(&repo, ["setup", "codex", "--print", "--json"]).data()["parts"].clone();
    assert_eq!(files(&repo), before);
    assert_eq!(sandbox.way(&repo, ["setup", "codex"]).code, 0);
    for part in parts.as_array().unwrap().iter().filter(|part| part["what"] != "sandbox") {
        let written = std::fs::read_to_string(repo.join(part["path"].as_str().unwrap())).unwrap();
        assert_eq!(part["content"], written, "the printed content is what setup writes");
    }
    let error = sandbox.way(&repo, ["setup", "cluade-code"]);
    assert!(error.stderr.contains("did you mean claude-code?"), "{error:#?}");
}

#[test]
fn setup_writes_into_the_current_worktree() {
    let (sandbox, repo) = repository();
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let worktree = json_path(&sandbox.way(&repo, ["worktree", "list", "--json"]).data(), "topic");
    let inner = worktree.join("src/deep");
    std::fs::create_dir_all(&inner).unwrap();
    assert_eq!(sandbox.way(&inner, ["setup", "generic"]).code, 0);
    assert!(worktree.join("AGENTS.md").exists() && !repo.join("AGENTS.md").exists());
    let outside = sandbox.dir("outside");
    let _ = sandbox.way(&outside, ["setup", "generic"]).fails(2);
}

fn json_path(worktrees: &Value, branch: &str) -> PathBuf {
    let found = worktrees.as_array().unwrap().iter().find(|one| one["branch"] == branch).unwrap();
    PathBuf::from(found["path"].as_str().unwrap())
}
