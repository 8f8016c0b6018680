//! Commits and pushes the work of a job, and checks whether it was merged.
//!
//! Git runs on the mirror, whose configuration only Waypost writes: a job could have redirected its own remote. URLs
//! with secrets are passed to git in its environment and written nowhere.

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};

use super::mirror::{self, Mirror};
use super::model::Plan;
use super::overlay::enter;
use super::plan::resolve;
use super::repair::ensure_usable;
use crate::vcs::git_layout;
use crate::vcs::run::{self, Git, NetworkOptions, Tool, UPLOAD_PACK};

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

/// Commits all files that are not ignored, with the author of the source checkout. None if nothing changed.
pub fn commit(plan: &Plan, message: &str) -> Result<Option<String>> {
    enter(plan)?;
    let git = Git::of_workspace(&plan.workspace)?;
    git.command().args(["add", "--all", "--", "."]).stdout()?;
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
    let title = Git::of_workspace(&plan.workspace)?.command().args(["show", "--no-patch", "--format=%s", "HEAD"]);
    run::open_pull_request(checkout, branch, &title.stdout()?)
}

/// Returns the commit that a workspace is on.
pub fn head(plan: &Plan) -> Result<String> {
    enter(plan)?;
    resolve(&Git::of_workspace(&plan.workspace)?, "HEAD")
}

/// Pushes a workspace's HEAD to a branch of the remote. Returns the commit.
///
/// The push is never forced. `url` is the remote's URL with secrets, if the source's own configuration does not have
/// it.
pub fn push(plan: &Plan, branch: &str, network: NetworkOptions, url: Option<&str>) -> Result<String> {
    enter(plan)?;
    let workspace = Git::of_workspace(&plan.workspace)?;
    let commit = resolve(&workspace, "HEAD")?;
    let remote_ref = format!("refs/heads/{branch}");
    if branch.starts_with('-') || !workspace.command().args(["check-ref-format", &remote_ref]).succeeds()? {
        return Err(Error::invalid(format!("{branch:?} cannot be a branch")));
    }
    let git = with_remote(plan, url, true)?;
    let push = borrowing(git.network(network), plan).args([
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

/// Fetches the default branch and returns whether it contains a workspace's work.
pub fn merged(plan: &Plan, network: NetworkOptions, url: Option<&str>) -> Result<Merged> {
    enter(plan)?;
    let workspace = Git::of_workspace(&plan.workspace)?;
    let (head, base) = (resolve(&workspace, "HEAD")?, plan.base()?);
    if head == base {
        return Ok(Merged::Nothing);
    }
    let git = with_remote(plan, url, false)?;
    let branch = plan.upstream.as_ref().map_or("HEAD".to_owned(), |(name, _)| format!("refs/heads/{name}"));
    let reference = mirror::keep(&plan.name, "upstream");
    let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", UPLOAD_PACK, "--"];
    git.network(network).args(fetch).args(["waypost", &format!("+{branch}:{reference}")]).stdout()?;
    let upstream = resolve(&git, &reference)?;
    let is_ancestor = borrowing(git.command(), plan).args(["merge-base", "--is-ancestor", &head, &upstream]);
    if is_ancestor.succeeds()? {
        return Ok(Merged::Whole);
    }
    // If a merge would change nothing, the branch has the changes already.
    let merge = borrowing(git.command(), plan).args(["merge-tree", "--write-tree", "--no-messages", &upstream, &head]);
    let (Some(tree), whole) = (merge.stdout_or_none()?, format!("{upstream}^{{tree}}")) else { return Ok(Merged::No) };
    let upstream = git.command().args(["rev-parse", "--verify", &whole]).stdout()?;
    Ok(if tree == upstream { Merged::Squashed } else { Merged::No })
}

/// Lets git on the mirror also read the workspace's objects.
fn borrowing(tool: Tool, plan: &Plan) -> Tool {
    tool.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", plan.workspace.join(".git/objects"))
}

/// Git on the mirror, with the real remote.
fn with_remote(plan: &Plan, url: Option<&str>, is_push: bool) -> Result<Git> {
    let mirror = Mirror::of(plan)?;
    ensure_usable(&mirror)?;
    // The source's own configuration may have a URL with a secret, which is not copied.
    let remotes = plan.git_dir.as_deref().map(git_layout::remotes).unwrap_or_default();
    let known = remotes.iter().find(|remote| remote.name == "origin");
    let known = known.map(|remote| remote.push_url.as_ref().filter(|_| is_push).unwrap_or(&remote.url).as_str());
    let url = url.or(known).or(plan.origin.as_deref()).ok_or_else(|| {
        Error::refused(format!("workspace {} has no remote", plan.name)).hint("add a remote origin to the source")
    })?;
    mirror::check_url(url)?;
    Ok(Git::of_repository(mirror.path())?
        .with_setting("fetch.unpackLimit", "1")
        .with_setting("remote.waypost.url", url))
}
