//! The options of a benchmark.

use crate::{Result, USAGE};

/// The options of a benchmark.
#[derive(Default)]
pub(crate) struct Options {
    /// The benchmark.
    pub(crate) subject: Subject,
    /// Whether a missed bar is an error.
    pub(crate) enforce: bool,
    /// Maximum number of runs of each case, instead of the default of the benchmark.
    pub(crate) rounds: Option<u32>,
}

/// The benchmarks.
#[derive(Clone, Copy, Default)]
pub(crate) enum Subject {
    /// The start-up of every command.
    #[default]
    Startup,
    /// Ledgers of many issues.
    Ledger,
    /// Operations on a store.
    Store,
    /// A server with many clients.
    Server,
    /// Workspaces of many files.
    Workspace,
    /// The dashboard in a browser.
    Dashboard,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "ledger" => options.subject = Subject::Ledger,
                "store" => options.subject = Subject::Store,
                "server" => options.subject = Subject::Server,
                "workspace" => options.subject = Subject::Workspace,
                "dashboard" => options.subject = Subject::Dashboard,
                "--enforce" => options.enforce = true,
                "--rounds" => {
                    let rounds = args.next().and_then(|text| text.parse().ok()).filter(|rounds| *rounds > 0);
                    options.rounds = Some(rounds.ok_or("--rounds needs a number of at least 1")?);
                }
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}
