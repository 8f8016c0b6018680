//! Runs operations of the engine on a store, in this process, and prints the time of each. `cargo xtask bench store` uses
//! it.
//!
//! A store is a path or a PostgreSQL URL. A line is a name, the nanoseconds of all together, and those of each.
#![expect(clippy::print_stdout, reason = "it is a program")]

mod crowd;
mod fill;

use std::error::Error;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_core::clock::Clock;
use waypost_core::context::{Authority, Caller, LeaseTimes, Standing};
use waypost_core::engine;
use waypost_core::id::Entropy;
use waypost_core::model::{CheckpointKind, Repository, Vcs, Worktree};
use waypost_core::op::{
    AddCheckpoint, AddWorkflow, ClaimTask, FinishTask, Heartbeat, ListNextTasks, ListTasks, Operation, PlanWorkflow,
    SendMessage, ShowContext, StartWorkflow, StoreOperation,
};
use waypost_core::redact::Secrets;
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};
use waypost_testkit::Postgres;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

const USAGE: &str = "server
run STORE ROUNDS
fill STORE TASKS PENDING
refill STORE TASKS WANTED
grow ROUNDS (TASKS STORE)...
context STORE CHECKPOINTS ROUNDS
mix STORE AGENT SECONDS";

fn main() -> Result {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["server"] => server(),
        ["run", store, rounds] => run(store, rounds.parse()?),
        ["fill", store, tasks, pending] => fill::fill(store, tasks.parse()?, pending.parse()?),
        ["refill", store, tasks, wanted] => fill::refill(store, tasks.parse()?, wanted.parse()?),
        ["grow", rounds, stores @ ..] => grow(rounds.parse()?, stores),
        ["context", store, checkpoints, rounds] => context(store, checkpoints.parse()?, rounds.parse()?),
        ["mix", store, agent, seconds] => crowd::mix(store, agent, seconds.parse()?),
        _ => Err(USAGE.into()),
    }
}

/// Starts a server, prints its directory, and prints the URL of a new schema for every line of input. Ends with the input.
fn server() -> Result {
    let server = Postgres::start(&[]);
    println!("{}", server.dir().display());
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", server.url());
    }
    Ok(())
}

/// Runs the typical operations of agents, one after the other in every round.
fn run(store: &str, rounds: u32) -> Result {
    let mut bench = Bench::open(store)?;
    let mut rows = Rows::default();
    for agent in ["another", "bench"] {
        bench.caller = caller(agent);
        bench.write(Heartbeat { task: None, workflow: None, epoch: None })?;
    }
    for round in 0..rounds {
        let name = format!("workflow {round} of {}", bench.entropy.text());
        let workflow = rows.time("create workflow", || bench.write(create(&name)))?.workflow.id.to_string();
        let plan = PlanWorkflow { workflow: workflow.clone(), plan: plan() };
        rows.time("plan of 50 tasks", || bench.write(plan.clone()))?;
        bench.write(StartWorkflow { workflow })?;
        let claimed = rows.time("claim", || bench.claim())?;
        let task = claimed.task.task.id.to_string();
        let epoch = Some(claimed.lease.epoch);
        let checkpoint = checkpoint(&task, epoch);
        rows.time("checkpoint", || bench.write(checkpoint.clone()))?;
        let heartbeat = Heartbeat { task: Some(task.clone()), workflow: None, epoch };
        rows.time("heartbeat", || bench.write(heartbeat.clone()))?;
        rows.time("send message", || bench.write(message()))?;
        let next = ListNextTasks { workflow: None, worktree_id: None, repository: None, limit: 10, after: None };
        rows.time("next", || bench.read(next.clone()))?;
        rows.time("finish", || bench.finish(&task, epoch))?;
    }
    rows.print();
    Ok(())
}

/// Claims, finishes and lists tasks in stores of several sizes, alternating between them.
fn grow(rounds: u32, stores: &[&str]) -> Result {
    let mut benches = Vec::new();
    for pair in stores.chunks(2) {
        let [tasks, store] = pair else { return Err(USAGE.into()) };
        let tasks = tasks.parse()?;
        fill::refill(store, tasks, rounds)?;
        let mut bench = Bench::open(store)?;
        // A warm-up, so that all stores have prepared their statements.
        let claimed = bench.claim()?;
        bench.finish(claimed.task.task.id.as_str(), Some(claimed.lease.epoch))?;
        bench.read(list())?;
        benches.push((tasks, bench));
    }
    let mut rows = Rows::default();
    for _ in 1..rounds {
        for (tasks, bench) in &mut benches {
            let claimed = rows.time(&format!("claim, {tasks}"), || bench.claim())?;
            let (task, epoch) = (claimed.task.task.id.to_string(), Some(claimed.lease.epoch));
            rows.time(&format!("finish, {tasks}"), || bench.finish(&task, epoch))?;
            rows.time(&format!("list 50 tasks, {tasks}"), || bench.read(list()))?;
        }
    }
    rows.print();
    Ok(())
}

/// Packs the context of a task with many checkpoints.
fn context(store: &str, checkpoints: u32, rounds: u32) -> Result {
    const BUDGET: u32 = 8_000;
    let mut bench = Bench::open(store)?;
    let name = format!("long {}", bench.entropy.text());
    let create = AddWorkflow { plan: Some(plan()), start: true, ..create(&name) };
    bench.write(create)?;
    let claimed = bench.write(ClaimTask { task: Some(format!("{name}/task 0")), ..claim() })?;
    let task = claimed.task.task.id.to_string();
    for _ in 0..checkpoints {
        bench.write(checkpoint(&task, None))?;
    }
    let mut rows = Rows::default();
    for _ in 0..rounds {
        let context = ShowContext { task: task.clone(), workflow: None, repository: None, budget: Some(BUDGET) };
        let packed = rows.time("context", || bench.read(context.clone()))?;
        if packed.text.len() > BUDGET as usize * 4 || packed.text.len() < BUDGET as usize * 2 {
            return Err(format!("the context has {} bytes", packed.text.len()).into());
        }
    }
    bench.finish(&task, None)?;
    rows.print();
    Ok(())
}

/// A store and its caller.
struct Bench {
    store: Box<dyn Store>,
    caller: Caller,
    entropy: SystemEntropy,
}

impl Bench {
    fn open(store: &str) -> Result<Bench> {
        Ok(Bench { store: open(store)?, caller: caller("bench"), entropy: SystemEntropy::open()? })
    }

    fn write<O: StoreOperation>(&mut self, operation: O) -> Result<O::Answer> {
        Ok(engine::write(&mut *self.store, &self.caller, &mut self.entropy, None, operation)?)
    }

    fn read<O: StoreOperation>(&mut self, operation: O) -> Result<O::Answer> {
        Ok(engine::read(&mut *self.store, &self.caller, &mut self.entropy, operation)?)
    }

    fn claim(&mut self) -> Result<<ClaimTask as Operation>::Answer> {
        self.write(claim())
    }

    fn finish(&mut self, task: &str, epoch: Option<u64>) -> Result<<FinishTask as Operation>::Answer> {
        let outcome = "It works, and a test shows it".to_owned();
        self.write(FinishTask { task: task.to_owned(), workflow: None, epoch, outcome, evidence: None })
    }
}

fn open(store: &str) -> Result<Box<dyn Store>> {
    if is_url(store) {
        return Ok(Box::new(PostgresStore::open(store, postgres::Options::default())?));
    }
    Ok(Box::new(SqliteStore::open(Path::new(store), sqlite::Options::default(), Box::new(SystemClock))?))
}

fn is_url(store: &str) -> bool {
    store.starts_with("postgres://")
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

fn create(name: &str) -> AddWorkflow {
    AddWorkflow {
        name: name.to_owned(),
        source: None,
        source_ref: None,
        source_content: None,
        summary: None,
        max_parallel: None,
        base: None,
        config: Value::Null,
        plan: None,
        start: false,
        repositories: Vec::new(),
        shared: false,
        only_here: false,
    }
}

/// Returns a plan in which every second task depends on the one before it.
fn plan() -> Plan {
    let task = |number: u32| PlannedTask {
        name: format!("task {number}"),
        description: "Find out what is slow, make it fast, and show that it is.".to_owned(),
        depends_on: (number % 2 == 1).then(|| format!("task {}", number - 1)).into_iter().collect(),
        ..PlannedTask::default()
    };
    Plan { tasks: (0..50).map(task).collect(), ..Plan::default() }
}

fn list() -> ListTasks {
    ListTasks {
        workflow: None,
        statuses: Vec::new(),
        claimable: false,
        worktree_id: None,
        repository: None,
        here: false,
        after: None,
        limit: 50,
    }
}

fn claim() -> ClaimTask {
    ClaimTask { task: None, workflow: None, worktree_id: None, repository: None, ttl_ms: None, budget: None }
}

fn checkpoint(task: &str, epoch: Option<u64>) -> AddCheckpoint {
    AddCheckpoint {
        task: task.to_owned(),
        workflow: None,
        epoch,
        kind: CheckpointKind::Progress,
        summary: "The parser accepts the new syntax; error messages are next".to_owned(),
        detail: Value::Null,
        files: vec!["src/parser.rs".to_owned()],
        tokens: Some(1_000),
        cost: None,
    }
}

fn message() -> SendMessage {
    SendMessage {
        to: Some("another".to_owned()),
        reply_to: None,
        kind: None,
        priority: None,
        subject: None,
        body: "The interface has changed: look at the new trait first".to_owned(),
        workflow: None,
        task: None,
        ttl_ms: None,
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
            print_row(name, times.iter().sum(), times);
        }
    }
}

fn print_row(name: &str, all: Duration, times: &[Duration]) {
    let times: Vec<String> = times.iter().map(|time| time.as_nanos().to_string()).collect();
    println!("{name}\t{}\t{}", all.as_nanos(), times.join(" "));
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "it is the clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Random bytes from the system, which differ between runs, because stores are kept.
struct SystemEntropy(std::fs::File);

impl SystemEntropy {
    fn open() -> Result<SystemEntropy> {
        Ok(SystemEntropy(std::fs::File::open("/dev/urandom")?))
    }

    fn text(&mut self) -> String {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        format!("{:016x}", u64::from_be_bytes(bytes))
    }
}

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.read_exact(bytes).expect("the system has random bytes");
    }
}
