//! Fills a workspace that has its own git directory.

use waypost_core::Result;
use waypost_fs::copy_tree;

use super::git_dir::{bring_to_base, write_with_index};
use super::mirror::Mirror;
use super::model::{Files, MakeOptions, Plan, Strategy};
use super::template::Template;
use super::{held_mirror, overlay, template};

/// Fills the workspace's directory, which exists and is empty.
pub(super) fn fill(plan: &Plan, options: &MakeOptions<'_>) -> Result<Files> {
    let (mirror, template) = prepare(plan, options)?;
    let filled = match plan.strategy {
        Strategy::Overlay => overlay::fill(plan, &mirror, &template),
        _ => from_template(plan, &mirror, &template),
    };
    // An overlay needs its template as long as it exists.
    if plan.strategy != Strategy::Overlay || filled.is_err() {
        template.leave(&plan.name);
    }
    filled
}

/// Prepares the mirror, its commits and a template.
fn prepare(plan: &Plan, options: &MakeOptions<'_>) -> Result<(Mirror, Template)> {
    let held = held_mirror::hold(Mirror::of(plan)?, plan)?;
    held.keep(plan, options.network, options.url)?;
    let template = template::find_or_create(&held, plan.base()?, &plan.name)?;
    Ok((Mirror::of(plan)?, template))
}

fn from_template(plan: &Plan, mirror: &Mirror, template: &Template) -> Result<Files> {
    let own = plan.workspace.join(".git");
    write_with_index(&own, plan, mirror, template)?;
    let copied = copy_tree(&template.tree(), &plan.workspace, &[])?;
    bring_to_base(plan, template)?;
    Ok(if copied.is_shared { Files::Shared } else { Files::Copied })
}
