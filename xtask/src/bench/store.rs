//! The cost of operations on a store: in process, as commands, by store size, and compared with pgbench.
//!
//! An example of the library measures in process. The benchmark starts its own PostgreSQL server on this machine.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::options::Options;
use super::percentiles::{Bar, Row, Table};
use super::process::wall_time;
use super::scratch::{Scratch, create_dir, remove_files};
use crate::Result;

const ROUNDS: u32 = 200;

/// Maximum ratio of a claim in a large store to one in the smallest store.
const GROWTH_BAR: f64 = 1.5;
const SIZES: [&str; 3] = ["1000", "100000", "1000000"];

const CONTEXT_BAR: Duration = Duration::from_millis(10);
const CHECKPOINTS: &str = "5000";

/// Minimum ratio of the rate of claims on many connections to the rate of pgbench.
const CROWD_BAR: f64 = 0.7;
const CONNECTIONS: &str = "10";
/// Number of alternating runs, and the duration of each.
const ALTERNATING_RUNS: usize = 3;
const SECONDS: &str = "5";
/// More tasks than can be claimed in that time.
const CROWD_TASKS: &str = "20000";

/// Number of processes that claim, checkpoint and finish on one store, minimum fairness, and maximum wait.
const PROCESSES: usize = 150;
const FAIRNESS_BAR: f64 = 0.9;
const WAIT_BAR: Duration = Duration::from_secs(2);

/// The number of the first claimable task in a store that the example has filled.
const FIRST_TASK: u32 = 3_000_001;

pub(super) fn measure(options: &Options) -> Result {
    let scratch = Scratch::prepare()?;
    let program = scratch.program("operations")?;
    let dir = scratch.dir.join("store");
    create_dir(&dir)?;
    remove_files(&dir, "fresh-")?;
    let rounds = options.rounds.unwrap_or(ROUNDS);
    let bench = Bench { scratch: &scratch, program, dir, rounds };
    let mut table = Table::default();
    let mut files = |name: &str| Ok(bench.dir.join(format!("{name}.db")).display().to_string());
    bench.add(&mut table, "SQLite", &mut files)?;
    bench.add_processes(&mut table, &files("fresh-processes")?)?;
    let mut missing = Ok(());
    match Server::start(&bench) {
        Ok(mut server) => {
            bench.add(&mut table, "PostgreSQL", &mut |_| server.schema())?;
            match pgbench() {
                Some(pgbench) => bench.add_crowd(&mut table, &mut server, &pgbench)?,
                None => missing = Err("pgbench IS NOT INSTALLED: no comparison of claims with it"),
            }
        }
        Err(error) => {
            eprintln!("{error}");
            missing = Err("PostgreSQL IS NOT INSTALLED: NOTHING was measured on it");
        }
    }
    let reported = table.report(options.enforce);
    if let Err(missing) = missing {
        println!("{missing}");
        if options.enforce {
            return Err(missing.to_owned());
        }
    }
    reported
}

struct Bench<'a> {
    scratch: &'a Scratch,
    /// The example of the library.
    program: PathBuf,
    dir: PathBuf,
    rounds: u32,
}

impl Bench<'_> {
    /// Adds the measurements of both databases. `store` returns a store by its purpose.
    fn add(&self, table: &mut Table, database: &str, store: &mut dyn FnMut(&str) -> Result<String>) -> Result {
        table.title(format!("{database}, in process"));
        table.extend(self.run(&["run", &store("fresh-operations")?, &self.rounds.to_string()])?);

        table.title(format!("{database}, claims in stores of several sizes"));
        let rounds = self.rounds.to_string();
        let mut args = vec!["grow".to_owned(), rounds.clone()];
        for size in SIZES {
            args.extend([size.to_owned(), store(&format!("tasks-{size}"))?]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut sizes = self.run(&args)?;
        let (name, least) = sizes.first().map(|row| (row.name.clone(), row.median())).ok_or("no size was measured")?;
        for row in &mut sizes[1..] {
            row.compare(row.median().as_secs_f64() / least.as_secs_f64(), Some(Bar::AtMost(GROWTH_BAR)), &name);
        }
        table.extend(sizes);

        table.title(format!("{database}, context of a task with {CHECKPOINTS} checkpoints"));
        let mut contexts = self.run(&["context", &store("fresh-context")?, CHECKPOINTS, &rounds])?;
        for row in &mut contexts {
            let ratio = row.median().as_secs_f64() / CONTEXT_BAR.as_secs_f64();
            row.compare(ratio, Some(Bar::AtMost(1.0)), &format!("{CONTEXT_BAR:?}"));
        }
        table.extend(contexts);

        table.title(format!("{database}, as whole commands"));
        table.extend(self.commands(&store("fresh-commands")?)?);
        Ok(())
    }

    /// Runs the usual commands of an agent, one after the other in every round.
    fn commands(&self, store: &str) -> Result<Vec<Row>> {
        // More than are claimed, so that there is always a next one.
        let tasks = (self.rounds + 2).to_string();
        self.run(&["fill", store, &tasks, &tasks])?;
        let repo = &self.scratch.repository("repo")?;
        let way = |args: &[&str]| {
            self.scratch.way(repo, [&["--quiet", "--db", store, "--agent", "bench", "task"], args].concat())
        };
        let names = ["trivial program", "way task claim", "way task checkpoint", "way task heartbeat", "way task next"];
        let mut rows = names.map(|name| Row::new(name.to_owned()));
        for number in FIRST_TASK..=FIRST_TASK + self.rounds {
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
            row.compare(row.median().as_secs_f64() / trivial.as_secs_f64(), None, names[0]);
        }
        Ok(rows.into())
    }

    /// Adds many processes that claim, checkpoint and finish on one store.
    fn add_processes(&self, table: &mut Table, store: &str) -> Result {
        table.title(format!("SQLite, {PROCESSES} processes that claim, checkpoint and finish for {SECONDS} s"));
        self.run(&["fill", store, CROWD_TASKS, CROWD_TASKS])?;
        let mut crowd = Vec::new();
        for number in 0..PROCESSES {
            let mut command = Command::new(&self.program);
            command.args(["mix", store, &format!("agent {number}"), SECONDS]);
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
        let mut all = Row::new("claim, checkpoint, finish".to_owned());
        let mut served = Vec::new();
        for (child, lines) in &mut crowd {
            let row = Row::parse(&next(lines)?)?;
            served.push(f64::from(u32::try_from(row.times.len()).unwrap_or(u32::MAX)));
            all.times.extend(&row.times);
            all.all = all.all.max(row.all);
            child.wait().map_err(|error| error.to_string())?;
        }
        let (sum, squares) = (served.iter().sum::<f64>(), served.iter().map(|count| count * count).sum::<f64>());
        let jain = sum * sum / (squares * f64::from(u32::try_from(PROCESSES).unwrap_or(u32::MAX)));
        let mut fairness = Row::new("fairness (Jain index)".to_owned());
        fairness.compare(jain, Some(Bar::AtLeast(FAIRNESS_BAR)), "equal shares");
        let mut longest = Row::new("longest wait".to_owned());
        longest.push(all.times.iter().max().copied().unwrap_or_default());
        longest.compare(longest.all.as_secs_f64() / WAIT_BAR.as_secs_f64(), Some(Bar::AtMost(1.0)), "2 s");
        table.extend([all, fairness, longest]);
        Ok(())
    }

    /// Adds claims on many connections, compared with pgbench and the same statements.
    fn add_crowd(&self, table: &mut Table, server: &mut Server, pgbench: &Path) -> Result {
        table.title(format!("PostgreSQL, claims on {CONNECTIONS} connections, {ALTERNATING_RUNS} alternating runs"));
        let [mut claims_row, mut pgbench_row] =
            ["claims", "pgbench, the same statements"].map(|name| Row::new(name.to_owned()));
        let (mut ratios, mut duplicates) = (Vec::new(), Row::new("claimed twice".to_owned()));
        for _ in 0..ALTERNATING_RUNS {
            let crowded = |server: &mut Server| -> Result<String> {
                let schema = server.schema()?;
                self.run(&["fill", &schema, CROWD_TASKS, CROWD_TASKS])?;
                self.run(&["agents", &schema, CROWD_TASKS])?;
                Ok(schema)
            };
            let schema = crowded(server)?;
            let rows = self.run(&["crowd", &schema, CONNECTIONS, SECONDS])?;
            let [claims, twice] = rows.as_slice() else { return Err("unexpected output of the example".to_owned()) };
            duplicates.all += twice.all;

            let schema = crowded(server)?;
            let script = self.dir.join("claim.sql");
            let mut command = Command::new(&self.program);
            let output = command.arg("script").arg(&schema).arg(&server.dir).output();
            let output = output.map_err(|error| error.to_string())?;
            super::scratch::write(&script, &[&stdout_of(&output)?])?;
            let statements = self.pgbench(pgbench, server, &schema, &script)?;
            ratios.push(claims.rate() / statements.rate());
            claims_row.merge(claims);
            pgbench_row.merge(&statements);
        }
        ratios.sort_by(f64::total_cmp);
        claims_row.compare(ratios[ALTERNATING_RUNS / 2], Some(Bar::AtLeast(CROWD_BAR)), &pgbench_row.name);
        let twice = duplicates.all.as_nanos();
        duplicates.compare(if twice == 0 { 0.0 } else { 1.0 }, Some(Bar::AtMost(0.0)), "none");
        table.extend([pgbench_row, claims_row, duplicates]);
        Ok(())
    }

    fn pgbench(&self, pgbench: &Path, server: &Server, url: &str, script: &Path) -> Result<Row> {
        remove_files(&self.dir, "transactions.")?;
        let mut command = Command::new(pgbench);
        command.args(["--no-vacuum", "--protocol=prepared", "--define=k=0", "--log", "--log-prefix=transactions"]);
        command.args(["--client", CONNECTIONS, "--jobs", "2", "--time", SECONDS, "--username=postgres", "--host"]);
        command.arg(&server.dir).arg("--file").arg(script).arg("postgres").current_dir(&self.dir);
        // pgbench prepares all statements before it sends the first.
        let schema = url.rsplit_once("?schema=").map_or("", |(_, schema)| schema);
        command.env("PGOPTIONS", format!("-c search_path=pg_catalog,{schema},pg_temp"));
        let output = command.output().map_err(|error| error.to_string())?;
        let printed = stdout_of(&output)?;
        let number = |beginning: &str| -> Option<f64> {
            printed.lines().find_map(|line| line.strip_prefix(beginning)?.split_whitespace().next()?.parse().ok())
        };
        let rate = number("tps = ").ok_or_else(|| format!("pgbench printed no rate: {printed}"))?;
        let mut row = Row::new("pgbench".to_owned());
        for entry in std::fs::read_dir(&self.dir).map_err(|error| error.to_string())?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("transactions.") {
                let log = std::fs::read_to_string(entry.path()).map_err(|error| error.to_string())?;
                let times = log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok());
                row.times.extend(times.map(Duration::from_micros));
            }
        }
        let count = f64::from(u32::try_from(row.times.len()).unwrap_or(u32::MAX));
        row.all = Duration::from_secs_f64(count / rate);
        Ok(row)
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
    /// The directory of its socket.
    dir: PathBuf,
}

impl Server {
    fn start(bench: &Bench) -> Result<Server> {
        let child = Command::new(&bench.program).arg("server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("a process without output")?;
        let mut server = Server { child, answers: BufReader::new(stdout).lines(), dir: PathBuf::new() };
        server.dir = server.answer()?.into();
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

/// Returns the newest pgbench.
fn pgbench() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = versions.map(|version| version.path().join("bin/pgbench")).collect();
    all.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    all.into_iter().rev().chain(std::env::split_paths(&path).map(|dir| dir.join("pgbench"))).find(|path| path.is_file())
}

/// Returns the standard output of a program, or its standard error if it failed.
fn stdout_of(output: &std::process::Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
