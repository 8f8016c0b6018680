//! `way graph`

use std::process::ExitCode;

use waypost::app::lazy_session::LazySession;
use waypost::ops::issue::IssueContext;
use waypost::ops::{graph_of_issue, graph_of_workflow};
use waypost_core::Result;

use crate::CommandContext;
use crate::draw::{Drawing, Format};

/// Draw the dependencies of a workflow or an issue
///
/// In text, each line is below those it waits for. The critical path is the longest chain of what is left to do.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way graph release
  way graph way-1a2b
  way graph release --format svg > release.svg
  way graph release --format mermaid")]
pub(crate) struct Args {
    /// Workflow: an id or a name; or an issue: an id or a unique prefix of it
    #[arg(value_name = "WORKFLOW|ISSUE")]
    subject: String,
    /// Format of the drawing
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let (session, found) = match cx.session_if_any()? {
        (_, Some(mut session)) => {
            let found = graph_of_workflow(&mut session, &args.subject)?;
            (LazySession::from(session), found)
        }
        (place, None) => (LazySession::new(place, cx.ui.pending.clone()), None),
    };
    let graph = match found {
        Some(graph) => graph,
        None => graph_of_issue(&IssueContext::open(session, cx.global.repo.as_deref(), &[])?, &args.subject)?,
    };
    cx.ui.answer(&graph, |text| Drawing::of(&graph).write(text, args.format))?;
    Ok(ExitCode::SUCCESS)
}
