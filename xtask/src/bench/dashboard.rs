//! The dashboard in a real browser: bytes, first render, time from an event to its pixels, memory.

use super::options::Options;
use super::scratch::Scratch;
use crate::{Result, run, tools};

pub(super) fn measure(options: &Options) -> Result {
    tools::install_packages_for(&["chromium", "chromium-driver"]);
    let scratch = Scratch::prepare()?;
    let program = scratch.program("dashboard")?;
    let mut command = std::process::Command::new(program);
    command.arg(scratch.way_path());
    if options.enforce {
        command.arg("--enforce");
    }
    run(&mut command)
}
