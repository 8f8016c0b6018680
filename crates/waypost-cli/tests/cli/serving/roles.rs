//! Every operation with every kind of token. The table has one row per operation: a new operation needs its own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use waypost_core::op::{AgentAccess, Description};

use super::{Server, plan, schema};

/// A caller: a token, and whose work the request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Admin,
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
    [Role::Admin, Role::Coordinator, Role::Agent, Role::Foreign, Role::Job, Role::ForeignJob, Role::Reader];

/// The roles that may run an operation, one column each: admin, coordinator, agent on its own work, agent on the work of
/// another one, job on its own task, job on another one, read-only. `x` stands for yes.
const TABLE: &[(&str, &str)] = &[
    ("accept_failover", "x......"),
    ("accept_issue", "x......"),
    ("ack_message", "xxxxxx."),
    ("add_checkpoint", "xxx.x.."),
    ("add_comment", "xxxx..."),
    ("add_dependency", "xxxx..."),
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
    ("ask_question", "xxx.x.."),
    ("assign_task", "xxx...."),
    ("broadcast_message", "xxxx..."),
    ("cancel_job", "x......"),
    ("cancel_workflow", "xxx...."),
    ("choose_base", "xxxxxxx"),
    ("claim_issue", "xxxx..."),
    ("claim_task", "xxx...."),
    ("close_issue", "xxxx..."),
    ("collect_garbage", "x......"),
    ("confirm_changes", "xxxxxx."),
    ("confirm_notice", "xxxxxx."),
    ("deliver_workspace", "x......"),
    ("defer_changes", "xxxxxx."),
    ("dump_workflow", "xxxxxxx"),
    ("end_issue_lease", "xxxxxx."),
    ("expire_due", "xxxx..."),
    ("explain_issue", "xxxxxxx"),
    ("explain_workspace", "xxxxxxx"),
    ("fail_task", "xxx.x.."),
    ("find_garbage", "xxxxxxx"),
    ("finish_job", "x......"),
    ("finish_task", "xxx.x.."),
    ("freeze_workflow", "x......"),
    ("heartbeat", "xxx.x.."),
    ("introduce_agent", "xxxxxxx"),
    ("lease_issue", "xxxxxx."),
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
    ("list_summaries", "xxxxxxx"),
    ("list_tasks", "xxxxxxx"),
    ("list_templates", "xxxxxxx"),
    ("list_workflows", "xxxxxxx"),
    ("list_workspaces", "xxxxxxx"),
    ("list_worktrees", "xxxxxxx"),
    ("pause_task", "xxx.x.."),
    ("pause_workflow", "xxx...."),
    ("plan_workflow", "xxx...."),
    ("prime", "xxxxxxx"),
    ("propose_issue", "x......"),
    ("read_message", "xxxxxx."),
    ("record_job_started", "x......"),
    ("record_machine", "x......"),
    ("record_maintenance", "x......"),
    ("record_merge", "xxx...."),
    ("register", "xxxxxx."),
    ("register_agent", "xxx...."),
    ("register_supervisor", "x......"),
    ("reject_issue", "x......"),
    ("release_issue", "xxxx..."),
    ("release_task", "xxx.x.."),
    ("remove_dependency", "xxxx..."),
    ("remove_issue", "x......"),
    ("remove_repository", "x......"),
    ("remove_task", "xxx...."),
    ("remove_workflow_repository", "xxx...."),
    ("remove_workspace", "x......"),
    ("remove_worktree", "x......"),
    ("reopen_issue", "xxxx..."),
    ("reopen_task", "xxx...."),
    ("repair_clock", "x......"),
    ("replan_workflow", "xxx...."),
    ("resume_workflow", "xxx...."),
    ("retire_agent", "xxx...."),
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
    ("show_log", "xxxxx.."),
    ("show_status", "xxxxxxx"),
    ("show_stored_log", "xxxx..x"),
    ("show_task", "xxxxxxx"),
    ("show_template", "xxxxxxx"),
    ("show_thread", "xxxxxxx"),
    ("show_work_status", "xxxxxxx"),
    ("show_workflow", "xxxxxxx"),
    ("show_workflow_summary", "xxxxxxx"),
    ("show_workspace", "xxxxxxx"),
    ("skip_task", "xxx...."),
    ("snapshot_workspace", "x......"),
    ("start_job", "x......"),
    ("start_workflow", "xxx...."),
    ("take_workflow", "x......"),
    ("update_issue", "xxxx..."),
    ("update_job", "x...x.."),
    ("update_task", "xxx...."),
    ("update_workspace", "x......"),
    ("withdraw_issue", "x......"),
];

/// The store of the test: each agent planned a workflow of its own, and holds its first task.
struct Stage {
    server: Server,
    tokens: Vec<(Role, String)>,
    /// The name of the job's token.
    job: Value,
}

/// A workflow and its first task.
struct Work {
    workflow: String,
    task: String,
}

impl Stage {
    fn new() -> Stage {
        let server = Server::start(&[]);
        let _ = server.way(&["agent", "register", "carol", "--role", "coordinator"]).ok();
        let [ann, _bob, carol] = ["ann", "bob", "carol"].map(|name| {
            let token = server.token(&["--agent", name]);
            let create = json!({ "name": name, "plan": plan(), "start": true });
            server.ask("POST", "/api/v1/workflows").by(&token).json(&create).send().data();
            let claim = json!({ "workflow": name, "task": "build" });
            server.ask("POST", "/api/v1/op/claim_task").by(&token).json(&claim).send().data();
            token
        });
        let mut stage = Stage { server, tokens: Vec::new(), job: Value::Null };
        let task = stage.work("ann").task;
        let job = stage.server.token(&["--role", "job", "--agent", "ann", "--task", &task]);
        let reader = stage.server.token(&["--role", "read-only"]);
        let tokens = stage.server.way(&["token", "list", "--json"]).data();
        stage.job = tokens.as_array().unwrap().iter().find(|token| token["role"] == "job").unwrap()["id"].clone();
        let admin = stage.server.token.clone();
        stage.tokens = vec![
            (Role::Admin, admin),
            (Role::Coordinator, carol),
            (Role::Agent, ann.clone()),
            (Role::Foreign, ann),
            (Role::Job, job.clone()),
            (Role::ForeignJob, job),
            (Role::Reader, reader),
        ];
        stage
    }

    fn work(&self, agent: &str) -> Work {
        let shown = self.server.get(&format!("/api/v1/workflows/{agent}")).data();
        let id = |of: &Value| of["id"].as_str().unwrap().to_owned();
        let task = shown["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "build").unwrap();
        Work { workflow: id(&shown), task: id(task) }
    }

    /// Returns the agent whose work a request of this role is about.
    fn owner(role: Role) -> &'static str {
        match role {
            Role::Foreign | Role::ForeignJob => "bob",
            Role::Agent | Role::Job => "ann",
            Role::Admin | Role::Coordinator | Role::Reader => "carol",
        }
    }

    /// Asks for an operation, and returns the status of the answer.
    fn ask(&self, about: &Description, role: Role) -> (u16, String) {
        let (token, owner) = (&self.tokens.iter().find(|(known, _)| *known == role).unwrap().1, Stage::owner(role));
        let Work { workflow, task } = self.work(owner);
        let schema = schema(about);
        let mut arguments = Map::new();
        for field in schema["properties"].as_object().map(|fields| fields.keys()).into_iter().flatten() {
            let value = match field.as_str() {
                "task" => json!(task),
                "workflow" => json!(workflow),
                "epoch" => json!(1),
                "job" if role == Role::Job => self.job.clone(),
                "job" => json!("jb_000000000000"),
                "workspace" if about.name == "show_diff" => json!("ws_000000000000"),
                "agent" if about.name == "retire_agent" || about.name == "assign_task" => json!(owner),
                "name" if about.name == "register_agent" => json!(owner),
                "name" | "repository" | "reason" if is_checked_in_the_store(about) => json!("x"),
                "plan" | "body" if is_checked_in_the_store(about) => plan(),
                "kind" if about.name == "add_checkpoint" => json!("progress"),
                "summary" | "outcome" | "error" | "question" if about.name.ends_with("_task") => json!("x"),
                "summary" if about.name == "add_checkpoint" => json!("x"),
                "question" => json!("x"),
                _ => continue,
            };
            arguments.insert(field.clone(), value);
        }
        let path = format!("/api/v1/op/{}", about.name);
        let reply = self.server.ask("POST", &path).by(token).json(&Value::Object(arguments)).send();
        (reply.status, reply.body)
    }
}

/// Operations that agents may run on their own work or as coordinators: only the store knows.
fn is_checked_in_the_store(about: &Description) -> bool {
    matches!(about.access.agents, AgentAccess::OwnWork | AgentAccess::Coordinators)
}

#[test]
fn t13_every_operation_is_open_to_the_roles_of_its_row_and_no_other() {
    let mut operations: Vec<_> = waypost::app::operations().collect();
    let names: BTreeSet<_> = operations.iter().map(|about| about.name).collect();
    assert_eq!(names, TABLE.iter().map(|(name, _)| *name).collect(), "every operation needs a row in the table");
    // An agent that has retired can do nothing else.
    operations.sort_by_key(|about| about.name == "retire_agent");
    let stage = Stage::new();
    let mut wrong = Vec::new();
    for about in &operations {
        let row = TABLE.iter().find(|(name, _)| *name == about.name).unwrap().1;
        // The roles that may not run it come first, so that no effect of a permitted call hides a refusal.
        let mut roles: Vec<_> = ROLES.into_iter().zip(row.chars().map(|mark| mark == 'x')).collect();
        roles.sort_by_key(|(_, is_open)| *is_open);
        for (role, is_open) in roles {
            let (status, body) = stage.ask(about, role);
            // A lease of another agent is a conflict.
            let is_rule = body.contains("has no server that could fail over");
            let is_refused =
                (status == 403 && !is_rule) || (status == 409 && matches!(role, Role::Foreign | Role::ForeignJob));
            if is_refused == is_open {
                wrong.push(format!("{} as {role:?}: {status} {body}", about.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let shown = stage.server.get("/api/v1/workflows/bob").data();
    let task = shown["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "build").unwrap();
    assert_eq!((&shown["status"], &task["status"]), (&json!("in_progress"), &json!("in_progress")), "{shown}");
    assert_eq!(task["holder"], "bob", "{shown}");
}

#[test]
fn an_agent_cannot_raise_its_limits_or_its_role() {
    let stage = Stage::new();
    let token = stage.server.token(&["--agent", "dan"]);
    let register = |body: Value| stage.server.ask("POST", "/api/v1/agents/register").by(&token).json(&body).send();
    register(json!({ "capabilities": ["rust"] })).data();
    for limit in [json!({ "max_claims": 99 }), json!({ "timeout_ms": 999_999_999 }), json!({ "role": "coordinator" })] {
        assert_eq!(register(limit.clone()).fails(403), "refused", "{limit}");
    }
    stage.server.post("/api/v1/agents/register", &json!({ "name": "dan", "max_claims": 1 })).data();
    register(json!({})).data();
    assert_eq!(stage.server.get("/api/v1/agents/dan").data()["max_claims"], 1);
}
