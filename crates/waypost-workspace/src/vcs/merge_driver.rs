//! How git merges a file: the driver that it is told to use, and what it could not merge.

use std::path::Path;

use waypost_core::Result;
use waypost_core::model::Vcs;

use super::checkout::Checkout;
use super::git_layout;
use super::run::Git;

/// What git calls our driver.
const NAME: &str = "waypost";

/// What follows the program in the driver's command line. Git puts files in place of the letters.
const ARGUMENTS: &str = " merge-driver %O %A %B %P";

/// What attributes say of a file that our driver merges.
pub const ATTRIBUTE: &str = "merge=waypost";

/// Makes git use a program as our driver, in this clone, if the attributes of a directory ask for the driver and nobody
/// has said what it is.
///
/// When nothing is to be done, that costs reading a few small files. `program` is what a shell calls the program, if it
/// can be called at all. `home` is the user's.
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
    let key = format!("merge.{NAME}.driver");
    if let Some(driver) = git_layout::setting(git_dir, home, &key)
        && !is_dead(&driver)
    {
        return Ok(());
    }
    let Some(program) = program() else { return Ok(()) };
    let git = Git::of_repository(git_dir)?;
    let set = |key: &str, value: &str| git.command().args(["config", "--local", key, value]).stdout().map(drop);
    // The driver last: as long as it is not there, the next command tries again.
    set(&format!("merge.{NAME}.name"), "merges issues field by field")?;
    set(&key, &format!("{program}{ARGUMENTS}"))
}

/// Tells whether attributes ask for our driver.
pub fn asks_for_driver(attributes: &Path) -> bool {
    let Ok(text) = std::fs::read(attributes) else { return false };
    let text = String::from_utf8_lossy(&text);
    let asks = |line: &str| !line.starts_with('#') && line.split_whitespace().any(|word| word == ATTRIBUTE);
    text.lines().any(|line| asks(line.trim()))
}

/// Tells whether a driver is one that we set, of a program that is not there any more.
fn is_dead(driver: &str) -> bool {
    let Some(program) = driver.strip_suffix(ARGUMENTS) else { return false };
    let program = program.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(program);
    let program = program.replace("'\\''", "'");
    program.starts_with('/') && !Path::new(&program).exists()
}

/// A file that git could not merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmerged {
    /// What both sides come from, if there is such a thing.
    pub base: Option<Vec<u8>>,
}

/// Finds out whether git has a file as unmerged, by its path in a worktree.
pub fn unmerged(checkout: &Checkout, root: &Path, path: &str) -> Result<Option<Unmerged>> {
    if checkout.vcs != Vcs::Git {
        return Ok(None);
    }
    let git = Git::in_worktree(root)?;
    let listed = git.command().args(["--literal-pathspecs", "ls-files", "-u", "-z", "--", path]).stdout()?;
    if listed.is_empty() {
        return Ok(None);
    }
    // Each is the mode, the object and the stage; the first stage is the base.
    let object = listed.split('\0').find_map(|entry| {
        let mut words = entry.split('\t').next()?.split(' ').skip(1);
        let object = words.next()?;
        (words.next()? == "1").then(|| object.to_owned())
    });
    let base = object.map(|object| git.command().args(["cat-file", "blob", &object]).bytes()).transpose()?;
    Ok(Some(Unmerged { base }))
}

/// Tells git that a file is merged as it is: this path alone is added.
pub fn stage(root: &Path, path: &str) -> Result<()> {
    Git::in_worktree(root)?.command().args(["--literal-pathspecs", "add", "--", path]).stdout().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_of_ours_whose_program_is_gone_is_dead() {
        for (driver, expected) in [
            ("way merge-driver %O %A %B %P", false),
            ("/nowhere/way merge-driver %O %A %B %P", true),
            ("'/no where/it'\\''s/way' merge-driver %O %A %B %P", true),
            ("/proc/self/exe merge-driver %O %A %B %P", false),
            ("/nowhere/other --merge %A", false),
        ] {
            assert_eq!(is_dead(driver), expected, "{driver}");
        }
    }
}
