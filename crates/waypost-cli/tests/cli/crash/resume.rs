//! Agents that are killed, and others that continue their work.

use std::collections::BTreeMap;
use std::process::Stdio;

use waypost_testkit::Run;

use crate::support::resume::team;
use crate::support::work::Team;

/// The steps of each task, in this order.
const STEPS: [(&str, &[&str]); 2] = [("build", &["fetch", "compile", "link"]), ("publish", &["sign", "upload"])];

/// The commands of one agent that does everything, as they would be typed.
fn script(agent: &str) -> Vec<String> {
    let mut lines = vec!["workflow create w --plan plan.txt --start --key create-w".to_owned()];
    for (task, steps) in STEPS {
        lines.push(format!("task claim {task} --agent {agent}"));
        for step in steps {
            lines.push(format!("task checkpoint {task} --agent {agent} --summary {step} --key {task}-{step}"));
        }
        lines.push(format!("task done {task} --agent {agent} --outcome {task}-is-done"));
    }
    lines
}

/// Continues from any state, as an agent that knows only the store's content.
fn take_over(team: &Team, agent: &str) {
    let _ = team.data("workflow create w --plan plan.txt --start --key create-w");
    loop {
        let run = team.way(&format!("task claim --agent {agent} --json"));
        if run.code == 6 {
            break;
        }
        let claimed = run.data();
        let (name, epoch) = (claimed["task"]["name"].as_str().unwrap(), &claimed["lease"]["epoch"]);
        let done = team.data(&format!("checkpoint list {name}"));
        let done: Vec<&str> = done.as_array().unwrap().iter().map(|one| one["summary"].as_str().unwrap()).collect();
        let context = claimed["context"]["text"].as_str().unwrap();
        if let Some(last) = done.first() {
            assert!(context.contains(&format!("] | {last}\n")), "the last checkpoint is there: {context}");
        }
        let (_, steps) = STEPS.iter().find(|(task, _)| *task == name).unwrap();
        for step in steps.iter().filter(|step| !done.contains(step)) {
            // A key of its own: it is not the first agent's request.
            let _ = team.data(&format!("task checkpoint {name} --agent {agent} --epoch {epoch} --summary {step}"));
        }
        let _ = team.data(&format!("task done {name} --agent {agent} --epoch {epoch} --outcome {name}-is-done"));
    }
}

/// Checks that every step was done once, by any agent.
fn check(team: &Team, round: usize) {
    assert_eq!(team.data("workflow list --all").as_array().unwrap().len(), 1, "round {round}");
    assert_eq!(team.data("workflow show w")["status"], "completed", "round {round}");
    for (task, steps) in STEPS {
        let list = team.data(&format!("checkpoint list {task}"));
        let mut made: Vec<&str> = list.as_array().unwrap().iter().map(|one| one["summary"].as_str().unwrap()).collect();
        made.reverse();
        assert_eq!(made, steps, "round {round}: each once, and in order");
    }
    let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
    let db = rusqlite::Connection::open(team.repo.join(".git/waypost/state.db")).unwrap();
    let mut rows = db.prepare("SELECT kind, subject FROM events WHERE kind = 'task.completed'").unwrap();
    for row in rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap() {
        *counts.entry(row.unwrap()).or_default() += 1;
    }
    assert_eq!(counts.len(), 2, "round {round}");
    assert!(counts.values().all(|count| *count == 1), "round {round}: {counts:?}");
}

#[test]
fn a19_an_agent_killed_after_any_step_is_replaced_and_no_step_is_repeated() {
    let lines = script("first");
    for killed_after in 1..lines.len() {
        let team = team();
        for line in &lines[..killed_after] {
            let _ = team.data(line);
        }
        // The first agent never writes again.
        team.pass(3_600);
        take_over(&team, "second");
        check(&team, killed_after);
        // The first agent was only slow, and returns.
        for line in &lines[killed_after..] {
            let run = team.way(line);
            assert!(line.contains("create") || matches!(run.code, 4 | 5), "{line}: {run:#?}");
        }
        check(&team, killed_after);
    }
}

#[test]
fn c10_a_step_of_a_killed_agent_is_done_completely_or_not_at_all_and_the_agent_is_replaced() {
    let lines = script("first");
    for killed_within in 0..lines.len() {
        for is_late in [false, true] {
            let team = team();
            for line in &lines[..killed_within] {
                let _ = team.data(line);
            }
            let mut child =
                team.command(&lines[killed_within]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            if is_late {
                // Kill it between its start and its end, as soon as it has written something.
                let log = team.repo.join(".git/waypost/state.db-wal");
                let size = || std::fs::metadata(&log).map_or(0, |log| log.len());
                let before = size();
                while size() == before && child.try_wait().unwrap().is_none() {
                    std::thread::yield_now();
                }
            }
            child.kill().unwrap();
            let _ = Run::of(&child.wait_with_output().unwrap());
            team.pass(3_600);
            take_over(&team, "second");
            check(&team, killed_within);
        }
    }
}
