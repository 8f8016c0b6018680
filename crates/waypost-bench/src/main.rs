//! The program that `cargo xtask bench` measures beside `way`, and that measures the library in its own process.
//!
//! A row that it prints is a name, a tab, and the nanoseconds of each run.
#![expect(clippy::print_stdout, reason = "it is a program")]

mod fill;
mod hydrate;
mod operations;
mod poll;
mod workspace;

use std::error::Error;
use std::time::Duration;

use waypost_testkit::Postgres;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

const USAGE: &str = "hydrate LEDGER DATABASE
poll TIMES REPOSITORY...
workspace make|warm|take|remove SOURCE DIRECTORY NAME [STRATEGY [BASE]]
server
fill STORE TASKS PENDING
grow ROUNDS (TASKS STORE)...
context STORE CHECKPOINTS ROUNDS
mix STORE AGENT SECONDS";

fn main() -> Result {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["hydrate", ledger, database] => hydrate::hydrate(ledger, database),
        ["poll", times, repositories @ ..] => poll::poll(times.parse()?, repositories),
        ["workspace", verb, source, dir, name, rest @ ..] => workspace::run(verb, source, dir.as_ref(), name, rest),
        ["server"] => server(),
        ["fill", store, tasks, pending] => operations::fill(store, tasks.parse()?, pending.parse()?),
        ["grow", rounds, stores @ ..] => operations::grow(rounds.parse()?, stores),
        ["context", store, checkpoints, rounds] => operations::context(store, checkpoints.parse()?, rounds.parse()?),
        ["mix", store, agent, seconds] => operations::mix(store, agent, seconds.parse()?),
        _ => Err(USAGE.into()),
    }
}

/// Starts a PostgreSQL server, prints its directory, and prints the URL of a new schema for every line of input. Ends with
/// the input.
fn server() -> Result {
    let server = Postgres::start(&[]);
    println!("{}", server.dir().display());
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", server.url());
    }
    Ok(())
}

fn print_row(name: &str, times: &[Duration]) {
    let times: Vec<String> = times.iter().map(|time| time.as_nanos().to_string()).collect();
    println!("{name}\t{}", times.join(" "));
}
