//! A worker of its own kind: it takes the tasks that need the capability `count`, counts the files of the repository, leaves
//! a checkpoint, and finishes each task with the number.
//!
//! `cargo run -p waypost --example custom_worker -- PATH` ends when no task is left.
#![expect(clippy::print_stdout, reason = "an example prints")]

use serde_json::json;
use waypost::app::{App, Who};
use waypost::machine::place::Place;
use waypost::{Error, Kind, Result};

fn main() -> Result<()> {
    let repository = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let app = App::one_process(Place::at(&repository)?);
    let me = Who::agent("counter");
    // Operations can be called with JSON as well, as over HTTP and MCP; docs/openapi.json describes them all.
    app.request("register_agent", json!({ "capabilities": ["count"] }), &me)?;
    // So that there is something to do.
    let tasks =
        json!([{ "name": "census", "capabilities": ["count"] }, { "name": "recount", "capabilities": ["count"] }]);
    app.request("add_workflow", json!({ "name": "numbers", "plan": { "tasks": tasks }, "start": true }), &me)?;
    loop {
        let claimed = match app.request("claim_task", json!({}), &me) {
            Ok(reply) => reply.answer,
            Err(error) if error.kind() == Kind::NothingToDo => return Ok(()),
            Err(error) => return Err(error),
        };
        let (task, epoch) = (&claimed["task"]["id"], &claimed["lease"]["epoch"]);
        app.request(
            "add_checkpoint",
            json!({ "task": task, "epoch": epoch, "kind": "progress", "summary": "counting" }),
            &me,
        )?;
        let entries = std::fs::read_dir(&repository)
            .map_err(|error| Error::unavailable(format!("cannot read {repository}")).because(error))?;
        let outcome = format!("{} files", entries.count());
        app.request("finish_task", json!({ "task": task, "epoch": epoch, "outcome": outcome }), &me)?;
        println!("{}: {outcome}", claimed["task"]["name"].as_str().unwrap_or_default());
    }
}
