//! Commits and pushes the work of a job, and checks whether it was merged.
//!
//! Git runs on the mirror, whose configuration only Waypost writes: a job could have redirected its own remote. URLs
//! with secrets are passed to git in its environment and written nowhere.

use serde::{Deserialize, Serialize};
use waypost_core::ledger::role::Remote;
use waypost_core::{Error, Result};

use super::files_lock::lock_files;
use super::mirror::{self, Mirror};
use super::model::{Plan, Strategy};
use super::overlay::enter;
use super::plan::{absolute_url, resolve};
use super::repair::ensure_usable;
use crate::vcs::config_file::ConfigFile;
use crate::vcs::git_layout;
use crate::vcs::run::{self, Git, NetworkOptions, Tool, UPLOAD_PACK};
use crate::worktrees::nested;

/// Whether the work of a workspace is in the default branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Merged {
    /// All its commits are.
    Whole,
    /// Its changes are, in other commits.
    Squashed,
    /// Some changes are missing.
    No,
    /// There is nothing to merge.
    Nothing,
}

/// What to do about a file whose filter does not run.
const NO_FILTERS: &str = "way runs no filters of a repository: commit in the workspace with git, or configure the filter in \
                          your own ~/.gitconfig";

/// Git on a workspace that has git commits. After a job in a sandbox, it runs in that sandbox.
pub(super) fn git_in(plan: &Plan) -> Result<Git> {
    enter(plan)?;
    match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay, _) => Git::of_workspace(&plan.workspace),
        (Strategy::Worktree, Some(_)) => Git::in_worktree(&plan.workspace),
        _ => Err(Error::refused(format!("workspace {} has no git commits", plan.name))),
    }
}

/// Git on the repository that has the objects of a workspace: its mirror, or for a git worktree the source.
fn store_of(plan: &Plan) -> Result<Git> {
    if let (None, Some(git_dir)) = (&plan.mirror, &plan.git_dir) {
        return Git::of_repository(git_dir);
    }
    let mirror = Mirror::of(plan)?;
    ensure_usable(&mirror)?;
    Git::of_repository(mirror.path())
}

/// Commits all files that are not ignored, with the author of the source checkout. None if nothing changed.
pub fn commit(plan: &Plan, message: &str) -> Result<Option<String>> {
    let _files = lock_files(plan)?;
    let git = git_in(plan)?;
    nested(&plan.workspace)?;
    let added = git.for_commits().command().args(["add", "--all", "--", "."]).stdout();
    added
        .map_err(|error| if error.full_message().contains("clean filter") { error.hint(NO_FILTERS) } else { error })?;
    if git.command().args(["diff", "--cached", "--quiet"]).succeeds()? {
        return Ok(None);
    }
    let (name, email) = identity(plan)?;
    let mut tool = git.command();
    for role in ["AUTHOR", "COMMITTER"] {
        tool = tool.env(&format!("GIT_{role}_NAME"), &name).env(&format!("GIT_{role}_EMAIL"), &email);
    }
    tool.args(["commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", message]).stdout()?;
    head(plan).map(Some)
}

/// Returns the name and the email address of the author in the source checkout.
pub(super) fn identity(plan: &Plan) -> Result<(String, String)> {
    let author = plan.checkout.as_deref().map(Git::in_worktree).transpose()?;
    let author =
        author.map(|git| git.command().args(["var", "GIT_AUTHOR_IDENT"]).stdout_or_none()).transpose()?.flatten();
    let author = author.as_deref().and_then(|ident| {
        let (name, rest) = ident.split_once(" <")?;
        Some((name.to_owned(), rest.split_once('>')?.0.to_owned()))
    });
    Ok(author.unwrap_or_else(|| ("waypost".to_owned(), "waypost@localhost".to_owned())))
}

/// Opens a pull request for a pushed branch. Returns its URL.
pub fn open_pull_request(plan: &Plan, branch: &str) -> Result<String> {
    let Some(checkout) = &plan.checkout else {
        return Err(Error::refused(format!("workspace {} does not come from a checkout on this machine", plan.name)));
    };
    let title = git_in(plan)?.command().args(["show", "--no-patch", "--format=%s", "HEAD"]);
    run::open_pull_request(checkout, branch, &title.stdout()?)
}

/// Returns the commit that a workspace is on.
pub fn head(plan: &Plan) -> Result<String> {
    resolve(&git_in(plan)?, "HEAD")
}

/// Pushes a workspace's HEAD to a branch of the remote. Returns the commit.
///
/// The push is never forced. `url` is the remote's URL with secrets, if the source's own configuration does not have
/// it.
pub fn push(plan: &Plan, branch: &str, network: NetworkOptions, url: Option<&str>) -> Result<String> {
    let workspace = git_in(plan)?;
    let commit = resolve(&workspace, "HEAD")?;
    let remote_ref = branch_ref(&workspace, branch)?;
    let git = with_remote(plan, url, true)?;
    if plan.strategy.borrows() {
        // So the push, which is in no sandbox, reads nothing in the workspace.
        Mirror::of(plan)?.fetch_from(&plan.workspace.join(".git"), &commit, &mirror::keep(&plan.name, "pushed"))?;
    }
    let push = git.network(network).args([
        "push",
        "--quiet",
        "--no-verify",
        "--no-follow-tags",
        "--no-recurse-submodules",
        "--receive-pack=git-receive-pack",
        "--",
        "waypost",
        &format!("{commit}:{remote_ref}"),
    ]);
    push.stdout()?;
    let tracking_ref = format!("refs/remotes/origin/{branch}");
    workspace.command().args(["update-ref", "-m", "waypost: push", &tracking_ref, &commit]).stdout()?;
    Ok(commit)
}

fn branch_ref(git: &Git, branch: &str) -> Result<String> {
    let reference = format!("refs/heads/{branch}");
    if branch.starts_with('-') || !git.command().args(["check-ref-format", &reference]).succeeds()? {
        return Err(Error::invalid(format!("{branch:?} cannot be a branch")));
    }
    Ok(reference)
}

/// Returns whether a workspace's work can be pushed: its source has a remote `origin`.
pub fn has_remote(plan: &Plan) -> bool {
    let remotes = remotes(plan);
    remotes.iter().any(|remote| remote.name == "origin") || (plan.git_dir.is_none() && plan.origin.is_some())
}

/// Brings a workspace's HEAD into the source repository on this machine, as a branch. Returns the commit.
///
/// The branch is created or fast-forwarded, never reset, and never one that is checked out.
pub fn land(plan: &Plan, branch: &str) -> Result<String> {
    let _files = lock_files(plan)?;
    let workspace = git_in(plan)?;
    let commit = resolve(&workspace, "HEAD")?;
    let reference = branch_ref(&workspace, branch)?;
    let Some(git_dir) = plan.git_dir.as_deref().filter(|git_dir| git_dir.is_dir()) else {
        return Err(Error::refused(format!("the source repository of workspace {} is not on this machine", plan.name)));
    };
    let source = Git::of_repository(git_dir)?;
    let now = source.command().args(["rev-parse", "--verify", "--quiet", &reference]).stdout_or_none()?;
    if now.as_deref() == Some(&commit) {
        return Ok(commit);
    }
    let from = if plan.strategy == Strategy::Worktree { git_dir.to_owned() } else { plan.workspace.join(".git") };
    let fetch = mirror::fetch_local(&source, &from, &[])?;
    fetch.arg(format!("{commit}:{reference}")).stdout().map_err(|error| {
        Error::conflict(format!("cannot bring {commit} into {} as {branch}", git_dir.display()))
            .because(error.full_message())
            .hint("choose another branch: --branch NAME")
    })?;
    Ok(commit)
}

/// Returns whether the default branch contains a workspace's work. Fetches it, if there is a remote; otherwise asks the
/// source repository.
pub fn merged(plan: &Plan, network: NetworkOptions, url: Option<&str>) -> Result<Merged> {
    let workspace = git_in(plan)?;
    let (head, base) = (resolve(&workspace, "HEAD")?, plan.base()?);
    if head == base {
        return Ok(Merged::Nothing);
    }
    if url.is_none() && !has_remote(plan) {
        return merged_in_source(plan, &head);
    }
    let git = with_remote(plan, url, false)?;
    let branch = plan.upstream.as_ref().map_or("HEAD".to_owned(), |(name, _)| format!("refs/heads/{name}"));
    let reference = mirror::keep(&plan.name, "upstream");
    let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", UPLOAD_PACK, "--"];
    git.network(network).args(fetch).args(["waypost", &format!("+{branch}:{reference}")]).stdout()?;
    let upstream = resolve(&git, &reference)?;
    if plan.mirror.is_none() {
        // The ref would stay in the user's repository.
        git.command().args(["update-ref", "-d", &reference]).stdout()?;
    }
    contains(&workspace, plan, &upstream, &head)
}

/// Returns whether the branches that the source repository works on contain a commit.
pub(super) fn merged_in_source(plan: &Plan, head: &str) -> Result<Merged> {
    let git = git_in(plan)?;
    for target in targets(plan)? {
        let merged = contains(&git, plan, &target, head)?;
        if merged != Merged::No {
            return Ok(merged);
        }
    }
    Ok(Merged::No)
}

/// Returns whether a commit contains the work of another one.
fn contains(git: &Git, plan: &Plan, target: &str, head: &str) -> Result<Merged> {
    let is_ancestor = borrowing(git.command(), plan).args(["merge-base", "--is-ancestor", head, target]);
    if is_ancestor.succeeds()? {
        return Ok(Merged::Whole);
    }
    // If a merge would change nothing, the branch has the changes already.
    let merge = borrowing(git.command(), plan).args(["merge-tree", "--write-tree", "--no-messages", target, head]);
    let Some(tree) = merge.stdout_or_none()? else { return Ok(Merged::No) };
    let whole =
        borrowing(git.command(), plan).args(["rev-parse", "--verify", &format!("{target}^{{tree}}")]).stdout()?;
    Ok(if tree == whole { Merged::Squashed } else { Merged::No })
}

/// Lists the commits of the source repository into which work is merged: those of its checkouts and its default branch.
/// The workspace's own branch is none of them.
pub(super) fn targets(plan: &Plan) -> Result<Vec<String>> {
    let Some(git_dir) = plan.git_dir.as_deref().filter(|git_dir| git_dir.is_dir()) else { return Ok(Vec::new()) };
    let source = Git::of_repository(git_dir)?;
    let mut found = Vec::new();
    let checkouts = [&plan.checkout, &plan.source].into_iter().flatten().filter(|path| path.join(".git").exists());
    for checkout in checkouts {
        let git = Git::in_worktree(checkout)?;
        let branch = git.command().args(["symbolic-ref", "--quiet", "--short", "HEAD"]).stdout_or_none()?;
        if branch.is_none() || branch != plan.branch {
            found.extend(resolve(&git, "HEAD").ok());
        }
    }
    let named = plan.upstream.iter().map(|(name, _)| name.as_str()).chain(["main", "master"]);
    found.extend(named.filter_map(|name| resolve(&source, &format!("refs/heads/{name}")).ok()));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Lets git in a workspace also read the objects of the source.
pub(super) fn borrowing(tool: Tool, plan: &Plan) -> Tool {
    match &plan.git_dir {
        Some(git_dir) => tool.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", git_dir.join("objects")),
        None => tool,
    }
}

/// Returns the remotes of the source, as its configuration names them now.
fn remotes(plan: &Plan) -> Vec<Remote> {
    let config = plan.git_dir.as_ref().map(|dir| ConfigFile::read(&dir.join("config")));
    git_layout::remotes(&config.unwrap_or_default())
}

/// Git on the mirror, with the real remote.
fn with_remote(plan: &Plan, url: Option<&str>, is_push: bool) -> Result<Git> {
    let store = store_of(plan)?;
    // The source's own configuration may have a URL with a secret, which is not copied.
    let remotes = remotes(plan);
    let known = remotes.iter().find(|remote| remote.name == "origin");
    let known = known.map(|remote| remote.push_url.as_ref().filter(|_| is_push).unwrap_or(&remote.url).as_str());
    let known = known.zip(plan.source.as_deref()).map(|(url, source)| absolute_url(url, source));
    let url = url.or(known.as_deref()).or(plan.origin.as_deref()).ok_or_else(|| {
        Error::refused(format!("workspace {} has no remote", plan.name)).hint("add a remote origin to the source")
    })?;
    mirror::check_url(url)?;
    Ok(store.with_setting("fetch.unpackLimit", "1").with_setting("remote.waypost.url", url))
}
