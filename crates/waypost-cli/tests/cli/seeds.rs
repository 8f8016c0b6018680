//! Walks through the documents that describe what Waypost unites, as their own users would take them. Each walk is a shell
//! script in `tests/seeds`, and reads like the document.

use std::fs;
use std::path::Path;

use crate::package;
use crate::support::sandbox;

/// Runs a script in an empty directory.
#[track_caller]
fn walk(script: &str) {
    let sandbox = sandbox();
    let (dir, seeds) = (sandbox.dir("walk"), package("tests/seeds"));
    let programs = Path::new(env!("CARGO_BIN_EXE_way")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = sandbox.command("bash", &dir);
    let output = command.arg(seeds.join(script)).env("PATH", path).env("SEEDS", &seeds).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{script} failed: {}\n{}\n--- stderr\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Begins a line of a walk with a command of its document, as the document spells it.
const DOCUMENTED: &str = "#> ";

/// Returns where a walk leaves its document without a reason, or goes on after a failure.
fn deviations(script: &str) -> Vec<String> {
    let mut problems = Vec::new();
    // A command before a pipe that fails must not look like one that prints nothing.
    if script.lines().find(|line| !line.starts_with('#')) != Some("set -eu -o pipefail") {
        problems.push("the first command is not: set -eu -o pipefail".to_owned());
    }
    let lines: Vec<&str> = script.lines().collect();
    for (line, next) in lines.iter().zip(lines.iter().skip(1).chain([&""])) {
        // Bash goes on after the first part of a list fails, except in parentheses.
        if line.contains(" && ") && !line.contains(['(', '\'']) && !line.starts_with('#') {
            problems.push(format!("a failure in this line is ignored: {line}"));
        }
        let Some(documented) = line.strip_prefix(DOCUMENTED) else { continue };
        let has_reason = next.strip_prefix("# ").is_some_and(|reason| reason.ends_with('.'));
        if !has_reason && !contains(next, documented) {
            problems.push(format!("without a reason, {documented} became: {next}"));
        }
    }
    problems
}

/// Returns whether a line of a walk has a command of the document. Ids are variables, and places are ours.
fn contains(line: &str, documented: &str) -> bool {
    let is_id = |word: &str| word.starts_with("bd-") || word.ends_with("-id>") || word == "<path>";
    let is_value = |word: &str| word.starts_with("\"$") || word.starts_with("~/");
    let ours = documented.replace(".beads/beads.jsonl", ".waypost/issues.jsonl").replace(".beads/ ", ".waypost/ ");
    let words: Vec<&str> = ours.split_whitespace().collect();
    let line = line.replace("$(", " ").replace("(way", "way");
    let actual: Vec<&str> = line.split_whitespace().map(|word| word.trim_start_matches('(')).collect();
    let is_same = |(actual, word): (&&str, &&str)| match *word {
        "bd" | "(bd" => *actual == "way",
        id if is_id(id) => is_value(actual),
        other => actual.trim_end_matches(')') == other.trim_start_matches('(').trim_end_matches(')'),
    };
    actual.windows(words.len()).any(|window| window.iter().zip(&words).all(is_same))
}

#[test]
fn each_walk_has_the_commands_of_its_document_or_says_why_not() {
    let mut documented = 0;
    for entry in fs::read_dir(package("tests/seeds")).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("lib.sh") {
            continue;
        }
        let script = fs::read_to_string(&path).unwrap();
        documented += script.lines().filter(|line| line.starts_with(DOCUMENTED)).count();
        assert_eq!(deviations(&script), [""; 0], "{}", path.display());
    }
    assert!(documented > 40, "only {documented} commands of the documents are walked");
}

#[test]
fn a_walk_that_leaves_its_document_without_a_reason_is_noticed() {
    let walk = |body: &str| deviations(&format!("# A walk.\nset -eu -o pipefail\n{body}\n"));
    for same in [
        "#> bd work bd-a3f8e9\nway work \"$dark\"",
        "#> bd add \"Task\"\ntask=$(way add \"Task\" | id)",
        "#> git init && bd init\n(git init && way init)",
        "#> bd sync\n# It syncs by itself.\ntrue",
    ] {
        assert_eq!(walk(same), [""; 0]);
    }
    for other in [
        "#> bd work bd-a3f8e9\nway update \"$dark\" --status in_progress",
        "#> bd propose bd-a3f8e9 --target upstream\nway propose \"$dark\"",
        "#> bd sync\n",
        "git init && way init",
    ] {
        assert_eq!(walk(other).len(), 1, "{other}");
    }
    assert_eq!(deviations("# A walk.\nway list | omits x\n").len(), 1);
}

#[test]
fn a_workflow_database_per_repository() {
    walk("1-workflow-database.sh");
}

#[test]
fn one_view_of_all_worktrees() {
    walk("2-worktrees.sh");
}

#[test]
fn a_workspace_for_every_job() {
    walk("3-workspaces.sh");
}

#[test]
fn a_ledger_over_many_repositories() {
    walk("4-ledger.sh");
}

#[test]
fn workflows_agents_messages_and_templates() {
    walk("5-data-model.sh");
}
