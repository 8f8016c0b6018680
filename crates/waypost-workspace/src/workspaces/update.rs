//! Compares an existing workspace with its source, and brings it up to date. Nothing is merged and nothing is lost: a
//! workspace that has commits of its own, or changes in the way, stays as it is.

use serde::{Deserialize, Serialize};
use waypost_core::words::count;
use waypost_core::{Error, Result};

use super::files_lock::lock_files;
use super::held_mirror::hold;
use super::mirror::{Mirror, check_source, keep};
use super::model::{Plan, Strategy};
use super::plan::{is_source_gone, resolve};
use super::push::{borrowing, git_in};
use crate::vcs::run::Git;
use crate::worktrees::nested;

/// Where a workspace stands, compared with a commit of its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The commit that the workspace is on.
    pub head: String,
    /// The commit of the source.
    pub target: String,
    /// The number of commits that only the workspace has.
    pub ahead: u64,
    /// The number of commits that the workspace lacks.
    pub behind: u64,
}

/// Compares the commit that a workspace is on with a revision of its source, by default the head of the checkout that it
/// was requested from. None if the workspace has no git commits, or its source is not on this machine.
pub fn position(plan: &Plan, revision: Option<&str>) -> Result<Option<Position>> {
    let _files = lock_files(plan)?;
    let Some(git) = git_of(plan)? else { return Ok(None) };
    let Some(git_dir) = plan.git_dir.as_deref().filter(|_| !is_source_gone(plan)) else { return Ok(None) };
    let checkout = plan.checkout.as_deref().filter(|checkout| checkout.join(".git").exists());
    let source = checkout.map_or_else(|| Git::of_repository(git_dir), Git::in_worktree)?;
    let target = resolve(&source, revision.unwrap_or("HEAD"))?;
    let head = resolve(&git, "HEAD")?;
    let counted = borrowing(git.command(), plan)
        .args(["rev-list", "--left-right", "--count", &format!("{head}...{target}"), "--"])
        .stdout()?;
    let numbers =
        counted.split_once('\t').and_then(|(ahead, behind)| Some((ahead.parse().ok()?, behind.parse().ok()?)));
    let (ahead, behind) = numbers.ok_or_else(|| Error::internal(format!("git counts {counted:?} commits")))?;
    Ok(Some(Position { head, target, ahead, behind }))
}

/// Fast-forwards a workspace to a revision of its source, by default to the head of the checkout that it was requested
/// from. Refuses if the workspace has diverged from it, or if changes in the workspace are in the way.
pub fn update(plan: &Plan, revision: Option<&str>) -> Result<Position> {
    let _files = lock_files(plan)?;
    let found = position(plan, revision)?;
    let (Some(position), Some(git)) = (found, git_of(plan)?) else {
        return Err(Error::refused(format!("workspace {} cannot be updated", plan.name))
            .hint("only one with git commits can, from a repository on this machine"));
    };
    let Position { target, ahead, behind, .. } = &position;
    if *behind == 0 {
        return Ok(position);
    }
    if *ahead > 0 {
        return Err(Error::conflict(format!("workspace {} has diverged: {}", plan.name, position.in_words()))
            .hint(format!("merge or rebase there: git merge {target}, or use a new workspace")));
    }
    if let (Some(git_dir), true) = (&plan.git_dir, plan.strategy.borrows()) {
        check_source(git_dir)?;
        hold(Mirror::of(plan)?, plan)?.mirror().fetch_from(git_dir, target, &keep(&plan.name, "updated"))?;
    }
    nested(&plan.workspace)?;
    git.command()
        .args(["merge", "--quiet", "--ff-only", "--no-stat", "--no-overwrite-ignore", target])
        .stdout()
        .map_err(|error| {
            Error::conflict(format!("workspace {} cannot be updated to {target}", plan.name))
                .because(error.full_message())
                .hint("commit the changes in the workspace, or save it first: way ws snapshot")
        })?;
    Ok(position)
}

impl Position {
    /// Describes it in words.
    pub fn in_words(&self) -> String {
        let short: String = self.target.chars().take(12).collect();
        let lacks = format!("it lacks {} of the source ({short})", count(self.behind, "commit"));
        match self.ahead {
            0 => lacks,
            ahead => format!("{lacks} and has {} of its own", count(ahead, "commit")),
        }
    }
}

/// Git on a workspace that has git commits.
fn git_of(plan: &Plan) -> Result<Option<Git>> {
    let has_commits = plan.strategy.borrows() || (plan.strategy == Strategy::Worktree && plan.git_dir.is_some());
    has_commits.then(|| git_in(plan)).transpose()
}
