//! Workspaces, in the store's sight: written down, then made; looked at, saved, and then removed.
//!
//! What `waypost_workspace` makes and removes, the store remembers. A row is written before the first file, and the last
//! file goes before the row says so; whoever looks next finishes what a crash left half done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::id::{RepositoryId, WorkspaceId};
use waypost_core::model::{Job, ProcessIdentity, Strategy, Workspace, WorkspaceStatus};
use waypost_core::op::{
    ChangeWorkspace, CreateWorkspace, ListRepositories, ListWorkspaces, ListWorktrees, RemoveWorktree, ShowWorkspace,
    WorkspaceView,
};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_fs::{FileIdentity, FileLock};
use waypost_workspace::workspaces::{
    self as tools, Findings, Made, Means, Merged, Name, Places, Plan, Request, Restored, Slot, Snapshot, Source, Trust,
    Trusted, Work,
};
use waypost_workspace::{
    Checkout, Environment, Own, adopt_repository_id, detect, jobs, repository_id, worktree_id, worktrees,
};

use crate::bytes;
use crate::config::Layer;
use crate::session::{Session, SystemEntropy};
use crate::sync;

/// What a row says while its directory is being removed.
const REMOVING: &str = "it is being removed";
/// What a row says of a workspace that waits for a job.
const IN_POOL: &str = "it waits in the pool";
/// How long the set-up command may take if nobody says.
const SETUP_PATIENCE: Duration = Duration::from_mins(30);
/// How long somebody else who makes or removes workspaces by the rules is waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// A workspace that somebody wants.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// The job it is for.
    pub job: Option<&'a Job>,
    /// How it is made; as configured, else as suits the repository.
    pub strategy: Option<Strategy>,
    /// The commit to start from.
    pub base: Option<&'a str>,
    /// The branch to work on.
    pub branch: Option<&'a str>,
    /// The repository, if it is not the one we stand in: an address.
    pub remote: Option<&'a str>,
}

/// What the store keeps with a workspace: all that is needed to take it back.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    plan: Plan,
    maker: ProcessIdentity,
}

/// A workspace that is there.
#[derive(Clone, Debug)]
pub struct Created {
    /// The workspace.
    pub workspace: Workspace,
    /// What a job in it should know.
    pub notes: Vec<String>,
    /// Whether it was taken from the pool.
    pub is_pooled: bool,
}

/// Returns the name of this machine, if it has one: it never ran a job otherwise.
fn known_machine(session: &Session) -> Option<String> {
    let name = std::fs::read_to_string(session.place.in_home("machine")?.0).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the name of this machine as the store knows it: made once, kept in the user's own directory.
pub fn machine(session: &Session) -> Result<String> {
    if let Some(name) = known_machine(session) {
        return Ok(name);
    }
    let Some((path, _)) = session.place.in_home("machine") else {
        return Err(Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"));
    };
    let cannot = |error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
    waypost_fs::create_private_dir(path.parent().unwrap_or(Path::new("/"))).map_err(cannot)?;
    let _lock = FileLock::acquire(&path.with_extension("lock"), PATIENCE)?;
    if let Some(name) = known_machine(session) {
        return Ok(name);
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(|char| char.is_ascii_alphanumeric() || "-._".contains(*char)).collect();
    let id = WorkspaceId::generate(&mut SystemEntropy);
    let name = format!("{host}-{}", &id.as_str()[id.as_str().len() - 6..]);
    waypost_fs::replace(&path, format!("{name}\n").as_bytes(), 0o600).map_err(cannot)?;
    Ok(name)
}

/// Returns the directory of all workspaces.
pub fn root(session: &Session) -> Result<PathBuf> {
    let known = session.place.workspaces()?.map(|(path, _)| path);
    known.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or workspaces.path"))
}

fn mirrors(session: &Session) -> Result<PathBuf> {
    let known = session.place.in_home("mirrors").map(|(path, _)| path);
    known.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"))
}

/// What the user says about the network.
fn own(session: &Session) -> Own {
    sync::own(&session.place.variables, sync::limit(&session.place))
}

/// Finds the repository that a job works on: the one we stand in, another one on this machine, or its address.
fn source(session: &mut Session, wanted: &Wanted<'_>) -> Result<(Option<Checkout>, Option<String>)> {
    if let Some(url) = wanted.remote {
        return Ok((None, Some(url.to_owned())));
    }
    let own = session.repository().id.clone();
    let id = wanted.job.map_or_else(|| own.clone(), |job| job.repository_id.clone());
    if id == own
        && let Some(checkout) = &session.place.checkout
    {
        return Ok((Some(checkout.clone()), None));
    }
    let known = session.read(ListRepositories {})?.repositories;
    let known = known.into_iter().map(|seen| seen.repository).find(|repository| repository.id == id);
    let Some(known) = known else { return Err(Error::not_found(format!("no repository {id}"))) };
    let here = detect(&known.path, &Environment::default()).ok().flatten();
    let here = here.filter(|found| repository_id(&found.private_dir).ok().flatten().as_ref() == Some(&id));
    match (here, known.remote_url) {
        (Some(checkout), _) => Ok((Some(checkout), None)),
        (None, Some(url)) => Ok((None, Some(url))),
        (None, None) => Err(Error::not_found(format!(
            "repository {} is not at {} on this machine, and has no remote to clone it from",
            known.name,
            known.path.display()
        ))),
    }
}

/// Makes a workspace. If anything fails, nothing of it is left but a row that says so.
pub fn create(session: &mut Session, wanted: &Wanted<'_>, say: &mut dyn FnMut(&str)) -> Result<Created> {
    let (root, mirrors, machine) = (root(session)?, mirrors(session)?, machine(session)?);
    make_room(session, say)?;
    let id = WorkspaceId::generate(&mut SystemEntropy);
    let name = wanted.job.map_or_else(|| Name::from(&id), |job| Name::from(&job.id));
    let (checkout, url) = source(session, wanted)?;
    let origin = match (&checkout, &url) {
        (Some(checkout), _) => Source::Checkout(checkout),
        (None, Some(url)) => Source::Remote(url),
        (None, None) => return Err(Error::internal("a workspace comes from somewhere")),
    };
    let configured = session.place.config.text("workspaces.strategy").map(|word| word.parse()).transpose()?;
    // A configured strategy that does not suit the repository is no order.
    let suits = |strategy: &Strategy| match &checkout {
        Some(checkout) => match strategy {
            Strategy::Clone | Strategy::Overlay => checkout.git_dir.is_some(),
            Strategy::Jj => checkout.vcs == waypost_core::model::Vcs::Jj,
            _ => true,
        },
        None => strategy.borrows(),
    };
    let strategy = wanted.strategy.or(configured.filter(suits));
    let own = own(session);
    let places = Places { workspaces: &root, mirrors: &mirrors };
    let request =
        Request { places, name: &name, source: origin, base: wanted.base, branch: wanted.branch, strategy, own };
    let plan = tools::plan(&request)?;
    say(&format!("making a workspace by {}", plan.strategy));
    write_down(session, &id, wanted.job, &machine, &plan)?;
    let means = Means { own, url: url.as_deref() };
    let repository = wanted.job.map_or_else(|| session.repository().id.clone(), |job| job.repository_id.clone());
    let made = fill(session, &plan, &means, &repository, say);
    let (made, is_pooled) = match made {
        Ok(made) => made,
        Err(error) => {
            let gone = tools::abandon(&plan);
            let status = gone.is_ok().then_some(WorkspaceStatus::Removed);
            change(session, &id, |change| {
                change.status = status;
                change.note = Some(error.full_message());
            })?;
            return Err(error);
        }
    };
    let status = if wanted.job.is_some() { WorkspaceStatus::Active } else { WorkspaceStatus::Kept };
    let workspace = change(session, &id, |change| {
        change.status = Some(status);
        change.identity = made.identity;
        change.note = Some(made.notes.join("; "));
    })?;
    Ok(Created { workspace, notes: made.notes, is_pooled })
}

fn write_down(session: &mut Session, id: &WorkspaceId, job: Option<&Job>, machine: &str, plan: &Plan) -> Result<()> {
    let record = Record { plan: plan.clone(), maker: jobs::own_identity() };
    let record = serde_json::to_value(record).map_err(|error| Error::internal(error.to_string()))?;
    session.write(CreateWorkspace {
        id: id.clone(),
        job: job.map(|job| job.id.to_string()),
        repository: None,
        machine: machine.to_owned(),
        path: plan.workspace.clone(),
        context: Some(plan.context()),
        strategy: plan.strategy,
        branch: plan.branch.clone(),
        base: plan.base.clone(),
        plan: record,
    })?;
    Ok(())
}

/// Makes what was planned, with all that the configuration wants in it.
fn fill(
    session: &Session,
    plan: &Plan,
    means: &Means<'_>,
    repository: &RepositoryId,
    say: &mut dyn FnMut(&str),
) -> Result<(Made, bool)> {
    let taken = tools::take(plan, means)?;
    let is_pooled = taken.is_some();
    let made = match taken {
        Some(made) => made,
        None => tools::make(plan, means)?,
    };
    if plan.strategy.borrows() {
        // Whoever works there works on the same repository, and the store should know.
        adopt_repository_id(&plan.workspace.join(".git/waypost"), repository)?;
    }
    let patterns = session.place.config.list("workspaces.include");
    if !patterns.is_empty() {
        let copied = tools::include(plan, &patterns)?;
        say(&format!("brought {copied} ignored files"));
    }
    if let Some(command) = setup_command(session, plan)? {
        say(&format!("setting it up: {}", command.command()));
        let done = tools::set_up(plan, &command, &[], SETUP_PATIENCE)?;
        if done.code != Some(0) {
            let how = match (done.is_late, done.code) {
                (true, _) => "took too long".to_owned(),
                (false, Some(code)) => format!("ended with {code}"),
                (false, None) => "was ended by a signal".to_owned(),
            };
            let said = String::from_utf8_lossy(&jobs::tail(&done.log, 2000)).trim().to_owned();
            return Err(Error::conflict(format!("the set-up command {how}")).because(said));
        }
    }
    Ok((made, is_pooled))
}

/// Returns the command that sets workspaces up, if there is one that may run.
fn setup_command(session: &Session, plan: &Plan) -> Result<Option<Trusted>> {
    let Some(setting) = session.place.config.get("workspaces.setup") else { return Ok(None) };
    let command = setting.value.to_string();
    if setting.layer != Layer::Shared {
        return Ok(Some(Trusted::of_user(&command)));
    }
    let repository = plan.source.clone().unwrap_or_else(|| plan.workspace.clone());
    trust(session)?.check(&repository, &command).map(Some).map_err(|error| error.hint("way ws trust"))
}

/// The commands of repositories that the user trusts.
pub fn trust(session: &Session) -> Result<Trust> {
    let path = session.place.in_home("trusted.json").map(|(path, _)| path);
    path.map(|path| Trust::at(&path))
        .ok_or_else(|| Error::invalid("trust needs a home directory").hint("set HOME or WAYPOST_HOME"))
}

/// Notes what became of a workspace.
fn change(session: &mut Session, id: &WorkspaceId, set: impl FnOnce(&mut ChangeWorkspace)) -> Result<Workspace> {
    let mut operation = ChangeWorkspace {
        workspace: id.to_string(),
        job: None,
        context: None,
        status: None,
        identity: None,
        size: None,
        pinned: None,
        snapshot: None,
        merge_commit: None,
        pr_url: None,
        note: None,
    };
    set(&mut operation);
    session.write(operation)
}

/// Returns how a workspace was planned.
pub fn plan_of(workspace: &Workspace) -> Result<Plan> {
    let record: Record = serde_json::from_value(workspace.plan.clone()).map_err(|error| {
        Error::damaged(format!("what is known of workspace {} cannot be read", workspace.id)).because(error)
    })?;
    Ok(record.plan)
}

/// Shows a workspace: by its id, the beginning of one, its job, or a path in it.
pub fn find(session: &mut Session, reference: &str) -> Result<WorkspaceView> {
    let error = match session.read(ShowWorkspace { workspace: reference.to_owned() }) {
        Err(error) if error.kind() == Kind::NotFound => error,
        found => return found,
    };
    match whose(session, Path::new(reference))? {
        Some(found) => Ok(found),
        None => Err(error.hint("way ws list")),
    }
}

/// Returns the workspace that a path is in.
pub fn whose(session: &mut Session, path: &Path) -> Result<Option<WorkspaceView>> {
    let path = session.place.cwd.join(path);
    let path = path.canonicalize().unwrap_or(path);
    let Some(machine) = known_machine(session) else { return Ok(None) };
    let all = session.read(ListWorkspaces { machine: Some(machine), all: true, limit: Some(u32::MAX) })?.workspaces;
    // Its own directory before those of the pool, of which it may have been one.
    Ok(all.into_iter().find(|seen| {
        let home = seen.workspace.path.parent().unwrap_or(&seen.workspace.path);
        seen.workspace.strategy != Strategy::InPlace && path.starts_with(home)
    }))
}

/// Lists the workspaces of this machine that are there, newest first.
pub fn list(session: &mut Session) -> Result<Vec<WorkspaceView>> {
    let Some(machine) = known_machine(session) else { return Ok(Vec::new()) };
    let all = session.read(ListWorkspaces { machine: Some(machine), all: false, limit: Some(u32::MAX) })?;
    Ok(all.workspaces)
}

/// Tells whether a workspace waits in the pool.
pub fn is_pooled(workspace: &Workspace) -> bool {
    workspace.note.as_deref() == Some(IN_POOL)
}

/// Finishes what somebody began who is gone: workspaces made or removed in part, and directories that vanished.
pub fn heal(session: &mut Session) -> Result<()> {
    for seen in list(session)? {
        let workspace = seen.workspace;
        let Ok(record) = serde_json::from_value::<Record>(workspace.plan.clone()) else { continue };
        let plan = record.plan;
        let is_there = plan.home().symlink_metadata().is_ok() || plan.strategy == Strategy::InPlace;
        let status = match workspace.status {
            WorkspaceStatus::Creating if !jobs::is_running(&record.maker) => match tools::abandon(&plan) {
                Ok(()) => Some((WorkspaceStatus::Removed, "whoever made it was ended")),
                Err(error) => {
                    log::debug!("cannot take back workspace {}: {}", workspace.id, error.full_message());
                    None
                }
            },
            WorkspaceStatus::Active | WorkspaceStatus::Kept if !is_there => {
                let is_ours = workspace.note.as_deref() == Some(REMOVING);
                match (is_ours, workspace.identity) {
                    (true, Some(identity)) if tools::remove(&plan, identity, Work::MayGo).is_ok() => {
                        let is_saved = workspace.snapshot.is_some();
                        Some((if is_saved { WorkspaceStatus::Snapshotted } else { WorkspaceStatus::Removed }, ""))
                    }
                    _ if is_pooled(&workspace) => Some((WorkspaceStatus::Removed, "a job took it")),
                    _ => Some((WorkspaceStatus::Lost, "its directory is not there any more")),
                }
            }
            WorkspaceStatus::Lost if is_there && is_same(&workspace, &plan) => Some((WorkspaceStatus::Kept, "")),
            _ => None,
        };
        if let Some((status, note)) = status {
            change(session, &workspace.id, |change| {
                change.status = Some(status);
                change.note = Some(note.to_owned());
            })?;
        }
    }
    Ok(())
}

fn is_same(workspace: &Workspace, plan: &Plan) -> bool {
    let found = FileIdentity::of_entry(&plan.home()).ok().map(waypost_core::model::Identity::from);
    found.is_some() && found == workspace.identity
}

/// What would be lost with a workspace.
#[derive(Clone, Debug, Serialize)]
pub struct Examined {
    /// What was found in it.
    pub findings: Findings,
    /// Why it may not be removed, in words.
    pub objections: Vec<String>,
}

/// Looks for reasons not to remove a workspace.
pub fn examine(workspace: &Workspace) -> Result<Examined> {
    let plan = plan_of(workspace)?;
    let mut objections = Vec::new();
    match workspace.status {
        WorkspaceStatus::Active => objections.push("a job runs in it".to_owned()),
        WorkspaceStatus::Creating => objections.push("it is being made".to_owned()),
        _ => {}
    }
    if workspace.is_pinned {
        objections.push("it is pinned".to_owned());
    }
    // Whoever works in it may be changing everything that would be looked at.
    if !objections.is_empty() || workspace.status == WorkspaceStatus::Lost {
        return Ok(Examined { findings: Findings::default(), objections });
    }
    let findings = tools::examine(&plan)?;
    objections.extend(findings.at_risk());
    objections.extend(
        findings.living.first().map(|process| format!("process {} ({}) lives in it", process.id, process.name)),
    );
    Ok(Examined { findings, objections })
}

/// What may become of work that nobody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// If there is any, nothing is removed.
    No,
    /// It is saved first.
    Save,
    /// It goes.
    Discard,
}

/// What became of a workspace that was removed.
#[derive(Clone, Debug, Serialize)]
pub struct Removed {
    /// The workspace.
    pub workspace: Workspace,
    /// What its work was saved as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<String>,
    /// How to get it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_by: Option<String>,
    /// How many bytes that made free, as last measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed: Option<u64>,
}

/// Removes a workspace, unless something would be lost with it.
pub fn remove(session: &mut Session, workspace: &Workspace, force: Force) -> Result<Removed> {
    let plan = plan_of(workspace)?;
    let gone = |status| Error::conflict(format!("workspace {} is {status} already", workspace.id));
    match workspace.status {
        WorkspaceStatus::Removed | WorkspaceStatus::Snapshotted => return Err(gone(workspace.status)),
        // There is nothing to remove but the memory of it.
        WorkspaceStatus::Lost => return forget(session, workspace),
        _ => {}
    }
    let examined = examine(workspace)?;
    let is_in_use = workspace.is_pinned || !matches!(workspace.status, WorkspaceStatus::Kept);
    let refused = |objections: &[String]| {
        let error = Error::refused(format!("workspace {} stays: {}", workspace.id, objections.join(", ")));
        match (workspace.is_pinned, workspace.status) {
            (true, _) => error.hint(format!("way ws unpin {}", workspace.id)),
            (_, WorkspaceStatus::Active) => error.hint("way job cancel, or wait until the job has ended"),
            _ => error.hint("way ws rm --force saves it first; --discard lets it go"),
        }
    };
    if is_in_use || !examined.findings.living.is_empty() || (force == Force::No && !examined.objections.is_empty()) {
        return Err(refused(&examined.objections));
    }
    let identity = workspace
        .identity
        .ok_or_else(|| Error::refused(format!("nobody knows which directory workspace {} is", workspace.id)))?;
    let is_at_risk = !examined.findings.at_risk().is_empty();
    let (mut saved_as, mut restored_by) = (None, None);
    if force == Force::Save && is_at_risk {
        if plan.strategy.borrows() {
            let saved = snapshot(session, workspace)?;
            restored_by = Some(format!("way ws restore {}", saved.id));
            saved_as = Some(saved.id.to_string());
        } else {
            let checkout =
                plan.checkout.as_deref().or(plan.source.as_deref()).ok_or_else(|| refused(&examined.objections))?;
            let checkout = detect(checkout, &Environment::default())?.ok_or_else(|| refused(&examined.objections))?;
            if plan.strategy == Strategy::Copy {
                return Err(Error::refused(format!(
                    "nothing can save workspace {}: it has no version control",
                    workspace.id
                ))
                .hint("take what you need, then: way ws rm --discard"));
            }
            let saved = worktrees::save(&checkout, &plan.workspace, plan.name.as_str(), session.now()?)?;
            restored_by = Some(saved.restored_by);
            saved_as = Some(saved.name);
        }
    }
    let worktree = detect(&plan.workspace, &Environment::default()).ok().flatten();
    let worktree = worktree.and_then(|found| worktree_id(&found.worktree_private_dir).ok().flatten());
    change(session, &workspace.id, |change| {
        change.note = Some(REMOVING.to_owned());
        change.snapshot.clone_from(&saved_as);
    })?;
    let work = if force == Force::No { Work::MustBeSafe } else { Work::MayGo };
    if let Err(error) = tools::remove(&plan, identity, work) {
        change(session, &workspace.id, |change| {
            change.note = Some(format!("it could not be removed: {}", error.full_message()));
        })?;
        return Err(error);
    }
    let status = if saved_as.is_some() { WorkspaceStatus::Snapshotted } else { WorkspaceStatus::Removed };
    let workspace = change(session, &workspace.id, |change| {
        change.status = Some(status);
        change.note = Some(String::new());
    })?;
    // Whoever worked there made it known as a worktree.
    let known = session.read(ListWorktrees {})?.worktrees;
    if let Some(id) = worktree
        .filter(|id| known.iter().any(|one| one.id == *id && one.path == plan.workspace && one.removed_at.is_none()))
    {
        session.write(RemoveWorktree { id })?;
    }
    let freed = workspace.size;
    Ok(Removed { workspace, saved_as, restored_by, freed })
}

fn forget(session: &mut Session, workspace: &Workspace) -> Result<Removed> {
    let workspace = change(session, &workspace.id, |change| change.status = Some(WorkspaceStatus::Removed))?;
    Ok(Removed { workspace, saved_as: None, restored_by: None, freed: None })
}

/// Saves everything in a workspace.
pub fn snapshot(session: &mut Session, workspace: &Workspace) -> Result<Snapshot> {
    let plan = plan_of(workspace)?;
    let name = free_name(&plan, plan.name.as_str())?;
    let saved = tools::snapshot(&plan, &name)?;
    change(session, &workspace.id, |change| change.snapshot = Some(saved.id.to_string()))?;
    Ok(saved)
}

/// Returns the first name of snapshots that is not taken: the beginning, and a number.
fn free_name(plan: &Plan, beginning: &str) -> Result<Name> {
    let taken: Vec<_> = tools::snapshots(plan)?.into_iter().map(|snapshot| snapshot.id.to_string()).collect();
    let number = (1..=taken.len() + 1).find(|number| !taken.contains(&format!("{beginning}-{number}")));
    Name::try_from(format!("{beginning}-{}", number.unwrap_or_default()))
}

/// Brings a workspace to a state that was saved.
pub fn restore(workspace: &Workspace, snapshot: &Name) -> Result<Restored> {
    let plan = plan_of(workspace)?;
    let before = free_name(&plan, &format!("{}-before", plan.name))?;
    tools::restore(&plan, snapshot, &before)
}

/// Lists what was saved of workspaces of the repository we stand in.
pub fn snapshots(session: &mut Session) -> Result<Vec<Snapshot>> {
    tools::snapshots(&rehearsed(session)?)
}

/// A plan for a workspace that nobody makes: it knows the mirror.
fn rehearsed(session: &mut Session) -> Result<Plan> {
    let (root, mirrors) = (root(session)?, mirrors(session)?);
    let name = Name::from(&WorkspaceId::generate(&mut SystemEntropy));
    let checkout = session.place.require_checkout()?;
    let places = Places { workspaces: &root, mirrors: &mirrors };
    let own = own(session);
    let source = Source::Checkout(checkout);
    tools::plan(&Request {
        places,
        name: &name,
        source,
        base: None,
        branch: None,
        strategy: Some(Strategy::Clone),
        own,
    })
}

/// Measures a workspace, and remembers how large it is.
pub fn measure(session: &mut Session, workspace: &Workspace) -> Result<u64> {
    let size = tools::measure(&plan_of(workspace)?)?.bytes;
    if workspace.size != Some(size) {
        change(session, &workspace.id, |change| change.size = Some(size))?;
    }
    Ok(size)
}

/// Keeps a workspace until somebody says otherwise, or says otherwise.
pub fn pin(session: &mut Session, workspace: &Workspace, pinned: bool) -> Result<Workspace> {
    change(session, &workspace.id, |change| change.pinned = Some(pinned))
}

/// Lets a job work in a workspace that another one left.
pub fn reuse(session: &mut Session, workspace: &Workspace, job: &Job) -> Result<Workspace> {
    if workspace.status == WorkspaceStatus::Active {
        return Err(Error::conflict(format!("a job runs in workspace {} already", workspace.id)));
    }
    enter(workspace)?;
    let context = plan_of(workspace)?.context();
    change(session, &workspace.id, |change| {
        change.status = Some(WorkspaceStatus::Active);
        change.job = Some(job.id.to_string());
        change.context = Some(context);
    })
}

/// Mounts a workspace that has to be.
pub fn enter(workspace: &Workspace) -> Result<()> {
    tools::enter(&plan_of(workspace)?)
}

/// Which workspaces go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Those that nobody used for so long, in milliseconds.
    pub older_than: Option<u64>,
    /// The oldest, until this many are left.
    pub keep: Option<usize>,
    /// The oldest, until all take no more than so many bytes.
    pub most_bytes: Option<u64>,
}

/// What is to become of one workspace, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The workspace.
    pub workspace: Workspace,
    /// Whether it goes.
    pub goes: bool,
    /// Why it goes, or why it stays although a rule is against it.
    pub why: String,
}

/// Judges the workspaces of this machine by rules, the oldest first. Those that no rule is against are left out.
pub fn judge(session: &mut Session, rules: &Rules, now: Timestamp) -> Result<Vec<Verdict>> {
    heal(session)?;
    let mut all: Vec<_> = list(session)?.into_iter().map(|seen| seen.workspace).collect();
    all.retain(|workspace| !is_pooled(workspace) && workspace.strategy != Strategy::InPlace);
    all.sort_by(|one, other| (one.updated_at, &one.id).cmp(&(other.updated_at, &other.id)));
    let mut bytes = Vec::new();
    for workspace in &all {
        let size = match (workspace.status, rules.most_bytes) {
            (WorkspaceStatus::Lost, _) => 0,
            (_, Some(_)) => measure(session, workspace)?,
            _ => workspace.size.unwrap_or_default(),
        };
        bytes.push(size);
    }
    let (mut left, mut taken) = (all.len(), bytes.iter().sum::<u64>());
    let mut verdicts = Vec::new();
    for (workspace, size) in all.into_iter().zip(bytes) {
        let age = u64::try_from(now.as_millis() - workspace.updated_at.as_millis()).unwrap_or_default();
        let why = if rules.older_than.is_some_and(|limit| age >= limit) {
            Some("nobody used it for long".to_owned())
        } else if rules.keep.is_some_and(|keep| left > keep) {
            Some(format!("there are {left}"))
        } else if rules.most_bytes.is_some_and(|most| taken > most) {
            Some(format!("all take {}", bytes::shown(taken)))
        } else if workspace.status == WorkspaceStatus::Lost {
            Some("its directory is gone".to_owned())
        } else {
            None
        };
        let Some(why) = why else { continue };
        let objections = match examine(&workspace) {
            Ok(examined) => examined.objections,
            // What cannot be looked at may have anything in it.
            Err(error) => vec![error.full_message()],
        };
        if objections.is_empty() {
            left -= 1;
            taken = taken.saturating_sub(size);
            verdicts.push(Verdict { workspace, goes: true, why });
        } else {
            verdicts.push(Verdict { workspace, goes: false, why: objections.join(", ") });
        }
    }
    Ok(verdicts)
}

/// Removes what goes, and what somebody else moved away and did not get to delete.
pub fn collect(session: &mut Session, verdicts: &[Verdict]) -> Result<Vec<Result<Removed>>> {
    let removed = verdicts.iter().filter(|verdict| verdict.goes);
    let removed = removed.map(|verdict| remove(session, &verdict.workspace, Force::No)).collect();
    for error in tools::sweep_trash(&root(session)?)? {
        log::debug!("the trash is not empty: {}", error.full_message());
    }
    Ok(removed)
}

/// Makes sure that another workspace may be made, by the user's limits.
fn make_room(session: &mut Session, say: &mut dyn FnMut(&str)) -> Result<()> {
    let config = &session.place.config;
    let Some(total) = config.text("workspaces.total").and_then(|text| bytes::parse(&text)) else { return Ok(()) };
    let evicts = config.text("workspaces.policy").as_deref() == Some("evict");
    let mut taken = 0;
    for seen in list(session)? {
        if seen.workspace.status.is_live() && seen.workspace.strategy != Strategy::InPlace {
            taken += measure(session, &seen.workspace).unwrap_or_default();
        }
    }
    if taken < total {
        return Ok(());
    }
    let full = |taken: u64| {
        Error::refused(format!("workspaces take {}, and may take {}", bytes::shown(taken), bytes::shown(total)))
            .hint("way ws gc removes what is safe to remove; workspaces.total is the limit")
    };
    if !evicts {
        return Err(full(taken));
    }
    let now = session.now()?;
    let rules = Rules { most_bytes: Some(total.saturating_sub(1)), ..Rules::default() };
    let verdicts = judge(session, &rules, now)?;
    let going: u64 = verdicts.iter().filter(|verdict| verdict.goes).filter_map(|verdict| verdict.workspace.size).sum();
    say(&format!("making room: {} of workspaces", bytes::shown(going)));
    for removed in collect(session, &verdicts)? {
        taken = taken.saturating_sub(removed?.freed.unwrap_or_default());
    }
    if taken < total { Ok(()) } else { Err(full(taken)) }
}

/// Returns what way ws gc goes by if nobody says: the user's configuration.
pub fn usual_rules(session: &Session) -> Result<Rules> {
    let config = &session.place.config;
    let older_than = match config.text("workspaces.keep_for").as_deref() {
        None | Some("forever") => None,
        Some(text) => {
            Some(waypost_core::work::plan::millis(text).map_err(|error| error.within("workspaces.keep_for"))?)
        }
    };
    Ok(Rules {
        older_than,
        keep: config.text("workspaces.keep_count").and_then(|text| text.parse().ok()),
        most_bytes: config.text("workspaces.total").and_then(|text| bytes::parse(&text)),
    })
}

/// Fills the pool of the repository we stand in up to a number. Returns what it has then.
pub fn warm(session: &mut Session, number: usize, say: &mut dyn FnMut(&str)) -> Result<Vec<Slot>> {
    let machine = machine(session)?;
    let own = own(session);
    loop {
        let mut plan = rehearsed(session)?;
        let slots = tools::pool(&plan)?;
        if slots.len() >= number {
            return Ok(slots);
        }
        say(&format!("warming workspace {} of {number}", slots.len() + 1));
        let id = WorkspaceId::generate(&mut SystemEntropy);
        plan.name = Name::from(&id);
        plan.branch = Some(format!("waypost/{id}"));
        let planned = tools::pooled(&plan)?;
        write_down(session, &id, None, &machine, &planned)?;
        let made = tools::warm(&plan, &Means { own, url: None });
        if let Err(error) = made {
            let gone = tools::abandon(&planned);
            change(session, &id, |change| {
                change.status = gone.is_ok().then_some(WorkspaceStatus::Removed);
                change.note = Some(error.full_message());
            })?;
            return Err(error);
        }
        note_slot(session, &id, &planned)?;
    }
}

fn note_slot(session: &mut Session, id: &WorkspaceId, plan: &Plan) -> Result<()> {
    let identity = FileIdentity::of_entry(&plan.home()).ok().map(waypost_core::model::Identity::from);
    change(session, id, |change| {
        change.status = Some(WorkspaceStatus::Kept);
        change.identity = identity;
        change.note = Some(IN_POOL.to_owned());
    })?;
    Ok(())
}

/// Lists the pool of the repository we stand in.
pub fn pool(session: &mut Session) -> Result<Vec<Slot>> {
    tools::pool(&rehearsed(session)?)
}

/// What happens to the workspace of a job that has ended, if the user wants it to go: it is used again or removed.
///
/// Returns why it stays, if it does.
pub fn clean_up(session: &mut Session, workspace: &Workspace) -> Result<Option<String>> {
    let examined = examine(workspace)?;
    if !examined.objections.is_empty() {
        return Ok(Some(examined.objections.join(", ")));
    }
    let plan = plan_of(workspace)?;
    let wanted: usize =
        session.place.config.text("workspaces.pool").and_then(|text| text.parse().ok()).unwrap_or_default();
    if let (Strategy::Clone, Some(identity)) = (plan.strategy, workspace.identity)
        && tools::pool(&plan)?.len() < wanted
    {
        let id = WorkspaceId::generate(&mut SystemEntropy);
        match tools::give_back(&plan, identity, &Name::from(&id)) {
            Ok(slot) => {
                let machine = machine(session)?;
                write_down(session, &id, None, &machine, &slot.plan)?;
                note_slot(session, &id, &slot.plan)?;
                change(session, &workspace.id, |change| {
                    change.status = Some(WorkspaceStatus::Removed);
                    change.note = Some(format!("it went to the pool as {id}"));
                })?;
                return Ok(None);
            }
            Err(error) => log::debug!("workspace {} is not used again: {}", workspace.id, error.full_message()),
        }
    }
    remove(session, workspace, Force::No).map(|_| None)
}

/// What was delivered.
#[derive(Clone, Debug, Serialize)]
pub struct Delivered {
    /// The workspace.
    pub workspace: Workspace,
    /// The commit that was pushed.
    pub commit: String,
    /// The branch it was pushed to.
    pub branch: String,
    /// The remote, without secrets.
    pub remote: Option<String>,
    /// Whether changes were committed first.
    pub committed: bool,
}

/// Commits what is not committed, if there is a message for it, and pushes the branch to the real remote.
pub fn deliver(
    session: &mut Session,
    workspace: &Workspace,
    branch: Option<&str>,
    message: Option<&str>,
) -> Result<Delivered> {
    let plan = plan_of(workspace)?;
    let own = own(session);
    let mut committed = false;
    if let Some(message) = message {
        committed = tools::commit(&plan, message)?.is_some();
    }
    let findings = tools::examine(&plan)?;
    if let Some(first) = findings.changed.first().or(findings.untracked.first()) {
        return Err(Error::refused(format!("{} is not committed in workspace {}", first, workspace.id))
            .hint("commit it there, or say --commit MESSAGE"));
    }
    let branch = branch.map(str::to_owned).or_else(|| workspace.branch.clone());
    let branch = branch.ok_or_else(|| Error::invalid("there is no branch to push to").hint("--branch NAME"))?;
    let commit = tools::push(&plan, &branch, own, None)?;
    Ok(Delivered { workspace: workspace.clone(), commit, branch, remote: plan.origin, committed })
}

/// Opens a pull request for what was delivered. Returns its address.
pub fn open_pull_request(workspace: &Workspace, branch: &str) -> Result<String> {
    tools::open_pull_request(&plan_of(workspace)?, branch)
}

/// Remembers where others look at what a workspace delivered.
pub fn note_pull_request(session: &mut Session, workspace: &Workspace, url: &str) -> Result<Workspace> {
    change(session, &workspace.id, |change| change.pr_url = Some(url.to_owned()))
}

/// Tells whether what a workspace did has arrived, and remembers it.
pub fn merged(session: &mut Session, workspace: &Workspace) -> Result<Merged> {
    let plan = plan_of(workspace)?;
    let merged = tools::merged(&plan, own(session), None)?;
    if matches!(merged, Merged::Whole | Merged::Squashed) && workspace.merge_commit.is_none() {
        let commit = tools::head(&plan)?;
        change(session, &workspace.id, |change| change.merge_commit = Some(commit))?;
    }
    Ok(merged)
}

/// Writes a snapshot with its whole history into one file, which git can clone and fetch from.
pub fn export(session: &mut Session, snapshot: &Name, file: &Path) -> Result<()> {
    tools::export(&rehearsed(session)?, snapshot, file)
}
