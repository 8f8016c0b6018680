//! The context of a task, within its token budget.

use serde_json::json;

use crate::support::work::Team;

/// Gives a task many checkpoints, with one statement: making them one by one would take minutes.
fn many_checkpoints(team: &Team, task: &str, count: u32) {
    let _ = team.data(&format!("task checkpoint {task} --agent ann --summary 'number 1' --detail '{{\"at\": 1}}'"));
    let db = rusqlite::Connection::open(team.repo.join(".git/waypost/state.db")).unwrap();
    db.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO checkpoints SELECT printf('cp_%012d', i), task_id, i, kind,
             printf('number %d %s', i, substr('äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü', 1, i % 36)), detail, files, tokens, cost,
             agent_id, epoch, worktree_id, created_at FROM checkpoints, n WHERE sequence = 1",
    ))
    .unwrap();
}

#[test]
fn a_context_of_5000_checkpoints_keeps_within_every_budget() {
    let team = Team::with("a: one\n");
    let _ = team.data("task claim --agent ann");
    many_checkpoints(&team, "a", 5_000);
    for budget in [500, 2_000, 8_000] {
        let context = team.data(&format!("context a --budget {budget}"));
        let text = context["text"].as_str().unwrap();
        assert!(text.len() <= budget * 4, "{} bytes for {budget} tokens", text.len());
        assert_eq!(context["tokens"].as_u64().unwrap(), text.len().div_ceil(4) as u64);
        assert_eq!(context["budget"], budget);
        assert!(text.len() > budget * 3, "the budget is used: {} bytes for {budget} tokens", text.len());
        assert!(text.contains("\n5000. [progress] | number 5000 "), "the latest is there: {text}");
        // The checkpoints shown and those left out add up to all of them.
        let shown = text.lines().filter(|line| line.contains(". [progress] | number ")).count();
        let left_out = context["left_out"][0].as_str().unwrap();
        let left_out: usize = left_out.strip_suffix(" checkpoints").unwrap().parse().unwrap();
        assert_eq!(shown + left_out, 5_000, "{budget}");
        assert!(text.ends_with(&format!("Left out: {left_out} checkpoints\n")), "{text}");
        assert_eq!(team.way(&format!("task context a --budget {budget}")).ok().stdout, text, "text output is the same");
    }
    let claimed = team.data("task claim a --agent ann --budget 500");
    assert!(claimed["context"]["tokens"].as_u64().unwrap() <= 500);
    assert_eq!(team.refused(2, "context a --budget 10")["code"], "invalid");

    let list = team.way("checkpoint list a --limit 2 --before 4000 --json");
    assert!(
        list.stdout.contains("3997 of 5000 checkpoints are earlier; to list them: --before 3998"),
        "{}",
        list.stdout
    );
    let list = list.data();
    assert_eq!((&list[0]["sequence"], &list[1]["sequence"]), (&json!(3999), &json!(3998)));
    assert_eq!(team.data("checkpoint list a --limit 0").as_array().unwrap().len(), 5_000);
}

#[test]
fn a_context_contains_earlier_outcomes_and_the_rest_of_the_plan() {
    let team = Team::with(
        "# The whole\na: first\nb: second\n  needs: a\n  context_from: c\nc: third\nd: fourth\n  needs: b\n",
    );
    for task in ["a", "c"] {
        let _ = team.data(&format!("task claim {task} --agent ann"));
        let _ = team.data(&format!("task done {task} --agent ann --outcome 'result of {task}'"));
    }
    let text = team.way("context b").ok().stdout;
    for wanted in ["second", "The whole", "a | result of a", "c | result of c", "d [pending]", "2 of 4 tasks done"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}
