//! A workspace whose files lie under it: a template below, and above it what the job changes.
//!
//! It takes milliseconds and no room, but the right to mount. Where that is missing it is refused, and nothing else is
//! done in its place.

use std::fs;
use std::path::PathBuf;

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, mount_overlay, unmount_overlay};

use super::git_dir::{bring_to_base, write_with_index};
use super::mirror::Mirror;
use super::model::{Files, Plan, Strategy};
use super::template::Template;

/// The directory of the layers, beside the workspace.
const LAYERS: &str = "layers";

pub(super) fn fill(plan: &Plan, mirror: &Mirror, template: &Template) -> Result<Files> {
    let layers = layers(plan);
    let (upper, work) = (layers.join("upper"), layers.join("work"));
    for dir in [&upper, &work] {
        fs::create_dir_all(dir)
            .map_err(|error| Error::unavailable(format!("cannot write {}", dir.display())).because(error))?;
    }
    write_with_index(&upper.join(".git"), plan, mirror, template)?;
    // So that it can be mounted again after a restart, when nobody remembers the template.
    std::os::unix::fs::symlink(template.tree(), layers.join("lower"))
        .map_err(|error| Error::unavailable(format!("cannot write {}", layers.display())).because(error))?;
    mount_overlay(&template.tree(), &upper, &work, &plan.workspace)?;
    bring_to_base(plan, template)?;
    Ok(Files::Overlaid)
}

/// Makes sure that a workspace can be worked in: an overlay is mounted again after a restart of the machine, or where it was
/// mounted for others only.
pub fn enter(plan: &Plan) -> Result<()> {
    if plan.strategy != Strategy::Overlay || is_mounted(plan) {
        return Ok(());
    }
    let layers = layers(plan);
    let lower = fs::read_link(layers.join("lower"))
        .map_err(|error| Error::damaged(format!("{} has no lower layer", plan.workspace.display())).because(error))?;
    mount_overlay(&lower, &layers.join("upper"), &layers.join("work"), &plan.workspace)
}

/// Unmounts it. Refused while somebody works in it.
pub(super) fn leave(plan: &Plan) -> Result<()> {
    if is_mounted(plan) { unmount_overlay(&plan.workspace) } else { Ok(()) }
}

fn is_mounted(plan: &Plan) -> bool {
    let device = |path: PathBuf| FileIdentity::of_entry(&path).ok().map(FileIdentity::device);
    device(plan.workspace.clone()).is_some_and(|inside| Some(inside) != device(plan.home()))
}

pub(super) fn layers(plan: &Plan) -> PathBuf {
    plan.home().join(LAYERS)
}
