//! Asks again and again what is ready, as a program that waits for work does.

use std::path::PathBuf;
use std::time::Instant;

use waypost::issues::ledger::{Config, Ledger};

use crate::{Result, print_row};

pub(crate) fn poll(times: usize, repositories: &[&str]) -> Result {
    let mut repositories = repositories.iter().map(PathBuf::from);
    let primary = repositories.next().ok_or("of which repository?")?;
    let ledger = Ledger::with_config(Config { primary, additional: repositories.collect(), actor: None })?;
    // The first answer may make an index, and those right after a change compare lines.
    for _ in 0..100 {
        ledger.ready()?;
    }
    let mut measured = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        ledger.ready()?;
        measured.push(start.elapsed());
    }
    print_row("ready", &measured);
    Ok(())
}
