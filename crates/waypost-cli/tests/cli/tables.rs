//! Lists in pipes, on narrow and on wide terminals.

use std::path::Path;

use waypost_testkit::{Run, Sandbox, until};

use crate::support::sandbox;

const LONG_TITLE: &str =
    "Renew the session before it times out, so that a long form is never lost when it is sent at last";

/// Runs a command on a terminal with a number of columns.
fn on_terminal(sandbox: &Sandbox, dir: &Path, columns: u32, args: &str) -> String {
    let typed = format!("stty cols {columns}; {} {args}", env!("CARGO_BIN_EXE_way"));
    let output = sandbox.command("script", dir).args(["-qec", &typed, "/dev/null"]).output().unwrap();
    Run::of(&output).stdout.replace('\r', "")
}

/// A repository with two issues, one with a long title, a workflow and an agent.
fn prepared() -> (Sandbox, std::path::PathBuf, String) {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["add", "Short", "--label", "ui"]).ok();
    let id = sandbox.way(&repo, ["add", LONG_TITLE, "--json"]).data()["id"].as_str().unwrap().to_owned();
    sandbox
        .write(repo.join("plan.md"), "# Ship it\nbuild: Compile everything\ntest: Run the tests\n    needs: build\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "release", "--plan", "plan.md", "--start"]).ok();
    let _ = sandbox.way(&repo, ["agent", "register", "builder"]).ok();
    (sandbox, repo, id)
}

#[test]
fn every_list_has_a_header_and_no_line_ends_in_spaces() {
    let (sandbox, repo, _) = prepared();
    for (command, first) in [
        ("list", "ID"),
        ("ready", "ID"),
        ("search session", "ID"),
        ("ready --explain", "ID"),
        ("stats", "BY"),
        ("label list", "LABEL"),
        ("events", "NUMBER"),
        ("workflow list", "ID"),
        ("workflow repos release", "ID"),
        ("task list", "ID"),
        ("agent list", "NAME"),
        ("repo list", "NAME"),
        ("worktree list", "NAME"),
        ("config list --all", "KEY"),
        ("config list --show-origin --all", "KEY"),
        ("doctor", "STATE"),
        ("setup", "AGENT"),
    ] {
        let run = sandbox.way(&repo, command.split(' '));
        let header = run.stdout.lines().next().unwrap_or_default();
        assert_eq!(header.split_whitespace().next(), Some(first), "{command}: {run:#?}");
        assert!(header.chars().all(|char| !char.is_lowercase()), "{command}: {header}");
        assert!(run.stdout.lines().all(|line| line.trim_end() == line), "{command}: {run:#?}");
    }
}

#[test]
fn titles_are_shortened_on_a_narrow_terminal_only_and_ids_never() {
    let (sandbox, repo, id) = prepared();
    let piped = sandbox.way(&repo, ["list"]).ok().stdout;
    assert!(piped.contains(LONG_TITLE) && !piped.contains('\u{1b}'), "{piped}");
    let wide = on_terminal(&sandbox, &repo, 160, "list --color never");
    assert_eq!(wide, piped, "a wide terminal shows all of it");
    let narrow = on_terminal(&sandbox, &repo, 60, "list --color never");
    let line = narrow.lines().find(|line| line.starts_with(&id)).unwrap();
    assert!(line.ends_with('…') && line.contains("Renew"), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(on_terminal(&sandbox, &repo, 20, "list --color never").contains(&id), "ids stay whole");
    assert!(on_terminal(&sandbox, &repo, 160, "list").contains("\u{1b}["), "a terminal has colours");
}

#[test]
fn a_list_can_be_piped_into_a_command_that_takes_ids() {
    let (sandbox, repo, _) = prepared();
    sandbox.write(sandbox.path("listed"), sandbox.way(&repo, ["list"]).ok().stdout);
    let mut close = sandbox.way_command(&repo);
    close.args(["close", "-"]).stdin(std::fs::File::open(sandbox.path("listed")).unwrap());
    let run = Run::of(&close.output().unwrap()).ok();
    assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);
}

#[test]
fn an_empty_list_says_what_to_do_next_and_json_does_not() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for (command, next) in [
        ("list", "way add"),
        ("label list", "way label add"),
        ("blocked", "way add"),
        ("workflow list", "way workflow create"),
        ("task list", "way workflow create"),
        ("job list", "way job start"),
        ("ws list", "way job start"),
        ("ws snapshots", "way ws snapshot"),
        ("agent list", "way agent register"),
        ("template list", "way template save"),
        ("machine list", "way job start"),
        ("msg inbox", "way msg inbox --wait"),
        ("config list", "way config list --all"),
    ] {
        let run = sandbox.way(&repo, command.split(' '));
        assert_eq!(run.stdout, "", "{command}");
        assert!(run.stderr.starts_with("note: ") && run.stderr.contains(next), "{command}: {run:#?}");
        let run = sandbox.way(&repo, command.split(' ').chain(["--json"]));
        assert_eq!(run.stderr, "", "{command}");
    }
}

#[test]
fn work_of_more_than_a_second_is_announced_on_a_terminal_and_the_line_is_removed() {
    let (sandbox, repo, _) = prepared();
    let (go, shown) = (sandbox.path("go"), sandbox.path("shown"));
    let wait = format!("workspaces.setup=until [ -e {} ]; do sleep 0.05; done", go.display());
    let typed = format!("{} --config '{wait}' ws new --strategy worktree", env!("CARGO_BIN_EXE_way"));
    let mut terminal = sandbox.command("script", &repo);
    terminal.args(["-qefc", &typed]).arg(&shown).stdout(std::process::Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    let text = || String::from_utf8_lossy(&std::fs::read(&shown).unwrap_or_default()).into_owned();
    until("the line is there", || text().contains("Creating the workspace (1s)"));
    sandbox.write(&go, "");
    assert!(terminal.wait().unwrap().success());
    let text = text();
    let (_, after) = text.rsplit_once("Creating the workspace (").unwrap();
    assert!(after.contains("\r\u{1b}[K") && after.contains("Created workspace"), "{text:?}");
    // In a pipe there is no line, and no control character.
    let _ = std::fs::remove_file(&go);
    let mut piped = sandbox.way_command(&repo);
    piped.args(["--config", &wait, "ws", "new", "--strategy", "worktree"]);
    let piped = piped.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    until("its set-up runs", || sandbox.way(&repo, ["ws", "list", "--json"]).data().as_array().unwrap().len() == 2);
    sandbox.write(&go, "");
    let run = Run::of(&piped.wait_with_output().unwrap());
    assert!(run.code == 0 && !run.stderr.contains("Creating") && !run.stderr.contains('\u{1b}'), "{run:#?}");
}
