//! Creates a workflow of two tasks, and finishes them in the order of their dependencies.
//!
//! `cargo run -p waypost --example run_workflow -- PATH`
#![expect(clippy::print_stdout, reason = "an example prints")]

use serde_json::json;
use waypost::app::{App, Who};
use waypost::machine::place::Place;
use waypost::op::{AddWorkflow, ClaimTask, FinishTask, decode};
use waypost::{Kind, Result};

fn main() -> Result<()> {
    let repository = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let app = App::one_process(Place::at(repository)?);
    let ann = Who::agent("ann");
    let plan = json!({ "tasks": [{ "name": "build" }, { "name": "test", "depends_on": ["build"] }] });
    let create: AddWorkflow = decode(&json!({ "name": "release", "plan": plan, "start": true }))?;
    let workflow = app.run(&create, &ann)?.answer;
    println!("{} has {} tasks", workflow.workflow.name, workflow.total);
    loop {
        let claim = ClaimTask { workflow: Some(workflow.workflow.id.to_string()), ..ClaimTask::default() };
        let claimed = match app.run(&claim, &ann) {
            Ok(reply) => reply.answer,
            // Nothing is ready: every task is done, or waits for another agent.
            Err(error) if error.kind() == Kind::NothingToDo => break,
            Err(error) => return Err(error),
        };
        println!("working on {}", claimed.task.task.name);
        let finish = FinishTask {
            task: claimed.task.task.id.to_string(),
            epoch: Some(claimed.lease.epoch),
            outcome: "done".to_owned(),
            ..FinishTask::default()
        };
        app.run(&finish, &ann)?;
    }
    Ok(())
}
