//! Waypost's merge driver in git's configuration, and files that git could not merge.

use std::path::Path;

use waypost_core::model::Vcs;
use waypost_core::{Error, Result};
use waypost_fs::read_small_file;

use super::checkout::Checkout;
use super::driver_line::{ARGUMENTS, own_driver};
use super::git_layout;
use super::run::{Git, set_config, unset_config};

pub use super::driver_line::DRIVER_NAME;

/// The attribute of files that the driver merges.
pub const ATTRIBUTE: &str = "merge=waypost";

/// A ledger, for the configuration of its merge driver.
#[derive(Clone, Copy, Debug)]
pub struct DriverRequest<'a> {
    /// The worktree that has the ledger.
    pub root: &'a Path,
    /// The ledger's path in the worktree.
    pub name: &'a str,
    /// Whether another tool created the ledger, so that no file of ours can ask for the driver. This clone's own attributes
    /// ask for it then, unless tracked ones choose another driver.
    pub is_foreign: bool,
    /// The user's home directory.
    pub home: Option<&'a Path>,
}

/// Configures the running program as the merge driver of this clone, if the attributes ask for the driver and git's
/// configuration does not have it.
///
/// If there is nothing to do, it only reads a few small files.
pub fn ensure_driver(checkout: &Checkout, request: DriverRequest<'_>) -> Result<()> {
    let DriverRequest { root, name, is_foreign, home } = request;
    let is_git = checkout.vcs == Vcs::Git || (checkout.vcs == Vcs::Jj && root.join(".git").exists());
    let Some(git_dir) = checkout.git_dir.as_deref().filter(|_| is_git) else { return Ok(()) };
    let own_text = remove_former_filter(git_dir, name)?;
    let directory = root.join(name).parent().map_or_else(|| root.to_owned(), Path::to_owned);
    let tracked = [directory.join(".gitattributes"), root.join(".gitattributes")];
    let own = git_dir.join("info/attributes");
    if !asks(&own_text) && !tracked.iter().any(|file| asks_for_driver(file)) {
        if !is_foreign || tracked.iter().chain([&own]).any(|file| chooses_driver(file)) {
            return Ok(());
        }
        add_line(&own, &format!("/{name} {ATTRIBUTE}"))?;
    }
    let key = format!("merge.{DRIVER_NAME}.driver");
    // The repository's own configuration overrides the user's, and was read when the checkout was found.
    let driver = checkout.git_setting(&key).or_else(|| git_layout::setting(git_dir, home, &key));
    if driver.is_some_and(|driver| !is_stale(&driver)) {
        return Ok(());
    }
    let Some(driver) = own_driver() else { return Ok(()) };
    let config = git_dir.join("config");
    // The driver comes last: as long as it is missing, the next command tries again.
    set_config(&config, &format!("merge.{DRIVER_NAME}.name"), "merges issues field by field")?;
    set_config(&config, &key, driver)
}

/// Removes the filter that former versions of this program configured for large ledgers. Returns the attributes of the clone.
fn remove_former_filter(git_dir: &Path, name: &str) -> Result<String> {
    let attributes = git_dir.join("info/attributes");
    let line = format!("/{name} filter=waypost");
    let text = read_small_file(&attributes)?.unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    if !text.lines().any(|found| found == line) {
        return Ok(text);
    }
    let key = "filter.waypost.clean";
    if git_layout::setting(git_dir, None, key).is_some_and(|filter| filter.ends_with(" clean-ledger")) {
        unset_config(&git_dir.join("config"), key)?;
    }
    // The attribute comes last: as long as it is there, the next command tries again.
    let others: String = text.split_inclusive('\n').filter(|found| found.trim_end() != line).collect();
    replace_attributes(&attributes, others.as_bytes())?;
    Ok(others)
}

/// Returns whether an attributes file asks for the driver.
pub fn asks_for_driver(attributes: &Path) -> bool {
    let Ok(Some(text)) = read_small_file(attributes) else { return false };
    asks(&String::from_utf8_lossy(&text))
}

fn asks(attributes: &str) -> bool {
    let asks = |line: &str| !line.starts_with('#') && line.split_whitespace().any(|word| word == ATTRIBUTE);
    attributes.lines().any(|line| asks(line.trim()))
}

/// Returns whether an attributes file chooses how ledgers are merged.
fn chooses_driver(attributes: &Path) -> bool {
    let Ok(Some(text)) = read_small_file(attributes) else { return false };
    let chooses = |line: &str| {
        let mut words = line.split_whitespace();
        let is_of_ledger = words.next().is_some_and(|pattern| pattern.contains("beads") || pattern.contains("jsonl"));
        is_of_ledger && words.any(|word| word.starts_with("merge") || word == "-merge" || word == "binary")
    };
    String::from_utf8_lossy(&text).lines().any(|line| !line.starts_with('#') && chooses(line.trim()))
}

/// Adds a line to the attributes of a clone.
fn add_line(file: &Path, line: &str) -> Result<()> {
    let mut content = read_small_file(file)?.unwrap_or_default();
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    content.extend_from_slice(format!("{line}\n").as_bytes());
    replace_attributes(file, &content)
}

fn replace_attributes(file: &Path, content: &[u8]) -> Result<()> {
    if file.is_symlink() {
        return Err(Error::refused(format!("{} is a link", file.display())));
    }
    let cannot = |error| Error::unavailable(format!("cannot write {}", file.display())).because(error);
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    waypost_fs::replace(file, content, 0o644).map_err(cannot)
}

/// Returns the driver with which git merges a file, according to all attributes: a name, `set`, `unset` or `unspecified`.
pub fn driver_of(root: &Path, name: &str) -> Result<String> {
    let answer = Git::in_worktree(root)?.command().args(["check-attr", "-z", "merge", "--", name]).stdout()?;
    Ok(answer.split('\0').nth(2).unwrap_or_default().to_owned())
}

/// Returns whether Waypost configured this driver and its program does not exist any more.
fn is_stale(driver: &str) -> bool {
    driver_program(driver).is_some_and(|program| program.starts_with('/') && !Path::new(&program).exists())
}

/// Returns the program of a driver that Waypost configured.
fn driver_program(driver: &str) -> Option<String> {
    let program = driver.strip_suffix(ARGUMENTS)?;
    let program = program.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(program);
    Some(program.replace("'\\''", "'"))
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
    Git::in_worktree(root)?.for_commits().command().args(["--literal-pathspecs", "add", "--", path]).stdout().map(drop)
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
