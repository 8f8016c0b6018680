//! Synchronizes the ledger of a repository with its remote's.

use std::time::Duration;

use waypost_core::ledger::conflict;
use waypost_core::ledger::merge::merge;
use waypost_core::{Error, Result};
use waypost_workspace::NetworkOptions;
use waypost_workspace::sync::{self, Request};
use waypost_workspace::upstream::{self, Upstream};

use crate::issues::forks;
use crate::issues::repos::{Repo, check_inside};
use crate::machine::environment::Variables;
use crate::machine::place::Place;

pub use waypost_workspace::sync::{Push, Synced};
pub use waypost_workspace::upstream::Fetched;

/// SyncOptions of a synchronization.
#[derive(Clone, Copy, Debug)]
pub struct SyncOptions {
    /// The commits that may be pushed to the remote.
    pub push: Push,
    /// Whether to change nothing and only report the steps.
    pub dry_run: bool,
    /// Maximum time to wait for the remote; `None` means no limit.
    pub timeout: Option<Duration>,
    /// Whether to accept any number of new issues.
    pub accept_growth: bool,
}

/// Number of new issues that need no confirmation.
const MAX_NEW_ISSUES: usize = 10_000;

/// Returns the commits that the configuration allows to push.
pub fn push_setting(place: &Place) -> Push {
    match place.config.text("sync.push").as_deref() {
        Some("off") => Push::Nothing,
        Some("branch") => Push::Branch,
        _ => Push::Ledger,
    }
}

/// Returns the configured maximum time to wait for a remote.
pub fn sync_timeout(place: &Place) -> Option<Duration> {
    place.config.duration("sync.timeout").filter(|timeout| !timeout.is_zero())
}

/// Merges the ledger of a repository with its remote's, in both directions. Calls `report` before each step.
pub fn sync(repo: &Repo, variables: &Variables, options: SyncOptions, report: &dyn Fn(&str)) -> Result<Synced> {
    if let Some(reason) = &repo.unreachable {
        return Err(Error::unavailable("a workspace's copy of a ledger is not synchronized").because(reason));
    }
    let file = &repo.file;
    let path = file.path().strip_prefix(&repo.root).ok().and_then(|path| path.to_str());
    let Some(path) = path else {
        return Err(Error::invalid(format!("the ledger {} is in no worktree", file.path().display())));
    };
    check_inside(file.path(), &repo.root)?;
    if !repo.is_separate() {
        forks::require_choice(&repo.checkout.private_dir)?;
    }
    let request = Request {
        checkout: &repo.checkout,
        root: &repo.root,
        path,
        is_separate: repo.is_separate(),
        push: options.push,
        dry_run: options.dry_run,
        network: network_options(variables, options.timeout),
    };
    let ledger = sync::Ledger {
        read: &|| {
            let exists = file.path().symlink_metadata().is_ok();
            file.read().map(|document| exists.then(|| document.parts().concat()))
        },
        change: &|change| file.rewrite(change),
        merge: &|base, ours, theirs| merge_bytes(base, ours, theirs, options.accept_growth),
    };
    sync::sync(request, ledger, report)
}

/// Fetches the default branch of a project whose ledger the user may not write, to see decisions on proposals. Returns
/// `None` without a remote to fetch from.
pub fn fetch_project(repo: &Repo, variables: &Variables, options: SyncOptions) -> Result<Option<Fetched>> {
    let fetched = upstream::fetch(&repo.checkout, network_options(variables, options.timeout), options.dry_run)?;
    if fetched.is_some() && !options.dry_run {
        keep_fetched(repo)?;
    }
    Ok(fetched)
}

/// Keeps the project's ledger as it was fetched, for the queries of a contributor.
fn keep_fetched(repo: &Repo) -> Result<()> {
    let path = repo.file.path().strip_prefix(&repo.root).ok().and_then(|path| path.to_str());
    let (Some(path), Some(upstream)) = (path, Upstream::of(&repo.checkout)?) else { return Ok(()) };
    let (file, content) = (repo.fetched_file(), upstream.read(path)?.unwrap_or_default());
    repo.checkout.private_dir.create()?;
    waypost_fs::replace(&file, &content, 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))
}

/// Returns the user's network settings.
pub(crate) fn network_options(variables: &Variables, timeout: Option<Duration>) -> NetworkOptions {
    NetworkOptions {
        timeout,
        ssh: ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| variables.get(name).is_some()),
        askpass: variables.get("GIT_ASKPASS").is_some(),
    }
}

/// Merges two versions of a ledger. Versions between conflict markers are merged first. Refuses sudden growth, unless the
/// caller accepts it: everyone who can push to the remote could fill every clone.
fn merge_bytes(base: Option<&[u8]>, ours: &[u8], theirs: &[u8], accept_growth: bool) -> Result<Vec<u8>> {
    let read = |version: &str, bytes: &[u8]| {
        conflict::parse_version(bytes.to_vec()).map_err(|error| error.within(format!("the {version} ledger")))
    };
    let ours = read("local", ours)?;
    let base = base.map(|base| read("last synchronized", base)).transpose()?;
    let document = merge(base.as_ref(), &ours, &read("remote", theirs)?);
    let added = document.len().saturating_sub(ours.len());
    if !accept_growth && !ours.is_empty() && added > MAX_NEW_ISSUES.max(ours.len()) {
        return Err(Error::refused(format!(
            "the remote has {added} new issues, and the ledger has {} so far; nothing was changed",
            ours.len()
        ))
        .hint("look at the remote's ledger, and then: way sync --accept-growth"));
    }
    Ok(document.parts().concat())
}
