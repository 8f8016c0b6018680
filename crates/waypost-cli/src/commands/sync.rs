//! `way sync`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::{Kind, Result, path_text};

use crate::CommandContext;
use crate::escape::escape;
use crate::ui::Text;
use waypost::issues::{
    Fetched, ProposalOutcome, Push, Repo, SyncOptions, Synced, fetch_project, merge_answered_proposals, push_setting,
    sync, sync_timeout,
};
use waypost::ops::issue::IssueContext;

/// Synchronize ledgers: fetch, merge, commit and push
///
/// Commits only the ledger and pushes only commits of the ledger. Other files, staged or not, the current branch, stashes
/// and unpushed commits stay unchanged. The commit of the ledger is on top of unpushed commits and contains what was pushed,
/// so the branch does not diverge. --push-commits, or the setting sync.push, pushes the unpushed commits too. Syncs every repository whose ledger is configured, or with --repo one of them. For
/// a project to which you only propose issues, fetches the default branch and reports accepted and rejected proposals.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way sync
  way sync --dry-run
  way sync --no-push --repo ~/.waypost-planning")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub(crate) struct Args {
    /// Show the commands that would be run, without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Fetch, merge and commit, without pushing
    #[arg(long)]
    no_push: bool,
    /// Accept more than 10000 new issues of the remote, even if they more than double the ledger
    #[arg(long)]
    accept_growth: bool,
    /// Also push your own unpushed commits of the branch
    #[arg(long, conflicts_with = "no_push")]
    push_commits: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let ledger_cx = cx.open_ledgers_to_change_with(&[], args.dry_run)?;
    let push = match (args.no_push, args.push_commits) {
        (true, _) => Push::Nothing,
        (_, true) => Push::Branch,
        _ => push_setting(&ledger_cx.place),
    };
    let (dry_run, accept_growth) = (args.dry_run, args.accept_growth);
    let options = SyncOptions { push, dry_run, timeout: sync_timeout(&ledger_cx.place), accept_growth };
    let numbers = ledger_cx.ledger.numbers();
    let is_one = numbers.len() == 1;
    // Without a planning repository there are no proposals.
    let mut fetched =
        if ledger_cx.ledger.may_write(0) || numbers.is_empty() { None } else { fetch(cx, &ledger_cx, options)? };
    let mut synced: Vec<(&Repo, Synced)> = Vec::new();
    for number in numbers {
        let repo = &ledger_cx.ledger.repos()[number];
        if !is_one {
            cx.ui.progress(&escape(&format!("{}:", repo.path().display())))?;
        }
        let one = {
            let ui = &cx.ui;
            // Printing the result reports an error of stdout.
            sync(repo, &ledger_cx.place.variables, options, &|step| drop(ui.progress(&escape(step))))
        };
        match one {
            Ok(mut one) => {
                let before = fetched.take().map(|fetched| fetched.commands).unwrap_or_default();
                one.commands.splice(..0, before);
                synced.push((repo, one));
            }
            // One of several repositories without a remote does not stop the others.
            Err(error) if !is_one && error.kind() == Kind::NothingToDo => cx.ui.note(&error.full_message()),
            // The only one may be the planning of the repository that the user is in.
            Err(error) if !is_one || number != 0 => return Err(error.within(repo.path().display())),
            Err(error) => return Err(error),
        }
    }
    for note in synced.iter().flat_map(|(_, one)| &one.notes) {
        if cx.ui.json {
            cx.ui.warn(note);
        } else {
            cx.ui.note(note);
        }
    }
    let data: Vec<Value> = synced
        .iter()
        .map(|(repo, one)| {
            json!({
                "repo": path_text::to_text(repo.path()),
                "upstream": one.upstream,
                "merged": one.is_merged,
                "committed": one.committed,
                "pushed": one.pushed,
                "commands": args.dry_run.then_some(&one.commands),
            })
        })
        .collect();
    let data = if is_one { data.into_iter().next().unwrap_or_default() } else { Value::Array(data) };
    // The planning repository is committed by now, so retiring a copy loses nothing.
    let outcomes = if args.dry_run { Vec::new() } else { merge_answered_proposals(&ledger_cx.ledger, 0)? };
    for outcome in &outcomes {
        let message = match outcome {
            ProposalOutcome::Accepted(id) => format!("{id} was accepted and is now an issue of the project"),
            ProposalOutcome::AcceptedAhead(id) => {
                format!("{id} was accepted; your planning keeps it until you pull the project")
            }
            ProposalOutcome::AcceptedInPart(id) => {
                format!("{id} was accepted without your latest changes; to propose them: way propose {id}")
            }
            ProposalOutcome::Rejected(id, None) => format!("{id} was rejected"),
            ProposalOutcome::Rejected(id, Some(reason)) => format!("{id} was rejected: {reason}"),
            ProposalOutcome::Dropped(id, how) => format!("{id} was dropped: {how}; it is local to your planning again"),
        };
        if cx.ui.json {
            cx.ui.warn(&message);
        } else {
            cx.ui.note(&message);
        }
    }
    cx.ui.answer(&data, |text| synced.iter().for_each(|(_, one)| write_outcome(text, one, args.dry_run)))?;
    Ok(ExitCode::SUCCESS)
}

/// Fetches the project that receives proposals. A failure is a warning, so that the rest is still synced.
fn fetch(cx: &mut CommandContext, ledger_cx: &IssueContext, options: SyncOptions) -> Result<Option<Fetched>> {
    let project = &ledger_cx.ledger.repos()[0];
    if !options.dry_run {
        cx.ui.progress(&escape(&format!("Fetching {}", project.path().display())))?;
    }
    match fetch_project(project, &ledger_cx.place.variables, options) {
        Ok(fetched) => Ok(fetched),
        Err(error) => {
            let problem = "cannot fetch the project, so the state of proposals may be outdated";
            cx.ui.warn(&format!("{problem}: {}", error.full_message()));
            Ok(None)
        }
    }
}

fn write_outcome(text: &mut Text, synced: &Synced, dry_run: bool) {
    for command in &synced.commands {
        text.line(command);
    }
    if dry_run {
        return;
    }
    match (&synced.committed, &synced.pushed) {
        (Some(commit), Some(pushed)) if commit == pushed => {
            text.line(format!("Committed and pushed the ledger as {}", short(commit)));
        }
        (Some(commit), Some(pushed)) => {
            text.line(format!("Committed the ledger as {}, and pushed it as {}", short(commit), short(pushed)));
        }
        (Some(commit), None) => text.line(format!("Committed the ledger as {}", short(commit))),
        (None, Some(commit)) => text.line(format!("Pushed the ledger as {}", short(commit))),
        (None, None) if synced.is_merged => text.line("Merged the ledger of the remote"),
        (None, None) => text.line("The ledger is already in sync"),
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
