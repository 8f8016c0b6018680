//! What is asked of a benchmark.

use crate::{Result, USAGE};

/// Which benchmark, how long, and how strict.
#[derive(Default)]
pub(crate) struct Options {
    /// What is measured.
    pub(crate) subject: Subject,
    /// A missed bar is an error.
    pub(crate) enforce: bool,
    /// At most so many times each case, instead of the benchmark's own number.
    pub(crate) rounds: Option<u32>,
}

/// What can be measured.
#[derive(Clone, Copy, Default)]
pub(crate) enum Subject {
    /// What every command pays.
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
