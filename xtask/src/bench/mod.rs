//! The bars, measured as ratios: a machine's speed divides out, its load mostly.

mod cases;
mod options;
mod process;
mod scratch;
mod startup;

pub(crate) use options::Options;

use crate::Result;

/// Measures what was asked for and prints a table.
pub(crate) fn measure(options: &Options) -> Result {
    startup::measure(options)
}
