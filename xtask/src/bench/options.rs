//! The options of a benchmark.

use crate::{Result, USAGE};

/// The options of a benchmark.
#[derive(Clone, Default)]
pub(crate) struct Options {
    /// The benchmark.
    pub(crate) subject: Subject,
    /// Whether a missed bar is an error.
    pub(crate) enforce: bool,
    /// Maximum number of runs of each case, instead of the default of the benchmark.
    pub(crate) rounds: Option<u32>,
    /// Measure only rows whose name contains this text, and those that they are compared with.
    pub(crate) only: Option<String>,
    /// Measure smaller data, and less often.
    pub(crate) quick: bool,
    /// The profile of cargo with which the measured programs are built, instead of `dist`.
    pub(crate) profile: Option<String>,
    /// Whether all measured programs are built already.
    pub(crate) is_built: bool,
}

/// The benchmarks.
#[derive(Clone, Copy, Default, PartialEq)]
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
    /// All of them, and the page with their results.
    All,
    /// The page alone, from the results of the last runs.
    Page,
}

impl Subject {
    /// Returns its name on the command line and in the names of its results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Startup => "startup",
            Subject::Ledger => "ledger",
            Subject::Store => "store",
            Subject::Server => "server",
            Subject::Workspace => "workspace",
            Subject::Dashboard => "dashboard",
            Subject::All => "all",
            Subject::Page => "page",
        }
    }
}

const SUBJECTS: [Subject; 8] = [
    Subject::Startup,
    Subject::Ledger,
    Subject::Store,
    Subject::Server,
    Subject::Workspace,
    Subject::Dashboard,
    Subject::All,
    Subject::Page,
];

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        let value =
            |value: Option<&&str>, flag: &str| value.map(ToString::to_string).ok_or(format!("{flag} needs a value"));
        while let Some(arg) = args.next() {
            match *arg {
                "--enforce" => options.enforce = true,
                "--quick" => options.quick = true,
                "--only" => options.only = Some(value(args.next(), arg)?),
                "--profile" => options.profile = Some(value(args.next(), arg)?),
                "--rounds" => {
                    let rounds = args.next().and_then(|text| text.parse().ok()).filter(|rounds| *rounds > 0);
                    options.rounds = Some(rounds.ok_or("--rounds needs a number of at least 1")?);
                }
                name => {
                    let named = SUBJECTS.into_iter().find(|subject| subject.name() == name);
                    options.subject = named.ok_or(USAGE)?;
                }
            }
        }
        Ok(options)
    }

    /// Returns whether a row of this name is measured.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Returns the number of runs: that of `--rounds`, else the default of a quick or of a full benchmark.
    pub(super) fn rounds(&self, full: u32, quick: u32) -> u32 {
        self.rounds.unwrap_or_else(|| self.pick(full, quick))
    }

    /// Returns the first value in a full benchmark, and the second in a quick one.
    pub(super) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
