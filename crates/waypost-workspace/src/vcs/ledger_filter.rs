//! Waypost's filter in git's configuration: it puts the appended changes of a ledger in their places before git stores it.
//!
//! The attributes and the configuration of the clone name it, and no tracked file does: a clone without large ledgers needs no
//! filter. Git calls it whenever it compares or stores the file.

use std::path::Path;

use waypost_core::model::Vcs;
use waypost_core::{Error, Result};

use super::checkout::Checkout;
use super::git_layout;
use super::git_settings::{FILTER_KEY, filter_program, own_filter};
use super::merge_driver::{add_line, has_line};
use super::run::Git;

/// The filter's name in git's configuration.
const FILTER_NAME: &str = "waypost";

/// Configures the running program as the filter of a ledger, unless the clone has it already. Returns whether git filters the
/// ledger now.
///
/// `name` is the ledger's path in the worktree `root`. If there is nothing to do, this reads two small files.
pub fn ensure_filter(checkout: &Checkout, root: &Path, name: &str) -> Result<bool> {
    let Some(git_dir) = checkout.git_dir.as_deref().filter(|_| checkout.vcs == Vcs::Git) else { return Ok(false) };
    // Other names have a meaning in patterns.
    if !name.chars().all(|char| char.is_ascii_alphanumeric() || "/._-".contains(char)) {
        return Ok(false);
    }
    let attributes = git_dir.join("info/attributes");
    let line = format!("/{name} filter={FILTER_NAME}");
    let configured = git_layout::setting(git_dir, None, FILTER_KEY);
    let is_configured = match configured.as_deref().map(filter_program) {
        // Another program of this name: the user's choice.
        Some(None) => return Ok(false),
        Some(Some(program)) => Path::new(&program).exists(),
        None => false,
    };
    let has_attribute = has_line(&attributes, &line);
    if is_configured && has_attribute {
        return Ok(true);
    }
    let Some(filter) = own_filter() else { return Ok(false) };
    let git = Git::in_worktree(root)?;
    let used = || {
        let answer = git.command().args(["check-attr", "-z", "filter", "--", name]).stdout()?;
        Ok::<_, Error>(answer.split('\0').nth(2).unwrap_or_default().to_owned())
    };
    // Large files of git-lfs and encrypted ones need their own filters.
    if !["unspecified", FILTER_NAME].contains(&used()?.as_str()) {
        return Ok(false);
    }
    git.command().args(["config", "--local", FILTER_KEY, &filter]).stdout()?;
    if !has_attribute {
        add_line(&attributes, &line)?;
    }
    Ok(used()? == FILTER_NAME)
}
