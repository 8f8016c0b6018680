//! Every operation with every kind of token, over HTTP and MCP. The table has one row per operation: a new operation needs
//! its own. A call that the table permits succeeds, and one that it does not permit changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::backup::Backup;
use serde_json::{Value, json};
use waypost::serving::hash_token;
use waypost_core::op::Effect;

use super::rights::call;
use super::{Ask, Server};
use crate::surfaces::tools_of_operations;

/// A caller: a token, and whose work the request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The owner, in the name of the agent whose work it is.
    Owner,
    /// A coordinator, about the work of another agent.
    Coordinator,
    /// An agent, about its own work.
    Agent,
    /// An agent, about the work of another one.
    Foreign,
    /// A job, about its own task.
    Job,
    /// A job, about the task of another one.
    ForeignJob,
    Reader,
}

const ROLES: [Role; 7] =
    [Role::Owner, Role::Coordinator, Role::Agent, Role::Foreign, Role::Job, Role::ForeignJob, Role::Reader];

/// The roles that may run an operation, one column each, as [`ROLES`] lists them. `x` stands for yes.
const TABLE: &[(&str, &str)] = &[
    ("accept_failover", "x......"),
    ("accept_issue", "x......"),
    ("ack_message", "x.x.x.."),
    ("add_checkpoint", "x.x.x.."),
    ("add_comment", "xxxx..."),
    ("add_dependency", "x.x...."),
    ("add_issue", "xxxx..."),
    ("add_job_record", "x......"),
    ("add_repository", "x......"),
    ("add_task", "xxxx..."),
    ("add_workflow", "xxxx..."),
    ("add_workflow_repository", "xxx...."),
    ("add_workspace", "x......"),
    ("answer_question", "x......"),
    ("append_log", "x......"),
    ("apply_template", "xxxx..."),
    ("ask_question", "x.x.x.."),
    ("assign_task", "xxx...."),
    ("broadcast_message", "xxxx..."),
    ("cancel_job", "x......"),
    ("cancel_workflow", "xxx...."),
    ("choose_base", "x......"),
    ("claim_issue", "x.x...."),
    ("claim_task", "x.x...."),
    ("close_issue", "x.x...."),
    ("collect_garbage", "x......"),
    ("confirm_changes", "x.x.x.."),
    ("confirm_notice", "xxxxxx."),
    ("deliver_workspace", "x......"),
    ("defer_changes", "x.x.x.."),
    ("dump_workflow", "x......"),
    ("end_issue_lease", "x.x.x.."),
    ("expire_due", "x......"),
    ("explain_issue", "xxxxxxx"),
    ("explain_workspace", "xxxxxxx"),
    ("fail_task", "x.x.x.."),
    ("find_garbage", "x......"),
    ("finish_job", "x......"),
    ("finish_task", "x.x.x.."),
    ("freeze_workflow", "x......"),
    ("heartbeat", "x.x.x.."),
    ("introduce_agent", "xxxxxxx"),
    ("lease_issue", "x.x.x.."),
    ("list_agents", "xxxxxxx"),
    ("list_blocked_issues", "xxxxxxx"),
    ("list_checkpoints", "xxxxxxx"),
    ("list_events", "xxxxxxx"),
    ("list_inbox", "xxxxxx."),
    ("list_issues", "xxxxxxx"),
    ("list_jobs", "xxxxxxx"),
    ("list_leases", "xxxxxxx"),
    ("list_live_workspaces", "xxxxxxx"),
    ("list_machines", "xxxxxxx"),
    ("list_next_tasks", "xxxxxxx"),
    ("list_notices", "xxxxxxx"),
    ("list_ready_issues", "xxxxxxx"),
    ("list_repositories", "xxxxxxx"),
    ("list_summaries", "x......"),
    ("list_tasks", "xxxxxxx"),
    ("list_templates", "xxxxxxx"),
    ("list_workflows", "xxxxxxx"),
    ("list_workspaces", "xxxxxxx"),
    ("list_worktrees", "xxxxxxx"),
    ("pause_task", "x.x.x.."),
    ("pause_workflow", "xxx...."),
    ("plan_workflow", "xxx...."),
    ("prime", "xxxxxxx"),
    ("propose_issue", "x......"),
    ("read_message", "x.x.x.."),
    ("record_job_started", "x......"),
    ("record_machine", "x......"),
    ("record_maintenance", "x......"),
    ("record_merge", "xxx...."),
    ("register", "xxxxxx."),
    ("register_agent", "x.x...."),
    ("register_supervisor", "x......"),
    ("reject_issue", "x......"),
    ("release_issue", "x.x...."),
    ("release_task", "x.x.x.."),
    ("remove_dependency", "x.x...."),
    ("remove_issue", "x......"),
    ("remove_repository", "x......"),
    ("remove_task", "xxx...."),
    ("remove_workflow_repository", "xxx...."),
    ("remove_workspace", "x......"),
    ("remove_worktree", "x......"),
    ("reopen_issue", "x.x...."),
    ("reopen_task", "xxx...."),
    ("repair_clock", "x......"),
    ("replan_workflow", "xxx...."),
    ("resume_workflow", "xxx...."),
    ("retire_agent", "x.x...."),
    ("retire_workflow", "x......"),
    ("save_template", "xx....."),
    ("search_issues", "xxxxxxx"),
    ("send_message", "xxxxxx."),
    ("show_agent", "xxxxxxx"),
    ("show_context", "xxxxxxx"),
    ("show_diff", "x......"),
    ("show_graph", "xxxxxxx"),
    ("show_issue", "xxxxxxx"),
    ("show_job", "xxxxxxx"),
    ("show_log", "x.x.x.."),
    ("show_status", "xxxxxxx"),
    ("show_stored_log", "x.x...."),
    ("show_task", "xxxxxxx"),
    ("show_template", "xxxxxxx"),
    ("show_thread", "x.x.x.."),
    ("show_work_status", "xxxxxxx"),
    ("show_workflow", "xxxxxxx"),
    ("show_workflow_summary", "xxxxxxx"),
    ("show_workspace", "xxxxxxx"),
    ("skip_task", "xxx...."),
    ("snapshot_workspace", "x......"),
    ("start_job", "x......"),
    ("start_workflow", "xxx...."),
    ("take_workflow", "x......"),
    ("update_issue", "x.x...."),
    ("update_job", "x...x.."),
    ("update_task", "xxx...."),
    ("update_workspace", "x......"),
    ("withdraw_issue", "x......"),
];

/// Operations that need more than one repository, machine or store. They have their own tests; here the owner gets to the rule
/// that misses it.
const IMPOSSIBLE: &[(&str, &str)] = &[
    ("accept_failover", "has no server that could fail over"),
    ("accept_issue", "is not proposed"),
    ("add_repository", "cannot hold other"),
    ("propose_issue", "is only in the ledger of"),
    ("reject_issue", "is not proposed"),
    ("remove_repository", "no repository \"other\""),
    ("remove_workflow_repository", "it has no other"),
    ("remove_worktree", "no worktree"),
    ("repair_clock", "is not ahead of the clock"),
    ("retire_workflow", "was not moved"),
    ("take_workflow", "wrong arguments"),
    ("withdraw_issue", "is only in the ledger of"),
];

/// Writes that succeed and have nothing to do in the repository of the test, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("add_workflow_repository", "the workflow has the only repository of the server"),
    ("collect_garbage", "nothing may be removed"),
    ("confirm_notice", "there is no notice of this time"),
    ("deliver_workspace", "the workspace has no new work"),
    ("expire_due", "nothing is due, and every request does this first"),
    ("register", "every caller is registered"),
];

/// A server whose store has the work of three agents: ann, bob, and carol, who is a coordinator. Each has one of everything.
struct Stage {
    server: Server,
    tokens: BTreeMap<&'static str, String>,
    /// Ids: `bob/task` is the task that bob holds.
    ids: BTreeMap<String, Value>,
    /// A copy of the store as each call finds it.
    kept: PathBuf,
    /// The files as each call finds them.
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// The secret of the job that works on the task of ann.
const JOB_SECRET: &str = "wpj_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A plan of two tasks, one after the other.
fn plan() -> Value {
    json!({ "tasks": [{ "name": "build" }, { "name": "test", "depends_on": ["build"] }] })
}

/// The process of a job on another machine.
fn process() -> Value {
    json!({ "boot_id": "x", "pid": 1, "start_time": 1 })
}

impl Stage {
    fn new() -> Stage {
        let server = Server::with_commit();
        let mut tokens = BTreeMap::from([("owner", server.token.clone()), ("job", JOB_SECRET.to_owned())]);
        tokens.insert("reader", server.token(&["--role", "read-only"]));
        for agent in ["ann", "bob", "carol"] {
            tokens.insert(agent, server.token(&["--agent", agent]));
        }
        let kept = server.sandbox.path("kept.db");
        let mut stage = Stage { server, tokens, ids: BTreeMap::new(), kept, files: Vec::new() };
        stage.made("owner", "register_agent", &json!({ "name": "carol", "role": "coordinator" }));
        for agent in ["ann", "bob"] {
            stage.give_work(agent);
        }
        stage.made("owner", "send_message", &json!({ "to": "carol", "body": "x" }));
        stage.copy_store(false);
        stage.files = stage.read_files();
        stage
    }

    /// Runs an operation that must succeed, and returns the id in its answer.
    #[track_caller]
    fn made(&self, who: &str, operation: &str, arguments: &Value) -> Value {
        let reply = call(&self.server, &self.tokens[who], operation, arguments);
        assert_eq!(reply.status, 200, "{operation} {arguments}: {reply:?}");
        reply.data()["id"].clone()
    }

    fn id(&self, agent: &str, name: &str) -> &Value {
        &self.ids[&format!("{agent}/{name}")]
    }

    /// Gives an agent a workflow in each state, with its first task, a job, a workspace, issues and a message.
    fn give_work(&mut self, agent: &'static str) {
        let mut ids: BTreeMap<&str, Value> = BTreeMap::new();
        for (name, more) in [
            ("draft", json!({})),
            ("planned", json!({ "plan": plan() })),
            ("paused", json!({ "plan": plan(), "start": true })),
            (
                "merged",
                json!({ "plan": { "tasks": [{ "name": "build" }] }, "start": true, "config": { "awaits_merge": true } }),
            ),
            ("dead", json!({ "plan": plan(), "start": true })),
            ("asked", json!({ "plan": plan(), "start": true })),
            ("workflow", json!({ "plan": plan(), "start": true })),
            ("ready", json!({ "plan": plan(), "start": true })),
        ] {
            let mut arguments = more;
            arguments["name"] = json!(format!("{agent}-{name}"));
            let workflow = self.made(agent, "add_workflow", &arguments);
            let shown =
                call(&self.server, &self.tokens[agent], "show_workflow", &json!({ "workflow": workflow })).data();
            let task = |name: &str| {
                let mut tasks = shown["tasks"].as_array().unwrap().iter();
                tasks.find(|task| task["name"] == name).map_or(Value::Null, |task| task["id"].clone())
            };
            let of_task = |operation: &str, mut arguments: Value| {
                arguments["task"] = task("build");
                let reply = call(&self.server, &self.tokens[agent], operation, &arguments);
                assert_eq!(reply.status, 200, "{operation} {arguments}: {reply:?}");
            };
            if ["dead", "asked", "workflow"].contains(&name) {
                of_task("claim_task", json!({}));
            }
            match name {
                "paused" => drop(self.made(agent, "pause_workflow", &json!({ "workflow": workflow }))),
                "merged" => of_task("skip_task", json!({})),
                "dead" => of_task("fail_task", json!({ "epoch": 1, "error": "x", "hopeless": true })),
                "asked" => of_task("ask_question", json!({ "epoch": 1, "question": "x" })),
                "workflow" => {
                    ids.insert("task", task("build"));
                    ids.insert("waiting task", task("test"));
                }
                _ => {}
            }
            if name == "dead" || name == "asked" {
                ids.insert(if name == "dead" { "dead task" } else { "asked task" }, task("build"));
            }
            ids.insert(name, workflow);
        }
        for title in ["held", "free", "closed", "other"] {
            ids.insert(title, self.made("owner", "add_issue", &json!({ "title": title })));
        }
        self.made(agent, "claim_issue", &json!({ "issue": ids["held"] }));
        self.made(agent, "close_issue", &json!({ "issue": ids["closed"] }));
        self.made(agent, "add_dependency", &json!({ "issue": ids["held"], "on": ids["other"] }));
        ids.insert("message", self.made("owner", "send_message", &json!({ "to": agent, "subject": "s", "body": "x" })));
        self.made("owner", "save_template", &json!({ "name": agent, "body": plan() }));
        let workspace = self.server.way(&["ws", "new", "--json"]).data()["id"].clone();
        ids.insert("workspace", workspace);
        let named = self.server.ask("POST", "/api/v1/op/add_job_record").with("Waypost-Agent", agent);
        let job = json!({ "command": ["true"], "task": ids["task"], "epoch": 1, "work_dir": "/", "machine": "far", "new_machine": true });
        let job = named.json(&job).send().data()["id"].clone();
        let hash = hash_token(if agent == "ann" { JOB_SECRET } else { agent });
        let supervisor = json!({ "job": job, "machine": "far", "supervisor": process(), "token_hash": hash });
        self.made("owner", "register_supervisor", &supervisor);
        self.made("owner", "record_job_started", &json!({ "job": job, "process": process() }));
        let waiting = json!({ "command": ["true"], "work_dir": "/", "machine": "far", "new_machine": true });
        ids.insert("waiting job", self.made("owner", "add_job_record", &waiting));
        ids.insert("job", job);
        self.ids.extend(ids.into_iter().map(|(name, id)| (format!("{agent}/{name}"), id)));
    }

    fn store(&self) -> PathBuf {
        self.server.repo.join(".git/waypost/state.db")
    }

    /// Copies the store, or puts the copy back.
    fn copy_store(&self, is_back: bool) {
        let (from, to) = if is_back { (&self.kept, &self.store()) } else { (&self.store(), &self.kept) };
        let (from, mut to) = (Connection::open(from).unwrap(), Connection::open(to).unwrap());
        Backup::new(&from, &mut to).unwrap().run_to_completion(1_000, std::time::Duration::ZERO, None).unwrap();
    }

    /// Reads what else a call could change: the ledger with its private files, the tokens, and the branches.
    fn read_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let private = self.server.repo.join(".git/waypost");
        let files = ["issues.jsonl", "config.toml"].map(|name| self.server.repo.join(".waypost").join(name));
        let own = ["ledger.intent", "ledger.kept", "ledger.written", "tokens.json", "config.toml"]
            .map(|name| private.join(name));
        let files = files.into_iter().chain(own).chain([self.server.repo.join(".git/config")]);
        files.map(|file| (file.clone(), std::fs::read(&file).unwrap_or_default())).collect()
    }

    fn changed_files(&self) -> Vec<PathBuf> {
        let changed = self.read_files().into_iter().filter(|file| !self.files.contains(file));
        changed.map(|(file, _)| file).collect()
    }

    /// Makes everything as it was, after a call with an effect.
    fn restore(&self) {
        self.copy_store(true);
        let changed = self.changed_files();
        for (file, content) in self.files.iter().filter(|(file, _)| changed.contains(file)) {
            self.server.sandbox.write(file, content);
        }
    }

    /// Returns every row of the store.
    fn rows(&self) -> BTreeSet<String> {
        let store = Connection::open(self.store()).unwrap();
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
        let mut names = store.prepare(names).unwrap();
        let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let mut rows = BTreeSet::new();
        for name in names {
            let mut all = store.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let columns = all.column_count();
            let shown = all.query_map([], |row| {
                let value = |column| Ok(format!("{:?}", row.get_ref(column)?));
                (0..columns).map(value).collect::<rusqlite::Result<Vec<_>>>()
            });
            rows.extend(shown.unwrap().map(|row| format!("{name}: {}", row.unwrap().join(", "))));
        }
        rows
    }

    /// Returns the arguments of an operation about the work of an agent, with which it succeeds if it is permitted.
    fn arguments(&self, operation: &str, role: Role) -> Value {
        let agent = role.subject();
        let id = |name: &str| self.id(agent, name);
        let of_task = |name: &str, more: Value| with(more, "task", id(name));
        let held = |more: Value| with(of_task("task", more), "epoch", &json!(1));
        let of_issue = |more: Value| with(more, "issue", id("held"));
        let of_workflow = |name: &str, more: Value| with(more, "workflow", id(name));
        let of_job = |more: Value| with(more, "job", id("job"));
        let of_workspace = |more: Value| with(more, "workspace", id("workspace"));
        let none = || json!({});
        match operation {
            "add_checkpoint" => held(json!({ "kind": "progress", "summary": "x" })),
            "ask_question" => held(json!({ "question": "x" })),
            "fail_task" => held(json!({ "error": "x" })),
            "finish_task" => held(json!({ "outcome": "x" })),
            "heartbeat" | "pause_task" | "release_task" => held(none()),
            "answer_question" => of_task("asked task", json!({ "answer": "x" })),
            "reopen_task" => of_task("dead task", none()),
            "assign_task" => of_task("waiting task", json!({ "agent": agent })),
            "remove_task" | "skip_task" => of_task("waiting task", none()),
            "update_task" => of_task("waiting task", json!({ "priority": 0 })),
            "claim_task" | "list_checkpoints" | "show_context" | "show_task" => of_task("task", none()),

            "add_task" => of_workflow("workflow", json!({ "task": { "name": "new" } })),
            "add_workflow_repository" | "remove_workflow_repository" => {
                of_workflow("planned", json!({ "repository": "repo" }))
            }
            "cancel_workflow" | "pause_workflow" | "show_workflow" | "show_workflow_summary" => {
                of_workflow("workflow", none())
            }
            "plan_workflow" => of_workflow("draft", json!({ "plan": plan() })),
            "replan_workflow" => {
                of_workflow("planned", json!({ "plan": { "tasks": [{ "name": "other" }] }, "reason": "x" }))
            }
            "resume_workflow" => of_workflow("paused", none()),
            "record_merge" => of_workflow("merged", json!({ "merged": true })),
            "dump_workflow" | "retire_workflow" | "start_workflow" => of_workflow("planned", none()),
            "freeze_workflow" => of_workflow("planned", json!({ "to": "x" })),
            "show_graph" => json!({ "subject": id("workflow") }),
            "add_workflow" => json!({ "name": "new", "plan": plan(), "start": true }),
            "apply_template" => json!({ "template": agent, "name": "new" }),
            "save_template" => json!({ "name": "new", "body": plan() }),
            "show_template" => json!({ "name": agent }),

            "add_comment" => of_issue(json!({ "text": "x" })),
            "add_dependency" => of_issue(json!({ "on": id("free") })),
            "remove_dependency" => of_issue(json!({ "on": id("other") })),
            "add_issue" => json!({ "title": "new" }),
            "reopen_issue" if is_of_another(role) => of_issue(none()),
            "reopen_issue" => json!({ "issue": id("closed") }),
            "update_issue" => of_issue(json!({ "title": "new" })),
            "claim_issue" | "close_issue" | "end_issue_lease" | "explain_issue" | "lease_issue" | "release_issue"
            | "remove_issue" | "show_issue" | "propose_issue" | "accept_issue" | "withdraw_issue" => of_issue(none()),
            "reject_issue" => of_issue(json!({ "reason": "x" })),
            "search_issues" => json!({ "text": "held" }),
            "confirm_changes" => json!({ "key": agent, "result": "x" }),
            "confirm_notice" => of_issue(json!({ "created_at": 0, "result": "x" })),
            "defer_changes" => json!({ "key": "new", "changes": [{ "close": [id("held"), null] }] }),

            "ack_message" => json!({ "messages": [id("message")] }),
            "read_message" | "show_thread" => json!({ "message": id("message") }),
            "send_message" => json!({ "to": "carol", "body": "x" }),
            "broadcast_message" => json!({ "body": "x" }),
            "register_agent" => json!({ "name": agent, "capabilities": ["rust"] }),
            "retire_agent" | "show_agent" => json!({ "agent": agent }),
            "list_events" | "list_workflows" => json!({ "query": { "limit": 9 } }),

            "start_job" => json!({ "command": ["true"], "machine": "far", "new_machine": true }),
            "add_job_record" => json!({ "command": ["true"], "work_dir": "/", "machine": "far", "new_machine": true }),
            "append_log" => of_job(json!({ "from": 0, "text": "x", "keep": 9 })),
            "cancel_job" | "choose_base" | "finish_job" | "show_job" | "show_log" => of_job(none()),
            "show_stored_log" => of_job(json!({ "limit": 9 })),
            "update_job" => of_job(json!({ "phase": "x" })),
            "register_supervisor" => json!({ "job": id("waiting job"), "machine": "far", "supervisor": process() }),
            "record_job_started" => json!({ "job": id("waiting job"), "process": process() }),
            "record_machine" => json!({ "machine": "new" }),
            "record_maintenance" => json!({ "what": "vacuumed", "detail": null }),
            "collect_garbage" | "find_garbage" => json!({ "older_than_ms": 1 }),
            "list_summaries" | "show_work_status" => json!({ "limit": 9 }),
            "list_live_workspaces" => json!({ "machine": "far" }),
            "add_workspace" => json!({ "id": "ws_000000000000", "machine": "far", "path": "/x", "strategy": "clone" }),
            "update_workspace" => of_workspace(json!({ "note": "x" })),
            "deliver_workspace" | "explain_workspace" | "remove_workspace" | "show_diff" | "show_workspace"
            | "snapshot_workspace" => of_workspace(none()),
            "add_repository" => json!({ "repository": {
                "id": "rp_000000000001", "name": "other", "path": "/x", "vcs": "git", "remote_url": null, "default_branch": null,
            } }),
            "remove_repository" => json!({ "repository": "other" }),
            "remove_worktree" => json!({ "id": "wt_000000000000" }),
            "take_workflow" => json!({ "dump": null, "from": "x", "into": "x" }),
            _ => none(),
        }
    }

    /// Begins a request.
    fn ask(&self, path: &str, role: Role) -> Ask<'_> {
        self.server.ask("POST", path).by(&self.tokens[role.token()])
    }

    /// Asks for an operation, and returns the error. The owner asks in the name of the agent whose work it is about, and
    /// answers questions as a person.
    fn run(&self, operation: &str, role: Role) -> Value {
        let ask = self.ask(&format!("/api/v1/op/{operation}"), role).json(&self.arguments(operation, role));
        let is_agent = role == Role::Owner && operation != "answer_question";
        let ask = if is_agent { ask.with("Waypost-Agent", role.subject()) } else { ask };
        ask.send().json()["error"].take()
    }
}

/// Returns whether the work that a request of this role is about belongs to another agent, which holds its issue.
fn is_of_another(role: Role) -> bool {
    [Role::Coordinator, Role::Foreign].contains(&role)
}

/// Adds a field.
fn with(mut object: Value, field: &str, value: &Value) -> Value {
    object[field] = value.clone();
    object
}

impl Role {
    /// Returns the name of its token.
    fn token(self) -> &'static str {
        match self {
            Role::Owner => "owner",
            Role::Coordinator => "carol",
            Role::Agent | Role::Foreign => "ann",
            Role::Job | Role::ForeignJob => "job",
            Role::Reader => "reader",
        }
    }

    /// Returns the agent whose work a request of this role is about.
    fn subject(self) -> &'static str {
        match self {
            Role::Agent | Role::Job => "ann",
            Role::Owner | Role::Coordinator | Role::Foreign | Role::ForeignJob | Role::Reader => "bob",
        }
    }
}

/// Returns whether the table permits an operation.
fn may(operation: &str, role: Role) -> bool {
    let row = TABLE.iter().find(|(name, _)| *name == operation).unwrap().1;
    row.as_bytes()[ROLES.iter().position(|known| *known == role).unwrap()] == b'x'
}

/// Reads the code of an error. A refusal that names the holder of a task or an issue is a conflict.
fn is_refusal(error: &Value) -> bool {
    ["refused", "conflict", "lease_lost"].iter().any(|code| error["code"] == *code)
}

impl Stage {
    /// Tries an operation with every role. Returns what differs from the table: a permitted call must succeed, and change
    /// something if it is a write; any other call must be refused, and change nothing.
    fn try_roles(&self, operation: &str, ask: impl Fn(Role) -> Value) -> Vec<String> {
        let about = waypost::app::operations().find(|about| about.name == operation).unwrap();
        let impossible = IMPOSSIBLE.iter().find(|(name, _)| *name == operation).map(|(_, reason)| *reason);
        let mut wrong = Vec::new();
        for role in ROLES {
            let is_open = may(operation, role);
            // Any other operation on issues would deliver the changes.
            let needs_changes = operation == "confirm_changes";
            if needs_changes {
                let changes =
                    json!({ "key": role.subject(), "changes": [{ "comment": [self.id("bob", "free"), "x"] }] });
                call(&self.server, &self.tokens[role.subject()], "defer_changes", &changes).data();
            }
            let before = self.rows();
            let error = ask(role);
            let has_ended_well = match impossible.filter(|_| is_open) {
                Some(reason) => error["message"].as_str().is_some_and(|message| message.contains(reason)),
                None if is_open => error.is_null(),
                None => is_refusal(&error),
            };
            if !has_ended_well {
                wrong.push(format!("{operation} as {role:?}: {error}"));
            }
            let after = self.rows();
            let mut files = self.changed_files();
            // What is kept until a commit follows each restored ledger.
            files.retain(|file| !file.ends_with("ledger.kept"));
            let is_changed = after != before || !files.is_empty();
            let is_write = about.effect == Effect::Write && WITHOUT_EFFECT.iter().all(|(name, _)| *name != operation);
            let must_change = is_open && is_write && impossible.is_none();
            if is_changed != must_change {
                let rows: Vec<_> = after.symmetric_difference(&before).take(4).collect();
                wrong.push(format!("{operation} as {role:?}: has changed: {is_changed}: {rows:?} {files:?}"));
            }
            if is_changed || needs_changes {
                self.restore();
            }
        }
        wrong
    }
}

#[test]
fn t13_every_operation_is_open_to_the_roles_of_its_row_and_no_other() {
    let mut operations: Vec<_> = waypost::app::operations().map(|about| about.name).collect();
    let rows: BTreeSet<_> = TABLE.iter().map(|(name, _)| *name).collect();
    assert_eq!(operations.iter().copied().collect::<BTreeSet<_>>(), rows, "every operation needs a row in the table");
    // The directory of a workspace does not come back.
    operations.sort_by_key(|operation| *operation == "remove_workspace");
    let stage = Stage::new();
    let wrong =
        operations.into_iter().flat_map(|operation| stage.try_roles(operation, |role| stage.run(operation, role)));
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

/// Returns the arguments of a tool with the ids of the stage.
fn of_tool(stage: &Stage, operation: &str, arguments: &Value, role: Role) -> Value {
    let id = |name: &str| stage.id(role.subject(), name);
    let mut arguments = arguments.clone();
    for (field, value) in arguments.as_object_mut().unwrap() {
        match field.as_str() {
            "task" => *value = id("task").clone(),
            "id" if operation == "reopen_issue" && !is_of_another(role) => *value = id("closed").clone(),
            "id" => *value = id("held").clone(),
            "on" | "blocked_by" => *value = id("free").clone(),
            "epoch" => *value = json!(1),
            "ids" => *value = json!([id("message")]),
            "to" => *value = json!("carol"),
            "workspace" => *value = id("workspace").clone(),
            _ => {}
        }
    }
    // The tokens of the others name their agent.
    match role {
        Role::Owner => with(arguments, "agent", &json!(role.subject())),
        // To write, it would have to act as an agent.
        Role::Reader if !may(operation, role) => with(arguments, "agent", &json!(role.subject())),
        _ => arguments,
    }
}

#[test]
fn t13_every_tool_is_open_to_the_roles_of_the_row_of_its_operation_and_no_other() {
    let stage = Stage::new();
    let send = |role: Role, method: &str, params: &Value| {
        let ask = stage.ask("/mcp", role).with("Accept", "application/json, text/event-stream");
        let reply = ask.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).send();
        let mut answer: Value = serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"));
        answer["result"].take()
    };
    let tools = tools_of_operations();
    let word =
        |arguments: &Value| ["do", "how"].iter().find_map(|choice| arguments[choice].as_str()).map(str::to_owned);
    let tried: BTreeSet<_> = tools.iter().map(|(_, tool, arguments)| ((*tool).to_owned(), word(arguments))).collect();
    let mut known = BTreeSet::new();
    for tool in send(Role::Agent, "tools/list", &json!({}))["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap().to_owned();
        let fields = &tool["inputSchema"]["properties"];
        match ["do", "how"].iter().find_map(|choice| fields[choice]["enum"].as_array()) {
            Some(words) => known.extend(words.iter().map(|word| (name.clone(), word.as_str().map(str::to_owned)))),
            None => drop(known.insert((name, None))),
        }
    }
    assert_eq!(tried, known, "every tool is tried with each of its words");
    let wrong = tools.iter().flat_map(|(operation, tool, arguments)| {
        stage.try_roles(operation, |role| {
            let params = json!({ "name": tool, "arguments": of_tool(&stage, operation, arguments, role) });
            let mut answer = send(role, "tools/call", &params);
            // A task that failed has an error, too.
            if answer["isError"] == true { answer["structuredContent"]["error"].take() } else { Value::Null }
        })
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

/// Returns the table as SECURITY.md shows it: the operations that the same roles may run, together.
fn shown_table() -> String {
    const COLUMNS: [&str; 7] = [
        "owner",
        "coordinator, other work",
        "agent, own work",
        "agent, other work",
        "job, own task",
        "job, other task",
        "reader",
    ];
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, row) in TABLE {
        match groups.iter_mut().find(|(known, _)| known == row) {
            Some((_, names)) => names.push(name),
            None => groups.push((row, vec![name])),
        }
    }
    groups.sort_by_key(|(row, _)| std::cmp::Reverse(row.matches('x').count()));
    let mut shown = format!("| {} | operations |\n|{}---|\n", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
    for (row, names) in groups {
        let marks: Vec<&str> = row.chars().map(|mark| if mark == 'x' { "yes" } else { "" }).collect();
        writeln!(shown, "| {} | {} |", marks.join(" | "), names.join(", ")).unwrap();
    }
    shown
}

#[test]
fn the_document_about_security_shows_the_table() {
    const MARKS: [&str; 2] = ["<!-- roles -->\n\n", "\n<!-- end of roles -->"];
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
    let document = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = document.split_once(MARKS[0]).unwrap();
    let after = rest.split_once(MARKS[1]).unwrap().1;
    expect_test::expect_file![file].assert_eq(&[before, MARKS[0], &shown_table(), MARKS[1], after].concat());
}
