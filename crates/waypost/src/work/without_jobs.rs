//! Stands in for the module `jobs` in a program that is built without it. Any other process of the machine looks after its
//! jobs, and a supervisor sees within seconds that its job was cancelled.

use waypost_core::Result;

use crate::app::session::Session;

#[expect(clippy::unnecessary_wraps, reason = "with jobs it can fail")]
pub(crate) fn bring_up_to_date(_: &mut Session) -> Result<()> {
    Ok(())
}

pub(crate) fn stop_cancelled(_: &mut Session) {}
