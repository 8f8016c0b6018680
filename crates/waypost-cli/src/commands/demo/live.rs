//! Keeps agents at work on new tasks, under a dashboard, until a signal asks to stop.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use waypost::session::Session;
use waypost::signals::ShutdownSignal;
use waypost_core::model::TaskStatus;
use waypost_core::op::{AnswerQuestion, ListTasks};
use waypost_core::{Error, Result};
use waypost_workspace::BackgroundStep;

use super::project::AGENTS;
use super::scratch::{Scratch, is_stopped_within};
use crate::commands::serve::{Args as ServeArgs, Server};
use crate::ui::{BOLD, Ui, cell, styled};

/// How long an agent takes for each of its steps, in seconds.
const PACE_S: u32 = 2;
/// Time between two looks at the work.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a question waits for the people who watch, before the demo answers it.
const ANSWER_AFTER_MS: u64 = 20_000;
/// Number of unfinished tasks below which a new round begins.
const MIN_TASKS: usize = 6;

/// Serves the dashboard while agents work.
pub(super) fn serve(ui: &Ui, scratch: &Scratch, shutdown: &ShutdownSignal, mut facts: Value) -> Result<()> {
    let server = Server::bind(&scratch.place()?, &ServeArgs::for_browser())?;
    let workers = Workers::start(scratch)?;
    facts["server"] = server.data.clone();
    let address = server.login().unwrap_or_default();
    ui.answer(&facts, |text| {
        text.gap();
        text.table(&[
            vec![styled(BOLD, "The dashboard, for one browser:")],
            vec![cell(format!("  {address}"))],
            vec![cell(format!("  {} go on working. Ctrl-C ends everything.", AGENTS.join(", ")))],
        ]);
    })?;
    let (stop, stopped) =
        UnixStream::pair().map_err(|error| Error::unavailable("cannot create a socket").because(error))?;
    let result = std::thread::scope(|scope| {
        let serving = scope.spawn(move || server.serve(|line| log::debug!("{line}"), Some(stopped)));
        let fed = feed(scratch, shutdown, || serving.is_finished());
        drop(stop);
        let ended = serving.join().unwrap_or_else(|_| Err(Error::internal("the thread of the server failed")));
        fed.and(ended)
    });
    drop(workers);
    result
}

/// Plans rounds of reviews and answers questions, until a signal or the end of the server.
fn feed(scratch: &Scratch, shutdown: &ShutdownSignal, is_over: impl Fn() -> bool) -> Result<()> {
    let mut session = scratch.session()?;
    let mut round = 0;
    loop {
        let unfinished = unfinished_tasks(&mut session)?;
        if unfinished < MIN_TASKS {
            round += 1;
            scratch.output(
                &scratch.shop,
                &format!("way workflow create review-{round} --plan ../review.yaml --start --quiet"),
            )?;
        }
        if is_stopped_within(shutdown, POLL_INTERVAL) || is_over() {
            return Ok(());
        }
    }
}

/// Returns the number of tasks that are not finished. Answers the questions that have waited long enough.
fn unfinished_tasks(session: &mut Session) -> Result<usize> {
    let tasks = session
        .call(ListTasks {
            workflow: None,
            statuses: Vec::new(),
            claimable: false,
            worktree_id: None,
            repository: None,
            here: false,
            limit: u32::MAX,
            after: None,
        })?
        .tasks;
    let now = session.now()?;
    for view in &tasks {
        let waited = now.since(view.task.updated_at);
        if view.task.status == TaskStatus::WaitingInput && waited > ANSWER_AFTER_MS {
            let answer =
                AnswerQuestion { task: view.task.id.to_string(), workflow: None, answer: "yes, keep it".to_owned() };
            session.call(answer)?;
        }
    }
    Ok(tasks.iter().filter(|view| !view.task.status.is_final()).count())
}

/// One worker for each agent. They end when this is dropped.
struct Workers(Vec<BackgroundStep>);

impl Workers {
    fn start(scratch: &Scratch) -> Result<Workers> {
        let mut workers = Workers(Vec::new());
        for agent in AGENTS {
            // Without patience: a signal also stops the job of a worker. Their input ends with this process, even if it is
            // killed.
            let line = format!(
                "way worker --agent {agent} --stop-with-input --patience 0s --cleanup -- ../reviewer.sh {PACE_S}"
            );
            workers.0.push(scratch.start(&scratch.shop, &line)?);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.iter().for_each(BackgroundStep::terminate);
        for worker in self.0.drain(..) {
            worker.wait();
        }
    }
}
