//! Benchmarks with bars. Bars are ratios where possible, so that the speed of the machine cancels out.

mod all;
mod cases;
mod dashboard;
mod issues;
mod ledger;
mod machine;
mod options;
mod page;
mod percentiles;
mod plot;
mod process;
mod repository;
mod results;
mod scratch;
mod server;
mod startup;
mod store;
mod taskwarrior;
mod workspace;

pub(crate) use options::Options;

use self::options::Subject;
use crate::Result;

/// The benchmarks whose bars `cargo xtask ci` enforces, by name.
pub(crate) const ENFORCED: [(&str, Subject); 3] =
    [("startup", Subject::Startup), ("ledger", Subject::Ledger), ("store", Subject::Store)];

/// Runs a benchmark and prints a table.
pub(crate) fn measure(options: &Options) -> Result {
    match options.subject {
        Subject::Startup => startup::measure(options),
        Subject::Ledger => ledger::measure(options),
        Subject::Store => store::measure(options),
        Subject::Server => server::measure(options),
        Subject::Workspace => workspace::measure(options),
        Subject::Dashboard => dashboard::measure(options),
        Subject::All => all::measure(options, measure),
        Subject::Page => page::write(options),
    }
}
