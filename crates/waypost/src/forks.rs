//! Clones that look like forks: until the user chooses a role, the tracked directory is hidden from version control.
//!
//! A first issue in a clone of another project's repository must not end up in a pull request by accident. A note says so
//! once, and the choice (`way init`, a role or a routing mode) makes the directory visible again.

use std::path::Path;

use waypost_core::ledger::role::Role;
use waypost_core::{Error, Result};
use waypost_workspace::{Checkout, worktrees};

use crate::place::{DOT_DIR, Place};
use crate::repos::role;

/// The file in the private directory that records what was decided about this clone.
const STATE_FILE: &str = "fork";

/// The pattern that hides the tracked directory.
const PATTERN: &str = "/.waypost/";

/// Whether the tracked directory is hidden.
const HIDDEN: &str = "hidden\n";
const VISIBLE: &str = "visible\n";

/// Hides the tracked directory of a clone that looks like a fork and whose user has not chosen a role. Returns a note the
/// first time. If the user has chosen meanwhile, makes the directory visible again.
pub(crate) fn check(place: &Place) -> Result<Option<String>> {
    let Some(checkout) = &place.checkout else { return Ok(None) };
    let state = std::fs::read_to_string(checkout.private_dir.join(STATE_FILE)).ok();
    let has_routing = place.config.text("routing.mode").is_some();
    match state.as_deref() {
        Some(HIDDEN) if has_routing || role(place).1.source != "default" => choose(place).map(|()| None),
        Some(_) => Ok(None),
        None if has_routing => Ok(None),
        None => {
            let (role, source) = role(place);
            if role != Role::Contributor || source.source != "default" {
                return Ok(None);
            }
            let is_hidden = hide(place)?;
            write_state(checkout, if is_hidden { HIDDEN } else { VISIBLE })?;
            let hidden = if is_hidden { "; until you choose, git does not see .waypost" } else { "" };
            Ok(Some(format!(
                "you may not have write access to this project: {}{hidden}. Choose: way init --contributor keeps your issues \
                 in a planning repository of your own; way init --maintainer keeps them here",
                source.because
            )))
        }
    }
}

/// Records that the user has chosen, and makes the tracked directory visible again.
pub fn choose(place: &Place) -> Result<()> {
    let Some(checkout) = &place.checkout else { return Ok(()) };
    match std::fs::read_to_string(checkout.private_dir.join(STATE_FILE)).as_deref() {
        Ok(VISIBLE) => return Ok(()),
        Ok(HIDDEN) => worktrees::include(checkout, PATTERN)?,
        _ => {}
    }
    write_state(checkout, VISIBLE)
}

/// Returns an error if the tracked directory is hidden because the user has not chosen a role.
pub(crate) fn require_choice(private_dir: &Path) -> Result<()> {
    if std::fs::read_to_string(private_dir.join(STATE_FILE)).is_ok_and(|state| state == HIDDEN) {
        return Err(Error::refused("this clone looks like a fork, and you have not chosen where its issues belong")
            .hint("to keep them in a planning repository of your own: way init --contributor")
            .hint("to keep them in this repository: way init --maintainer"));
    }
    Ok(())
}

/// Hides the tracked directory from the status of this clone. Returns false if it exists, because the project tracks it or
/// the user uses it already, or if the version control system has no list of patterns for one clone.
fn hide(place: &Place) -> Result<bool> {
    let (Some(checkout), Some(root)) = (&place.checkout, &place.home_worktree) else { return Ok(false) };
    let hides = checkout.git_dir.is_some() && !root.join(DOT_DIR).exists();
    if hides {
        worktrees::exclude(checkout, PATTERN)?;
    }
    Ok(hides)
}

fn write_state(checkout: &Checkout, state: &str) -> Result<()> {
    let file = checkout.private_dir.join(STATE_FILE);
    checkout.private_dir.create()?;
    waypost_fs::replace(&file, state.as_bytes(), 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))
}
