//! The ledger of a repository and that of its remote, brought together.

use std::path::{Path, PathBuf};

use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::merge::merge;
use waypost_core::{Error, Result};
use waypost_workspace::Own;
use waypost_workspace::sync::{self, Request};

use crate::ledger::{check_inside, file_of};
use crate::place::Place;

pub use waypost_workspace::sync::Synced;

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether the remote gets anything.
    pub push: bool,
    /// Whether nothing is changed, and what would be done is written down.
    pub is_rehearsal: bool,
}

/// Brings the ledger of a place together with that of its remote. `say` is told of each step.
pub fn sync(place: &Place, options: Options, say: &dyn Fn(&str)) -> Result<Synced> {
    let checkout = place.require_checkout()?;
    let file = file_of(place)?;
    let (root, path) = worktree_of(place, file.path())?;
    check_inside(file.path(), &root)?;
    let request = Request {
        checkout,
        root: &root,
        path: &path,
        push: options.push,
        is_rehearsal: options.is_rehearsal,
        own: Own {
            ssh: ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| place.variables.get(name).is_some()),
            askpass: place.variables.get("GIT_ASKPASS").is_some(),
        },
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

/// Returns the worktree that a ledger is in, and its path there.
fn worktree_of(place: &Place, file: &Path) -> Result<(PathBuf, String)> {
    let checkout = place.require_checkout()?;
    // A worktree may lie inside another.
    let roots = place.home_worktree.iter().chain(&checkout.root);
    let root = roots.filter(|root| file.starts_with(root)).max_by_key(|root| root.as_os_str().len());
    let path = root.and_then(|root| Some((root.clone(), file.strip_prefix(root).ok()?.to_str()?.to_owned())));
    path.ok_or_else(|| Error::invalid(format!("the ledger {} is in no worktree", file.display())))
}

/// Merges two versions of a ledger. What markers of an earlier conflict enclose is merged first.
#[expect(clippy::unnecessary_wraps, reason = "a merge of bytes may be refused")]
fn merged(base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>> {
    let read = |bytes: &[u8]| {
        let document = Document::parse(bytes.to_vec());
        conflict::heal(&document).unwrap_or(document)
    };
    let document = merge(base.map(read).as_ref(), &read(ours), &read(theirs));
    Ok(document.parts().concat())
}
