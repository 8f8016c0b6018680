//! `way merge-driver`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::{Error, Result};
use waypost_workspace::surroundings;

use crate::CommandContext;
use waypost::issues::merge_files;

/// Merge three versions of a ledger, for git and other tools, and write the result to OURS
///
/// Never leaves conflicts: comments keep the losing values. If a file cannot be read or written, OURS stays unchanged.
#[derive(clap::Args)]
#[command(
    hide = true,
    after_help = "Examples:
  way merge-driver %O %A %B %P                                  as git's merge.waypost.driver
  way merge-driver $base $left $right --output $output          as a merge tool of jj
  way merge-driver $base $local $other --output $output         as a merge tool of Mercurial"
)]
pub(crate) struct Args {
    /// Common ancestor
    base: PathBuf,
    /// Our version, and the output file
    ours: PathBuf,
    /// Their version
    theirs: PathBuf,
    /// Path of the file in the repository, for error messages
    path: Option<PathBuf>,
    /// Output file [default: OURS]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(_: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let merged = merge_files(&args.base, &args.ours, &args.theirs).map_err(|error| match &args.path {
        Some(path) => error.within(path.display().to_string()),
        None => error,
    })?;
    let output = args.output.as_ref().unwrap_or(&args.ours);
    waypost_fs::replace(&surroundings::resolve(output), &merged, 0o644)
        .map_err(|error| Error::unavailable(format!("cannot write {}", output.display())).because(error))?;
    Ok(ExitCode::SUCCESS)
}
