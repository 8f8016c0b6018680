//! `way mcp`

use std::process::ExitCode;
use std::sync::Arc;

use waypost::host::Who;
use waypost_core::Result;
use waypost_server::mcp;

use crate::CommandContext;
use waypost::single_host::SingleHost;

/// Serve one agent over MCP, on standard input and output
///
/// Agents start it themselves; way setup tells them how. It ends when standard input is closed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way setup claude-code           make Claude Code start it
  way mcp --agent alice           calls that do not name an agent are alice's")]
pub(crate) struct Args {}

pub(crate) fn run(cx: &mut CommandContext, _: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    // Said at once: a client shows it, and would else hear it with every call.
    place.store()?;
    let who = Who { actor: place.actor(), agent: place.agent() };
    mcp::serve_stdio(Arc::new(SingleHost::new(place)), who)?;
    Ok(ExitCode::SUCCESS)
}
