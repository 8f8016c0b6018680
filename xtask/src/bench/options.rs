//! What is asked of a benchmark.

use crate::{Result, USAGE};

/// Which benchmark, how long, and how strict.
#[derive(Default)]
pub(crate) struct Options {
    /// Ledgers are measured, and not what every command pays.
    pub(crate) ledger: bool,
    /// A missed bar is an error.
    pub(crate) enforce: bool,
    /// At most so many times each case, instead of the benchmark's own number.
    pub(crate) rounds: Option<u32>,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "ledger" => options.ledger = true,
                "--enforce" => options.enforce = true,
                "--rounds" => {
                    let rounds = args.next().and_then(|text| text.parse().ok()).filter(|rounds| *rounds > 0);
                    options.rounds = Some(rounds.ok_or("--rounds wants a number, at least 1")?);
                }
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}
