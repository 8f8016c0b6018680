//! Runs operations of the engine on a store, in this process. A store is a path or a PostgreSQL URL.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use waypost::machine::{SystemEntropy, Variables, clock};
use waypost::serving::random_hex;
use waypost_core::context::{Authority, Caller, LeaseTimes, Standing};
use waypost_core::engine;
use waypost_core::model::{Repository, Vcs, Worktree};
use waypost_core::op::{
    AddCheckpoint, AddWorkflow, ClaimTask, FinishTask, Heartbeat, IntoAnyOperation, ListTasks, Operation, ShowContext,
};
use waypost_core::redact::Secrets;
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};

use crate::fill::{self, is_url};
use crate::{Result, print_row};

/// Fills a store with tasks: some are claimable, the others are completed.
pub(crate) fn fill(store: &str, tasks: u32, pending: u32) -> Result {
    // Registers the worktree.
    Bench::open(store)?.write(Heartbeat::default())?;
    fill::fill(store, tasks, pending)
}

/// Claims, finishes and lists tasks in stores of several sizes, alternating between them.
pub(crate) fn grow(rounds: u32, stores: &[&str]) -> Result {
    let mut benches = Vec::new();
    for pair in stores.chunks(2) {
        let [tasks, store] = pair else { return Err("TASKS STORE?".into()) };
        let tasks: u32 = tasks.parse()?;
        if !fill::has_claimable(store, rounds + 1)? {
            fill(store, tasks, (tasks / 20).max(rounds * 2).min(tasks))?;
        }
        let mut bench = Bench::open(store)?;
        // A warm-up, so that all stores have prepared their statements.
        let claimed = bench.claim()?;
        bench.finish(claimed.task.task.id.as_str(), Some(claimed.lease.epoch))?;
        bench.list()?;
        benches.push((tasks, bench));
    }
    let mut rows = Rows::default();
    for _ in 1..rounds {
        for (tasks, bench) in &mut benches {
            let claimed = rows.time(&format!("claim, {tasks}"), || bench.claim())?;
            let (task, epoch) = (claimed.task.task.id.to_string(), Some(claimed.lease.epoch));
            rows.time(&format!("finish, {tasks}"), || bench.finish(&task, epoch))?;
            rows.time(&format!("list 50 tasks, {tasks}"), || bench.list())?;
        }
    }
    rows.print();
    Ok(())
}

/// Packs the context of a task with many checkpoints.
pub(crate) fn context(store: &str, checkpoints: u32, rounds: u32) -> Result {
    const BUDGET: u32 = 8_000;
    let mut bench = Bench::open(store)?;
    let name = format!("long {}", random_hex(8));
    // Every second task depends on the one before it.
    let task = |number: u32| {
        let before = (number % 2 == 1).then(|| format!("task {}", number - 1));
        let description = "Find out what is slow, make it fast, and show that it is.";
        let depends_on: Vec<String> = before.into_iter().collect();
        json!({ "name": format!("task {number}"), "description": description, "depends_on": depends_on })
    };
    let tasks: Vec<_> = (0..50).map(task).collect();
    let workflow = json!({ "name": name, "start": true, "plan": { "tasks": tasks } });
    bench.write::<AddWorkflow>(serde_json::from_value(workflow)?)?;
    let claimed = bench.write::<ClaimTask>(serde_json::from_value(json!({ "task": format!("{name}/task 0") }))?)?;
    let task = claimed.task.task.id.to_string();
    for _ in 0..checkpoints {
        bench.checkpoint(&task, None)?;
    }
    let mut rows = Rows::default();
    for _ in 0..rounds {
        let context = ShowContext { task: task.clone(), budget: Some(BUDGET), ..ShowContext::default() };
        let packed = rows.time("context", || bench.read(context.clone()))?;
        if packed.text.len() > BUDGET as usize * 4 || packed.text.len() < BUDGET as usize * 2 {
            return Err(format!("the context has {} bytes", packed.text.len()).into());
        }
    }
    bench.finish(&task, None)?;
    rows.print();
    Ok(())
}

/// Claims, checkpoints and finishes tasks for some seconds, as one of many processes. Prints a line when it is ready, and
/// starts when its input ends.
pub(crate) fn mix(store: &str, agent: &str, seconds: u64) -> Result {
    let mut bench = Bench::open(store)?;
    bench.caller = caller(agent);
    println!("open");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let mut rows = Rows::default();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        let claimed = rows.time("mix", || bench.claim())?;
        let (task, epoch) = (claimed.task.task.id.to_string(), Some(claimed.lease.epoch));
        rows.time("mix", || bench.checkpoint(&task, epoch))?;
        rows.time("mix", || bench.finish(&task, epoch))?;
    }
    rows.print();
    Ok(())
}

/// A store and its caller.
struct Bench {
    store: Box<dyn Store>,
    caller: Caller,
}

impl Bench {
    fn open(store: &str) -> Result<Bench> {
        let store: Box<dyn Store> = if is_url(store) {
            Box::new(PostgresStore::open(store, postgres::Options::default())?)
        } else {
            let clock = clock(&Variables::default())?;
            Box::new(SqliteStore::open(Path::new(store), sqlite::Options::default(), clock)?)
        };
        Ok(Bench { store, caller: caller("bench") })
    }

    fn write<O: IntoAnyOperation>(&mut self, operation: O) -> Result<O::Answer> {
        Ok(engine::write(&mut *self.store, &self.caller, &mut SystemEntropy, None, operation)?)
    }

    fn read<O: IntoAnyOperation>(&mut self, operation: O) -> Result<O::Answer> {
        Ok(engine::read(&mut *self.store, &self.caller, &mut SystemEntropy, operation)?)
    }

    fn claim(&mut self) -> Result<<ClaimTask as Operation>::Answer> {
        self.write::<ClaimTask>(serde_json::from_value(json!({}))?)
    }

    fn checkpoint(&mut self, task: &str, epoch: Option<u64>) -> Result {
        let summary = "The parser accepts the new syntax; error messages are next";
        let arguments = json!({ "task": task, "epoch": epoch, "kind": "progress", "summary": summary,
            "files": ["src/parser.rs"], "tokens": 1_000 });
        self.write::<AddCheckpoint>(serde_json::from_value(arguments)?).map(drop)
    }

    fn finish(&mut self, task: &str, epoch: Option<u64>) -> Result {
        let outcome = "It works, and a test shows it".to_owned();
        self.write(FinishTask { task: task.to_owned(), epoch, outcome, ..FinishTask::default() }).map(drop)
    }

    fn list(&mut self) -> Result {
        self.read::<ListTasks>(serde_json::from_value(json!({ "limit": 50 }))?).map(drop)
    }
}

/// Returns a caller in the one worktree of the benchmark.
fn caller(agent: &str) -> Caller {
    let repository_id = fill::REPOSITORY.parse().expect("an id");
    let repository = Repository {
        id: fill::REPOSITORY.parse().expect("an id"),
        name: "bench".to_owned(),
        path: "/bench".into(),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    };
    let never = Timestamp::from_millis(0);
    let worktree = Worktree {
        id: fill::WORKTREE.parse().expect("an id"),
        repository_id,
        name: "bench".to_owned(),
        path: "/bench".into(),
        branch: None,
        first_seen: never,
        last_seen: never,
        removed_at: None,
    };
    Caller {
        actor: agent.to_owned(),
        agent: Some(agent.to_owned()),
        repository: Arc::new(repository),
        worktree: Arc::new(worktree),
        standing: Standing::MainWorktree,
        is_shared: false,
        lease_times: LeaseTimes::default(),
        authority: Authority::User,
        secrets: Secrets::default(),
    }
}

/// Measured times by name, in the order of the first measurement.
#[derive(Default)]
struct Rows(Vec<(String, Vec<Duration>)>);

impl Rows {
    fn time<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let answer = work()?;
        let time = start.elapsed();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, times)) => times.push(time),
            None => self.0.push((name.to_owned(), vec![time])),
        }
        Ok(answer)
    }

    fn print(&self) {
        for (name, times) in &self.0 {
            print_row(name, times);
        }
    }
}
