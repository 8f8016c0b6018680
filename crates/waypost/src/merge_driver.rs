//! Merging ledgers: the driver that git calls, and what a merge without it left behind.

use std::path::{Path, PathBuf};

use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::merge::merge;
use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::merge_driver;

use crate::environment::Variables;
use crate::ledger::Ledger;
use crate::place::Place;

/// Makes git merge this clone's ledger with the program that runs, if the repository asks for it and nobody said
/// otherwise.
///
/// It is done on the way, by whoever writes first. Where it cannot be, a merge leaves conflict markers, and those are
/// read.
pub fn ensure_driver(place: &Place) {
    let (Some(checkout), Some((ledger, _))) = (&place.checkout, place.ledger()) else { return };
    let (Some(directory), Some(root)) = (ledger.parent(), root_of(&ledger)) else { return };
    let home = place.variables.home();
    let ensured = merge_driver::ensure_driver(checkout, root, directory, home.as_deref(), || program(&place.variables));
    if let Err(error) = ensured {
        log::debug!("git was not told how to merge the ledger: {}", error.full_message());
    }
}

/// Returns the line of attributes that asks git for our driver.
pub fn attributes() -> String {
    format!("issues.jsonl {}\n", merge_driver::ATTRIBUTE)
}

/// Tells whether attributes ask git for our driver.
pub fn asks_for_driver(attributes: &Path) -> bool {
    merge_driver::asks_for_driver(attributes)
}

/// Returns how a shell calls the program that runs: by its name, if that finds it, else by its path.
fn program(variables: &Variables) -> Option<String> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok()?;
    let name = own.file_name()?.to_str()?;
    let path = variables.get("PATH").unwrap_or_default();
    let found = std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let word = match found {
        Some(found) if std::fs::canonicalize(&found).is_ok_and(|found| found == own) => name,
        // Git would take a percent sign for one of its own.
        _ => own.to_str().filter(|path| !path.contains(['%', '\n']))?,
    };
    let is_plain = word.chars().all(|char| char.is_ascii_alphanumeric() || "/._-+".contains(char));
    Some(if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) })
}

/// The worktree that a ledger's file is in.
fn root_of(ledger: &Path) -> Option<&Path> {
    ledger.parent()?.parent()
}

/// Merges three files of ledgers.
pub fn merge_files(base: &Path, ours: &Path, theirs: &Path) -> Result<Vec<u8>> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path)
            .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))?;
        // A side may have been committed with markers in it.
        let document = Document::parse(bytes);
        Ok(conflict::resolve(&document).unwrap_or(document))
    };
    Ok(merge(Some(&read(base)?), &read(ours)?, &read(theirs)?).to_bytes())
}

/// What came of resolving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The ledger's file.
    pub path: PathBuf,
    /// How many issues had several versions; none if there were no markers.
    pub merged: Option<usize>,
    /// What is still to be said to the version control, as one would type it.
    pub next: Option<String>,
    /// Whether it was said.
    pub is_staged: bool,
}

/// Merges the versions that conflict markers in the ledger hold, and writes the result.
///
/// With `stage`, git is told that the file is merged. None if there are no markers, and nothing to tell.
pub fn resolve(place: &Place, ledger: &Ledger, stage: bool) -> Result<Option<Resolved>> {
    let checkout = place.require_checkout()?;
    let Some((path, _)) = place.ledger() else { return Ok(None) };
    let root = root_of(&path).unwrap_or(&path);
    let name = path_text::to_text(path.strip_prefix(root).unwrap_or(&path));
    let unmerged = merge_driver::unmerged(checkout, root, &name)?;
    let base = unmerged.as_ref().and_then(|unmerged| unmerged.base.clone()).map(Document::parse);
    let merged = ledger.rewrite(|document| {
        let versions = conflict::versions(document);
        Ok(versions.map(|versions| (versions.merge(base.as_ref()), versions.conflicting_issues())))
    })?;
    let next = match checkout.vcs {
        Vcs::Git if unmerged.is_some() => Some(format!("git add {name}")),
        Vcs::Hg | Vcs::Sl if merged.is_some() => Some(format!("{} resolve --mark {name}", checkout.vcs.as_str())),
        _ => None,
    };
    if merged.is_none() && next.is_none() {
        return Ok(None);
    }
    let is_staged = stage && unmerged.is_some();
    if is_staged {
        merge_driver::stage(root, &name)?;
    }
    Ok(Some(Resolved { path, merged, next: next.filter(|_| !is_staged), is_staged }))
}
