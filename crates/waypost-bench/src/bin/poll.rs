//! Asks again and again what is ready, as a program that waits for work does, and says how long an answer takes.
//!
//! ```text
//! poll TIMES REPOSITORY [REPOSITORY...]
//! ```
#![expect(clippy::print_stdout, reason = "it is its answer")]

use std::path::PathBuf;
use std::time::Instant;

use waypost::ledger::{Config, Ledger};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let times: usize = args.next().and_then(|times| times.to_str()?.parse().ok()).ok_or("how many times?")?;
    let primary = args.next().map(PathBuf::from).ok_or("of which repository?")?;
    let ledger = Ledger::with_config(Config { primary, additional: args.map(PathBuf::from).collect(), actor: None })?;
    // The first answer may make an index, and those right after a change compare lines.
    for _ in 0..100 {
        ledger.ready()?;
    }
    let mut nanos = Vec::with_capacity(times);
    let mut issues = 0;
    for _ in 0..times {
        let start = Instant::now();
        issues = ledger.ready()?.len();
        nanos.push(start.elapsed().as_nanos());
    }
    nanos.sort_unstable();
    println!("{issues} ready, median {} ns", nanos[nanos.len() / 2]);
    Ok(())
}
