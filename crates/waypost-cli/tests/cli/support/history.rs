//! Ledgers with a history.

use std::path::Path;

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::support::ledger::LEDGER;

/// Writes the ledger.
pub(crate) fn ledger(sandbox: &Sandbox, repo: &Path, lines: &[&str]) {
    std::fs::create_dir_all(repo.join(".waypost")).unwrap();
    sandbox.write(repo.join(LEDGER), lines.iter().fold(String::new(), |file, line| file + line + "\n"));
}

pub(crate) fn commit(sandbox: &Sandbox, repo: &Path, message: &str) {
    sandbox.git(repo, ["add", "--all"]);
    sandbox.git(repo, ["commit", "-q", "-m", message]);
}

/// The history of an issue, as `subject: change; change`, newest first.
pub(crate) fn timeline(sandbox: &Sandbox, repo: &Path, id: &str) -> Vec<String> {
    let run = sandbox.way(repo, ["log", "--json", "--", id]).ok();
    let rows: Value = serde_json::from_str::<Value>(&run.stdout).unwrap()["data"].take();
    let text = sandbox.way(repo, ["log", "--", id]).stdout;
    let mut changes = text.split_inclusive('\n').collect::<Vec<_>>().into_iter().peekable();
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| {
            assert!(!changes.next().unwrap().starts_with("  "));
            let mut words = Vec::new();
            while let Some(change) = changes.next_if(|line| line.starts_with("  ")) {
                words.push(change.trim());
            }
            assert_eq!(row["changes"].as_array().unwrap().len(), words.len());
            format!("{}: {}", row["subject"].as_str().unwrap_or("-"), words.join("; "))
        })
        .collect()
}

/// Checks that a removed issue is still shown, and returns its title.
pub(crate) fn shown(sandbox: &Sandbox, repo: &Path, id: &str) -> String {
    let run = sandbox.way(repo, ["show", "--json", "--", id]).ok();
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains(" is not in the ledger any more; last in commit "), "{warning}");
    answer["data"]["title"].as_str().unwrap().to_owned()
}
