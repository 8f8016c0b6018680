//! `way mcp`

use std::process::ExitCode;
use std::sync::Arc;

use waypost::app::{App, Who};
use waypost_core::Result;
use waypost_server::mcp;

use crate::CommandContext;

/// Serve one agent over MCP, on standard input and output
///
/// Agents start this server themselves; way setup configures them to. The server exits when standard input is closed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way setup claude-code           configure Claude Code to start the server
  way mcp --agent alice           calls without an agent are made as alice")]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    // Fail at start, where clients show the error, instead of on every call.
    place.store()?;
    let who = Who { actor: place.actor(), agent: place.agent() };
    mcp::serve_stdio(Arc::new(App::one_process(place)), who)?;
    Ok(ExitCode::SUCCESS)
}
