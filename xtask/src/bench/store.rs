//! The cost of operations on a store: in process, by store size, and by number of processes.
//!
//! The program `waypost-bench` measures in process, and runs a PostgreSQL server on this machine.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use super::options::Options;
use super::results::{Bar, Part, Row, thousands};
use super::scratch::{Scratch, create_dir, remove_files};
use crate::Result;

const ROUNDS: u32 = 200;
const QUICK_ROUNDS: u32 = 10;

/// Maximum ratio of an operation in a large store to the same in the smallest store.
const GROWTH_BAR: f64 = 1.3;
const SIZES: &[usize] = &[1_000, 10_000, 100_000, 1_000_000];
const QUICK_SIZES: &[usize] = &[1_000, 10_000];
/// The operations in stores of several sizes.
const GROWING: [&str; 3] = ["claim", "finish", "list 50 tasks"];

const CONTEXT_BAR: Duration = Duration::from_millis(10);
const CHECKPOINTS: u32 = 5_000;
const QUICK_CHECKPOINTS: u32 = 200;

/// How long processes work.
const SECONDS: u32 = 5;
/// More tasks than can be claimed in that time.
const PROCESS_TASKS: &str = "20000";

/// Numbers of processes that claim, checkpoint and finish on one store. With the most, minimum fairness and maximum wait.
const PROCESSES: [usize; 2] = [1, 150];
const FAIRNESS_BAR: f64 = 0.9;
const WAIT_BAR: Duration = Duration::from_secs(2);

/// The rows of these processes, without their number.
const PROCESSES_ROW: &str = "claim, checkpoint and finish by processes on SQLite";
const FAIRNESS_ROW: &str = "fairness (Jain index)";

pub(super) fn measure(options: &Options, scratch: &Scratch, part: &mut Part) -> Result {
    let dir = scratch.dir.join("store");
    create_dir(&dir)?;
    remove_files(&dir, "fresh-")?;
    let bench = Bench { scratch, dir, options };
    bench.add(part, "SQLite", &mut |name| Ok(bench.dir.join(format!("{name}.db")).display().to_string()));
    bench.add_processes(part);
    if bench.wants_any("PostgreSQL") {
        match Server::start(&bench) {
            Ok(mut server) => bench.add(part, "PostgreSQL", &mut |_| server.schema()),
            Err(error) => part.fail(format!("nothing was measured on PostgreSQL: {error}")),
        }
    }
    Ok(())
}

struct Bench<'a> {
    scratch: &'a Scratch,
    dir: PathBuf,
    options: &'a Options,
}

impl Bench<'_> {
    fn rounds(&self) -> String {
        self.options.rounds(ROUNDS, QUICK_ROUNDS).to_string()
    }

    fn seconds(&self) -> String {
        self.options.pick(SECONDS, 1).to_string()
    }

    fn wants_growth(&self, database: &str) -> bool {
        let sizes = self.options.pick(SIZES, QUICK_SIZES);
        let names = sizes.iter().flat_map(|size| GROWING.map(|name| (name, thousands(*size))));
        names.into_iter().any(|(name, size)| self.options.wants(&format!("{name} on {database}, {size}")))
    }

    fn wants_context(&self, database: &str) -> bool {
        self.options.wants(&format!("context on {database}"))
    }

    fn wants_any(&self, database: &str) -> bool {
        self.wants_growth(database) || self.wants_context(database)
    }

    /// Adds the measurements of a database. `store` returns a store by its purpose.
    fn add(&self, part: &mut Part, database: &str, store: &mut dyn FnMut(&str) -> Result<String>) {
        let named = |row: Row| match row.name.rsplit_once(", ") {
            Some((name, size)) => {
                let size = thousands(size.parse().unwrap_or_default());
                Row { name: format!("{name} on {database}, {size}"), ..row }
            }
            None => Row { name: format!("{} on {database}", row.name), ..row },
        };
        if self.wants_growth(database) {
            part.section(&format!("{database}, in stores of several sizes"), || {
                let mut args = vec!["grow".to_owned(), self.rounds()];
                for size in self.options.pick(SIZES, QUICK_SIZES) {
                    args.extend([size.to_string(), store(&format!("tasks-{size}"))?]);
                }
                let rows: Vec<Row> = self.scratch.rows(args)?.into_iter().map(named).collect();
                let (least, larger) = rows.split_at(GROWING.len());
                let compared = larger.iter().enumerate().map(|(number, row)| {
                    let least = &least[number % GROWING.len()];
                    // A list says how many tasks follow, so it counts all tasks of live workflows.
                    let bar = (!row.name.starts_with("list")).then_some(Bar::AtMost(GROWTH_BAR));
                    row.clone().compared(row.median().as_secs_f64() / least.median().as_secs_f64(), bar, &least.name)
                });
                Ok(least.iter().cloned().chain(compared).collect())
            });
        }
        if self.wants_context(database) {
            let checkpoints = self.options.pick(CHECKPOINTS, QUICK_CHECKPOINTS).to_string();
            part.section(&format!("{database}, context of a task with {checkpoints} checkpoints"), || {
                let contexts =
                    self.scratch.rows(["context", &store("fresh-context")?, &checkpoints, &self.rounds()])?;
                let within = |row: Row| {
                    let median = row.median();
                    row.within(median, CONTEXT_BAR)
                };
                Ok(contexts.into_iter().map(named).map(within).collect())
            });
        }
    }

    /// Adds many processes that claim, checkpoint and finish on one store.
    fn add_processes(&self, part: &mut Part) {
        for processes in PROCESSES {
            let names = [PROCESSES_ROW, FAIRNESS_ROW].map(|name| format!("{name}, {processes}"));
            if names.iter().any(|name| self.options.wants(name)) {
                let title =
                    format!("SQLite, {processes} processes that claim, checkpoint and finish for {} s", self.seconds());
                part.section(&title, || self.processes(processes));
            }
        }
    }

    fn processes(&self, processes: usize) -> Result<Vec<Row>> {
        let store = self.dir.join(format!("fresh-processes-{processes}.db")).display().to_string();
        self.scratch.rows(["fill", &store, PROCESS_TASKS, PROCESS_TASKS])?;
        let mut crowd = Vec::new();
        for number in 0..processes {
            let mut command = self.scratch.program(["mix", &store, &format!("agent {number}"), &self.seconds()]);
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
        let begin = Instant::now();
        for (child, _) in &mut crowd {
            drop(child.stdin.take());
        }
        let mut all = Row::new(format!("{PROCESSES_ROW}, {processes}"));
        let mut served = Vec::new();
        for (child, lines) in &mut crowd {
            let row = Row::parse(&next(lines)?)?;
            served.push(f64::from(u32::try_from(row.times.len()).unwrap_or(u32::MAX)));
            all.times.extend(&row.times);
            child.wait().map_err(|error| error.to_string())?;
        }
        all.all = Some(begin.elapsed());
        let (sum, squares) = (served.iter().sum::<f64>(), served.iter().map(|count| count * count).sum::<f64>());
        let jain = sum * sum / (squares * f64::from(u32::try_from(processes).unwrap_or(u32::MAX)));
        let mut fairness = Row::with_value(format!("{FAIRNESS_ROW}, {processes}"), jain, "");
        if Some(&processes) == PROCESSES.last() {
            fairness = fairness.compared(jain, Some(Bar::AtLeast(FAIRNESS_BAR)), "equal shares");
            let longest = all.percentile(100);
            all = all.within(longest, WAIT_BAR);
        }
        Ok(vec![all, fairness])
    }
}

/// A PostgreSQL server that ends when its standard input is closed.
struct Server {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(bench: &Bench) -> Result<Server> {
        let child = bench.scratch.program(["server"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
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
