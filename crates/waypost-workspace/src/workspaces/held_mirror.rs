//! A mirror under its lock: created, repaired, and filled with the commits that workspaces need.

use std::path::Path;
use std::time::Duration;

use waypost_core::{Error, Result};
use waypost_fs::{FileLock, create_private_dir};

use super::dirs::remove_if_there;
use super::mirror::{FETCH, Mirror, check_source, check_url, keep, write_settings};
use super::model::{Name, Plan};
use super::repair::{ensure_usable, ensure_usable_locked};
use crate::vcs::config_file::ConfigFile;
use crate::vcs::run::{Git, NetworkOptions, UPLOAD_PACK};

/// The maximum time to wait for another process that clones or fetches the same repository, which may be large.
const LOCK_TIMEOUT: Duration = Duration::from_mins(30);

/// An existing mirror whose lock this process holds.
pub(super) struct HeldMirror {
    mirror: Mirror,
    _lock: FileLock,
}

/// Acquires the lock of a mirror, and creates the mirror if it does not exist.
pub(super) fn hold(mirror: Mirror, plan: &Plan) -> Result<HeldMirror> {
    let dir = mirror.path().parent().unwrap_or(Path::new("/"));
    create_private_dir(dir)
        .map_err(|error| Error::unavailable(format!("cannot write {}", dir.display())).because(error))?;
    let lock = FileLock::acquire(&mirror.path().with_extension("lock"), LOCK_TIMEOUT)?;
    if mirror.path().symlink_metadata().is_err() {
        create(&mirror, plan)?;
    }
    ensure_usable_locked(&mirror, plan.git_dir.as_deref())?;
    check_origin(&mirror, plan)?;
    Ok(HeldMirror { mirror, _lock: lock })
}

/// Refuses a mirror of another repository. Sharing one would not damage objects, but it is never intended.
fn check_origin(mirror: &Mirror, plan: &Plan) -> Result<()> {
    let Some(url) = plan.origin.as_deref().filter(|_| plan.git_dir.is_none()) else { return Ok(()) };
    let config = ConfigFile::read(&mirror.path().join("config"));
    match config.get("waypost.source") {
        Some(known) if known != url => {
            Err(Error::conflict(format!("{} is a mirror of {known}, not of {url}", mirror.path().display())))
        }
        _ => Ok(()),
    }
}

fn create(mirror: &Mirror, plan: &Plan) -> Result<()> {
    let new = mirror.path().with_extension("new");
    // An interrupted process left it: this one holds the lock.
    remove_if_there(&new)?;
    let dir = mirror.path().parent().unwrap_or(Path::new("/"));
    let git = Git::that_makes(dir);
    let source = plan.origin.as_deref().unwrap_or_default();
    if let Some(git_dir) = &plan.git_dir {
        // Link the objects. If the source itself borrows objects, copy them, so that the mirror does not depend on a
        // third repository.
        let borrows = git_dir.join("objects/info/alternates").is_file();
        let how = if borrows { "--no-local" } else { "--local" };
        let from = Git::of_repository(git_dir)?;
        let clone = git.command().args(["clone", "--quiet", "--bare", "--template=", "--no-tags", how]);
        clone.arg(from.upload_pack()).arg("--").arg(git_dir).arg(&new).stdout()?;
    } else {
        git.command().args(["init", "--quiet", "--bare", "--template=", "--"]).arg(&new).stdout()?;
    }
    write_settings(&new, source)?;
    // Git itself syncs objects and refs, but neither `config` nor directories. After a power cut, the final name must
    // not lead to a mirror without content.
    waypost_fs::sync_file_system(&new)
        .and_then(|()| std::fs::rename(&new, mirror.path()))
        .and_then(|()| waypost_fs::sync_dir(mirror.path()))
        .map_err(|error| Error::unavailable(format!("cannot make {}", mirror.path().display())).because(error))
}

/// Deletes the refs of a workspace, after everything else of it is gone.
pub(super) fn release(mirror: &Mirror, name: &Name) -> Result<()> {
    if !mirror.path().is_dir() {
        return Ok(());
    }
    ensure_usable(mirror)?;
    let refs =
        mirror.git()?.command().args(["for-each-ref", "--format=delete %(refname)", &keep(name, "")]).stdout()?;
    if refs.is_empty() {
        return Ok(());
    }
    mirror.git()?.command().args(["update-ref", "--stdin"]).stdout_with_input(format!("{refs}\n").as_bytes()).map(drop)
}

impl HeldMirror {
    pub(super) fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Fetches the commits of a plan, and keeps them with refs.
    pub(super) fn keep(&self, plan: &Plan, network: NetworkOptions, url: Option<&str>) -> Result<()> {
        let base = plan.base()?;
        let mirror = &self.mirror;
        let reference = keep(&plan.name, "base");
        if !mirror.point(&reference, base)? {
            match &plan.git_dir {
                Some(git_dir) => {
                    check_source(git_dir)?;
                    mirror.fetch_from(git_dir, base, &reference)?;
                }
                None => self.fetch_remote(plan, base, &reference, network, url)?,
            }
        }
        if let (Some((_, commit)), Some(git_dir)) = (&plan.upstream, &plan.git_dir) {
            let reference = keep(&plan.name, "upstream");
            if !mirror.point(&reference, commit)? {
                mirror.fetch_from(git_dir, commit, &reference)?;
            }
        }
        Ok(())
    }

    fn fetch_remote(
        &self,
        plan: &Plan,
        base: &str,
        reference: &str,
        network: NetworkOptions,
        url: Option<&str>,
    ) -> Result<()> {
        let url =
            url.or(plan.origin.as_deref()).ok_or_else(|| Error::not_found("the URL of the repository is unknown"))?;
        check_url(url)?;
        let git = Git::of_repository(self.mirror.path())?
            .with_setting("fetch.unpackLimit", "1")
            .with_setting("remote.waypost.url", url);
        let revision = plan.base_ref.as_deref().unwrap_or(base);
        let fetch =
            git.network(network).args(FETCH).args([UPLOAD_PACK, "--", "waypost", &format!("+{revision}:{reference}")]);
        fetch.stdout()?;
        // The branch may have moved since planning. The commit is one of its ancestors, or is fetched by its id.
        if self.mirror.point(reference, base)? {
            return Ok(());
        }
        let refspec = format!("+{base}:{reference}");
        git.network(network).args(FETCH).args([UPLOAD_PACK, "--", "waypost", &refspec]).stdout().map(drop)
    }
}
