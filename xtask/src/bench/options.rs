//! The options of a benchmark.

use crate::Result;

/// The options of a benchmark.
#[derive(Clone)]
pub(crate) struct Options {
    /// The name of the benchmark, or `all`.
    pub(crate) subject: String,
    /// Whether a missed bar is an error.
    pub(crate) enforce: bool,
    /// A result may miss its bar by this factor.
    pub(crate) tolerance: f64,
    /// Maximum number of runs of each case, instead of the default of the benchmark.
    pub(crate) rounds: Option<u32>,
    /// Measure only rows whose name contains this text, and those that they are compared with.
    pub(crate) only: Option<String>,
    /// Measure smaller data, and less often.
    pub(crate) quick: bool,
    /// The profile of cargo with which the measured programs are built.
    pub(crate) profile: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            subject: "all".to_owned(),
            enforce: false,
            tolerance: 1.0,
            rounds: None,
            only: None,
            quick: false,
            profile: "dist".to_owned(),
        }
    }
}

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
                "--profile" => options.profile = value(args.next(), arg)?,
                "--rounds" => {
                    let rounds = args.next().and_then(|text| text.parse().ok()).filter(|rounds| *rounds > 0);
                    options.rounds = Some(rounds.ok_or("--rounds needs a number of at least 1")?);
                }
                name => name.clone_into(&mut options.subject),
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
