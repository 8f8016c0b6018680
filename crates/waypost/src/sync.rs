//! The ledger of a repository and that of its remote, brought together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use waypost_core::ledger::document::{Content, Document};
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
fn worktree_of(place: &Place, file: &std::path::Path) -> Result<(PathBuf, String)> {
    let checkout = place.require_checkout()?;
    // A worktree may lie inside another.
    let roots = place.home_worktree.iter().chain(&checkout.root);
    let root = roots.filter(|root| file.starts_with(root)).max_by_key(|root| root.as_os_str().len());
    let path = root.and_then(|root| Some((root.clone(), file.strip_prefix(root).ok()?.to_str()?.to_owned())));
    path.ok_or_else(|| Error::invalid(format!("the ledger {} is in no worktree", file.display())))
}

/// Merges two versions of a ledger, line by line.
#[expect(clippy::unnecessary_wraps, reason = "merging may fail")]
fn merged(base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>> {
    let records = |bytes: &[u8]| -> BTreeMap<String, Vec<u8>> {
        let document = Document::parse(bytes.to_vec());
        let lines = document.contents().zip(document.lines());
        lines
            .filter(|(content, _)| *content != Content::Blank)
            .map(|(content, line)| match content {
                Content::Issue(id) => (id, line.to_vec()),
                _ => (String::from_utf8_lossy(line).into_owned(), line.to_vec()),
            })
            .collect()
    };
    let (base, ours, theirs) = (records(base.unwrap_or_default()), records(ours), records(theirs));
    let mut all: BTreeMap<&String, &Vec<u8>> = ours.iter().collect();
    for (id, theirs) in &theirs {
        let line = match (ours.get(id), base.get(id)) {
            (Some(ours), Some(base)) if base == theirs => ours,
            (Some(ours), Some(base)) if base != ours => ours.max(theirs),
            (Some(ours), None) => ours.max(theirs),
            _ => theirs,
        };
        all.insert(id, line);
    }
    Ok(all.into_values().flat_map(|line| line.iter().copied().chain([b'\n'])).collect())
}
