//! `way help`, help texts, and words that are not commands.

use crate::support::ledger::{add, ids};
use crate::support::sandbox;

/// Splits an example into words as a shell would, up to its explanation, which two spaces separate.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            (None, ' ') if chars.peek() == Some(&' ') => break,
            (None, '|' | '>' | '<' | '#' | '&') => break,
            (None, ' ') => words.push(String::new()),
            (_, char) => words.last_mut().unwrap().push(char),
        }
    }
    words.retain(|word| !word.is_empty() || line.contains("''"));
    words
}

#[test]
fn every_command_has_an_example_and_every_example_is_a_valid_command_line() {
    let way = waypost_cli::command();
    for command in way.get_subcommands().filter(|command| !command.is_hide_set()) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> = help.lines().map(str::trim).filter(|line| line.starts_with("way ")).collect();
        assert!(!examples.is_empty(), "way {} has no example", command.get_name());
        for example in examples {
            let parsed = waypost_cli::command().try_get_matches_from(shell_words(example));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
    }
}

#[test]
fn the_help_lists_every_command_once_in_groups_and_fits_a_terminal_of_80_columns() {
    let sandbox = sandbox();
    let dir = sandbox.dir("dir");
    let help = sandbox.way(&dir, ["-h"]).ok().stdout;
    let groups =
        ["Most used:", "Issues:", "Work:", "Agents and messages:", "Workspaces and jobs:", "Repositories and sync:"];
    for group in groups.iter().chain(&["Server and set-up:", "Global options:"]) {
        assert!(help.lines().any(|line| line == *group), "{group}\n{help}");
    }
    for command in waypost_cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let lines = help.lines().filter(|line| line.starts_with("  ") && line.split_whitespace().next() == Some(name));
        assert_eq!(lines.count(), 1, "{name}\n{help}");
    }
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(!help.contains('{'), "a brace is not a text, but a part of a template\n{help}");
    assert!(!help.contains("--scope"), "-h shows the options that are often needed\n{help}");
    assert!(sandbox.way(&dir, ["--help"]).ok().stdout.contains("--scope"));
    assert_eq!(sandbox.way(&dir, ["help"]).ok().stdout, sandbox.way(&dir, ["--help"]).ok().stdout);
}

#[test]
fn help_is_found_before_and_after_the_command() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let help = sandbox.way(&repo, ["job", "start", "--help"]).ok().stdout;
    assert_eq!(sandbox.way(&repo, ["help", "job", "start"]).ok().stdout, help);
    assert_eq!(sandbox.way(&repo, ["job", "start", "help"]).ok().stdout, help);
    let help = sandbox.way(&repo, ["add", "--help"]).ok().stdout;
    assert_eq!(sandbox.way(&repo, ["add", "help"]).ok().stdout, help);
    assert_eq!(sandbox.way(&repo, ["help", "create"]).ok().stdout, help, "an alias is a name, too");
    assert!(ids(&sandbox, &repo, &["list"]).is_empty(), "no issue was added");
    for (topic, word) in
        [("plan", "depends_on"), ("batch", "--as"), ("filters", "--any-label"), ("exit-codes", "lease lost")]
    {
        let text = sandbox.way(&repo, ["help", topic]).ok().stdout;
        assert!(text.contains(word) && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    let run = sandbox.way(&repo, ["help", "wombat"]).fails(3);
    assert!(run.stderr.contains("topics: plan, batch, filters, exit-codes"), "{}", run.stderr);
}

#[test]
fn words_that_people_try_are_understood() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = sandbox.way(&repo, ["create", "One", "--priority", "high", "--due", "friday", "--json"]).data();
    assert_eq!(id["priority"], 1);
    assert!(id["due_at"].as_str().is_some_and(|due| due.ends_with("T00:00:00.000Z")), "{id}");
    let id = id["id"].as_str().unwrap().to_owned();
    for line in ["issue list", "issues", "ls", "issue ls", "todo"] {
        let words = line.split(' ').collect::<Vec<_>>();
        assert_eq!(ids(&sandbox, &repo, &words), std::slice::from_ref(&id), "{line}");
    }
    let _ = sandbox.way(&repo, ["issue", "close", &id]).ok();
    let two = add(&sandbox, &repo, &["Two"]);
    let _ = sandbox.way(&repo, ["rm", &two, "--reason", "mistake"]).ok();
    for line in ["tasks", "workflows", "jobs", "agents", "workspaces", "worktrees", "templates"] {
        let run = sandbox.way(&repo, [line, "--json"]);
        assert!(run.code == 0 && run.stdout.starts_with("{\"schema\":\"waypost/1\",\"data\":"), "{line}: {run:?}");
    }
}

#[test]
fn words_with_several_meanings_name_them() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for (word, hint) in [
        ("start", "to start a workflow: way workflow start WORKFLOW"),
        ("done", "to finish a task: way task done TASK --outcome TEXT"),
        ("complete", "to close an issue: way close ISSUE --reason TEXT"),
        ("run", "to run a command in a workspace: way job start -- COMMAND"),
        ("next", "to list ready issues: way ready"),
    ] {
        let run = sandbox.way(&repo, [word, "x"]).fails(2);
        assert!(run.stderr.contains(&format!("there is no command way {word}")), "{}", run.stderr);
        assert!(run.stderr.contains(hint), "{}", run.stderr);
        let error = sandbox.way(&repo, [word, "x", "--json"]).error();
        assert_eq!(error["code"], "invalid", "{error}");
    }
    let run = sandbox.way(&repo, ["statsu"]).fails(2);
    assert!(run.stderr.contains("stats"), "{}", run.stderr);
}

#[test]
fn a_plan_with_arrows_or_as_a_checklist_is_read_and_a_wrong_line_is_named() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join("arrows.txt"), "design: Draw it\nbuild <- design\n");
    let workflow = sandbox.way(&repo, ["workflow", "create", "one", "--plan", "arrows.txt", "--json"]).data();
    assert_eq!(workflow["tasks"].as_array().map(Vec::len).or(Some(2)), Some(2));
    let tasks = sandbox.way(&repo, ["task", "list", "--workflow", "one", "--json"]).data();
    let names: Vec<&str> = tasks.as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["design", "build"]);
    sandbox.write(repo.join("list.md"), "- [ ] Draw it\n- [x] Think\n- [ ] Build it\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "two", "--plan", "list.md", "--start"]).ok();
    let tasks = sandbox.way(&repo, ["task", "list", "--workflow", "two", "--json"]).data();
    let names: Vec<&str> = tasks.as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["draw-it", "build-it"]);
    sandbox.write(repo.join("wrong.txt"), "design\ndesign -> build\n");
    let run = sandbox.way(&repo, ["workflow", "create", "three", "--plan", "wrong.txt"]).fails(2);
    assert!(run.stderr.contains("line 2 of the plan"), "{}", run.stderr);
    assert!(run.stderr.contains("`test <- build: Run the tests`"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["workflow", "create", "a -> b"]).fails(2);
}

#[test]
fn the_manual_has_a_page_for_every_command_that_groff_and_mandoc_accept() {
    let sandbox = sandbox();
    let dir = sandbox.path("man/man1");
    let run = sandbox.way(&sandbox.path(""), ["help", "--man", dir.to_str().unwrap()]).ok();
    let pages: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(run.stdout, format!("Wrote {} manual pages to {}\n", pages.len(), dir.display()));
    for command in waypost_cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(dir.join(format!("way-{}.1", command.get_name())).is_file(), "{}", command.get_name());
    }
    for page in ["way.1", "way-job-start.1", "way-plan.7"] {
        assert!(dir.join(page).is_file(), "{page}");
    }
    let groff = sandbox.command("groff", &dir).args(["-man", "-ww", "-z", "-Tutf8"]).args(&pages).output().unwrap();
    assert_eq!((String::from_utf8_lossy(&groff.stderr), groff.status.code()), ("".into(), Some(0)));
    // Warnings about style, such as a missing date, are not errors.
    let lint = sandbox.command("mandoc", &dir).args(["-T", "lint", "-W", "warning"]).args(&pages).output();
    let lint = lint.expect("mandoc; cargo xtask test installs it");
    let found = String::from_utf8_lossy(&lint.stdout).into_owned();
    let serious: Vec<&str> = found.lines().filter(|line| !line.contains("missing date")).collect();
    assert!(serious.is_empty(), "{serious:#?}");
    let shown = sandbox.command("mandoc", &dir).args(["-T", "utf8", "way-claim.1"]).output().unwrap();
    let mut text = String::new();
    for char in String::from_utf8_lossy(&shown.stdout).chars() {
        // Bold letters are printed twice, with a backspace between.
        if char == '\u{8}' {
            text.pop();
        } else {
            text.push(char);
        }
    }
    for fact in ["way claim [OPTIONS]", "--ttl", "EXAMPLES", "way-exit-codes"] {
        assert!(text.contains(fact), "{fact} is not in {text}");
    }
}
