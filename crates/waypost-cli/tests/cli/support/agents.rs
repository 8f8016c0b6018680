//! Agents and workflows, written through the library.

use std::ffi::OsStr;
use std::path::Path;

use waypost::environment::Variables;
use waypost::place::{Place, Request, Scope};
use waypost::session::Session;
use waypost_core::op::{AddWorkflow, ClaimTask, FinishTask};
use waypost_core::work::plan::Plan;
use waypost_testkit::{Run, Sandbox};

/// The moment at which tests begin.
pub(crate) const START: &str = "2026-01-01T00:00:00Z";

/// Opens the store as an agent, for the setup of a test.
pub(crate) fn session(sandbox: &Sandbox, dir: &Path, agent: &str, clock: &str, is_global: bool) -> Session {
    let home = sandbox.path("home");
    let variables: Variables =
        [("HOME", home.as_os_str()), ("USER", OsStr::new("tester")), ("WAYPOST_TEST_CLOCK", OsStr::new(clock))]
            .into_iter()
            .collect();
    let request = Request {
        cwd: dir.to_owned(),
        variables,
        scope: is_global.then_some((Scope::Global, "--global")),
        agent: Some(agent.to_owned()),
        ..Request::default()
    };
    Session::open(Place::resolve(request).unwrap()).unwrap()
}

/// A running workflow.
pub(crate) fn workflow(name: &str, plan: &str) -> AddWorkflow {
    AddWorkflow {
        name: name.to_owned(),
        source: None,
        source_ref: None,
        source_content: None,
        summary: None,
        max_parallel: None,
        base: None,
        config: serde_json::Value::Null,
        plan: Some(Plan::from_text(plan).unwrap()),
        start: true,
        repositories: Vec::new(),
        shared: false,
        only_here: false,
    }
}

/// Claims a task by its name.
pub(crate) fn claim(task: &str) -> ClaimTask {
    ClaimTask {
        task: Some(task.to_owned()),
        workflow: None,
        worktree_id: None,
        repository: None,
        ttl_ms: None,
        budget: None,
    }
}

/// Completes a task by its name.
pub(crate) fn finish(task: &str) -> FinishTask {
    FinishTask { task: task.to_owned(), workflow: None, epoch: None, outcome: "it is done".to_owned(), evidence: None }
}

/// Runs a command at a moment.
#[track_caller]
pub(crate) fn at(sandbox: &Sandbox, dir: &Path, clock: &str, args: &[&str]) -> Run {
    sandbox.way_with(dir, &[("WAYPOST_TEST_CLOCK", OsStr::new(clock))], args)
}
