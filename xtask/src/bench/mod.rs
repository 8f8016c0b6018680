//! The bars, measured as ratios: a machine's speed divides out, its load mostly.

mod cases;
mod issues;
mod ledger;
mod options;
mod process;
mod scratch;
mod startup;
mod taskwarrior;

pub(crate) use options::Options;

use crate::Result;

/// Measures what was asked for and prints a table.
pub(crate) fn measure(options: &Options) -> Result {
    if options.ledger { ledger::measure(options) } else { startup::measure(options) }
}
