//! Waypost's merge driver in git's configuration, and files that git could not merge.

use std::path::Path;

use waypost_core::Result;
use waypost_core::model::Vcs;

use super::checkout::Checkout;
use super::git_layout;
use super::git_settings::{DRIVER_ARGUMENTS, driver_program};
use super::run::Git;

/// The driver's name in git's configuration.
const DRIVER_NAME: &str = "waypost";

/// The attribute of files that the driver merges.
pub const ATTRIBUTE: &str = "merge=waypost";

/// Configures a program as the merge driver of this clone, if `.gitattributes` asks for the driver and git's
/// configuration does not have it.
///
/// If there is nothing to do, it only reads a few small files. `program` returns the program's path, quoted for a
/// shell. `home` is the user's home directory.
pub fn ensure_driver(
    checkout: &Checkout,
    root: &Path,
    directory: &Path,
    home: Option<&Path>,
    program: impl FnOnce() -> Option<String>,
) -> Result<()> {
    let is_git = checkout.vcs == Vcs::Git || (checkout.vcs == Vcs::Jj && root.join(".git").exists());
    let Some(git_dir) = checkout.git_dir.as_deref().filter(|_| is_git) else { return Ok(()) };
    if ![directory, root].iter().any(|place| asks_for_driver(&place.join(".gitattributes"))) {
        return Ok(());
    }
    let key = format!("merge.{DRIVER_NAME}.driver");
    if let Some(driver) = git_layout::setting(git_dir, home, &key)
        && !is_stale(&driver)
    {
        return Ok(());
    }
    let Some(program) = program() else { return Ok(()) };
    let git = Git::of_repository(git_dir)?;
    let set = |key: &str, value: &str| git.command().args(["config", "--local", key, value]).stdout().map(drop);
    // The driver comes last: as long as it is missing, the next command tries again.
    set(&format!("merge.{DRIVER_NAME}.name"), "merges issues field by field")?;
    set(&key, &format!("{program}{DRIVER_ARGUMENTS}"))
}

/// Returns whether an attributes file asks for the driver.
pub fn asks_for_driver(attributes: &Path) -> bool {
    let Ok(text) = std::fs::read(attributes) else { return false };
    let text = String::from_utf8_lossy(&text);
    let asks = |line: &str| !line.starts_with('#') && line.split_whitespace().any(|word| word == ATTRIBUTE);
    text.lines().any(|line| asks(line.trim()))
}

/// Returns whether Waypost configured this driver and its program does not exist any more.
fn is_stale(driver: &str) -> bool {
    driver_program(driver).is_some_and(|program| program.starts_with('/') && !Path::new(&program).exists())
}

/// A file that git could not merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmerged {
    /// The common ancestor of both sides, if there is one.
    pub base: Option<Vec<u8>>,
}

/// Returns the state of a file that git's index has as unmerged, by its path in a worktree.
pub fn unmerged(checkout: &Checkout, root: &Path, path: &str) -> Result<Option<Unmerged>> {
    if checkout.vcs != Vcs::Git {
        return Ok(None);
    }
    let git = Git::in_worktree(root)?;
    let listed = git.command().args(["--literal-pathspecs", "ls-files", "-u", "-z", "--", path]).stdout()?;
    if listed.is_empty() {
        return Ok(None);
    }
    // Each entry has mode, object and stage; stage 1 is the base.
    let object = listed.split('\0').find_map(|entry| {
        let mut words = entry.split('\t').next()?.split(' ').skip(1);
        let object = words.next()?;
        (words.next()? == "1").then(|| object.to_owned())
    });
    let base = object.map(|object| git.command().args(["cat-file", "blob", &object]).bytes()).transpose()?;
    Ok(Some(Unmerged { base }))
}

/// Stages a file as merged. No other path is added.
pub fn stage(root: &Path, path: &str) -> Result<()> {
    Git::in_worktree(root)?.command().args(["--literal-pathspecs", "add", "--", path]).stdout().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_stale_if_waypost_set_it_and_its_program_is_gone() {
        for (driver, expected) in [
            ("way merge-driver %O %A %B %P", false),
            ("/nowhere/way merge-driver %O %A %B %P", true),
            ("'/no where/it'\\''s/way' merge-driver %O %A %B %P", true),
            ("/proc/self/exe merge-driver %O %A %B %P", false),
            ("/nowhere/other --merge %A", false),
        ] {
            assert_eq!(is_stale(driver), expected, "{driver}");
        }
    }
}
