//! `way batch`: many changes in one write.

use crate::support::issues::{SAMPLE_LEDGER, fed, many};
use crate::support::ledger::{LEDGER, ids};
use crate::support::sandbox;

#[test]
fn a_batch_is_one_write_of_words_or_json() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let plan = r#"
# A plan.
add "Lay the base" -p 1 --as base
add 'Build on it' --blocked-by $base --as next --label core
{"op":"add","title":"Paint it","type":"chore","parent":"$next","labels":["paint"],"as":"paint"}
comment $next "it's \"hard\""
dep add $paint $base --type related
claim
"#;
    let answer = fed(&sandbox, &repo, &["batch", "-", "--json", "--actor", "ann"], plan).data();
    let changes = answer["changes"].as_array().unwrap();
    let verbs: Vec<&str> = changes.iter().map(|change| change["op"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["add", "add", "add", "comment", "depend", "claim"]);
    let id = |number: usize| changes[number]["id"].as_str().unwrap();
    assert_eq!(id(5), id(0), "the claim took what was added before");
    let next = sandbox.way(&repo, ["show", id(1), "--json"]).data();
    assert_eq!(next["comments"][0]["text"], "it's \"hard\"");
    assert_eq!(next["dependencies"][0]["depends_on_id"], id(0));
    assert_eq!(sandbox.way(&repo, ["show", id(2), "--json"]).data()["parent_id"], id(1));

    let list = serde_json::json!([
        { "op": "close", "id": id(0), "reason": "done" },
        { "op": "update", "id": id(1), "priority": "P0", "add_labels": ["hot"] },
    ]);
    let answer = fed(&sandbox, &repo, &["batch", "-"], &list.to_string()).ok();
    assert_eq!(answer.stdout.lines().count(), 2);
    assert_eq!(ids(&sandbox, &repo, &["ready"])[0], id(1));
}

#[test]
fn a_batch_with_one_wrong_line_writes_nothing_and_names_the_line() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    for (plan, expected) in [
        ("close r-1\nclose nothing\n", "line 2: there is no issue \"nothing\""),
        ("add x\nad y\n", "line 2: \"ad\" is not a command that changes issues"),
        ("add x\n\nadd 'y\n", "line 3: a quote is not closed"),
        ("add x --prio 1\n", "line 1: unexpected argument '--prio' found"),
        ("add x --blocked-by $y\n", "line 1: no earlier change added an issue as \"y\""),
        ("{\"op\":\"close\"}\n", "line 1: the field \"id\" is missing"),
        ("add x\n{\"op\":\"clsoe\",\"id\":\"r-1\"}\n", "line 2: unknown change \"clsoe\"\nhint: did you mean close?"),
        (r#"[{"op":"close","id":"r-1","rason":"x"}]"#, "change 1: close has no field \"rason\""),
        ("[{\"op\":\"close\"", "the file is not a valid JSON list of changes"),
        ("label list\n", "line 1: the command changes nothing"),
        ("close --help\n", "line 1: unexpected argument '--help' found"),
    ] {
        let run = fed(&sandbox, &repo, &["batch", "-"], plan);
        assert!(run.code != 0 && run.stderr.contains(expected), "{plan}: {run:?}");
        assert_eq!(std::fs::read_to_string(repo.join(LEDGER)).unwrap(), SAMPLE_LEDGER, "{plan}");
    }
    let run = fed(&sandbox, &repo, &["batch", "-", "--dry-run"], "close r-1\nadd new\n");
    assert!(run.code == 0 && run.stderr.contains("nothing was written"), "{run:?}");
    assert_eq!(std::fs::read_to_string(repo.join(LEDGER)).unwrap(), SAMPLE_LEDGER);
    assert_eq!(ids(&sandbox, &repo, &["list"]), ["r-1", "r-2", "r-3", "r-5"]);
    let _ = fed(&sandbox, &repo, &["batch", "-"], "# nothing\n").fails(6);
}
