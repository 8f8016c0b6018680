//! The story of the demo: runs each step, and shows its command and result. A step that fails ends the demo.

use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost::signals::ShutdownSignal;
use waypost_core::{Error, Result};
use waypost_workspace::StepResult;

use super::project::{AGENTS, ANSWER, FOUND, LAST, PARTS, Part};
use super::scratch::{Scratch, failed};
use crate::spans::format_duration;
use crate::ui::{BOLD, DIM, Ui, styled};

/// The name of the workflow.
const WORKFLOW: &str = "checkout";
/// The exit code of a command that was killed with SIGKILL.
const KILLED: i32 = 128 + 9;
/// The agent that is killed, and the one that continues its task.
const VICTIM: usize = 2;
const SUCCESSOR: usize = 3;
/// The agent that asks.
const ASKER: usize = 1;

struct Story<'a> {
    ui: &'a Ui,
    scratch: &'a Scratch,
    shutdown: &'a ShutdownSignal,
    steps: Vec<Value>,
    /// The ids of the issues of the parts, which are the names of their tasks. The last part is the last one.
    tasks: Vec<String>,
}

/// Runs the demo, and returns its steps and what can be looked up afterwards.
pub(super) fn tell(ui: &Ui, scratch: &Scratch, shutdown: &ShutdownSignal) -> Result<Value> {
    let started = Instant::now();
    let mut story = Story { ui, scratch, shutdown, steps: Vec::new(), tasks: Vec::new() };
    story.open_project()?;
    story.plan()?;
    let workspace = story.work()?;
    story.continue_work(&workspace)?;
    story.merge()?;
    let proposal = story.propose()?;
    let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    story.conclude(took)?;
    Ok(json!({ "workflow": WORKFLOW, "proposal": proposal, "took_ms": took, "steps": story.steps }))
}

impl Story<'_> {
    fn open_project(&mut self) -> Result<()> {
        let (dir, upstream) = (&self.scratch.dir, &self.scratch.upstream);
        self.scratch.output(
            upstream,
            "git init --quiet && way init --maintainer --quiet && git add . && git commit --quiet -m 'Open the shop'",
        )?;
        self.heading("A small shop, cloned from its upstream. You plan in private, in a ledger of your own.")?;
        self.step(dir, "git clone --quiet upstream shop")?;
        self.here("way init --contributor --planning ../planning")?;
        self.here("sh test.sh")?;
        Ok(())
    }

    /// Adds the issues, and makes a workflow of them.
    fn plan(&mut self) -> Result<()> {
        self.heading("An epic, its parts, and what comes after them. The files of the project do not change.")?;
        let epic = self.add("way add 'A checkout for the shop' --type epic")?;
        let parts = self.add(&format!("way add 'Its parts' --type epic --parent {epic}"))?;
        let write = |part: &Part| format!("way add '{}' -d 'Write lib/{}.sh'", part.title, part.name);
        for part in &PARTS {
            let id = self.add(&format!("{} --parent {parts}", write(part)))?;
            self.tasks.push(id);
        }
        let id = self.add(&format!("{} --parent {epic} --blocked-by {parts}", write(&LAST)))?;
        self.tasks.push(id);
        self.here("git status --short")?;
        self.heading("The epic becomes a workflow. Its last task waits for the others.")?;
        self.here(&format!("way workflow from-issue {epic} --name {WORKFLOW} --start"))?;
        self.here(&format!("way graph {WORKFLOW}"))?;
        Ok(())
    }

    /// Adds an issue, and returns its id.
    fn add(&mut self, line: &str) -> Result<String> {
        let output = self.here(line)?;
        let id = output.split_whitespace().nth(1).map(str::to_owned);
        id.ok_or_else(|| Error::internal(format!("{line} printed no id: {output}")))
    }

    /// Lets four agents work at once, and kills one of them. Returns the workspace that it leaves.
    fn work(&mut self) -> Result<String> {
        self.heading(
            "Four agents at once, each in its own workspace. One is killed (kill -9) in the middle of its work.",
        )?;
        let of = |number: usize| {
            let (agent, task, branch) = (AGENTS[number], &self.tasks[number], PARTS[number].name);
            format!("way job start --quiet --agent {agent} --task {task} --branch {branch} -- ../agent.sh")
        };
        let lines: Vec<String> = (0..AGENTS.len()).map(of).collect();
        let (scratch, crash) = (self.scratch, Mutex::new(None));
        let results = self.together(&lines, &|number, printed| {
            if number == VICTIM && printed.ends_with("recorded a checkpoint") {
                let killed = kill(scratch, AGENTS[VICTIM]);
                *crash.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(killed);
            }
        })?;
        for (number, (line, result)) in lines.iter().zip(&results).enumerate() {
            let code = if number == VICTIM { KILLED } else { 0 };
            self.show(&self.scratch.shop, line, result, code)?;
        }
        let crash = crash.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        crash.unwrap_or_else(|| Err(Error::internal("no agent recorded a checkpoint")))
    }

    /// Answers the question, and lets other agents finish the work.
    fn continue_work(&mut self, workspace: &str) -> Result<()> {
        let (killed, successor, asker) = (AGENTS[VICTIM], AGENTS[SUCCESSOR], AGENTS[ASKER]);
        self.heading(&format!("{killed} is gone, and {asker} has a question. Your checkout is as it was."))?;
        self.here("git status --short")?;
        self.here("way status --line")?;
        self.here(&format!("way checkpoint list {}", self.tasks[VICTIM]))?;
        self.here(&format!("way task answer {} '{ANSWER}'", self.tasks[ASKER]))?;
        self.heading(&format!(
            "{successor} goes on from the checkpoint of {killed}, with the files that {killed} did not save."
        ))?;
        let lines = [
            format!(
                "way job start --quiet --agent {successor} --task {} --workspace {workspace} -- ../agent.sh",
                self.tasks[VICTIM]
            ),
            format!(
                "way job start --quiet --agent {asker} --task {} --branch {} -- ../agent.sh",
                self.tasks[ASKER], PARTS[ASKER].name
            ),
        ];
        let results = self.together(&lines, &|_, _| {})?;
        for (line, result) in lines.iter().zip(&results) {
            self.show(&self.scratch.shop, line, result, 0)?;
        }
        self.heading("The last task starts from the work of the others.")?;
        let task = &self.tasks[PARTS.len()];
        let agent = AGENTS[0];
        self.here(&format!(
            "way job start --quiet --agent {agent} --task {task} --branch {} -- ../agent.sh",
            LAST.name
        ))?;
        Ok(())
    }

    /// Brings the branches into the shop, merges them and runs the test of the project.
    fn merge(&mut self) -> Result<()> {
        self.heading("You merge what the agents did. The test of the project decides.")?;
        let jobs = self.scratch.json(&self.scratch.shop, "way job list --json")?;
        // The newest job of a task comes first.
        let newest = |task: &String| jobs.as_array().into_iter().flatten().find(|job| job["task"] == task.as_str());
        let ids: Vec<&str> = self.tasks.iter().filter_map(newest).filter_map(|job| job["id"].as_str()).collect();
        self.here(&format!("for job in {}; do way job deliver $job --local; done", ids.join(" ")))?;
        let branches: Vec<&str> = PARTS.iter().chain([&LAST]).map(|part| part.name).collect();
        self.here(&format!(
            "for branch in {}; do git merge --quiet --no-ff -m \"Merge $branch\" $branch; done",
            branches.join(" ")
        ))?;
        self.here("sh test.sh")?;
        Ok(())
    }

    /// Proposes the issue that an agent found, and accepts it upstream. Returns its id.
    fn propose(&mut self) -> Result<String> {
        let finder = AGENTS[SUCCESSOR];
        self.heading(&format!(
            "{finder} noted a bug on the way. You propose it with your change; upstream accepts it."
        ))?;
        let bugs = self.scratch.json(&self.scratch.shop, "way list --type bug --json")?;
        let bug = bugs.as_array().into_iter().flatten().find(|issue| issue["title"] == FOUND);
        let id = bug.and_then(|issue| issue["id"].as_str()).map(str::to_owned);
        let id = id.ok_or_else(|| Error::internal(format!("no issue {FOUND:?}: {bugs}")))?;
        let upstream = &self.scratch.upstream;
        self.here(&format!("way propose {id} --quiet"))?;
        self.here("git add .waypost && git commit --quiet -m 'Add a checkout, report a bug'")?;
        self.here("git push --quiet origin HEAD:checkout")?;
        self.step(upstream, "git merge --quiet checkout && sh test.sh")?;
        self.step(upstream, &format!("way accept {id}"))?;
        self.step(upstream, "git commit --quiet -a -m 'Accept the report'")?;
        self.here("git pull --quiet && way sync --quiet")?;
        self.here("way list --type bug")?;
        Ok(id)
    }

    /// Shows what to do next.
    fn conclude(&self, took: u64) -> Result<()> {
        let next = [
            ("way demo --serve", "watch agents work, in a browser"),
            ("way demo --keep", "keep the shop to look around"),
            ("way setup claude-code", "connect your agent"),
            ("way add 'Fix the login'", "in a repository of yours: no set-up needed"),
        ];
        if self.ui.json {
            return Ok(());
        }
        self.ui.page(|page| {
            page.gap();
            page.table(&[vec![styled(BOLD, format!("This took {}. What next?", format_duration(took)))]]);
            let rows: Vec<_> = next
                .iter()
                .map(|(command, what)| vec![styled(crate::ui::PLAIN, format!("  {command}")), styled(DIM, what)])
                .collect();
            page.table(&rows);
        })
    }

    fn heading(&self, text: &str) -> Result<()> {
        if self.ui.json {
            return Ok(());
        }
        let is_first = self.steps.is_empty();
        self.ui.page(|page| {
            if !is_first {
                page.gap();
            }
            page.table(&[vec![styled(BOLD, text)]]);
        })
    }

    /// Runs a command in the shop and shows it. Returns its standard output.
    fn here(&mut self, line: &str) -> Result<String> {
        let shop = &self.scratch.shop;
        self.step(shop, line)
    }

    fn step(&mut self, dir: &Path, line: &str) -> Result<String> {
        self.check_signal()?;
        let result = self.scratch.run(dir, line, &mut |_| {})?;
        self.show(dir, line, &result, 0)?;
        Ok(result.stdout)
    }

    /// Runs commands in the shop at the same time. `on_line` gets the number of a command and a line that it printed.
    fn together(&self, lines: &[String], on_line: &(dyn Fn(usize, &str) + Sync)) -> Result<Vec<StepResult>> {
        self.check_signal()?;
        let scratch = self.scratch;
        std::thread::scope(|scope| {
            let start = |(number, line): (usize, &'_ String)| {
                let line = line.clone();
                scope.spawn(move || scratch.run(&scratch.shop, &line, &mut |printed| on_line(number, printed)))
            };
            let running: Vec<_> = lines.iter().enumerate().map(start).collect();
            let ended = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(Error::internal("a thread of the demo failed"))));
            ended.collect()
        })
    }

    /// Shows a command with its output. Fails if it ended with another exit code.
    fn show(&mut self, dir: &Path, line: &str, result: &StepResult, code: i32) -> Result<()> {
        if result.code != Some(code) {
            self.check_signal()?;
            return Err(failed(line, result));
        }
        let printed = format!("{}{}", result.stdout, result.stderr);
        // The commands run in a directory of the demo, beside the others.
        let printed = printed.replace(&*self.scratch.dir.to_string_lossy(), "..");
        self.steps.push(json!({ "command": line, "exit_code": result.code, "output": printed }));
        if self.ui.json {
            return Ok(());
        }
        let prompt = if dir == self.scratch.upstream { "upstream$" } else { "$" };
        self.ui.page(|page| {
            page.table(&[vec![styled(DIM, format!("  {prompt} {line}"))]]);
            printed.lines().for_each(|line| page.line(format!("  {line}")));
        })
    }

    fn check_signal(&self) -> Result<()> {
        if self.shutdown.count() > 0 { Err(Error::unavailable("the demo was interrupted")) } else { Ok(()) }
    }
}

/// Kills the process of an agent, as a crash would end it. Returns its workspace.
fn kill(scratch: &Scratch, agent: &str) -> Result<String> {
    let jobs = scratch.json(&scratch.shop, "way job list --live --json")?;
    let job = jobs.as_array().into_iter().flatten().find(|job| job["agent"] == agent);
    let job = job.ok_or_else(|| Error::internal(format!("{agent} has no job")))?;
    let pid = job["process"]["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let pid = pid.ok_or_else(|| Error::internal(format!("the job of {agent} has no process")))?;
    kill_process(pid, Signal::KILL).map_err(|error| Error::unavailable("cannot kill an agent").because(error))?;
    let workspace = job["workspace_id"].as_str().map(str::to_owned);
    workspace.ok_or_else(|| Error::internal(format!("the job of {agent} has no workspace")))
}
