//! `way prime`: the context of a session, within its token budget.

use crate::support::work::Team;

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
        let is_shown =
            |issue: usize| text.contains(&format!("{}, priority {issue} | Issue {issue} with", issues[issue]));
        assert_eq!([0, 1, 2, 3, 4].map(is_shown), [true, false, true, true, false], "{text}");
        assert!(text.contains("and more: way ready"), "{text}");
        assert_eq!(text.contains("You hold"), agent != "new", "{text}");
        assert_eq!(team.way(&format!("prime --agent {agent}")).ok().stdout, text);
    }
    assert!(team.data("prime --agent ann --budget 400")["tokens"].as_u64().unwrap() <= 400);
    // Reading registers no agent.
    assert!(!team.way("task assign 'task-50' new").stderr.is_empty());
}
