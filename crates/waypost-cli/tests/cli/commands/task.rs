//! `way task`: tasks from claim to end.

use serde_json::json;
use waypost::system::SystemEntropy;
use waypost_core::engine;
use waypost_core::op::FinishTask;

use crate::support::work::Team;

#[test]
fn a_task_can_be_released_deferred_and_taken_from_another_agent() {
    let team = Team::with("a: one\nb: two\n");
    let _ = team.data("task claim a --agent ann");
    let _ = team.data("task release a --agent ann --epoch 1 --reason 'lunch'");
    assert_eq!(team.data("task show a")["attempts"], 0, "a release is not an attempt");
    let _ = team.data("task claim a --agent ann");
    let _ = team.data("task pause a --agent ann");
    assert_eq!(team.data("task claim --agent bob")["task"]["name"], "b", "a deferred task is not dispatched");
    assert_eq!(team.data("task claim a --agent bob")["lease"]["epoch"], 3, "but can be claimed by name");
    assert_eq!(team.refused(7, "task release a --force --agent ann")["code"], "refused");
    let _ = team.data("task release a --force --reason 'bob is away'");
    assert_eq!(team.refused(5, "task done a --agent bob --outcome x")["code"], "lease_lost");
}

#[test]
fn the_fields_of_a_task_are_updated_until_it_ends() {
    let team = Team::with("a: one\nb: two\n");
    let changed = team.data("task update b --description 'two, painted' --priority P0 --max-attempts 5 --timeout 1h");
    assert_eq!(
        [&changed["description"], &changed["priority"], &changed["max_attempts"], &changed["run_timeout_ms"]],
        [&json!("two, painted"), &json!(0), &json!(5), &json!(3_600_000)]
    );
    assert_eq!(team.data("task claim --agent ann")["task"]["name"], "b", "the most urgent one");
    let _ = team.data("task update b --timeout 0s --acceptance dry --acceptance red");
    let shown = team.data("task show b");
    assert_eq!((&shown["run_timeout_ms"], &shown["acceptance"]), (&json!(null), &json!(["dry", "red"])));
    assert_eq!(shown["description"], "two, painted", "other fields stay");
    let events = team.data("events --kind task.changed --limit 10");
    assert_eq!(events.as_array().unwrap().len(), 2, "{events}");

    let says = |code: i32, line: &str, wanted: &str| {
        let error = team.refused(code, line);
        assert!(error["message"].as_str().unwrap().contains(wanted), "{line}: {error}");
    };
    says(2, "task update b", "nothing to change");
    says(2, "task update b --acceptance dry --acceptance red", "nothing to change");
    let _ = team.data("task fail b --agent ann --error 'no paint'");
    says(2, "task update b --max-attempts 1", "task b has failed 1 times already");
    let _ = team.data("task skip a");
    says(4, "task update a --priority 1", "task a is skipped");
}

#[test]
fn a_list_counts_a_thousand_tasks_that_follow_and_lists_all_on_demand() {
    let team = Team::new();
    let plan = |number: usize| (0..number).map(|task| format!("t{task}: work")).collect::<Vec<_>>().join("\n");
    let _ = team.fed("workflow create few --plan - --json", &plan(30)).data();
    assert_eq!(team.way("task list --limit 10").stderr, "note: 20 more tasks; to list all: --limit 0\n");
    let _ = team.fed("workflow create many --plan - --json", &plan(1_100)).data();
    assert_eq!(team.way("task list --limit 10").stderr, "note: at least 1000 more tasks; to list all: --limit 0\n");
    assert_eq!(team.way("task list --limit 140").stderr, "note: 990 more tasks; to list all: --limit 0\n");
    let all = team.data("task list --limit 0");
    assert_eq!(all.as_array().unwrap().len(), 1_130);
    assert_eq!(all, team.data("task list --limit 1130"));
}

#[test]
fn c4_every_refusal_of_a_claim_says_why() {
    let team = Team::new();
    let plan =
        "a: one\nblocked: two\n  needs: a\nskilled: three\n  capabilities: gpu\nmine: four\ndone: five\nheld: six\n";
    let _ = team.fed("workflow create w --plan - --max-parallel 3 --json", plan).data();
    let says = |code: i32, line: &str, wanted: &str| {
        let error = team.refused(code, line);
        assert!(error["message"].as_str().unwrap().contains(wanted), "{line}: {error}");
    };
    says(4, "task claim a --agent ann", "its workflow w is ready");
    let _ = team.data("workflow start w");
    team.register("ann", &[], None);
    team.register("capped", &["gpu"], Some(1));
    let _ = team.data("task assign mine ann");
    let _ = team.data("task claim done --agent ann");
    let _ = team.data("task done done --agent ann --outcome x");
    let _ = team.data("task claim held --agent ann");

    says(4, "task claim blocked --agent ann", "waits for a (pending)");
    says(4, "task claim skilled --agent ann", "needs gpu, which ann did not register");
    says(4, "task claim mine --agent bob", "is assigned to ann");
    says(4, "task claim done --agent bob", "is completed and cannot be claimed");
    says(4, "task claim held --agent bob", "is held by ann until 2026-01-01T00:10:00.000Z");
    says(3, "task claim nothing --agent bob", "no task \"nothing\"");
    let _ = team.data("task claim skilled --agent capped");
    says(4, "task claim a --agent capped", "capped holds 1 leases, and may hold 1");
    says(4, "task claim --agent capped", "capped holds 1 leases, and may hold 1");
    let _ = team.data("workflow pause w");
    says(4, "task claim a --agent bob", "its workflow w is paused");
    says(6, "task claim --agent bob", "no task can be claimed now");
    let _ = team.data("workflow resume w");
    let _ = team.data("task claim a --agent bob");
    says(4, "task claim mine --agent ann", "would exceed the limit of 3 parallel tasks in w");
    says(6, "task claim --agent ann", "no task can be claimed now");
    let _ = team.data("task release a --agent bob");
    assert_eq!(team.data("task claim --agent ann")["task"]["name"], "a");
}

#[test]
fn c10_every_write_of_a_former_holder_is_refused_with_5() {
    let team = Team::with("a: one\n");
    let writes = [
        "checkpoint a --summary x",
        "done a --outcome x",
        "fail a --error x",
        "release a",
        "pause a",
        "ask a --question x",
        "heartbeat a",
    ];
    let all_are_refused = |epoch: &str| {
        for write in writes {
            let error = team.refused(5, &format!("task {write} --agent ann {epoch}"));
            assert_eq!(error["code"], "lease_lost", "{write}");
        }
    };
    all_are_refused("");
    assert_eq!(team.data("task claim --agent ann")["lease"]["epoch"], 1);
    // The lease expired, and no agent holds the task.
    team.pass(600);
    all_are_refused("--epoch 1");
    all_are_refused("");
    // Another agent holds it.
    assert_eq!(team.data("task claim --agent bob")["lease"]["epoch"], 2);
    all_are_refused("--epoch 1");
    all_are_refused("");
    // The first agent holds it again, under a new lease.
    let _ = team.data("task release a --agent bob");
    assert_eq!(team.data("task claim --agent ann")["lease"]["epoch"], 3);
    all_are_refused("--epoch 1");
    let _ = team.data("task done a --agent ann --epoch 3 --outcome x");
    all_are_refused("--epoch 1");
    let _ = team.data("task reopen a");
    all_are_refused("--epoch 3");
    assert_eq!(team.data("checkpoint list a"), json!([]), "no refused checkpoint was stored");
}

#[test]
fn c3_a_lease_expires_by_the_clock_and_any_write_of_its_holder_renews_it() {
    let team = Team::with("a: one\n");
    let _ = team.data("task claim --agent ann --ttl 1m");
    team.pass(59);
    let _ = team.data("task heartbeat --agent ann");
    team.pass(59);
    let _ = team.data("task checkpoint a --agent ann --summary x");
    team.pass(59);
    let _ = team.data("task claim a --agent ann");
    team.pass(59);
    assert_eq!(team.status("a"), "in_progress");
    team.pass(1);
    let task = team.data("task show a");
    assert_eq!((&task["status"], &task["attempts"]), (&json!("pending"), &json!(1)));
    assert_eq!(task["error"], "the lease of ann expired at 2026-01-01T00:03:57.000Z");
    let claimed = team.data("task claim --agent bob");
    assert_eq!(claimed["lease"]["epoch"], 2);
    assert!(claimed["context"]["text"].as_str().unwrap().contains("1. [progress] | x"));
}

#[test]
fn retries_back_off_and_end_after_the_last_attempt() {
    let team = Team::with("a: one\n  max_attempts: 3\n  backoff: 1m\nb: two\n  needs: a\n");
    let fail = || {
        let _ = team.data("task claim a --agent ann");
        team.data("task fail a --agent ann --error 'no luck'")
    };
    assert_eq!(fail()["status"], "failed");
    let summary = team.data("workflow summary w");
    assert_eq!(summary["failed"][0]["error"], "no luck");
    assert_eq!(team.refused(4, "task claim a --agent ann")["code"], "conflict");
    team.pass(59);
    let _ = team.refused(6, "task claim --agent ann");
    team.pass(1);
    assert_eq!(fail()["attempts"], 2);
    team.pass(119);
    assert_eq!(team.status("a"), "failed");
    team.pass(1);
    assert_eq!(team.status("a"), "pending");
    let dead = fail();
    assert_eq!((&dead["status"], &dead["attempts"]), (&json!("dead"), &json!(3)));
    let error = team.refused(4, "workflow wait w");
    assert!(error["message"].as_str().unwrap().contains("a is dead, and nothing else can run"), "{error}");
    assert!(team.refused(4, "task wait a")["message"].as_str().unwrap().contains("no luck"));
    // A person decides that it is worth another try.
    let _ = team.data("task reopen a");
    let _ = team.data("task claim a --agent ann");
    let _ = team.data("task fail a --agent ann --error 'it cannot be done' --hopeless");
    assert_eq!(team.status("a"), "dead");
}

#[test]
fn a_question_waits_for_a_person_and_survives_the_agent_that_asked() {
    let team = Team::with("a: one\n");
    let _ = team.data("task claim --agent ann");
    let _ = team.data("task checkpoint a --agent ann --summary 'read everything'");
    assert_eq!(team.data("task ask a 'blue or green?' --agent ann")["status"], "waiting_input");
    let error = team.refused(4, "task wait a");
    assert!(error["message"].as_str().unwrap().contains("blue or green?"), "{error}");
    team.pass(100_000);
    assert_eq!(team.status("a"), "waiting_input", "an open question does not expire");
    let _ = team.refused(6, "task claim --agent bob");
    assert_eq!(team.refused(7, "task answer a green --agent bob")["code"], "refused");
    assert_eq!(team.data("task answer a green")["status"], "pending");
    assert_eq!(team.refused(4, "task answer a blue")["code"], "conflict");
    let context = team.data("task claim --agent bob")["context"]["text"].as_str().unwrap().to_owned();
    for wanted in ["Asked | blue or green?", "Answered: green", "read everything"] {
        assert!(context.contains(wanted), "{context}");
    }
}

#[test]
fn a_task_that_requires_evidence_cannot_be_completed_without_it() {
    let team = Team::with("a: one\n  evidence: yes\n");
    let _ = team.data("task claim --agent ann");
    let error = team.refused(2, "task done a --agent ann --outcome x");
    assert!(error["hints"][0].as_str().unwrap().contains("--evidence"), "{error}");
    let _ = team.refused(2, "task done a --agent ann --outcome x --evidence ' '");
    let _ = team.refused(2, "task done a --agent ann --outcome '' --evidence y");
    let done = team.data("task done a --agent ann --outcome x --evidence 'make test: 12 passed'");
    assert_eq!(done["evidence"], "make test: 12 passed");
}

#[test]
fn the_same_key_gives_the_same_answer_and_one_effect() {
    let team = Team::new();
    team.sandbox.write("repo/plan.txt", "a: one\n");
    let create = "workflow create w --plan plan.txt --start --key k1";
    assert_eq!(team.data(create), team.data(create));
    assert_eq!(team.refused(4, "workflow create other --plan plan.txt --start --key k1")["code"], "conflict");
    let _ = team.data("task claim --agent ann");
    let checkpoint = "task checkpoint a --agent ann --epoch 1 --summary x --key k2";
    assert_eq!(team.data(checkpoint), team.data(checkpoint));
    let other = team.refused(4, "task checkpoint a --agent ann --epoch 1 --summary y --key k2");
    assert!(other["message"].as_str().unwrap().contains("was used for another request"), "{other}");
    assert_eq!(team.refused(4, "task done a --agent ann --outcome x --key k2")["code"], "conflict");
    assert_eq!(team.data("checkpoint list a").as_array().unwrap().len(), 1);
    let done = "task done a --agent ann --epoch 1 --outcome x --key k3";
    assert_eq!(team.data(done), team.data(done));
    assert_eq!(team.refused(2, "workflow create z --key ''")["code"], "invalid");
}

#[test]
fn a_key_of_another_agent_does_not_reveal_its_answer() {
    let team = Team::new();
    let create = |agent: &str| format!("workflow create w --agent {agent} --key k1");
    assert_eq!(team.data(&create("ann")), team.data(&create("ann")));
    let error = team.refused(4, &create("bob"));
    assert!(error["hints"][0].as_str().unwrap().contains("of one caller"), "{error}");
}

#[test]
fn lists_can_be_filtered_by_worktree() {
    let team = Team::with("a: one\n");
    let _ = team.sandbox.way(&team.repo, ["worktree", "add", "topic"]).ok();
    let topic = team.sandbox.path("repo-topic");
    let create = ["workflow", "create", "elsewhere", "--json"];
    let _ = team.sandbox.way(&topic, create).data();
    let add = ["workflow", "add-task", "elsewhere", "there", "--json"];
    let _ = team.sandbox.way(&topic, add).data();
    assert_eq!(team.data("workflow list").as_array().unwrap().len(), 2);
    for (worktree, workflow, task) in [("topic", "elsewhere", "there"), ("repo", "w", "a")] {
        let workflows = team.data(&format!("workflow list --worktree {worktree}"));
        assert_eq!((workflows.as_array().unwrap().len(), &workflows[0]["name"]), (1, &json!(workflow)));
        let tasks = team.data(&format!("task list --worktree {worktree}"));
        assert_eq!((tasks.as_array().unwrap().len(), &tasks[0]["name"]), (1, &json!(task)));
    }
    let _ = team.refused(3, "workflow list --worktree nowhere");
    let _ = team.refused(2, "workflow show w --worktree topic");
}

#[test]
fn a_name_resolves_to_one_task_or_is_reported_as_ambiguous() {
    let team = Team::with("build: one\n");
    let _ = team.fed("workflow create v --plan - --start", "build: two\n");
    let error = team.refused(3, "task show build");
    assert_eq!(error["code"], "ambiguous");
    assert_eq!(team.data("task show v/build")["description"], "two");
    assert_eq!(team.data("task show build --workflow w")["description"], "one");
    assert_eq!(team.refused(3, "task show v/biuld")["hints"][0], "did you mean build?");
    let id = team.data("task show v/build")["id"].as_str().unwrap().to_owned();
    assert_eq!(team.data(&format!("context {id}"))["budget"], 8000);
    assert_eq!(team.refused(3, "task show tk_000000000000")["code"], "not_found");
}

#[test]
fn control_characters_in_stored_text_are_escaped() {
    let team = Team::new();
    let evil = "x\u{1b}[2J\u{202e}\u{7}y";
    let plan = json!({ "summary": evil, "tasks": [
        { "name": "a\u{202e}", "description": format!("{evil}\nerror: none"), "acceptance": [evil], "plan": { evil: evil },
          "context": evil, "files": [evil], "parallel_group": evil, "issue": evil },
        { "name": "b", "depends_on": ["a\u{202e}"], "capabilities": [evil] },
        { "name": "c" },
    ] });
    let _ = team.fed("workflow create w\u{202e} --plan - --start", &plan.to_string()).ok();
    let _ = team.way("task claim 'a\u{202e}' --agent 'an\u{202e}n'");
    let _ = team.way(&format!(
        "task checkpoint 'a\u{202e}' --agent 'an\u{202e}n' --summary '{evil}\nz' --detail '{evil}' --file '{evil}'"
    ));
    let _ = team.way("task claim c --agent bob");
    let _ = team.way(&format!("task ask c --agent bob --question '{evil}'"));
    for line in [
        "workflow list",
        "workflow show 'w\u{202e}'",
        "workflow summary 'w\u{202e}'",
        "workflow wait 'w\u{202e}' --timeout 1ms",
        "workflow wait 'nei\u{202e}n'",
        "task list",
        "task next --agent z",
        "task show 'a\u{202e}'",
        "task show c",
        "task wait c",
        "task claim b",
        "checkpoint list 'a\u{202e}'",
        "context 'a\u{202e}'",
        "context c",
        "prime --agent 'an\u{202e}n'",
        "prime",
        "task heartbeat --agent 'an\u{202e}n'",
        &format!("task release 'a\u{202e}' --agent 'an\u{202e}n' --reason '{evil}'"),
        "task claim 'a\u{202e}' --agent bob",
        &format!("task done 'a\u{202e}' --agent bob --outcome '{evil}'"),
        &format!("task answer c '{evil}'"),
        &format!("workflow cancel 'w\u{202e}' --reason '{evil}'"),
        "workflow list --all",
        "workflow create x --plan nowhere\u{1b}",
    ] {
        let run = team.way(line);
        let sent = format!("{}{}", run.stdout, run.stderr);
        assert!(!sent.is_empty(), "{line:?} says something");
        let obeyed: Vec<char> =
            sent.chars().filter(|char| (char.is_control() && *char != '\n') || *char == '\u{202e}').collect();
        assert!(obeyed.is_empty(), "{line:?} sends {obeyed:?}: {sent}");
        assert!(!sent.lines().any(|line| line == "error: none"), "{line:?} has a line of others: {sent}");
    }
    // JSON output contains the text unchanged.
    assert_eq!(team.data("workflow show 'w\u{202e}'")["summary"], evil);
}

#[test]
fn a_finished_task_closes_its_issue_even_after_a_crash_in_between() {
    let team = Team::new();
    let issue = |title: &str| team.data(&format!("add '{title}'"))["id"].as_str().unwrap().to_owned();
    let (first, second) = (issue("one"), issue("two"));
    let _ = team.data("workflow create w");
    for (name, issue) in [("a", &first), ("b", &second), ("c", &"repo-none".to_owned())] {
        let _ = team.data(&format!("workflow add-task w {name} --issue {issue}"));
    }
    let _ = team.data("workflow start w");
    let _ = team.data("task claim a --agent ann");
    let said = team.way("task done a --agent ann --outcome 'all of it'").ok().stdout;
    assert!(said.ends_with(&format!("Closed {first}\n")), "{said}");
    let closed = team.data(&format!("show {first}"));
    assert_eq!((&closed["status"], &closed["close_reason"]), (&json!("closed"), &json!("all of it")));

    // The process died after it wrote the store and before it wrote the ledger.
    let _ = team.data("task claim b --agent ann");
    let operation =
        FinishTask { task: "b".to_owned(), workflow: None, epoch: None, outcome: "later".to_owned(), evidence: None };
    let mut session = team.session("ann");
    let caller = session.caller().clone();
    engine::write(session.store().unwrap(), &caller, &mut SystemEntropy, None, operation).unwrap();
    let ledger = || std::fs::read_to_string(team.repo.join(".waypost/issues.jsonl")).unwrap();
    assert!(!ledger().contains("later"));
    let _ = team.data("workflow list");
    assert_eq!(team.data(&format!("show {second}"))["status"], "closed");
    assert!(!ledger().contains("later"), "reading does not change the ledger: {}", ledger());
    let _ = team.data("agent heartbeat --agent ann");
    assert!(ledger().contains(r#""close_reason":"later""#), "{}", ledger());
    assert_eq!(team.data(&format!("show {second}"))["status"], "closed");

    // Only the command that finishes the task warns that its issue could not be closed.
    let _ = team.data("task claim c --agent ann");
    let run = team.way("task done c --agent ann --outcome x");
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("issue repo-none was not closed"), "{}", run.stderr);
    let _ = team.way("workflow list --all").ok();
}

#[test]
fn a_checkpoint_that_is_too_large_is_refused() {
    let team = Team::with("build: all of it\n");
    let _ = team.data("task claim build --agent builder");
    let detail = |bytes: usize| {
        team.sandbox.write("detail.json", format!("{{\"log\":\"{}\"}}", "x".repeat(bytes)));
        let file = team.sandbox.path("detail.json");
        team.way(&format!("task checkpoint build --agent builder --summary s --detail @{}", file.display()))
    };
    let _ = detail(200 * 1024).ok();
    let refused = detail(256 * 1024).fails(2);
    assert!(refused.stderr.contains("bytes is too long") && refused.stderr.contains("name the file"), "{refused:?}");
}
