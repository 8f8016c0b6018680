//! `way ws`

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::{Strategy, Workspace, WorkspaceStatus};
use waypost_core::op::{CompleteMerge, ListWorkspaces, WorkspaceView};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::workspaces::{Merged, Name, Snapshot};

use crate::bytes;
use crate::cli::Cx;
use crate::cli::spans::span;
use crate::cli::ui::{BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, ending, styled};
use crate::jobs;
use crate::session::Session;
use crate::workspaces::{self, Force, Rules, Wanted};

/// Isolated directories for jobs: list, look into, save and remove them
///
/// A workspace is made for every job, and kept when the job has ended. It is never removed with work in it that nobody
/// else has, unless that is saved first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ws list                        what is there, and how large it is
  way ws show jb_4k2j                the workspace of a job
  way ws whose .                     which job this directory was made for
  way ws gc --older-than 7d --dry-run
  way ws rm ws_1a2b --force          saves what is in it, then removes it
  way ws restore ws_1a2b-1           gets it back, in a new workspace")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_aliases = ["create", "add"])]
    New(NewArgs),
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a workspace, and what would be lost with it
    Show(OneArgs),
    Whose(WhoseArgs),
    /// Measure workspaces
    Du(DuArgs),
    /// Keep a workspace until it is unpinned
    Pin(OneArgs),
    /// Let a workspace be removed again
    Unpin(OneArgs),
    #[command(visible_alias = "remove")]
    Rm(RmArgs),
    #[command(visible_alias = "clean")]
    Gc(GcArgs),
    /// Save everything in a workspace, untracked files too
    Snapshot(OneArgs),
    /// List what was saved of workspaces of this repository
    Snapshots,
    Restore(RestoreArgs),
    Export(ExportArgs),
    /// Make sure that a workspace can be worked in, and say where it is: an overlay is mounted again
    Enter(OneArgs),
    Warm(WarmArgs),
    /// List the workspaces that wait for a job
    Pool,
    Push(PushArgs),
    Merged(MergedArgs),
    Trust(TrustArgs),
}

/// Make a workspace by hand, without a job
#[derive(clap::Args)]
struct NewArgs {
    /// clone, overlay, worktree, jj or copy [default: as configured, else as suits the repository]
    #[arg(long, value_parser = strategy)]
    strategy: Option<Strategy>,
    #[command(flatten)]
    start: StartingPoint,
    /// Clone this address, and not the repository we are in
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
}

/// Where work in a workspace starts.
#[derive(clap::Args)]
pub(crate) struct StartingPoint {
    /// The commit to start from [default: the current one]
    #[arg(long, value_name = "REVISION")]
    pub(crate) base: Option<String>,
    /// The branch to work on [default: waypost/ and its id]
    #[arg(long)]
    pub(crate) branch: Option<String>,
}

/// List workspaces
#[derive(clap::Args)]
struct ListArgs {
    /// Those that are gone, too
    #[arg(long)]
    all: bool,
    /// Those of other machines, too
    #[arg(long)]
    everywhere: bool,
}

#[derive(clap::Args)]
struct OneArgs {
    /// Its id, the beginning of it, its job, or a path in it
    workspace: String,
}

/// Say which workspace and which job a path belongs to
#[derive(clap::Args)]
struct WhoseArgs {
    /// A path
    path: PathBuf,
}

#[derive(clap::Args)]
struct DuArgs {
    /// Only this one
    workspace: Option<String>,
}

/// Remove a workspace
///
/// Refuses while a job runs in it, while it is pinned, and if files are not committed or commits are on no remote.
#[derive(clap::Args)]
struct RmArgs {
    /// Its id, the beginning of it, its job, or a path in it
    #[arg(required = true)]
    workspace: Vec<String>,
    /// Save everything in it first
    #[arg(long, conflicts_with = "discard")]
    force: bool,
    /// Let work in it go for good
    #[arg(long)]
    discard: bool,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
}

/// Remove workspaces by their age, their number or their size
///
/// Without a rule the configuration counts: workspaces.keep_for, workspaces.keep_count, workspaces.total. Whatever is in
/// use, pinned, or has work in it that nobody else has stays. What workspaces are made from is packed on the way.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ws gc --dry-run
  way ws gc --older-than 3d
  way ws gc --keep 20 --max-bytes 10GB")]
struct GcArgs {
    /// Those that nobody used for so long
    #[arg(long, value_name = "SPAN", value_parser = span)]
    older_than: Option<u64>,
    /// The oldest, until this many are left
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// The oldest, until all take no more than so much
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    max_bytes: Option<u64>,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
}

/// Get back what was saved: in a new workspace, or in one that is there
#[derive(clap::Args)]
struct RestoreArgs {
    /// What it was saved as
    snapshot: String,
    /// Restore into this workspace; what is in it is saved first
    #[arg(long, value_name = "WORKSPACE")]
    into: Option<String>,
}

/// Write what was saved into one file, which git can clone and fetch from
#[derive(clap::Args)]
struct ExportArgs {
    /// What it was saved as
    snapshot: String,
    /// The file to write
    file: PathBuf,
}

/// Have workspaces ready before a job needs one
#[derive(clap::Args)]
struct WarmArgs {
    /// How many [default: workspaces.pool]
    number: Option<usize>,
}

/// Push what a workspace did to the real remote
#[derive(clap::Args)]
struct PushArgs {
    /// Its id, the beginning of it, its job, or a path in it
    workspace: String,
    #[command(flatten)]
    how: DeliveryArgs,
}

/// How work is delivered.
#[derive(clap::Args)]
pub(crate) struct DeliveryArgs {
    /// The branch to push to [default: the workspace's own]
    #[arg(long)]
    branch: Option<String>,
    /// Commit everything that is not committed, with this message
    #[arg(long, value_name = "MESSAGE")]
    commit: Option<String>,
    /// Open a pull request with gh, if it is installed
    #[arg(long)]
    pr: bool,
}

/// Say whether what workspaces did has arrived in the branch that others build on
#[derive(clap::Args)]
struct MergedArgs {
    /// Only this one [default: all]
    workspace: Option<String>,
}

/// Trust the set-up command of this repository, as it is now
#[derive(clap::Args)]
struct TrustArgs {
    /// Trust nothing of this repository any more
    #[arg(long)]
    remove: bool,
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    let mut session = cx.session()?;
    jobs::look(&mut session)?;
    workspaces::heal(&mut session)?;
    let session = &mut session;
    match &args.command {
        Command::New(args) => new(cx, session, args),
        Command::List(args) => list(cx, session, args),
        Command::Show(args) => show(cx, session, &args.workspace),
        Command::Whose(args) => whose(cx, session, args),
        Command::Du(args) => du(cx, session, args),
        Command::Pin(args) => pin(cx, session, &args.workspace, true),
        Command::Unpin(args) => pin(cx, session, &args.workspace, false),
        Command::Rm(args) => rm(cx, session, args),
        Command::Gc(args) => gc(cx, session, args),
        Command::Snapshot(args) => snapshot(cx, session, &args.workspace),
        Command::Snapshots => snapshots(cx, session),
        Command::Restore(args) => restore(cx, session, args),
        Command::Export(args) => export(cx, session, args),
        Command::Enter(args) => enter(cx, session, &args.workspace),
        Command::Warm(args) => warm(cx, session, args),
        Command::Pool => pool(cx, session),
        Command::Push(args) => {
            let workspace = workspaces::find(session, &args.workspace)?.workspace;
            deliver(cx, session, &workspace, &args.how)
        }
        Command::Merged(args) => merged(cx, session, args),
        Command::Trust(args) => trust(cx, session, args),
    }
}

fn new(cx: &mut Cx, session: &mut Session, args: &NewArgs) -> Result<ExitCode> {
    let wanted = Wanted {
        job: None,
        strategy: args.strategy,
        base: args.start.base.as_deref(),
        branch: args.start.branch.as_deref(),
        remote: args.remote.as_deref(),
    };
    let created = workspaces::create(session, &wanted, &mut |step| cx.ui.note(step))?;
    for note in &created.notes {
        cx.ui.warn(note);
    }
    let workspace = &created.workspace;
    cx.ui.answer(workspace, |text| {
        text.line(format!("Made workspace {} at {}", workspace.id, workspace.path.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut Cx, session: &mut Session, args: &ListArgs) -> Result<ExitCode> {
    let machine = if args.everywhere { None } else { Some(workspaces::machine(session)?) };
    let all = session.read(ListWorkspaces { machine, all: args.all, limit: Some(u32::MAX) })?.workspaces;
    let now = session.now()?;
    cx.ui.answer(&all, |text| {
        if !all.is_empty() {
            text.fitted(table_of(&all, now), 7);
            let total: u64 = all.iter().filter_map(|seen| seen.workspace.size).sum();
            text.line(format!("{}, {} as last measured", count(all.len(), "workspace"), bytes::shown(total)));
        }
    })?;
    if all.is_empty() {
        cx.ui.note("there are no workspaces; jobs make them: way job start -- COMMAND");
    }
    Ok(ExitCode::SUCCESS)
}

/// The table of workspaces, as `status` shows it too.
pub(crate) fn table_of(all: &[WorkspaceView], now: Timestamp) -> Vec<Vec<Cell>> {
    let titles = ["ID", "STATUS", "JOB", "TASK", "STRATEGY", "SIZE", "USED", "PATH"];
    let rows = all.iter().map(|seen| {
        let workspace = &seen.workspace;
        let status = match (workspaces::is_pooled(workspace), workspace.is_pinned) {
            (true, _) => "pool".to_owned(),
            (false, true) => format!("{}, pinned", workspace.status),
            (false, false) => workspace.status.to_string(),
        };
        let dash = || "-".to_owned();
        vec![
            cell(&workspace.id),
            styled(style(workspace.status), status),
            cell(workspace.job_id.as_ref().map_or_else(dash, ToString::to_string)),
            cell(seen.task.clone().unwrap_or_else(dash)),
            cell(workspace.strategy),
            cell(workspace.size.map_or_else(dash, bytes::shown)),
            styled(DIM, workspace.updated_at.ago(now)),
            ending(workspace.path.display()),
        ]
    });
    std::iter::once(Vec::from(titles.map(|title| styled(DIM, title)))).chain(rows).collect()
}

fn style(status: WorkspaceStatus) -> Style {
    match status {
        WorkspaceStatus::Active => GOOD,
        WorkspaceStatus::Creating => WARN,
        WorkspaceStatus::Lost => BAD,
        WorkspaceStatus::Kept => Style::new(),
        WorkspaceStatus::Snapshotted | WorkspaceStatus::Removed => DIM,
    }
}

fn show(cx: &mut Cx, session: &mut Session, reference: &str) -> Result<ExitCode> {
    let seen = workspaces::find(session, reference)?;
    let examined = match seen.workspace.status {
        WorkspaceStatus::Kept => Some(workspaces::examine(&seen.workspace)?),
        _ => None,
    };
    let data = json!({ "workspace": seen, "findings": examined });
    let now = session.now()?;
    cx.ui.answer(&data, |text| {
        let workspace = &seen.workspace;
        let field = |label: &str, value: Cell| vec![styled(BOLD, label), value];
        let mut rows = vec![
            field("workspace", cell(&workspace.id)),
            field("status", styled(style(workspace.status), workspace.status)),
            field("repository", cell(&seen.repository)),
            field("path", cell(workspace.path.display())),
            field("strategy", cell(workspace.strategy)),
            field("used", cell(workspace.updated_at.ago(now))),
            field("machine", cell(&workspace.machine)),
        ];
        let job = seen.workspace.job_id.as_ref().map(ToString::to_string);
        let known = seen.job_status.map_or_else(String::new, |status| format!(", {status}"));
        let further = [
            ("job", job.map(|job| format!("{job}{known}"))),
            ("task", seen.task.clone()),
            ("branch", workspace.branch.clone()),
            ("base", workspace.base.clone()),
            ("size", workspace.size.map(bytes::shown)),
            ("snapshot", workspace.snapshot.clone()),
            ("pull request", workspace.pr_url.clone()),
            ("merged as", workspace.merge_commit.clone()),
            ("note", workspace.note.clone()),
            ("pinned", workspace.is_pinned.then(|| "yes".to_owned())),
        ];
        rows.extend(further.into_iter().filter_map(|(label, value)| Some(field(label, cell(value?)))));
        for objection in examined.iter().flat_map(|examined| &examined.objections) {
            rows.push(field("has", styled(WARN, objection)));
        }
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn whose(cx: &mut Cx, session: &mut Session, args: &WhoseArgs) -> Result<ExitCode> {
    let found = workspaces::whose(session, &args.path)?;
    let Some(seen) = found else {
        return Err(Error::not_found(format!("{} is in no workspace that this store knows", args.path.display())));
    };
    cx.ui.answer(&seen, |text| {
        let workspace = &seen.workspace;
        let job = workspace.job_id.as_ref().map_or_else(|| "no job".to_owned(), |job| format!("job {job}"));
        let task = seen.task.as_ref().map_or_else(String::new, |task| format!(", task {task}"));
        text.line(format!("{} of {job}{task}, {}", workspace.id, workspace.status));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn du(cx: &mut Cx, session: &mut Session, args: &DuArgs) -> Result<ExitCode> {
    let wanted = match &args.workspace {
        Some(one) => vec![workspaces::find(session, one)?],
        None => workspaces::list(session)?,
    };
    let mut measured = Vec::new();
    for seen in wanted.into_iter().filter(|seen| seen.workspace.status.is_live()) {
        let size = workspaces::measure(session, &seen.workspace)?;
        measured.push((seen.workspace, size));
    }
    measured.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let total: u64 = measured.iter().map(|(_, size)| size).sum();
    let each: Vec<_> = measured
        .iter()
        .map(|(workspace, size)| json!({ "id": workspace.id, "path": path_text::to_text(&workspace.path), "bytes": size }))
        .collect();
    cx.ui.answer(&json!({ "workspaces": each, "bytes": total }), |text| {
        let row = |size: u64, name: String| vec![cell(bytes::shown(size)), cell(name)];
        let mut rows: Vec<_> = measured
            .iter()
            .map(|(workspace, size)| row(*size, format!("{}  {}", workspace.id, workspace.path.display())))
            .collect();
        rows.push(row(total, "in all".to_owned()));
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn pin(cx: &mut Cx, session: &mut Session, reference: &str, pinned: bool) -> Result<ExitCode> {
    let workspace = workspaces::find(session, reference)?.workspace;
    let workspace = workspaces::pin(session, &workspace, pinned)?;
    cx.ui.answer(&workspace, |text| {
        text.line(format!("{} workspace {}", if pinned { "Pinned" } else { "Unpinned" }, workspace.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn rm(cx: &mut Cx, session: &mut Session, args: &RmArgs) -> Result<ExitCode> {
    let force = match (args.force, args.discard) {
        (_, true) => Force::Discard,
        (true, false) => Force::Save,
        (false, false) => Force::No,
    };
    let mut wanted = Vec::new();
    for reference in &args.workspace {
        wanted.push(workspaces::find(session, reference)?.workspace);
    }
    if args.dry_run {
        let mut said = Vec::new();
        for workspace in &wanted {
            let examined = workspaces::examine(workspace)?;
            let is_free = !workspace.is_pinned
                && workspace.status == WorkspaceStatus::Kept
                && examined.findings.living.is_empty();
            let goes = match force {
                _ if examined.objections.is_empty() => true,
                Force::No => false,
                Force::Save => is_free && examined.findings.unsaved().is_empty(),
                Force::Discard => is_free,
            };
            said.push(json!({ "workspace": workspace.id, "goes": goes, "objections": examined.objections }));
        }
        cx.ui.answer(&said, |text| {
            for (workspace, one) in wanted.iter().zip(&said) {
                let objections: Vec<_> =
                    one["objections"].as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect();
                text.line(match (one["goes"] == true, objections.is_empty()) {
                    (true, true) => format!("Would remove workspace {}", workspace.id),
                    (true, false) => {
                        format!("Would remove workspace {}, which has {}", workspace.id, objections.join(", "))
                    }
                    _ => format!("Would keep workspace {}: {}", workspace.id, objections.join(", ")),
                });
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut removed = Vec::new();
    for workspace in &wanted {
        removed.push(workspaces::remove(session, workspace, force)?);
    }
    cx.ui.answer(&removed, |text| {
        for one in &removed {
            text.line(format!("Removed workspace {} at {}", one.workspace.id, one.workspace.path.display()));
            if let (Some(saved), Some(restored)) = (&one.saved_as, &one.restored_by) {
                text.line(format!("Its work is saved as {saved}. To get it back: {restored}"));
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn gc(cx: &mut Cx, session: &mut Session, args: &GcArgs) -> Result<ExitCode> {
    let said = Rules { older_than: args.older_than, keep: args.keep, most_bytes: args.max_bytes };
    let is_said = said.older_than.is_some() || said.keep.is_some() || said.most_bytes.is_some();
    let rules = if is_said { said } else { workspaces::usual_rules(session)? };
    let now = session.now()?;
    let verdicts = workspaces::judge(session, &rules, now)?;
    let mut failed = Vec::new();
    let mut freed = 0;
    if !args.dry_run {
        for removed in workspaces::collect(session, &verdicts)? {
            match removed {
                Ok(removed) => freed += removed.freed.unwrap_or_default(),
                Err(error) => failed.push(error.full_message()),
            }
        }
    }
    let packed = if args.dry_run { Vec::new() } else { workspaces::upkeep(session)? };
    for failure in &failed {
        cx.ui.warn(failure);
    }
    let going = verdicts.iter().filter(|verdict| verdict.goes).count();
    let data = json!({ "dry_run": args.dry_run, "verdicts": verdicts, "freed": freed, "packed": packed });
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = verdicts
            .iter()
            .map(|verdict| {
                let word = match (verdict.goes, args.dry_run) {
                    (true, true) => styled(WARN, "would go"),
                    (true, false) => styled(GOOD, "gone"),
                    (false, _) => styled(DIM, "stays"),
                };
                vec![word, cell(&verdict.workspace.id), cell(&verdict.why), ending(verdict.workspace.path.display())]
            })
            .collect();
        text.table(&rows);
        let verb = if args.dry_run { "Would remove" } else { "Removed" };
        text.line(format!("{verb} {}", count(going - failed.len().min(going), "workspace")));
        for one in &packed {
            text.line(format!(
                "Packed {}: {} instead of {}",
                one.mirror.display(),
                count(one.after, "pack"),
                one.before
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn snapshot(cx: &mut Cx, session: &mut Session, reference: &str) -> Result<ExitCode> {
    let workspace = workspaces::find(session, reference)?.workspace;
    let saved = workspaces::snapshot(session, &workspace)?;
    for path in &saved.left_out {
        cx.ui.warn(&format!("{path} was left out: it is another repository, or no file"));
    }
    cx.ui.answer(&saved, |text| {
        text.line(format!("Saved workspace {} as {}", workspace.id, saved.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn snapshots(cx: &mut Cx, session: &Session) -> Result<ExitCode> {
    let all = workspaces::snapshots(session)?;
    cx.ui.answer(&all, |text| {
        let place = |one: &Snapshot| match (&one.commit, &one.path) {
            (Some(commit), _) => commit.clone(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => String::new(),
        };
        let rows: Vec<_> = all
            .iter()
            .map(|one| {
                vec![cell(&one.id), cell(one.strategy), styled(DIM, place(one)), styled(DIM, one.refs.join(" "))]
            })
            .collect();
        text.table(&rows);
    })?;
    if all.is_empty() {
        cx.ui.note("nothing was saved");
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(cx: &mut Cx, session: &mut Session, args: &RestoreArgs) -> Result<ExitCode> {
    let name = Name::try_from(args.snapshot.clone())?;
    let workspace = if let Some(into) = &args.into {
        workspaces::find(session, into)?.workspace
    } else {
        let saved = workspaces::saved(session, &name)?;
        // The commit may be nowhere but in the snapshot, so it starts from what is here.
        let wanted = Wanted { strategy: Some(saved.strategy), ..Wanted::default() };
        workspaces::create(session, &wanted, &mut |step| cx.ui.note(step))?.workspace
    };
    let restored = workspaces::restore(&workspace, &name, args.into.is_none())?;
    cx.ui.answer(&json!({ "workspace": workspace, "restored": restored }), |text| {
        text.line(format!("Restored {name} in workspace {} at {}", workspace.id, workspace.path.display()));
        if let Some(before) = &restored.before {
            text.line(format!("What was there before is saved as {}", before.id));
        }
        for name in &restored.left_alone {
            text.line(format!("There is {name} already, so it was left alone"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn export(cx: &mut Cx, session: &Session, args: &ExportArgs) -> Result<ExitCode> {
    let name = Name::try_from(args.snapshot.clone())?;
    workspaces::export(session, &name, &args.file)?;
    cx.ui.answer(&json!({ "snapshot": name, "file": path_text::to_text(&args.file) }), |text| {
        text.line(format!("Wrote {name} to {}", args.file.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn enter(cx: &mut Cx, session: &mut Session, reference: &str) -> Result<ExitCode> {
    let workspace = workspaces::find(session, reference)?.workspace;
    if !workspace.status.is_live() {
        return Err(Error::conflict(format!("workspace {} is {}", workspace.id, workspace.status)));
    }
    workspaces::enter(&workspace)?;
    cx.ui.answer(&workspace, |text| text.line(workspace.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn warm(cx: &mut Cx, session: &mut Session, args: &WarmArgs) -> Result<ExitCode> {
    let configured = session.place.config.text("workspaces.pool").and_then(|text| text.parse().ok());
    let number = args.number.or(configured).unwrap_or_default();
    if number == 0 {
        return Err(Error::invalid("nobody says how many workspaces to have ready")
            .hint("way ws warm N, or way config set workspaces.pool N"));
    }
    let slots = workspaces::warm(session, number, &mut |step| cx.ui.note(step))?;
    cx.ui.answer(&slots, |text| {
        let verb = if slots.len() == 1 { "waits" } else { "wait" };
        text.line(format!("{} {verb} for a job", count(slots.len(), "workspace")));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn pool(cx: &mut Cx, session: &Session) -> Result<ExitCode> {
    let slots = workspaces::pool(session)?;
    cx.ui.answer(&slots, |text| {
        let rows: Vec<_> = slots
            .iter()
            .map(|slot| {
                let state = slot.living.first().map_or_else(
                    || styled(GOOD, "ready"),
                    |process| styled(WARN, format!("process {} lives in it", process.id)),
                );
                let base = slot.plan.base.as_deref().unwrap_or("-");
                vec![cell(&slot.plan.name), state, styled(DIM, base), ending(slot.plan.workspace.display())]
            })
            .collect();
        text.table(&rows);
    })?;
    if slots.is_empty() {
        cx.ui.note("no workspace waits; way ws warm N makes some");
    }
    Ok(ExitCode::SUCCESS)
}

/// Commits, pushes and, if that was wanted, opens a pull request.
pub(crate) fn deliver(
    cx: &mut Cx,
    session: &mut Session,
    workspace: &Workspace,
    how: &DeliveryArgs,
) -> Result<ExitCode> {
    let delivered = workspaces::deliver(session, workspace, how.branch.as_deref(), how.commit.as_deref())?;
    let mut url = None;
    if how.pr {
        match workspaces::open_pull_request(workspace, &delivered.branch) {
            Ok(found) => {
                workspaces::note_pull_request(session, workspace, &found)?;
                url = Some(found);
            }
            Err(error) => cx.ui.warn(&format!("no pull request was opened: {}", error.full_message())),
        }
    }
    let compare = delivered.remote.as_deref().and_then(|remote| compare_url(remote, &delivered.branch));
    let data = json!({ "delivered": delivered, "pull_request": url, "compare": compare });
    cx.ui.answer(&data, |text| {
        let short = &delivered.commit[..delivered.commit.len().min(12)];
        text.line(format!("Pushed {short} to {}", delivered.branch));
        match (&url, &compare) {
            (Some(url), _) => text.line(format!("Pull request: {url}")),
            (None, Some(compare)) => text.line(format!("To open a pull request: {compare}")),
            (None, None) => {}
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns where a person can open a pull request, for remotes on GitHub.
fn compare_url(remote: &str, branch: &str) -> Option<String> {
    let path = remote
        .strip_prefix("git@github.com:")
        .or_else(|| remote.strip_prefix("ssh://git@github.com/"))
        .or_else(|| remote.split_once("github.com/").map(|(_, path)| path))?;
    Some(format!(
        "https://github.com/{}/compare/{branch}?expand=1",
        path.trim_end_matches('/').trim_end_matches(".git")
    ))
}

fn merged(cx: &mut Cx, session: &mut Session, args: &MergedArgs) -> Result<ExitCode> {
    let wanted = match &args.workspace {
        Some(one) => vec![workspaces::find(session, one)?],
        None => workspaces::list(session)?,
    };
    let mut found = Vec::new();
    for seen in wanted.into_iter().filter(|seen| seen.workspace.strategy.borrows() && seen.workspace.status.is_live()) {
        if workspaces::is_pooled(&seen.workspace) {
            continue;
        }
        let merged = workspaces::merged(session, &seen.workspace)?;
        let mut workflow = None;
        if matches!(merged, Merged::Whole | Merged::Squashed) {
            workflow = complete_workflow(session, &seen)?;
        }
        found.push((seen, merged, workflow));
    }
    let data: Vec<_> = found
        .iter()
        .map(|(seen, merged, workflow)| json!({ "workspace": seen.workspace.id, "merged": merged, "workflow": workflow }))
        .collect();
    cx.ui.answer(&data, |text| {
        let rows: Vec<_> = found
            .iter()
            .map(|(seen, merged, workflow)| {
                let word = match merged {
                    Merged::Whole => styled(GOOD, "merged"),
                    Merged::Squashed => styled(GOOD, "merged, in other commits"),
                    Merged::No => styled(WARN, "not merged"),
                    Merged::Nothing => styled(DIM, "nothing to merge"),
                };
                let done = workflow.as_ref().map_or_else(String::new, |name| format!("workflow {name} is completed"));
                vec![cell(&seen.workspace.id), word, cell(done)]
            })
            .collect();
        text.table(&rows);
    })?;
    if found.is_empty() {
        cx.ui.note("there are no workspaces with work that could be merged");
    }
    Ok(ExitCode::SUCCESS)
}

/// Completes the workflow that waits for what a workspace did to be merged. Returns its name.
fn complete_workflow(session: &mut Session, seen: &WorkspaceView) -> Result<Option<String>> {
    let Some(job) = &seen.workspace.job_id else { return Ok(None) };
    let Some(task) = jobs::show(session, job.as_str())?.job.task_id else { return Ok(None) };
    let page = session.read(waypost_core::op::ShowTask { task: task.to_string(), workflow: None })?;
    let workflow = page.task.task.workflow_id.to_string();
    match session.write(CompleteMerge { workflow, merged: true }) {
        Ok(done) => Ok(Some(done.workflow.name)),
        // It does not wait for this, or for more than this.
        Err(error) if error.kind() == waypost_core::Kind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

fn trust(cx: &mut Cx, session: &mut Session, args: &TrustArgs) -> Result<ExitCode> {
    let repository = session.place.require_checkout()?.repository_path().to_owned();
    let trust = workspaces::trust(session)?;
    if args.remove {
        trust.remove(&repository)?;
        cx.ui
            .answer(&json!({ "trusted": null }), |text| text.line("Nothing of this repository is trusted any more"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = session.place.config.text("workspaces.setup") else {
        return Err(Error::not_found("this repository has no set-up command").hint("way config set workspaces.setup"));
    };
    trust.add(&repository, &command)?;
    cx.ui.answer(&json!({ "trusted": command }), |text| text.line(format!("Trusted: {command}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads how a workspace is made. In-place, which makes none, is not offered; why it is refused is said later.
fn strategy(text: &str) -> Result<Strategy, String> {
    let making = Strategy::ALL.iter().filter(|strategy| **strategy != Strategy::InPlace);
    let making: Vec<_> = making.map(|strategy| strategy.as_str()).collect();
    text.parse().map_err(|_| format!("it is not a strategy of workspaces; one of: {}", making.join(", ")))
}

/// Reads an amount of bytes from the command line.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    bytes::parse(text).ok_or_else(|| "an amount of bytes, for example 500MB or 20GiB".to_owned())
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
