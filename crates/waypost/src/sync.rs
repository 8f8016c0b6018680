//! The ledger of a repository and that of its remote, brought together.

use std::time::Duration;

use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::merge::merge;
use waypost_core::{Error, Result};
use waypost_workspace::Own;
use waypost_workspace::sync::{self, Request};
use waypost_workspace::upstream;

use crate::environment::Variables;
use crate::ledger::check_inside;
use crate::place::Place;
use crate::repos::Repo;

pub use waypost_workspace::sync::Synced;
pub use waypost_workspace::upstream::Fetched;

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether the remote gets anything.
    pub push: bool,
    /// Whether nothing is changed, and what would be done is written down.
    pub is_rehearsal: bool,
    /// How long a remote may take to answer; for ever, if nothing is said.
    pub limit: Option<Duration>,
}

/// Returns how long a remote may take to answer, as the configuration of a place says.
pub fn limit(place: &Place) -> Option<Duration> {
    place.config.duration("sync.timeout").filter(|limit| !limit.is_zero())
}

/// Brings the ledger of a repository together with that of its remote. `say` is told of each step.
pub fn sync(repo: &Repo, variables: &Variables, options: Options, say: &dyn Fn(&str)) -> Result<Synced> {
    let file = &repo.file;
    let path = file.path().strip_prefix(&repo.root).ok().and_then(|path| path.to_str());
    let Some(path) = path else {
        return Err(Error::invalid(format!("the ledger {} is in no worktree", file.path().display())));
    };
    check_inside(file.path(), &repo.root)?;
    let request = Request {
        checkout: &repo.checkout,
        root: &repo.root,
        path,
        push: options.push,
        is_rehearsal: options.is_rehearsal,
        own: own(variables, options.limit),
    };
    let ledger = sync::Ledger {
        read: &|| {
            let is_there = file.path().symlink_metadata().is_ok();
            file.read().map(|document| is_there.then(|| document.parts().concat()))
        },
        change: &|change| file.rewrite(change),
        merge: &merged,
    };
    sync::sync(request, ledger, say)
}

/// Fetches the default branch of a project whose ledger is not ours to write, so that what became of proposals is seen.
/// None if there is nowhere to fetch it from.
pub fn fetch_project(repo: &Repo, variables: &Variables, options: Options) -> Result<Option<Fetched>> {
    upstream::fetch(&repo.checkout, own(variables, options.limit), options.is_rehearsal)
}

/// Returns what the user says about the network.
pub(crate) fn own(variables: &Variables, limit: Option<Duration>) -> Own {
    Own {
        limit,
        ssh: ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| variables.get(name).is_some()),
        askpass: variables.get("GIT_ASKPASS").is_some(),
    }
}

/// Merges two versions of a ledger. What markers of an earlier conflict enclose is merged first.
#[expect(clippy::unnecessary_wraps, reason = "a merge of bytes may be refused")]
fn merged(base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>> {
    let read = |bytes: &[u8]| {
        let document = Document::parse(bytes.to_vec());
        conflict::resolve(&document).unwrap_or(document)
    };
    let document = merge(base.map(read).as_ref(), &read(ours), &read(theirs));
    Ok(document.parts().concat())
}
