//! The default branch of the project that a repository is a clone or a fork of.
//!
//! Whoever does not write the project's ledger reads there what became of proposals. Of the user's refs the one that
//! follows that branch is moved, as by any fetch, and no other.

use std::path::PathBuf;

use waypost_core::{Error, Result};

use crate::checkout::Checkout;
use crate::history::{History, has_commit, offline, on_branch};
use crate::run::{Git, Own, UPLOAD};

/// Which remotes are the project, the first that is there.
const REMOTES: &[&str] = &["upstream", "origin"];

/// What default branches are called, where nobody says so.
const BRANCHES: &[&str] = &["main", "master"];

/// The default branch of the project, as far as the last fetch saw it.
pub struct Upstream {
    git: Git,
    git_dir: PathBuf,
    revision: String,
}

impl Upstream {
    /// Finds it. None if nothing of it was fetched, or git does not have it.
    pub fn of(checkout: &Checkout) -> Result<Option<Upstream>> {
        let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
        let git = Git::of_repository(git_dir)?;
        for remote in REMOTES {
            if let Some(branch) = known_branch(&git, remote)? {
                let revision = format!("refs/remotes/{remote}/{branch}");
                return Ok(Some(Upstream { git, git_dir: git_dir.clone(), revision }));
            }
        }
        Ok(None)
    }

    /// Returns what a file says there. None if there is no such file.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let found = offline(&self.git).args(["ls-tree", "-z", "--full-tree", &self.revision, "--", path]).stdout()?;
        if !found.starts_with("100") {
            return Ok(None);
        }
        offline(&self.git).args(["cat-file", "blob", &format!("{}:{path}", self.revision)]).bytes().map(Some)
    }

    /// Returns what a file was there, at each time.
    pub fn history(&self, path: &str) -> Result<History> {
        on_branch(&self.git, &self.git_dir, &self.revision, path)
    }
}

/// What a fetch of the project's default branch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// What others call the branch.
    pub name: String,
    /// In a rehearsal: what would be done.
    pub commands: Vec<String>,
}

/// Fetches the project's default branch. None if it has no remote. A rehearsal only says how.
pub fn fetch(checkout: &Checkout, own: Own, is_rehearsal: bool) -> Result<Option<Fetched>> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(None) };
    let git = Git::of_repository(git_dir)?;
    let remotes = git.command().arg("remote").stdout()?;
    let Some(remote) = REMOTES.iter().find(|known| remotes.lines().any(|name| name == **known)) else {
        return Ok(None);
    };
    let unreachable = |error: &Error| {
        Error::unavailable(format!("cannot fetch {remote}"))
            .because(error.full_message())
            .hint("try again when it can be reached")
    };
    let mut branch = known_branch(&git, remote)?;
    if branch.is_none() {
        let ask = git.network(own).args(["ls-remote", "--symref", UPLOAD, "--", remote, "HEAD"]);
        if is_rehearsal {
            return Ok(Some(Fetched { name: (*remote).to_owned(), commands: vec![ask.line()] }));
        }
        let said = ask.stdout().map_err(|error| unreachable(&error))?;
        let named = said.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD"));
        branch = named.map(str::to_owned);
    }
    // A remote without any commit has nothing to say.
    let Some(branch) = branch else { return Ok(None) };
    let fetch = git.fetch(own, remote, &format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}"));
    let mut fetched = Fetched { name: format!("{remote}/{branch}"), commands: Vec::new() };
    if is_rehearsal {
        fetched.commands.push(fetch.line());
    } else {
        fetch.stdout().map_err(|error| unreachable(&error))?;
    }
    Ok(Some(fetched))
}

/// Returns which branch of a remote is its default one, as far as its refs here say it.
fn known_branch(git: &Git, remote: &str) -> Result<Option<String>> {
    let prefix = format!("refs/remotes/{remote}/");
    let head = offline(git).args(["symbolic-ref", "--quiet", &format!("{prefix}HEAD")]).answer()?;
    let named = head.as_deref().and_then(|head| head.strip_prefix(&prefix));
    for branch in named.into_iter().chain(BRANCHES.iter().copied()) {
        if has_commit(git, &format!("{prefix}{branch}"))? {
            return Ok(Some(branch.to_owned()));
        }
    }
    Ok(None)
}
