//! `way batch`: many changes in one write.

use crate::support::issues::{SAMPLE_LEDGER, fed, many};
use crate::support::ledger::{LEDGER, add, ids};
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
        ("add x --as a\nadd y --as a\n", "line 2: two changes add an issue as \"a\""),
        ("{\"op\":\"close\"}\n", "line 1: the field \"id\" is missing"),
        ("add x\n{\"op\":\"clsoe\",\"id\":\"r-1\"}\n", "line 2: unknown change \"clsoe\"\nhint: did you mean close?"),
        (r#"[{"op":"close","id":"r-1","rason":"x"}]"#, "change 1: close has no field \"rason\""),
        (
            r#"[{"op":"close","id":"r-1"},{"op":"claim","id":"r-4"}]"#,
            "change 2: issue r-4 is closed and cannot be claimed",
        ),
        ("[{\"op\":\"close\"", "the file is not a valid JSON list of changes"),
        ("dep add r-1 r-2\ndep add r-2 r-1\n", "line 2: they would wait for each other: r-2 → r-1 → r-2"),
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

#[test]
fn a_batch_over_two_ledgers_is_checked_before_anything_is_written() {
    let sandbox = sandbox();
    let (one, two) = (sandbox.git_repo("one"), sandbox.git_repo("two"));
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    let [a1, a2] = ["A1", "A2"].map(|title| add(&sandbox, &one, &[title]));
    let b1 = add(&sandbox, &one, &["B1", "--repo", "../two"]);
    let ledgers = || [&one, &two].map(|repo| std::fs::read_to_string(repo.join(LEDGER)).unwrap());
    let before = ledgers();
    let batch = |text: String, code: i32| {
        sandbox.write(one.join(".git/batch"), text);
        let run = sandbox.way(&one, ["batch", ".git/batch"]);
        assert_eq!(run.code, code, "{run:?}");
    };
    batch(format!("dep add {a1} {a2}\nupdate {b1} --notes hi\ndep add {a2} {a1}\n"), 4);
    let named = r#"{"op":"add","title":"new","as":"n"}"#;
    batch(format!("{named}\n{{\"op\":\"update\",\"id\":\"{b1}\",\"status\":\"bogus\"}}\n"), 2);
    assert_eq!(ledgers(), before);
    batch(format!("dep add {a1} {a2}\n"), 0);
    batch(format!("close {a2}\nupdate {b1} --notes hi\nclaim {a1}\n"), 0);
    let [first, second] = ledgers();
    assert!(first.contains("in_progress") && second.contains("hi"), "{first}{second}");
}
