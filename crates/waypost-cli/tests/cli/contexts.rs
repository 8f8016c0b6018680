//! The context of a task, within its token budget.

use serde_json::json;

use crate::work::Team;

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
        assert!(text.contains("\n5000. [progress] number 5000 "), "the latest is there: {text}");
        // The checkpoints shown and those left out add up to all of them.
        let shown = text.lines().filter(|line| line.contains(". [progress] number ")).count();
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
fn prime_stays_under_800_tokens_in_a_busy_store() {
    let plan: String = (0..300).fold(String::new(), |plan, number| {
        plan + &format!("task-{number}-{}: {}\n", "n".repeat(100), "words ".repeat(50))
    });
    let team = Team::with(&plan);
    for _ in 0..12 {
        let claimed = team.data("task claim --agent ann");
        let task = claimed["task"]["id"].as_str().unwrap();
        let _ = team.data(&format!("task checkpoint {task} --agent ann --summary '{}'", "half ".repeat(100)));
    }
    for _ in 0..5 {
        let claimed = team.data("task claim --agent bob");
        let task = claimed["task"]["id"].as_str().unwrap();
        let _ = team.data(&format!("task ask {task} --agent bob --question '{}'", "why ".repeat(100)));
    }
    let issues: Vec<String> = (0..5)
        .map(|number| {
            let added = team.data(&format!("add 'Issue {number} {}' -p {number}", "with a long title ".repeat(20)));
            added["id"].as_str().unwrap().to_owned()
        })
        .collect();
    // An issue that another agent holds is not offered.
    let _ = team.data(&format!("claim {} --agent bob", issues[1]));
    for agent in ["ann", "bob", "new"] {
        let prime = team.data(&format!("prime --agent {agent}"));
        assert!(prime["tokens"].as_u64().unwrap() <= 800, "{prime}");
        let text = prime["text"].as_str().unwrap();
        for wanted in [
            &format!("You are {agent}."),
            "way task claim",
            "way task done",
            "Exit code 5",
            "Next tasks",
            "Ready issues",
        ] {
            assert!(text.contains(wanted), "{agent}, {wanted}: {text}");
        }
        let is_shown = |issue: usize| text.contains(&format!("{} Issue {issue} with", issues[issue]));
        assert_eq!([0, 1, 2, 3, 4].map(is_shown), [true, false, true, true, false], "{text}");
        assert!(text.contains("and more: way ready"), "{text}");
        assert_eq!(text.contains("You hold"), agent != "new", "{text}");
        assert_eq!(team.way(&format!("prime --agent {agent}")).ok().stdout, text);
    }
    assert!(team.data("prime --agent ann --budget 400")["tokens"].as_u64().unwrap() <= 400);
    // Reading registers no agent.
    assert!(!team.way("task assign 'task-50' new").stderr.is_empty());
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
    for wanted in ["second", "The whole", "a: result of a", "c: result of c", "d [pending]", "2 of 4 tasks done"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}
