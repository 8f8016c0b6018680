//! `way checkpoint`: notes from which another agent continues.

use crate::support::resume::team;

#[test]
fn a_list_says_how_many_checkpoints_are_earlier() {
    let team = team();
    let _ = team.data("workflow create w --plan plan.txt --start");
    let _ = team.data("task claim build --agent ann");
    for number in 1..=6 {
        let _ = team.data(&format!("task checkpoint build --agent ann --summary 'number {number}'"));
    }
    let list = team.way("checkpoint list build --limit 2 --before 5 --json");
    assert!(list.stdout.contains("2 of 6 checkpoints are earlier; to list them: --before 3"), "{}", list.stdout);
    let list = list.data();
    assert_eq!((&list[0]["sequence"], &list[1]["sequence"]), (&4.into(), &3.into()));
    assert_eq!(team.data("checkpoint list build --limit 0").as_array().unwrap().len(), 6);
}
