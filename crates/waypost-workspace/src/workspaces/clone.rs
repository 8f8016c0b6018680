//! A workspace with a git directory of its own.

use std::fs;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::copy_tree;

use super::make::{Files, Means};
use super::mirror::Mirror;
use super::plan::{Plan, Strategy};
use super::template::Template;
use super::{git_dir, overlay};
use crate::run::Git;

/// Fills the workspace's directory, which is there and empty.
pub(super) fn fill(plan: &Plan, means: &Means<'_>) -> Result<Files> {
    let (mirror, template) = prepare(plan, means)?;
    let filled = match plan.strategy {
        Strategy::Overlay => overlay::fill(plan, &mirror, &template),
        _ => from_template(plan, &mirror, &template),
    };
    // An overlay stands on its template as long as it lives.
    if plan.strategy != Strategy::Overlay || filled.is_err() {
        template.leave(&plan.name);
    }
    filled
}

/// Makes sure of the mirror, the commits and a template.
fn prepare(plan: &Plan, means: &Means<'_>) -> Result<(Mirror, Template)> {
    let held = Mirror::of(plan)?.hold(plan)?;
    held.keep(plan, means.own, means.url)?;
    let template = held.template(plan.base()?, &plan.name)?;
    Ok((Mirror::of(plan)?, template))
}

fn from_template(plan: &Plan, mirror: &Mirror, template: &Template) -> Result<Files> {
    let own = plan.workspace.join(".git");
    write_git_dir(&own, plan, mirror, template)?;
    let copied = copy_tree(&template.tree(), &plan.workspace, &[])?;
    bring_to_base(plan, template)?;
    Ok(if copied.is_shared { Files::Shared } else { Files::Copied })
}

/// Writes a git directory with the template's index.
pub(super) fn write_git_dir(own: &Path, plan: &Plan, mirror: &Mirror, template: &Template) -> Result<()> {
    git_dir::write(own, mirror.path(), plan)?;
    fs::copy(template.index(), own.join("index"))
        .map(drop)
        .map_err(|error| Error::unavailable(format!("cannot write {}", own.display())).because(error))
}

/// Brings the files to the plan's commit, if the template is of another one.
pub(super) fn bring_to_base(plan: &Plan, template: &Template) -> Result<()> {
    let base = plan.base()?;
    if template.commit == base {
        return Ok(());
    }
    // Nobody but us has written the git directory yet, and all files are the template's: only what differs is looked at.
    let git = Git::ours(&plan.workspace.join(".git"), Some(&plan.workspace));
    git.command().args(["read-tree", "-m", "-u", &template.commit, base]).stdout().map(drop)
}
