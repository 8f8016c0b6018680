//! `way checkpoint`: notes from which another agent continues.

use serde_json::{Value, json};

use crate::support::resume::team;

#[test]
fn c10_the_next_holder_sees_all_checkpoints_and_the_former_holder_cannot_write() {
    let team = team();
    let _ = team.data("workflow create w --plan plan.txt --start");
    let first = team.data("task claim build --agent first --ttl 1m");
    let line = "task checkpoint build --agent first --summary 'two of three files' --file a.c --detail";
    let _ = team.data(&format!("{line} '{{\"left\": [\"c.c\"]}}'"));
    team.pass(60);
    let second = team.data("task claim --agent second");
    assert_eq!(second["task"]["name"], "build");
    assert_eq!(second["task"]["attempts"], 1);
    let epoch = |claimed: &Value| claimed["lease"]["epoch"].as_u64().unwrap();
    assert!(epoch(&second) > epoch(&first));
    let context = second["context"]["text"].as_str().unwrap();
    for wanted in ["two of three files", "files: a.c", r#"{"left":["c.c"]}"#, "attempt 2", "the lease of first expired"]
    {
        assert!(context.contains(wanted), "{wanted}: {context}");
    }
    assert_eq!(team.refused(5, "task done build --agent first --epoch 1 --outcome x")["code"], "lease_lost");
    let _ = team.data("task done build --agent second --epoch 2 --outcome x");
    assert_eq!(team.data("task list --claimable")[0]["name"], json!("publish"));
}
