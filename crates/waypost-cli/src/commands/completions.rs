//! `way completions`

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;
use crate::complete::SCRIPTS;
use crate::ui::print;

/// Print a shell completion script
///
/// In bash, zsh and fish it completes live names too: ids of issues with their titles, tasks, workflows, jobs, workspaces,
/// agents, labels and more.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way completions bash > ~/.local/share/bash-completion/completions/way
  way completions zsh > ~/.zfunc/_way
  way completions fish > ~/.config/fish/completions/way.fish")]
pub(crate) struct Args {
    /// Shell to generate the script for
    shell: clap_complete::Shell,
}

pub(crate) fn run(_cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some((_, script)) = SCRIPTS.iter().find(|(shell, _)| *shell == args.shell) {
        print(script)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "way", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
