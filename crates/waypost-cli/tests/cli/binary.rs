//! Every command once through the program itself. The other tests run most commands in their own process.

use std::collections::BTreeSet;
use std::process::Command;

use waypost_testkit::{Run, Sandbox};

use crate::support::ledger::LEDGER;
use crate::support::work::words;

/// A call of each command in one repository, in this order, with its exit code.
const CALLS: &[(&str, i32)] = &[
    ("add 'Another issue'", 0),
    ("list", 0),
    ("ready", 0),
    ("show r-1", 0),
    ("search issue", 0),
    ("claim r-1", 0),
    ("update r-1 --priority 1", 0),
    ("edit r-1", 2),
    ("comment r-1 said", 0),
    ("label add r-1 new", 0),
    ("assign r-1 bob", 0),
    ("dep tree r-1", 0),
    ("release r-1 --force", 0),
    ("close r-1", 0),
    ("reopen r-1", 0),
    ("delete r-2", 0),
    ("blocked", 0),
    ("stale", 0),
    ("stats", 0),
    ("log r-1", 0),
    ("batch -", 6),
    ("import -", 2),
    ("export", 0),
    ("prune", 6),
    ("restore", 6),
    ("init", 0),
    ("sync", 0),
    ("resolve", 6),
    ("repo list", 0),
    ("propose r-1", 4),
    ("withdraw r-1", 4),
    ("accept r-1", 4),
    ("reject r-1 --reason no", 4),
    ("migrate --move-to elsewhere --filter status=open", 3),
    ("workflow create w", 0),
    ("task list", 0),
    ("graph w", 0),
    ("context none", 3),
    ("checkpoint list none", 3),
    ("template list", 0),
    ("status", 0),
    ("events", 0),
    ("top", 2),
    ("prime", 0),
    ("agent list", 0),
    ("msg inbox", 0),
    ("ws list", 0),
    ("worktree list", 0),
    ("worker --until-empty -- true", 0),
    ("machine list", 0),
    ("job list", 0),
    ("serve --port none", 2),
    ("token list", 0),
    ("mcp", 0),
    ("hook start --for claude-code", 0),
    ("setup --print claude-code", 0),
    ("config list", 0),
    ("where", 0),
    ("db info", 0),
    ("doctor", 0),
    ("demo --none", 2),
    ("completions bash", 0),
    ("help plan", 0),
    ("merge-driver none none none", 8),
];

#[test]
fn every_command_runs_in_a_process() {
    let called: BTreeSet<&str> = CALLS.iter().filter_map(|(line, _)| line.split(' ').next()).collect();
    let all = waypost_cli::command();
    let all: BTreeSet<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
    assert_eq!(called, all);

    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_way"));
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    sandbox.write(repo.join(LEDGER), "{\"id\":\"r-1\",\"title\":\"One\"}\n{\"id\":\"r-2\",\"title\":\"Two\"}\n");
    let wrong: Vec<(&str, Run)> = CALLS
        .iter()
        .map(|(line, code)| (*line, *code, run(sandbox.way_command(&repo).args(words(line)))))
        .filter(|(_, code, run)| run.code != *code)
        .map(|(line, _, run)| (line, run))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn run(command: &mut Command) -> Run {
    Run::of(&command.env("WAYPOST_AGENT", "ann").output().unwrap())
}
