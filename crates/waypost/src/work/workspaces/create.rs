//! Creates a workspace, or lets a job reuse one.

use std::path::PathBuf;
use std::time::Duration;

use waypost_core::id::{RepositoryId, WorkspaceId};
use waypost_core::model::{Job, Repository, Strategy, Vcs, Workspace, WorkspaceStatus, Worktree};
use waypost_core::op::{ListRepositories, ListWorktrees, ShowTask};
use waypost_core::{Error, Kind, Result};
use waypost_fs::PrivateDir;
use waypost_workspace::workspaces::{
    self as tools, Conflict, Made, MakeOptions, Merge, Name, Places, Plan, Request, Source, TaskWork, Trust, Trusted,
};
use waypost_workspace::{Checkout, adopt_repository_id, job_log, repository_id, worktree_id, worktrees};

use super::places::{machine, mirrors, network_options, root};
use super::records::{change, list, plan_of, record};
use super::rules::make_room;
use crate::app::session::Session;
use crate::issues::repos::settings_for_workspaces;
use crate::machine::config::Layer;
use crate::machine::place::Place;
use crate::machine::registry::{self, Registration};
use crate::machine::system::SystemEntropy;

const SETUP_TIMEOUT: Duration = Duration::from_mins(30);

/// A new workspace.
#[derive(Clone, Copy, Default)]
pub struct WorkspaceRequest<'a> {
    /// The job it is for.
    pub job: Option<&'a Job>,
    /// The repository to work on [default: the caller's].
    pub repository: Option<&'a RepositoryId>,
    /// Whether it is for a task.
    pub is_of_task: bool,
    /// How to create it [default: as configured, else by the kind of repository].
    pub strategy: Option<Strategy>,
    /// The commit to start from.
    pub base: Option<&'a str>,
    /// The branch to work on.
    pub branch: Option<&'a str>,
    /// The URL of the repository, if it is not the caller's.
    pub remote: Option<&'a str>,
    /// The work of finished tasks that it starts from.
    pub from: Option<&'a StartingWork>,
    /// Whether to take uncommitted changes of the checkout along.
    pub include_changes: bool,
}

/// The work of finished tasks that a workspace starts from, merged in this order, and how to describe it.
#[derive(Clone, Debug, Default)]
pub struct StartingWork {
    /// The work of each task.
    pub work: Vec<TaskWork>,
    /// The repositories on this machine that may have the commits.
    pub sources: Vec<PathBuf>,
    /// What chose the base: the job, the task or the workflow. None if it is the default.
    pub chosen_by: Option<String>,
    /// Facts that the agent needs beside the list of tasks.
    pub notes: Vec<String>,
    /// Whether the job gets a conflict to resolve, because a person has answered how.
    pub may_leave_conflict: bool,
}

/// A workspace that was created.
#[derive(Clone, Debug)]
pub struct Created {
    /// The workspace.
    pub workspace: Workspace,
    /// Notes for a job in it.
    pub notes: Vec<String>,
    /// Whether it comes from the pool.
    pub is_pooled: bool,
    /// The conflict in the work that it starts from, left in its files.
    pub conflict: Option<Conflict>,
}

/// The outcome of [`create_from_work`].
pub enum Creation {
    /// It was created.
    Created(Box<Created>),
    /// This work is not on this machine. Nothing was created.
    Missing(TaskWork),
}

/// Refuses a workspace that cannot be created because the request is wrong. Creates nothing.
///
/// Of a repository that has to be cloned from its remote, it checks nothing: that would take a connection.
pub fn check(session: &mut Session, request: &WorkspaceRequest<'_>) -> Result<()> {
    if request.include_changes {
        check_includes(request, &[])?;
    }
    let start = start_of(session, request)?;
    if start.checkout.is_none() {
        return Ok(());
    }
    let name = Name::from(&WorkspaceId::generate(&mut SystemEntropy));
    plan(session, request, &name, &start, None).map(drop)
}

/// Plans a workspace. `commit` is the commit it starts from, if it is known already.
fn plan(
    session: &Session,
    request: &WorkspaceRequest<'_>,
    name: &Name,
    start: &Start,
    commit: Option<&str>,
) -> Result<Plan> {
    let (root, mirrors) = (root(session)?, mirrors(session)?);
    let checkout = start.checkout.as_ref();
    let origin = match (checkout, &start.url) {
        (Some(checkout), _) => Source::Checkout(checkout),
        (None, Some(url)) => Source::Remote(url),
        (None, None) => return Err(Error::internal("a workspace has no source")),
    };
    let configured = session.place.config.text("workspaces.strategy").map(|word| word.parse()).transpose()?;
    // Ignore a configured strategy that does not work with this repository.
    let suits = |strategy: &Strategy| match checkout {
        Some(checkout) => match strategy {
            Strategy::Clone | Strategy::Overlay => checkout.git_dir.is_some(),
            Strategy::Jj => checkout.vcs == Vcs::Jj,
            _ => true,
        },
        None => strategy.borrows(),
    };
    let strategy = request.strategy.or(configured.filter(suits));
    let network = network_options(session);
    let places = Places { workspaces: &root, mirrors: &mirrors };
    let base = request.base.or(start.base.as_deref());
    let branch = request.branch;
    let plan = tools::plan(&Request { places, name, source: origin, base, commit, branch, strategy, network });
    plan.map_err(|error| match (error.kind(), request.base, &start.base) {
        (Kind::NotFound, None, Some(branch)) => error
            .within(format!("the task was planned on branch {branch}, in a worktree that is not here"))
            .hint("push the branch, or name another commit with --base"),
        _ => error,
    })
}

/// Creates a workspace. If a step fails, only its row remains, with the error.
pub fn create(session: &mut Session, request: &WorkspaceRequest<'_>, report: &mut dyn FnMut(&str)) -> Result<Created> {
    match create_from_work(session, request, report)? {
        Creation::Created(created) => Ok(*created),
        Creation::Missing(work) => {
            Err(Error::not_found(format!("the work of task {} ({}) is not on this machine", work.task, work.commit)))
        }
    }
}

/// Returns the workspace that an agent works in under a name of its own, creating it if there is none.
///
/// In a git repository it is a worktree, because the agent expects the branches of the repository in it.
pub fn create_named(session: &mut Session, name: &str, report: &mut dyn FnMut(&str)) -> Result<Workspace> {
    let branch = format!("worktree-{name}");
    let repository = session.repository().id.clone();
    let known = list(session)?.into_iter().find(|seen| {
        let workspace = &seen.workspace;
        let is_named = workspace.branch.as_ref() == Some(&branch) && workspace.status == WorkspaceStatus::Kept;
        is_named && workspace.repository_id == repository && workspace.path.is_dir()
    });
    if let Some(known) = known {
        return Ok(known.workspace);
    }
    let checkout = session.place.require_checkout()?.clone();
    let is_git = checkout.vcs == Vcs::Git;
    // A branch of that name may have commits of an earlier worktree.
    let branch = is_git.then(|| worktrees::new_branch_name(&checkout, &branch)).transpose()?;
    let strategy = is_git.then_some(Strategy::Worktree);
    let request = WorkspaceRequest { strategy, branch: branch.as_deref(), ..WorkspaceRequest::default() };
    Ok(create(session, &request, report)?.workspace)
}

/// Creates a workspace that may start from the work of finished tasks.
pub fn create_from_work(
    session: &mut Session,
    request: &WorkspaceRequest<'_>,
    report: &mut dyn FnMut(&str),
) -> Result<Creation> {
    if request.strategy == Some(Strategy::InPlace) {
        return Err(Error::invalid("in-place has no workspace: the job runs in the checkout itself")
            .hint("way job start --strategy in-place -- COMMAND"));
    }
    let machine = machine(session)?;
    make_room(session, report)?;
    let id = WorkspaceId::generate(&mut SystemEntropy);
    let name = request.job.map_or_else(|| Name::from(&id), |job| Name::from(&job.id));
    let start = start_of(session, request)?;
    let Start { checkout, url, .. } = &start;
    let (work, sources) = request.from.map_or((&[][..], &[][..]), |from| (&from.work, &from.sources));
    if request.include_changes {
        check_includes(request, work)?;
    }
    let with_changes = checkout.as_ref().filter(|_| request.include_changes);
    let with_changes = with_changes.map(tools::commit_with_changes).transpose()?.flatten();
    let commit = work.first().map(|work| work.commit.as_str()).or(with_changes.as_deref());
    let mut plan = plan(session, request, &name, &start, commit)?;
    let network = network_options(session);
    let conflict = match tools::merge_work(&mut plan, work, sources, network, url.as_deref())? {
        Merge::Done => None,
        Merge::Conflict(conflict) => Some(conflict),
        Merge::Missing(work) => return Ok(Creation::Missing(work)),
    };
    report(&format!("creating a workspace by {}", plan.strategy));
    let started_from = describe(request, &plan, conflict.as_ref());
    let recorded = record(session, &id, request.job, &machine, &plan, Some(started_from))?;
    let repository = request.repository.unwrap_or(&session.repository().id).clone();
    let registration = registration(session, &recorded, request.job, &repository, checkout.as_ref())?;
    // A clone of a repository that the caller named by its URL belongs to no repository of the store.
    let is_foreign = request.remote.is_some();
    let home = user_dir(session)?;
    registry::register(&home, &plan.name, &Registration { is_foreign, ..registration })?;
    let repository = Some(repository).filter(|_| !is_foreign);
    let means = MakeOptions { network, url: url.as_deref() };
    let made = fill(session, &plan, &means, repository.as_ref(), (request, conflict), report);
    // If its store is lost, the register must not take it for one whose creation was interrupted.
    let made = made.and_then(|filled| {
        registry::set_identity(&home, &plan.name, filled.made.identity)?;
        Ok(filled)
    });
    let Filled { made, is_pooled, conflict } = match made {
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
    let status = if request.job.is_some() { WorkspaceStatus::Active } else { WorkspaceStatus::Kept };
    let workspace = change(session, &id, |change| {
        change.status = Some(status);
        change.identity = made.identity;
        change.note = Some(made.notes.join("; "));
    })?;
    Ok(Creation::Created(Box::new(Created { workspace, notes: made.notes, is_pooled, conflict })))
}

/// Refuses to take uncommitted changes along where they do not belong.
fn check_includes(request: &WorkspaceRequest<'_>, work: &[TaskWork]) -> Result<()> {
    let why = match (work, request.base) {
        ([], None) => return Ok(()),
        ([], Some(base)) => format!("the job starts from {base}"),
        ([first, ..], _) => format!("the job starts from the work of task {}", first.task),
    };
    Err(Error::invalid(format!("cannot include the uncommitted changes of the checkout: {why}"))
        .hint("start from the head of the checkout: --base head"))
}

/// Describes what a workspace starts from, for the agent that works in it.
fn describe(request: &WorkspaceRequest<'_>, plan: &Plan, conflict: Option<&Conflict>) -> String {
    let short = |commit: &str| commit.chars().take(12).collect::<String>();
    let at = plan.base.as_deref().map_or_else(String::new, |base| format!(" ({})", short(base)));
    let chosen_by = request.from.and_then(|from| from.chosen_by.as_deref());
    let as_chosen = chosen_by.map_or_else(String::new, |by| format!(", as the {by} says"));
    let work = request.from.map_or(&[][..], |from| &from.work);
    let names: Vec<_> = work.iter().map(|work| format!("{} ({})", work.task, short(&work.commit))).collect();
    let mut parts = vec![match (names.as_slice(), request.base) {
        ([], Some(base)) => format!("{base}{at}{as_chosen}"),
        ([], None) if plan.strategy == Strategy::Copy => "the files of the checkout".to_owned(),
        ([], None) => format!("the head of the worktree{at}{as_chosen}"),
        ([one], _) => format!("the work of task {one}{as_chosen}"),
        (several, _) => format!("the work of the tasks {}, merged in this order{as_chosen}", several.join(", ")),
    }];
    if let Some(conflict) = conflict {
        parts.push(format!(
            "the work of task {} ({}) conflicts in {}: resolve the conflict and commit the merge before anything else",
            conflict.task,
            short(&conflict.commit),
            conflict.files.join(", ")
        ));
        let left: Vec<_> = work.iter().filter(|work| conflict.left.contains(&work.task)).collect();
        parts.extend(left.iter().map(|work| format!("then merge the work of task {}: {}", work.task, work.commit)));
    }
    if request.include_changes {
        parts.push("with the uncommitted changes of the checkout".to_owned());
    }
    parts.extend(request.from.iter().flat_map(|from| from.notes.clone()));
    parts.join("; ")
}

/// A filled workspace.
struct Filled {
    made: Made,
    is_pooled: bool,
    conflict: Option<Conflict>,
}

/// Where a workspace starts from, unless the request names a base.
#[derive(Default)]
struct Start {
    /// The checkout, if the repository is on this machine.
    checkout: Option<Checkout>,
    /// The URL of the repository, if it is not.
    url: Option<String>,
    /// The branch [default: the head of the checkout, or of the remote repository].
    base: Option<String>,
}

/// Finds where a workspace starts. A job on a task starts from the worktree in which the task was planned, wherever the
/// worker runs; if that worktree is not here any more, from its branch.
fn start_of(session: &mut Session, request: &WorkspaceRequest<'_>) -> Result<Start> {
    let (checkout, url) = source(session, request)?;
    let start = Start { checkout, url, ..Start::default() };
    let task = request.job.filter(|_| request.remote.is_none()).and_then(|job| Some((job, job.task_id.as_ref()?)));
    let Some((job, task)) = task else { return Ok(start) };
    let task = session.read(ShowTask { task: task.to_string(), ..ShowTask::default() })?.task;
    let planned_in = task.worktree.filter(|worktree| worktree.repository_id == job.repository_id);
    let Some(worktree) = planned_in.filter(|worktree| worktree.id != session.worktree().id) else { return Ok(start) };
    let there = session.place.checkout_at(&worktree.path);
    let there = there.filter(|there| worktree_id(&there.worktree_private_dir).ok().flatten() == Some(worktree.id));
    if there.is_some() {
        return Ok(Start { checkout: there, ..Start::default() });
    }
    Ok(Start { base: worktree.branch, ..start })
}

/// Finds the repository that a job works on: the caller's, another one on this machine, or its URL.
fn source(session: &mut Session, request: &WorkspaceRequest<'_>) -> Result<(Option<Checkout>, Option<String>)> {
    if let Some(url) = request.remote {
        return Ok((None, Some(url.to_owned())));
    }
    let own = session.repository().id.clone();
    let id = request.repository.unwrap_or(&own).clone();
    if id == own {
        let inside = session.place.workspace.as_ref().and_then(|workspace| workspace.checkout.as_ref());
        // A job that a job starts continues from the commit on which it is started. The job of a task does not.
        let inside = inside.filter(|_| !request.is_of_task);
        if let Some(checkout) = inside.or(session.place.checkout.as_ref()) {
            return Ok((Some(checkout.clone()), None));
        }
    }
    let known = session.read(ListRepositories::all())?.repositories;
    let known = known.into_iter().map(|seen| seen.repository).find(|repository| repository.id == id);
    let Some(known) = known else { return Err(Error::not_found(format!("no repository {id}"))) };
    let here = session.place.checkout_at(&known.path);
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

/// Returns the user's Waypost directory, which has the register of workspaces.
pub(super) fn user_dir(session: &Session) -> Result<PathBuf> {
    let home = session.place.home.as_ref().map(|(path, _)| path.clone());
    home.ok_or_else(|| Error::invalid("workspaces need a home directory").hint("set HOME or WAYPOST_HOME"))
}

/// Returns the entry of a recorded workspace for the user's register, so that `way` in it works for its owner.
pub(super) fn registration(
    session: &mut Session,
    workspace: &Workspace,
    job: Option<&Job>,
    repository: &RepositoryId,
    checkout: Option<&Checkout>,
) -> Result<Registration> {
    let is_own = *repository == session.repository().id;
    let owner = if is_own {
        Owner {
            repository: session.repository().clone(),
            worktree: session.worktree().clone(),
            is_local: session.place.checkout.is_some() && session.place.unreachable_owner().is_none(),
            place: Some(session.place.clone()),
        }
    } else {
        let known = session.read(ListRepositories::all())?.repositories.into_iter().map(|seen| seen.repository);
        let known = known.into_iter().find(|known| known.id == *repository);
        let known = known.ok_or_else(|| Error::not_found(format!("no repository {repository}")))?;
        let root = checkout.and_then(|checkout| checkout.root.as_deref());
        let worktrees = session.read(ListWorktrees::all())?.worktrees;
        let is_owner = |seen: &&Worktree| match root {
            Some(root) => seen.path == root && seen.repository_id == *repository,
            None => job.is_some_and(|job| job.worktree_id == seen.id),
        };
        let worktree = worktrees.iter().find(is_owner).unwrap_or(session.worktree()).clone();
        let place = root.map(|root| session.place.resolved_from(root)).transpose()?;
        Owner { repository: known, worktree, is_local: checkout.is_some(), place }
    };
    let (ledger, settings, configured_store) = match &owner.place {
        Some(place) => {
            (place.ledger().map(|(path, _)| path), settings_for_workspaces(place)?, place.configured_store().ok())
        }
        None => (None, Vec::new(), None),
    };
    Ok(Registration {
        path: workspace.path.clone(),
        workspace: workspace.id.clone(),
        job: job.map(|job| job.id.clone()),
        strategy: workspace.strategy,
        branch: workspace.branch.clone(),
        repository: owner.repository,
        is_local: owner.is_local,
        worktree: owner.worktree,
        ledger: ledger.filter(|_| owner.is_local),
        store: session.choice.location.to_string(),
        is_store_configured: owner.is_local && configured_store.as_ref() == Some(&session.choice.location),
        settings,
        is_foreign: false,
        record: Some(workspace.clone()),
    })
}

/// The owner of a new workspace.
struct Owner {
    repository: Repository,
    worktree: Worktree,
    is_local: bool,
    /// The place of the repository, if it is on this machine.
    place: Option<Place>,
}

/// Creates the planned workspace, copies configured files into it, and runs the setup command.
fn fill(
    session: &Session,
    plan: &Plan,
    means: &MakeOptions<'_>,
    repository: Option<&RepositoryId>,
    (request, conflict): (&WorkspaceRequest<'_>, Option<Conflict>),
    report: &mut dyn FnMut(&str),
) -> Result<Filled> {
    let taken = tools::take(plan, means)?;
    let is_pooled = taken.is_some();
    let made = match taken {
        Some(made) => made,
        None => tools::make(plan, means)?,
    };
    if let Some(repository) = repository.filter(|_| plan.strategy.borrows()) {
        // Work in the workspace counts as work on the same repository.
        let private_dir = PrivateDir::from(plan.workspace.join(".git/waypost"));
        adopt_repository_id(&private_dir.with_user_dir(session.place.user_dir()), repository)?;
    }
    let from = request.from;
    let conflict = match (conflict, from) {
        (Some(conflict), _) => {
            tools::leave_conflict(plan, &conflict)?;
            Some(conflict)
        }
        (None, Some(from)) => tools::finish_merge(plan, &from.work)?,
        (None, None) => None,
    };
    if conflict.is_some() && !from.is_some_and(|from| from.may_leave_conflict) {
        // No command runs in it: a person resolves the conflict first.
        return Ok(Filled { made, is_pooled, conflict });
    }
    if request.include_changes {
        tools::take_changes(plan)?;
    }
    let patterns = session.place.config.list("workspaces.include");
    if !patterns.is_empty() {
        let copied = tools::include(plan, &patterns)?;
        report(&format!("copied {copied} ignored files"));
    }
    if let Some(command) = setup_command(session, plan)? {
        report(&format!("setting it up: {}", command.command()));
        let done = tools::set_up(plan, &command, &session.place.variables.inherited(&[]), SETUP_TIMEOUT)?;
        if done.code != Some(0) {
            let how = match (done.is_late, done.code) {
                (true, _) => "timed out".to_owned(),
                (false, Some(code)) => format!("ended with exit code {code}"),
                (false, None) => "was killed by a signal".to_owned(),
            };
            let printed = String::from_utf8_lossy(&job_log::tail(&done.log, 2000).bytes).trim().to_owned();
            return Err(Error::conflict(format!("the setup command {how}")).because(printed));
        }
    }
    Ok(Filled { made, is_pooled, conflict })
}

/// Returns the setup command, if there is one. Without trust it runs only if the user's own file or a flag names it.
fn setup_command(session: &Session, plan: &Plan) -> Result<Option<Trusted>> {
    let Some(setting) = session.place.config.get("workspaces.setup") else { return Ok(None) };
    let command = setting.value.to_string();
    if matches!(setting.layer, Layer::User | Layer::Flag) {
        return Ok(Some(Trusted::of_user(&command)));
    }
    let repository = plan.source.clone().unwrap_or_else(|| plan.workspace.clone());
    trust(session)?.check(&repository, &command, &plan.workspace).map(Some).map_err(|error| error.hint("way ws trust"))
}

/// Returns the commands of repositories that the user trusts.
pub fn trust(session: &Session) -> Result<Trust> {
    let path = session.place.in_home("trusted.json").map(|(path, _)| path);
    path.map(|path| Trust::at(&path))
        .ok_or_else(|| Error::invalid("trust needs a home directory").hint("set HOME or WAYPOST_HOME"))
}

/// Refuses a workspace in which no further job can run.
pub fn check_reusable(workspace: &Workspace) -> Result<()> {
    match workspace.status {
        WorkspaceStatus::Active => Err(Error::conflict(format!("a job runs in workspace {} already", workspace.id))),
        WorkspaceStatus::Kept => Ok(()),
        status => Err(Error::conflict(format!("workspace {} is {status}", workspace.id)).hint("way ws list")),
    }
}

/// Lets a job run in the workspace of an earlier job.
pub fn reuse(session: &mut Session, workspace: &Workspace, job: &Job) -> Result<Workspace> {
    check_reusable(workspace)?;
    enter(workspace)?;
    let plan = plan_of(workspace)?;
    let context = plan.context();
    if let Some((home, _)) = &session.place.home {
        registry::change(home, &plan.name, |registration| registration.job = Some(job.id.clone()))?;
    }
    change(session, &workspace.id, |change| {
        change.status = Some(WorkspaceStatus::Active);
        change.job = Some(job.id.to_string());
        change.context = Some(context);
    })
}

/// Mounts a workspace, if its strategy needs that.
pub fn enter(workspace: &Workspace) -> Result<()> {
    tools::enter(&plan_of(workspace)?)
}
