//! Mirrors: bare repositories that nobody but Waypost writes, and whose objects workspaces borrow.
//!
//! A workspace that borrowed from the user's own repository would break with its next garbage collection. A mirror is
//! never collected, only packed, and has a ref for every workspace on top of that. On the same file system it costs next to nothing:
//! packs are linked, not copied.

use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::{Error, Result, url_text};
use waypost_fs::{FileIdentity, FileLock, create_private_dir, remove_tree};

use super::plan::{Name, Plan};
use crate::checkout::Checkout;
use crate::config_file::ConfigFile;
use crate::identity::repository_id;
use crate::run::{Git, Own};

/// The first look at a large repository takes its time, and so does waiting for others who do.
const PATIENCE: Duration = Duration::from_mins(30);

/// What answers at the other end. Left to a repository, it could be any program here.
pub(super) const UPLOAD: &str = "--upload-pack=git-upload-pack";

/// How everything is fetched: what was asked for, and nothing besides.
pub(super) const FETCH: [&str; 8] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--update-shallow",
    UPLOAD,
];

/// A mirror, which may not be there yet.
pub(super) struct Mirror {
    path: PathBuf,
}

/// A mirror that is there, and that nobody else changes meanwhile.
pub(super) struct Held {
    mirror: Mirror,
    _lock: FileLock,
}

impl Mirror {
    pub(super) fn of(plan: &Plan) -> Result<Mirror> {
        let path = plan.mirror.clone();
        let path = path.ok_or_else(|| Error::refused(format!("workspace {} borrows from no mirror", plan.name)))?;
        Ok(Mirror { path })
    }

    /// One that is there, whatever it is of.
    pub(super) fn at(path: &Path) -> Mirror {
        Mirror { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Git on the mirror. A fetch is taken whole or not at all.
    pub(super) fn git(&self) -> Git {
        Git::ours(&self.path, None).with("fetch.unpackLimit", "1")
    }

    /// The directory of the trees that workspaces are copied from.
    pub(super) fn templates(&self) -> PathBuf {
        self.path.with_extension("templates")
    }

    /// Waits until nobody else changes it, and makes it if it is not there.
    pub(super) fn hold(self, plan: &Plan) -> Result<Held> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        create_private_dir(dir)
            .map_err(|error| Error::unavailable(format!("cannot write {}", dir.display())).because(error))?;
        let lock = FileLock::acquire(&self.path.with_extension("lock"), PATIENCE)?;
        if self.path.symlink_metadata().is_err() {
            self.create(plan)?;
        }
        self.ensure_usable_locked(plan.git_dir.as_deref())?;
        self.check_origin(plan)?;
        Ok(Held { mirror: self, _lock: lock })
    }

    /// Two repositories in one mirror would do no harm to objects, but it would be an accident.
    fn check_origin(&self, plan: &Plan) -> Result<()> {
        let Some(url) = plan.origin.as_deref().filter(|_| plan.git_dir.is_none()) else { return Ok(()) };
        let config = ConfigFile::read(&self.path.join("config"));
        match config.get("waypost.source") {
            Some(known) if known != url => {
                Err(Error::conflict(format!("{} is a mirror of {known}, not of {url}", self.path.display())))
            }
            _ => Ok(()),
        }
    }

    fn create(&self, plan: &Plan) -> Result<()> {
        let new = self.path.with_extension("new");
        // Left by somebody who was interrupted: we hold the lock.
        remove_if_there(&new)?;
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let git = Git::at(dir);
        let source = plan.origin.as_deref().unwrap_or_default();
        if let Some(git_dir) = &plan.git_dir {
            // With links, unless the source borrows itself: then its objects are copied, so that we do not depend on
            // what it borrows from.
            let borrows = git_dir.join("objects/info/alternates").is_file();
            let how = if borrows { "--no-local" } else { "--local" };
            let clone = git.command().args(["clone", "--quiet", "--bare", "--template=", "--no-tags", how, UPLOAD]);
            clone.arg("--").arg(git_dir).arg(&new).stdout()?;
        } else {
            git.command().args(["init", "--quiet", "--bare", "--template=", "--"]).arg(&new).stdout()?;
        }
        write_settings(&new, source)?;
        // Git itself syncs objects and refs, but neither `config` nor directories. After a power cut the name must not lead
        // to a mirror without content.
        waypost_fs::sync_file_system(&new)
            .and_then(|()| std::fs::rename(&new, &self.path))
            .and_then(|()| waypost_fs::sync_dir(&self.path))
            .map_err(|error| Error::unavailable(format!("cannot make {}", self.path.display())).because(error))
    }

    /// Forgets a workspace. Comes after everything else of it is gone.
    pub(super) fn release(&self, name: &Name) -> Result<()> {
        if !self.path.is_dir() {
            return Ok(());
        }
        self.ensure_usable()?;
        let refs =
            self.git().command().args(["for-each-ref", "--format=delete %(refname)", &keep(name, "")]).stdout()?;
        if refs.is_empty() {
            return Ok(());
        }
        self.git().command().args(["update-ref", "--stdin"]).fed(format!("{refs}\n").as_bytes()).map(drop)
    }

    /// Fetches a commit from a repository on this machine, under a ref.
    pub(super) fn fetch_from(&self, repository: &Path, commit: &str, reference: &str) -> Result<()> {
        let fetch = self.git().command().args(FETCH).arg("--").arg(repository);
        fetch.arg(format!("+{commit}:{reference}")).stdout().map(drop)
    }

    /// Fetches several from a repository on this machine, each under its ref: all of them or none.
    pub(super) fn fetch_all_from(&self, repository: &Path, wanted: &[(String, String)]) -> Result<()> {
        let fetch = self.git().command().args(FETCH).args(["--atomic", "--"]).arg(repository);
        let wanted = wanted.iter().map(|(commit, reference)| format!("+{commit}:{reference}"));
        fetch.args(wanted).stdout().map(drop)
    }

    /// Points a ref to a commit. False if the commit is not here.
    pub(super) fn point(&self, reference: &str, commit: &str) -> Result<bool> {
        // Git does not point a ref to nothing.
        self.git().command().args(["update-ref", reference, commit]).succeeds()
    }
}

impl Held {
    pub(super) fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Makes sure that the commits of a plan are here, and stay.
    pub(super) fn keep(&self, plan: &Plan, own: Own, url: Option<&str>) -> Result<()> {
        let base = plan.base()?;
        let mirror = &self.mirror;
        let reference = keep(&plan.name, "base");
        if !mirror.point(&reference, base)? {
            match &plan.git_dir {
                Some(git_dir) => {
                    check_source(git_dir)?;
                    mirror.fetch_from(git_dir, base, &reference)?;
                }
                None => self.fetch_remote(plan, base, &reference, own, url)?,
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

    fn fetch_remote(&self, plan: &Plan, base: &str, reference: &str, own: Own, url: Option<&str>) -> Result<()> {
        let url = url.or(plan.origin.as_deref()).ok_or_else(|| Error::not_found("nobody knows where to fetch from"))?;
        check_url(url)?;
        let git = Git::of_repository(&self.mirror.path)?.with("fetch.unpackLimit", "1").with("remote.waypost.url", url);
        let wanted = plan.base_ref.as_deref().unwrap_or(base);
        let fetch = git.network(own).args(FETCH).args(["--", "waypost", &format!("+{wanted}:{reference}")]);
        fetch.stdout()?;
        // The branch may have moved on since the plan; the commit is among its ancestors, or fetched by its own name.
        if self.mirror.point(reference, base)? {
            return Ok(());
        }
        git.network(own).args(FETCH).args(["--", "waypost", &format!("+{base}:{reference}")]).stdout().map(drop)
    }
}

/// Writes into a mirror's configuration what it is of, and that git collects nothing in it.
pub(super) fn write_settings(mirror: &Path, source: &str) -> Result<()> {
    let git = Git::ours(mirror, None);
    let settings =
        [("gc.auto", "0"), ("gc.pruneExpire", "never"), ("maintenance.auto", "false"), ("waypost.source", source)];
    for (key, value) in settings {
        git.command().args(["config", key, value]).stdout()?;
    }
    Ok(())
}

/// Returns the ref that keeps something of a workspace.
pub(super) fn keep(name: &Name, what: &str) -> String {
    format!("refs/waypost/keep/{name}/{what}")
}

/// Returns where the mirror of a checkout's repository lies, or would.
pub fn path_for_checkout(mirrors: &Path, checkout: &Checkout) -> Result<PathBuf> {
    Ok(match repository_id(&checkout.private_dir)? {
        Some(id) => mirrors.join(format!("{id}.git")),
        None => named(mirrors, &checkout.repository_name(), &checkout.shared_dir.to_string_lossy()),
    })
}

/// Returns where the mirror of a repository elsewhere lies.
pub(super) fn path_for_url(mirrors: &Path, url: &str) -> PathBuf {
    let url = url_text::without_password(url);
    let name = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or("repository");
    named(mirrors, name.strip_suffix(".git").unwrap_or(name), &url)
}

fn named(mirrors: &Path, name: &str, whole: &str) -> PathBuf {
    let slug: String = name.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    hasher.write(whole.as_bytes());
    mirrors.join(format!("{slug}-{:016x}.git", hasher.finish()))
}

/// A hash that is the same for ever, unlike the standard library's.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Refuses a repository that does not have all of its own objects.
pub(super) fn check_source(git_dir: &Path) -> Result<()> {
    let config = ConfigFile::read(&git_dir.join("config"));
    let is_partial = config.get("extensions.partialclone").is_some()
        || config.names("remote.", ".promisor").iter().any(|name| config.is_true(&format!("remote.{name}.promisor")));
    if is_partial {
        return Err(Error::refused(format!("{} is a partial clone: it lacks objects", git_dir.display()))
            .hint("use the strategy worktree, or fetch everything: git fetch --refetch --no-filter"));
    }
    Ok(())
}

/// Refuses an address that names a program, or a host that would be taken for an option.
pub(super) fn check_url(url: &str) -> Result<()> {
    const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];
    let refuse = |why: &str| Err(Error::refused(format!("{} {why}", url_text::without_password(url))));
    if url.is_empty() || url.starts_with('-') || url.contains(|char: char| char.is_control()) {
        return refuse("is not an address");
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        if !SCHEMES.contains(&scheme) {
            return refuse("is reached in a way that is not allowed");
        }
        return if host.starts_with('-') { refuse("names no host") } else { Ok(()) };
    }
    if url.contains("::") {
        return refuse("names a program");
    }
    let host = url.split_once(':').map_or("", |(host, _)| host.rsplit_once('@').map_or(host, |(_, host)| host));
    if host.starts_with('-') { refuse("names no host") } else { Ok(()) }
}

/// Removes a directory of ours, if it is there.
pub(super) fn remove_if_there(path: &Path) -> Result<()> {
    match FileIdentity::of_entry(path) {
        Ok(identity) => remove_tree(path, identity),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::unavailable(format!("cannot look at {}", path.display())).because(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t21_addresses_that_run_something_are_refused() {
        for bad in [
            "",
            "-x",
            "ext::sh -c id",
            "fd::7",
            "ssh://-oProxyCommand=id/x",
            "-oProxyCommand=id:x",
            "me@-x:y",
            "ftp://example.org/x",
            "https://example.org/\nx",
        ] {
            assert!(check_url(bad).is_err(), "{bad:?}");
        }
        for good in [
            "https://token@example.org/a.git",
            "git@example.org:a/b.git",
            "ssh://git@example.org/a",
            "/srv/a",
            "file:///srv/a",
        ] {
            check_url(good).unwrap();
        }
    }

    #[test]
    fn p29_a_mirror_is_not_named_after_a_password() {
        let mirrors = Path::new("/mirrors");
        let plain = path_for_url(mirrors, "https://example.org/a/b.git");
        assert_eq!(plain, path_for_url(mirrors, "https://me:secret@example.org/a/b.git"));
        assert_ne!(plain, path_for_url(mirrors, "https://example.org/c/b.git"));
    }
}
