//! `way merge-driver`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::{Error, Result};

use crate::CommandContext;
use waypost::merge_driver::merge_files;

/// Merge three versions of a ledger, for git and other tools; the result is written to OURS
///
/// There are no conflicts: what lost is kept in comments. If a file cannot be read or written, OURS stays as it is.
#[derive(clap::Args)]
#[command(
    hide = true,
    after_help = "Examples:
  way merge-driver %O %A %B %P                                  as git's merge.waypost.driver
  way merge-driver $base $left $right --output $output          as a merge tool of jj
  way merge-driver $base $local $other --output $output         as a merge tool of Mercurial"
)]
pub(crate) struct Args {
    /// What both sides come from
    base: PathBuf,
    /// One side, and where the result goes
    ours: PathBuf,
    /// The other side
    theirs: PathBuf,
    /// What the file is called in the repository
    path: Option<PathBuf>,
    /// Write the result to this file, and not to OURS
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(_: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let merged = merge_files(&args.base, &args.ours, &args.theirs).map_err(|error| match &args.path {
        Some(path) => error.within(path.display().to_string()),
        None => error,
    })?;
    let output = args.output.as_ref().unwrap_or(&args.ours);
    waypost_fs::replace(output, &merged, 0o644)
        .map_err(|error| Error::unavailable(format!("cannot write {}", output.display())).because(error))?;
    Ok(ExitCode::SUCCESS)
}
