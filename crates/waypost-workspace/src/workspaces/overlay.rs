//! A workspace as an overlay mount: a template as the lower layer, the job's changes as the upper layer.
//!
//! It takes milliseconds and no disk space, but needs the right to mount. Without that right it is refused; there is no
//! fallback.

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
    // The link records the template, so that the overlay can be mounted again after a reboot.
    std::os::unix::fs::symlink(template.tree(), layers.join("lower"))
        .map_err(|error| Error::unavailable(format!("cannot write {}", layers.display())).because(error))?;
    mount_overlay(&template.tree(), &upper, &work, &plan.workspace)?;
    bring_to_base(plan, template)?;
    Ok(Files::Overlaid)
}

/// Makes a workspace usable: mounts an overlay again after a reboot, or in another mount namespace.
pub fn enter(plan: &Plan) -> Result<()> {
    if plan.strategy != Strategy::Overlay || is_mounted(plan) {
        return Ok(());
    }
    let layers = layers(plan);
    let lower = fs::read_link(layers.join("lower"))
        .map_err(|error| Error::damaged(format!("{} has no lower layer", plan.workspace.display())).because(error))?;
    mount_overlay(&lower, &layers.join("upper"), &layers.join("work"), &plan.workspace)
}

/// Unmounts it. Fails while a process uses it.
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
