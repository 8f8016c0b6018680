//! Concurrent claims on many connections.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::{Bench, Result, caller, checkpoint, fill, print_row};

/// Claims for some seconds on every connection, each time as another agent, and prints how often a task was claimed twice.
pub(crate) fn claim(url: &str, connections: u32, seconds: u64) -> Result {
    let barrier = Barrier::new(usize::try_from(connections)?);
    let start = Instant::now();
    let all: Result<Vec<_>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let claimed = claim_on_one(url, number, connections, seconds, barrier);
                    claimed.map_err(|error| error.to_string())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let all = all?;
    let began = all.iter().map(|one| one.began).min().unwrap_or(start);
    let ended = all.iter().map(|one| one.ended).max().unwrap_or(start);
    let times: Vec<Duration> = all.iter().flat_map(|one| one.times.iter().copied()).collect();
    let distinct: BTreeSet<&String> = all.iter().flat_map(|one| &one.tasks).collect();
    print_row("claims", ended.duration_since(began), &times);
    print_row("duplicates", Duration::from_nanos((times.len() - distinct.len()) as u64), &[]);
    Ok(())
}

/// Claims, checkpoints and finishes tasks for some seconds, as one of many processes. Prints a line when it is ready, and
/// starts when its input ends.
pub(crate) fn mix(store: &str, agent: &str, seconds: u64) -> Result {
    let mut bench = Bench::open(store)?;
    bench.caller = caller(agent);
    println!("open");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        let start = Instant::now();
        let claimed = bench.claim()?;
        let (task, epoch) = (claimed.task.task.id.to_string(), Some(claimed.lease.epoch));
        let claimed = Instant::now();
        bench.write(checkpoint(&task, epoch))?;
        let noted = Instant::now();
        bench.finish(&task, epoch)?;
        times.extend([claimed - start, noted - claimed, noted.elapsed()]);
    }
    print_row(agent, began.elapsed(), &times);
    Ok(())
}

struct Claims {
    began: Instant,
    ended: Instant,
    times: Vec<Duration>,
    tasks: Vec<String>,
}

fn claim_on_one(url: &str, number: u32, connections: u32, seconds: u64, barrier: &Barrier) -> Result<Claims> {
    let opened = Bench::open(url);
    barrier.wait();
    let mut bench = opened?;
    let began = Instant::now();
    let (mut times, mut tasks) = (Vec::new(), Vec::new());
    let mut agent = fill::BEFORE + 1 + number;
    while began.elapsed() < Duration::from_secs(seconds) {
        bench.caller = caller(&format!("agent {agent}"));
        agent += connections;
        let start = Instant::now();
        let claimed = bench.claim()?;
        times.push(start.elapsed());
        tasks.push(claimed.task.task.id.to_string());
    }
    Ok(Claims { began, ended: Instant::now(), times, tasks })
}
