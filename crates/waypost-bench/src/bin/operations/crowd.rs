//! One of many processes that work on a store.

use std::time::{Duration, Instant};

use crate::{Bench, Result, caller, checkpoint, print_row};

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
