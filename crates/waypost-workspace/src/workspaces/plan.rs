//! Decides everything about a workspace before anything is made.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::{Error, Kind, Result, url_text};

use super::mirror;
use super::model::{Name, Plan, Request, Source, Strategy};
use crate::vcs::checkout::Checkout;
use crate::vcs::run::{Git, jj};
use crate::vcs::{Environment, detect};

/// Plans a workspace. Nothing is made.
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
        saved: request.places.mirrors.parent().map(|home| home.join("saved")),
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
        return Err(Error::conflict(format!("{} exists already", home.display())));
    }
    Ok(plan)
}

/// Resolves links in the part of a path that exists. Version control tools record paths in this form.
pub(super) fn real(path: &Path) -> PathBuf {
    for dir in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (dir.canonicalize(), path.strip_prefix(dir)) {
            return real.join(rest);
        }
    }
    path.to_owned()
}

/// Returns the checkout that a plan's workspace comes from.
pub(super) fn source(plan: &Plan) -> Result<Checkout> {
    let path = plan.checkout.as_deref().or(plan.source.as_deref());
    let path = path.ok_or_else(|| Error::not_found(format!("workspace {} was not made from a checkout", plan.name)))?;
    if is_source_gone(plan) {
        return Err(Error::not_found(format!("its repository at {} is gone", path.display())));
    }
    detect(path, &Environment::default())?
        .ok_or_else(|| Error::not_found(format!("{} is not a repository any more", path.display())))
}

/// Returns whether the source repository of a plan was on this machine and is gone.
pub(super) fn is_source_gone(plan: &Plan) -> bool {
    let is_missing = |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    plan.git_dir.as_deref().or(plan.source.as_deref()).is_some_and(is_missing)
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
    plan.origin = checkout.remote_url.as_deref().map(|url| absolute_url(url, checkout.repository_path()));
    let no_git = || Error::refused(format!("{} is not a git repository", checkout.repository_path().display()));
    match plan.strategy {
        Strategy::Clone | Strategy::Overlay => {
            let git_dir = checkout.git_dir.as_deref().ok_or_else(no_git)?;
            mirror::check_source(git_dir)?;
            plan.git_dir = Some(git_dir.to_owned());
            plan.mirror = Some(mirror::path_for_checkout(request.places.mirrors, checkout)?);
            let git = match &checkout.root {
                // HEAD is the commit of the current worktree, not of the main one.
                Some(root) if checkout.vcs == Vcs::Git => Git::in_worktree(root)?,
                _ => Git::of_repository(git_dir)?,
            };
            let base = base(&git, request);
            plan.base = Some(base.map_err(|error| match (checkout.vcs, request.base, error.kind()) {
                // There are commits, but git's HEAD is on none of them unless jj is colocated.
                (Vcs::Jj, None, Kind::NotFound) => no_git_head_in_jj(),
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
                plan.base = Some(base(&git, request)?);
                let branch = branch(&git, request)?;
                check_new(&git, &branch)?;
                plan.branch = Some(branch);
            } else {
                plan.base = request.commit.or(request.base).map(str::to_owned);
            }
        }
        Strategy::Jj => {
            let root = checkout.root.as_deref().filter(|_| checkout.vcs == Vcs::Jj).ok_or_else(|| {
                Error::refused(format!("{} is not a jj repository", checkout.repository_path().display()))
            })?;
            plan.branch = Some(request.name.to_string());
            if let Some(commit) = request.commit {
                plan.base = Some(commit.to_owned());
            } else if let Some(base) = request.base {
                // Planning must not take a snapshot of the working copy.
                let log = ["--ignore-working-copy", "log", "--no-graph", "--template=commit_id", "--revisions", base];
                plan.base = Some(jj(root)?.args(log).stdout().map_err(|error| no_commit(base).because(error))?);
            }
        }
        Strategy::Copy => {
            let root =
                checkout.root.as_deref().ok_or_else(|| Error::refused("a bare repository has no files to copy"))?;
            if plan.workspaces.starts_with(root) {
                return Err(Error::refused(format!("{} is inside the directory to copy", plan.workspaces.display()))
                    .hint("set workspaces.path to a directory outside of it"));
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
        return Err(Error::invalid("a remote repository can only be cloned").hint("use the strategy clone"));
    }
    mirror::check_url(url)?;
    let git = Git::without_repository()?.with_setting("remote.waypost.url", url);
    let revision_name = request.commit.or(request.base).unwrap_or("HEAD");
    let listed = git.network(request.network).args(["ls-remote", "--quiet", "--", "waypost"]).stdout()?;
    let refs = listed.lines().filter_map(|line| line.split_once('\t'));
    let candidates =
        [revision_name.to_owned(), format!("refs/heads/{revision_name}"), format!("refs/tags/{revision_name}")];
    let found = candidates.iter().find_map(|name| refs.clone().find(|(_, known)| known == name));
    let is_commit = revision_name.len() >= 40 && revision_name.bytes().all(|byte| byte.is_ascii_hexdigit());
    match found {
        Some((commit, name)) => {
            // The commit of an annotated tag is listed under a peeled name.
            let peeled = format!("{name}^{{}}");
            let commit = refs.clone().find(|(_, known)| **known == peeled).map_or(commit, |(commit, _)| commit);
            plan.base = Some(commit.to_owned());
            plan.base_ref = Some(name.to_owned());
        }
        None if is_commit => plan.base = Some(revision_name.to_ascii_lowercase()),
        None => return Err(no_commit(revision_name)),
    }
    plan.branch = Some(branch(&git, request)?);
    plan.mirror = Some(mirror::path_for_url(request.places.mirrors, url));
    plan.origin = Some(url_text::without_password(url));
    Ok(())
}

/// Returns a remote's URL as it is valid in any directory. Git resolves a relative path from the root of the checkout.
pub(super) fn absolute_url(url: &str, root: &Path) -> String {
    let has_host = url.find(':').is_some_and(|colon| !url[..colon].contains('/'));
    if has_host || url.starts_with('/') {
        return url.to_owned();
    }
    let path = root.join(url);
    path.canonicalize().unwrap_or_else(|_| real(&path)).to_string_lossy().into_owned()
}

/// Returns the commit to start from.
fn base(git: &Git, request: &Request<'_>) -> Result<String> {
    request.commit.map_or_else(|| resolve(git, request.base.unwrap_or("HEAD")), |commit| Ok(commit.to_owned()))
}

fn default_branch(name: &Name) -> String {
    format!("waypost/{name}")
}

/// Refuses a branch that exists. A worktree gets a branch of its own, which is deleted with it if it has no commits.
fn check_new(git: &Git, branch: &str) -> Result<()> {
    let reference = format!("refs/heads/{branch}");
    let found = git.command().args(["for-each-ref", "--format=%(refname) %(worktreepath)", &reference]).stdout()?;
    let Some((_, path)) = found.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == reference))
    else {
        return Ok(());
    };
    let place = if path.is_empty() { String::new() } else { format!(", and is checked out at {path}") };
    Err(Error::conflict(format!("branch {branch} exists already{place}"))
        .hint(format!("name a new branch, and start it there: --base {branch}")))
}

/// Returns the branch to work on, after a check of its name.
fn branch(git: &Git, request: &Request<'_>) -> Result<String> {
    let Some(branch) = request.branch else { return Ok(default_branch(request.name)) };
    // `check-ref-format --branch` would accept "@{-1}".
    let reference = format!("refs/heads/{branch}");
    let is_name = !branch.starts_with('-') && git.command().args(["check-ref-format", &reference]).succeeds()?;
    if is_name { Ok(branch.to_owned()) } else { Err(Error::invalid(format!("{branch:?} cannot be a branch"))) }
}

/// Returns the commit that a revision names.
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

fn no_git_head_in_jj() -> Error {
    Error::not_found("git's HEAD is on no commit in this jj repository").hint("use the strategy jj, the default here")
}

fn no_commit(name: &str) -> Error {
    Error::not_found(format!("there is no commit {name} to start from"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_relative_path_depends_on_the_checkout() {
        let root = Path::new("/nowhere/at/all");
        for url in ["/srv/a.git", "https://example.org/a", "git@example.org:a/b.git", "file:///srv/a", "host:a"] {
            assert_eq!(absolute_url(url, root), url);
        }
        for (url, absolute) in
            [("../a.git", "/nowhere/at/all/../a.git"), ("a:b/../c", "a:b/../c"), ("./a:b", "/nowhere/at/all/./a:b")]
        {
            assert_eq!(absolute_url(url, root), absolute);
        }
    }
}
