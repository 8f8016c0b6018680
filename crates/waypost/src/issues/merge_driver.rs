//! Merging ledgers: the driver that git calls, and conflict markers from merges without it.

use std::path::{Path, PathBuf};

use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::merge::merge;
use waypost_core::model::Vcs;
use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::merge_driver::{self, DriverRequest};
use waypost_workspace::surroundings;

use crate::issues::ledger::Ledger;
use crate::issues::repos::Repo;
use crate::machine::place::{DOT_DIR, LedgerHome, Place};

/// Configures git to merge this clone's ledger with the running program, if the repository's attributes ask for it and the
/// user did not configure another driver.
///
/// The first command that writes does this. If it fails, a merge leaves conflict markers, which readers merge.
pub fn ensure_driver(place: &Place) {
    let (mut home, source) = place.ledger_home();
    let is_separate = home == LedgerHome::Separate;
    if is_separate {
        // Only sync merges the ledger's own branch. What other clones still write to its former home is merged by git.
        home = LedgerHome::Main;
    }
    let (Some(checkout), Some((ledger, _))) = (&place.checkout, place.ledger_at(home, source)) else { return };
    if is_separate && !ledger.exists() {
        return;
    }
    let Some((root, name)) = placed(&ledger) else { return };
    let home = place.variables.home();
    let request = DriverRequest { root, name: &name, is_foreign: is_foreign(&ledger), home: home.as_deref() };
    let ensured = merge_driver::ensure_driver(checkout, request);
    if let Err(error) = ensured {
        log::debug!("cannot configure git's merge driver for the ledger: {}", error.full_message());
    }
}

/// Returns why git does not merge a ledger of another tool with our driver, if so.
pub fn driver_problem(repo: &Repo) -> Option<String> {
    let path = repo.file.path();
    let (root, name) = placed(path).filter(|_| is_foreign(path))?;
    let is_git = repo.checkout.vcs == Vcs::Git && repo.checkout.git_dir.is_some();
    match merge_driver::driver_of(root, &name).ok().filter(|_| is_git)?.as_str() {
        merge_driver::DRIVER_NAME => None,
        "unspecified" => Some(format!("git merges {} as text until the next change by way", path.display())),
        other => Some(format!("git's attributes choose merge={other} for {}", path.display())),
    }
}

/// Returns whether another tool created a ledger, which is used in place.
fn is_foreign(ledger: &Path) -> bool {
    ledger.parent().and_then(Path::file_name).is_some_and(|dir| dir != DOT_DIR)
}

/// Returns the worktree that has a ledger's file, and the path of the file in it.
fn placed(ledger: &Path) -> Option<(&Path, String)> {
    let root = root_of(ledger)?;
    Some((root, path_text::to_text(ledger.strip_prefix(root).ok()?)))
}

/// Returns the attributes line that selects our driver.
pub fn driver_attributes() -> String {
    format!("issues.jsonl {}\n", merge_driver::ATTRIBUTE)
}

/// Returns whether an attributes file selects our driver.
pub fn asks_for_driver(attributes: &Path) -> bool {
    merge_driver::asks_for_driver(attributes)
}

/// Returns the worktree that has a ledger's file.
fn root_of(ledger: &Path) -> Option<&Path> {
    ledger.parent()?.parent()
}

/// Merges three ledger files.
pub fn merge_files(base: &Path, ours: &Path, theirs: &Path) -> Result<Vec<u8>> {
    let read = |path: &Path| {
        let bytes = std::fs::read(surroundings::resolve(path))
            .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))?;
        conflict::parse_version(bytes).map_err(|error| error.within(path.display()))
    };
    let theirs = if seeded_bug("drop_a_side") { ours } else { theirs };
    Ok(merge(Some(&read(base)?), &read(ours)?, &read(theirs)?).to_bytes())
}

/// The outcome of [`resolve_conflicts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The ledger's file.
    pub path: PathBuf,
    /// Number of issues with several versions; `None` if there were no conflict markers.
    pub merged: Option<usize>,
    /// The version control command that is still to be run.
    pub next: Option<String>,
    /// Whether git was told that the file is merged.
    pub is_staged: bool,
}

/// Merges the versions between conflict markers in the ledger, and writes the result.
///
/// With `stage`, also stages the file in git. Returns `None` if there are no markers and nothing to stage.
pub fn resolve_conflicts(place: &Place, ledger: &Ledger, stage: bool) -> Result<Option<Resolved>> {
    let checkout = place.require_checkout()?;
    let Some((path, _)) = place.ledger() else { return Ok(None) };
    let root = root_of(&path).unwrap_or(&path);
    let name = path_text::to_text(path.strip_prefix(root).unwrap_or(&path));
    let unmerged = match place.ledger_home().0 {
        LedgerHome::Separate => None,
        LedgerHome::Main | LedgerHome::Branch => merge_driver::unmerged(checkout, root, &name)?,
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_merge_of_three_files_has_the_changes_of_both_sides() {
        let dir = waypost_testkit::temp_dir();
        let file = |name: &str, lines: &str| {
            let path = dir.path().join(name);
            waypost_fs::replace(&path, lines.as_bytes(), 0o600).unwrap();
            path
        };
        let base = file("base", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
        let ours = file("ours", "{\"id\":\"a\",\"title\":\"ours\"}\n{\"id\":\"b\"}\n");
        let theirs = file("theirs", "{\"id\":\"a\"}\n{\"id\":\"b\",\"title\":\"theirs\"}\n{\"id\":\"c\"}\n");
        let merged = String::from_utf8(merge_files(&base, &ours, &theirs).unwrap()).unwrap();
        assert_eq!(merged, "{\"id\":\"a\",\"title\":\"ours\"}\n{\"id\":\"b\",\"title\":\"theirs\"}\n{\"id\":\"c\"}\n");
    }
}
