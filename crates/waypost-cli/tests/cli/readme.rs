//! The commands that the README shows work as they are written there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use waypost_testkit::Run;

use crate::support::sandbox;

const README: &str = include_str!("../../../../README.md");

/// Returns the commands of `way` that the README shows, without their comments.
fn commands() -> impl Iterator<Item = &'static str> {
    let lines = README.lines().filter_map(|line| line.strip_prefix("$ "));
    lines.filter(|line| line.starts_with("way ")).map(|line| line.split(" #").next().unwrap_or(line).trim_end())
}

#[test]
fn g24_every_command_of_the_readme_works_in_the_order_shown() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("login");
    let bin = sandbox.dir("bin");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_way"), bin.join("way")).unwrap();
    // What a user has: a build that passes, an agent that finishes its task, files to read.
    for (path, text) in [
        (bin.join("make"), "#!/bin/sh\ntest \"$1\" = test\n"),
        (repo.join("agent.sh"), "#!/bin/sh\nway task done \"$WAYPOST_TASK\" --outcome done\n"),
        (repo.join("changes.txt"), "add \"Write a test\"\nadd \"Update the manual\" -p 3\n"),
        (repo.join("plan.yaml"), "tasks:\n- name: build\n- name: check\n  depends_on: [build]\n"),
        (repo.join("issues.json"), r#"[{"number": 1, "title": "From GitHub", "state": "OPEN"}]"#),
    ] {
        sandbox.write(&path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.git(&repo, ["add", "--all"]);
    sandbox.git(&repo, ["commit", "--quiet", "--message", "files"]);
    let path = std::env::join_paths(
        std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let run = |line: &str| {
        let mut command = sandbox.command("sh", &repo);
        // Jobs use the real clock, so all commands do.
        Run::of(&command.args(["-c", line]).env("PATH", &path).env_remove("WAYPOST_TEST_CLOCK").output().unwrap())
    };
    let _ = run("way agent register bob").ok();
    let mut issue = String::new();
    let mut count = 0;
    for line in commands().filter(|line| !line.starts_with("way completions")) {
        // The id differs, and a worker would wait for more tasks.
        let line = line.replace("login-1a2b3c4d", &issue).replace("way worker ", "way worker --until-empty ");
        let done = run(&line);
        assert_eq!(done.code, 0, "{line}\n{}", done.whole());
        if line.starts_with("way add ") {
            let listed = run("way list --json").data();
            listed[0]["id"].as_str().unwrap().clone_into(&mut issue);
        }
        count += 1;
    }
    assert!(count >= 20, "{count} commands");
}
