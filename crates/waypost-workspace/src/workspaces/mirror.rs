//! Mirrors: bare repositories that only Waypost writes, and whose objects workspaces borrow.
//!
//! A workspace that borrowed from the user's own repository would break at the next garbage collection there. A mirror
//! is never garbage-collected, only repacked, and has refs for every workspace. On the same file system it costs almost
//! no space: packs are linked, not copied.

use std::path::{Path, PathBuf};

use waypost_core::digest::fnv;
use waypost_core::{Error, Result, url_text};

use super::model::{Name, Plan};
use crate::vcs::checkout::Checkout;
use crate::vcs::config_file::ConfigFile;
use crate::vcs::identity::repository_id;
use crate::vcs::run::{Git, Tool, set_config};

/// The arguments of a fetch that gets the requested refs and nothing else.
pub(super) const FETCH: [&str; 7] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--update-shallow",
];

/// A fetch from another repository on this machine, without refspecs yet. Git reads both with our configuration.
pub(super) fn fetch_local(git: &Git, from: &Path, options: &[&str]) -> Result<Tool> {
    let source = Git::of_repository(from)?;
    let fetch = git.command().args(FETCH).args(options).arg(source.upload_pack());
    Ok(fetch.arg("--").arg(from).using(&source))
}

/// A mirror, which may not exist yet.
pub(super) struct Mirror {
    path: PathBuf,
}

impl Mirror {
    pub(super) fn of(plan: &Plan) -> Result<Mirror> {
        let path = plan.mirror.clone();
        let path = path.ok_or_else(|| Error::refused(format!("workspace {} borrows from no mirror", plan.name)))?;
        Ok(Mirror { path })
    }

    /// The mirror at a path, of any repository.
    pub(super) fn at(path: &Path) -> Mirror {
        Mirror { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Git on the mirror. A fetch keeps its pack, so that it arrives completely or not at all.
    pub(super) fn git(&self) -> Result<Git> {
        Ok(Git::of_repository(&self.path)?.offline().with_setting("fetch.unpackLimit", "1"))
    }

    /// The directory of its templates.
    pub(super) fn templates(&self) -> PathBuf {
        self.path.with_extension("templates")
    }

    /// Fetches a commit from a local repository into a ref.
    pub(super) fn fetch_from(&self, repository: &Path, commit: &str, reference: &str) -> Result<()> {
        let fetch = fetch_local(&self.git()?, repository, &[])?;
        fetch.arg(format!("+{commit}:{reference}")).stdout().map(drop)
    }

    /// Fetches several commits from a local repository, each into its ref, atomically.
    pub(super) fn fetch_all_from(&self, repository: &Path, commits: &[(String, String)]) -> Result<()> {
        let fetch = fetch_local(&self.git()?, repository, &["--atomic"])?;
        let commits = commits.iter().map(|(commit, reference)| format!("+{commit}:{reference}"));
        fetch.args(commits).stdout().map(drop)
    }

    /// Points a ref to a commit. Returns false if the mirror does not have the commit.
    pub(super) fn point(&self, reference: &str, commit: &str) -> Result<bool> {
        // Git refuses to point a ref to a missing object.
        self.git()?.command().args(["update-ref", reference, commit]).succeeds()
    }
}

/// Writes a mirror's settings: its source, and no garbage collection.
pub(super) fn write_settings(mirror: &Path, source: &str) -> Result<()> {
    let file = mirror.join("config");
    let settings =
        [("gc.auto", "0"), ("gc.pruneExpire", "never"), ("maintenance.auto", "false"), ("waypost.source", source)];
    for (key, value) in settings {
        set_config(&file, key, value)?;
    }
    Ok(())
}

/// Returns the name of a ref that keeps a commit of a workspace.
pub(super) fn keep(name: &Name, what: &str) -> String {
    format!("refs/waypost/keep/{name}/{what}")
}

/// Returns the path of the mirror of a checkout's repository. It may not exist.
pub fn path_for_checkout(mirrors: &Path, checkout: &Checkout) -> Result<PathBuf> {
    Ok(match repository_id(&checkout.private_dir)? {
        Some(id) => mirrors.join(format!("{id}.git")),
        None => named(mirrors, &checkout.repository_name(), &checkout.shared_dir.to_string_lossy()),
    })
}

/// Returns the path of the mirror of a remote repository.
pub(super) fn path_for_url(mirrors: &Path, url: &str) -> PathBuf {
    let url = url_text::without_password(url);
    let name = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or("repository");
    named(mirrors, name.strip_suffix(".git").unwrap_or(name), &url)
}

fn named(mirrors: &Path, name: &str, whole: &str) -> PathBuf {
    let slug: String = name.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    mirrors.join(format!("{slug}-{:016x}.git", fnv(whole.as_bytes())))
}

/// Refuses a partial clone, which does not have all of its objects.
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

/// Refuses a URL that names a program, or whose host looks like an option.
pub(super) fn check_url(url: &str) -> Result<()> {
    const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];
    let refuse = |why: &str| Err(Error::refused(format!("{} {why}", url_text::without_password(url))));
    if url.is_empty() || url.starts_with('-') || url.contains(|char: char| char.is_control()) {
        return refuse("is not a URL");
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        if !SCHEMES.contains(&scheme) {
            return refuse("has a scheme that is not allowed");
        }
        return if host.starts_with('-') { refuse("names no host") } else { Ok(()) };
    }
    if url.contains("::") {
        return refuse("names a program");
    }
    let host = url.split_once(':').map_or("", |(host, _)| host.rsplit_once('@').map_or(host, |(_, host)| host));
    if host.starts_with('-') { refuse("names no host") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t21_urls_that_run_a_program_are_refused() {
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
