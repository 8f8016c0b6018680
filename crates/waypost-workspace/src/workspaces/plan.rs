//! What is to be made, decided before anything is.

use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result, url_text};

use super::mirror;
use super::model::{Name, Plan, Request, Source, Strategy};
use crate::vcs::checkout::Checkout;
use crate::vcs::run::{Git, jj};
use crate::vcs::{Environment, detect};

/// Decides what a workspace will be. Nothing is made.
pub fn plan(request: &Request<'_>) -> Result<Plan> {
    let workspaces = real(request.places.workspaces);
    let home = workspaces.join(request.name.as_str());
    let mut plan = Plan {
        name: request.name.clone(),
        strategy: request.strategy.unwrap_or(Strategy::Clone),
        workspaces,
        workspace: home.join("workspace"),
        source: None,
        checkout: None,
        git_dir: None,
        mirror: None,
        base: None,
        base_ref: None,
        branch: None,
        origin: None,
        upstream: None,
    };
    match request.source {
        Source::Checkout(checkout) => from_checkout(&mut plan, request, checkout)?,
        Source::Remote(url) => from_remote(&mut plan, request, url)?,
    }
    if plan.strategy != Strategy::InPlace && home.symlink_metadata().is_ok() {
        return Err(Error::conflict(format!("{} is there already", home.display())));
    }
    Ok(plan)
}

/// Returns a path without links, as far as it exists. Version control tools remember it so.
pub(super) fn real(path: &Path) -> PathBuf {
    for dir in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (dir.canonicalize(), path.strip_prefix(dir)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

/// Returns the checkout that a plan was made from.
pub(super) fn source(plan: &Plan) -> Result<Checkout> {
    let path = plan.checkout.as_deref().or(plan.source.as_deref());
    let path = path.ok_or_else(|| Error::not_found(format!("workspace {} comes from no checkout", plan.name)))?;
    detect(path, &Environment::default())?
        .ok_or_else(|| Error::not_found(format!("there is no repository at {} any more", path.display())))
}

fn from_checkout(plan: &mut Plan, request: &Request<'_>, checkout: &Checkout) -> Result<()> {
    plan.strategy = request.strategy.unwrap_or(match checkout.vcs {
        Vcs::Git => Strategy::Clone,
        Vcs::Jj => Strategy::Jj,
        Vcs::Hg | Vcs::Sl => Strategy::Worktree,
        Vcs::None => Strategy::Copy,
    });
    plan.source = Some(checkout.repository_path().to_owned());
    plan.checkout.clone_from(&checkout.root);
    plan.origin.clone_from(&checkout.remote_url);
    let no_git = || Error::refused(format!("{} is not a repository of git", checkout.repository_path().display()));
    match plan.strategy {
        Strategy::Clone | Strategy::Overlay => {
            let git_dir = checkout.git_dir.as_deref().ok_or_else(no_git)?;
            mirror::check_source(git_dir)?;
            plan.git_dir = Some(git_dir.to_owned());
            plan.mirror = Some(mirror::path_for_checkout(request.places.mirrors, checkout)?);
            let git = match &checkout.root {
                // HEAD means the commit of the worktree we stand in, not of the main one.
                Some(root) if checkout.vcs == Vcs::Git => Git::in_worktree(root)?,
                _ => Git::of_repository(git_dir)?,
            };
            let base = resolve(&git, request.base.unwrap_or("HEAD"));
            plan.base = Some(base.map_err(|error| match (checkout.vcs, request.base, error.kind()) {
                // There are commits, but git stands on none of them unless the two share a directory.
                (Vcs::Jj, None, Kind::NotFound) => no_head_of_jj(),
                _ => error,
            })?);
            plan.branch = Some(branch(&git, request)?);
            plan.upstream = checkout.default_branch.as_ref().and_then(|name| {
                let commit = resolve(&git, &format!("refs/remotes/origin/{name}")).ok()?;
                Some((name.clone(), commit))
            });
        }
        Strategy::Worktree => {
            plan.branch = Some(request.branch.map_or_else(|| default_branch(request.name), str::to_owned));
            if checkout.vcs == Vcs::Git {
                let git_dir = checkout.git_dir.as_deref().ok_or_else(no_git)?;
                plan.git_dir = Some(git_dir.to_owned());
                let git = match &checkout.root {
                    Some(root) => Git::in_worktree(root)?,
                    None => Git::of_repository(git_dir)?,
                };
                plan.base = Some(resolve(&git, request.base.unwrap_or("HEAD"))?);
                plan.branch = Some(branch(&git, request)?);
            } else if request.base.is_some() {
                plan.base = request.base.map(str::to_owned);
            }
        }
        Strategy::Jj => {
            let root = checkout.root.as_deref().filter(|_| checkout.vcs == Vcs::Jj).ok_or_else(|| {
                Error::refused(format!("{} is not a repository of jj", checkout.repository_path().display()))
            })?;
            plan.branch = Some(request.name.to_string());
            if let Some(base) = request.base {
                // As it was saved last: looking saves nothing.
                let log = ["--ignore-working-copy", "log", "--no-graph", "--template=commit_id", "--revisions", base];
                plan.base = Some(jj(root).args(log).stdout().map_err(|error| no_commit(base).because(error))?);
            }
        }
        Strategy::Copy => {
            let root = checkout.root.as_deref().ok_or_else(|| Error::refused("there are no files to copy here"))?;
            if plan.workspaces.starts_with(root) {
                return Err(Error::refused(format!("{} lies in what would be copied", plan.workspaces.display()))
                    .hint("set workspaces.path to a directory elsewhere"));
            }
        }
        Strategy::InPlace => {
            let root = checkout.root.as_deref().ok_or_else(|| Error::refused("there is no checkout here"))?;
            root.clone_into(&mut plan.workspace);
        }
    }
    Ok(())
}

fn from_remote(plan: &mut Plan, request: &Request<'_>, url: &str) -> Result<()> {
    if !plan.strategy.borrows() {
        return Err(Error::invalid("what is elsewhere can only be cloned").hint("use the strategy clone"));
    }
    mirror::check_url(url)?;
    let git = Git::without_repository()?.with_setting("remote.waypost.url", url);
    let wanted = request.base.unwrap_or("HEAD");
    let said = git.network(request.own).args(["ls-remote", "--quiet", "--", "waypost"]).stdout()?;
    let refs = said.lines().filter_map(|line| line.split_once('\t'));
    let candidates = [wanted.to_owned(), format!("refs/heads/{wanted}"), format!("refs/tags/{wanted}")];
    let found = candidates.iter().find_map(|name| refs.clone().find(|(_, known)| known == name));
    let is_commit = wanted.len() >= 40 && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
    match found {
        Some((commit, name)) => {
            // Of an annotated tag the commit is listed under another name.
            let peeled = format!("{name}^{{}}");
            let commit = refs.clone().find(|(_, known)| **known == peeled).map_or(commit, |(commit, _)| commit);
            plan.base = Some(commit.to_owned());
            plan.base_ref = Some(name.to_owned());
        }
        None if is_commit => plan.base = Some(wanted.to_ascii_lowercase()),
        None => return Err(no_commit(wanted)),
    }
    plan.branch = Some(branch(&git, request)?);
    plan.mirror = Some(mirror::path_for_url(request.places.mirrors, url));
    plan.origin = Some(url_text::without_password(url));
    Ok(())
}

fn default_branch(name: &Name) -> String {
    format!("waypost/{name}")
}

/// Returns the branch to work on, checked.
fn branch(git: &Git, request: &Request<'_>) -> Result<String> {
    let Some(branch) = request.branch else { return Ok(default_branch(request.name)) };
    // Git's own check takes "@{-1}" for a name.
    let reference = format!("refs/heads/{branch}");
    let is_name = !branch.starts_with('-') && git.command().args(["check-ref-format", &reference]).succeeds()?;
    if is_name { Ok(branch.to_owned()) } else { Err(Error::invalid(format!("{branch:?} cannot be a branch"))) }
}

/// Returns the commit that something names.
pub(super) fn resolve(git: &Git, name: &str) -> Result<String> {
    let revision = format!("{name}^{{commit}}");
    let found =
        git.command().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &revision]).stdout_or_none()?;
    found
        .filter(|commit| !commit.is_empty())
        .ok_or_else(|| if name == "HEAD" { no_first_commit() } else { no_commit(name) })
}

fn no_first_commit() -> Error {
    Error::not_found("there is no commit to start from").hint("make a first commit")
}

fn no_head_of_jj() -> Error {
    Error::not_found("git stands on no commit in this repository of jj")
        .hint("use the strategy jj, which workspaces have here if nobody says otherwise")
}

fn no_commit(name: &str) -> Error {
    Error::not_found(format!("there is no commit {name} to start from"))
}
