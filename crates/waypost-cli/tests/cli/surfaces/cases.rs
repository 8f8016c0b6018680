//! The cases that every surface runs: one row per operation.

use std::path::Path;

use serde_json::{Value, json};
use waypost_testkit::{Sandbox, until};

/// A step outside of the surfaces before the next case.
type Then = fn(&Sandbox, &dyn Fn(&str) -> String, &Path);

/// An operation, and how each surface calls it. `$tk1` is the first task of the story, `$i2` the second issue.
pub(super) struct Case {
    pub(super) operation: &'static str,
    /// The calling agent.
    pub(super) agent: Option<&'static str>,
    /// Its arguments over HTTP.
    pub(super) arguments: Value,
    /// The command line, without `--json` and `--agent`.
    pub(super) cli: &'static str,
    /// The tool and its arguments, without `agent`.
    pub(super) mcp: Option<(&'static str, Value)>,
    pub(super) then: Option<Then>,
}

impl Case {
    fn by(self, agent: &'static str) -> Case {
        Case { agent: Some(agent), ..self }
    }

    fn mcp(self, tool: &'static str, arguments: Value) -> Case {
        Case { mcp: Some((tool, arguments)), ..self }
    }

    fn then(self, then: Then) -> Case {
        Case { then: Some(then), ..self }
    }
}

/// An operation over HTTP and as a command.
fn case(operation: &'static str, arguments: Value, cli: &'static str) -> Case {
    Case { operation, agent: None, arguments, cli, mcp: None, then: None }
}

fn build() -> Value {
    json!({ "summary": "Ship it", "tasks": [
        { "name": "build", "description": "Compile", "issue": "$i1", "max_attempts": 2 },
        { "name": "test", "description": "Try", "depends_on": ["build"], "max_attempts": 3 },
        { "name": "publish", "description": "Out", "depends_on": ["test"] },
    ] })
}

fn rebuilt() -> Value {
    json!({ "summary": "Ship it", "tasks": [
        { "name": "build", "description": "Compile", "issue": "$i1", "max_attempts": 2 },
        { "name": "test", "description": "Try", "depends_on": ["build"], "max_attempts": 3 },
        { "name": "publish", "description": "Out, slowly", "depends_on": ["test"] },
        { "name": "announce", "description": "Tell" },
    ] })
}

fn reusable() -> Value {
    json!({ "summary": "Fix {{what}}", "tasks": [{ "name": "fix", "description": "Fix {{what}}" }] })
}

fn delivery() -> Value {
    json!({ "summary": "Deliver it", "tasks": [{ "name": "deliver", "description": "Push" }] })
}

/// Files with plans, for commands. Ids in them are filled in when they exist.
pub(super) fn plans() -> [(&'static str, Value); 2] {
    [("reusable.json", reusable()), ("delivery.json", delivery())]
}

/// Writes the plans that name issues.
fn write_plans(sandbox: &Sandbox, filled: &dyn Fn(&str) -> String, _: &Path) {
    sandbox.write("build.json", filled(&build().to_string()));
    sandbox.write("rebuilt.json", filled(&rebuilt().to_string()));
}

/// Waits until the job has printed its line.
fn wait_for_output(sandbox: &Sandbox, filled: &dyn Fn(&str) -> String, repo: &Path) {
    until("the job prints", || sandbox.way(repo, ["job", "logs", &filled("$jb1")]).stdout.contains("hello"));
}

/// Waits until the cancelled job is over, and its supervisor has measured the workspace, which is an event too.
fn wait_for_end(sandbox: &Sandbox, filled: &dyn Fn(&str) -> String, repo: &Path) {
    let _ = sandbox.way(repo, ["job", "wait", &filled("$jb1")]);
    until("the workspace is measured", || {
        let listed = sandbox.way(repo, ["ws", "list", "--json"]).data();
        listed.as_array().unwrap().iter().all(|seen| seen["status"] != "active" && !seen["size"].is_null())
    });
}

/// Every operation on the store of one repository.
pub(super) fn story() -> Vec<Case> {
    [agents_and_issues(), planning(), working(), messages(), templates(), jobs(), ending()]
        .into_iter()
        .flatten()
        .collect()
}

fn agents_and_issues() -> Vec<Case> {
    vec![
        case(
            "register_agent",
            json!({ "name": "ann", "role": "worker", "capabilities": ["rust"], "metadata": {} }),
            "agent register ann --role worker --capability rust",
        ),
        case("register_agent", json!({ "name": "bob" }), "agent register bob"),
        case(
            "add_issue",
            json!({ "title": "Fix the login", "description": "It fails", "priority": 1, "issue_type": "bug", "labels": ["auth"] }),
            "add 'Fix the login' -d 'It fails' -p 1 -t bug -l auth",
        )
        .by("ann")
        .mcp("issue", json!({ "do": "add", "title": "Fix the login", "description": "It fails", "priority": 1, "type": "bug", "labels": ["auth"] })),
        case("add_issue", json!({ "title": "Say so", "blocked_by": ["$i1"] }), "add 'Say so' --blocked-by $i1")
            .by("ann")
            .mcp("issue", json!({ "do": "add", "title": "Say so", "blocked_by": ["$i1"] })),
        case("add_issue", json!({ "title": "Tidy up" }), "add 'Tidy up'")
            .by("ann")
            .mcp("issue", json!({ "do": "add", "title": "Tidy up" })),
        case("update_issue", json!({ "issue": "$i2", "priority": 0, "labels": ["news"] }), "update $i2 -p 0 --add-label news")
            .by("ann")
            .mcp("issue", json!({ "do": "update", "id": "$i2", "priority": 0, "labels": ["news"] })),
        case("add_comment", json!({ "issue": "$i2", "text": "soon" }), "comment $i2 soon")
            .by("ann")
            .mcp("issue", json!({ "do": "comment", "id": "$i2", "text": "soon" })),
        case("add_dependency", json!({ "issue": "$i3", "on": "$i2" }), "dep add $i3 $i2")
            .by("ann")
            .mcp("issue", json!({ "do": "depend", "id": "$i3", "on": "$i2" })),
        case("remove_dependency", json!({ "issue": "$i3", "on": "$i2" }), "dep rm $i3 $i2").by("ann"),
        case("list_issues", json!({ "limit": 10 }), "list --limit 10").mcp("issues", json!({ "do": "list", "limit": 10 })),
        case(
            "list_issues",
            json!({ "priorities": [1, 2], "no_label": ["later"], "created_after": "1d", "sort": "title", "reverse": true, "limit": 10 }),
            "list -p 1-2 --no-label later --created-after 1d --sort title --reverse --limit 10",
        ),
        case("list_ready_issues", json!({ "limit": 10 }), "ready --limit 10").mcp("issues", json!({ "do": "ready", "limit": 10 })),
        case("list_ready_issues", json!({ "limit": 1 }), "ready --limit 1").mcp("issues", json!({ "do": "ready", "limit": 1 })),
        case("list_blocked_issues", json!({}), "blocked"),
        case("search_issues", json!({ "text": "login", "limit": 10 }), "search login --limit 10")
            .mcp("issues", json!({ "do": "search", "words": "login", "limit": 10 })),
        case("show_issue", json!({ "issue": "$i2" }), "show $i2"),
        case("explain_issue", json!({ "issue": "$i2" }), "ready --explain $i2")
            .mcp("issues", json!({ "do": "show", "id": "$i2" })),
        case("claim_issue", json!({ "issue": "$i3" }), "claim $i3").by("ann").mcp("issue", json!({ "do": "claim", "id": "$i3" })),
        case("release_issue", json!({ "issue": "$i3" }), "release $i3")
            .by("ann")
            .mcp("issue", json!({ "do": "release", "id": "$i3" })),
        case("close_issue", json!({ "issue": "$i3", "reason": "tidy" }), "close $i3 -r tidy")
            .by("ann")
            .mcp("issue", json!({ "do": "close", "id": "$i3", "text": "tidy" })),
        case("reopen_issue", json!({ "issue": "$i3" }), "reopen $i3")
            .by("ann")
            .mcp("issue", json!({ "do": "reopen", "id": "$i3" })),
        case("remove_issue", json!({ "issue": "$i3", "reason": "not now" }), "delete $i3 --reason 'not now'")
            .by("ann")
            .then(write_plans),
    ]
}

fn planning() -> Vec<Case> {
    vec![
        case(
            "add_workflow",
            json!({ "name": "release", "summary": "later" }),
            "workflow create release --summary later",
        ),
        case(
            "plan_workflow",
            json!({ "workflow": "release", "plan": build() }),
            "workflow plan release --plan ../build.json",
        ),
        case("start_workflow", json!({ "workflow": "release" }), "workflow start release"),
        case(
            "add_task",
            json!({ "workflow": "release", "task": { "name": "extra", "description": "More" }, "before": ["publish"] }),
            "workflow add-task release extra -d More --before publish",
        ),
        case(
            "remove_task",
            json!({ "task": "extra", "workflow": "release" }),
            "workflow remove-task extra --workflow release",
        ),
        case(
            "replan_workflow",
            json!({ "workflow": "release", "plan": rebuilt(), "reason": "more to do" }),
            "workflow replan release --plan ../rebuilt.json --reason 'more to do'",
        ),
        case("pause_workflow", json!({ "workflow": "release" }), "workflow pause release"),
        case("resume_workflow", json!({ "workflow": "release" }), "workflow resume release"),
        case(
            "add_workflow_repository",
            json!({ "workflow": "release", "repository": "$rp1" }),
            "workflow repos release --add $rp1",
        ),
        case("list_workflows", json!({ "limit": 50 }), "workflow list --limit 50"),
        case("show_workflow", json!({ "workflow": "release" }), "workflow show release"),
        case("show_graph", json!({ "subject": "release" }), "graph release"),
        case("list_repositories", json!({}), "repo list"),
        case("list_worktrees", json!({}), "worktree list"),
    ]
}

fn working() -> Vec<Case> {
    vec![
        case("assign_task", json!({ "task": "announce", "agent": "bob" }), "task assign announce bob"),
        case(
            "update_task",
            json!({ "task": "announce", "priority": 1, "max_attempts": 5, "timeout_ms": 3_600_000, "acceptance": ["heard"] }),
            "task update announce --priority 1 --max-attempts 5 --timeout 1h --acceptance heard",
        ),
        case("list_next_tasks", json!({ "limit": 10 }), "task next --limit 10").by("ann"),
        case("claim_task", json!({ "task": "build", "budget": 800 }), "task claim build --budget 800")
            .by("ann")
            .mcp("next", json!({ "task": "build", "budget": 800 })),
        case(
            "add_checkpoint",
            json!({ "task": "build", "epoch": 1, "kind": "progress", "summary": "half", "detail": { "n": 1 }, "files": ["file"], "tokens": 7 }),
            "task checkpoint build --epoch 1 --summary half --detail '{\"n\":1}' --file file --tokens 7",
        )
        .by("ann")
        .mcp("checkpoint", json!({ "task": "build", "epoch": 1, "summary": "half", "detail": { "n": 1 }, "files": ["file"], "tokens": 7 })),
        case("heartbeat", json!({ "task": "build", "epoch": 1 }), "task heartbeat build --epoch 1")
            .by("ann")
            .mcp("heartbeat", json!({ "task": "build", "epoch": 1 })),
        case("show_status", json!({ "limit": 8 }), "status --limit 8").by("ann").mcp("status", json!({ "limit": 8 })),
        case("prime", json!({ "budget": 800 }), "prime --budget 800").by("ann").mcp("prime", json!({ "budget": 800 })),
        case("list_checkpoints", json!({ "task": "build", "limit": 20 }), "checkpoint list build --limit 20"),
        case("show_task", json!({ "task": "build" }), "task show build"),
        case("show_context", json!({ "task": "build", "budget": 2000 }), "context build --budget 2000")
            .by("ann")
            .mcp("context", json!({ "task": "build", "budget": 2000 })),
        case("list_tasks", json!({ "workflow": "release", "limit": 100 }), "task list --workflow release --limit 100"),
        case("list_agents", json!({}), "agent list"),
        case("show_agent", json!({ "agent": "ann" }), "agent show ann"),
        case(
            "finish_task",
            json!({ "task": "build", "epoch": 1, "outcome": "built", "evidence": "it runs" }),
            "task done build --epoch 1 --outcome built --evidence 'it runs'",
        )
        .by("ann")
        .mcp("finish", json!({ "task": "build", "epoch": 1, "how": "done", "text": "built", "evidence": "it runs" })),
        case("claim_task", json!({ "budget": 800 }), "task claim --budget 800").by("ann").mcp("next", json!({ "budget": 800 })),
        case("ask_question", json!({ "task": "test", "epoch": 1, "question": "Which?" }), "task ask test --epoch 1 --question 'Which?'")
            .by("ann")
            .mcp("finish", json!({ "task": "test", "epoch": 1, "how": "ask", "text": "Which?" })),
        case("show_workflow_summary", json!({ "workflow": "release" }), "workflow summary release"),
        case("answer_question", json!({ "task": "test", "answer": "That" }), "task answer test That"),
        case("claim_task", json!({ "task": "test", "budget": 800 }), "task claim test --budget 800")
            .by("ann")
            .mcp("next", json!({ "task": "test", "budget": 800 })),
        case("release_task", json!({ "task": "test", "epoch": 2, "reason": "tired" }), "task release test --epoch 2 --reason tired")
            .by("ann")
            .mcp("finish", json!({ "task": "test", "epoch": 2, "how": "release", "text": "tired" })),
        case("claim_task", json!({ "task": "test", "budget": 800 }), "task claim test --budget 800")
            .by("ann")
            .mcp("next", json!({ "task": "test", "budget": 800 })),
        case("fail_task", json!({ "task": "test", "epoch": 3, "error": "broke", "hopeless": true }), "task fail test --epoch 3 --error broke --hopeless")
            .by("ann")
            .mcp("finish", json!({ "task": "test", "epoch": 3, "how": "fail", "text": "broke", "hopeless": true })),
        case("reopen_task", json!({ "task": "test", "reason": "again" }), "task reopen test --reason again"),
        case("skip_task", json!({ "task": "test", "reason": "no need" }), "task skip test --reason 'no need'"),
        case("claim_task", json!({ "task": "announce", "budget": 800 }), "task claim announce --budget 800")
            .by("bob")
            .mcp("next", json!({ "task": "announce", "budget": 800 })),
        case("pause_task", json!({ "task": "announce", "epoch": 1, "reason": "later" }), "task pause announce --epoch 1 --reason later")
            .by("bob"),
    ]
}

fn messages() -> Vec<Case> {
    vec![
        case(
            "send_message",
            json!({ "to": "bob", "body": "hello", "subject": "hi", "priority": "high", "task": "announce" }),
            "msg send bob hello --subject hi --priority high --task announce",
        )
        .by("ann")
        .mcp("messages", json!({ "do": "send", "to": "bob", "text": "hello", "subject": "hi", "priority": "high", "task": "announce" })),
        case("list_inbox", json!({ "limit": 10 }), "msg inbox --limit 10")
            .by("bob")
            .mcp("messages", json!({ "do": "inbox", "limit": 10 })),
        case("read_message", json!({ "message": "$msg1" }), "msg read $msg1").by("bob"),
        case("show_thread", json!({ "message": "$msg1" }), "msg thread $msg1").by("bob"),
        case("ack_message", json!({ "messages": ["$msg1"] }), "msg ack $msg1")
            .by("bob")
            .mcp("messages", json!({ "do": "ack", "ids": ["$msg1"] })),
        case("broadcast_message", json!({ "body": "all of you" }), "msg broadcast 'all of you'").by("ann"),
    ]
}

fn templates() -> Vec<Case> {
    vec![
        case(
            "save_template",
            json!({ "name": "fix", "description": "A fix", "body": reusable() }),
            "template save fix --description 'A fix' --plan ../reusable.json",
        ),
        case("list_templates", json!({}), "template list"),
        case("show_template", json!({ "name": "fix" }), "template show fix"),
        case(
            "apply_template",
            json!({ "template": "fix", "name": "fix-it", "values": { "what": "it" }, "start": true }),
            "template apply fix --name fix-it --var what=it --start",
        ),
    ]
}

fn jobs() -> Vec<Case> {
    vec![
        case(
            "start_job",
            json!({ "command": ["sh", "-c", "echo hello; exec sleep 60"], "sandbox": "on", "memory_limit": 500_000_000 }),
            "job start --detach --sandbox --memory-limit 500MB -- sh -c 'echo hello; exec sleep 60'",
        ),
        case(
            "update_job",
            json!({ "job": "$jb1", "phase": "deep", "tokens": 5 }),
            "job note --job $jb1 --phase deep --tokens 5",
        )
        .then(wait_for_output),
        case("cancel_job", json!({ "job": "$jb1", "reason": "enough" }), "job cancel $jb1 --reason enough")
            .then(wait_for_end),
        case("list_jobs", json!({ "limit": 50 }), "job list --limit 50"),
        case("show_job", json!({ "job": "$jb1" }), "job show $jb1"),
        case("list_machines", json!({}), "machine list"),
        case("show_log", json!({ "job": "$jb1" }), "job logs $jb1"),
        case("list_workspaces", json!({ "limit": 10 }), "ws list").mcp("workspace", json!({ "limit": 10 })),
        case("show_workspace", json!({ "workspace": "$ws1" }), "ws show $ws1")
            .mcp("workspace", json!({ "workspace": "$ws1" })),
        case("explain_workspace", json!({ "workspace": "$ws1" }), "ws show $ws1"),
        case("show_diff", json!({ "workspace": "$ws1" }), "ws diff $ws1"),
        case("snapshot_workspace", json!({ "workspace": "$ws1" }), "ws snapshot $ws1"),
        case("deliver_workspace", json!({ "workspace": "$ws1" }), "ws push $ws1"),
        case("remove_workspace", json!({ "workspace": "$ws1" }), "ws rm $ws1"),
    ]
}

fn ending() -> Vec<Case> {
    vec![
        case(
            "add_workflow",
            json!({ "name": "delivery", "plan": delivery(), "start": true, "config": { "awaits_merge": true } }),
            "workflow create delivery --plan ../delivery.json --start --config-json '{\"awaits_merge\":true}'",
        ),
        case("skip_task", json!({ "task": "deliver" }), "task skip deliver"),
        case("record_merge", json!({ "workflow": "delivery", "merged": true }), "workflow merged delivery"),
        case(
            "cancel_workflow",
            json!({ "workflow": "release", "reason": "enough" }),
            "workflow cancel release --reason enough",
        ),
        case("retire_agent", json!({ "agent": "bob" }), "agent retire bob"),
        case("remove_worktree", json!({ "id": "$wt2" }), "worktree rm topic"),
        case("list_events", json!({ "limit": 50 }), "events --limit 50"),
    ]
}

/// Operations that need a store shared by several repositories.
pub(super) fn story_of_a_shared_store() -> Vec<Case> {
    vec![
        case(
            "add_repository",
            json!({ "repository": {
                "id": "rp_000000000001", "name": "other", "path": "$root/other", "vcs": "git", "remote_url": null,
                "default_branch": null,
            } }),
            "repo add ../other",
        ),
        case("list_repositories", json!({}), "repo list"),
        case("add_workflow", json!({ "name": "both" }), "workflow create both"),
        case(
            "add_workflow_repository",
            json!({ "workflow": "both", "repository": "other" }),
            "workflow repos both --add other",
        ),
        case(
            "remove_workflow_repository",
            json!({ "workflow": "both", "repository": "other" }),
            "workflow repos both --remove other",
        ),
        case("remove_repository", json!({ "repository": "other" }), "repo remove other"),
        case("add_issue", json!({ "title": "Idea", "repo": "other" }), "add Idea --repo other"),
        case("propose_issue", json!({ "issue": "$i1" }), "propose $i1"),
        case("withdraw_issue", json!({ "issue": "$i1" }), "withdraw $i1"),
        case("propose_issue", json!({ "issue": "$i1", "target": "repo" }), "propose $i1 --target repo"),
        case("accept_issue", json!({ "issue": "$i1" }), "accept $i1"),
        case(
            "add_issue",
            json!({ "title": "Another idea", "priority": 3, "repo": "other" }),
            "add 'Another idea' -p 3 --repo other",
        ),
        case("propose_issue", json!({ "issue": "$i2" }), "propose $i2"),
        case("reject_issue", json!({ "issue": "$i2", "reason": "not now" }), "reject $i2 --reason 'not now'"),
    ]
}
