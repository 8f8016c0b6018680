//! Brings an existing workspace up to date, for the next job in it.

use waypost_core::model::Workspace;
use waypost_core::work::base::{HEAD, PLAN};
use waypost_core::{Error, Result};
use waypost_workspace::workspaces::{self as tools, Position};

use super::create::check_reusable;
use super::records::plan_of;

/// Fast-forwards a workspace to a base: `head`, a revision of its source, or by default the head of the checkout that it
/// was requested from. Refuses if it has diverged.
pub fn update(workspace: &Workspace, base: Option<&str>) -> Result<Position> {
    check_reusable(workspace)?;
    tools::update(&plan_of(workspace)?, revision(base)?)
}

/// Refuses a base that a workspace cannot be fast-forwarded to.
pub fn check_update(workspace: &Workspace, base: &str) -> Result<()> {
    match tools::position(&plan_of(workspace)?, revision(Some(base))?)? {
        Some(position) if position.ahead > 0 && position.behind > 0 => {
            Err(Error::conflict(format!("workspace {} has diverged: {}", workspace.id, position.in_words()))
                .hint("merge or rebase in it, omit --base to use it as it is, or use a new workspace"))
        }
        _ => Ok(()),
    }
}

/// Returns a warning if a workspace lacks commits of its source.
pub fn behind_warning(workspace: &Workspace) -> Result<Option<String>> {
    let position = tools::position(&plan_of(workspace)?, None)?;
    let lacks = position.filter(|position| position.behind > 0);
    Ok(lacks.map(|position| format!("its workspace is not up to date: {}", position.in_words())))
}

/// Returns the revision that a base names. None for the head.
fn revision(base: Option<&str>) -> Result<Option<&str>> {
    match base {
        Some(PLAN) => Err(Error::invalid("a workspace that exists cannot start from the work of other tasks")
            .hint("omit --workspace, or name a revision with --base")),
        base => Ok(base.filter(|base| *base != HEAD)),
    }
}
