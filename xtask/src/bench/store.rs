//! The cost of operations on a store: in process, as commands, by store size, and by number of processes.
//!
//! An example of the library measures in process. The benchmark starts its own PostgreSQL server on this machine.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::cases::Cases;
use super::options::Options;
use super::percentiles::Row;
use super::process::wall_time;
use super::results::{Bar, Part, thousands};
use super::scratch::{Scratch, create_dir, remove_files};
use crate::Result;

const ROUNDS: u32 = 200;
const QUICK_ROUNDS: u32 = 10;

/// Maximum ratio of an operation in a large store to the same in the smallest store.
const GROWTH_BAR: f64 = 1.5;
const SIZES: &[u32] = &[1_000, 10_000, 100_000, 1_000_000];
const QUICK_SIZES: &[u32] = &[1_000, 10_000];
/// The operations in stores of several sizes.
const GROWING: [&str; 3] = ["claim", "finish", "list 50 tasks"];

/// The operations that the example runs on one store.
const OPERATIONS: [&str; 8] =
    ["create workflow", "plan of 50 tasks", "claim", "checkpoint", "heartbeat", "send message", "next", "finish"];

const CONTEXT_BAR: Duration = Duration::from_millis(10);
const CHECKPOINTS: u32 = 5_000;
const QUICK_CHECKPOINTS: u32 = 200;

/// How long processes work.
const SECONDS: u32 = 5;
/// More tasks than can be claimed in that time.
const PROCESS_TASKS: &str = "20000";

/// Numbers of processes that claim, checkpoint and finish on one store. With the most, minimum fairness and maximum wait.
const PROCESSES: [usize; 4] = [1, 10, 50, 150];
const FAIRNESS_BAR: f64 = 0.9;
const WAIT_BAR: Duration = Duration::from_secs(2);

/// The rows of these processes, without their number.
const PROCESSES_ROW: &str = "claim, checkpoint and finish by processes on SQLite";
const FAIRNESS_ROW: &str = "fairness (Jain index)";
const WAIT_ROW: &str = "longest wait";

/// The number of the first claimable task in a store that the example has filled.
const FIRST_TASK: u32 = 3_000_001;

/// The commands of an agent, and their baseline.
const COMMAND_NAMES: [&str; 5] =
    ["trivial program beside commands", "way task claim", "way task checkpoint", "way task heartbeat", "way task next"];

/// Commands on the largest store, for their memory and the bytes that they write.
const COMMANDS: [(&str, &[&str]); 8] = [
    ("way status", &["status"]),
    ("way task list", &["task", "list", "--repo", "all", "--limit", "50"]),
    ("way task next", &["task", "next", "--repo", "all"]),
    ("way workflow list", &["workflow", "list", "--limit", "50"]),
    ("way events", &["events", "--limit", "50"]),
    ("way db info", &["db", "info"]),
    ("way agent register", &["agent", "register"]),
    ("way task claim", &["task", "claim", "--repo", "all"]),
];

pub(super) fn measure(options: &Options, scratch: &Scratch) -> Result<Part> {
    let dir = scratch.dir.join("store");
    create_dir(&dir)?;
    remove_files(&dir, "fresh-")?;
    let bench = Bench { scratch, program: scratch.program("operations"), dir, options };
    let mut part = Part::default();
    let mut files = |name: &str| Ok(bench.dir.join(format!("{name}.db")).display().to_string());
    bench.add(&mut part, "SQLite", &mut files);
    bench.add_processes(&mut part);
    if COMMANDS.iter().any(|(name, _)| options.wants(&bench.command_name(name))) {
        match bench.measure_commands() {
            Ok(commands) => part.extend(commands),
            Err(error) => part.fail(format!("commands: {error}")),
        }
    }
    if bench.wants_postgres() {
        match Server::start(&bench) {
            Ok(mut server) => bench.add(&mut part, "PostgreSQL", &mut |_| server.schema()),
            Err(error) => part.fail(format!("nothing was measured on PostgreSQL: {error}")),
        }
    }
    Ok(part)
}

struct Bench<'a> {
    scratch: &'a Scratch,
    /// The example of the library.
    program: PathBuf,
    dir: PathBuf,
    options: &'a Options,
}

impl Bench<'_> {
    fn rounds(&self) -> u32 {
        self.options.rounds(ROUNDS, QUICK_ROUNDS)
    }

    fn sizes(&self) -> &'static [u32] {
        self.options.pick(SIZES, QUICK_SIZES)
    }

    fn seconds(&self) -> String {
        self.options.pick(SECONDS, 1).to_string()
    }

    /// Returns the name of a command on the largest store.
    fn command_name(&self, name: &str) -> String {
        format!("{name} on SQLite, {}", thousands(self.largest().into()))
    }

    fn largest(&self) -> u32 {
        self.sizes().last().copied().unwrap_or_default()
    }

    /// Returns whether any of these rows is measured on a database.
    fn wants(&self, names: &[&str], database: &str) -> bool {
        names.iter().any(|name| self.options.wants(&format!("{name} on {database}")))
    }

    /// Adds the measurements of both databases. `store` returns a store by its purpose.
    fn add(&self, part: &mut Part, database: &str, store: &mut dyn FnMut(&str) -> Result<String>) {
        let named = |mut row: Row| {
            row.name = match row.name.rsplit_once(", ") {
                Some((name, size)) => format!("{name} on {database}, {}", thousands(size.parse().unwrap_or_default())),
                None => format!("{} on {database}", row.name),
            };
            row
        };
        let rounds = self.rounds().to_string();
        if self.wants(&OPERATIONS, database) {
            part.section(&format!("{database}, in process"), || {
                let rows = self.run(&["run", &store("fresh-operations")?, &rounds])?;
                Ok(rows.into_iter().map(named).collect())
            });
        }
        let sizes: Vec<String> = self.sizes().iter().map(|size| thousands((*size).into())).collect();
        let is_wanted =
            |name: &&str| sizes.iter().any(|size| self.options.wants(&format!("{name} on {database}, {size}")));
        if GROWING.iter().any(is_wanted) {
            part.section(&format!("{database}, in stores of several sizes"), || {
                let mut args = vec!["grow".to_owned(), rounds.clone()];
                for size in self.sizes() {
                    args.extend([size.to_string(), store(&format!("tasks-{size}"))?]);
                }
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let mut rows: Vec<Row> = self.run(&args)?.into_iter().map(named).collect();
                let least: Vec<(String, Duration)> =
                    rows.iter().take(GROWING.len()).map(|row| (row.name.clone(), row.median())).collect();
                for row in &mut rows[GROWING.len()..] {
                    let operation = row.name.split(", ").next().unwrap_or_default().to_owned();
                    let Some((name, least)) = least.iter().find(|(name, _)| name.starts_with(&operation)) else {
                        continue;
                    };
                    // A list says how many tasks follow, so it counts all tasks of live workflows.
                    let bar = (!operation.starts_with("list")).then_some(Bar::AtMost(GROWTH_BAR));
                    row.compare(row.median().as_secs_f64() / least.as_secs_f64(), bar, name);
                }
                Ok(rows)
            });
        }
        if self.wants(&["context"], database) {
            let checkpoints = self.options.pick(CHECKPOINTS, QUICK_CHECKPOINTS).to_string();
            part.section(&format!("{database}, context of a task with {checkpoints} checkpoints"), || {
                let mut contexts = self.run(&["context", &store("fresh-context")?, &checkpoints, &rounds])?;
                for row in &mut contexts {
                    let ratio = row.median().as_secs_f64() / CONTEXT_BAR.as_secs_f64();
                    row.compare(ratio, Some(Bar::AtMost(1.0)), &format!("{CONTEXT_BAR:?}"));
                }
                Ok(contexts.into_iter().map(named).collect())
            });
        }
        if self.wants(&COMMAND_NAMES, database) {
            part.section(&format!("{database}, as whole commands"), || {
                Ok(self.commands(&store("fresh-commands")?)?.into_iter().map(named).collect())
            });
        }
    }

    /// Measures commands on the largest store: their memory, and the bytes that they write.
    fn measure_commands(&self) -> Result<Part> {
        let mut cases = Cases::default();
        let store = self.dir.join(format!("tasks-{}.db", self.largest()));
        let (rounds, size) = (self.rounds().to_string(), self.largest().to_string());
        self.run(&["refill", &store.display().to_string(), &size, &rounds])?;
        let repo = self.scratch.repository("repo")?;
        for (name, args) in COMMANDS {
            let (repo, store) = (repo.clone(), store.clone());
            let mut number = 0;
            cases.program(self.command_name(name), None, move || {
                number += 1;
                // An agent of its own for each claim.
                let agent = if args.contains(&"claim") { format!("claimer-{number}") } else { "bench".to_owned() };
                let mut command = self.scratch.way(&repo, ["--quiet", "--db"]);
                command.arg(&store).args(["--agent", &agent]).args(args);
                Ok(command)
            });
        }
        Ok(cases.measure(self.options, self.options.rounds(20, 2)))
    }

    fn wants_postgres(&self) -> bool {
        let all = [&OPERATIONS[..], &GROWING, &COMMAND_NAMES, &["context"]].concat();
        let sizes = self.sizes().iter().map(|size| thousands((*size).into()));
        self.wants(&all, "PostgreSQL")
            || sizes
                .into_iter()
                .any(|size| GROWING.iter().any(|name| self.options.wants(&format!("{name} on PostgreSQL, {size}"))))
    }

    /// Runs the usual commands of an agent, one after the other in every round.
    fn commands(&self, store: &str) -> Result<Vec<Row>> {
        // More than are claimed, so that there is always a next one.
        let rounds = self.rounds();
        let tasks = (rounds + 2).to_string();
        self.run(&["fill", store, &tasks, &tasks])?;
        let repo = &self.scratch.repository("repo")?;
        let way = |args: &[&str]| {
            self.scratch.way(repo, [&["--quiet", "--db", store, "--agent", "bench", "task"], args].concat())
        };
        let mut rows = COMMAND_NAMES.map(|name| Row::new(name.to_owned()));
        for number in FIRST_TASK..=FIRST_TASK + rounds {
            let task = &format!("tk_00000{number}");
            let commands = [
                self.scratch.command(&self.scratch.trivial, repo),
                // The tasks are those of another repository.
                way(&["claim", "--repo", "all"]),
                way(&["checkpoint", task, "--summary", "The parser accepts the new syntax"]),
                way(&["heartbeat", task]),
                way(&["next", "--repo", "all"]),
            ];
            for (row, mut command) in rows.iter_mut().zip(commands) {
                let time = wall_time(&mut command).map_err(|error| format!("{}: {error}", row.name))?;
                // The first round also registers the worktree.
                if number != FIRST_TASK {
                    row.push(time);
                }
            }
            wall_time(&mut way(&["done", task, "--outcome", "It works"]))?;
        }
        let trivial = rows[0].median();
        for row in &mut rows[1..] {
            row.compare(row.median().as_secs_f64() / trivial.as_secs_f64(), None, COMMAND_NAMES[0]);
        }
        Ok(rows.into())
    }

    /// Adds many processes that claim, checkpoint and finish on one store.
    fn add_processes(&self, part: &mut Part) {
        for processes in PROCESSES {
            let names = [PROCESSES_ROW, FAIRNESS_ROW, WAIT_ROW].map(|name| format!("{name}, {processes}"));
            if names.iter().any(|name| self.options.wants(name)) {
                let title =
                    format!("SQLite, {processes} processes that claim, checkpoint and finish for {} s", self.seconds());
                part.section(&title, || self.processes(processes));
            }
        }
    }

    fn processes(&self, processes: usize) -> Result<Vec<Row>> {
        let store = self.dir.join(format!("fresh-processes-{processes}.db")).display().to_string();
        let store = store.as_str();
        self.run(&["fill", store, PROCESS_TASKS, PROCESS_TASKS])?;
        let mut crowd = Vec::new();
        for number in 0..processes {
            let mut command = Command::new(&self.program);
            command.args(["mix", store, &format!("agent {number}"), &self.seconds()]);
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = child.map_err(|error| error.to_string())?;
            let stdout = child.stdout.take().ok_or("a process without output")?;
            crowd.push((child, BufReader::new(stdout).lines()));
        }
        let next = |lines: &mut Lines<BufReader<ChildStdout>>| -> Result<String> {
            lines.next().ok_or("a process failed")?.map_err(|error| error.to_string())
        };
        for (_, lines) in &mut crowd {
            next(lines)?;
        }
        // All processes have opened the store. Closing their standard input starts them.
        for (child, _) in &mut crowd {
            drop(child.stdin.take());
        }
        let mut all = Row::new(format!("{PROCESSES_ROW}, {processes}"));
        let mut served = Vec::new();
        for (child, lines) in &mut crowd {
            let row = Row::parse(&next(lines)?)?;
            served.push(f64::from(u32::try_from(row.times.len()).unwrap_or(u32::MAX)));
            all.times.extend(&row.times);
            all.all = all.all.max(row.all);
            child.wait().map_err(|error| error.to_string())?;
        }
        let (sum, squares) = (served.iter().sum::<f64>(), served.iter().map(|count| count * count).sum::<f64>());
        let jain = sum * sum / (squares * f64::from(u32::try_from(processes).unwrap_or(u32::MAX)));
        let mut fairness = Row::with_value(format!("{FAIRNESS_ROW}, {processes}"), jain, "");
        let mut longest = Row::new(format!("{WAIT_ROW}, {processes}"));
        longest.push(all.times.iter().max().copied().unwrap_or_default());
        if Some(&processes) == PROCESSES.last() {
            fairness.compare(jain, Some(Bar::AtLeast(FAIRNESS_BAR)), "equal shares");
            longest.compare(longest.all.as_secs_f64() / WAIT_BAR.as_secs_f64(), Some(Bar::AtMost(1.0)), "2 s");
        }
        Ok(vec![all, fairness, longest])
    }

    /// Runs the example and parses the rows it prints.
    fn run(&self, args: &[&str]) -> Result<Vec<Row>> {
        let output = Command::new(&self.program).args(args).output().map_err(|error| error.to_string())?;
        stdout_of(&output)?.lines().map(Row::parse).collect()
    }
}

/// A PostgreSQL server that ends when its standard input is closed.
struct Server {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(bench: &Bench) -> Result<Server> {
        let child = Command::new(&bench.program).arg("server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("a process without output")?;
        let mut server = Server { child, answers: BufReader::new(stdout).lines() };
        // The directory of its socket: the server has started.
        server.answer()?;
        Ok(server)
    }

    /// Returns the URL of an empty schema.
    fn schema(&mut self) -> Result<String> {
        let stdin = self.child.stdin.as_mut().ok_or("a process without input")?;
        stdin.write_all(b"\n").map_err(|error| error.to_string())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let answer = self.answers.next().ok_or("the PostgreSQL server did not start")?;
        answer.map_err(|error| error.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Returns the standard output of a program, or its standard error if it failed.
fn stdout_of(output: &std::process::Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
