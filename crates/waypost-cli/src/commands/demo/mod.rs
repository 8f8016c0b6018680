//! `way demo`
//!
//! `project.rs` has the files of the demo's project, `scratch.rs` its directory and environment, `story.rs` runs and shows
//! the steps, `live.rs` keeps agents at work under a dashboard.

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost::signals::ShutdownSignal;
use waypost_core::{Result, path_text};

use crate::CommandContext;

mod live;
mod project;
mod scratch;
mod story;

use scratch::Scratch;

/// Show agents at work on a small project, in a scratch directory
///
/// Four scripted agents work at once on the parts of a shop, each in its own workspace: one asks a question, one is killed
/// and another goes on from its checkpoint. Then their branches are merged, the test of the project runs, and a proposal is
/// accepted upstream. Every command that is shown is run. Takes some seconds, needs git, and does not touch your files.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way demo
  way demo --keep       then look around in the shop and in its upstream
  way demo --serve      and watch agents work in a browser, until Ctrl-C
  way demo --json       the steps as JSON")]
pub(crate) struct Args {
    /// Keep the scratch directory
    #[arg(long)]
    keep: bool,
    /// Then open a dashboard, on which agents go on working until you press Ctrl-C
    #[arg(long)]
    serve: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let shutdown = ShutdownSignal::listen()?;
    let scratch = Scratch::create(&cx.variables)?;
    let result = show(cx, args, &scratch, &shutdown);
    let stopped = scratch.stop_jobs();
    let kept = if args.keep {
        cx.ui.note(&format!("kept in {}; to look around: cd {0}/shop", scratch.dir.display()));
        Ok(())
    } else {
        scratch.remove()
    };
    result.and(stopped).and(kept).map(|()| ExitCode::SUCCESS)
}

/// Tells the story, and keeps the dashboard open if the user wants it.
fn show(cx: &mut CommandContext, args: &Args, scratch: &Scratch, shutdown: &ShutdownSignal) -> Result<()> {
    let mut facts = story::tell(&cx.ui, scratch, shutdown)?;
    facts["kept"] = args.keep.then(|| path_text::to_text(&scratch.dir)).into();
    if args.serve {
        return live::serve(&cx.ui, scratch, shutdown, facts);
    }
    answer(&cx.ui, &facts)
}

/// Prints the facts as JSON, if that is the format. As text, they are a part of the story.
fn answer(ui: &crate::ui::Ui, facts: &Value) -> Result<()> {
    if ui.json { ui.answer(&json!(facts), |_| {}) } else { Ok(()) }
}
